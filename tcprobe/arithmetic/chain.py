"""A chain of fused multiply-adds in f64, each rounded once to nearest even: exact in NumPy.

Terms are scaled to the larger one. Product and sum are split without error, and combined by rounding to odd (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums", 2008). Results next to subnormal numbers are computed with
Python's integers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.layout.arrays import Bits, Floats

SUBNORMAL = -1022  # the exponent, as frexp has it, of the largest subnormal numbers
NOTHING = -(1 << 20)
FAR = 300  # with exponents this far apart, the smaller term is below every digit of the larger
SPLIT = 2.0**27 + 1
ORDINARY = 2.0**200  # between its reciprocal and it, products and their rounding errors are normal numbers


def fused(arithmetic: Arithmetic, a_bits: Bits, b_bits: Bits, c_bits: Bits) -> Bits:
    """D's bits: from C on, product by product, in the order of the groups."""
    first, second, sum_ = (np.ascontiguousarray(part, np.uint64).view(np.float64) for part in (a_bits, b_bits, c_bits))
    for k in (k for group in arithmetic.groups for k in group):
        sum_ = fma(first[..., k], second[..., k], sum_)
    bits = np.ascontiguousarray(sum_).view(np.uint64)
    return np.where(np.isnan(sum_), np.uint64(int(arithmetic.nan or "0x7fffffffffffffff", 16)), bits)


def fma(x: Floats, y: Floats, z: Floats) -> Floats:
    """x * y + z, rounded once to nearest even."""
    if all(map(_ordinary, (x, y, z))):
        top, small = _apart(x, y, z)
        nearest = top + small
        return np.where(nearest == 0, x * y + z, nearest)
    x, y, z = np.broadcast_arrays(x, y, z)
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
        special = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, x * y + z)  # for any finite product
        (nearest, odd), scale = _scaled(*(np.where(finite, term, 0.0) for term in (x, y, z)))
        exponent = np.frexp(nearest)[1] + scale
        result = np.where(finite, np.ldexp(np.where(exponent < SUBNORMAL, odd, nearest), scale), special)
    edge = finite & (nearest != 0) & (exponent >= SUBNORMAL) & (exponent <= SUBNORMAL + 1)
    for at in zip(*np.nonzero(edge), strict=True):
        result[at] = _exact(float(x[at]), float(y[at]), float(z[at]))
    return result


def _ordinary(x: Floats) -> bool:
    """Whether no number is so large or small that it must be scaled."""
    size = abs(x)
    return bool(((size < ORDINARY) & ((size > 1 / ORDINARY) | (size == 0))).all())


def _apart(x: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """x * y + z as two numbers, the second rounded to odd, so that their sum is rounded once."""
    high, low = _product(x, y)
    first, first_rest = _sum(z, low)
    top, top_rest = _sum(high, first)
    return top, _odd(*_sum(top_rest, first_rest))


def _scaled(x: Floats, y: Floats, z: Floats) -> tuple[tuple[Floats, Floats], NDArray[np.int32]]:
    """(x * y + z as a number near one, rounded to nearest and to odd; its exponent). A far smaller term decides the
    rounding.
    """
    (first, one), (second, two), (own, three) = (np.frexp(term) for term in (x, y, z))
    product = np.where((x == 0) | (y == 0), NOTHING, one + two)
    scale = np.maximum(product, np.where(z == 0, NOTHING, three))
    scale = np.where(scale == NOTHING, 0, scale).astype(np.int32)
    below = np.where(product == NOTHING, 0, np.maximum(one + two - scale, -FAR))
    return _fma(first, np.ldexp(second, below), np.ldexp(own, np.maximum(three - scale, -FAR))), scale


def _fma(x: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """(rounded to nearest even, rounded to odd); a second rounding of the latter to fewer bits is correct."""
    top, small = _apart(x, y, z)
    nearest = top + small
    zero = (x * y == 0) & (z == 0)
    return np.where(zero, x * y + z, nearest), np.where(zero, x * y + z, _odd(*_sum(top, small)))


def _odd(total: Floats, rest: Floats) -> Floats:
    """total + rest, rounded to odd."""
    even = total.view(np.int64) & 1 == 0
    outward = (rest > 0) == (total > 0)
    return np.where((rest != 0) & even, np.nextafter(total, np.where(outward, total * 2, 0.0)), total)


def _sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The sum, and the error of its rounding (Knuth)."""
    sum_ = x + y
    other = sum_ - x
    return sum_, (x - (sum_ - other)) + (y - other)


def _product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The product, and the error of its rounding (Dekker)."""
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    product = x * y
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _halves(x: Floats) -> tuple[Floats, Floats]:
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _exact(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z if not x * y and not z else 0.0
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
