"""Two sets of tables compared: same, changed and how, and what is absent on one side, and why.

Absent is not different: a table that is missing says nothing of a layout, so `Difference.none` looks at changes alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import click

from tcprobe.arithmetic.parameters import forms_alike
from tcprobe.ask import absent
from tcprobe.ask.confidence import Status
from tcprobe.ask.numerics import FACTS, FormNumerics, find
from tcprobe.errors import UsageError
from tcprobe.fit import fit
from tcprobe.isa.arch import ARCHS, arch, holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.names import select
from tcprobe.layout.table import Table
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.question.terminal import BAD
from tcprobe.store.choose import Found, Layers, alone, some
from tcprobe.store.results import Results
from tcprobe.system.files import is_folder
from tcprobe.text import Whole
from tcprobe.values import Json

FIRST = 3  # differing slots that are shown
FEW = 2  # names that a count is shown with
MANY = 12  # names, above which a count stands for them
SIDES = ("first", "second")


class Side(NamedTuple):
    """One of two sets of tables: an arch in some folders, and its name in answers."""

    name: str
    arch: str
    layers: Layers

    def choose(self, fragment: Fragment) -> Found | None:
        """The measurement of a fragment that counts here."""
        return self.layers.choose(fragment, [self.arch])


class Absent(NamedTuple):
    """A cell without a table: side 0 or 1, and why. `elsewhere`: whether the other side has one."""

    id: str
    side: int
    reason: str
    elsewhere: bool


class BothNames(Answer):
    """A text of each side."""

    first: str
    second: str


class FormulaTexts(Answer):
    """In words where there is no closed form."""

    row: str
    col: str | UnsetType = UNSET
    product: str | UnsetType = UNSET


class BothFormulas(Answer):
    """Formulas of each side, by output."""

    first: FormulaTexts
    second: FormulaTexts


class BothCounts(Answer):
    """A number of each side."""

    first: int
    second: int


class DifferingSlot(Answer):
    """A slot, and the element that it holds on each side, null where it holds none."""

    lane: int
    i: int
    first: tuple[int, ...] | None
    second: tuple[int, ...] | None


class ChangedAnswer(Answer):
    """A fragment whose tables differ: in so many slots, null where they are of different sizes."""

    id: str
    source: BothNames
    formula: BothFormulas
    elements: BothCounts
    differing: int | None
    first_slots: list[DifferingSlot]


class SideAnswer(Answer):
    """An arch, or a folder of results."""

    name: str
    arch: str
    source: str


class AbsentAnswer(Answer):
    """A fragment that one side does not have, and why."""

    id: str
    side: str
    arch: str
    reason: str
    elsewhere: bool


class DifferenceAnswer(Answer):
    """One comparison of two sides."""

    first: SideAnswer
    second: SideAnswer
    changed: list[ChangedAnswer]
    same: list[str] | UnsetType = UNSET
    absent: list[AbsentAnswer] | UnsetType = UNSET


@dataclass(frozen=True)
class Changed:
    """A fragment whose tables differ, and where the two come from."""

    id: str
    tables: tuple[Table, Table]
    sources: tuple[str, str]

    @cached_property
    def formulas(self) -> tuple[dict[str, str], dict[str, str]]:
        """The formulas of both."""
        first, second = ({n: str(f or "no closed form") for n, f in fit(t).formulas.items()} for t in self.tables)
        return first, second

    @cached_property
    def slots(self) -> list[int] | None:
        """The slots that differ; None where the tables are of different sizes."""
        first, second = self.tables
        if (first.threads, first.elements) != (second.threads, second.elements):
            return None
        return [slot for slot, (a, b) in enumerate(zip(first.cells, second.cells, strict=True)) if a != b]

    def to_json(self) -> Json:
        return plain(self.answer)

    @property
    def answer(self) -> ChangedAnswer:
        """What `--json` prints of it."""
        first, second = self.tables
        slots = self.slots
        differing = [
            DifferingSlot(*divmod(s, first.elements), first.cells[s], second.cells[s]) for s in (slots or [])[:FIRST]
        ]
        return ChangedAnswer(
            self.id,
            BothNames(*self.sources),
            BothFormulas(*(FormulaTexts(**formulas) for formulas in self.formulas)),
            BothCounts(first.elements, second.elements),
            None if slots is None else len(slots),
            differing,
        )

    def lines(self) -> list[str]:
        """In words: the formulas of both, and the first slots that differ."""
        first, second = self.tables
        pairs = ((name, *(f.get(name, "none") for f in self.formulas)) for name in first.outputs)
        lines = [f"{name}: {a}  ->  {b}" for name, a, b in pairs if a != b]
        if self.slots is None:
            return [*lines, f"{first.elements} elements per lane -> {second.elements}"]
        places = ((s, *divmod(s, first.elements)) for s in self.slots[:FIRST])
        differing = [
            f"{holder_name(lane, first.threads)} i {i}: {first.cells[s]} -> {second.cells[s]}" for s, lane, i in places
        ]
        return [*lines, f"{len(self.slots)} of {first.points} slots: " + "; ".join(differing)]


@dataclass(frozen=True)
class Difference:
    """Two sides: ids with the same table, what changed, every cell without a table, and where the tables come from."""

    sides: tuple[Side, Side]
    same: list[str]
    changed: list[Changed]
    absent: list[Absent]
    sources: tuple[str, str]

    @property
    def none(self) -> bool:
        """Whether no table differs; what is absent is not different."""
        return not self.changed

    def to_json(self, changed_only: bool = False) -> Json:
        """Plain data: what changed; unless only that is wanted, what is the same, and every absent cell and why."""
        first, second = (SideAnswer.of(s, source=w) for s, w in zip(self.sides, self.sources, strict=True))
        answer = DifferenceAnswer(first, second, [each.answer for each in self.changed])
        if not changed_only:
            answer.same = self.same
            answer.absent = [
                AbsentAnswer.of(each, side=SIDES[each.side], arch=self.sides[each.side].arch) for each in self.absent
            ]
        return plain(answer)

    def in_words(self, everything: bool = False, changed_only: bool = False) -> Iterator[str]:
        """Counts, what changed and how, and which cells have no table, by reason; `everything` lists all of them."""
        first, second = (side.name for side in self.sides)
        only = {side: [a for a in self.absent if a.elsewhere and a.side == side] for side in (0, 1)}
        neither = [a for a in self.absent if not a.elsewhere]
        missing = f"{len(only[0])} on {first}, {len(only[1])} on {second}, {len(neither) // 2} on both"
        yield f"{self.title}: {len(self.same)} same, {len(self.changed)} changed; absent: {missing}"
        yield f"tables: {'; '.join(dict.fromkeys(self.sources))}"
        for change in self.changed:
            yield Whole(click.style("  changed ", **BAD) + change.id)
            yield from (f"    {words}" for words in change.lines())
        if changed_only:
            return
        for side, name in enumerate((first, second)):
            yield from _absent_words(f"absent on {name}, there on {(second, first)[side]}", only[side], everything)
        if everything:
            yield from _absent_words("absent on both", neither, everything)
        elif neither:
            yield Whole(f"  absent on both: {len(neither) // 2} (--all lists them, and why)")

    @property
    def title(self) -> str:
        """Which two sides."""
        return " to ".join(side.name for side in self.sides)


def _absent_words(title: str, absences: Sequence[Absent], everything: bool) -> Iterator[str]:
    """Cells without a table by reason: how many, and the first few; every one where they are few or all are wanted."""
    everything = everything or len(absences) <= MANY
    by_reason: dict[str, list[str]] = {}
    for cell in absences:
        reason = cell.reason if everything else re.split(r" \(|: what was", cell.reason)[0]
        by_reason.setdefault(reason, []).append(cell.id)
    if absences:
        yield f"  {title}:"
    for reason, ids in by_reason.items():
        yield f"    {len(ids)}: {reason}: {', '.join(ids) if everything else some(ids, FEW)}"


def difference(first_side: Side, second_side: Side, patterns: Sequence[str] = ()) -> Difference:
    """Compare two sets of tables, over the fragments that `patterns` mean (all without one)."""
    sides = (first_side, second_side)
    cells = [(f, first_side.choose(f), second_side.choose(f)) for f in select(*patterns)]
    both = [(f, left, right) for f, left, right in cells if left and right]
    differ = [(f, left, right) for f, left, right in both if left.table(f) != right.table(f)]
    return Difference(
        sides,
        [f.id for f, left, right in both if left.table(f) == right.table(f)],
        [Changed(f.id, (left.table(f), right.table(f)), (left.source, right.source)) for f, left, right in differ],
        [a for f, left, right in cells for a in _absent(f, sides, (left, right))],
        (_sources(first_side, [left for _, left, _ in cells]), _sources(second_side, [right for _, _, right in cells])),
    )


def _absent(
    fragment: Fragment, sides: tuple[Side, Side], measurements: tuple[Found | None, Found | None]
) -> Iterator[Absent]:
    """The cells of a fragment that have no table."""
    for number, side in enumerate(sides):
        other = measurements[1 - number]
        if not measurements[number]:
            elsewhere = other.table(fragment) if other else None
            reason = absent.reason(fragment, side.arch, side.layers, elsewhere)
            yield Absent(fragment.id, number, reason, elsewhere is not None)


def _sources(side: Side, measurements: Sequence[Found | None]) -> str:
    """Where a side's tables come from; without any where one looked."""
    return ", ".join(dict.fromkeys(measured.source for measured in measurements if measured)) or side.layers.names


