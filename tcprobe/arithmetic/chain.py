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
from tcprobe.layout.arrays import Array, Floats

SUBNORMAL = -1022  # the exponent, as frexp has it, of the largest subnormal numbers
NOTHING = -(1 << 20)
FAR = 300  # with exponents this far apart, the smaller term is below every digit of the larger
SPLIT = 2.0**27 + 1
ORDINARY = 2.0**200  # between its reciprocal and it, products and their rounding errors are normal numbers


def fused(arithmetic: Arithmetic, a: Array, b: Array, c: Array) -> Array:
    """D's bits: from C on, product by product, in the order of the groups."""
    first, second, sum_ = (np.ascontiguousarray(part, np.uint64).view(np.float64) for part in (a, b, c))
    for k in (k for group in arithmetic.groups for k in group):
        sum_ = fma(first[..., k], second[..., k], sum_)
    bits = np.ascontiguousarray(sum_).view(np.uint64)
    return np.where(np.isnan(sum_), np.uint64(int(arithmetic.nan or "0x7fffffffffffffff", 16)), bits)


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """a x b + c, rounded once to nearest even."""
    if all(map(_ordinary, (a, b, c))):
        top, small = _apart(a, b, c)
        nearest = top + small
        return np.where(nearest == 0, a * b + c, nearest)
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        special = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)  # for any finite product
        (nearest, odd), scale = _scaled(*(np.where(finite, x, 0.0) for x in (a, b, c)))
        exponent = np.frexp(nearest)[1] + scale
        result = np.where(finite, np.ldexp(np.where(exponent < SUBNORMAL, odd, nearest), scale), special)
    edge = finite & (nearest != 0) & (exponent >= SUBNORMAL) & (exponent <= SUBNORMAL + 1)
    for at in zip(*np.nonzero(edge), strict=True):
        result[at] = _exact(float(a[at]), float(b[at]), float(c[at]))
    return result


def _ordinary(x: Floats) -> bool:
    """Whether no number is so large or small that it must be scaled."""
    size = abs(x)
    return bool(((size < ORDINARY) & ((size > 1 / ORDINARY) | (size == 0))).all())


def _apart(a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats]:
    """a x b + c as two numbers, the second rounded to odd, so that their sum is rounded once."""
    high, low = _product(a, b)
    first, first_rest = _sum(c, low)
    top, top_rest = _sum(high, first)
    return top, _odd(*_sum(top_rest, first_rest))


def _scaled(a: Floats, b: Floats, c: Floats) -> tuple[tuple[Floats, Floats], NDArray[np.int32]]:
    """(a x b + c as a number near one, rounded to nearest and to odd; its exponent). A far smaller term decides the
    rounding.
    """
    (first, one), (second, two), (own, three) = (np.frexp(x) for x in (a, b, c))
    product = np.where((a == 0) | (b == 0), NOTHING, one + two)
    scale = np.maximum(product, np.where(c == 0, NOTHING, three))
    scale = np.where(scale == NOTHING, 0, scale).astype(np.int32)
    below = np.where(product == NOTHING, 0, np.maximum(one + two - scale, -FAR))
    return _fma(first, np.ldexp(second, below), np.ldexp(own, np.maximum(three - scale, -FAR))), scale


def _fma(a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats]:
    """(rounded to nearest even, rounded to odd); a second rounding of the latter to fewer bits is correct."""
    top, small = _apart(a, b, c)
    nearest = top + small
    zero = (a * b == 0) & (c == 0)
    return np.where(zero, a * b + c, nearest), np.where(zero, a * b + c, _odd(*_sum(top, small)))


def _odd(total: Floats, rest: Floats) -> Floats:
    """total + rest, rounded to odd."""
    even = total.view(np.int64) & 1 == 0
    outward = (rest > 0) == (total > 0)
    return np.where((rest != 0) & even, np.nextafter(total, np.where(outward, total * 2, 0.0)), total)


def _sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum, and the error of its rounding (Knuth)."""
    sum_ = a + b
    other = sum_ - a
    return sum_, (a - (sum_ - other)) + (b - other)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The product, and the error of its rounding (Dekker)."""
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    product = a * b
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(x: Floats) -> tuple[Floats, Floats]:
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c if not a * b and not c else 0.0
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
