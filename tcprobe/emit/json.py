"""The output of `tcprobe show --json`: a JSON array with one object for each fragment."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.ask.describe import cell_entry
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell
from tcprobe.store.documents import canonical

WHAT = "JSON: table, formulas, provenance and verdicts, as `show --json`"
ARCHS = "any"
SELECTORS = "all"
ROLES = tuple(Role)


def emit(cells: Sequence[Cell]) -> str:
    """All tables."""
    return canonical([cell_entry(cell) for cell in cells])
