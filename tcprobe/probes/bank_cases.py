"""Address patterns whose cost distinguishes the rules of banks; they are timed in addition to the swap test.

Scattered and strided addresses count passes; patterns of few addresses show whether words or lanes count. Lanes with
equal addresses, also with one exception or with idle partners, show where phases join. Idle lanes and idle phases show
what idleness costs. For cp.async the sources vary as much as the destinations.
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


def scattered_places(rng: Generator, most: int) -> Ints:
    """Random places, out of many or of few."""
    return rng.integers(0, min(most, int(rng.choice([2, 4, 8, 16, 32, 64, 256, 1024]))), WARP)


def strided_places(rng: Generator, most: int) -> Ints:
    """Places a fixed number apart (0 to 33), in the order of lanes, XORed or permuted."""
    lanes = LANE ^ int(rng.integers(0, WARP)) if rng.random() < 0.5 else rng.permutation(WARP)
    return np.array(lanes * int(rng.integers(0, 34)) % most)


def paired_places(rng: Generator, most: int) -> Ints:
    """Lanes that differ only under a mask share an address; the mask has one bit, two, or all five."""
    base = scattered_places(rng, most) if rng.random() < 0.5 else LANE
    return np.array(base[LANE & ~int(rng.choice([1, 2, 3, 4, 8, 16, 5, 31]))])


def nearly_paired_places(rng: Generator, most: int) -> Ints:
    """As `paired_places`, except for one lane."""
    addresses = paired_places(rng, most).copy()
    addresses[int(rng.integers(0, WARP))] = int(rng.integers(0, most))
    return addresses


SHAPES: tuple[Make, ...] = (scattered_places, strided_places, paired_places, nearly_paired_places)


def random_idle_lanes(rng: Generator) -> Lanes:
    """Random idle lanes."""
    return np.array(rng.random(WARP) < rng.choice([0.1, 0.5, 0.9]))


def idle_octets(rng: Generator) -> Lanes:
    """Idle lanes: whole octets."""
    return np.array(rng.random(4)[LANE // 8] < 0.5)


def idle_of_pairs(rng: Generator) -> Lanes:
    """Idle lanes: one of each pair of lanes whose numbers differ in bit 0, 1 or 2."""
    bit = int(rng.choice([1, 2, 4]))
    return np.array((LANE & bit > 0) ^ (rng.random(WARP)[LANE & ~bit] < 0.5))


def no_idle_lanes(rng: Generator) -> Lanes:
    """No idle lanes."""
    return np.zeros(WARP, np.bool_)


IDLE: tuple[Callable[[Generator], Lanes], ...] = (
    no_idle_lanes,
    no_idle_lanes,
    random_idle_lanes,
    idle_octets,
    idle_of_pairs,
)


def costly(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """`count` random patterns of an access: destinations in AREA, sources in the first NEAR bytes of the arena.

    The same seed gives the same patterns.
    """
    rng = np.random.default_rng([seed, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        address[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, AREA // access.bytes)
        source[j] = access.bytes * SHAPES[int(rng.integers(0, len(SHAPES)))](rng, NEAR // access.bytes)
        if not access.is_matrix:
            address[j][IDLE[int(rng.integers(0, len(IDLE)))](rng)] = -1
    return Cases(address, source)


LINE_BITS = tuple(1 << b for b in range(LINE.bit_length() - 1, ARENA.bit_length() - 1))  # bits of a line's address


def tag_pairs(access: SharedAccess) -> Cases:
    """Two lanes whose source lines differ in one or two address bits: whether one bank holds the tags of both.

    Neither shared memory nor the sources have a bank conflict. Patterns are in the order of `tag_steps`.
    """
    steps = tag_steps()
    address = np.full((len(steps), WARP), -1)
    source = np.zeros((len(steps), WARP), np.int64)
    address[:, :2] = (0, access.bytes)
    source[:, 1] = np.array(steps) + access.bytes
    return Cases(address, source)


def tag_steps() -> list[int]:
    """The XOR of the two lines' addresses, for each pattern of `tag_pairs`."""
    return [*LINE_BITS, *(a | b for a, b in combinations(LINE_BITS, 2))]


def far(access: SharedAccess, count: int, seed: int = 0) -> Cases:
    """`count` patterns with sources in 1 to 32 lines anywhere in the arena; destinations are in order or scattered."""
    rng = np.random.default_rng([seed, 1, *access.name.encode()])
    address, source = np.zeros((2, count, WARP), np.int64)
    for j in range(count):
        lines = rng.integers(0, ARENA // LINE, int(rng.integers(1, WARP + 1)))
        source[j] = lines[rng.integers(0, len(lines), WARP)] * LINE + access.bytes * LANE % LINE
        address[j] = access.bytes * (scattered_places(rng, AREA // access.bytes) if rng.random() < 0.3 else LANE)
        address[j][IDLE[int(rng.integers(0, len(IDLE)))](rng)] = -1
    return Cases(address, source)
