"""Linear algebra over GF(2): vectors are integers, addition is XOR.

>>> from tcprobe.layout.gf2 import solve
>>> solve([(0b01, 0b110), (0b11, 0b101)], 2)
(6, 3)
>>> span((6, 3))
[0, 6, 3, 5]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def solve(points: Iterable[tuple[int, int]], bits: int) -> tuple[int, ...] | None:
    """The images of the `bits` unit vectors under a linear map through all (input, output) points; None if there is
    none.

    Unit vectors that the inputs do not determine get image 0.
    """
    pivots: dict[int, tuple[int, int]] = {}  # highest bit -> (input, output), reduced
    for vector, image in points:
        vector, image = _reduce(pivots, vector, image)  # noqa: PLW2901
        if vector:
            pivots[vector.bit_length() - 1] = (vector, image)
        elif image:
            return None
    return _back_substitute(pivots, bits)


def _reduce(pivots: dict[int, tuple[int, int]], vector: int, image: int) -> tuple[int, int]:
    for bit in range(vector.bit_length() - 1, -1, -1):
        if vector >> bit & 1 and bit in pivots:
            vector ^= pivots[bit][0]
            image ^= pivots[bit][1]
    return vector, image


def _back_substitute(pivots: dict[int, tuple[int, int]], bits: int) -> tuple[int, ...]:
    images = [0] * bits
    for bit in range(bits):
        if bit in pivots:
            vector, image = pivots[bit]
            for lower in range(bit):
                if vector >> lower & 1:
                    image ^= images[lower]
            images[bit] = image
    return tuple(images)


def span(images: Sequence[int]) -> list[int]:
    """The images of 0, 1, ..., 2**len(images) - 1."""
    values = [0]
    for image in images:
        values += [value ^ image for value in values]
    return values


def preimages(images: Sequence[int], value: int) -> list[int]:
    """All inputs that the linear map sends to `value`, ascending."""
    pivots: dict[int, tuple[int, int]] = {}
    kernel = []
    for bit, image in enumerate(images):
        rest, combination = _reduce(pivots, image, 1 << bit)
        if rest:
            pivots[rest.bit_length() - 1] = (rest, combination)
        else:
            kernel.append(combination)
    rest, combination = _reduce(pivots, value, 0)
    return [] if rest else sorted(combination ^ other for other in span(kernel))
