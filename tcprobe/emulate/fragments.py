"""Fragments as arrays: which thread and slot of a warp or warpgroup holds which element, from the tables.

>>> import numpy as np
>>> d = places("mma.m16n8k16.row.col.f32.f16.f16.f32", "d", "sm_80")
>>> d.lane.shape, int(d.lane[9, 1]), int(d.slot[9, 1])
((16, 8), 4, 3)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import UsageError
from tcprobe.isa.names import resolve
from tcprobe.store.cell import find
from tcprobe.store.choose import default


class Places(NamedTuple):
    """Of each element (row, col) a thread and a slot that hold it; all slots that hold any, and their elements."""

    lane: NDArray[np.intp]
    slot: NDArray[np.intp]
    threads: NDArray[np.intp]
    slots: NDArray[np.intp]
    rows: NDArray[np.intp]
    cols: NDArray[np.intp]

    def gather(self, held: Any) -> Any:
        """(groups, rows, cols) of (groups, threads, slots)."""
        return held[:, self.lane, self.slot]

    def scatter(self, held: Any, matrix: Any) -> None:
        """The opposite, to every slot."""
        held[:, self.threads, self.slots] = matrix[:, self.rows, self.cols]


@lru_cache(maxsize=256)
def places(form: str, operand: str, arch: str) -> Places:
    """From the table that counts on an arch, else on any that has one; UsageError where there is none."""
    fragment = resolve(form).instruction.fragment(operand)
    cell = find(fragment, arch, default()) or find(fragment, None, default())
    if cell is None:
        raise UsageError(f"{fragment.id} has no table.")
    return of_cells(cell.table.cells, cell.table.outputs, cell.table.elements)


def of_cells(cells: Any, outputs: tuple[str, ...], elements: int) -> Places:
    """From the outputs of each point of a table, (row, col); matrices of several products one below the other."""
    held = [(point, dict(zip(outputs, cell, strict=True))) for point, cell in enumerate(cells) if cell is not None]
    points = np.array([point for point, _ in held])
    rows = np.array([cell["row"] for _, cell in held])
    cols = np.array([cell["col"] for _, cell in held])
    if "product" in outputs:
        rows = rows + (int(rows.max()) + 1) * np.array([cell["product"] for _, cell in held])
    lane = np.zeros((int(rows.max()) + 1, int(cols.max()) + 1), np.intp)
    slot = np.zeros_like(lane)
    lane[rows[::-1], cols[::-1]], slot[rows[::-1], cols[::-1]] = points[::-1] // elements, points[::-1] % elements
    return Places(lane, slot, points // elements, points % elements, rows, cols)


def split(words: Any, bits: int) -> Any:
    """(groups, threads, registers) of 32 or 64 bits as (groups, threads, slots) of `bits`."""
    if bits >= 8:
        return np.ascontiguousarray(words).view({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits])
    each = np.ascontiguousarray(words).view(np.uint8)[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)
    return (each & np.uint8((1 << bits) - 1)).reshape(*words.shape[:-1], -1)


def join(slots: Any, word: Any) -> Any:
    """The opposite for slots of 8 bits and more."""
    return np.ascontiguousarray(slots).view(word)
