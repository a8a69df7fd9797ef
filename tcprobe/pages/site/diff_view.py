"""The page that compares two archs: neighbours in a table, any two by the script."""

from __future__ import annotations

from itertools import pairwise

from tcprobe.layout.ranges import ranges
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.render import View
from tcprobe.values import Json


def view(facts: Facts) -> View:
    """The page."""
    pairs = list(pairwise(facts.archs))
    first, second = ("sm_75", "sm_80") if {"sm_75", "sm_80"} <= set(facts.archs) else (facts.archs[0], facts.archs[-1])
    context = {
        "archs": facts.archs,
        "first": first,
        "second": second,
        "steps": [_step(facts, *pair) for pair in pairs],
        "data": markup.data(_data(facts)),
    }
    return View("diff.html", "diff", "Differences", "What differs between two GPU generations", context)


def _step(facts: Facts, before: str, after: str) -> Json:
    both = [fact for fact in facts.facts.values() if {before, after} <= set(fact.cells)]
    changed = [fact for fact in both if fact.cells[before].table != fact.cells[after].table]
    new = sum(after in fact.cells and before not in fact.cells for fact in facts.facts.values())
    return {
        "pair": f"{before} to {after}",
        "same": len(both) - len(changed),
        "new": new,
        "changed": [(fact.id, addresses.fact(fact.id)) for fact in changed],
    }


def _data(facts: Facts) -> Json:
    """Runs of fragment numbers, in the order of search.js, with the number of their layout by arch; -1 without one."""
    numbers = {id_: number for number, id_ in enumerate(facts.tables)}
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, fact in enumerate(facts.facts.values()):
        groups.setdefault(tuple(_number(fact, arch, numbers) for arch in facts.archs), []).append(number)
    formulas = [words.formula(table).replace("\n", ", ") for table in facts.tables.values()]
    runs = [
        [[[first, last - first + 1] for first, last in ranges(members)], list(cells)]
        for cells, members in groups.items()
    ]
    return {"kind": "diff", "archs": facts.archs, "groups": runs, "formulas": formulas}


def _number(fact: Fact, arch: str, number_of: dict[str, int]) -> int:
    return number_of[fact.cells[arch].table.id] if arch in fact.cells else -1
