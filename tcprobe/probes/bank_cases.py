"""Patterns whose cost tells one rule of banks from another: what is timed beside the swap test.

Scattered and strided addresses count passes; few addresses tell words from lanes; pairs of equal addresses, all but one
of them, and pairs with idle partners show where phases join; idle lanes and idle phases show what idleness costs; for
cp.async the sources are as varied as the destinations.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.random import Generator

from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.probes.banks import AREA, ARENA, LINE, NEAR, Cases

LANE = np.arange(WARP)
Make = Callable[[Generator, int], Ints]
Lanes = Bools


def scattered(rng: Generator, most: int) -> Ints:
    """Anywhere, or in few places."""
    return rng.integers(0, min(most, int(rng.choice([2, 4, 8, 16, 32, 64, 256, 1024]))), WARP)


def strided(rng: Generator, most: int) -> Ints:
    """Lanes a fixed number of places apart, in order or not."""
    lanes = LANE ^ int(rng.integers(0, WARP)) if rng.random() < 0.5 else rng.permutation(WARP)
    return np.array(lanes * int(rng.integers(0, 34)) % most)


def paired(rng: Generator, most: int) -> Ints:
    """Lanes that differ in one or two bits of their number have one address."""
    base = scattered(rng, most) if rng.random() < 0.5 else LANE
    return np.array(base[LANE & ~int(rng.choice([1, 2, 3, 4, 8, 16, 5, 31]))])


def nearly_paired(rng: Generator, most: int) -> Ints:
    """As `paired`, but for one lane."""
    addresses = paired(rng, most).copy()
    addresses[int(rng.integers(0, WARP))] = int(rng.integers(0, most))
    return addresses


SHAPES: tuple[Make, ...] = (scattered, strided, paired, nearly_paired)


def some(rng: Generator) -> Lanes:
    """Any lanes."""
    return np.array(rng.random(WARP) < rng.choice([0.1, 0.5, 0.9]))


def octets(rng: Generator) -> Lanes:
    """Whole octets."""
    return np.array(rng.random(4)[LANE // 8] < 0.5)


def of_pairs(rng: Generator) -> Lanes:
    """One of each pair of lanes that differ in one bit of their number."""
    bit = int(rng.choice([1, 2, 4]))
    return np.array((LANE & bit > 0) ^ (rng.random(WARP)[LANE & ~bit] < 0.5))


def none(rng: Generator) -> Lanes:
    """No lane."""
    return np.zeros(WARP, np.bool_)


IDLE: tuple[Callable[[Generator], Lanes], ...] = (none, none, some, octets, of_pairs)


def costly(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """`count` patterns of an access, the same for the same seed."""
    rng = np.random.default_rng([seed, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        address[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, AREA // access.bytes)
        source[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, NEAR // access.bytes)
        if not access.is_matrix:
            address[j][IDLE[int(rng.integers(0, len(IDLE)))](rng)] = -1
    return Cases(address, source)


LINE_BITS = tuple(1 << b for b in range(LINE.bit_length() - 1, ARENA.bit_length() - 1))  # that tell lines apart


def tag_pairs(access: SharedAccess) -> Cases:
    """Two lanes whose sources are in lines that differ in one bit, and in two: whether a bank has the tags of both.

    No bank of memory is needed twice. In the order of `tag_steps`.
    """
    steps = tag_steps()
    address = np.full((len(steps), WARP), -1)
    source = np.zeros((len(steps), WARP), np.int64)
    address[:, :2] = (0, access.bytes)
    source[:, 1] = np.array(steps) + access.bytes
    return Cases(address, source)


def tag_steps() -> list[int]:
    """How the two lines of each pair differ."""
    return [*LINE_BITS, *(a | b for a, b in combinations(LINE_BITS, 2))]


def far(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """Patterns of sources in few to many lines, anywhere in the arena; destinations in order, or scattered."""
    rng = np.random.default_rng([seed, 1, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        lines = rng.integers(0, ARENA // LINE, int(rng.integers(1, WARP + 1)))
        source[j] = lines[rng.integers(0, len(lines), WARP)] * LINE + access.bytes * LANE % LINE
        address[j] = access.bytes * (scattered(rng, AREA // access.bytes) if rng.random() < 0.3 else LANE)
        address[j][IDLE[int(rng.integers(0, len(IDLE)))](rng)] = -1
    return Cases(address, source)
