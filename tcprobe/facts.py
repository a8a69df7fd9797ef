"""Facts as tables of text: a CSV file beside the module that reads it, one line a fact, each with its source.

The first line names the columns: the fields of the row's type, in their order. A column's reader makes the value of a
cell, or raises; every line is read, and what is wrong is a RowError that names the file, the line, the column, the
value and what is allowed there. In a cell | stands between alternatives.

>>> from typing import NamedTuple
>>> class Move(NamedTuple):
...     name: str
...     numbers: tuple[int, ...]
>>> parse("moves.csv", "name,numbers\\nldmatrix,1|8 to 32 by 8\\n", Move, numbers=numbers)
(Move(name='ldmatrix', numbers=(1, 8, 16, 24, 32)),)
>>> parse("moves.csv", "name,numbers\\nldmatrix,one\\n", Move, numbers=numbers)
Traceback (most recent call last):
tcprobe.errors.RowError: moves.csv, line 2, column numbers: 'one' is not a number such as 8, or numbers as 8 to 32 by 8.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from tcprobe.errors import RowError, TcprobeError

FactRow = TypeVar("FactRow", bound=tuple[Any, ...])
T = TypeVar("T")
CellReader = Callable[[str], Any]
_RANGE = re.compile(r"(\d{1,9}) to (\d{1,9}) by ([1-9]\d{0,8})")


def read(path: Path, row: type[FactRow], /, **columns: CellReader) -> tuple[FactRow, ...]:
    """The rows of a file, each a NamedTuple `row`; a column without a reader is text. RowError as `parse`."""
    return parse(path.name, path.read_text("utf-8"), row, **columns)


def parse(name: str, text: str, row: type[FactRow], /, **columns: CellReader) -> tuple[FactRow, ...]:
    """The rows of a table's text; RowError for another header, a cell that its reader refuses, a line given twice."""
    fields = tuple(row.__annotations__)
    lines = csv.reader(text.splitlines(), strict=True)
    found: dict[FactRow, None] = {}
    try:
        if tuple(next(lines, [])) != fields:
            raise RowError(f"{name}, line 1: the columns are {','.join(fields)}.")
        for cells in lines:
            at = f"{name}, line {lines.line_num}"
            if len(cells) != len(fields):
                raise RowError(f"{at}: {len(cells)} cells; the columns are {','.join(fields)}.")
            made = row(*map(_cell, [at] * len(fields), fields, cells, [columns.get(field, str) for field in fields]))
            if made in found:
                raise RowError(f"{at}: {','.join(cells)[:120]!r} stands further up too.")
            found[made] = None
    except csv.Error as error:
        raise RowError(f"{name}, line {lines.line_num}: {error}.") from None
    return tuple(found)


def _cell(at: str, column: str, cell: str, reader: CellReader) -> Any:
    try:
        return reader(cell)
    except TcprobeError as error:
        raise RowError(f"{at}, column {column}: {cell[:120]!r}: {error}") from None
    except ValueError as error:
        raise RowError(f"{at}, column {column}: {cell[:120]!r} {error}.") from None


def optional(reader: Callable[[str], T]) -> Callable[[str], T | None]:
    """None for an empty cell."""
    return lambda cell: reader(cell) if cell else None


def one_of(*allowed: str) -> Callable[[str], Any]:
    """One of some words."""

    def reader(cell: str) -> str:
        if cell not in allowed:
            raise ValueError(f"is not one of {', '.join(map(repr, allowed))}")
        return cell

    return reader


def number(cell: str) -> int:
    """A whole number, in Python's notation."""
    try:
        return int(cell, 0)
    except ValueError:
        raise ValueError("is not a whole number") from None


def decimal(cell: str) -> float:
    """A number; an int where it is written without a point."""
    if not re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", cell):
        raise ValueError("is not a number such as 8 or 4.25")
    return float(cell) if "." in cell else int(cell)


def flag(cell: str) -> bool:
    """Whether it is yes; an empty cell is no."""
    if cell not in ("yes", ""):
        raise ValueError("is neither 'yes' nor empty")
    return bool(cell)


def numbers(cell: str) -> tuple[int, ...]:
    """Numbers, or ranges of them with their end: 8|24|32 to 256 by 16."""
    found: list[int] = []
    for part in words(cell):
        if run := _RANGE.fullmatch(part):
            first, last, step = map(int, run.groups())
            found += range(first, last + 1, step)
        elif re.fullmatch(r"\d{1,9}", part):
            found.append(int(part))
        else:
            raise ValueError("is not a number such as 8, or numbers as 8 to 32 by 8")
    return tuple(found)


def words_of(reader: CellReader) -> Callable[[str], tuple[str, ...]]:
    """Alternatives, each of which a reader takes; the words stay as they are."""

    def checked(cell: str) -> tuple[str, ...]:
        for word in words(cell):
            reader(word)
        return words(cell)

    return checked


def words(cell: str) -> tuple[str, ...]:
    """Alternatives; none in an empty cell."""
    return tuple(cell.split("|")) if cell else ()


def pairs_of(reader: CellReader) -> Callable[[str], tuple[tuple[str, str], ...]]:
    """Pairs of what a reader takes: u8|s8.u8|s8 is every one with every other; those after a space come after them."""

    def checked(cell: str) -> tuple[tuple[str, str], ...]:
        for word in dict.fromkeys(word for pair in _pairs(cell) for word in pair):
            reader(word)
        return _pairs(cell)

    return checked


def _pairs(cell: str) -> tuple[tuple[str, str], ...]:
    groups = [part.split(".") for part in cell.split()]
    if not groups or any(len(group) != 2 or "" in group for group in groups):
        raise ValueError("is not pairs such as f16.f16 or u8|s8.u8|s8")
    return tuple(pair for first, second in groups for pair in product(first.split("|"), second.split("|")))
