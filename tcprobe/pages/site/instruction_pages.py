"""The page of an instruction: A left, B above, D lower right; what it becomes on each arch; its PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcprobe import emit
from tcprobe.ask.descriptor import TYPES, cuda, field_lines, tile, to_json
from tcprobe.errors import answer_or_none
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import Operand, Role
from tcprobe.isa.tensor_map import DATA_TYPE_OF
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.pages.site import addresses, markup, number_pages, words
from tcprobe.pages.site.data_files import drawing, picture_of
from tcprobe.pages.site.facts import Fact, Facts, for_every_n
from tcprobe.pages.site.markup import View
from tcprobe.store.cell import Cell
from tcprobe.values import Json

SHARED_PIECE = 8  # columns of a factor in shared memory that a picture has as one cell


def instruction_page(facts: Facts, name: str) -> View:
    """The page, with the tables of the arch whose table of D (or what comes last) counts most."""
    row = facts.instructions[name]
    by_operand = {f.operand: facts.by_fragment[f.id] for f in row.fragments}
    arch = next(reversed(by_operand.values())).main.arch
    cells = {  # that are drawn; of every N that of the smallest
        operand: fact.sizes[0] if fact.sizes else fact.cells.get(arch) for operand, fact in by_operand.items()
    }
    composed = [o for o in by_operand if not row.multiplies or o != "c"]
    remote = {o.name.removesuffix("_smem"): o for o in row.elsewhere if o.role is Role.FACTOR}
    remote = {name: o for name, o in remote.items() if name not in by_operand}
    every_n = any(fact.sizes for fact in by_operand.values())
    operands = {o: _data(by_operand[o]) for o in by_operand} | {name: _remote(name, o) for name, o in remote.items()}
    drawn = {"products": row.products, "drawn": [*composed, *remote]}
    context = {
        "every_n": every_n,
        "arch": arch,
        "axis": words.axis(row.fragments[0]),
        "what": words.what_it_does(row, every_n),
        "targets": words.targets(row),
        "strip": [name for name in facts.archs if all(name in fact.cells for fact in by_operand.values())],
        "operands": [_operand(by_operand[o], cell, arch) for o, cell in cells.items()],
        "drawn": [
            {"key": o, "name": words.name_of(o), "picture": picture_of(cell) if (cell := cells.get(o)) else ""}
            for o in [*composed, *remote]
        ],
        "multiplies": row.multiplies,
        "products": range(row.products),
        "stated": words.variants(row),
        "lowered": words.lowerings(facts, row),
        "ptx": _ptx(row, [cell for cell in cells.values() if cell]),
        "numbers": number_pages.numbers(facts, row),
        "data": markup.data({"kind": "instruction", "main": arch, "operands": operands, **drawn, **_sparse(row)}),
    }
    title = name if every_n else row.name
    return View(addresses.instruction(name), "instruction", title, "", context)


def _operand(fact: Fact, cell: Cell | None, arch: str) -> Json:
    fragment = fact.fragment
    there = cell and arch in fact.cells
    return {
        "key": fragment.operand,
        "name": words.name(fragment),
        "page": addresses.fact(fact.id),
        "size": f"{fragment.rows} x {'N' if fact.grows else fragment.cols} of {fragment.type}",
        "formula": words.formula(cell.table) if cell else "",
        "held": words.lane_contents(fragment),
        "evidence": words.SHORT[fact.kind(arch)] if there else f"no table on {arch}",
    }


def _data(fact: Fact) -> Json:
    """What the script draws of an operand, and says of it, on each arch."""
    evidences = list(dict.fromkeys(words.SHORT[fact.kind(arch)] for arch in fact.cells))
    of_script = drawing(fact, {arch: evidences.index(words.SHORT[fact.kind(arch)]) for arch in fact.cells})
    return of_script | {"evidence": evidences, "formulas": [words.formula(table) for table in fact.tables.values()]}


def _remote(name: str, operand: Operand) -> Json:
    """A factor that is in no register."""
    return {
        "name": name.upper(),
        "rows": operand.rows,
        "cols": operand.cols,
        "threads": 32,
        "elements": 0,
        "bits": operand.slot_bits,
        "register": 32,
        "place": operand.place.value,
        "piece": SHARED_PIECE,
    }


def _sparse(instruction: Instruction) -> Json:
    """How metadata selects, of a sparse multiply."""
    if instruction.metadata is None:
        return {}
    rule = sparsity(instruction.metadata)
    return {
        "sparsity": {
            "fields": rule.fields,
            "positions": rule.positions,
            "span": rule.span,
            "legal": list(rule.legal),
            "k": instruction.shape.k,
        }
    }


def _ptx(instruction: Instruction, cells: Sequence[Cell]) -> str:
    """Declarations and the instruction, where its name is one; what the tables rest on stands above."""
    if "{" in instruction.name or not cells:
        return ""
    return (answer_or_none(lambda: emit.emit("ptx", cells)) or "").partition("\n\n")[2]


WGMMA_PAGE = "play/wgmma.html"
SHOWN_TILE = ((128, 64), "bf16", "k", 128)  # the tile that stands there before anybody chooses
SHOWN_WIDTH = 128


def wgmma_pages(facts: Facts) -> list[View]:
    """The page, where the site has warpgroup multiplies."""
    forms = {kind: row for kind in TYPES if (row := _wgmma_form(facts, kind))}
    return [_wgmma_page(facts, forms)] if SHOWN_TILE[1] in forms else []


def wgmma_links(facts: Facts) -> list[tuple[str, str]]:
    """What the first page says of it."""
    return [("wgmma: tiles, descriptors, tensor maps", WGMMA_PAGE)] if _wgmma_form(facts, SHOWN_TILE[1]) else []


def _wgmma_form(facts: Facts, kind: str) -> Instruction | None:
    """The dense multiply of N that takes A and B of a type, the one with the widest D."""
    rows = [
        row for row in inventory.executed_by(WARPGROUP) if row.shape.n == SHOWN_WIDTH and row.id in facts.page_names
    ]
    fits = [row for row in rows if {operand.held.type for operand in row.described} == {kind} and not row.metadata]
    return max(fits, key=lambda row: dtype(row.fragment("d").type).bits, default=None)


def _wgmma_page(facts: Facts, by_type: dict[str, Instruction]) -> View:
    shared_tile = tile(*SHOWN_TILE)
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
    row = by_type[SHOWN_TILE[1]]
    size = f"{shared_tile.lines}x{shared_tile.k}"
    command = f"tcprobe descriptor --tile {size} --instruction {row.id}.a_smem --major k --swizzle 128"
    return View(
        WGMMA_PAGE,
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
            "page": f"{types[SHOWN_TILE[1]]['page']}?n={SHOWN_WIDTH}",
            "n": SHOWN_WIDTH,
            "data": markup.data({"kind": "wgmma", "types": types}),
        },
    )
