"""The page that compares: two fragments, two archs, or a fragment and a table that somebody pastes."""

from __future__ import annotations

from typing import Any

from tcprobe.ask import diagnosis
from tcprobe.ask.compare import conventional
from tcprobe.layout import csv
from tcprobe.layout.grid import blocks
from tcprobe.layout.table import Table
from tcprobe.pages.site import addresses, markup, words
from tcprobe.pages.site.facts import Fact, Facts
from tcprobe.pages.site.pictures import picture
from tcprobe.pages.site.render import View
from tcprobe.store.cell import Cell
from tcprobe.values import Json

PAGE = "compare.html"
OF_KIND = ("bits", "register", "conventional", "documented", "sizes")  # what `_kind` has of a fragment
FIRST = ("wmma.m16n16k16.d.f32", "sm_70", "sm_75")  # Volta's accumulator and Turing's
LONGEST = 100  # characters of a name in the box
PICTURE = 34_000  # characters that the page has of each matrix


def view(facts: Facts) -> View:
    """The page, with two archs' tables of a fragment drawn."""
    fact, archs = _first(facts)
    sides = [fact.cells[arch] for arch in archs]
    kinds, runs = _kinds(facts)
    context = {
        "sides": [_side(fact, cell) for cell in sides],
        "count": _count(sides),
        "csv": csv.WORDS["empty"].partition("; ")[2],
        "most": csv.rules()["most"]["bytes"],
        "longest": LONGEST,
        "data": markup.data(
            {
                "kind": "compare",
                "first": [[fact.id, arch] for arch in archs],
                "archs": facts.archs,
                "rules": diagnosis.to_json(),
                "csv": csv.rules(),
                "kinds": kinds,
                "runs": runs,
            }
        ),
    }
    about = "Two fragments or two archs side by side; a table of yours against the measured one"
    return View(PAGE, "compare", "Side by side", about, context)


def _first(facts: Facts) -> tuple[Fact, tuple[str, str]]:
    """What is drawn where nothing is chosen; of other folders what they have."""
    id_, *archs = FIRST
    fact = facts.facts.get(id_)
    if fact and set(archs) <= set(fact.cells):
        return fact, (archs[0], archs[1])
    several = [fact for fact in facts.facts.values() if len(fact.tables) > 1 and not fact.sizes]
    fact = next(iter(several or facts.facts.values()))
    other = next((arch for arch, cell in fact.cells.items() if cell.table != fact.main.table), fact.main.arch)
    return fact, (fact.main.arch, other)


def _side(fact: Fact, cell: Cell) -> Json:
    block = blocks(cell.table, cell.fragment)[0]
    return {
        "id": fact.id,
        "page": f"{addresses.fact(fact.id)}?arch={cell.arch}",
        "arch": cell.arch,
        "axis": words.axis(fact.fragment),
        "formula": words.formula(cell.table),
        "matrix": markup.matrix(block, PICTURE).markup,
        "picture": picture(cell),
    }


def _count(compared_cells: list[Cell]) -> str:
    first, second = (side.table.inverse for side in compared_cells)
    both = set(first) & set(second)
    return (
        f"{sum(first[element] != second[element] for element in both)} of {len(both)} elements have different holders."
    )


def _kinds(facts: Facts) -> tuple[list[Json], list[list[int]]]:
    """What fragments are, each kind once; and [kind, how many follow each other], in the order of the table of words.

    A kind says bits of an element and of a register, whether rows and columns are a convention, on which archs nobody
    measured it (as bits in the order of `archs`), and each N of a fragment for every N.
    """
    kinds: dict[tuple[Any, ...], int] = {}
    runs: list[list[int]] = []
    for fact in facts.facts.values():
        number = kinds.setdefault(_kind(facts, fact), len(kinds))
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return [dict(zip(OF_KIND, kind, strict=True)) for kind in kinds], runs


def _kind(facts: Facts, fact: Fact) -> tuple[Any, ...]:
    fragment = fact.fragment
    documented = sum(1 << facts.archs.index(arch) for arch, cell in fact.cells.items() if not cell.measured)
    sizes = tuple((cell.fragment.shape.n, _elements(cell.table)) for cell in fact.sizes)
    return fragment.slot_bits, fragment.register_bits, conventional(fragment), documented, sizes


def _elements(table: Table) -> int:
    return table.space.axes[-1].size
