"""What comments above code say of the tables that it was made from: those were measured, the code was not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcprobe.store.cell import Cell


def title(cell: Cell) -> str:
    """Which fragment code is for."""
    fragment = cell.fragment
    return f"{fragment.id} on {cell.arch}, {fragment.rows} x {fragment.cols} of {fragment.type}"


def origin(cell: Cell) -> str:
    """Which table code was made from, and what that rests on."""
    return f"from the table of {cell.fragment.id} on {cell.arch}, {_method(cell.evidence)}"


def of_tables(evidence: str) -> str:
    """Evidence of several tables, which it names."""
    return _method(evidence.replace("measured: ", "table measured: "))


def _method(evidence: str) -> str:
    return re.sub(r"measured: (live )?", lambda match: f"measured {match[1] or 'by '}", evidence)
