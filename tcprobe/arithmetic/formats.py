"""Arrays of floats as bits: sign, significand and exponent for every type of a multiply's operands and results.

>>> import numpy as np
>>> from tcprobe.arithmetic.floats import FORMATS
>>> from tcprobe.arithmetic.formats import decode
>>> half = decode(FORMATS["f16"], np.array([0x3E00, 0x0001], np.uint16))
>>> half.significand.tolist(), half.exponent.tolist()
([1536, 1], [0, -14])

Scales of blocks: a product has two more factors, the scale of its block in A's row and that in B's column.

ue8m0 is a power of two, ue4m3 an e4m3 without a sign; both have a NaN (PTX ISA 9.1, section 5.2.3; OCP MX 1.0).

>>> import numpy as np
>>> from tcprobe.arithmetic.formats import decoded_scale
>>> scale = decoded_scale("ue8m0", np.array([127, 130, 255], np.uint8))
>>> scale.significand.tolist(), scale.exponent.tolist(), scale.kind.tolist()
([1, 1, 1], [0, 3, 128], [0, 0, 2])
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tcprobe.arithmetic.floats import FORMATS, FloatFormat
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array, Bits, Bools, Bytes, Ints

FINITE, INFINITE, NAN = 0, 1, 2


OperandBits = tuple[Bits, Bits, Bits]  # of A, B and C


class Decoded(NamedTuple):
    """Signed `significand`, `exponent`, whether `negative` (also for zeros), and `kind`: FINITE, INFINITE or NAN."""

    significand: Ints
    exponent: NDArray[np.int32]
    negative: Bools
    kind: Bytes
    fraction: int

    def at(self, index: Any) -> Decoded:
        """The same part of each array."""
        significand, exponent, negative, kind, fraction = self
        return Decoded(significand[index], exponent[index], negative[index], kind[index], fraction)


DecodedOperands = tuple[Decoded, Decoded, Decoded]


_SMALL = {row.numpy for row in FORMATS.values()}  # of ml_dtypes, whose kind is void


def decode(floats: FloatFormat, bit_patterns: Bits) -> Decoded:
    """Bits as numbers; types of up to 16 bits by a lookup table."""
    if floats.bits > 16:
        return _decoded(floats, np.ascontiguousarray(bit_patterns, np.uint64))
    return _table(floats).at(bit_patterns & ((1 << floats.bits) - 1))


def check_numbers(kind: str, array: Array) -> None:
    """UsageError unless NumPy holds real numbers in the array: no complex ones, no objects, no texts."""
    if array.dtype.kind not in "biuf" and array.dtype not in _SMALL:
        raise UsageError(f"numbers of type {kind} are needed, not NumPy's {array.dtype}.")


def bits_of(floats: FloatFormat, numbers: ArrayLike) -> Array:
    """The bits of numbers that the type holds exactly; UsageError with the first that it does not."""
    array = np.asarray(numbers)
    if array.dtype == floats.numpy and floats.name != "tf32":
        return array.view(floats.word)
    check_numbers(floats.name, array)
    with np.errstate(over="ignore", invalid="ignore"):  # a NaN that signals makes a cast warn
        doubles = array.astype(np.float64)
        held = doubles.astype(floats.numpy)
        wrong = (held.astype(np.float64) != doubles) & ~np.isnan(doubles)
    if wrong.any():
        raise UsageError(f"{float(doubles[wrong].flat[0])!r} is not a number of type {floats.name}.")
    return np.ascontiguousarray(held).view(floats.word)


def values_of(floats: FloatFormat, bit_patterns: Bits) -> Array:
    """Bits as NumPy numbers."""
    return np.ascontiguousarray(bit_patterns, floats.word).view(floats.numpy)


@cache
def _table(floats: FloatFormat) -> Decoded:
    return _decoded(floats, np.arange(1 << floats.bits, dtype=np.uint64))


def _decoded(floats: FloatFormat, bit_patterns: Bits) -> Decoded:
    raw = (bit_patterns >> np.uint64(floats.unread)).astype(np.int64)
    width = floats.bits - floats.unread - 1 - floats.fraction
    field = raw >> floats.fraction & (1 << width) - 1
    fraction = raw & (1 << floats.fraction) - 1
    negative = (bit_patterns >> np.uint64(floats.bits - 1) & np.uint64(1)).astype(bool)
    magnitude = np.where(field > 0, fraction | 1 << floats.fraction, fraction)
    exponent = np.maximum(field, 1) - floats.bias
    return Decoded(
        np.where(negative, -magnitude, magnitude),
        exponent.astype(np.int32),
        negative,
        _kinds(floats, field == (1 << width) - 1, fraction),
        floats.fraction,
    )


def _kinds(floats: FloatFormat, top: Bools, fraction: Ints) -> Bytes:
    if floats.special == "none":
        return np.zeros(top.shape, np.uint8)
    if floats.special == "nan":
        return np.where(top & (fraction == (1 << floats.fraction) - 1), NAN, FINITE).astype(np.uint8)
    return np.where(top, np.where(fraction == 0, INFINITE, NAN), FINITE).astype(np.uint8)


POWER, POWER_BIAS, POWER_NAN = "ue8m0", 127, 0xFF


class BlockScales(NamedTuple):
    """The scales of A (..., m, blocks) and of B (..., n, blocks) as bits, and their type."""

    a: Bits
    b: Bits
    kind: str


def decoded_scale(kind: str, bit_patterns: Bits) -> Decoded:
    """The numbers of scales."""
    if kind != POWER:
        return decode(FORMATS["e4m3"], bit_patterns & 0x7F)
    exponent = bit_patterns.astype(np.int32) - POWER_BIAS
    what = np.where(bit_patterns == POWER_NAN, NAN, FINITE).astype(np.uint8)
    return Decoded(np.ones(bit_patterns.shape, np.int64), exponent, np.zeros(bit_patterns.shape, bool), what, 0)


def block_sums(a_and_b: tuple[Decoded, Decoded], of_blocks: BlockScales, count: int) -> tuple[Decoded, Decoded]:
    """(exact sums of `count` products times their scales, ones), to be used as factors of A and B.

    A is (..., m, 1, k), B (..., 1, n, k), and scales are broadcast alike. Exponents are those of the scales.
    """
    a, b = a_and_b
    exponent = a.exponent + b.exponent
    low = int(exponent.min())
    products = (a.significand * b.significand) << (exponent - low)
    sums = products.reshape(*products.shape[:-1], -1, count).sum(axis=-1)
    first, second = (
        decoded_scale(of_blocks.kind, np.repeat(bits, sums.shape[-1] // bits.shape[-1], axis=-1))
        for bits in (of_blocks.a[..., :, None, :], of_blocks.b[..., None, :, :])
    )
    total = sums * first.significand * second.significand
    fraction = a.fraction + b.fraction - low + first.fraction + second.fraction
    zeros = np.zeros(total.shape, np.uint8)
    ones = Decoded(np.ones_like(total), zeros.astype(np.int32), zeros.astype(bool), zeros, 0)
    exponents = np.broadcast_to(first.exponent + second.exponent, total.shape)
    what = np.broadcast_to(np.maximum(first.kind, second.kind), total.shape)
    return Decoded(total, exponents, total < 0, what, fraction), ones


def scaled(number: Decoded, kind: str, bit_patterns: Bits) -> Decoded:
    """Factors (..., lines, k) times the scales of their blocks, (..., lines, blocks)."""
    blocks = np.repeat(bit_patterns, number.significand.shape[-1] // bit_patterns.shape[-1], axis=-1)
    scale = decoded_scale(kind, blocks)
    return Decoded(
        number.significand * scale.significand,
        number.exponent + scale.exponent,
        number.negative,
        np.maximum(number.kind, scale.kind),
        number.fraction + scale.fraction,
    )