def compare_named(names: Sequence[str], arch_name: str | None, layers: Layers) -> Iterator[Difference]:
    """What a command line means: two archs or two folders first in `names`, then fragments.

    UsageError where it means nothing.
    """
    if len(names) < 2:
        raise UsageError("give two archs, two folders of results, or `cuda` twice.")
    left, right, *patterns = names
    if is_folder(left) and is_folder(right):
        return arch_by_arch((alone(Results(Path(left))), alone(Results(Path(right)))), arch_name, patterns)
    if arch_name:
        raise UsageError("`arch` needs two folders or two compilers; two archs are already named.")
    return iter([archs((left, right), layers, patterns)])


def archs(pair: tuple[str, str], layers: Layers, patterns: Sequence[str] = ()) -> Difference:
    """Two archs. UsageError where one has no measurements."""
    names = [arch(name).name for name in pair]
    for name in names:
        if name not in layers.archs():
            raise UsageError(f"{name} is not measured in {layers.words}; measured: {', '.join(layers.archs())}.")
    first, second = (Side(name, name, layers) for name in names)
    return difference(first, second, patterns)


def arch_by_arch(both_layers: tuple[Layers, Layers], name: str | None, patterns: Sequence[str]) -> Iterator[Difference]:
    """Arch by arch, or one arch. UsageError where neither side has measurements."""
    left, right = both_layers
    measured = {*left.archs(), *right.archs()} & (
        {arch(name).name} if name and name != "all" else {row.name for row in ARCHS}
    )
    if not measured:
        raise UsageError(f"neither {left.words} nor {right.words} has measurements{f' of {name}' if name else ''}.")
    for arch_name in (row.name for row in ARCHS if row.name in measured):
        first, second = (Side(f"{arch_name} of {layers.names}", arch_name, layers) for layers in both_layers)
        yield difference(first, second, patterns)


