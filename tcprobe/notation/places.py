"""Which element each slot of a thread holds: of a thread-value layout, a tile of multiplies, a copy, a linear layout.

>>> import numpy as np
>>> from tcprobe.notation import cute
>>> held = thread_values(cute.read("((4,8),(2,2,2)):((32,1),(16,8,128))"), (16, 16))
>>> held.row[12].tolist(), held.col[12].tolist()
([3, 3, 11, 11, 3, 3, 11, 11], [0, 1, 0, 1, 8, 9, 8, 9])

A tile of multiplies is a TiledMMA of CuTe: atoms x warps x repetitions; a permutation reorders m, n or k before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Ints
from tcprobe.notation import cute
from tcprobe.notation.triton import Linear
from tcprobe.references.cute import L, flat, size

MOST_THREADS = 4096
MOST_SLOTS = 1 << 20
M, N, K = range(3)
DIMENSIONS = {"a": (M, K), "b": (K, N), "c": (M, N), "d": (M, N)}  # of an operand's rows and columns
REPEATED = {"a": (M, K), "b": (N, K), "c": (M, N), "d": (M, N)}  # in which order a thread's repetitions go on


class Places(NamedTuple):
    """Row and column of each slot, of shape (threads, elements); of memory one thread, and -1 for an offset unused."""

    row: Ints
    col: Ints


def checked(held: Places, extent: tuple[int, int], words: str) -> Places:
    """The places; UsageError where two slots of one thread hold one element, or an element has no holder."""
    rows, cols = extent
    if held.row.size > MOST_SLOTS or len(held.row) > MOST_THREADS:
        raise UsageError(
            f"{words}: {len(held.row)} threads x {held.row.shape[1]} slots; at most {MOST_THREADS} threads and "
            f"{MOST_SLOTS} slots are worked out."
        )
    number = held.row * cols + held.col
    ordered = np.sort(number, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        thread = int(np.argmax(twice.any(axis=1)))
        element = int(ordered[thread, 1:][twice[thread]][0])
        first, second = np.flatnonzero(number[thread] == element)[:2].tolist()
        where = f"element [{element // cols}][{element % cols}]"
        raise UsageError(
            f"{words}: two slots hold one element: thread {thread} has {where} as i {first} and i {second}."
        )
    missing = np.bincount(number[number >= 0], minlength=rows * cols) == 0
    if missing.any():
        first = int(np.argmax(missing))
        raise UsageError(
            f"{words}: it holds {int(rows * cols - missing.sum())} of the {rows * cols} elements of a tile of {rows} x "
            f"{cols}, but not, for example, [{first // cols}][{first % cols}]: its shape does not divide the tile."
        )
    return held


def thread_values(layout: L, tile: tuple[int, int]) -> Places:
    """The slots of a thread-value layout over a tile whose rows vary fastest; UsageError where it does not fill it."""
    words = cute.written(layout)
    if cute.rank(layout) != 2:
        raise UsageError(
            f"column 1 of the layout: {words} has {cute.rank(layout)} outer modes; a thread-value layout has two."
        )
    threads, values = cute.by_modes(layout)
    _require_bounds(size(threads.shape), size(values.shape), words)
    rows, cols = tile
    if cute.cosize(layout) > rows * cols:
        raise UsageError(
            f"column 1 of the layout: {words} reaches number {cute.cosize(layout) - 1}, "
            f"and a tile of {rows} x {cols} has "
            f"{rows * cols}: its shape does not divide the tile."
        )
    _require_apart(threads, values, words)
    at = cute.table(threads)[:, None] + cute.table(values)[None, :]
    return checked(Places(at % rows, at // rows), tile, f"column 1 of the layout: {words}")


def _require_bounds(threads: int, values: int, words: str) -> None:
    if threads > MOST_THREADS or threads * values > MOST_SLOTS:
        raise UsageError(
            f"column 1 of the layout: {words} has {threads} threads x {values} values; "
            f"at most {MOST_THREADS} threads and "
            f"{MOST_SLOTS} slots are worked out."
        )


def _require_apart(threads: L, values: L, words: str) -> None:
    """UsageError where strides overlap: two slots hold one element, and no stride of 0 over threads says so."""
    modes = [
        *((e, s) for e, s in zip(flat(threads.shape), flat(threads.stride), strict=True) if s),
        *zip(flat(values.shape), flat(values.stride), strict=True),
    ]
    at = np.zeros(1, np.int64)
    for extent, stride in modes:
        at = (at[None, :] + (np.arange(extent) * stride)[:, None]).ravel()
    if len(np.unique(at)) == len(at):
        return
    order = np.argsort(at, kind="stable")
    place = int(np.argmax(at[order][1:] == at[order][:-1]))
    slots = sorted(int(number) for number in order[place : place + 2])
    raise UsageError(
        f"column 1 of the layout: {words}: strides overlap: two slots hold one element, number {int(at[slots[0]])}."
    )


def memory(layout: L | cute.Composed, tile: tuple[int, int] | None) -> tuple[Places, tuple[int, int]]:
    """What is at each element offset of a layout of rows and columns, and its extent.

    A tile that is larger has several of it, where CuTe's tile_to_shape puts them: gaps first, then along rows.
    """
    plain = layout.layout if isinstance(layout, cute.Composed) else layout
    words = cute.written(plain)
    if cute.rank(plain) != 2:
        raise UsageError(
            f"column 1 of the layout: {words} has {cute.rank(plain)} outer modes; memory has rows and columns."
        )
    sides = cute.mode_sizes(plain)
    rows, cols = tile or (sides[0], sides[1])
    if rows % sides[0] or cols % sides[1]:
        raise UsageError(
            f"column 1 of the layout: {words} is {sides[0]} x {sides[1]}, "
            f"which does not divide a tile of {rows} x {cols}."
        )
    if rows * cols > MOST_SLOTS:
        raise UsageError(
            f"column 1 of the layout: a tile of {rows} x {cols}; at most {MOST_SLOTS} elements are worked out."
        )
    whole = cute.tile_to_shape(plain, (rows, cols))
    if whole is None:
        raise UsageError(
            f"column 1 of the layout: {words} cannot be repeated over a tile of {rows} x {cols}: its gaps do not take "
            "whole rows of copies. CuTe's tile_to_shape refuses it, too. Give the layout of the whole tile."
        )
    down, across = (cute.table(mode) for mode in cute.by_modes(whole))
    at = down[:, None] + across[None, :]
    if isinstance(layout, cute.Composed):
        at = layout(at)
    return by_offset(at, f"column 1 of the layout: {words}"), (rows, cols)


def by_offset(at: Ints, words: str) -> Places:
    """From the offset of each (row, col), the element at each offset; UsageError where two have one."""
    rows, cols = at.shape
    count = int(at.max()) + 1
    if count > MOST_SLOTS:
        raise UsageError(f"{words} reaches offset {count - 1}; at most {MOST_SLOTS} are worked out.")
    number = np.full(count, -1, np.int64)
    number[at.ravel()] = np.arange(rows * cols)
    lost = np.flatnonzero(number[at.ravel()] != np.arange(rows * cols))
    if len(lost):
        first, other = int(lost[0]), int(number[at.ravel()[lost[0]]])
        raise UsageError(
            f"{words}: strides overlap: two slots hold one element: [{first // cols}][{first % cols}] and "
            f"[{other // cols}][{other % cols}] are both at offset {int(at.ravel()[first])}."
        )
    row, col = np.where(number < 0, -1, number // cols), np.where(number < 0, -1, number % cols)
    return Places(row[None, :], col[None, :])


def of_linear(linear: Linear, threads: Sequence[str], values: str) -> Places:
    """The slots of a linear layout: `values` is the input of a thread's elements, `threads` those of threads."""
    columns = []
    for dim in (0, 1):
        by_input = []
        for names in ([*threads], [values]):
            images = [basis[dim] for name in names for basis in linear.bases.get(name, [])]
            if len(images) > MOST_SLOTS.bit_length() - 1:
                raise UsageError(f"a layout of {len(images)} bases of {', '.join(names)}.")
            at = np.zeros(1, np.int64)
            for image in images:
                at = np.concatenate([at, at ^ image])
            by_input.append(at)
        if len(by_input[0]) * len(by_input[1]) > MOST_SLOTS:
            raise UsageError(
                f"{len(by_input[0])} threads x {len(by_input[1])} slots; at most {MOST_SLOTS} slots are worked out."
            )
        columns.append(by_input[0][:, None] ^ by_input[1][None, :])
    return Places(columns[0], columns[1])


