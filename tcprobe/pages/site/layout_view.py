"""The page of a layout: who has it, where, and the map itself."""

from __future__ import annotations

from tcprobe.layout.grid import blocks
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.fact_view import drawn
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.index_view import Links
from tcprobe.pages.site.render import View


def view(facts: Facts, id_: str) -> View:
    """The page."""
    table = facts.tables[id_]
    sharing = facts.sharing[id_]
    by_archs: dict[str, dict[str, Links]] = {}
    for fact, archs in sharing:
        prefix, _, last = fact.id.rpartition(".")
        of = by_archs.setdefault(words.archs_in_words(archs), {})
        of.setdefault(prefix, []).append((last, addresses.fact(fact.id)))
    first = sharing[0][0]
    shown = {
        "id": id_, "formula": words.formula(table),
        "held": [(archs, list(of.items())) for archs, of in by_archs.items()],
        "size": " x ".join(f"{axis.size} {axis.name}" for axis in table.space.axes) + f" → {', '.join(table.outputs)}",
        "blocks": [drawn(block, first) for block in blocks(table, first.fragment)],
    }  # fmt: skip
    return View(addresses.layout(id_), "layout", f"Layout {id_}", f"Layout {id_}, and which fragments have it", shown)
