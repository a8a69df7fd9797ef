"""What other programs read: the data of every fragment, of all together, their schema; and the names for the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tcprobe import __version__
from tcprobe.ask import shared_operand
from tcprobe.ask.describe import cell_entry, form_entry, fragment_entry
from tcprobe.ask.tensor_memory import OperandVariant, operands, placement
from tcprobe.errors import answer_or_none
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.pages.site import addresses, markup, payload
from tcprobe.pages.site.facts import Fact, Facts, is_allowed
from tcprobe.values import Json

WITH_DATA = (8, 24)  # N of which data were published before there was a page for every N
NUMBERS = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def fragments(fact: Fact) -> Iterator[tuple[str, str]]:
    """By address the object of `show --json` with the address of its page; of a fact for every N those of few N."""
    for cell in fact.each:
        if not fact.sizes or cell.fragment.shape.n in WITH_DATA:
            id_ = cell.fragment.id
            yield addresses.data(id_), _json({**cell_entry(cell), "page": addresses.fact(id_)})


def everything(facts: Facts) -> str:
    """Every id that `list` has, in its order, with its archs; each layout once, as bases."""
    fragments = [_in_registers(facts, fragment) for fragment in inventory.fragments().values()]
    rows, cases = inventory.instructions().values(), dict[tuple[str, str, int], Json | None]()
    shared = [{**shared_operand.entry(each), **_behind(facts, each, cases)} for row in rows for each in row.described]
    forms = [{**form_entry(row), **_remote(facts, row)} for row in rows if not row.fragments]
    return _json(
        {
            "schema": 1,
            "tcprobe": __version__,
            "archs": facts.archs,
            "fragments": [*fragments, *shared, *forms],
            "layouts": {id_: payload.layout(table) for id_, table in facts.tables.items()},
        }
    )


def _in_registers(facts: Facts, fragment: Fragment) -> Json:
    """A fragment; the largest N of a fact for every N says also what depends on N, instead of data of its own."""
    fact = facts.by_fragment.get(fragment.id)
    if fact is None:
        return _without_table(facts, fragment)
    largest = fragment.id == fact.fragment.id
    entry = {
        **fragment_entry(fragment),
        "page": page(fact, fragment),
        "json": None if fact.sizes else addresses.data(fact.id),
        "archs": _archs(fact, facts, fragment),
    }
    sizes = [payload.of_size(cell) for cell in fact.sizes] if largest else []
    return entry | ({"sizes": sizes} if sizes else {})


def _without_table(facts: Facts, fragment: Fragment) -> Json:
    """A fragment of which nobody says anything."""
    on = [name for name in facts.archs if is_allowed(fragment.target, name)]
    archs = {name: {"layout": None, "evidence": "unknown"} for name in on}
    there = addresses.fact(fragment.id) if fragment in facts.without_source else None
    return {**fragment_entry(fragment), "page": there, "json": None, "archs": archs}


def page(fact: Fact, fragment: Fragment) -> str:
    """Where a fragment is shown: of one of many N the page of all of them, and which of them."""
    query = f"?n={fragment.shape.n}" if fact.grows and fragment.id != fact.fragment.id else ""
    return addresses.fact(fact.id) + query


def _behind(facts: Facts, operand: SharedOperand, cases: dict[tuple[str, str, int], Json | None]) -> Json:
    """An operand in shared memory, with the evidence of what `show` prints of it: K-major, without a swizzle.

    `cases` keeps what was read: of a family, operands of one name and width share it.
    """
    key = operand.instruction.family, operand.held.name, operand.held.slot_bits
    if key not in cases:
        cases[key] = shared_operand.evidence(operand, "k", 0, facts.layers)[0]
    case = cases[key]
    return _elsewhere(facts, operand.instruction, {shared_operand.ARCH: case["method"] if case else "documented"})


def _in_tensor_memory(facts: Facts, form: Instruction, arch: str) -> str:
    """The evidence of what `show` prints of a form's operands in tensor memory: the least of them; unknown of none."""
    variant = OperandVariant(layers=facts.layers, name=arch)
    found = [answer_or_none(partial(placement, each, variant)) for each in operands(form)]
    stated = {one.status for one in found if one}
    return "documented" if "documented" in stated else "live" if stated else "unknown"


def _remote(facts: Facts, form: Instruction) -> Json:
    """A form that holds nothing in registers."""
    return _elsewhere(facts, form, {name: _in_tensor_memory(facts, form, name) for name in facts.archs})


def _elsewhere(facts: Facts, instruction: Instruction, evidence: Mapping[str, str]) -> Json:
    """What is in no register: the page of its instruction, and the archs that have it, with their `evidence`."""
    on = [name for name in facts.archs if is_allowed(instruction.target, name)]
    archs = {name: {"layout": None, "evidence": evidence.get(name, "unknown")} for name in on}
    name = facts.page_names.get(instruction.id) or (instruction.id if instruction.id in facts.bare else None)
    return {"page": addresses.instruction(name) if name else None, "json": None, "archs": archs}


def _archs(fact: Fact, facts: Facts, fragment: Fragment) -> Json:
    """Those that have the fragment, with the layout of its own N."""
    own = {cell.fragment.id: cell.table.id for cell in fact.sizes}.get(fragment.id)
    return {
        arch: {"layout": (own or fact.cells[arch].table.id) if arch in fact.cells else None, "evidence": kind}
        for arch in facts.archs
        if (kind := fact.kind(arch)) != "absent"
    }


def names(facts: Facts) -> str:
    """A script that names all fragments in order, those that share all but the last part together."""
    by_prefix: list[list[str]] = []
    for id_ in facts.facts:
        prefix, _, last = id_.rpartition(".")
        if by_prefix and by_prefix[-1][0] == prefix:
            by_prefix[-1][1] += f" {last}"
        else:
            by_prefix.append([prefix, last])
    return f"globalThis.tcprobeNames={markup.plain(by_prefix)};\n"


def schema() -> str:
    """JSON Schema of the data of a fragment."""
    needed = {
        "id": TEXT,
        "family": TEXT,
        "instruction": TEXT,
        "operand": TEXT,
        "type": TEXT,
        "arch": TEXT,
        "source": TEXT,
        "threads": NUMBERS,
        "elements": NUMBERS,
        "rows": NUMBERS,
        "cols": NUMBERS,
        "registers": NUMBERS,
        "register_bits": NUMBERS,
        "slot_bits": NUMBERS,
        "products": NUMBERS,
        "copies": NUMBERS,
        "layout": {"enum": ["row", "col", None]},
        "layout_id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "page": {"type": "string", "pattern": r"^f/[^/]+\.html$"},
        "table": {"type": "array", "description": "table[lane][i] is [row, col], null where the slot is unused"},
        "formula": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "fit": {"enum": ["linear", "boolean", "no closed form"]},
        "numbering": TEXT,
        "provenance": {"type": "object", "required": ["method", "arch"]},
        "references": {"type": "array", "items": {"type": "object", "required": ["name", "verdict", "detail"]}},
        "same_layout": {"type": "array", "items": TEXT},
    }
    return _json(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "tcprobe fragment",
            "type": "object",
            "required": list(needed),
            "properties": needed,
        }
    )


def _json(value: object) -> str:
    return markup.plain(value) + "\n"
