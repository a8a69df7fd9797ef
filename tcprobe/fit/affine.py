"""shape:stride of an address map: offset = f(first) + g(second) + base, where f and g are sums over a coordinate's
modes.

>>> import numpy as np
>>> first, second = np.divmod(np.arange(32), 8)
>>> found = fit_affine(first, second, first * 8 + second % 4 + second // 4 * 64 + 5, (4, 8))
>>> found.first, found.second, found.base
(Modes(sizes=(4,), strides=(8,)), Modes(sizes=(4, 2), strides=(1, 64)), 5)

There are as few modes as possible, so neighbours cannot be merged. A map need not be whole; its modes are continued
over what it leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tcprobe.layout.address import Pair
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
