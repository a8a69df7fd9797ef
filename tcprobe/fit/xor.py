"""The swizzles behind an address map whose offset is an XOR of one image per coordinate bit: as few as possible.

>>> import numpy as np
>>> first, second = np.divmod(np.arange(1024), 32)
>>> plain = AddressMap.of(first, second, first * 32 + second)
>>> wanted = (Swizzle(1, 0, 6), Swizzle(1, 3, 4))
>>> twice = AddressMap.of(first, second, wanted[1](wanted[0](plain.offsets)))
>>> chain_of(twice).swizzles
(Swizzle(bits=1, base=3, shift=4), Swizzle(bits=1, base=0, shift=6))

The images of the coordinate bits are the columns of a matrix over GF(2); the bits of the offset are its rows.
shape:stride alone maps every coordinate bit to its own offset bits, so that no row has two ones: the matrix is *plain*.
A swizzle adds rows to rows: each of the B rows z that it changes becomes row z ^ row z + S; undoing it is a step of the
same kind. All sequences of steps are tried, shorter ones first, up to `MOST_MATRICES` of them. Beyond that, elimination
gives swizzles of one bit each, which may not be the fewest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.layout.address import AddressMap
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.layout.gf2 import solve
from tcprobe.layout.swizzle import Swizzle

MOST_MATRICES = 1 << 19
Matrices = NDArray[np.uint64]  # [matrix, row]: the row as bits


class RowStep(NamedTuple):
    """Each of rows `row` .. `row` + `height` - 1 is XORed with the row `distance` above it."""

    row: int
    height: int
    distance: int

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle that makes, and undoes, this step."""
        return Swizzle(self.height, min(self.row, self.row + self.distance), self.distance)


class _Level(NamedTuple):
    """Matrices after some steps: the step that led to each, and the number of the matrix before it."""

    matrices: Matrices
    steps: list[RowStep]
    step: Ints
    parent: Ints


class Chain(NamedTuple):
    """Swizzles, the first to be applied first; and whether all shorter sequences were tried."""

    swizzles: tuple[Swizzle, ...]
    fewest: bool


def chain_of(address_map: AddressMap) -> Chain | None:
    """Swizzles of a shape:stride that make the map; None if there are none."""
    rows = _rows(address_map)
    if rows is None:
        return None
    few = _fewest(rows)
    steps = few or _eliminate(rows)
    return Chain(tuple(step.swizzle for step in reversed(steps)), bool(few)) if steps else None


def _rows(address_map: AddressMap) -> list[int] | None:
    """The rows of the matrix, offset bit 0 first; None if the offset is not an XOR of images."""
    low, high = ((extent - 1).bit_length() for extent in address_map.extent)
    inputs = address_map.first | (address_map.second << low)
    points = _points(inputs ^ inputs[0], address_map.offsets ^ address_map.offsets[0], low + high)
    images = points and solve(points, low + high)
    if not images:
        return None
    bits = int(address_map.offsets.max()).bit_length()
    return [sum((image >> bit & 1) << column for column, image in enumerate(images)) for bit in range(bits)]


def _points(vectors: Ints, image_values: Ints, bits: int) -> list[tuple[int, int]]:
    """Enough points to determine the linear map; [] if none goes through all points."""
    points = []
    for bit in range(bits):
        able = np.flatnonzero(vectors >> bit & 1)
        if len(able):
            vector, image = vectors[able[0]], image_values[able[0]]
            points.append((int(vector), int(image)))
            vectors, image_values = vectors.copy(), image_values.copy()
            vectors[able] ^= vector
            image_values[able] ^= image
    return [] if image_values.any() else points


def _steps(size: int) -> Iterator[RowStep]:
    """All steps between `size` rows; those of positive S come first."""
    for sign in (1, -1):
        for length in range(1, size):
            for row in range(0 if sign > 0 else length, size - (length if sign > 0 else 0)):
                room = (size - length if sign > 0 else size) - row
                yield from (RowStep(row, height, sign * length) for height in range(1, min(length, room) + 1))


def _fewest(matrix_rows: list[int]) -> list[RowStep]:
    """The fewest steps to a plain matrix; [] if there are none within `MOST_MATRICES`."""
    levels = [_Level(np.array([matrix_rows], dtype=np.uint64), [], np.zeros(1, np.int64), np.zeros(1, np.int64))]
    steps = list(_steps(len(matrix_rows)))
    while True:
        last = _last(levels[-1].matrices)
        if last:
            return [*_path(levels, last[0]), last[1]]
        if not steps or len(levels[-1].matrices) * len(steps) > MOST_MATRICES:
            return []
        levels.append(_next(levels[-1].matrices, steps))


def _path(levels: Sequence[_Level], number: int) -> list[RowStep]:
    path = []
    for level in reversed(levels[1:]):
        path.append(level.steps[level.step[number]])
        number = int(level.parent[number])
    return path[::-1]


def _next(matrices: Matrices, row_steps: list[RowStep]) -> _Level:
    """Every matrix after every step, each matrix once."""
    after = np.repeat(matrices[None], len(row_steps), axis=0)
    for number, (row, height, distance) in enumerate(row_steps):
        after[number, :, row : row + height] ^= matrices[:, row + distance : row + distance + height]
    flat, index = np.unique(after.reshape(-1, matrices.shape[1]), axis=0, return_index=True)
    return _Level(flat, row_steps, index // len(matrices), index % len(matrices))


def _last(matrices: Matrices) -> tuple[int, RowStep] | None:
    """(number of a matrix that one step makes plain, that step); None if there is none.

    The step must change all rows with two or more ones; the fewest rows with all of these suffice.
    """
    size, row = matrices.shape[1], np.arange(matrices.shape[1])
    crowded = _two(matrices)
    low = crowded.argmax(axis=1)
    height = size - crowded[:, ::-1].argmax(axis=1) - low
    outside = (row < low[:, None]) | (row >= (low + height)[:, None])
    for distance in (*range(1, size), *range(-1, -size, -1)):
        plain = ~_two(matrices ^ _shift_rows(matrices, distance)) | outside
        able = np.flatnonzero(plain.all(axis=1) & crowded.any(axis=1) & (height <= abs(distance)))
        if len(able):
            number = int(able[0])
            return number, RowStep(int(low[number]), int(height[number]), distance)
    return None


def _two(matrices: Matrices) -> Bools:
    """Which rows have two or more ones."""
    return np.asarray((matrices & (matrices - np.uint64(1))) != 0)


def _shift_rows(matrices: Matrices, distance: int) -> Matrices:
    """Each matrix with row z + distance in place of row z; zero where there is none."""
    moved = np.zeros_like(matrices)
    if distance > 0:
        moved[:, :-distance] = matrices[:, distance:]
    else:
        moved[:, -distance:] = matrices[:, :distance]
    return moved


def _eliminate(matrix_rows: list[int]) -> list[RowStep]:
    """Steps of one row each to a plain matrix, column by column; [] if columns are dependent."""
    matrix_rows, pivots, steps = list(matrix_rows), set[int](), []
    for column in range(max(matrix_rows).bit_length()):
        able = [z for z, row in enumerate(matrix_rows) if row >> column & 1 and z not in pivots]
        if not able:
            continue
        pivot = max(able)
        pivots.add(pivot)
        for z, row in enumerate(matrix_rows):
            if z != pivot and row >> column & 1:
                matrix_rows[z] ^= matrix_rows[pivot]
                steps.append(RowStep(z, 1, pivot - z))
    return steps if all(row.bit_count() <= 1 for row in matrix_rows) else []
