"""The page of an instruction: A left, B above, D lower right; what it becomes on each arch; its PTX."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe import emit
from tcprobe.errors import answer_or_none
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Role
from tcprobe.isa.sparsity import sparsity
from tcprobe.pages.site import addresses, instruction_words, markup, number_views, words
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.payload import drawing
from tcprobe.pages.site.pictures import picture
from tcprobe.pages.site.render import View
from tcprobe.store.cell import Cell
from tcprobe.values import Json

SHARED_PIECE = 8  # columns of a factor in shared memory that a picture has as one cell


def view(facts: Facts, name: str) -> View:
    """The page, with the tables of the arch whose table of D (or what comes last) counts most."""
    row = facts.instructions[name]
    by_operand = {f.operand: facts.by_fragment[f.id] for f in row.fragments}
    arch = next(reversed(by_operand.values())).main.arch
    cells = {operand: _cell(fact, arch) for operand, fact in by_operand.items()}
    composed = [o for o in by_operand if not row.multiplies or o != "c"]
    remote = {o.name.removesuffix("_smem"): o for o in row.elsewhere if o.role is Role.FACTOR}
    remote = {name: o for name, o in remote.items() if name not in by_operand}
    every_n = any(fact.sizes for fact in by_operand.values())
    operands = {o: _data(by_operand[o]) for o in by_operand} | {name: _remote(name, o) for name, o in remote.items()}
    context = {
        "every_n": every_n,
        "arch": arch,
        "axis": words.axis(row.fragments[0]),
        "what": instruction_words.what(row, every_n),
        "targets": instruction_words.targets(row),
        "strip": [name for name in facts.archs if _there(by_operand, name)],
        "operands": [_operand(by_operand[o], cell, arch) for o, cell in cells.items()],
        "drawn": [_picture(o, cells.get(o)) for o in [*composed, *remote]],
        "multiplies": row.multiplies,
        "products": range(row.products),
        "stated": instruction_words.variants(row),
        "lowered": instruction_words.lowerings(facts, row),
        "ptx": _ptx(row, [cell for cell in cells.values() if cell]),
        "numbers": number_views.numbers(facts, row),
        "data": markup.data(
            {
                "kind": "instruction",
                "main": arch,
                "operands": operands,
                "products": row.products,
                "drawn": [*composed, *remote],
                **_sparse(row),
            }
        ),
    }
    title = name if every_n else row.name
    return View(addresses.instruction(name), "instruction", title, "", context)


def _cell(fact: Fact, arch: str) -> Cell | None:
    """What is drawn of a fact on an arch: of one for every N that of the smallest."""
    return fact.sizes[0] if fact.sizes else fact.cells.get(arch)


def _there(by_operand: dict[str, Fact], arch: str) -> bool:
    return all(arch in fact.cells for fact in by_operand.values())


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


def _picture(operand: str, cell: Cell | None) -> dict[str, str]:
    name = operand.upper() if len(operand) == 1 else operand
    return {"key": operand, "name": name, "picture": picture(cell) if cell else ""}


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
