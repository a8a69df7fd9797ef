"""Offsets as numbers: a CSV of row,col,offset, or matrices of offsets with a line for each value of the first
coordinate.

>>> [plain] = matrices(["0, 1, 2,", "4, 5, 6,"])
>>> plain.address.offsets.tolist(), plain.address.shape
([0, 1, 2, 4, 5, 6], (2, 3))

Numbers of a matrix are separated by commas, | or spaces. Brackets, braces and quotes around them, comments (#, //) and
blank lines are ignored. A line of words, such as a heading or a prompt, ends a matrix. An empty place between two
commas is an element without an offset.

Output of CUTLASS's example 03_visualize_layout: which element is at each offset, in the order of offsets.

>>> text = ["(0..3, 0)|(4, 0)(5, 0)  ", "(0..3, 1)|(4, 1)(5, 1)  "]
>>> [printed] = printouts(text)
>>> printed.address.offsets.tolist()
[0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]

A line has cells separated by |, each with --vectorize elements: a range such as (0..7, 3), single coordinates, or one
space for each offset without an element (one space for an empty cell). Blank lines group lines and mean nothing.
Prompts and comments are skipped. A command line, if there is one, says what the rest must be; without one, cells may
differ in size if every offset has an element.

A file of offsets in any of three forms: a CSV, a matrix of numbers, or the output of 03_visualize_layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcprobe.errors import DataError, UsageError
from tcprobe.layout.address import MOST_CELLS, AddressMap, Pair
from tcprobe.system import files

COLUMNS = ("row", "col", "offset")
LEAST_ROWS = 4  # with fewer lines, three columns without a header are a matrix
_COMMENT = re.compile(r"(?:#|//).*")
_BRACKETS = str.maketrans(dict.fromkeys("[]{}()\"'", " ") | {"|": ",", ";": ","})
_ROW = re.compile(r"[\s,]*[-+]?[0-9]")
_NUMBER = re.compile(r"[0-9]{1,12}")
_TWO_ROWS = re.compile(r"[\]})],?;? ?[\[{(]")


class Matrix(NamedTuple):
    """One table of numbers: its address map, the words above it, and the line where it starts."""

    address: AddressMap
    heading: str
    line: int


class _Lines(NamedTuple):
    """A heading, and the numbered lines of numbers below it; None is an empty place."""

    heading: str
    rows: list[tuple[int, list[int | None]]]


def matrices(lines: Sequence[str]) -> list[Matrix]:
    """All tables in a text, one if it is a CSV; DataError with the line or the element (a, b) that is wrong.

    Three columns without a header are a CSV if the first two number at least half of the elements of a box.
    """
    blocks = [block for block in _blocks(lines) if block.rows]
    if not blocks:
        raise DataError("no numbers; expected row,col,offset, a matrix of offsets, or a print-out.")
    return [_csv(block) if _is_csv(block) else _matrix(block) for block in blocks]


def _blocks(lines: Sequence[str]) -> Iterator[_Lines]:
    block, count = _Lines("", []), 0
    for number, line in enumerate(lines, 1):
        if _TWO_ROWS.search(line):
            raise DataError(f"line {number}: several rows on one line; expected a line for each.")
        text = _COMMENT.sub("", line).translate(_BRACKETS).strip()
        if _ROW.match(text):
            fields = [field.strip() for field in text.split(",")] if "," in text else text.split()
            if not fields[-1]:
                fields.pop()
            wrong = next((field for field in fields if field and not _NUMBER.fullmatch(field)), None)
            if wrong is not None:
                raise DataError(f"line {number}: {wrong[:40]!r} is not an offset of 0 or more.")
            block.rows.append((number, [int(field) if field else None for field in fields]))
            count += len(block.rows[-1][1])
        elif _words(number, text):
            yield block
            block = _Lines(text, [])
        if count > 3 * MOST_CELLS:
            raise DataError(f"line {number}: more than {3 * MOST_CELLS} numbers.")
    yield block


def _words(number: int, text: str) -> bool:
    """Whether a line that does not begin with a number has words; DataError if most of it is numbers nevertheless."""
    fields = text.replace(",", " ").split()
    other = [field for field in fields if not _NUMBER.fullmatch(field)]
    if 2 * len(other) < len(fields):
        raise DataError(f"line {number}: {other[0][:40]!r} is not an offset of 0 or more.")
    return bool(fields)


def _header(section: _Lines) -> list[str]:
    return [name.strip().lower() for name in section.heading.split(",")]


def _is_csv(section: _Lines) -> bool:
    if sorted(_header(section)) == sorted(COLUMNS):
        return True
    rows = [row for _, row in section.rows]
    if len(rows) < LEAST_ROWS or any(len(row) != len(COLUMNS) for row in rows):
        return False
    places = {(row[0], row[1]) for row in rows if row[0] is not None and row[1] is not None}
    box = [max(axis) - min(axis) + 1 for axis in zip(*places, strict=True)]
    return len(places) >= LEAST_ROWS and 2 * len(places) > box[0] * box[1]


def _csv(section: _Lines) -> Matrix:
    names = _header(section)
    order = [names.index(name) if name in names else COLUMNS.index(name) for name in COLUMNS]
    rows: list[list[int]] = []
    for number, row in section.rows:
        rows.append([value for value in row if value is not None])
        if len(row) != len(COLUMNS) or len(rows[-1]) != len(COLUMNS):
            raise DataError(f"line {number}: {len(rows[-1])} values, expected {','.join(COLUMNS)}.")
    first, second, offsets = ([row[index] for row in rows] for index in order)
    return Matrix(AddressMap.of(first, second, offsets), "", section.rows[0][0])


def _matrix(section: _Lines) -> Matrix:
    rows = [row for _, row in section.rows]
    present = [(a, b, offset) for a, row in enumerate(rows) for b, offset in enumerate(row) if offset is not None]
    first, second, offsets = zip(*present, strict=True) if present else ((), (), ())
    corner = (len(rows) - 1, max(map(len, rows)) - 1)
    return Matrix(AddressMap.of(first, second, offsets, ((0, 0), corner)), section.heading, section.rows[0][0])


Elements = list[Pair | None]
Span = tuple[range, range]  # the elements that one coordinate names, first and second
NOTHING: Span = (range(0), range(0))
_INTEGER = "([0-9]{1,9})"
_RANGE = rf"{_INTEGER}(?:\.\.{_INTEGER})?"
_COORDINATE = re.compile(rf"\({_RANGE}, ?{_RANGE}\)")
_COMMAND = re.compile(r"visualize_layout\b[\"']?\s*(?:\"([^\"]*)\"|'([^']*)'|([^-\s]\S*))?")
_OPTION = re.compile(r"--(extent|stride|output-shape|vectorize)[= ]([^\s\\]*)")
_NUMBERS = re.compile(rf"{_INTEGER}(?:,{_INTEGER})?")
_REMARK = re.compile("#|//")
_PASSED = ("#", "//", "$", ">", "%")


class Command(NamedTuple):
    """A command line of 03_visualize_layout; missing arguments have the example's defaults."""

    layout: str
    extent: Pair = (32, 8)
    stride: int | None = None
    shape: Pair = (16, 8)
    vectorize: int = 1


