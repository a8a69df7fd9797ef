"""Where boxes are in shared memory: a constant number of bytes from row to row, then a swizzle of the absolute address.

>>> rule = BoxRule(128, Swizzle(3, 4, 3))
>>> rule(896, 2, 32)[:, ::16].tolist()
[[1008, 992], [1024, 1040]]
>>> fit_boxes([PlacedBox(base, rule(base, 9, width)) for base in (0, 896) for width in (32, 128)])[0].rule == rule
True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import Swizzle

PITCHES = (None, 16, 32, 64, 128, 256, 512)
MOST_BITS, MOST_BASE, MOST_SHIFT = 4, 8, 6  # largest B, M and S of swizzles that are tried
PIECE = 16  # rules are chosen by the first and the last of so many bytes, in rows of powers of two


class PlacedBox(NamedTuple):
    """The absolute `addresses` of the bytes of a box at `base`: (rows, bytes of a row)."""

    base: int
    addresses: Ints


class BoxRule(NamedTuple):
    """Bytes from row to row, None for those of a row itself; and a swizzle of addresses."""

    pitch: int | None
    swizzle: Swizzle

    def __call__(self, base: int, rows: int, width: int) -> Ints:
        """The addresses of a box of `rows` rows of `width` bytes."""
        linear = base + np.arange(rows)[:, None] * (self.pitch or width) + np.arange(width)
        return np.asarray(self.swizzle(linear), np.int64)


class BoxFit(NamedTuple):
    """A rule, and the numbers of the boxes with bytes that it does not explain."""

    rule: BoxRule
    misfits: list[int]


@cache
def rules() -> tuple[BoxRule, ...]:
    """All rules that are tried, the simplest first: fewest bits, then least base and shift."""
    swizzles = [Swizzle(0, 4, 3)]
    for bits, base in product(range(1, MOST_BITS + 1), range(MOST_BASE + 1)):
        swizzles += [Swizzle(bits, base, shift) for shift in range(bits, MOST_SHIFT + 1)]
    return tuple(BoxRule(pitch, swizzle) for swizzle, pitch in product(swizzles, PITCHES))


def fit_boxes(boxes: Sequence[PlacedBox]) -> list[BoxFit]:
    """The rule that explains the most boxes, and the best of those that differ from it for some box."""
    samples = [_sample(*box.addresses.shape) for box in boxes]
    owner = np.repeat(np.arange(len(boxes)), [sample[0].size * sample[1].size for sample in samples])
    expected = np.concatenate([box.addresses[sample].ravel() for box, sample in zip(boxes, samples, strict=True)])
    linear = {
        pitch: np.concatenate([_linear(box, sample, pitch) for box, sample in zip(boxes, samples, strict=True)])
        for pitch in PITCHES
    }
    wrong = (np.asarray(rule.swizzle(linear[rule.pitch]) != expected) for rule in rules())
    missed = [np.bincount(owner, of_rule, len(boxes)) > 0 for of_rule in wrong]
    order = sorted(range(len(missed)), key=lambda n: int(missed[n].sum()))
    first = order[0]
    second = next((n for n in order[1:] if (missed[n] != missed[first]).any()), first)
    return [BoxFit(rules()[n], misfits(rules()[n], boxes)) for n in (first, second)]


def misfits(box_rule: BoxRule, boxes: Sequence[PlacedBox]) -> list[int]:
    """The numbers of the boxes with a byte at another address."""
    return [
        n for n, box in enumerate(boxes) if not np.array_equal(box_rule(box.base, *box.addresses.shape), box.addresses)
    ]


def _sample(rows: int, width: int) -> tuple[Ints, Ints]:
    """Some rows and bytes, as an index."""
    rows_ = np.array([0, *(1 << n for n in range(rows.bit_length()) if 1 << n < rows)])
    ends = np.concatenate([np.arange(0, width, PIECE), np.arange(PIECE - 1, width, PIECE), [width - 1]])
    return rows_[:, None], np.unique(ends)[None, :]


def _linear(placed_box: PlacedBox, sample: tuple[Ints, Ints], pitch: int | None) -> Ints:
    return np.asarray((placed_box.base + sample[0] * (pitch or placed_box.addresses.shape[1]) + sample[1]).ravel())
