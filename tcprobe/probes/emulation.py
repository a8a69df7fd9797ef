"""What emulated ops share: element numbers, by slot and by position in memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import Table

NUMBERS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}
RAW: dict[str, Any] = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64, "s32": np.uint32}


def elements(table: Table, fragment: Fragment) -> tuple[Ints, Ints]:
    """(element number, slot) of every used slot; elements are numbered in the order (product, row, col)."""
    used = [s for s, cell in enumerate(table.cells) if cell is not None]
    cells = np.array([(*table.cells[s], 0)[:3] for s in used], np.int64)  # type: ignore[misc]
    return (cells[:, 2] * fragment.rows + cells[:, 0]) * fragment.cols + cells[:, 1], np.array(used)


class InMemory(NamedTuple):
    """The layout of a matrix in memory, "row" or "col"; its lines are `ldm` elements apart."""

    layout: str
    ldm: int


def positions(table: Table, fragment: Fragment, lying: InMemory) -> tuple[Ints, Ints]:
    """(position in memory, in elements; slot) of every used slot."""
    index, used = elements(table, fragment)
    row, col = np.divmod(index, fragment.cols)
    return (row * lying.ldm + col if lying.layout == "row" else col * lying.ldm + row), used