@dataclass(frozen=True)
class Warps:
    """Atoms of a CTA along m, n and k: how many, and which number each has."""

    layout: L

    def __post_init__(self) -> None:
        if self.count * 32 > MOST_THREADS:
            raise UsageError(f"`warps` {self}: {self.count} of them; a CTA has at most {MOST_THREADS // 32}.")
        if sorted(self.numbers.tolist()) != list(range(self.count)):
            raise UsageError(
                f"`warps` {self}: the strides do not number the {self.count} of them 0 to {self.count - 1}."
            )

    @property
    def sides(self) -> tuple[int, int, int]:
        """How many along m, n and k."""
        m, n, k = cute.mode_sizes(self.layout)
        return m, n, k

    @property
    def count(self) -> int:
        """How many in all."""
        return prod(self.sides)

    @property
    def numbers(self) -> Ints:
        """By place, m fastest, then n and k: the number there."""
        return cute.table(self.layout)

    @property
    def places(self) -> Ints:
        """By number: its place along m, n and k, of shape (count, 3)."""
        at = np.argsort(self.numbers)
        m, n, _ = self.sides
        return np.stack([at % m, at // m % n, at // (m * n)], axis=1)

    def __str__(self) -> str:
        """As --warps takes it: strides where they are not those of m fastest."""
        m, n, k = self.sides
        shape = f"{m}x{n}" + (f"x{k}" if k > 1 else "")
        numbers = self.numbers.reshape(k, n, m)
        plain = bool((self.numbers == np.arange(self.count)).all())
        if plain:
            return shape
        steps = [int(numbers[0, 0, 1] - numbers[0, 0, 0]) if m > 1 else 1, int(numbers[0, 1, 0]) if n > 1 else 1]
        steps += [int(numbers[1, 0, 0])] if k > 1 else []
        simple = all(type(side) is int for side in (self.layout.shape if isinstance(self.layout.shape, tuple) else ()))
        return f"{shape}:{','.join(map(str, steps))}" if simple else cute.written(self.layout).replace(" ", "")


Permutation = tuple[L | int | None, L | int | None, L | int | None]


class Tiling(NamedTuple):
    """What a CTA's tile is made of: its m, n, k, the atoms, what permutes them, and m, n, k of an atom."""

    tile: tuple[int, int, int]
    warps: Warps
    permutation: Permutation
    atom: tuple[int, int, int]

    def check(self, dimensions: Sequence[int]) -> None:
        """UsageError where atoms do not fill the tile along one of these dimensions, or it is too large."""
        if prod(self.tile[dim] for dim in dimensions) > MOST_SLOTS:
            raise UsageError(f"`tile` {'x'.join(map(str, self.tile))}: at most {MOST_SLOTS} elements are worked out.")
        for dim in dimensions:
            side, one, along, name = self.tile[dim], self.atom[dim], self.warps.sides[dim], "mnk"[dim]
            if side < 1 or side % (one * along):
                raise UsageError(
                    f"`tile` {'x'.join(map(str, self.tile))}: {name} {side} is not a multiple of {one * along}: "
                    f"{along} of "
                    f"the multiply's {one}."
                )

    def order(self, dim: int) -> Ints:
        """The permutation of a dimension: where each number of it, counted through by atoms, lies in the tile."""
        side, tiler = self.tile[dim], self.permutation[dim]
        if tiler is None or isinstance(tiler, int):
            if isinstance(tiler, int) and (
                tiler < 1 or side % tiler or tiler % (self.atom[dim] * self.warps.sides[dim])
            ):
                raise UsageError(
                    f"`permute` {tiler} along {'mnk'[dim]}: "
                    f"a multiple of {self.atom[dim] * self.warps.sides[dim]} that "
                    f"divides {side} is needed."
                )
            return np.arange(side)
        count, words = size(tiler.shape), f"`permute` {cute.written(tiler)} along {'mnk'[dim]}"
        starts = cute.complement(tiler, side)
        if starts is None or count * size(starts.shape) != side or cute.cosize(tiler) > side:
            raise UsageError(f"{words}: it does not reorder the {side} of the tile.")
        order = (cute.table(starts)[:, None] + cute.table(tiler)[None, :]).ravel()
        if not np.array_equal(np.sort(order), np.arange(side)):
            raise UsageError(f"{words}: it does not reorder the {side} of the tile.")
        if count % (self.atom[dim] * self.warps.sides[dim]):
            raise UsageError(
                f"{words}: its {count} are not a multiple of {self.atom[dim] * self.warps.sides[dim]}: "
                f"{self.warps.sides[dim]} of the multiply's {self.atom[dim]}."
            )
        return order


def tiled(atom: Places, operand: str, tiling: Tiling, lanes: Ints, atom_threads: L | None = None) -> Places:
    """An operand of a tile of multiplies, by thread of the CTA and by i, which goes on over repetitions.

    `atom` is the operand of one, by thread of the atom and i; `lanes` numbers these threads in the CTA, and
    `atom_threads` is that as a layout, where an atom is not whole warps.
    """
    dimensions = DIMENSIONS[operand]
    tiling.check(dimensions)
    slots = (
        atom.row.size
        * tiling.warps.count
        * prod(tiling.tile[dim] // (tiling.atom[dim] * tiling.warps.sides[dim]) for dim in dimensions)
    )
    if slots > MOST_SLOTS:
        raise UsageError(
            f"`tile` {'x'.join(map(str, tiling.tile))}: {slots} slots; at most {MOST_SLOTS} are worked out."
        )
    coordinates: dict[int, Ints] = {}
    places, repeats = (
        tiling.warps.places,
        {dim: tiling.tile[dim] // (tiling.atom[dim] * tiling.warps.sides[dim]) for dim in dimensions},
    )
    first, second = REPEATED[operand]
    for dim, own in zip(dimensions, atom, strict=True):
        along, one = tiling.warps.sides[dim], tiling.atom[dim]
        repeat = np.arange(repeats[dim])
        # warps x threads of an atom x repetitions x elements of an atom
        at = (
            own[None, :, None, :]
            + one * places[:, dim][:, None, None, None]
            + one * along * repeat[None, None, :, None]
        )
        coordinates[dim] = tiling.order(dim)[at]
    parts = []
    for dim in dimensions:
        at = coordinates[dim]  # which repeats along its own dimension alone: the first one varies faster
        whole = at[:, :, None, :, :] if dim == first else at[:, :, :, None, :]
        shape = (at.shape[0], at.shape[1], repeats[second], repeats[first], at.shape[3])
        parts.append(np.broadcast_to(whole, shape).reshape(at.shape[0], at.shape[1], -1))
    starts = _starts(tiling.warps.count, lanes, atom_threads)
    thread = (starts[:, None] + lanes[None, :]).ravel()
    order = np.argsort(thread)
    row, col = (part.reshape(len(thread), -1)[order] for part in parts)
    return Places(row, col)


def _starts(count: int, lanes: Ints, atom_threads: L | None) -> Ints:
    """The number of the first thread of each atom."""
    if atom_threads is None:
        return np.arange(count) * len(lanes)
    every = cute.complement(atom_threads, len(lanes) * count)
    first = every and cute.composition(every, count, 1)
    starts = cute.table(first) if first else np.zeros(0, np.int64)
    if sorted((starts[:, None] + lanes[None, :]).ravel().tolist()) != list(range(count * len(lanes))):
        raise UsageError(f"{count} atoms of {len(lanes)} threads are not whole warps.")
    return starts


# copies
def copy_tv(threads: L, values: L) -> tuple[Ints, tuple[int, int]]:
    """The layout of threads and values of make_tiled_copy: numbers in the tile, its rows fastest; and its sides."""
    sides = [(a, b) for a, b in zip(cute.mode_sizes(threads), cute.mode_sizes(values), strict=True)]
    tile = (prod(sides[0]), prod(sides[1]))
    found = []
    for layout, name in ((threads, "threads"), (values, "values")):
        numbers, count = cute.table(layout), size(layout.shape)
        if sorted(numbers.tolist()) != list(range(count)):
            raise UsageError(
                f"{cute.written(layout)}: strides overlap or leave gaps: {name} are numbered 0 to {count - 1}."
            )
        at = np.argsort(numbers)
        rows = cute.mode_sizes(layout)[0]
        found.append((at % rows, at // rows))
    (t_row, t_col), (v_row, v_col) = found
    row = v_row[None, :] + sides[0][1] * t_row[:, None]
    col = v_col[None, :] + sides[1][1] * t_col[:, None]
    return row + tile[0] * col, tile


class CopySide(NamedTuple):
    """One side of a copy's atom: by its thread and value, the number thread + threads * value of the reference side."""

    numbers: Ints
    threads: int
    values: int


def copied(tv: Ints, tiler: tuple[int, int], tile: tuple[int, int], side: CopySide) -> Places:
    """A tiled copy over a tile: by thread and i, which goes on over repetitions, along rows first."""
    threads, values = tv.shape
    if threads % side.threads or values % side.values:
        raise UsageError(
            f"{threads} threads x {values} values are not whole atoms of {side.threads} threads x {side.values} values."
        )
    if tile[0] % tiler[0] or tile[1] % tiler[1]:
        raise UsageError(f"`tile` {tile[0]}x{tile[1]} is not whole tiles of {tiler[0]} x {tiler[1]}.")
    # (atom value, rest of values, atom thread, rest of threads), slowest first in memory
    parts = tv.reshape(threads // side.threads, side.threads, values // side.values, side.values)
    by_atom = parts.transpose(0, 2, 3, 1).reshape(threads // side.threads, values // side.values, -1)
    taken = by_atom[:, :, side.numbers]  # rest of threads, rest of values, thread, value of the side
    whole = taken.transpose(0, 2, 1, 3).reshape(-1, taken.shape[1] * taken.shape[3])
    down, across = tile[0] // tiler[0], tile[1] // tiler[1]
    repeat = np.arange(down * across)
    row = whole[:, None, :] % tiler[0] + (repeat % down * tiler[0])[None, :, None]
    col = whole[:, None, :] // tiler[0] + (repeat // down * tiler[1])[None, :, None]
    return Places(row.reshape(len(whole), -1), col.reshape(len(whole), -1))


def swapped(held: Places) -> Places:
    """The transpose."""
    return Places(held.col, held.row)


def sizes_of(extents: Mapping[str, int]) -> tuple[int, int, int]:
    """m, n, k by name."""
    return extents["m"], extents["n"], extents["k"]
