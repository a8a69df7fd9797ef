"""The way of any element through a kernel, for the script: words with numbers that follow from its row, column and k.

What `kernel gemm --explain` says of two elements of one tile has the same words and other numbers. Each is an XOR or
a sum of numbers that belong to the bits of (row, col, k) in the tile. Which these are follows from the answers for one
bit each, and is proven on a sample of elements. What lies outside the tile (lines of global memory, the stage, the
tile's first k) is said by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from operator import xor
from typing import TYPE_CHECKING

from tcprobe.isa.dtypes import dtype
from tcprobe.kernel.explain import explained
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

Part = str | Json  # words, or how a number is made
At = tuple[int, int, int]  # row of A and D, column of B and D, k
SAMPLED = (0, 1, 3, 6, 13, 27, 52, 105, 211)  # numbers of a sample, each within the tile
AXES = {"a": "rk", "b": "ck", "d": "rc"}
_NUMBER = re.compile(r"\d+")
_STAGE, _FIRST_K = re.compile(r"\bstage \d+"), re.compile(r"\bat k \d+")


def ways(kernel: GemmKernel) -> Json:
    """By operand the steps, each a list of texts and numbers, and what the numbers of an address outside need."""
    asked = kernel.asked
    bits = {"a": dtype(asked.type).bits, "b": dtype(asked.type).bits, "d": dtype(asked.out).bits}
    lines = {"a": asked.a, "b": asked.b, "d": "row"}
    return {
        "tile": list(asked.tile),
        "stages": asked.stages,
        "ways": {
            operand: {"bytes": bits[operand] // 8, "lines": lines[operand], "steps": _steps(kernel, number, asked.tile)}
            for number, operand in enumerate("abd")
        },
    }


def _steps(kernel: GemmKernel, number: int, corner: At) -> list[list[Part]]:
    """The steps of A, B or D: of each its parts."""

    def said(element: At) -> list[str]:
        return list(explained(kernel, element)[number]["steps"])

    axes = AXES["abd"[number]]
    sides = [side if axis in axes else 1 for axis, side in zip("rck", corner, strict=True)]
    points = sorted({(row % sides[0], col % sides[1], k % sides[2]) for row, col, k in _sample()})
    return [_step(partial(_nth, said, step), sides, points) for step in range(len(said((0, 0, 0))))]


def _nth(words_at: Callable[[At], list[str]], number: int, element: At) -> str:
    return words_at(element)[number]


def _sample() -> list[At]:
    return [*product(SAMPLED[::2], SAMPLED[1::2], SAMPLED[::3])]


def _step(words_of: Callable[[At], str], tile_sides: Sequence[int], places_seen: Sequence[At]) -> list[Part]:
    if words_of((0, 0, 0)).startswith("global: "):
        return [{"global": words_of((0, 0, 0))[len("global: ")]}]
    texts = _NUMBER.split(_outside(words_of((0, 0, 0))))
    spoken = [_outside(words_of(at)) for at in places_seen]
    if any(_NUMBER.split(words) != texts for words in spoken):
        raise ValueError(f"elements whose ways differ in more than numbers: {spoken[0]}")
    numbers = [_numbers(words) for words in spoken]
    images = [
        [_numbers(_outside(words_of(_one(axis, bit)))) for bit in range(side.bit_length() - 1)]
        for axis, side in enumerate(tile_sides)
    ]
    zero = _numbers(_outside(words_of((0, 0, 0))))
    parts: list[Part] = [texts[0]]
    for place, after in enumerate(texts[1:]):
        column = [[image[place] for image in of] for of in images]
        parts += [_number(zero[place], column, places_seen, [at[place] for at in numbers]), after]
    return _joined(parts)


def _outside(words: str) -> str:
    """Words without the numbers that the tile's own place gives."""
    return _FIRST_K.sub("at k {k}", _STAGE.sub("stage {stage}", words))


def _numbers(words: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(words)]


def _one(axis: int, bit: int) -> At:
    at = [0, 0, 0]
    at[axis] = 1 << bit
    return at[0], at[1], at[2]


def _number(zero: int, bit_images: list[list[int]], places_seen: Sequence[At], expected: list[int]) -> Part:
    """How a number follows from an element's place; ValueError where neither way gives what is expected."""
    by_xor = [[image ^ zero for image in of] for of in bit_images]
    by_sum = [[image - zero for image in of] for of in bit_images]
    for op, of in (("xor", by_xor), ("sum", by_sum)):
        if [value(op, zero, of, at) for at in places_seen] == expected:
            return str(zero) if not any(map(any, of)) else {"op": op, "zero": zero, "images": of}
    raise ValueError(f"a number that is neither a sum nor an XOR of bits: {expected[:8]}")


def value(op: str, zero: int, bit_images: Sequence[Sequence[int]], coordinates: Sequence[int]) -> int:
    """The number of an element of the tile."""
    chosen = [
        image
        for of, place in zip(bit_images, coordinates, strict=True)
        for bit, image in enumerate(of)
        if place >> bit & 1
    ]
    return reduce(xor, chosen, zero) if op == "xor" else sum(chosen, zero)


def _joined(pieces: Sequence[Part]) -> list[Part]:
    """Texts that follow each other as one."""
    found: list[Part] = []
    for part in pieces:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return found
