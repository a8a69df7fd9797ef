"""The layout behind an address map: one of four kinds, tried in this order and proven for every cell.

>>> from tcprobe.layout.address_files import matrices
>>> text = "0 1 2 3 4 5 6 7; 9 8 11 10 13 12 15 14; 18 19 16 17 22 23 20 21; 27 26 25 24 31 30 29 28"
>>> found = fit_address(matrices(text.replace(";", ",").split(", "))[0].address)
>>> found.kind, found.swizzle, found.others
('swizzle', Swizzle(bits=2, base=0, shift=3), (Swizzle(bits=3, base=0, shift=3),))

- affine: shape:stride
- swizzle: a swizzle of shape:stride + base; fewest bits B first, then least M, then least S; S < 0 last
- coordinate: one coordinate XORed with bits of the other, then shape:stride; CUTLASS if a row is not a power of two
- xor: several swizzles, one after the other, of shape:stride + base

The search is bounded: a swizzle is tried on the whole map only if the beginnings of its first row and column allow it,
and at most `MOST_TRIES` swizzles of each kind are tried.

The swizzles behind an address map whose offset is an XOR of one image per coordinate bit: as few as possible.

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
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.fit.affine import Affine, Candidates, CoordinateSwizzle, coordinate_swizzle, fit_affine
from tcprobe.fit.linear import solve_gf2
from tcprobe.layout.address import AddressMap
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.layout.swizzle import MOST_BIT, Swizzle

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
    images = points and solve_gf2(points, low + high)
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
            number = last[0]
            path = []
            for level in reversed(levels[1:]):
                path.append(level.steps[level.step[number]])
                number = int(level.parent[number])
            return [*path[::-1], last[1]]
        if not steps or len(levels[-1].matrices) * len(steps) > MOST_MATRICES:
            return []
        levels.append(_next(levels[-1].matrices, steps))


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
        # each matrix with row z + distance in place of row z; zero where there is none
        moved = np.zeros_like(matrices)
        if distance > 0:
            moved[:, :-distance] = matrices[:, distance:]
        else:
            moved[:, -distance:] = matrices[:, :distance]
        plain = ~_two(matrices ^ moved) | outside
        able = np.flatnonzero(plain.all(axis=1) & crowded.any(axis=1) & (height <= abs(distance)))
        if len(able):
            number = int(able[0])
            return number, RowStep(int(low[number]), int(height[number]), distance)
    return None


def _two(matrices: Matrices) -> Bools:
    """Which rows have two or more ones."""
    return np.asarray((matrices & (matrices - np.uint64(1))) != 0)


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


AFFINE, SWIZZLE, COORDINATE, XOR = "affine", "swizzle", "coordinate", "xor"
MOST_BITS = 5  # largest B of the swizzles that are listed besides the first
MOST_PAIRED = 21  # bits of offsets up to which all pairs of swizzles are tried: 228 KB, in bits
MOST_WORK = 1 << 20  # cells that are computed in search of one kind, if that is between these numbers of swizzles
LEAST_TRIES, MOST_TRIES = 1 << 6, 1 << 10
BEGINNING = 17  # places of the first row and column that must be the beginning of modes


@dataclass(frozen=True)
class AddressFit:
    """offset = swizzles, first to last, of affine(coordinate(element)).

    `others`: other swizzles of up to 5 bits that fit, each over its own shape:stride; empty for the kinds affine,
    coordinate and xor. `fewest`: no smaller number of swizzles fits.
    """

    kind: str
    affine: Affine
    cells: int
    swizzles: tuple[Swizzle, ...] = ()
    coordinate: CoordinateSwizzle | None = None
    others: tuple[Swizzle, ...] = ()
    fewest: bool = True

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle, if the kind is `swizzle`."""
        return self.swizzles[0] if self.kind == SWIZZLE else None

    def __call__(self, first: Ints, second: Ints) -> Ints:
        """The offsets of elements."""
        if self.coordinate:
            first, second = self.coordinate(first, second)
        offsets = self.affine(first, second)
        for swizzle in self.swizzles:
            offsets = swizzle(offsets)
        return offsets