class Printout(NamedTuple):
    """One output: its address map in elements, its command line if there is one, and the line where it starts."""

    address: AddressMap
    command: Command | None
    line: int


class _Parts(NamedTuple):
    """A cell: the spaces before each coordinate, what it names, the spaces after the last; and how many elements."""

    gaps: list[int]
    spans: list[Span]
    size: int


class _Block(NamedTuple):
    """The lines of one output: (number, text)."""

    command: Command | None
    lines: list[tuple[int, str]]


def is_printout(lines: Sequence[str]) -> bool:
    """Whether any line is one of such an output, or its command line."""
    return any(_COMMAND.search(line) or _is_row(line) for line in lines)


def printouts(lines: Sequence[str]) -> list[Printout]:
    """All outputs in a text; DataError with the line or the element (a, b) if there is none, or it contradicts itself.

    Elements may be missing: `AddressMap.missing` has them.
    """
    blocks = [_read(block) for block in _printed_blocks(lines) if block.lines]
    if not blocks:
        raise DataError("a command line of 03_visualize_layout, but nothing that it printed.")
    return blocks


def _is_row(line: str) -> bool:
    return line.lstrip()[:1] == "|" or _COORDINATE.match(line.lstrip()) is not None


def _printed_blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """The outputs of a text; each command line starts a new one."""
    block = _Block(None, [])
    for number, line in _join_lines(lines):
        if _COMMAND.search(line):
            yield block
            block = _Block(_command(number, line), [])
        elif _is_row(line):
            block.lines.append((number, _without_comment(line.rstrip("\r\n"))))
        elif not line.strip():
            block.lines.append((number, line.rstrip("\r\n")))
        elif not line.lstrip().startswith(_PASSED) and ("|" in line or _COORDINATE.search(line)):
            raise DataError(f"line {number}: {line.strip()[:40]!r} is neither coordinates nor a comment.")
    yield block


