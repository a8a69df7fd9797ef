"""Tiles of a block: which warp of it holds what, drawn, with the commands that say more."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from tcprobe.ask.tile_picture import tile_picture
from tcprobe.errors import TcprobeError
from tcprobe.notation import with_options
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.markup import View
from tcprobe.store.names import find_cell

TILE_PAGE = "tiles.html"
ABOUT = (
    "Code speaks of a block's tile: a multiply, so many warps, as many repetitions as fill the tile, as CuTe's "
    "TiledMMA. Each box is what one repetition covers, with the warps that hold it; a warp that stands in several "
    "boxes of a line or column holds them by repetition, and operands A and B are held by several warps."
)
MULTIPLY, WARPS, TILE = "mma.m16n8k16.row.col.f32.f16.f16.f32", "2x4", "128x128x32"
OPERANDS = ("a", "b", "d")


def tile_pages(facts: Facts) -> Iterator[View]:
    """One page, where the multiply that it shows has a table."""
    try:
        parts = [_part(facts, operand) for operand in OPERANDS]
    except TcprobeError:
        return
    shows = {"paragraphs": [ABOUT], "parts": parts}
    yield View(TILE_PAGE, "tiles", "Tiles of warps", "Which warp of a block holds what of its tile", shows)


def _part(facts: Facts, operand: str) -> dict[str, str]:
    name = f"{MULTIPLY}.{operand}"
    cell = find_cell(with_options(name, over=TILE, warps=WARPS), None, facts.layers).cell
    return {
        "head": f"{operand.upper()} of a block of {TILE}, {WARPS} warps",
        "anchor": operand,
        "picture": Markup(tile_picture(cell)),  # our own, its texts escaped
        "command": f"tcprobe where {name} --warps {WARPS} --tile {TILE} --row 5 --col 9",
    }
