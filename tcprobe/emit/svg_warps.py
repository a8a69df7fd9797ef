"""A CTA's tile as a picture: each block of rows and columns with the warps that hold it (`ask/tile_picture.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.ask.tile_picture import tile_picture
from tcprobe.errors import UsageError
from tcprobe.store.cell import Cell

WHAT = "SVG of a tile by warps: which warp holds each block"


def emit(cells: Sequence[Cell]) -> str:
    """The picture of the one table; UsageError for several, or a tile of too many blocks."""
    if len(cells) != 1:
        raise UsageError(f"svg-warps draws one tile: give an operand of {cells[0].fragment.experiment}.")
    return tile_picture(cells[0])
