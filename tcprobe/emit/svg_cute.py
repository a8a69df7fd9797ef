"""SVG with holders as CuTe prints them: T0 V1 is value 1 of thread 0."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.emit.svg import draw, thread_value
from tcprobe.store.cell import Cell

WHAT = "SVG with holders as CuTe prints them: T0 V1"
ARCHS = "any"


def emit(cells: Sequence[Cell]) -> str:
    """All tables, one below the other."""
    return draw(cells, thread_value)