def _without_comment(line: str) -> str:
    """The line without a comment, and without the spaces before that."""
    comment = _REMARK.search(line)
    return line[: comment.start()].rstrip() if comment else line


def _join_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Numbered lines; a line that ends in \\ is joined with the next."""
    pending = ""
    for number, line in enumerate(lines, 1):
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        yield number, pending + line
        pending = ""


def _command(number: int, line: str) -> Command:
    named = _COMMAND.search(line)
    layout = next((name for name in named.groups() if name), "") if named else ""
    options: dict[str, Pair] = {}
    for option, text in _OPTION.findall(line):
        values = _NUMBERS.fullmatch(text)
        if not values or not all(1 <= int(value) <= MOST_CELLS for value in values.groups() if value):
            raise DataError(f"line {number}: --{option}={text[:40]} is not one or two numbers from 1 to {MOST_CELLS}.")
        options[option] = (int(values[1]), int(values[2] or 0))
    extent, shape = options.get("extent", Command(layout).extent), options.get("output-shape", Command(layout).shape)
    if not extent[1]:
        raise DataError(f"line {number}: --extent={extent[0]} needs two numbers.")
    vectorize = options.get("vectorize", (1, 0))[0]
    if shape[0] % vectorize:
        raise DataError(f"line {number}: --vectorize={vectorize} does not divide --output-shape={shape[0]}.")
    return Command(layout, extent, options.get("stride", (None,))[0], (shape[0], shape[1] or 8), vectorize)


def _read(output_lines: _Block) -> Printout:
    rows = [(number, text.split("|")) for number, text in output_lines.lines if text.strip()]
    if not rows:
        raise DataError("a command line of 03_visualize_layout, but nothing that it printed.")
    parsed = [(number, [_parts(number, text) for text in texts]) for number, texts in rows]
    fullest = max(cell.size for _, cells in parsed for cell in cells)
    size = output_lines.command.vectorize if output_lines.command else max(1, fullest)
    width = output_lines.command.shape[0] if output_lines.command else len(rows[0][1]) * size
    if width == size:
        parsed = [(number, [_parts(number, text)]) for number, text in _with_holes(output_lines)]
    free = not output_lines.command and _sizes_are_free(parsed, size)
    elements: Elements = []
    for number, cells in parsed:
        if not free:
            _check_width(number, len(cells) * size, width, number == parsed[-1][0])
        for position, cell in enumerate(cells, 1):
            elements += _cell_elements(number, cell, cell.size if free else size, position == len(cells))
            if len(elements) > MOST_CELLS:
                raise DataError(f"line {number}: more than {MOST_CELLS} offsets.")
    return Printout(_address(elements, output_lines.command), output_lines.command, rows[0][0])


def _sizes_are_free(parsed: list[tuple[int, list[_Parts]]], size: int) -> bool:
    """Whether cells differ in size and none has a hole, not even inside: each begins where the one before ends.

    A short cell of single coordinates at the end of a line had its spaces trimmed.
    """
    short = [(cell, cell is cells[-1]) for _, cells in parsed for cell in cells if cell.size + sum(cell.gaps) < size]
    whole = not any(sum(cell.gaps[1:-1]) or not cell.size for _, cells in parsed for cell in cells)
    return whole and any(not last or cell.size > len(cell.spans) - 1 for cell, last in short)


def _address(by_offset: Elements, command: Command | None) -> AddressMap:
    present = [(*element, offset) for offset, element in enumerate(by_offset) if element]
    first, second, offsets = zip(*present, strict=True) if present else ((), (), ())
    box = ((0, 0), (command.extent[0] - 1, command.extent[1] - 1)) if command else None
    return AddressMap.of(first, second, offsets, box)


def _check_width(number: int, elements: int, width: int, last: bool) -> None:
    if elements > width or (elements < width and not last):
        raise DataError(f"line {number}: {elements} offsets, where a line has {width}.")


def _with_holes(output_lines: _Block) -> Iterator[tuple[int, str]]:
    """Lines of one cell each: one of spaces alone is an empty cell, an empty one ends a group."""
    group = output_lines.command.shape[1] if output_lines.command else 0
    full = [index for index, (_, text) in enumerate(output_lines.lines) if text.strip()]
    rows = 0
    for number, text in output_lines.lines[full[0] : full[-1] + 1] if full else []:
        if text:
            rows += 1
            yield number, text
        elif group and rows % group:
            raise DataError(f"line {number}: empty inside a group of {group} lines; was its space trimmed?")


def _cell_elements(number: int, printed: _Parts, size: int, last: bool) -> Elements:
    """The elements of a cell, None for each offset without one."""
    if not printed.size:
        return [None] * size
    exact, filled = printed.size == size, printed.size + sum(printed.gaps)
    if not exact and (filled > size or (filled < size and not last)):
        raise DataError(
            f"line {number}: a cell of {printed.size} elements and {filled - printed.size} spaces, not {size}."
        )
    elements: Elements = []
    for gap, (firsts, seconds) in zip(printed.gaps, printed.spans, strict=True):
        elements += [None] * (0 if exact else gap)
        elements += [(a, b) for b in seconds for a in firsts]
    return elements + [None] * (size - len(elements))


def _parts(number: int, text: str) -> _Parts:
    gaps, spans, start = [], list[Span](), 0
    for match in _COORDINATE.finditer(text):
        gaps.append(_spaces(number, text[start : match.start()]))
        firsts = range(int(match[1]), int(match[2] or match[1]) + 1)
        seconds = range(int(match[3]), int(match[4] or match[3]) + 1)
        if (match[2] and match[4]) or not firsts or not seconds:
            raise DataError(f"line {number}: {match[0]} is not one range that rises.")
        spans.append((firsts, seconds))
        start = match.end()
    size = sum(len(firsts) * len(seconds) for firsts, seconds in spans)
    if size > MOST_CELLS:
        raise DataError(f"line {number}: a cell of more than {MOST_CELLS} elements.")
    return _Parts([*gaps, _spaces(number, text[start:])], [*spans, NOTHING], size)


def _spaces(number: int, text: str) -> int:
    """How many spaces there are between coordinates."""
    between = text.strip()
    if between:
        raise DataError(f"line {number}: {between[:40]!r} is not a coordinate such as (3, 4) or (0..7, 4).")
    return len(text)


MOST_BYTES = 1 << 23


class Source(NamedTuple):
    """The address map in a file, the command line that printed it, and what else the file contains, in words."""

    address: AddressMap
    command: Command | None
    note: str


class _StatedMap(NamedTuple):
    """One of the tables in a file."""

    address: AddressMap
    command: Command | None
    line: int


def read_address_map(path: Path, table: int | None = None) -> Source:
    """The address map in a file; if the file has several tables, number `table`, from 1.

    A table that only counts its elements (0, 1, 2, ... line by line), followed by one other of the same size, numbers
    the elements of that one and is no layout: the other is read. UsageError if `table` is needed to choose; DataError,
    with the line or the element (a, b), if the file has none of the three forms or contradicts itself.
    """
    text = files.read_text(path, MOST_BYTES)
    try:
        maps = _stated_maps(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    lines = ", ".join(str(stated_map.line) for stated_map in maps)
    several = f"{path}: {len(maps)} tables, from lines {lines}"
    if table is not None:
        if not 1 <= table <= len(maps):
            raise UsageError(f"`table` {table}: {path} holds {len(maps)}, from lines {lines}.")
        return Source(maps[table - 1].address, maps[table - 1].command, "")
    if len(maps) == 1:
        return Source(maps[0].address, maps[0].command, "")
    if len(maps) == 2 and _counts(maps[0].address) and maps[0].address.shape == maps[1].address.shape:
        return Source(maps[1].address, maps[1].command, f"{several}; the first only counts, the second is read.")
    raise UsageError(f"{several}; `table` N chooses one.")


def _stated_maps(text: str) -> list[_StatedMap]:
    lines = text.split("\n")
    if max(len(lines), text.count("|")) > 2 * MOST_CELLS:
        raise DataError(f"more than {2 * MOST_CELLS} lines or cells.")
    if is_printout(lines):
        return [_StatedMap(*printed) for printed in printouts(lines)]
    return [_StatedMap(matrix.address, None, matrix.line) for matrix in matrices(lines)]


def _counts(address_map: AddressMap) -> bool:
    """Whether the offsets are 0, 1, 2, ... line by line."""
    return not address_map.missing and np.array_equal(address_map.grid.ravel(), np.arange(address_map.cells))
