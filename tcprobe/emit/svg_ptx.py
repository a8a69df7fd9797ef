"""SVG with holders as in PTX's figures: T0:{a0,a1}."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.emit.svg import draw, ptx_figure
from tcprobe.store.cell import Cell

WHAT = "SVG with holders as PTX's figures have them: T0:{a0,a1}"
ARCHS = "any"


def emit(cells: Sequence[Cell]) -> str:
    """All tables, one below the other."""
    return draw(cells, ptx_figure)
