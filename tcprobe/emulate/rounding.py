"""Floats that are rounded as PTX rounds: one exact result, any format, any of the four directions.

A result is computed in f64 and *rounded to odd* where it does not fit, so that rounding it again is exact.

>>> import numpy as np
>>> up = narrow(np.array([1 + 2**-12]), "f16", "rp")
>>> up.tolist(), narrow(np.array([448.0, 500.0]), "e4m3").tolist()
([15361], [126, 126])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import values_of
from tcprobe.arithmetic.model import fma as fma_f64
from tcprobe.arithmetic.model import fma_parts, rounded_to_odd, two_sum

TOWARD = {"rz": np.trunc, "rm": np.floor, "rp": np.ceil}
DIRECTIONS = {"rn": np.rint, "rna": None, **TOWARD}
NAN = {  # what arithmetic gives; types without one take their largest number (CUDA Math API, cuda_fp6.h, cuda_fp4.h)
    "f16": 0x7FFF,
    "bf16": 0x7FFF,
    "f32": 0x7FFFFFFF,
    "tf32": 0x7FFFE000,
    "f64": 0xFFF8000000000000,
    "e4m3": 0x7F,
    "e5m2": 0x7F,
    "e3m2": 0x1F,
    "e2m3": 0x1F,
    "e2m1": 0x7,
}
WORDS: dict[str, Any] = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "tf32": np.uint32, "f64": np.uint64}
SATURATED = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def widen(bits: Any, kind: str) -> Any:
    """The values of bits, as f64."""
    word = WORDS.get(kind, np.uint8)
    return values_of(
        FORMATS[kind],
        np.asarray(bits).view(word)
        if np.asarray(bits).dtype.itemsize == np.dtype(word).itemsize
        else np.asarray(bits).astype(word),
    ).astype(np.float64)


def narrow(numbers: Any, kind: str, way: str = "rn", saturate: bool = False) -> Any:
    """The bits of numbers in a format: f64 that are exact, or rounded to odd.

    Types of 8 bits and below take the largest number for what is larger (.satfinite); `saturate`: others, too.
    """
    x = np.asarray(numbers, np.float64)
    if kind == "f64":
        return x.view(np.uint64)
    form = FORMATS[kind]
    if kind in ("f32", "f16") and way == "rn" and not saturate:  # NumPy's cast rounds once
        made = np.asarray(x.astype(form.numpy)).view(WORDS[kind])
        return np.where(np.isnan(x), WORDS[kind](NAN[kind]), made)
    fraction = 10 if kind == "tf32" else form.fraction
    exponent = np.maximum(np.frexp(np.where(np.isfinite(x), x, 1.0))[1] - 1, form.least)
    unit = exponent - fraction
    scaled = np.ldexp(x, -unit)
    away = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    direction = DIRECTIONS[way]
    whole = direction(scaled) if direction else away
    made = np.ldexp(whole, unit)
    largest = float(FORMATS["f32"].largest) if kind == "tf32" else form.largest
    if kind == "tf32":
        largest = (2 - 2.0**-10) * 2.0**127
    over = np.abs(made) > largest
    clamp = saturate or kind in SATURATED
    if way in ("rz", "rm", "rp") and not clamp:
        stays = over & np.isfinite(x) & ((way == "rz") | ((way == "rm") & (x > 0)) | ((way == "rp") & (x < 0)))
        made = np.where(stays, np.copysign(largest, x), made)
        over &= ~stays
    made = np.where(over, np.copysign(largest if clamp else np.inf, x), made)
    return _encoded(made, x, kind)


def _encoded(made: Any, x: Any, kind: str) -> Any:
    form, word = FORMATS[kind], WORDS.get(kind, np.uint8)
    nan = np.isnan(x)
    safe = np.where(nan, 0.0, made)
    if kind in ("f32", "tf32"):
        bits = safe.astype(np.float32).view(np.uint32)
    elif kind == "bf16":
        bits = (safe.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        bits = np.asarray(safe.astype(form.numpy)).view(word)
    return np.where(nan, word(NAN[kind]), bits).astype(word) if nan.any() else bits


def exact_sum(x: Any, y: Any) -> Any:
    """x + y of f64, rounded to odd."""
    total, rest = two_sum(np.asarray(x, np.float64), np.asarray(y, np.float64))
    return np.where(np.isfinite(total), rounded_to_odd(total, np.where(np.isfinite(rest), rest, 0.0)), total)


def exact_fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z of numbers whose product is exact in f64, rounded to odd."""
    return exact_sum(np.asarray(x, np.float64) * y, z)


def below_zero(exact: Any, way: str, x: Any, y: Any) -> Any:
    """A sum x + y; one that is exactly zero is negative toward minus infinity, unless both terms are +0 (IEEE 754)."""
    if way != "rm":
        return exact
    return np.where((exact == 0) & (np.signbit(x) | np.signbit(y)), -0.0, exact)


