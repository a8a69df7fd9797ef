"""The part of a warpgroup's fragment that one warp holds: a band of its rows, the same in each warp.

>>> from tcprobe.ask.convert.band import band
>>> from tcprobe.store.cell import load
>>> part = band(load("wgmma.m64n24k16.f32.f16.f16.d"))
>>> part.fragment.threads, part.fragment.rows, part.table.at(lane=5, i=2)
(32, 16, {'row': 9, 'col': 2})
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.layout.table import slot_table

if TYPE_CHECKING:
    from tcprobe.store.cell import Cell


def band(cell: Cell) -> Cell:
    """What the first warp holds, as a fragment of a warp; the cell itself where it is one.

    UsageError unless every further warp holds the same of the rows below.
    """
    fragment, table = cell.fragment, cell.table
    warps, size = fragment.threads // WARP, WARP * table.elements
    if warps == 1:
        return cell
    rows = fragment.rows // warps
    first = table.cells[:size]
    for warp in range(warps):
        part = table.cells[warp * size : (warp + 1) * size]
        if part != tuple(c and (c[0] + warp * rows, *c[1:]) for c in first):
            raise UsageError(f"{fragment.id}: warp {warp} does not hold the band of rows that it should.")
    values = {name: column[:size] for name, column in table.values.items()}
    operand = replace(fragment.held, rows=rows)
    return replace(
        cell, fragment=replace(fragment, threads=WARP, held=operand), table=slot_table(WARP, table.elements, values)
    )
