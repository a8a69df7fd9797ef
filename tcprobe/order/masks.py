"""Masks: of two products one is large, the other its negative, and what is added while either is there is lost.

Of units, D counts those that are not: they stand outside of the smallest sum that has both (FPRev, USENIX ATC 2025).
Values are chosen by type so that a unit is lost beside a large product in any arithmetic that sums may have, f32's
24 bits and a tensor core's 26, and that D's type counts `most` units exactly. Types of 8 bits have such a range only in
products of two, so there a product that is large in one column is small in none: launches are split where that
would be asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array, Ints
from tcprobe.order.bench import Bench
from tcprobe.order.calls import CallError
from tcprobe.order.memory import fill_with_masks, numpy_type, pattern, patterns

WIDEST = 4096  # masks of a launch
BESIDE = 8  # pairs of a product with others of its sum of 16, two and two of them
SMALL = 0.6 * 2.0**-24  # of f32's one, half of whose last place is 2^-24
COUNTED = {"bf16": 1 << 8, "f16": 1 << 11, "f32": 1 << 23, "f64": 1 << 40}  # whole numbers up to which D counts


class Magnitudes(NamedTuple):
    """Factors of a large product and of a unit: what all products have on one side, and what masks have."""

    side_large: float
    side_unit: float
    large: float
    unit: float
    most: int

    @property
    def roles(self) -> bool:
        """Whether a product is large or small on both sides."""
        return self.side_large != self.side_unit


def magnitudes(side: str, mask: str, d: str) -> Magnitudes:
    """By the types of the side that all masks share, of the masks' and of D; UsageError where there are none."""
    kinds = {side, mask}
    if d not in COUNTED:
        raise UsageError(f"`type` of D {d}: orders are revealed into f32, f16, bf16 and f64.")
    most = COUNTED[d]
    if kinds <= {"bf16", "tf32", "f32"}:
        return Magnitudes(1.0, 1.0, 2.0**60, 1.0, most)
    if kinds == {"f64"}:
        return Magnitudes(1.0, 1.0, 2.0**100, 1.0, most)
    if mask == "f16" and side in ("f16", "bf16", "f32"):
        return Magnitudes(1.0, 1.0, 2.0**15, 2.0**-24, min(most, 1 << 13))
    if kinds <= {"e4m3", "e5m2"}:
        return _of_8_bits(side, mask, d, most)
    raise UsageError(f"`type` {side},{mask}: there are no masks for products of these.")


def _of_8_bits(side: str, mask: str, d: str, most: int) -> Magnitudes:
    """f16's range bounds what a D of f16 can hold on the way."""
    if d != "f16":
        factors = {"e4m3": (2.0**8, 2.0**-9), "e5m2": (2.0**15, 2.0**-16)}
        both = (*factors[side], *factors[mask])
        return Magnitudes(*both, min(most, 1 << (9 if side == mask == "e4m3" else 13)))
    if side == mask == "e4m3":
        return Magnitudes(2.0**7, 2.0**-9, 2.0**8, 2.0**-9, min(most, 1 << 8))
    factors = {"e4m3": (2.0**8, 2.0**-9), "e5m2": (2.0**7, 2.0**-15)}
    if side == mask:
        return Magnitudes(2.0**7, 2.0**-12, 2.0**8, 2.0**-12, min(most, 1 << 11))
    return Magnitudes(*factors[side], *factors[mask], min(most, 1 << 11))


class Queries(NamedTuple):
    """Of each query the products that are large, x and y, and those that are units: [start, stop) but x and y."""

    x: Ints
    y: Ints
    start: Ints
    stop: Ints

    def at(self, chosen: Array | slice) -> Queries:
        """Some of them."""
        return Queries(*(each[chosen] for each in self))


def queries(x: Any, y: Any, start: Any, stop: Any) -> Queries:
    """From lists or arrays of one length, or numbers."""
    return Queries(*(np.array(each, np.int64) for each in np.broadcast_arrays(x, y, start, stop)))


