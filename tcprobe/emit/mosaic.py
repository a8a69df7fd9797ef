"""Python code for JAX's Mosaic GPU (Pallas): the TiledLayout of a fragment.

A TiledLayout tiles a matrix repeatedly: with tiles (64, 8) and (16, 8), the first splits off blocks of 64 x 8, the
second 4 blocks of 16 x 8 in each. The resulting dimensions, outermost first, are assigned: some to the warp of a
warpgroup, some to the lane, one to the elements of a vector; the rest count registers, in order. So each bit of lane
and of i must be one bit of row or col, and higher bits of i higher bits of an axis. Source: the docstring of
TiledLayout in jax/experimental/mosaic/gpu/fragmented_array.py, JAX 0.10.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.emit.common import cell_identifier, heading, layout
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.store.cell import Cell

WHAT = "Python code for JAX's Mosaic GPU: TiledLayout of the four warps of a warpgroup"
WARPS = 4  # of a warpgroup, over which every TiledLayout is distributed
LANE_BITS = WARP.bit_length() - 1
AXES = ("product", "row", "col")
COPIES = -1
MosaicDims = tuple[int, ...]


class Digit(NamedTuple):
    """Consecutive bits of i, lane or warp that are consecutive bits of an axis: `size` steps of `stride`.

    `axis` is one of the matrix's, or COPIES if the bits lead to copies of the same elements.
    """

    owner: str
    axis: int
    stride: int
    size: int


class Tiled(NamedTuple):
    """The arguments of a TiledLayout; a dimension is a negative number, and n > 0 is a Replicated of n copies."""

    tiles: tuple[MosaicDims, ...]
    warps: MosaicDims
    lanes: MosaicDims
    vector: int


def emit(cells: Sequence[Cell]) -> str:
    """A TiledLayout for each table."""
    lines = [
        *heading(cells, "#"),
        "# i counts the registers of registers_shape in order and, within each, the elements of its vector; the four",
        "# warps hold the fragment of a warpgroup together, that of a warp each for itself (Replicated)",
        "from jax.experimental.mosaic.gpu import fragmented_array as fa",
    ]
    return "\n".join([*lines, *(line for cell in cells for line in _layout(cell))])


def _layout(cell: Cell) -> Iterator[str]:
    tiling = tiled_layout(cell)
    yield from (
        "",
        f"# of a matrix of {' x '.join(map(str, shape(cell)))}",
        f"{cell_identifier(cell)} = fa.TiledLayout(",
    )
    yield f"    fa.Tiling({tiling.tiles}),"
    yield from (f"    {end}_dims={_dims_text(dims)}," for end, dims in (("warp", tiling.warps), ("lane", tiling.lanes)))
    yield from (f"    vector_dim={tiling.vector},", ")")


def _dims_text(numbers_of_dims: MosaicDims) -> str:
    words = [str(dim) if dim < 0 else f"fa.Replicated({dim})" for dim in numbers_of_dims]
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"


def shape(cell: Cell) -> MosaicDims:
    """The sides of the matrix, after the number of products if a warp holds several."""
    fragment = cell.fragment
    return (*((fragment.products,) if fragment.products > 1 else ()), fragment.rows, fragment.cols)


def tiled_layout(cell: Cell) -> Tiled:
    """The TiledLayout; UsageError with the reason if there is none."""
    digits = _digits(cell)
    vector = next((digit for digit in digits["i"][:1] if digit.stride == 1), None)
    tiles = _tiles(shape(cell), _order(cell, digits, vector), vector)
    places = _places(tiles)
    dims = {
        owner: tuple(digit.size if digit.axis == COPIES else places[digit[1:]] for digit in reversed(own))
        for owner, own in digits.items()
        if owner != "i"
    }
    return Tiled(tiles, dims["warp"] or (WARPS,), dims["lane"], places[vector[1:]] if vector else -1)


def _digits(cell: Cell) -> dict[str, list[Digit]]:
    """The digits of i, lane and warp, lowest first; UsageError if a bit is not exactly one bit of one axis."""
    if cell.fragment.threads not in (WARP, WARP * WARPS):
        raise _refusal(cell, f"it is held by {cell.fragment.threads} threads, not by a warp or a warpgroup.")
    linear = layout(cell)
    bases = {"i": linear.bases["i"], "lane": linear.bases["lane"][:LANE_BITS], "warp": linear.bases["lane"][LANE_BITS:]}
    digits = {
        owner: _join([_digit(cell, owner, b, base) for b, base in enumerate(own)]) for owner, own in bases.items()
    }
    # the digits of i, the last one only as long as there are elements: N = 24 has three blocks of 8 columns
    rest = math.prod(digit.size for digit in digits["i"][:-1])
    if cell.fragment.elements % rest:
        raise _refusal(cell, f"{cell.fragment.elements} elements per lane are not a product of the digits of i.")
    last = [digit._replace(size=cell.fragment.elements // rest) for digit in digits["i"][-1:]]
    digits["i"] = [*digits["i"][:-1], *last]
    led = [(d.axis, d.stride) for own in digits.values() for d in own if d.axis != COPIES]
    if len(set(led)) < len(led):
        raise _refusal(cell, "a bit of row or col is the XOR of two bits of lane and i.")
    return digits


def _digit(cell: Cell, owner: str, bit: int, steps_by_axis: dict[str, int]) -> Digit:
    names = [name for name in AXES if name != "product" or cell.fragment.products > 1]
    moved = [(number, steps_by_axis[name]) for number, name in enumerate(names) if steps_by_axis[name]]
    if owner == "i" and not moved:
        raise _refusal(cell, f"bit {bit} of i leads to copies within the lane, which no dimension of a tile expresses.")
    if len(moved) > 1 or any(step & (step - 1) for _, step in moved):
        raise _refusal(cell, f"bit {bit} of {owner} moves {' and '.join(f'{names[a]} by {by}' for a, by in moved)}.")
    return Digit(owner, *(moved[0] if moved else (COPIES, 0)), 2)


def _join(digits: Sequence[Digit]) -> list[Digit]:
    """Digits, with neighbours merged if they are neighbours on their axis too, or both copies."""
    merged: list[Digit] = []
    for bit in digits:
        last = merged[-1] if merged else None
        if last and last.axis == bit.axis and (bit.axis == COPIES or bit.stride == last.stride * last.size):
            merged[-1] = last._replace(size=last.size * bit.size)
        else:
            merged.append(bit)
    return merged


def _order(cell: Cell, digits: dict[str, list[Digit]], vector: Digit | None) -> list[Digit]:
    """All digits in the order of tiling: that of i without its vector, highest first."""
    every = [d for own in digits.values() for d in own if d.axis != COPIES]
    axes = [sorted((d for d in every if d.axis == axis), key=lambda d: d.stride) for axis in range(len(shape(cell)))]
    order: list[Digit] = []
    for digit in reversed([d for d in digits["i"] if d is not vector]):
        outer = axes[digit.axis]
        while digit in outer:
            order.append(outer.pop())
            if order[-1] is not digit and order[-1].owner == "i":
                raise _refusal(cell, "a higher bit of i is a lower bit of the same axis; registers count by tiles.")
    while any(axes):
        order += [axis.pop() for axis in axes if axis]
    return order


def _tiles(extent: MosaicDims, ordered_digits: Sequence[Digit], vector: Digit | None) -> tuple[MosaicDims, ...]:
    """The base tile, without the digits of i that come first; then the tile after each further step.

    As JAX requires, leading ones of a tile and tiles that split nothing go. Without a vector the last is one element.
    """
    # the digits of i outside the base tile, then those of each step: at most one of each axis, axes in order
    steps: list[list[Digit]] = [[]]
    for digit in ordered_digits:
        inside = len(steps) == 1 and (digit.owner != "i" or digit is vector)
        if inside or (steps[-1] and steps[-1][-1].axis >= digit.axis):
            steps.append([])
        steps[-1].append(digit)
    outside, *steps = steps
    rest = list(extent)
    tiles: list[MosaicDims] = []
    for step in (outside, *(steps if vector is None else steps[:-1])):
        for digit in step:
            rest[digit.axis] //= digit.size
        tile = _trim(tuple(rest)) if tiles else tuple(rest)
        if not tiles or tiles[-1][-len(tile) :] != tile:
            tiles.append(tile)
    return tuple(tiles)


def _trim(mosaic_dims: MosaicDims) -> MosaicDims:
    return mosaic_dims if len(mosaic_dims) == 1 or mosaic_dims[0] > 1 else _trim(mosaic_dims[1:])


def _places(tiles: Sequence[MosaicDims]) -> dict[tuple[int, int, int], int]:
    """The dimension, counted from the end, of each (axis, stride, size) inside the base tile."""
    dims = [(axis, 1, size) for axis, size in enumerate(tiles[0])]
    for tile in tiles[1:]:
        kept, split = dims[: -len(tile)], dims[-len(tile) :]
        dims = [
            *kept,
            *((axis, size, whole // size) for (axis, _, whole), size in zip(split, tile, strict=True)),
            *((axis, 1, size) for (axis, _, _), size in zip(split, tile, strict=True)),
        ]
    return {dim: number - len(dims) for number, dim in enumerate(dims)}


def _refusal(cell: Cell, why: str) -> UsageError:
    return UsageError(f"{cell.fragment.id} on {cell.arch} is not a TiledLayout: {why}")
