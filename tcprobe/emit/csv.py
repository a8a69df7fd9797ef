"""lane,i,row,col: one line for each slot, as `tcprobe compare FILE.csv FRAGMENT` and `tcprobe fit` read it."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.errors import UsageError
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "lane,i,row,col: one line a slot"
ROLES = (Role.METADATA,)


def emit(cells: Sequence[Cell]) -> str:
    """One table; unused slots have no line."""
    if len(cells) != 1:
        raise UsageError(f"a CSV holds one table, not {len(cells)}: name one fragment.")
    table = cells[0].table
    slots = ((*divmod(slot, table.elements), cell) for slot, cell in enumerate(table.cells))
    lines = [",".join(map(str, (lane, i, *cell))) for lane, i, cell in slots if cell is not None]
    return "\n".join([",".join(("lane", "i", *table.outputs)), *lines])
