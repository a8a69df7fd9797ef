"""Products of whole matrices: of integers, of floats, and how far a dot product of floats can be from the exact one.

Sums of integers and bits are exact; results beyond 32 bits wrap or are clamped. Of floats every sum cuts n products
and C below 2^-F of the largest, and rounds the result by a relative error of u: together at most e = (1 + (n + 1)
2^-F) (1 + u) - 1 of |C| and all |products|. After s sums, one after another,

    |D - exact| <= ((1 + e)^s - 1) x (|C| + sum of |a x b|)

if no factor is subnormal and nothing is below D's least exponent or above its largest number.

A product of floats has any size, each dot product in the instruction's k, one multiply after another.

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
from fractions import Fraction
from itertools import product

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import OperandBits
from tcprobe.arithmetic.model import CACHED, factor, multiplied, separate
from tcprobe.arithmetic.parameters import AFTER, BEFORE, TOWARD_ZERO, Arithmetic, ElementTypes, Integers
from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Bits, Ints

LEAST, MOST = -(1 << 31), (1 << 31) - 1


def integers_of(kind: str, bit_patterns: Bits) -> Ints:
    """Bits as integers."""
    width = dtype(kind).bits
    whole = bit_patterns.astype(np.int64) & (1 << width) - 1
    return whole - ((whole >> width - 1) << width) if kind.startswith("s") else whole


def multiplied_integers(
    types: ElementTypes, rule: Integers, abc: tuple[Ints, Ints, Ints], satfinite: bool = False
) -> Ints:
    """D of numbers: A (..., m, k), B (..., n, k), C (..., m, n); for b1, the number of bits set in a ^ b or a & b."""
    a, b, c = abc
    products = np.matmul(a.astype(np.float64), b.swapaxes(-1, -2).astype(np.float64)).astype(np.int64)  # exact
    if types.bit_op == "xor":
        products = a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - 2 * products
    total = products + c
    if (rule.satfinite if satfinite else rule.overflow) == "clamps":
        clamped: Ints = np.clip(total, LEAST, MOST)
        return clamped
    wrapped: Ints = (total - LEAST & 0xFFFFFFFF) + LEAST
    return wrapped


def error_bound(types: ElementTypes, arithmetic: Arithmetic, length: int, parts: int = 1) -> Fraction:
    """The factor of |C| + sum of |a x b| for `length` products; k is cut into `parts`, whose sums are added in D's
    type.
    """
    depth = arithmetic.products
    if length <= 0 or parts <= 0 or length % (depth * parts):
        raise UsageError(f"{length} products in {parts} parts: a part has a multiple of {depth}.")
    factor = growth(types, arithmetic) ** (length // depth // parts) * (1 + _addition_error(types)) ** (parts - 1)
    return factor - 1


def growth(types: ElementTypes, arithmetic: Arithmetic) -> Fraction:
    """1 + e of one multiply, over all its sums."""
    own = _rounding_error(arithmetic.result_bits, arithmetic.rounding)
    unit = _rounding_error(FORMATS["f32"].fraction, arithmetic.through_f32) if arithmetic.through_f32 else own
    factor = 1 + own if arithmetic.through_f32 else Fraction(1)
    for group in arithmetic.groups:
        cut = 0 if arithmetic.fraction_bits is None else Fraction(len(group) + 1, 1 << arithmetic.fraction_bits)
        factor *= (1 + cut) * (1 + unit) ** (len(group) + 1 if arithmetic.c == BEFORE else 1)
    return factor * (1 + _addition_error(types)) if arithmetic.c == AFTER else factor


def _rounding_error(bits: int, rounding: str) -> Fraction:
    """The relative error of rounding to so many bits."""
    return Fraction(1, 1 << bits + (rounding != TOWARD_ZERO))


def _addition_error(types: ElementTypes) -> Fraction:
    """The relative error of one addition in D's type, to nearest even."""
    return Fraction(1, 1 << FORMATS[types.d].fraction + 1)


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
