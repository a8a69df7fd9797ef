"""Address maps that are affine, or affine after one coordinate is XORed with the other.

shape:stride: offset = f(first) + g(second) + base, where f and g are sums over a coordinate's
modes.

>>> import numpy as np
>>> first, second = np.divmod(np.arange(32), 8)
>>> found = fit_affine(first, second, first * 8 + second % 4 + second // 4 * 64 + 5, (4, 8))
>>> found.first, found.second, found.base
(Modes(sizes=(4,), strides=(8,)), Modes(sizes=(4, 2), strides=(1, 64)), 5)

There are as few modes as possible, so neighbours cannot be merged. A map need not be whole; its modes are continued
over what it leaves open.

Coordinate swizzles: one coordinate is XORed with bits of the other, before shape:stride.

>>> import numpy as np
>>> CoordinateSwizzle("first", 2, 3, 1)(np.array([5, 5]), np.array([1, 2]))
(array([ 5, 13]), array([1, 2]))

CUTLASS's TensorOpMultiplicand is one, for any pitch. If the pitch is a power of two, it is also a swizzle of the
offset; for a pitch of 96 or 192 it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tcprobe.layout.address import AddressMap, Pair
from tcprobe.layout.arrays import Bools, Ints

MOST_STEPS = 3  # steps tried for a first mode, if a coordinate does not start at 0


class Modes(NamedTuple):
    """A coordinate's modes, the fastest first: the digits of its value, in the radix of `sizes`, times `strides`."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __call__(self, values: Ints) -> Ints:
        """The sum over the digits of each value; values beyond the sizes continue the last mode."""
        total = np.zeros_like(values)
        for size, stride in zip(self.sizes[:-1], self.strides, strict=False):
            values, digit = np.divmod(values, size)
            total = total + digit * stride
        return total + values * self.strides[-1]

    def to_json(self) -> tuple[int | list[int], int | list[int]]:
        """(shape, stride): numbers for one mode, lists for several."""
        if len(self.sizes) == 1:
            return self.sizes[0], self.strides[0]
        return list(self.sizes), list(self.strides)


class Affine(NamedTuple):
    """offset = first(a) + second(b) + base."""

    first: Modes
    second: Modes
    base: int

    def __call__(self, first: Ints, second: Ints) -> Ints:
        """The offsets of elements."""
        return self.first(first) + self.second(second) + self.base


def fit_affine(first: Ints, second: Ints, offsets: Ints, extent: Pair) -> Affine | None:
    """The affine map through all cells, None if there is none; modes cover coordinates below `extent`."""
    parts = _separate(first, second, offsets, extent)
    if parts is None:
        return None
    modes = []
    for (values, is_known), size in zip(parts, extent, strict=True):
        places = np.flatnonzero(is_known)
        modes.append(_modes(places, values[places], size))
    if modes[0] is None or modes[1] is None:
        return None
    base = offsets[0] - modes[0](first[:1])[0] - modes[1](second[:1])[0]
    return Affine(modes[0], modes[1], int(base))


def _separate(first: Ints, second: Ints, offsets: Ints, extent: Pair) -> list[tuple[Ints, Bools]] | None:
    """f and g with f(first) + g(second) = offset, and where each is known; None if there are none.

    g is 0 at the value of `second` with the most cells. From there f, then g, then f follow through the cells.
    """
    f, g = (np.zeros(size, dtype=np.int64) for size in extent)
    f_known, g_known = (np.zeros(size, dtype=bool) for size in extent)
    g_known[np.argmax(np.bincount(second))] = True
    reached = 0
    while reached < g_known.sum():
        reached = int(g_known.sum())
        on = g_known[second]
        f[first[on]] = offsets[on] - g[second[on]]
        f_known[first[on]] = True
        on = f_known[first]
        g[second[on]] = offsets[on] - f[first[on]]
        g_known[second[on]] = True
    same = f_known[first] & g_known[second] & (f[first] + g[second] == offsets)
    return [(f, f_known), (g, g_known)] if same.all() else None


def _modes(places: Ints, values: Ints, size: int) -> Modes | None:
    """The fewest modes through (place, value), up to a constant; places ascend. None if there are none."""
    if len(places) == 1:
        return Modes((size,), (0,))
    stride = int(values[1] - values[0]) // int(places[1] - places[0])
    if np.array_equal(values - values[0], (places - places[0]) * stride):
        return Modes((size,), (stride,))
    possible = [
        Modes((block, *rest.sizes), (step, *rest.strides))
        for step, block in _first_modes(places, values)
        if (rest := _rest(places, values, size, step, block))
    ]
    return min(possible, key=lambda modes: len(modes.sizes), default=None)


def _first_modes(places: Ints, values: Ints) -> Iterator[tuple[int, int]]:
    """(stride, size) that the first mode can have; its size divides every place where the step differs."""
    near = np.flatnonzero(np.diff(places) == 1)
    if not len(near):
        return
    steps, ends = values[near + 1] - values[near], places[near + 1]
    tried = [int(steps[0])]
    if ends[0] != 1:
        kinds, counts = np.unique(steps, return_counts=True)
        tried = kinds[np.argsort(-counts, kind="stable")][:MOST_STEPS].tolist()
    for step in tried:
        block = int(np.gcd.reduce(ends[steps != step]))
        yield from ((step, part) for part in dict.fromkeys((block & -block, block)) if part > 1)


