"""A product of matrices of any size, each dot product in the instruction's k, one multiply after another.

>>> import numpy as np
>>> from tcprobe.arithmetic.gemm import gemm
>>> from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, chained
>>> types, rule = ElementTypes("f16", "f16", "f32", "f32"), Arithmetic(chained(4, 4), 25, 23, "toward zero")
>>> ones = np.full((2, 8), 0x3C00, np.uint16)
>>> gemm(types, rule, (ones, ones.T, np.zeros((2, 2), np.uint32))).view(np.float32).tolist()
[[8.0, 8.0], [8.0, 8.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from tcprobe.arithmetic.formats import FORMATS, OperandBits
from tcprobe.arithmetic.model import CACHED, factor, multiplied, separate
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Bits


def gemm(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    """D's bits; A is m x k, B k x n, C m x n, as bits; k must be a multiple of the instruction's.

    D of one multiply is C of the next, as in a kernel without split k.
    """
    a, b, c = abc
    depth = arithmetic.products
    if a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]) or a.shape[1] % depth:
        raise UsageError(f"A {a.shape}, B {b.shape}, C {c.shape} are not a product whose k is a multiple of {depth}.")
    if arithmetic.fraction_bits is None:
        return _separate(types, arithmetic, abc)
    first, second = factor("a", types.a, arithmetic, a), factor("b", types.b, arithmetic, np.ascontiguousarray(b.T))
    d = np.array(c, FORMATS[types.c].word)
    for at in range(0, a.shape[1], depth):
        part = (..., slice(at, at + depth))
        then = types if at == 0 else ElementTypes(types.a, types.b, types.d, types.d)
        result = np.empty(c.shape, FORMATS[types.d].word)
        for rows, cols in _tiles(c.shape, depth):
            factors = first.at(part).at((rows, None)), second.at(part).at((None, cols))
            result[rows, cols] = multiplied(then, arithmetic, factors, d[rows, cols])
        d = result
    return d


def _tiles(shape: Sequence[int], depth: int) -> list[tuple[slice, slice]]:
    """Rows and columns of tiles that fit the CPU's cache."""
    cols = max(1, min(shape[1], CACHED // depth // 16))
    rows = max(1, CACHED // depth // cols)
    starts = product(range(0, shape[0], rows), range(0, shape[1], cols))
    return [(slice(row, row + rows), slice(col, col + cols)) for row, col in starts]


def _separate(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    a, b, c = abc
    made = np.empty(c.shape, FORMATS[types.d].word)
    for rows, cols in _tiles(c.shape, 1):
        then, d = types, c[rows, cols]
        for at in range(0, a.shape[1], arithmetic.products):
            part = slice(at, at + arithmetic.products)
            d = separate(then, arithmetic, (a[rows, None, part], b.T[None, cols, part], d))
            then = ElementTypes(types.a, types.b, types.d, types.d)
        made[rows, cols] = d
    return made
