"""The page of a layout: who has it, where, and the map itself."""

from __future__ import annotations

from tcprobe.layout.grid import blocks
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.fact_view import drawn
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import View


def view(facts: Facts, id_: str) -> View:
    """The page."""
    table = facts.tables[id_]
    sharing = facts.sharing[id_]
    by_archs: dict[str, list[tuple[str, str]]] = {}
    for fact, archs in sharing:
        by_archs.setdefault(words.archs_in_words(archs), []).append((fact.id, addresses.fact(fact.id)))
    first = sharing[0][0]
    shown = {
        "id": id_, "formula": words.formula(table), "held": list(by_archs.items()),
        "size": " x ".join(f"{axis.size} {axis.name}" for axis in table.space.axes) + f" → {', '.join(table.outputs)}",
        "blocks": [drawn(block, first) for block in blocks(table, first.fragment)],
    }  # fmt: skip
    return View(addresses.layout(id_), "layout", f"Layout {id_}", f"Layout {id_}, and which fragments have it", shown)
