"""Tables from elsewhere: a CSV of lane,i,row,col (and product), one line for each slot.

A header line is optional. It may name the columns in another order, and call lane and i thread and register; if a
register of a thread has several lines, these are its elements, low bits first. Separators are commas, semicolons or
tabs; lines that begin with # are skipped. Slots without a line are unused. A number consists of digits 0 to 9 and is
below 4096. The text is UTF-8, with any line ends; the name - is standard input. Bounds, checked before a file is used:
`files.MOST_BYTES`, MOST_LINES lines, and `table.MOST_SLOTS` slots, which are elements times lanes, lanes rounded up to
a power of two.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tcprobe.errors import DataError
from tcprobe.layout.table import MOST_SLOTS, SLOT_OUTPUTS, Table, slot_table
from tcprobe.system import files
from tcprobe.text import quoted
from tcprobe.values import Json

INPUTS = ("lane", "i")
MOST_INDEX = 1 << 12
MOST_LINES = 100_000
_NUMBER = re.compile(r"-?[0-9]+")
# other names of columns; a register may have several lines
ALSO = {
    "thread": "lane",
    "tid": "lane",
    "laneid": "lane",
    "element": "i",
    "index": "i",
    "column": "col",
    "reg": "register",
}
DELIMITERS = ",;\t"
WORDS = {  # of what is not a table, as data: the site's script says the same
    "empty": "empty; expected lines of lane,i,row,col.",
    "lines": "{} lines; at most {} are read.",
    "not csv": "not CSV: {}.",
    "columns": "{} columns {}; expected lane,i,row,col.",
    "no slots": "no slots below the header.",
    "uneven": "thread {} register {} has {} lines, another has {}; each element of a register needs a line, or name "
    "the column i.",
    "second": "lane {} i {} is given twice.",
    "values": "{} values, expected {} ({}).",
    "numbers": "{} is not all whole numbers, of digits 0 to 9 alone.",
    "outside": "a value is outside 0 to {}.",
    "slots": "lane {} and i {} make a table of {} x {} slots; at most {} are read.",
}
CsvLine = tuple[int, list[str]]  # number of the line in the file, and its cells


def rules() -> Json:
    """Names of columns, bounds and messages as data."""
    bounds = {"bytes": files.MOST_BYTES, "lines": MOST_LINES, "index": MOST_INDEX, "slots": MOST_SLOTS}
    names = {"inputs": INPUTS, "outputs": SLOT_OUTPUTS, "also": ALSO, "delimiters": DELIMITERS}
    return {**names, "most": bounds, "words": WORDS}


def read_csv(path: Path) -> Table:
    """The table in a CSV file; DataError with the file, the line and the reason if it is not one."""
    lines = _lines(path)
    if not lines:
        raise DataError(f"{path}: {WORDS['empty']}")
    names, body = _header(path, lines)
    outputs = [name for name in names if name in SLOT_OUTPUTS]
    cells = _cells(path, names, outputs, body if "i" in names else _number_elements(path, names, body))
    return _table(path, outputs, cells)


def _number_elements(path: Path, columns: Sequence[str], body_lines: Sequence[CsvLine]) -> list[CsvLine]:
    """The lines with i in place of the register.

    The lines of a register are its elements, low bits first; every register must have equally many.
    """
    register, lane = columns.index("register"), columns.index("lane")
    lines = [(number, cells) for number, cells in body_lines if len(cells) == len(columns)]
    places = Counter((cells[lane], cells[register]) for _, cells in lines)
    size = max(places.values(), default=1)
    wrong = next((place for place, count in places.items() if count != size), None)
    if wrong:
        words = WORDS["uneven"].format(quoted(wrong[0]), quoted(wrong[1]), places[wrong], size)
        raise DataError(f"{path}: {words}")
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for number, cells in body_lines:
        if len(cells) == len(columns) and _NUMBER.fullmatch(cells[register]) and len(cells[register]) < 9:
            place = (cells[lane], cells[register])
            i = str(int(cells[register]) * size + seen[place])
            numbered.append((number, [*cells[:register], i, *cells[register + 1 :]]))
            seen[place] += 1
        else:
            numbered.append((number, cells))
    return numbered


def _lines(path: Path) -> list[CsvLine]:
    """The lines that are not blank."""
    text = files.read_text(path)
    count = text.count("\n") + 1  # before the text is split, which takes 60 bytes a line
    if count > MOST_LINES:
        raise DataError(f"{path}: {WORDS['lines'].format(count, MOST_LINES)}")
    lines = ["" if line.lstrip().startswith("#") else line for line in text.split("\n")]
    reader = csv.reader((f"{line}\n" for line in lines), strict=True, delimiter=_delimiter(lines))
    try:
        return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {WORDS['not csv'].format(error)}") from None


def _delimiter(lines: Iterable[str]) -> str:
    """The separator, from the first line with content."""
    first = next((line for line in lines if line.strip()), "")
    return next((mark for mark in DELIMITERS if mark in first), ",")


def _header(path: Path, numbered_lines: list[CsvLine]) -> tuple[list[str], list[CsvLine]]:
    first = [ALSO.get(name, name) for name in (cell.strip().lower() for cell in numbered_lines[0][1])]
    if any(_NUMBER.fullmatch(cell) for cell in first):
        first, body = [*INPUTS, *SLOT_OUTPUTS][: len(first)], numbered_lines
    else:
        body = numbered_lines[1:]
    expected = {*INPUTS, *SLOT_OUTPUTS}
    named = {"i" if name == "register" else name for name in first}
    if named - {"product"} != expected - {"product"} or len(named) != len(first):
        words = WORDS["columns"].format(len(first), quoted(", ".join(first)))
        raise DataError(f"{path}, line {numbered_lines[0][0]}: {words}")
    if not body:
        raise DataError(f"{path}: {WORDS['no slots']}")
    return first, body


def _cells(
    path: Path, columns: Sequence[str], outputs: Sequence[str], body_lines: Iterable[CsvLine]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """What each slot (lane, i) holds, in the order of `outputs`."""
    columns = ["i" if name == "register" else name for name in columns]
    cells: dict[tuple[int, int], tuple[int, ...]] = {}
    for number, line in body_lines:
        where = f"{path}, line {number}"
        if len(line) != len(columns):
            raise DataError(f"{where}: {WORDS['values'].format(len(line), len(columns), ','.join(columns))}")
        if not all(_NUMBER.fullmatch(cell) for cell in line):
            raise DataError(f"{where}: {WORDS['numbers'].format(quoted(','.join(line)))}")
        if any(cell.startswith("-") or len(cell) > 9 or int(cell) >= MOST_INDEX for cell in line):
            raise DataError(f"{where}: {WORDS['outside'].format(MOST_INDEX - 1)}")
        values = dict(zip(columns, [int(cell) for cell in line], strict=True))
        slot = values["lane"], values["i"]
        if slot in cells:
            raise DataError(f"{path}, line {number}: {WORDS['second'].format(*slot)}")
        cells[slot] = tuple(values[name] for name in outputs)
    return cells


def _table(path: Path, outputs: Sequence[str], contents: Mapping[tuple[int, int], tuple[int, ...]]) -> Table:
    last_lane, last = max(lane for lane, _ in contents), max(i for _, i in contents)
    threads, elements = 1 << last_lane.bit_length(), last + 1
    if threads * elements > MOST_SLOTS:
        words = WORDS["slots"].format(last_lane, last, threads, elements, MOST_SLOTS)
        raise DataError(f"{path}: {words}")
    nothing = (None,) * len(outputs)
    slots = [contents.get((lane, i), nothing) for lane in range(threads) for i in range(elements)]
    return slot_table(threads, elements, {name: tuple(cell[j] for cell in slots) for j, name in enumerate(outputs)})
