"""The page of a layout: who has it, where, and the map itself."""

from __future__ import annotations

from tcprobe.fit import fitted
from tcprobe.fit.manual import in_manual
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.grid import Block, blocks
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.facts import Facts
from tcprobe.pages.site.render import LinkList, View
from tcprobe.pages.tables import spans

MOST_LINKS = 300  # of fragments; of more their instructions are linked
MOST_MATRIX, MOST_REGISTERS = 12_500, 9_000  # characters of a table; pages of fragments have more


def view(facts: Facts, id_: str) -> View:
    """The page."""
    table = facts.tables[id_]
    sharing = facts.sharing[id_]
    by_archs: dict[str, dict[str, LinkList]] = {}
    for fact, cell, archs in sharing:
        sized = fact.grows
        prefix, _, last = (cell.fragment.id if sized else fact.id).rpartition(".")
        page = addresses.fact(fact.id) + (f"?n={cell.fragment.shape.n}" if sized else "")
        by_archs.setdefault(spans(archs), {}).setdefault(prefix, []).append((last, page))
    fragment = sharing[0][1].fragment
    many = len(sharing) > MOST_LINKS
    context = {
        "many": many,
        "id": id_,
        "formula": words.formula(table),
        "manual": in_manual(fitted(table).formulas.values()),
        "held": [
            (
                archs,
                [
                    (prefix, addresses.instruction(prefix) if prefix in facts.instructions else "", by_prefix[prefix])
                    for prefix in by_prefix
                ],
            )
            for archs, by_prefix in by_archs.items()
        ],
        "size": " x ".join(f"{axis.size} {axis.name}" for axis in table.space.axes) + f" → {', '.join(table.outputs)}",
        "blocks": [_block_tables(block, fragment) for block in blocks(table, fragment)],
    }
    return View(addresses.layout(id_), "layout", f"Layout {id_}", "", context)


def _block_tables(block: Block, fragment: Fragment) -> dict[str, object]:
    matrix, lanes = markup.matrix(block, most=MOST_MATRIX), markup.registers(block, fragment, most=MOST_REGISTERS)
    holding = len({thread for thread, _ in block.slots})
    return {
        "title": block.title,
        "matrix": matrix.markup,
        "lanes": lanes.markup,
        "whole": matrix.rows == len(block.pieces) and lanes.rows == holding,
    }