class Masks:
    """Asks a call by masks: in columns of B where D has more columns than rows, else in rows of A."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.call = bench, bench.call
        rows, columns = bench.alike
        self.by_columns = not self.call.sums and columns.number >= rows.number
        sides = self.call.types if self.by_columns else self.call.types[::-1]
        self.values = (
            _magnitudes_of_sums(sides[1], bench.d_kind) if self.call.sums else magnitudes(*sides, bench.d_kind)
        )
        self._side, self._mask = sides
        self.unit = self.values.side_unit * self.values.unit
        b: Any = bench.b
        self._lines: Any = b[:, columns.lines] if self.by_columns else bench.a[rows.lines].T
        self._other: Any = bench.a if self.by_columns else None if b is None else b.T
        self.width = min(WIDEST, columns.number if self.by_columns else rows.number)
        self._bits = [pattern(self._mask, value) for value in (self.values.large, -self.values.large, self.values.unit)]
        self.begin()

    def begin(self) -> None:
        """Put the side that all masks share in place, and nothing into the others; after any other use of memory."""
        self._lines[...] = 0
        self._used = 0
        if self._other is not None:
            self._other[...] = pattern(self._side, self.values.side_large)

    def calls(self, k: int) -> int:
        """About how many calls ask each product with another, and with those that are added at the same place."""
        return -(-k * (-(-k // self.values.most) + BESIDE) // self.width)

    def survivors(self, asked: Queries) -> Ints:
        """How many units of each query survive; CallError where D counts none."""
        owners, parts = self._pieces(asked)
        made = np.zeros(len(asked.x), np.int64)
        np.add.at(made, owners, self._counted(parts))
        return made

    def _pieces(self, asked: Queries) -> tuple[Ints, Queries]:
        """Queries whose units D can count, and whose query each is."""
        most = self.values.most
        owners, parts = [], []
        index = np.arange(len(asked.x))
        whole = asked.stop - asked.start <= most
        if not self.values.roles and whole.all():
            return index, asked
        for block in range(int(asked.start.min(initial=0)) // most, -(-int(asked.stop.max(initial=0)) // most)):
            start = np.maximum(asked.start, block * most)
            stop = np.minimum(asked.stop, (block + 1) * most)
            there = start < stop
            owners.append(index[there])
            parts.append(Queries(asked.x[there], asked.y[there], start[there], stop[there]))
        owner, part = np.concatenate(owners), Queries(*map(np.concatenate, zip(*parts, strict=True)))
        return self._apart(owner, part) if self.values.roles else (owner, part)

    def _apart(self, owner: Ints, part: Queries) -> tuple[Ints, Queries]:
        """Where y is among the units: the units around it, in blocks of 2^i whose sibling has y."""
        inside = (part.start <= part.y) & (part.y < part.stop)
        single = part.stop - part.start == 1
        owners, parts = [owner[~inside]], [part.at(~inside)]
        own, rest = owner[inside & ~single], part.at(inside & ~single)
        for bit in range(int(self.values.most - 1).bit_length() - 1, -1, -1):
            sibling = (rest.y >> bit ^ 1) << bit
            start, stop = np.maximum(rest.start, sibling), np.minimum(rest.stop, sibling + (1 << bit))
            for parity in (0, 1):
                there = (start < stop) & (sibling >> bit & 1 == parity)
                owners.append(own[there])
                parts.append(Queries(rest.x[there], rest.y[there], start[there], stop[there]))
        return np.concatenate(owners), Queries(*map(np.concatenate, zip(*parts, strict=True)))

    def _counted(self, asked: Queries) -> Ints:
        """D of each query in units, launch by launch."""
        made = np.zeros(len(asked.x), np.int64)
        waiting = [slice(at, at + self.width) for at in range(0, len(asked.x), self.width)][::-1]
        while waiting:
            part = waiting.pop()
            chosen = asked.at(part)
            if self.values.roles and not self._give_roles(chosen):
                first, last = part.start, min(part.stop, len(asked.x))
                middle = (first + last) // 2
                waiting += [slice(middle, last), slice(first, middle)]
                continue
            made[part] = self._whole(self.launch(chosen, self._bits), chosen)
        return made

    def _give_roles(self, chosen: Queries) -> bool:
        """Write the side that masks share; False where a product would have to be large and a unit."""
        depth = self.bench.shape.k
        large = np.zeros(depth + 1, np.int64)
        large[chosen.x] = large[chosen.y] = 1
        before = np.concatenate([[0], np.cumsum(large[:depth])])
        own = sum(((chosen.start <= each) & (each < chosen.stop)).astype(np.int64) for each in (chosen.x, chosen.y))
        if len(chosen.x) > 1 and (before[chosen.stop] - before[chosen.start] > own).any():
            return False
        edges = np.zeros(depth + 1, np.int64)
        np.add.at(edges, chosen.start, 1)
        np.add.at(edges, chosen.stop, -1)
        units = (np.cumsum(edges)[:depth] > 0) & (large[:depth] == 0)
        side = np.where(
            units, *(patterns(self._side, [value]) for value in (self.values.side_unit, self.values.side_large))
        )
        self._other[...] = self.call.memory.put(side[None, :])
        return True

    def launch(self, chosen: Queries, values: list[int]) -> Array:
        """D of masks, as numbers."""
        memory, count = self.call.memory, len(chosen.x)
        if count < self._used:
            self._lines[:, count : self._used] = 0
        self._used = count
        fill_with_masks(memory, self._lines[:, :count], chosen, values)
        d = self.bench.run()
        rows, columns = self.bench.alike
        line = memory.get(d[0, columns.lines][:count] if self.by_columns else d[rows.lines, 0][:count])
        numbers: Array = np.ascontiguousarray(line).view(numpy_type(self.bench.d_kind)).astype(np.float64)
        return numbers

    def _whole(self, d: Array, chosen: Queries) -> Ints:
        """Numbers of units; CallError for what is none."""
        counts = d / self.unit
        right = np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts))
        if not (right & (counts <= chosen.stop - chosen.start)).all():
            raise CallError(
                f"two large products that cancel, and units beside them: D of {self.call.name} is no number of these "
                "units. No tree of sums explains it."
            )
        return counts.astype(np.int64)

    def earlier(self, i: Ints, j: Ints) -> Array:
        """For pairs of products of f32 or f64 of which one is added to the other by itself: 1 where i is rounded and j
        fused, -1 the other way, 0 where both are rounded before they are added. The sum of both shows what was lost.
        """
        kind = self._mask
        last = 1 + 2.0 ** -FORMATS[kind].fraction
        values = [pattern(kind, value) for value in (last, -last, 0.0)]
        side = pattern(self._side, last)
        made = np.zeros(len(i))
        if self._other is not None:
            self._other[...] = side
        none = np.zeros(len(i), np.int64)
        asked = Queries(np.asarray(i, np.int64), np.asarray(j, np.int64), none, none)
        for at in range(0, len(i), self.width):
            made[at : at + self.width] = self.launch(asked.at(slice(at, at + self.width)), values)
        self.begin()
        return -np.sign(made)


class PositiveMasks:
    """Asks a softmax for the order of its denominator, whose terms are positive.

    Of three terms one is 1 and two are SMALL: each alone is lost beside it, both together are not. So the largest
    result, the reciprocal of the denominator, says whether the two are added to each other before.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench, self.width = bench, min(WIDEST, bench.alike[0].number)
        self._bits = [pattern("f32", value) for value in (float(np.log(SMALL)),) * 2 + (0.0, -np.inf)]

    def calls(self, k: int) -> int:
        """About how many calls ask each two terms with a third."""
        return -(-k * k // self.width)

    def survivors(self, asked: Queries) -> Ints:
        """How many terms of each query are not in the smallest sum of x and y: one question a term."""
        lengths = asked.stop - asked.start
        owner = np.repeat(np.arange(len(lengths)), lengths)
        z = asked.start[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        keep = (z != asked.x[owner]) & (z != asked.y[owner])
        owner, z = owner[keep], z[keep]
        made = np.zeros(len(lengths), np.int64)
        for at in range(0, len(z), self.width):
            part = slice(at, at + self.width)
            np.add.at(made, owner[part], self._apart(asked.x[owner[part]], asked.y[owner[part]], z[part]))
        return made

    def _apart(self, x: Ints, y: Ints, z: Ints) -> Ints:
        memory, rows = self.bench.call.memory, self.bench.alike[0].lines
        lines = self.bench.a[rows].T
        fill_with_masks(memory, lines[:, : len(x)], (x, y, z, z + 1), self._bits)
        d = memory.get(self.bench.run()[rows, 0][: len(x)])
        largest = np.ascontiguousarray(d).view(np.float32)
        if not ((largest > 1 - 2.0**-20) & (largest <= 1)).all():
            raise CallError(
                f"{self.bench.call.name} is no softmax: of one term and two small ones it gives {largest[0]!r}."
            )
        return (largest < 1).astype(np.int64)


def _magnitudes_of_sums(kind: str, d: str) -> Magnitudes:
    """Of a reduction, which has no second factor."""
    if kind in ("e4m3", "e5m2"):
        raise UsageError(f"`type` {kind}: there are no masks for sums of these.")
    return magnitudes("f32" if kind != "f64" else "f64", kind, d)
