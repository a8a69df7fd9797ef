"""C++ types for CuTe (CUTLASS): the layout of (lane, i) as shape:stride.

A layout maps (thread, value), each in colexicographic order, to m + M * k for A, n + N * k for B and m + M * n for C
and D, as the traits of CuTe's MMA atoms do. Further products of a warp follow, each M * N (and so on) further on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tcprobe.emit.common import cell_identifier, formulas, heading, layout, require_every_lane
from tcprobe.errors import UsageError
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "C++ Layout types for CuTe, and shape:stride"
CONVENTION = (
    "(lane, i) -> m + M * k for A, n + N * k for B, m + M * n for C and D; copies of an element have stride 0;",
    "of a sparse multiply k of A and of its metadata E is the stored column;",
    "the products of a warp that has several follow each other; row + rows * col for a matrix that is only moved",
)
ROLES = (Role.METADATA,)
CuteModes = tuple[tuple[int, ...], tuple[int, ...]]  # of lane and of i


def emit(cells: Sequence[Cell]) -> str:
    """A type for each table."""
    lines = [*heading(cells, "//"), *(f"// {line}" for line in CONVENTION), "#pragma once", ""]
    lines += ["#include <cute/layout.hpp>", "", "namespace tcprobe {", ""]
    for cell in cells:
        shape, stride = thread_value(cell)
        lines += [f"// {mode_text(shape)}:{mode_text(stride)}", layout_code(cell), ""]
    return "\n".join([*lines, "}  // namespace tcprobe"])


def layout_code(cell: Cell) -> str:
    """The type, under the fragment's name."""
    shape, stride = thread_value(cell)
    return f"using {cell_identifier(cell)} = cute::Layout<{_type('Shape', shape)}, {_type('Stride', stride)}>;"


def thread_value(cell: Cell) -> tuple[CuteModes, CuteModes]:
    """(shape, stride), each of lane and i; UsageError unless the map is a sum of strides and all lanes are read."""
    require_every_lane(cell)
    linear = layout(cell)
    crossed = [f"{name} = {formula}" for name, formula in formulas(cell).items() if formula.overlapping]
    if crossed:
        why = f"needs XOR, and strides only add: {'; '.join(crossed)}"
        raise UsageError(f"{cell.fragment.id} on {cell.arch} {why}.")
    modes = [
        _merge([_number(cell.fragment, base) for base in linear.bases[axis.name]], axis.size)
        for axis in linear.space.axes
    ]
    if math.prod(modes[1][0]) != linear.elements:
        raise UsageError(f"{cell.fragment.id} holds {linear.elements} elements per lane, which no modes describe.")
    return (modes[0][0], modes[1][0]), (modes[0][1], modes[1][1])


def _number(fragment: Fragment, coordinates: dict[str, int]) -> int:
    """CuTe's number of an element."""
    row, col, product = coordinates["row"], coordinates["col"], coordinates.get("product", 0)
    size = fragment.rows * fragment.cols
    inner = col + fragment.cols * row if fragment.operand == "b" else row + fragment.rows * col
    return inner + size * product


def _merge(strides: list[int], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Modes of size 2 as (sizes, strides); modes whose strides double are merged, and the last covers `count`."""
    modes: list[list[int]] = []
    for stride in strides:
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1][0] *= 2
        else:
            modes.append([2, stride])
    modes = modes or [[1, 0]]
    modes[-1][0] = -(-count // math.prod(size for size, _ in modes[:-1]))
    return tuple(size for size, _ in modes), tuple(stride for _, stride in modes)


def mode_text(modes: CuteModes) -> str:
    """Modes as CuTe prints them: ((4, 8), 2)."""
    return "(" + ", ".join(str(mode[0] if len(mode) == 1 else mode) for mode in modes) + ")"


def _type(kind: str, modes: CuteModes) -> str:
    inner = [", ".join(f"cute::Int<{size}>" for size in mode) for mode in modes]
    nested = [text if len(mode) == 1 else f"cute::{kind}<{text}>" for text, mode in zip(inner, modes, strict=True)]
    return f"cute::{kind}<{', '.join(nested)}>"
