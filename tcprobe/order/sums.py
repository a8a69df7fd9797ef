"""The tree of sums, from what survives of units: which products are added at one place, which sums are joined there.

With a product x, every other one meets at some sum; sums that have x are nested, and the number of units that die tells
them apart. What comes to each of these sums from elsewhere is taken apart likewise: products that meet below it are of
one part, those that do not stand there themselves. Answers that contradict each other are an error, never smoothed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tcprobe.layout.arrays import Ints
from tcprobe.order.calls import CallError
from tcprobe.order.masks import Queries, queries

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


def tree(k: int, survivors: Survivors) -> Sum:
    """The tree of k products; CallError where answers contradict each other."""
    top = Sum()
    if k == 1:
        return Sum([0])
    waiting = [_Open(np.arange(k), top)]
    while waiting:
        groups = _along_bases(waiting, survivors)
        waiting = []
        while groups:
            opened, groups = _taken_apart(groups, survivors)
            waiting += opened
    (root,) = top.parts
    _check(root, k, survivors)
    return root


def _along_bases(waiting: list[_Open], survivors: Survivors) -> list[_Group]:
    """The sums that have the first product of each, innermost first, put in place; and what else meets there."""
    asked = [queries(each.members[0], each.members[1:], each.members.min(), each.members.max() + 1) for each in waiting]
    alive = survivors(Queries(*map(np.concatenate, zip(*asked, strict=True))))
    groups, at = [], 0
    for each, query in zip(waiting, asked, strict=True):
        count = len(query.x)
        sizes = query.stop - query.start - alive[at : at + count]
        at += count
        groups += _nested(each, sizes)
    return groups


def _nested(each: _Open, sizes: Ints) -> list[_Group]:
    """From the size of the smallest sum that each product is in together with the first one."""
    base, others = int(each.members[0]), each.members[1:]
    order = np.argsort(sizes, kind="stable")
    levels, starts, counts = np.unique(sizes[order], return_index=True, return_counts=True)
    wrong = levels != 1 + np.cumsum(counts)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise CallError(
            f"masks contradict each other: {int(counts[: at + 1].sum())} products meet product {base} in sums of at "
            f"most {int(levels[at])} products, beside it. No tree of sums explains it."
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


def _taken_apart(groups: list[_Group], survivors: Survivors) -> tuple[list[_Open], list[_Group]]:
    """The sums among each group's members, and what is left of groups that take another round."""
    pairs = [_pairs(each) for each in groups]
    lengths = [len(first) for first, _ in pairs]
    bases = np.repeat([each.base for each in groups], lengths)
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    together = survivors(queries(first, second, bases, bases + 1))
    opened: list[_Open] = []
    left: list[_Group] = []
    at = 0
    for each, length in zip(groups, lengths, strict=True):
        answers = together[at : at + length].astype(bool)
        at += length
        found, rest = (_classes if len(each.members) <= FEW else _of_first)(each, answers)
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
