"""What cp.async.ca waits for besides banks: its source lines are looked up in banks of tags, one line per bank and
cycle.

>>> import numpy as np
>>> tags, lanes = SourceTags((0x1A80, 0x2D00)), np.arange(32)
>>> to, sources = np.array([4 * lanes] * 2), np.array([128 * lanes, 4 * lanes])
>>> found = lookups(tags, sources)
>>> found.tolist(), access_cycles(np.array([1, 1]), found, is_spread(to)).tolist()
([8, 1], [9, 2])

A line has 128 bytes. Each bit of the number of its tag bank is a parity of address bits. Lookups are the most distinct
lines that fall into one bank. An access takes as many cycles as its passes, but at least one more than its lookups; two
more if its destinations are spread (over more than ROWS rows of 128 bytes, in several blocks of 2 KB), or if it has one
lookup and more than one pass. Source: an H200; `tcprobe run --family banks` repeats the measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.layout.arrays import Bools, Ints
from tcprobe.layout.banks import IDLE, LINE, as_array
from tcprobe.values import Json

MOST_MASKS, MOST_BITS = 4, 62
LEAST = 2  # cycles of an access with one pass and one lookup
ROWS, BLOCK = 4, 2048  # rows, and bytes, within which destinations are not spread


@dataclass(frozen=True)
class SourceTags:
    """For each bit of a bank's number, a mask: the bit is the parity of the address bits under it."""

    masks: tuple[int, ...]

    def to_json(self) -> Json:
        """Plain data."""
        return {"masks": list(self.masks)}

    def bank(self, addresses: Ints) -> Ints:
        """The tag bank of each address's line."""
        banks = np.zeros_like(addresses)
        for number, mask in enumerate(self.masks):
            banks |= _parity(addresses & mask) << number
        return banks


def from_json(data: Json) -> SourceTags:
    """The inverse of `to_json`; ValueError for data that it cannot return."""
    masks = tuple(data["masks"])
    whole = all(type(m) is int and 0 < m < 1 << MOST_BITS and not m % LINE for m in masks)
    if not whole or not 0 < len(masks) <= MOST_MASKS:
        raise ValueError(f"{len(masks)} masks of addresses of lines")
    return SourceTags(masks)


def lookups(tags: SourceTags, sources: Ints) -> Ints:
    """The most distinct lines in one bank, by pattern; `sources` are (patterns, 32), IDLE for idle lanes."""
    lines = np.sort(np.where(sources == IDLE, IDLE, sources // LINE), axis=1)
    fresh = lines != IDLE
    fresh[:, 1:] &= lines[:, 1:] != lines[:, :-1]
    banks = tags.bank(np.where(fresh, lines, 0) * LINE)
    counts = [(fresh & (banks == bank)).sum(axis=1) for bank in range(1 << len(tags.masks))]
    return np.asarray(np.max(counts, axis=0), np.int64)


def is_spread(addresses: Ints) -> Bools:
    """By pattern, whether destinations are in many rows of several blocks; IDLE for idle lanes."""
    return np.asarray((_distinct(addresses, LINE) > ROWS) & (_distinct(addresses, BLOCK) > 1))


def _distinct(addresses: Ints, size: int) -> Ints:
    """By pattern, how many pieces of `size` bytes its addresses are in."""
    pieces = np.sort(np.where(addresses == IDLE, IDLE, addresses // size), axis=1)
    fresh = pieces != IDLE
    fresh[:, 1:] &= pieces[:, 1:] != pieces[:, :-1]
    return np.asarray(fresh.sum(axis=1), np.int64)


def access_cycles(passes: Ints, looked_up: Ints, spread: Bools) -> Ints:
    """Cycles of patterns from passes and lookups; 0 if no lane copies."""
    least = looked_up + 1 + (spread | ((passes > 1) & (looked_up == 1)))
    return np.asarray(np.where(passes == 0, 0, np.maximum(passes, least)), np.int64)


def pattern_cost(
    tags: SourceTags, addresses: Sequence[int | None], sources: Sequence[int | None], passes: int
) -> tuple[int, int]:
    """(lookups, cycles) of one pattern of 32 destinations and 32 sources."""
    looked_up = lookups(tags, as_array([sources]))
    return int(looked_up[0]), int(access_cycles(np.array([passes]), looked_up, is_spread(as_array([addresses])))[0])


def tags_from_pairs(gaps: Sequence[int], together: Bools) -> SourceTags | None:
    """The tags, from which pairs of lines, `gaps` apart, fall into one bank; None if no parities explain it.

    Steps are single bits, and pairs of them.
    """
    numbers = _number_bits(dict(zip(gaps, together.tolist(), strict=True)))
    width = max(numbers.values(), default=0).bit_length()
    tags = SourceTags(tuple(sum(bit for bit in numbers if numbers[bit] >> n & 1) for n in range(width)))
    agrees = together.any() and 0 < width <= MOST_MASKS and np.array_equal(tags.bank(np.array(gaps)) == 0, together)
    return tags if agrees else None


def _number_bits(same: dict[int, bool]) -> dict[int, int]:
    """A number of each single bit, by whether steps stay in a bank.

    Bits that cancel each other get the same number; the others get 1, 2, 3, ..., with as few banks as possible.
    """
    numbers: dict[int, int] = {}
    for bit in (step for step in same if step.bit_count() == 1):
        alike = next((numbers[other] for other in numbers if same[bit | other]), None)
        numbers[bit] = 0 if same[bit] else alike or 1 + max(numbers.values(), default=0)
    return numbers


def _parity(values: Ints) -> Ints:
    folded = values.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return folded & 1
