"""A page of wgmma's operands in shared memory: tiles, descriptors both ways, the boxes of tensor maps."""

from __future__ import annotations

from typing import Any

from tcprobe.ask.descriptor import TYPES, cuda, field_lines, tile, to_json
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.tensor_map import DATA_TYPE_OF
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.pages.site import addresses, markup
from tcprobe.pages.site.facts import Facts, for_every_n
from tcprobe.pages.site.render import View

PAGE = "play/wgmma.html"
SHOWN = ((128, 64), "bf16", "k", 128)  # the tile that stands there before anybody chooses
N = 128


def views(facts: Facts) -> list[View]:
    """The page, where the site has warpgroup multiplies."""
    forms = {kind: row for kind in TYPES if (row := _form(facts, kind))}
    return [_view(facts, forms)] if SHOWN[1] in forms else []


def links(facts: Facts) -> list[tuple[str, str]]:
    """What the first page says of it."""
    return [("wgmma: tiles, descriptors, tensor maps", PAGE)] if _form(facts, SHOWN[1]) else []


def _form(facts: Facts, kind: str) -> Instruction | None:
    """The dense multiply of N that takes A and B of a type, the one with the widest D."""
    rows = [row for row in inventory.executed_by(WARPGROUP) if row.shape.n == N and row.id in facts.page_names]
    fits = [row for row in rows if {operand.held.type for operand in row.described} == {kind} and not row.metadata]
    return max(fits, key=lambda row: dtype(row.fragment("d").type).bits, default=None)


def _view(facts: Facts, by_type: dict[str, Instruction]) -> View:
    shared_tile = tile(*SHOWN)
    types: dict[str, Any] = {
        kind: {
            "bits": dtype(kind).bits,
            "map": DATA_TYPE_OF.get(kind, "UINT8"),
            "form": for_every_n(row.id, row.shape).replace("nNk", "n{n}k"),
            "page": addresses.instruction(facts.page_names[row.id]),
        }
        for kind, row in by_type.items()
    }
    tile_json = to_json(shared_tile)
    lines = [
        f"LBO {tile_json['fields']['lbo']}: {shared_tile.reasons['lbo']}",
        f"SBO {tile_json['fields']['sbo']}: {shared_tile.reasons['sbo']}",
        f"{shared_tile.bytes} bytes; the start address is a multiple of {shared_tile.alignment}",
        f"tensor map: {shared_tile.boxes} x box {' x '.join(map(str, shared_tile.box))}, "
        f"{tile_json['tma']['data_type']}, {tile_json['tma']['swizzle']}",
    ]
    row = by_type[SHOWN[1]]
    size = f"{shared_tile.lines}x{shared_tile.k}"
    command = f"tcprobe descriptor --tile {size} --instruction {row.id}.a_smem --major k --swizzle 128"
    return View(
        PAGE,
        "wgmma",
        "wgmma in shared memory: tiles, descriptors, tensor maps",
        "Where A and B are for every swizzle and major; the descriptor of wgmma, both ways; the box of a tensor map",
        {
            "types": list(types),
            "widths": [width or "none" for width in sorted(SWIZZLES, reverse=True)],
            "descriptor": tile_json["descriptor"],
            "lines": lines,
            "fields": field_lines(shared_tile.descriptor),
            "cuda": cuda(shared_tile),
            "command": command,
            "page": f"{types[SHOWN[1]]['page']}?n={N}",
            "n": N,
            "data": markup.data({"kind": "wgmma", "types": types}),
        },
    )
