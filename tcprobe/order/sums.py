"""The tree of sums, from what survives of units: which products are added at one place, which sums are joined there.

With a product x, every other one meets at some sum; sums that have x are nested, and the number of units that die tells
them apart. What comes to each of these sums from elsewhere is taken apart likewise: products that meet below it are of
one part, those that do not stand there themselves. Answers that contradict each other are an error, never smoothed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Ints
from tcprobe.order.calls import CallError
from tcprobe.order.masks import Queries, queries
from tcprobe.order.regular import regular

FEW = 64  # members of a sum of which every two are asked about
ROUNDS = 80  # parts of one sum that are found one after another
CHECKED = 1024  # triples of the whole tree that are asked about at the end

Survivors = Callable[[Queries], Ints]


@dataclass
class Sum:
    """One sum: products that are added there, and sums that are."""

    leaves: list[int] = field(default_factory=list)
    parts: list[Sum] = field(default_factory=list)


@dataclass
class _Open:
    """Products that are known to be one sum of `parent`."""

    members: Ints
    parent: Sum


@dataclass
class _Group:
    """Products that meet `base` at one sum: at `place`, or in parts of it."""

    members: Ints
    base: int
    place: Sum
    rounds: int = 0


def postorder(root: Sum) -> Iterator[Sum]:
    """All sums, each after its parts."""
    waiting = [(root, False)]
    while waiting:
        each, opened = waiting.pop()
        if opened or not each.parts:
            yield each
        else:
            waiting.append((each, True))
            waiting.extend((part, False) for part in reversed(each.parts))


class _Question(NamedTuple):
    """Queries about the sum of some members: of sets of the same steps of k, `shape` is the same."""

    shape: bytes
    queries: Queries


Answers = Callable[[list[_Question]], list[Ints]]


def tree(k: int, survivors: Survivors, guess: bool = False) -> Sum:
    """The tree of k products; CallError where answers contradict each other.

    With `guess` few are asked about: sums over the same steps of k are taken to be alike, and answers to be regular
    between those that were asked. Whoever guesses has to prove the tree.
    """
    top = Sum()
    if k == 1:
        return Sum([0])
    answers: Answers = partial(_of_shapes if guess else _all, survivors)
    waiting = [_Open(np.arange(k), top)]
    while waiting:
        groups = _along_bases(waiting, answers)
        waiting = []
        while groups:
            opened, groups = _taken_apart(groups, answers)
            waiting += opened
    (root,) = top.parts
    _check(root, k, survivors)
    return root


def _all(survivors: Survivors, asked: list[_Question]) -> list[Ints]:
    """Every answer, asked at once."""
    alive = survivors(Queries(*map(np.concatenate, zip(*(each.queries for each in asked), strict=True))))
    return np.split(alive, np.cumsum([len(each.queries.x) for each in asked])[:-1])


def _of_shapes(survivors: Survivors, asked: list[_Question]) -> list[Ints]:
    """One answer for all questions of a shape, and of that few queries."""
    known: dict[tuple[bytes, int], Ints] = {}
    for shape, of in asked:
        key = shape, len(of.x)
        if key not in known:
            known[key] = regular(len(of.x), lambda some, of=of: survivors(of.at(some)))  # type: ignore[misc]
    return [known[shape, len(of.x)] for shape, of in asked]


def _along_bases(waiting: list[_Open], answers: Answers) -> list[_Group]:
    """The sums that have the first product of each, innermost first, put in place; and what else meets there."""
    asked = []
    for each in waiting:
        base, last = each.members[0], each.members.max()
        asked.append(_Question(_shape(each.members), queries(base, each.members[1:], each.members.min(), last + 1)))
    groups = []
    for each, question, alive in zip(waiting, asked, answers(asked), strict=True):
        groups += _nested(each, question.queries.stop - question.queries.start - alive)
    return groups


def _shape(members: Ints) -> bytes:
    """The steps of k from the first member on."""
    return bytes((members - members[0]).tobytes())


def _nested(each: _Open, sizes: Ints) -> list[_Group]:
    """From the size of the smallest sum that each product is in together with the first one."""
    base, others = int(each.members[0]), each.members[1:]
    order = np.argsort(sizes, kind="stable")
    levels, starts, counts = np.unique(sizes[order], return_index=True, return_counts=True)
    wrong = levels != 1 + np.cumsum(counts)
    if wrong.any():
        raise CallError(
            f"masks contradict each other: beside two large products, {base} and another that cancel, D counts other "
            f"units for some of {len(others)} products than nested sums leave. No tree of sums explains it."
        )
    inner, groups = None, []
    for start, count in zip(starts, counts, strict=True):
        place = Sum([base]) if inner is None else Sum([], [inner])
        members = np.sort(others[order[start : start + count]])
        if len(members) == 1:
            place.leaves.append(int(members[0]))
        else:
            groups.append(_Group(members, base, place))
        inner = place
    assert inner is not None
    each.parent.parts.append(inner)
    return groups


def _taken_apart(groups: list[_Group], answers: Answers) -> tuple[list[_Open], list[_Group]]:
    """The sums among each group's members, and what is left of groups that take another round."""
    asked = []
    for each in groups:
        first, second = _pairs(each)
        asked.append(_Question(_shape(each.members), queries(first, second, each.base, each.base + 1)))
    opened: list[_Open] = []
    left: list[_Group] = []
    for each, alive in zip(groups, answers(asked), strict=True):
        found, rest = (_classes if len(each.members) <= FEW else _of_first)(each, alive.astype(bool))
        for members in found:
            if len(members) == 1:
                each.place.leaves.append(int(members[0]))
            else:
                opened.append(_Open(members, each.place))
        if len(rest):
            if each.rounds == ROUNDS:
                raise CallError(f"more than {ROUNDS} products or sums are added at one place, as no multiply does.")
            left.append(_Group(rest, each.base, each.place, each.rounds + 1))
    return opened, left


