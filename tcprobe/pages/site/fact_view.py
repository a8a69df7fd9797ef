"""The page of a fragment: archs, formula, the map both ways, code, references, provenance."""

from __future__ import annotations

from typing import Any

from tcprobe.fit import fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.operand import Role
from tcprobe.layout.grid import Block
from tcprobe.layout.table import Table
from tcprobe.pages.site import addresses, code, markup, words
from tcprobe.pages.site.facts import Fact
from tcprobe.pages.site.payload import payload
from tcprobe.pages.site.render import View
from tcprobe.store.cell import Cell
from tcprobe.store.measurement import FROM_CODE

MOST_PICTURE = 4096  # slots; `tcprobe emit --to svg` draws larger ones
WHAT = {Role.FACTOR: "Factor", Role.ACCUMULATOR: "Accumulator", Role.RESULT: "Result", Role.SOURCE: "Source",
        Role.METADATA: "Metadata", Role.SCALE: "Scales", Role.ADDRESS: "Row addresses"}  # fmt: skip


def view(fact: Fact) -> View:
    """The page."""
    fragment, main = fact.fragment, fact.main
    what = f"{WHAT.get(fragment.role, fragment.role.value)} {words.name(fragment)}"
    shown = {
        "fragment": fragment, "what": what + (f".{fragment.layout}" if fragment.layout else ""),
        "size": words.size(fragment), "name": words.name(fragment), "axis": words.axis(fragment),
        "archs": [_arch(fact, row.name) for row in ARCHS], "main": main.arch, "evidence": words.evidence(main),
        "formula": words.formula(main.table), "slots": _slots(fact), "notes": _notes(fact),
        "layouts": [_layout(fact, table) for table in fact.tables.values()],
        "blocks": [drawn(block, fact) for block in fact.blocks], "verdicts": fact.verdicts,
        "provenance": _provenance(main), "command": command(main),
        "absent": _absent(fact),
        "users": users(fact), "data_page": addresses.data(fact.id), "picture": picture(main),
        "arch_page": addresses.arch(main.arch), "data": markup.data({"kind": "fact"} | payload(fact)),
    }  # fmt: skip
    about = f"Which {words.axis(fragment)} and register holds which element of {fact.id}"
    return View(addresses.fact(fact.id), "fact", fact.id, about, shown)


def drawn(block: Block, fact: Fact) -> dict[str, Any]:
    """A block as tables."""
    matrix, registers = markup.matrix(block), markup.registers(block, fact.fragment)
    holding = len({thread for thread, _ in block.slots})
    return {"title": block.title, "matrix": matrix.markup, "lanes": registers.markup,
            "whole": matrix.rows == len(block.pieces) and registers.rows == holding}  # fmt: skip


def users(fact: Fact) -> list[tuple[str, str]]:
    """(id, page) of the instructions that take the fragment."""
    return [(id_, addresses.instruction(id_)) for id_ in inventory.user_ids(fact.id)]


def picture(cell: Cell) -> str:
    """The picture of a table; empty where it is too large for a page."""
    drawn_ = cell.table.points <= MOST_PICTURE
    return addresses.picture(cell.table.id, cell.fragment.slot_bits) if drawn_ else ""


def command(cell: Cell) -> str:
    """What obtains the table again: measures it, or shows what is documented."""
    experiment, measured = cell.fragment.experiment, cell.measured
    if not measured:
        return f"tcprobe run {experiment} --arch {cell.arch} --method live   # on such a GPU; nobody did yet"
    if measured.method in FROM_CODE[1:]:
        return f"tcprobe run --arch {cell.arch} --method sass   # {experiment} follows from machine code"
    return f"tcprobe run {cell.fragment.id} --arch {cell.arch} --method {measured.method}"


def _arch(fact: Fact, name: str) -> dict[str, Any]:
    there = name in fact.cells
    cell = fact.cells.get(name)
    return {"name": name, "there": there, "kind": fact.kind(name), "short": words.badge(fact, name),
            "main": name == fact.main.arch, "other": cell is not None and cell.table != fact.main.table}  # fmt: skip


def _absent(fact: Fact) -> list[tuple[str, str]]:
    """(archs, why they have no table)."""
    found: dict[str, list[str]] = {}
    for row in ARCHS:
        if row.name not in fact.cells:
            found.setdefault(words.why(fact, row.name), []).append(row.name)
    return [(words.archs_in_words(archs), why) for why, archs in found.items()]


def _layout(fact: Fact, table: Table) -> dict[str, Any]:
    archs = [name for name, cell in fact.cells.items() if cell.table == table]
    several = len(fact.tables) > 1
    at = next(cell for cell in fact.cells.values() if cell.table == table)
    shown = fact.main if table == fact.main.table else at
    return {"id": table.id, "page": addresses.layout(table.id), "archs": words.archs_in_words(archs) if several else "",
            "code": code.tabs(shown)}  # fmt: skip


def _slots(fact: Fact) -> str:
    verdict = fitted(fact.main.table).verdict
    used = sum(cell is not None for cell in fact.main.table.cells)
    return f"{verdict[:1].upper()}{verdict[1:]}, proven over all {used} slots that hold anything."


def _notes(fact: Fact) -> list[str]:
    counts = sorted({len(piece.holders) for block in fact.blocks for row in block.pieces for piece in row} - {0})
    found = [] if counts == [1] else [f"Each element has {' or '.join(map(str, counts))} holders"]
    if fact.main.numbering:
        found.append(f"Row and column numbers from {fact.main.numbering}")
    return found


def _provenance(cell: Cell) -> list[tuple[str, str]]:
    if not cell.measured:
        return [("documented", cell.evidence)]
    measured = cell.measured
    made = ((key, measured.provenance[key]) for key in sorted(measured.provenance))
    rows = [("method", measured.method), ("arch", measured.arch), ("experiment", measured.experiment), *made,
            ("source", cell.source)]  # fmt: skip
    structure = measured.structure
    return rows + (
        [("structure tensor", f"{structure.triples} triples, SHA-256 {structure.sha256}")] if structure else []
    )
