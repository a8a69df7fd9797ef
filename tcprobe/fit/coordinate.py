"""Coordinate swizzles: one coordinate is XORed with bits of the other, before shape:stride.

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

from tcprobe.fit.affine import Affine, fit_affine
from tcprobe.layout.address import AddressMap
from tcprobe.layout.arrays import Bools, Ints

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
