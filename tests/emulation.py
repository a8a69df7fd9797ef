"""Layouts for the emulated tensor core: any map from slots to elements, linear or not, with copies."""

from __future__ import annotations

import random

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table, slot_table
from tcprobe.references import ptx_isa

SM_90 = arch("sm_90")


def table_of(fragment: Fragment, elements: list[int | None]) -> Table:
    """The table in which slot s holds element number elements[s] = (product * rows + row) * cols + col."""
    rows, cols = fragment.rows, fragment.cols
    values = {
        "row": tuple(None if e is None else e // cols % rows for e in elements),
        "col": tuple(None if e is None else e % cols for e in elements),
    }
    if fragment.products > 1:
        values["product"] = tuple(None if e is None else e // cols // rows for e in elements)
    return slot_table(fragment.threads, fragment.elements, values)


def shuffled(fragment: Fragment, rng: random.Random) -> Table:
    """Every element equally often, in any order."""
    elements = list(range(fragment.rows * fragment.cols * fragment.products)) * fragment.copies
    rng.shuffle(elements)
    return table_of(fragment, elements)


def pointed(fragment: Fragment, rng: random.Random) -> Table:
    """Addresses of as many lanes as there are rows, any of them; rows are numbered in the order of the lanes."""
    counting = sorted(rng.sample(range(fragment.threads), fragment.rows))
    rows = {lane: row for row, lane in enumerate(counting)}
    return slot_table(fragment.threads, 1, {"row": tuple(rows.get(lane) for lane in range(fragment.threads))})


def one_copy(table: Table, rng: random.Random) -> Table:
    """The same table with all but one holder of each element left out."""
    kept = {rng.choice(holders) for holders in table.inverse.values()}
    values = {n: tuple(v if s in kept else None for s, v in enumerate(c)) for n, c in table.values.items()}
    return slot_table(table.threads, table.elements, values)


def _selected(fragment: Fragment) -> bool:
    """Whether a selector changes something in the fragment's instruction."""
    row = inventory.instructions().get(fragment.experiment)
    return row is not None and any(f.selectors for f in row.fragments)


def tables(seed: int, documented_mma: bool = True) -> tuple[dict[str, Table], dict[str, Table]]:
    """(tables, reads) for every fragment of a warp; mma as PTX documents it, or shuffled as well."""
    rng = random.Random(seed)
    found: dict[str, Table] = {}
    for fragment in (f for f in inventory.of_a_warp().values() if not _selected(f)):
        if fragment.family == "wmma" and fragment.operand == "d":
            found[fragment.id] = found[fragment.id.replace(".d.", ".c.")]
        elif fragment.family == "mma" and documented_mma:
            claim = ptx_isa.claim(fragment, SM_90)
            found[fragment.id] = shuffled(fragment, rng) if isinstance(claim, str) else claim.meant
        elif fragment.role is Role.ADDRESS:
            found[fragment.id] = pointed(fragment, rng)
        else:
            found[fragment.id] = shuffled(fragment, rng)
    reads = {id_: one_copy(table, rng) for id_, table in found.items() if inventory.of_a_warp()[id_].copies > 1}
    return found, reads
