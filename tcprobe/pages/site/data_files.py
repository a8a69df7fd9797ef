"""What other programs read: the data of every fragment, of all together, their schema; and the names for the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcprobe import __version__
from tcprobe.ask.describe import fragment_entry, shown
from tcprobe.pages.site import addresses, markup, payload
from tcprobe.pages.site.facts import Fact, Facts

WITH_DATA = (8, 24)  # N of which data were published before there was a page for every N
NUMBERS = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def fragments(fact: Fact) -> Iterator[tuple[str, str]]:
    """By address the object of `show --json` with the address of its page; of a fact for every N those of few N."""
    for cell in fact.each:
        if not fact.sizes or cell.fragment.shape.n in WITH_DATA:
            id_ = cell.fragment.id
            yield addresses.data(id_), _json({**shown(cell), "page": addresses.fact(id_)})


def everything(facts: Facts) -> str:
    """All fragments with their archs; each layout once, as bases."""
    entries = [{**fragment_entry(fact.fragment), **_addresses(fact), "archs": _archs(fact, facts)}
               for fact in facts.facts.values()]  # fmt: skip
    return _json({"schema": 1, "tcprobe": __version__, "archs": facts.archs, "fragments": entries,
                  "layouts": {id_: payload.layout(table) for id_, table in facts.tables.items()}})  # fmt: skip


def _addresses(fact: Fact) -> dict[str, Any]:
    """Of a fact for every N also what depends on N, instead of data of its own."""
    page = {"page": addresses.fact(fact.id)}
    if not fact.sizes:
        return {**page, "json": addresses.data(fact.id)}
    return {**page, "json": None, "sizes": [payload.of_size(cell) for cell in fact.sizes]}


def _archs(fact: Fact, facts: Facts) -> dict[str, Any]:
    """Those that have the fragment."""
    return {arch: {"layout": fact.cells[arch].table.id if arch in fact.cells else None, "evidence": kind}
            for arch in facts.archs if (kind := fact.kind(arch)) != "absent"}  # fmt: skip


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
        "id": TEXT, "family": TEXT, "instruction": TEXT, "operand": TEXT, "type": TEXT, "arch": TEXT, "source": TEXT,
        "threads": NUMBERS, "elements": NUMBERS, "rows": NUMBERS, "cols": NUMBERS, "registers": NUMBERS,
        "register_bits": NUMBERS, "slot_bits": NUMBERS, "products": NUMBERS, "copies": NUMBERS,
        "layout": {"enum": ["row", "col", None]}, "layout_id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "page": {"type": "string", "pattern": r"^f/[^/]+\.html$"},
        "table": {"type": "array", "description": "table[lane][i] is [row, col], null where the slot is unused"},
        "formula": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "fit": {"enum": ["linear", "boolean", "no closed form"]}, "numbering": TEXT,
        "provenance": {"type": "object", "required": ["method", "arch"]},
        "references": {"type": "array", "items": {"type": "object", "required": ["name", "verdict", "detail"]}},
        "same_layout": {"type": "array", "items": TEXT},
    }  # fmt: skip
    return _json({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tcprobe fragment",
                  "type": "object", "required": list(needed), "properties": needed})  # fmt: skip


def _json(value: object) -> str:
    return markup.plain(value) + "\n"
