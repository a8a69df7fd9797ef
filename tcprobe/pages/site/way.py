"""The way of any element through a kernel, for the script: words with numbers that follow from its row, column and k.

What `kernel gemm --explain` says of two elements of one tile has the same words and other numbers. Each is an XOR or
a sum of numbers that belong to the bits of (row, col, k) in the tile. Which these are follows from the answers for one
bit each, and is proven on a sample of elements. What lies outside the tile (lines of global memory, the stage, the
tile's first k) is step_texts by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from operator import xor
from typing import TYPE_CHECKING

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.kernel.explain import RowColK, explain
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

WayPart = str | Json  # words, or how a number is made
SAMPLED = (0, 1, 3, 6, 13, 27, 52, 105, 211)  # numbers of a sample, each within the tile
AXES = {"a": "rk", "b": "ck", "d": "rc"}
_NUMBER = re.compile(r"[0-9]+")
_STAGE, _FIRST_K = re.compile(r"\bstage [0-9]+"), re.compile(r"\bat k [0-9]+")


def ways(kernel: GemmKernel) -> Json:
    """For the script: the tile, the stages, and of each operand the steps, as texts and rules for their numbers."""
    gemm = kernel.gemm
    bits = {"a": dtype(gemm.type).bits, "b": dtype(gemm.type).bits, "d": dtype(gemm.out).bits}
    lines = {"a": gemm.a, "b": gemm.b, "d": "row"}
    return {
        "tile": list(gemm.tile),
        "stages": gemm.stages,
        "ways": {
            operand: {"bytes": bits[operand] // 8, "lines": lines[operand], "steps": _steps(kernel, number, gemm.tile)}
            for number, operand in enumerate(MULTIPLIED)
        },
    }


def _steps(kernel: GemmKernel, number: int, corner: RowColK) -> list[list[WayPart]]:
    """The steps of A, B or D: of each its parts."""

    def step_texts(row_col_k: RowColK) -> list[str]:
        return list(explain(kernel, row_col_k)[number]["steps"])

    axes = AXES[MULTIPLIED[number]]
    sides = [side if axis in axes else 1 for axis, side in zip("rck", corner, strict=True)]
    points = sorted({(row % sides[0], col % sides[1], k % sides[2]) for row, col, k in _sample()})
    return [_step(partial(_nth, step_texts, step), sides, points) for step in range(len(step_texts((0, 0, 0))))]


def _nth(words_at: Callable[[RowColK], list[str]], number: int, row_col_k: RowColK) -> str:
    return words_at(row_col_k)[number]


def _sample() -> list[RowColK]:
    return [*product(SAMPLED[::2], SAMPLED[1::2], SAMPLED[::3])]


def _step(
    words_of: Callable[[RowColK], str], tile_sides: Sequence[int], places_seen: Sequence[RowColK]
) -> list[WayPart]:
    if words_of((0, 0, 0)).startswith("global: "):
        return [{"global": words_of((0, 0, 0))[len("global: ")]}]
    texts = _NUMBER.split(_outside(words_of((0, 0, 0))))
    texts_seen = [_outside(words_of(element)) for element in places_seen]
    if any(_NUMBER.split(words) != texts for words in texts_seen):
        raise ValueError(f"elements whose ways differ in more than numbers: {texts_seen[0]}")
    numbers = [_numbers(words) for words in texts_seen]
    images = [
        [_numbers(_outside(words_of(_unit_element(axis, bit)))) for bit in range(side.bit_length() - 1)]
        for axis, side in enumerate(tile_sides)
    ]
    zero = _numbers(_outside(words_of((0, 0, 0))))
    parts: list[WayPart] = [texts[0]]
    for place, after in enumerate(texts[1:]):
        column = [[image[place] for image in axis_images] for axis_images in images]
        parts += [_number(zero[place], column, places_seen, [text_numbers[place] for text_numbers in numbers]), after]
    return _join(parts)


def _outside(words: str) -> str:
    """Words without the numbers that the tile's own place gives."""
    return _FIRST_K.sub("at k {k}", _STAGE.sub("stage {stage}", words))


def _numbers(words: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(words)]


def _unit_element(axis: int, bit: int) -> RowColK:
    element = [0, 0, 0]
    element[axis] = 1 << bit
    return element[0], element[1], element[2]


def _number(zero: int, bit_images: list[list[int]], places_seen: Sequence[RowColK], expected: list[int]) -> WayPart:
    """How a number follows from an element's place; ValueError where neither way gives what is expected."""
    by_xor = [[image ^ zero for image in axis_images] for axis_images in bit_images]
    by_sum = [[image - zero for image in axis_images] for axis_images in bit_images]
    for op, axis_images in (("xor", by_xor), ("sum", by_sum)):
        if [value(op, zero, axis_images, place) for place in places_seen] == expected:
            return str(zero) if not any(map(any, axis_images)) else {"op": op, "zero": zero, "images": axis_images}
    raise ValueError(f"a number that is neither a sum nor an XOR of bits: {expected[:8]}")


def value(op: str, zero: int, bit_images: Sequence[Sequence[int]], coordinates: Sequence[int]) -> int:
    """The number of an element of the tile."""
    contributions = [
        image
        for axis_images, place in zip(bit_images, coordinates, strict=True)
        for bit, image in enumerate(axis_images)
        if place >> bit & 1
    ]
    return reduce(xor, contributions, zero) if op == "xor" else sum(contributions, zero)


def _join(pieces: Sequence[WayPart]) -> list[WayPart]:
    """Texts that follow each other as one."""
    joined: list[WayPart] = []
    for part in pieces:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined
