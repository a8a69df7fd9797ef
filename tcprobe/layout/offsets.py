"""Offsets as numbers: a CSV of row,col,offset, or matrices of offsets with a line for each value of the first
coordinate.

>>> [plain] = matrices(["0, 1, 2,", "4, 5, 6,"])
>>> plain.address.offsets.tolist(), plain.address.shape
([0, 1, 2, 4, 5, 6], (2, 3))

Numbers of a matrix are separated by commas, | or spaces. Brackets, braces and quotes around them, comments (#, //) and
blank lines are ignored. A line of words, such as a heading or a prompt, ends a matrix. An empty place between two
commas is an element without an offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.errors import DataError
from tcprobe.layout.address import MOST_CELLS, AddressMap

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
            block.rows.append((number, _numbers(number, text)))
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


def _numbers(number: int, text: str) -> list[int | None]:
    fields = [field.strip() for field in text.split(",")] if "," in text else text.split()
    if not fields[-1]:
        fields.pop()
    wrong = next((field for field in fields if field and not _NUMBER.fullmatch(field)), None)
    if wrong is not None:
        raise DataError(f"line {number}: {wrong[:40]!r} is not an offset of 0 or more.")
    return [int(field) if field else None for field in fields]


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
