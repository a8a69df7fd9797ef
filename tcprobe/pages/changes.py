"""What changes from one arch to the next: a table of all steps, and of each the fragments whose layout changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.layout.table import Table
from tcprobe.pages.fragments import ByFragment
from tcprobe.pages.tables import MADE, MANUAL, code, fitting, grid, heading_anchor, row_and_col
from tcprobe.store.cell import DOCUMENTED


class Change(NamedTuple):
    """From an arch to the next: how many measured fragments keep their layout, which change it, which are new.

    `changed` has the ids of fragments that change alike, with their tables before and after.
    """

    before: str
    after: str
    same: int
    changed: list[tuple[list[str], list[Table]]]
    new: list[str]

    @property
    def title(self) -> str:
        """Both archs with their generations."""
        rows = (arch(name) for name in (self.before, self.after))
        return " to ".join(f"{row.name} ({row.generation})" for row in rows)

    @property
    def changes(self) -> int:
        """How many fragments change their layout."""
        return sum(len(ids) for ids, _ in self.changed)


def page(facts: ByFragment, archs: Sequence[str]) -> Iterator[str]:
    """For each arch against the one before it: which fragments are new, which changed their layout and how."""
    yield from (MADE, "# What changes between architectures", "")
    yield "Each arch is compared with the one before it, over the fragments that are measured on both."
    yield "Where a layout changes, x[i] is a different element: code that indexes x must know the arch."
    yield MANUAL
    yield ""
    steps = [_step(facts, pair) for pair in pairwise(archs)]
    yield from grid(["from, to", "keep their layout", "change it", "new"], map(_line, steps))
    for step in steps:
        yield from _section(step)


def _line(change: Change) -> list[str]:
    return [
        f"[{change.before} to {change.after}](#{heading_anchor(change.title)})",
        str(change.same),
        str(change.changes),
        str(len(change.new)),
    ]


def _step(facts: ByFragment, between: tuple[str, str]) -> Change:
    changed: dict[tuple[str, str], tuple[list[str], list[Table]]] = {}
    same, new = 0, []
    for id_, archs in facts.items():
        pair = [archs[name].table for name in between if name in archs and archs[name].how != DOCUMENTED]
        if len(pair) == 2 and pair[0].id == pair[1].id:
            same += 1
        elif len(pair) == 2:
            changed.setdefault((pair[0].id, pair[1].id), ([], pair))[0].append(id_)
        elif _is_new(id_, facts, between):
            new.append(id_)
    return Change(*between, same, list(changed.values()), new)


def _is_new(id_: str, facts: ByFragment, between: tuple[str, str]) -> bool:
    before, after = between
    measured = after in facts[id_] and facts[id_][after].how != DOCUMENTED
    return measured and not inventory.fragments()[id_].target.on(arch(before))


def _section(change: Change) -> Iterator[str]:
    yield from ("", f"## {change.title}", "")
    yield f"{change.same} fragments keep their layout, {change.changes} change it,"
    yield f"{len(change.new)} are new" + (f": {fitting(code(change.new))}." if change.new else ".")
    if change.changed:
        yield ""
        before, after = change.before, change.after
        heads = ["fragments", f"row on {before}", f"row on {after}", f"col on {before}", f"col on {after}"]
        yield from grid(heads, ([fitting(code(ids)), *_formulas(pair)] for ids, pair in change.changed))


def _formulas(tables: Sequence[Table]) -> list[str]:
    texts = [row_and_col(table) for table in tables]
    return [text for pair in zip(*texts, strict=True) for text in pair]
