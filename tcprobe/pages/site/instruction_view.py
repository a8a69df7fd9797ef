"""The page of an instruction: A left, B above, D lower right; what it becomes and computes on each arch; its PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcprobe import emit
from tcprobe.errors import UsageError
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Place, Role
from tcprobe.numerics import measured
from tcprobe.pages.numerics import brief
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.fact_view import picture
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.payload import bare, sizes
from tcprobe.pages.site.render import View
from tcprobe.pages.tables import spans
from tcprobe.sass import lowering
from tcprobe.sass.lowering import Lowering
from tcprobe.store.cell import Cell


def view(facts: Facts, name: str) -> View:
    """The page, with the tables of the arch whose table of D (or what comes last) counts most."""
    row = facts.instructions[name]
    by_operand = {f.operand: facts.of[f.id] for f in row.fragments}
    arch = next(reversed(by_operand.values())).main.arch
    facts_of = {operand: fact for operand, fact in by_operand.items() if arch in fact.cells}
    at = {operand: fact.sizes[0] if fact.sizes else fact.cells[arch] for operand, fact in facts_of.items()}
    composed = [o for o in ("a", "b", "d") if o in at and at[o].fragment.role in (Role.FACTOR, Role.RESULT)]
    composes = row.multiplies and "d" in composed and len(composed) > 1
    every_n = any(fact.sizes for fact in by_operand.values())
    shown = {
        "drawn_n": row.shape.n if every_n else "",
        "arch": arch, "axis": words.axis(row.fragments[0]), "what": _what(row),
        "targets": " or ".join(f"{target}, PTX {ptx}" for target, ptx in row.target.options),
        "operands": [_operand(facts_of[operand], at[operand]) for operand in at],
        "drawn": [_operand(facts_of[operand], at[operand]) for operand in composed],
        "products": range(row.products) if composes else [],
        "lowered": _lowered(facts, row), "computed": _computed(facts, row), "ptx": _ptx(list(at.values())),
        "data": markup.data(_data(at, composed) if composes else {"kind": "moves"}),
    }  # fmt: skip
    title = name if every_n else row.name
    return View(addresses.instruction(name), "instruction", title, "", shown)


def _what(row: Instruction) -> str:
    shared = [o.name for o in row.operands if o.place is not Place.REGISTERS]
    beyond = f" Not in registers: {', '.join(shared)}." if shared else ""
    if not row.multiplies:
        return f"Moves matrices between shared memory and registers, or between lanes.{beyond}"
    products = f"{row.products} products of " if row.products > 1 else ""
    shape = row.shape
    return f"D = A B + C: {products}{shape.m} x {shape.k} times {shape.k} x {shape.n}.{beyond}"


def _operand(fact: Fact, cell: Cell) -> dict[str, str]:
    fragment = cell.fragment
    return {"key": fragment.operand, "name": words.name(fragment), "page": addresses.fact(fact.id),
            "size": f"{fragment.rows} x {fragment.cols} of {fragment.type}", "formula": words.formula(cell.table),
            "evidence": words.SHORT[fact.kind(cell.arch)], "picture": picture(cell),
            "held": words.held(fragment)}  # fmt: skip


def _data(at: dict[str, Cell], composed: Sequence[str]) -> dict[str, Any]:
    operands = {name: sizes(at[name].fragment) | {"layout": bare(at[name].table)} for name in composed}
    return {"kind": "instruction", "operands": operands}


def _lowered(facts: Facts, row: Instruction) -> list[tuple[str, str]]:
    """(archs, words), archs with the same together."""
    by_text: dict[str, list[str]] = {}
    for arch, bodies in facts.lowerings.items():
        saved = next((body for body in bodies if row.id in body["instructions"]), None)
        if saved:
            low = Lowering(**saved["instructions"][row.id])
            text = lowering.words(low, row) + (f" ({low.refused})" if low.refused else "")
            by_text.setdefault(text, []).append(arch)
    return [(spans(archs), text) for text, archs in by_text.items()]


def _computed(facts: Facts, row: Instruction) -> list[tuple[str, str]]:
    """(archs, words) where the arithmetic was measured, archs with the same together."""
    by_text: dict[str, list[str]] = {}
    for device in ARCHS if row.multiplies and not row.unprobed else ():
        if sourced := measured(row, device.name, facts.layers):
            by_text.setdefault(brief(sourced.finding), []).append(device.name)
    return [(spans(archs), text) for text, archs in by_text.items()]


def _ptx(cells: Sequence[Cell]) -> str:
    """Declarations and the instruction; what the tables rest on stands above."""
    try:
        return emit.emit("ptx", cells).partition("\n\n")[2]
    except UsageError:
        return ""
