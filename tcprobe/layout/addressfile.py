"""A file of offsets in any of three forms: a CSV, a matrix of numbers, or the output of 03_visualize_layout."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tcprobe.errors import DataError, UsageError
from tcprobe.layout.address import MOST_CELLS, AddressMap
from tcprobe.layout.offsets import matrices
from tcprobe.layout.printout import Command, is_printout, printouts
from tcprobe.system import files

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


def read(path: Path, table: int | None = None) -> Source:
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
    return _choose(path, maps, table)


def _stated_maps(text: str) -> list[_StatedMap]:
    lines = text.split("\n")
    if max(len(lines), text.count("|")) > 2 * MOST_CELLS:
        raise DataError(f"more than {2 * MOST_CELLS} lines or cells.")
    if is_printout(lines):
        return [_StatedMap(*printed) for printed in printouts(lines)]
    return [_StatedMap(matrix.address, None, matrix.line) for matrix in matrices(lines)]


def _choose(path: Path, maps: list[_StatedMap], table: int | None) -> Source:
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


def _counts(address_map: AddressMap) -> bool:
    """Whether the offsets are 0, 1, 2, ... line by line."""
    return not address_map.missing and np.array_equal(address_map.grid.ravel(), np.arange(address_map.cells))
