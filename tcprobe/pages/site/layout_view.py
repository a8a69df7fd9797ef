"""The page of a layout: who has it, where, and the map itself."""

from __future__ import annotations

from tcprobe.layout.grid import blocks
from tcprobe.pages.site import addresses, words
from tcprobe.pages.site.fact_view import drawn
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.index_view import Links
from tcprobe.pages.site.render import View
from tcprobe.pages.tables import spans

MOST_LINKS = 300  # of fragments; of more their instructions are linked


def view(facts: Facts, id_: str) -> View:
    """The page."""
    table = facts.tables[id_]
    sharing = facts.sharing[id_]
    by_archs: dict[str, dict[str, Links]] = {}
    for fact, cell, archs in sharing:
        sized = fact.grows
        prefix, _, last = (cell.fragment.id if sized else fact.id).rpartition(".")
        page = addresses.fact(fact.id) + (f"?n={cell.fragment.shape.n}" if sized else "")
        by_archs.setdefault(spans(archs), {}).setdefault(prefix, []).append((last, page))
    fragment = sharing[0][1].fragment
    many = len(sharing) > MOST_LINKS
    shown = {
        "many": many, "id": id_, "formula": words.formula(table),
        "held": [(archs, [(prefix, addresses.instruction(prefix) if prefix in facts.instructions else "", of[prefix])
                          for prefix in of]) for archs, of in by_archs.items()],
        "size": " x ".join(f"{axis.size} {axis.name}" for axis in table.space.axes) + f" → {', '.join(table.outputs)}",
        "blocks": [drawn(block, fragment, coloured=True) for block in blocks(table, fragment)],
    }  # fmt: skip
    return View(addresses.layout(id_), "layout", f"Layout {id_}", f"Layout {id_}, and which fragments have it", shown)