def fit_address(address_map: AddressMap) -> AddressFit | None:
    """The layout of a map, which need not be whole; None if it is of none of the four kinds."""
    fits = (layout for kind in (_affine, _swizzle, _coordinate, _xor) for layout in kind(address_map))
    return next((layout for layout in fits if is_proven(layout, address_map)), None)


def is_proven(fitted: AddressFit, address_map: AddressMap) -> bool:
    """Whether the layout gives every cell's offset."""
    return np.array_equal(fitted(address_map.first, address_map.second), address_map.offsets)


def offset_bits(address_map: AddressMap) -> int:
    """The number of bits of the largest offset."""
    return int(address_map.offsets.max()).bit_length()


def _affine(address_map: AddressMap) -> Iterator[AddressFit]:
    affine = _undo(address_map, ())
    if affine:
        yield AddressFit(AFFINE, affine, address_map.cells)


def _swizzle(address_map: AddressMap) -> Iterator[AddressFit]:
    for sign in (1, -1):
        for most in (MOST_BITS, offset_bits(address_map)):
            fits = list(_fits(address_map, most, sign))
            if fits:
                others = tuple(swizzle for swizzle, _ in fits[1:] if swizzle.bits <= MOST_BITS)
                yield AddressFit(SWIZZLE, fits[0][1], address_map.cells, (fits[0][0],), others=others)
                return


def _coordinate(address_map: AddressMap) -> Iterator[AddressFit]:
    for swizzle, affine in coordinate_swizzle(address_map):
        yield AddressFit(COORDINATE, affine, address_map.cells, coordinate=swizzle)


def _xor(address_map: AddressMap) -> Iterator[AddressFit]:
    chain = chain_of(address_map)
    affine = _undo(address_map, chain.swizzles) if chain else None
    if chain and affine:
        yield AddressFit(XOR, affine, address_map.cells, chain.swizzles, fewest=chain.fewest)
    else:
        yield from _pairs(address_map)


def _pairs(address_map: AddressMap) -> Iterator[AddressFit]:
    """Fits with two swizzles of up to 5 bits each, S > 0, over any shape:stride; strides need not be powers of two."""
    if offset_bits(address_map) > MOST_PAIRED:
        return
    tried = {
        _fingerprint(address_map.corners, first)
        for first in (Swizzle(0, 0, 0), *_candidates_left(address_map, MOST_BITS, 1))
    }
    for first, last in islice(_both(address_map), _tries(address_map)):
        seen = _fingerprint(np.where(address_map.corners < 0, -1, last(address_map.corners)), first)
        affine = None if seen in tried else _undo(address_map, (first, last))
        tried.add(seen)
        if affine:
            yield AddressFit(XOR, affine, address_map.cells, (first, last))


def _both(address_map: AddressMap) -> Iterator[tuple[Swizzle, Swizzle]]:
    """Pairs of swizzles, the first to be applied first, that `_candidates_left` leaves."""
    able = _candidates(offset_bits(address_map), MOST_BITS)
    for last in (Swizzle(*three) for three in able.triples()):
        yield from ((first, last) for first in _candidates_left(address_map, MOST_BITS, 1, last))