# the arithmetic of two archs, parameter by parameter
COMPARED = tuple(name for name in (*FACTS, "emulated") if name != "alignment")


class ChangedNumericsAnswer(Answer):
    """The arithmetic of two archs: parameters that differ where both are known."""

    id: str
    archs: list[str]
    status: list[Status]
    differs: dict[str, Any]
    evidence: list[str]


class ChangedNumerics(NamedTuple):
    """A form, what is known on both archs, and the parameters that differ where both are known."""

    id: str
    answers: tuple[FormNumerics, FormNumerics]
    parameters: dict[str, tuple[Any, Any]]

    @property
    def none(self) -> bool:
        """Whether no parameter differs."""
        return not self.parameters

    def to_json(self) -> Json:
        answer = ChangedNumericsAnswer(
            self.id,
            archs=[side.arch for side in self.answers],
            status=[side.status for side in self.answers],
            differs={name: list(pair) for name, pair in self.parameters.items()},
            evidence=[answer.evidence for answer in self.answers],
        )
        return plain(answer)

    def __str__(self) -> str:
        listed = [f"{name} {first} -> {second}" for name, (first, second) in self.parameters.items()]
        marks = ", ".join(f"{answer.arch} {answer.status}" for answer in self.answers)
        return f"{self.id} ({marks}): {'; '.join(listed) or 'the same, as far as both are known'}"


def differences(names: tuple[str, ...], layers: Layers) -> Iterator[ChangedNumerics]:
    """Each arithmetic that is measured or published on both archs; UsageError if there is none, or not two archs."""
    if len(names) != 2:
        raise UsageError("the comparison of arithmetic needs two archs.", "two archs")
    first, second = (arch(name) for name in names)
    compared = False
    for rows in forms_alike().values():
        ours, theirs = find(rows[0], first, layers), find(rows[0], second, layers)
        if ours is None or theirs is None:  # one of them does not have it, or nothing is known there
            continue
        pair, compared = (ours, theirs), True
        left, right = (side.to_json() for side in pair)
        parameters = {
            name: (left[name], right[name])
            for name in COMPARED
            if left[name] != right[name] and None not in (left[name], right[name])
        }
        yield ChangedNumerics(rows[0].id, pair, parameters)
    if not compared:
        raise UsageError(f"no instruction has a known arithmetic on both {first.name} and {second.name}.")
