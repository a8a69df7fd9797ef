"""A chain of fused multiply-adds in f64, one rounding to nearest even each: exact in NumPy.

Where all exponents are moderate, the product and the sum are taken apart without error and put together by rounding
to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008); else by Python's whole numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.parameters import Arithmetic

Floats = NDArray[np.float64]
MODERATE = 2.0**300
SPLIT = 2.0**27 + 1


def fused(rule: Arithmetic, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """D's bits: from C on, product after product in the order of the groups."""
    first, second, sum_ = (np.ascontiguousarray(part, np.uint64).view(np.float64) for part in (a, b, c))
    for k in (k for group in rule.groups for k in group):
        sum_ = fma(first[..., k], second[..., k], sum_)
    bits = np.ascontiguousarray(sum_).view(np.uint64)
    return np.where(np.isnan(sum_), np.uint64(int(rule.nan or "0x7fffffffffffffff", 16)), bits)


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """a x b + c with one rounding to nearest even."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        simple = _moderate(a) & _moderate(b) & _moderate(c)
        result = np.array(np.where(simple, _fma(*(np.where(simple, x, 0.0) for x in (a, b, c))), a * b + c))
        result = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, result)  # however large the product
    for at in zip(*np.nonzero(~simple & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)), strict=True):
        result[at] = _exact(float(a[at]), float(b[at]), float(c[at]))
    return result


def _moderate(x: Floats) -> NDArray[np.bool_]:
    size = abs(x)
    moderate: NDArray[np.bool_] = (x == 0) | ((size < MODERATE) & (size > 1 / MODERATE))
    return moderate


def _fma(a: Floats, b: Floats, c: Floats) -> Floats:
    high, low = _product(a, b)
    first, first_rest = _sum(c, low)
    top, top_rest = _sum(high, first)
    small, error = _sum(top_rest, first_rest)
    even = small.view(np.int64) & 1 == 0
    outward = (error > 0) == (small > 0)
    small = np.where((error != 0) & even, np.nextafter(small, np.where(outward, small * 2, 0.0)), small)
    exact = top + small
    return np.where((exact == 0) & (a * b == 0) & (c == 0), a * b + c, exact)


def _sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum and what rounding took from it (Knuth)."""
    sum_ = a + b
    other = sum_ - a
    return sum_, (a - (sum_ - other)) + (b - other)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The product and what rounding took from it (Dekker)."""
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
