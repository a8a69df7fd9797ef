"""How far a dot product can be from the exact one.

Every sum cuts n products and C below 2^-F of the largest, and rounds the result by a relative error of u: together at
most e = (1 + (n + 1) 2^-F) (1 + u) - 1 of |C| and all |products|. After s sums, one after another,

    |D - exact| <= ((1 + e)^s - 1) x (|C| + sum of |a x b|)

if no factor is subnormal and nothing is below D's least exponent or above its largest number.
"""

from __future__ import annotations

from fractions import Fraction

from tcprobe.arithmetic.formats import FORMATS
from tcprobe.arithmetic.parameters import AFTER, BEFORE, TOWARD_ZERO, Arithmetic, ElementTypes
from tcprobe.errors import UsageError


def bound(types: ElementTypes, arithmetic: Arithmetic, length: int, parts: int = 1) -> Fraction:
    """The factor of |C| + sum of |a x b| for `length` products; k is cut into `parts`, whose sums are added in D's
    type.
    """
    depth = arithmetic.products
    if length <= 0 or parts <= 0 or length % (depth * parts):
        raise UsageError(f"{length} products in {parts} parts: a part has a multiple of {depth}.")
    factor = _multiply(types, arithmetic) ** (length // depth // parts) * (1 + _added(types)) ** (parts - 1)
    return factor - 1


def _multiply(types: ElementTypes, arithmetic: Arithmetic) -> Fraction:
    """1 + e of one multiply, over all its sums."""
    own = _unit(arithmetic.result_bits, arithmetic.rounding)
    unit = _unit(FORMATS["f32"].fraction, arithmetic.through_f32) if arithmetic.through_f32 else own
    factor = 1 + own if arithmetic.through_f32 else Fraction(1)
    for group in arithmetic.groups:
        cut = 0 if arithmetic.fraction_bits is None else Fraction(len(group) + 1, 1 << arithmetic.fraction_bits)
        factor *= (1 + cut) * (1 + unit) ** (len(group) + 1 if arithmetic.c == BEFORE else 1)
    return factor * (1 + _added(types)) if arithmetic.c == AFTER else factor


def _unit(bits: int, rounding: str) -> Fraction:
    """The relative error of rounding to so many bits."""
    return Fraction(1, 1 << bits + (rounding != TOWARD_ZERO))


def _added(types: ElementTypes) -> Fraction:
    """The relative error of one addition in D's type, to nearest even."""
    return Fraction(1, 1 << FORMATS[types.d].fraction + 1)
