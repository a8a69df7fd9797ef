"""Two sets of tables compared: same, changed and how, only in one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcprobe import inventory
from tcprobe.campaign import Campaign, Request
from tcprobe.children import Scratch
from tcprobe.errors import UsageError
from tcprobe.fit import fit
from tcprobe.results import Results
from tcprobe.table import Table

FIRST = 3


@dataclass(frozen=True)
class Difference:
    """Fragments by id: with the same table, with another (and how), and in one set only."""

    same: list[str]
    changed: dict[str, list[str]]
    only_left: list[str]
    only_right: list[str]

    @property
    def none(self) -> bool:
        """Whether there is no difference."""
        return not (self.changed or self.only_left or self.only_right)


def tables(results: Results, name: str) -> dict[str, Table]:
    """The strongest table of every fragment of an arch, by id."""
    found = {f.id: results.find(name, f) for f in inventory.fragments().values()}
    return {id_: saved[1] for id_, saved in found.items() if saved and saved[1]}


def difference(left: Mapping[str, Table], right: Mapping[str, Table]) -> Difference:
    """Compare two sets of tables."""
    both = [id_ for id_ in left if id_ in right]
    return Difference(
        [id_ for id_ in both if left[id_] == right[id_]],
        {id_: how(left[id_], right[id_]) for id_ in both if left[id_] != right[id_]},
        [id_ for id_ in left if id_ not in right],
        [id_ for id_ in right if id_ not in left],
    )


def how(left: Table, right: Table) -> list[str]:
    """The formulas of both, and the first slots that differ."""
    lines = []
    for name in left.outputs:
        texts = [str(f.formulas.get(name) or "no closed form") for f in (fit(left), fit(right))]
        lines += [f"{name}: {texts[0]}  ->  {texts[1]}"] if texts[0] != texts[1] else []
    if left.slots == right.slots:
        slots = [s for s, (a, b) in enumerate(zip(left.cells, right.cells, strict=True)) if a != b]
        shown = [f"lane {s // left.elements} i {s % left.elements}: {left.cells[s]} -> {right.cells[s]}" for s in slots]
        lines.append(f"{len(slots)} of {left.slots} slots: " + "; ".join(shown[:FIRST]))
    else:
        lines.append(f"{left.elements} elements a lane -> {right.elements}")
    return lines


def compilers(first: Path, second: Path, names: Sequence[str | None]) -> dict[str, Difference]:
    """Read machine code with the tools of two folders, and compare arch by arch."""
    found: dict[str, Difference] = {}
    for name in names:
        with Scratch() as scratch:
            sides = []
            for number, cuda in enumerate((first, second)):
                side = scratch.folder / str(number)
                request = Request(name=name, method="sass", cuda=cuda)
                Campaign(request, side, lambda text: print(text, file=sys.stderr)).run(None)
                sides.append(Results(side))
            archs = [a for a in sides[0].archs() if a in sides[1].archs()]
            found |= {a: difference(tables(sides[0], a), tables(sides[1], a)) for a in archs}
    return found


def pair(left: str, right: str, results: Results) -> dict[str, Difference]:
    """Two archs of one folder, or two folders arch by arch. UsageError where one is neither or has nothing."""
    if Path(left).is_dir() and Path(right).is_dir():
        one, two = Results(Path(left)), Results(Path(right))
        archs = sorted({*one.archs(), *two.archs()}, key=lambda name: (len(name), name))
        if not archs:
            raise UsageError(f"neither {left} nor {right} has measurements.")
        return {name: difference(tables(one, name), tables(two, name)) for name in archs}
    from tcprobe.arch import arch

    names = [arch(name).name for name in (left, right)]
    for name in names:
        if name not in results.archs():
            raise UsageError(f"{name} is not measured in {results.root}; measured: {', '.join(results.archs())}.")
    return {" to ".join(names): difference(*(tables(results, name) for name in names))}