def _rest(places: Ints, values: Ints, size: int, step: int, block: int) -> Modes | None:
    """The other modes, if the first has `block` values, `step` apart."""
    quotient, digit = np.divmod(places, block)
    left = values - digit * step
    starts = np.flatnonzero(np.diff(quotient, prepend=-1))
    if not np.array_equal(np.repeat(left[starts], np.diff(starts, append=len(left))), left):
        return None
    return _modes(quotient[starts], left[starts], -(-size // block))


FIRST, SECOND = "first", "second"


class Candidates(NamedTuple):
    """B, M and S (for coordinates K) of many swizzles, one array each."""

    bits: Ints
    base: Ints
    shift: Ints

    def kept(self, which: Bools) -> Candidates:
        """The candidates where `which` is true."""
        return Candidates(*(axis[which] for axis in self))

    def triples(self) -> Iterator[tuple[int, ...]]:
        """(B, M, S) of each candidate."""
        return zip(*(axis.tolist() for axis in self), strict=True)


class CoordinateSwizzle(NamedTuple):
    """Coordinate `which` ^= ((other >> K) & (2**B - 1)) << M, with B = `bits`, M = `base`, K = `shift`."""

    which: str
    bits: int
    base: int
    shift: int

    def __call__(self, first: Ints, second: Ints) -> tuple[Ints, Ints]:
        """The swizzled coordinates of elements."""
        other = second if self.which == FIRST else first
        moved = ((other >> self.shift) & ((1 << self.bits) - 1)) << self.base
        return (first ^ moved, second) if self.which == FIRST else (first, second ^ moved)


def coordinate_swizzle(address_map: AddressMap) -> Iterator[tuple[CoordinateSwizzle, Affine]]:
    """(swizzle, affine map) for each swizzle under which the map is affine: fewest bits first, then the first
    coordinate.
    """
    able = [*_possible(address_map, FIRST), *_possible(address_map, SECOND)]
    for swizzle in sorted(
        able, key=lambda candidate: (candidate.bits, candidate.which, candidate.base, candidate.shift)
    ):
        first, second = swizzle(address_map.first, address_map.second)
        affine = fit_affine(first, second, address_map.offsets, (int(first.max()) + 1, int(second.max()) + 1))
        if affine:
            yield swizzle, affine


def _possible(address_map: AddressMap, which: str) -> Iterator[CoordinateSwizzle]:
    """The swizzles of coordinate `which` that hold for a part of the rows and columns."""
    grid, low = address_map.grid, address_map.low
    if which == SECOND:
        grid, low = grid.T, low[::-1]
    own, other = ((low[axis] + size - 1).bit_length() for axis, size in enumerate(grid.shape))
    axes = np.meshgrid(np.arange(1, own + 1), np.arange(own), np.arange(other), indexing="ij")
    every = Candidates(*(axis.ravel() for axis in axes))
    real = every.kept((every.bits + every.base <= own) & (every.bits + every.shift <= max(other, 1)))
    for bits, base, shift in real.kept(_holds(grid, low, real)).triples():
        yield CoordinateSwizzle(which, bits, base, shift)


def _holds(grid: Ints, low: tuple[int, int], candidates: Candidates) -> Bools:
    """Which swizzles of the rows' coordinate make every column the fullest one, permuted; a necessary condition.

    With F the fullest column, at `fullest`, offset(a, b) - offset(a0, b) = F(a ^ x) - F(a0 ^ x) with x = x(b) ^ x(at).
    """
    present = grid >= 0
    fullest = int(np.argmax(present.sum(axis=0)))
    rows, columns = _part(grid.shape[0]), _part(grid.shape[1])
    start = rows[np.argmax(present[rows, :][:, columns].sum(axis=1))]
    masks, bases, shifts = (axis[:, None] for axis in ((1 << candidates.bits) - 1, candidates.base, candidates.shift))
    x = (((((low[1] + columns) >> shifts) ^ ((low[1] + fullest) >> shifts)) & masks) << bases)[:, None, :]
    here, there = (_column(grid[:, fullest], ((places + low[0]) ^ x) - low[0]) for places in (rows[:, None], start))
    moved = grid[np.ix_(rows, columns)] - grid[start, columns]
    sure = here[1] & there[1] & present[np.ix_(rows, columns)] & present[start, columns]
    return np.asarray(~((here[0] - there[0] != moved) & sure).any(axis=(1, 2)))


def _column(column: Ints, places: Ints) -> tuple[Ints, Bools]:
    """(offsets of a column at places, which of the places exist)."""
    inside = (places >= 0) & (places < len(column))
    offsets = column[np.where(inside, places, 0)]
    return offsets, inside & (offsets >= 0)


def _part(size: int) -> Ints:
    """Some places below `size`: the first four, those next to powers of two, and the last."""
    near = (place for bit in range(size.bit_length()) for place in ((1 << bit) - 1, 1 << bit, (1 << bit) + 1))
    return np.array(sorted({*(place for place in near if place < size), size - 1}))