def _tries(address_map: AddressMap) -> int:
    """How many swizzles are undone on the whole map."""
    return min(MOST_TRIES, max(LEAST_TRIES, MOST_WORK // address_map.cells))


def _fingerprint(sample: Ints, known_swizzle: Swizzle) -> bytes:
    """A part of the map under a swizzle; if another swizzle gave the same, this one is not tried."""
    return np.where(sample < 0, -1, known_swizzle(sample)).tobytes()


def _fits(address_map: AddressMap, most: int, sign: int) -> Iterator[tuple[Swizzle, Affine]]:
    """(swizzle, affine map) for swizzles of shift `sign` * S, B from 1 to `most`, under which the map is affine."""
    for swizzle in _candidates_left(address_map, most, sign)[: _tries(address_map)]:
        affine = _undo(address_map, [swizzle])
        if affine:
            yield swizzle, affine


def _candidates_left(address_map: AddressMap, most: int, sign: int, last: Swizzle | None = None) -> list[Swizzle]:
    """The swizzles of shift `sign` * S, B up to `most`, before `last`, that pass quick conditions on parts."""
    kept = _candidates(offset_bits(address_map), most)
    kept = kept.kept(_separable(_part(address_map.corners, last), kept, sign))
    for axis in (0, 1):
        line = (address_map.grid[:, 0] if axis == 0 else address_map.grid[0])[:BEGINNING]
        count = int(np.cumprod(line >= 0).sum()) if address_map.low[axis] == 0 else 0
        kept = kept.kept(_begins(_part(line[:count], last), kept, sign))
    return [Swizzle(bits, base, sign * shift) for bits, base, shift in kept.triples()]


def _part(offsets: Ints, last: Swizzle | None) -> Ints:
    """A part of the map with the last swizzle undone."""
    return np.where(offsets < 0, -1, last(offsets)) if last else offsets


def _begins(beginning: Ints, candidates: Candidates, sign: int) -> Bools:
    """Which swizzles leave the beginning of modes: the first step everywhere except at multiples of the first mode's
    size.

    A necessary condition.
    """
    if len(beginning) < 2:
        return np.ones(len(candidates.bits), bool)
    steps = np.diff(_images(beginning[None, None, :], candidates, sign)[:, 0], axis=1)
    breaks = np.where(steps == steps[:, :1], 0, np.arange(1, len(beginning)))
    return np.asarray(np.gcd.reduce(breaks, axis=1) != 1)


def _undo(address_map: AddressMap, swizzles: Sequence[Swizzle]) -> Affine | None:
    """The affine map that is left when the swizzles, applied first to last, are undone; None if it is not affine."""
    offsets = _before(address_map.offsets, swizzles)
    if address_map.cells == address_map.grid.size:  # a quick check, since most maps are no sum f(first) + g(second)
        steps = np.diff(_before(address_map.grid, swizzles), axis=0)
        if not (steps == steps[:, :1]).all():
            return None
    return fit_affine(address_map.first, address_map.second, offsets, address_map.extent)


def _before(offsets: Ints, swizzles: Sequence[Swizzle]) -> Ints:
    """The offsets before the swizzles, which were applied first to last."""
    for swizzle in reversed(swizzles):
        offsets = swizzle(offsets)
    return offsets


def _candidates(bits: int, most: int) -> Candidates:
    """B, M and S > 0 of all swizzles with B <= most whose lowest source bit is in `bits`, ascending."""
    size = np.arange(1, max(2, min(most, bits) + 1))
    axes = np.meshgrid(size, np.arange(bits), np.arange(1, bits), indexing="ij")
    every = Candidates(*(axis.ravel() for axis in axes))
    low = every.base + every.shift
    return every.kept((every.shift >= every.bits) & (low < bits) & (low + every.bits <= MOST_BIT))


def _separable(sample: Ints, candidates: Candidates, sign: int) -> Bools:
    """Which swizzles leave f(first) + g(second) on a part of the map; -1 means no offset. A necessary condition.

    The part's first row and column must be whole.
    """
    images = _images(sample, candidates, sign)
    images -= images[:, :1, :].copy()
    images -= images[:, :, :1].copy()
    return np.asarray(~((images != 0) & (sample >= 0)).any(axis=(1, 2)))


def _images(sample: Ints, candidates: Candidates, sign: int) -> Ints:
    """A part of the map under each swizzle: (swizzles, rows, columns)."""
    bits, base, shift = candidates
    low, high = (axis[:, None, None] for axis in (base, base + shift))
    source, target = (high, low) if sign > 0 else (low, high)
    images = sample >> source
    images &= (1 << bits[:, None, None]) - 1
    images <<= target
    images ^= sample
    return images