def fma64(x: Any, y: Any, z: Any, way: str = "rn") -> Any:
    """fma.f64."""
    x, y, z = (np.array(part, np.float64) for part in np.broadcast_arrays(x, y, z))
    near = fma_f64(x, y, z)
    if way == "rn":
        return near
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    top, rest, scale = fma_parts(*(np.where(finite, part, 0.0) for part in (x, y, z)))
    product = np.copysign(1.0, x) * np.copysign(1.0, y)
    alike = np.signbit(product) == np.signbit(z)
    zero = np.where(alike, np.copysign(0.0, z), -0.0 if way == "rm" else 0.0)
    return np.where(finite, np.where(top == 0, zero, directed(top, rest, scale, way)), near)


def quotient(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """x / y of numbers that are finite and not zero: as `fma_parts`; of the rest only the sign counts."""
    (first, one), (second, two) = np.frexp(x), np.frexp(y)
    near = first / second
    return near, fma_f64(-near, second, first) * np.sign(second), one - two


def root(x: Any) -> tuple[Any, Any, Any]:
    """The square root of positive finite numbers, likewise."""
    part, exponent = np.frexp(x)
    odd = exponent & 1
    part = np.ldexp(part, odd)
    near = np.sqrt(part)
    return near, fma_f64(-near, near, part), (exponent - odd) // 2


def directed(near: Any, rest: Any, scale: Any, way: str) -> Any:
    """(near + rest) * 2^scale as f64, rounded in a direction: `near` is near one and rounded to nearest."""
    toward = {"rm": -np.inf, "rp": np.inf}.get(way, 0.0)
    beyond = (rest < 0) if way == "rm" else (rest > 0) if way == "rp" else (rest != 0) & ((rest < 0) == (near > 0))
    made = np.ldexp(np.where(beyond, np.nextafter(near, toward), near), scale)
    least = FORMATS["f64"].least - FORMATS["f64"].fraction  # exponent of the smallest subnormal number
    units = np.ldexp(near, np.clip(scale - least, -60, 60))
    whole = TOWARD[way](units)
    whole += np.where((units == whole) & beyond, np.sign(toward - near), 0.0)
    small = np.frexp(near)[1] + scale <= FORMATS["f64"].least + 1  # all such numbers are as far apart as subnormal ones
    made = np.where(small, np.copysign(np.ldexp(whole, least), near), made)
    stays = np.isinf(made) & ((way == "rz") | ((way == "rm") & (near > 0)) | ((way == "rp") & (near < 0)))
    return np.where(stays, np.copysign(FORMATS["f64"].largest, near), made)


def of_integer(numbers: Any, way: str = "") -> Any:
    """Whole numbers of 64 bits as f64, rounded to odd, or in a direction."""
    whole = np.asarray(numbers)
    high, low = whole >> whole.dtype.type(32), whole & whole.dtype.type(0xFFFFFFFF)
    top, rest = two_sum(high.astype(np.float64) * 2.0**32, low.astype(np.float64))
    if way == "rn":
        return top
    return directed(top, rest, 0, way) if way else rounded_to_odd(top, rest)


def nan_kept(bits: Any, of: str, to: str) -> Any:
    """A NaN of one type as another: sign and payload stay, the highest bit of the fraction is set."""
    source, target = FORMATS[of], FORMATS[to]
    wide = np.asarray(bits).astype(np.uint64)
    shift = target.fraction - source.fraction
    part = wide & np.uint64((1 << source.fraction) - 1)
    part = part << np.uint64(shift) if shift > 0 else part >> np.uint64(-shift)
    sign = wide >> np.uint64(source.bits - 1) << np.uint64(target.bits - 1)
    return (sign | part | np.uint64(target.infinity | 1 << target.fraction - 1)).astype(WORDS[to])


def first_nan(numbers: Any, *operands: Any) -> Any:
    """Results of f64: a NaN is the first operand's that is one, in an H200's order, else -NaN without a payload."""
    none = np.isnan(numbers)
    if not none.any():
        return numbers
    made: Any = np.uint64(NAN["f64"])
    for operand in reversed(operands):
        bits = np.asarray(operand, np.float64).view(np.uint64)
        made = np.where(np.isnan(operand), nan_kept(bits, "f64", "f64"), made)
    return np.where(none, made.view(np.float64), numbers)


def without_tiny(exact: Any, kind: str, way: str) -> Any:
    """.ftz of a result: what is below the normal numbers becomes a zero of its sign.

    As an H200 has it, this is asked of the number rounded as if there were smaller exponents (tininess after rounding,
    IEEE 754-2019, 7.5): twice the number, rounded, lies below twice the least normal one.
    """
    form = FORMATS[kind]
    doubled = narrow(2.0 * np.asarray(exact, np.float64), kind, way) & form.word((1 << form.bits - 1) - 1)
    return np.where(doubled < 2 << form.fraction, np.copysign(0.0, exact), exact)


def flushed(bits: Any, kind: str = "f32") -> Any:
    """.ftz of an operand: subnormal numbers become zeros of their sign."""
    form = FORMATS[kind]
    exponent = bits & bits.dtype.type(form.infinity)
    return np.where(exponent == 0, bits & bits.dtype.type(1 << form.bits - 1), bits)
