"""Tables that are not ours: a CSV of lane,i,row,col (and product), one line a slot.

A header line is optional and may name the columns in another order. Slots without a line count as unused.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from tcprobe.errors import DataError
from tcprobe.table import OUTPUTS, Table

INPUTS = ("lane", "i")
MOST_INDEX = 1 << 12


def read_csv(path: Path) -> Table:
    """The table in a CSV file; DataError names the file, the line and the reason where it is not one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [
            (n, line) for n, line in enumerate(csv.reader(text.splitlines()), 1) if any(cell.strip() for cell in line)
        ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV: {error}.") from None
    if not lines:
        raise DataError(f"{path}: empty; expected lines of lane,i,row,col.")
    names, body = _header(path, lines)
    cells = _cells(path, names, body)
    threads = 1 << (max(lane for lane, _ in cells)).bit_length()
    elements = 1 + max(i for _, i in cells)
    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    outputs = [name for name in names if name in OUTPUTS]
    return Table(threads, elements, {name: tuple(cells.get(s, {}).get(name) for s in slots) for name in outputs})


def _header(path: Path, lines: list[tuple[int, list[str]]]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    first = [cell.strip().lower() for cell in lines[0][1]]
    if any(cell.lstrip("-").isdigit() for cell in first):
        first, body = [*INPUTS, *OUTPUTS][: len(first)], lines
    else:
        body = lines[1:]
    if (
        not {*INPUTS, "row", "col"} <= set(first)
        or len(set(first)) != len(first)
        or not set(first) <= {*INPUTS, *OUTPUTS}
    ):
        raise DataError(f"{path}, line {lines[0][0]}: columns {', '.join(first)}; expected lane,i,row,col.")
    if not body:
        raise DataError(f"{path}: no slots below the header.")
    return first, body


def _cells(
    path: Path, names: list[str], body: Iterable[tuple[int, list[str]]]
) -> dict[tuple[int, int], dict[str, int]]:
    cells: dict[tuple[int, int], dict[str, int]] = {}
    for number, line in body:
        if len(line) != len(names):
            raise DataError(f"{path}, line {number}: {len(line)} values, expected {len(names)} ({','.join(names)}).")
        try:
            values = {name: int(cell) for name, cell in zip(names, line, strict=True)}
        except ValueError:
            raise DataError(f"{path}, line {number}: {','.join(line)!r} is not all whole numbers.") from None
        slot = values.pop("lane"), values.pop("i")
        if not all(0 <= v < MOST_INDEX for v in (*slot, *values.values())):
            raise DataError(f"{path}, line {number}: a value is outside 0 to {MOST_INDEX - 1}.")
        if slot in cells:
            raise DataError(f"{path}, line {number}: lane {slot[0]} i {slot[1]} is stated a second time.")
        cells[slot] = values
    return cells
