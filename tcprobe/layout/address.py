"""Address map: the measured or stated offset of each element (first, second) of a tile, in elements or bytes.

>>> whole = AddressMap.of([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 2, 3], ((0, 0), (1, 1)))
>>> whole.cells, whole.missing
(4, [])
>>> runs([(0, 5), (1, 5), (2, 5), (0, 6), (1, 6), (2, 6)])
['(0..2, 5..6)']

The first coordinate is CUTLASS's contiguous one or a matrix's row, the second the strided one or the column. A map does
not say which of them varies faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tcprobe.errors import DataError
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import ranges

Pair = tuple[int, int]
MOST_CELLS = 1 << 19  # 228 KB of shared memory hold 466,944 elements of 4 bits
MOST_OFFSET = 1 << 40


@dataclass(frozen=True, eq=False)
class AddressMap:
    """Element (first[k], second[k]) is at offsets[k]; offsets are at least 0, and no element occurs twice.

    `low` and `high` are the corners, both inclusive, of the box that the map should fill.
    """

    first: Ints
    second: Ints
    offsets: Ints
    low: Pair
    high: Pair

    @classmethod
    def of(
        cls,
        first: Sequence[int],
        second: Sequence[int],
        offsets: Sequence[int],
        bounds: tuple[Pair, Pair] | None = None,
    ) -> AddressMap:
        """A map from sequences of numbers; without `bounds`, it is the bounding box.

        DataError if there is no cell, a coordinate or the box exceeds 2**19, an offset exceeds 2**40, or an element is
        outside the box or occurs twice.
        """
        if not len(first):
            raise DataError("no element has an offset.")
        low, high = bounds or ((int(min(first)), int(min(second))), (int(max(first)), int(max(second))))
        if max(high) >= MOST_CELLS or max(offsets) >= MOST_OFFSET:
            raise DataError(f"a coordinate is not below {MOST_CELLS}, or an offset not below {MOST_OFFSET}.")
        if (high[0] - low[0] + 1) * (high[1] - low[1] + 1) > MOST_CELLS:
            raise DataError(f"a box from {low} to {high} has more than {MOST_CELLS} elements.")
        address = cls(_integers(first), _integers(second), _integers(offsets), low, high)
        address._check()
        return address

    def _check(self) -> None:
        inside = (self.first >= self.low[0]) & (self.first <= self.high[0])
        inside &= (self.second >= self.low[1]) & (self.second <= self.high[1])
        if not inside.all():
            raise DataError(f"{self._name(int(np.argmin(inside)))} is outside {self.low} to {self.high}.")
        numbers = self._numbers
        _, kept = np.unique(numbers, return_index=True)
        if len(kept) < self.cells:
            twice = np.setdiff1d(np.arange(self.cells), kept)
            raise DataError(f"{self._name(int(twice[0]))} appears twice.")

    def _name(self, index: int) -> str:
        return f"({self.first[index]}, {self.second[index]})"

    @cached_property
    def _numbers(self) -> Ints:
        """Each cell's position in the box, row by row."""
        return (self.first - self.low[0]) * self.shape[1] + self.second - self.low[1]

    @property
    def shape(self) -> Pair:
        """The number of values of each coordinate in the box."""
        return self.high[0] - self.low[0] + 1, self.high[1] - self.low[1] + 1

    @property
    def extent(self) -> Pair:
        """One more than the largest value of each coordinate in the box."""
        return self.high[0] + 1, self.high[1] + 1

    @property
    def cells(self) -> int:
        """The number of elements that have an offset."""
        return len(self.offsets)

    @cached_property
    def missing(self) -> list[Pair]:
        """Elements of the box without an offset, sorted by the second coordinate, then the first."""
        present = np.zeros(self.shape[0] * self.shape[1], dtype=bool)
        present[self._numbers] = True
        second, first = np.nonzero(~present.reshape(self.shape).T)
        return list(zip((first + self.low[0]).tolist(), (second + self.low[1]).tolist(), strict=True))

    @cached_property
    def grid(self) -> Ints:
        """Offsets by [first - low, second - low]; -1 if there is none."""
        grid = np.full(self.shape[0] * self.shape[1], -1, dtype=np.int64)
        grid[self._numbers] = self.offsets
        return grid.reshape(self.shape)

    @cached_property
    def corners(self) -> Ints:
        """A part of the grid for quick checks: some rows and columns, with growing distances.

        The fullest column and its fullest row come first; the others are those that these two reach.
        """
        present = self.grid >= 0
        column = int(np.argmax(present.sum(axis=0)))
        row = int(np.argmax(present.sum(axis=1) * present[:, column]))
        rows, columns = np.flatnonzero(present[:, column]), np.flatnonzero(present[row])
        rows, columns = (near[near != centre] for near, centre in ((rows, row), (columns, column)))
        return self.grid[np.ix_([row, *rows[_spread(len(rows))]], [column, *columns[_spread(len(columns))]])]


def _spread(size: int) -> list[int]:
    """0, 1, 2, 4, 8, 16, ... and the last, below `size`."""
    return sorted({0, *(1 << bit for bit in range((size - 1).bit_length())), size - 1}) if size else []


def _integers(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def whole(address_map: AddressMap) -> AddressMap:
    """The map itself; DataError if an element has no offset, which names the first."""
    if not address_map.missing:
        return address_map
    (first, second), rest = address_map.missing[0], len(address_map.missing) - 1
    raise DataError(f"({first}, {second}) is missing" + (f", and {rest} more are." if rest else "."))


def runs(pairs: Iterable[Pair]) -> list[str]:
    """Elements as ranges along the first coordinate; equal ranges are merged along the second: (0..7, 2..3)."""
    rows: dict[int, list[int]] = {}
    for first, second in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        rows.setdefault(second, []).append(first)
    joined: list[tuple[Pair, list[int]]] = []
    for second, firsts in rows.items():
        row = ranges(firsts)
        for run in row:
            if joined and len(row) == 1 and joined[-1][0] == run and joined[-1][1][1] == second - 1:
                joined[-1][1][1] = second
            else:
                joined.append((run, [second, second]))
    return [f"({_range(*run)}, {_range(*seconds)})" for run, seconds in joined]


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"