def _pairs(group: _Group) -> tuple[Ints, Ints]:
    """Which two members are asked about: every two of few, of many the first with each other."""
    members = group.members
    if len(members) <= FEW:
        first, second = np.triu_indices(len(members), 1)
        return members[first], members[second]
    return np.repeat(members[:1], len(members) - 1), members[1:]


def _of_first(group: _Group, answers: np.ndarray) -> tuple[list[Ints], Ints]:
    """The part of the first member, and the other members."""
    return [np.concatenate([group.members[:1], group.members[1:][answers]])], group.members[1:][~answers]


def _classes(group: _Group, answers: np.ndarray) -> tuple[list[Ints], Ints]:
    """The parts of all members; CallError unless being of one part is an equivalence."""
    count = len(group.members)
    same = np.eye(count, dtype=bool)
    first, second = np.triu_indices(count, 1)
    same[first, second] = same[second, first] = answers
    rows: dict[bytes, list[int]] = {}
    for number in range(count):
        rows.setdefault(same[number].tobytes(), []).append(number)
    parts = list(rows.values())
    if any(int(same[part[0]].sum()) != len(part) for part in parts):
        raise CallError(
            f"masks contradict each other about products {', '.join(map(str, group.members[:6]))}, ...: which of them "
            "are summed together depends on the pair. No tree of sums explains it."
        )
    return [group.members[part] for part in parts], group.members[:0]


class Places:
    """Where products stand in a tree: whether a product is in the smallest sum of two others."""

    def __init__(self, root: Sum, k: int) -> None:
        nodes = list(postorder(root))
        number = {id(each): at for at, each in enumerate(nodes)}
        self._parent = np.full(len(nodes), -1)
        self._first, self._last = np.zeros((2, len(nodes)), np.int64)
        self._place, self._node = np.zeros((2, k), np.int64)
        at = 0
        for index, each in enumerate(nodes):
            below = [number[id(part)] for part in each.parts]
            self._parent[below] = index
            self._first[index] = min([at, *self._first[below]])
            for leaf in each.leaves:
                self._place[leaf], self._node[leaf] = at, index
                at += 1
            self._last[index] = at

    def inside(self, x: Ints, y: Ints, z: Ints) -> np.ndarray:
        """Whether z is in the smallest sum that has x and y."""
        node, y_place, z_place = self._node[x], self._place[y], self._place[z]
        while True:
            out = (y_place < self._first[node]) | (y_place >= self._last[node])
            if not out.any():
                return (z_place >= self._first[node]) & (z_place < self._last[node])
            node = np.where(out, self._parent[node], node)


def _check(root: Sum, k: int, survivors: Survivors) -> None:
    """CallError unless the tree predicts what masks of random triples give."""
    if k < 3:
        return
    rng = np.random.default_rng(k)
    x, y, z = (rng.integers(0, k, CHECKED) for _ in range(3))
    near = np.minimum(x + rng.integers(1, 48, CHECKED), k - 1)
    y = np.where(rng.random(CHECKED) < 0.5, near, y)
    keep = (x != y) & (y != z) & (x != z)
    x, y, z = x[keep], y[keep], z[keep]
    wrong = survivors(queries(x, y, z, z + 1)).astype(bool) == Places(root, k).inside(x, y, z)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise CallError(
            f"masks contradict each other: products {x[at]}, {y[at]} and {z[at]} meet otherwise than those before "
            "them. No tree of sums explains it."
        )
