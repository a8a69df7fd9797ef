"""The model: what a multiply of floats computes, bit by bit, from its parameters.

>>> import numpy as np
>>> from tcprobe.arithmetic.model import dot
>>> from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, chained
>>> types, rule = ElementTypes("f16", "f16", "f32", "f32"), Arithmetic(chained(2, 2), 25, 23, "toward zero")
>>> a, b = np.array([[0x3C00, 0x3C00]], np.uint16), np.array([[0x3C00, 0x0001]], np.uint16)
>>> hex(dot(types, rule, (a, b, np.zeros(1, np.uint32)))[0])
'0x3f800000'

All sums are sums of integers, which NumPy's 64 bits hold exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from tcprobe.arithmetic.chain import fused
from tcprobe.arithmetic.formats import (
    FINITE,
    FORMATS,
    INFINITE,
    NAN,
    Decoded,
    DecodedOperands,
    FloatFormat,
    OperandBits,
    decode,
    values_of,
)
from tcprobe.arithmetic.parameters import AFTER, BEFORE, NEAREST, Arithmetic, ElementTypes
from tcprobe.arithmetic.partial import partial_sums
from tcprobe.layout.arrays import Bits, Ints

Factors = tuple[Decoded, Decoded]
NOTHING = -(1 << 20)  # the exponent of a zero term: below all others
MOST_SHIFT = 62
CACHED = 1 << 14  # products at a time, so that they fit the CPU's cache


class Terms(NamedTuple):
    """One sum: products and C as integer multiples of 2^(top - F); and top, NOTHING if every term is zero."""

    products: Ints
    c: Ints
    top: Ints


def factor(operand: str, kind: str, arithmetic: Arithmetic, bit_patterns: Bits) -> Decoded:
    """A, B or C, as the form reads it."""
    form = FORMATS[kind].without(arithmetic.unread_bits) if kind == "tf32" else FORMATS[kind]
    number = _flush_subnormals(decode(form, bit_patterns), getattr(arithmetic.subnormals, operand))
    return _normalized(number) if operand in arithmetic.normalized else number


def _normalized(number: Decoded) -> Decoded:
    """Subnormals with the exponent of their leading bit."""
    significand, exponent, *_, fraction = number
    length = np.frexp(abs(significand).astype(np.float64))[1]
    up = np.where(significand == 0, 0, fraction + 1 - length)
    return number._replace(significand=significand << up, exponent=(exponent - up).astype(np.int32))


def _flush_subnormals(number: Decoded, subnormals: bool | None) -> Decoded:
    """The numbers; subnormals are zero if the form does not keep them."""
    if subnormals is not False:
        return number
    small = (abs(number.significand) < 1 << number.fraction) & (number.kind == FINITE)
    return number._replace(significand=np.where(small, 0, number.significand))


def dot(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    """D's bits of dot products; A and B are (..., products), C is (...), all as bits."""
    a, b, c = abc
    if arithmetic.fraction_bits is None:
        return separate(types, arithmetic, abc)
    rows, results = max(1, CACHED // arithmetic.products), np.empty(c.size, FORMATS[types.d].word)
    lines = a.reshape(c.size, -1), b.reshape(c.size, -1), c.reshape(-1)
    for part in (slice(at, at + rows) for at in range(0, c.size, rows)):
        factors = factor("a", types.a, arithmetic, lines[0][part]), factor("b", types.b, arithmetic, lines[1][part])
        results[part] = multiplied(types, arithmetic, factors, lines[2][part])
    return results.reshape(c.shape)


def separate(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    """As `dot`, if every product is added separately; operands are broadcast against each other."""
    if arithmetic.c != BEFORE:
        return fused(arithmetic, *abc)
    d = FORMATS[types.d]
    sums = partial_sums(types, arithmetic, abc)
    return narrowed(d, arithmetic, sums).astype(d.word) if arithmetic.through_f32 else sums


def multiplied(types: ElementTypes, arithmetic: Arithmetic, factors: Factors, c_bits: Bits) -> Bits:
    """As `dot`, from decoded factors, which are broadcast against each other."""
    d = FORMATS[types.d]
    if arithmetic.through_f32:
        wide = msgspec.structs.replace(types, d="f32")
        return narrowed(d, arithmetic, multiplied(wide, in_f32(arithmetic), factors, c_bits)).astype(d.word)
    last = arithmetic.c == AFTER
    result = np.zeros(c_bits.shape, d.word)
    own = decode(d, result) if last else factor("c", types.c, arithmetic, c_bits)
    for group in arithmetic.groups:
        part = factors[0].at(index_of_group(group)), factors[1].at(index_of_group(group))
        result = summed(d, arithmetic, part, own)
        own = _flush_subnormals(decode(d, result), arithmetic.subnormals.c)
    return _added(d, arithmetic, result, c_bits) if last else result


def in_f32(arithmetic: Arithmetic) -> Arithmetic:
    """The same sums, rounded to f32 only."""
    kept = msgspec.structs.replace(arithmetic.subnormals, d=None)
    return msgspec.structs.replace(
        arithmetic,
        result_bits=FORMATS["f32"].fraction,
        rounding=arithmetic.through_f32,
        through_f32=None,
        nan=None,
        overflow=None,
        subnormals=kept,
    )


def narrowed(d_format: FloatFormat, arithmetic: Arithmetic, bit_patterns: Bits) -> Bits:
    """f32 rounded to D; zeros keep their sign."""
    number = decode(FORMATS["f32"], bit_patterns)
    whole = msgspec.structs.replace(arithmetic, fraction_bits=0)
    size = rounded(d_format, whole, abs(number.significand), number.exponent.astype(np.int64) - number.fraction)
    size = np.where(number.kind == INFINITE, d_format.infinity, size)
    signed = np.where(number.negative, size | 1 << d_format.bits - 1, size)
    return np.where(number.kind == NAN, nan_bits(d_format, arithmetic), signed)


def index_of_group(group: tuple[int, ...]) -> Any:
    """The index of a group's products on the last axis; a slice if they are consecutive."""
    together = group[-1] - group[0] + 1 == len(group)
    return (..., slice(group[0], group[-1] + 1) if together else list(group))


def summed(d_format: FloatFormat, arithmetic: Arithmetic, factors: Factors, addend: Decoded) -> Bits:
    """The sum of one group: its products and C."""
    terms = align_terms(arithmetic, factors, addend)
    bits = rounded(d_format, arithmetic, terms.products.sum(axis=-1) + terms.c, terms.top)
    if arithmetic.negative_zero:
        every = (factors[0].negative ^ factors[1].negative).all(axis=-1) & addend.negative & (terms.top == NOTHING)
        bits = np.where(every, 1 << d_format.bits - 1, bits)
    return _specials(d_format, arithmetic, (*factors, addend), bits).astype(d_format.word)


def align_terms(arithmetic: Arithmetic, factors: Factors, addend: Decoded) -> Terms:
    """All terms, cut toward zero."""
    a, b = factors
    product = a.significand * b.significand
    exponent = np.where(product == 0, NOTHING, a.exponent + b.exponent)
    own = np.where(addend.significand == 0, NOTHING, addend.exponent)
    top = np.maximum(exponent.max(axis=-1), own)
    if arithmetic.exponent_floor is not None:
        top = np.where(top == NOTHING, top, np.maximum(top, arithmetic.exponent_floor))
    kept = arithmetic.fraction_bits or 0
    return Terms(
        _truncate(product, kept - a.fraction - b.fraction, top[..., None] - exponent),
        _truncate(addend.significand, kept - addend.fraction, top - own),
        top,
    )


def _truncate(term: Ints, more: int, below: Ints) -> Ints:
    """term x 2^(more - below), toward zero."""
    magnitude = abs(term)
    if more > 0:
        magnitude <<= more
    right = np.minimum(below if more >= 0 else below - more, MOST_SHIFT)
    magnitude >>= right
    cut: Ints = np.where(term < 0, -magnitude, magnitude)
    return cut


def rounded(d_format: FloatFormat, arithmetic: Arithmetic, total: Ints, top: Ints) -> Bits:
    """The bits of total x 2^(top - F) in D's format; a result that rounds to zero is a positive zero."""
    magnitude, unit = abs(total), top - (arithmetic.fraction_bits or 0)
    exponent = np.maximum(np.frexp(magnitude.astype(np.float64))[1].astype(np.int64) - 1 + unit, d_format.least)
    drop = exponent - arithmetic.result_bits - unit
    right, left = np.clip(drop, 0, MOST_SHIFT), np.clip(-drop, 0, MOST_SHIFT)
    kept = _rounded_off(arithmetic, magnitude, right) << left
    bits = (exponent - d_format.least << d_format.fraction) + (kept << d_format.fraction - arithmetic.result_bits)
    if arithmetic.subnormals.d is False:
        bits = np.where(bits >> d_format.fraction == 0, 0, bits)
    most = d_format.infinity - (arithmetic.overflow == "largest")
    bits = np.where(magnitude == 0, 0, np.minimum(bits, most))
    signed: Bits = np.where((total < 0) & (bits != 0), bits | 1 << d_format.bits - 1, bits)
    return signed


def _rounded_off(arithmetic: Arithmetic, magnitude: Ints, right: Ints) -> Ints:
    """The magnitude without its low bits, rounded."""
    kept = magnitude >> right
    if arithmetic.rounding == NEAREST:
        rest, half = magnitude - (kept << right), np.where(right > 0, 1 << np.maximum(right - 1, 0), MOST_SHIFT)
        kept += (rest > half) | ((rest == half) & (kept & 1 == 1))
    return kept


def _specials(d_format: FloatFormat, arithmetic: Arithmetic, abc: DecodedOperands, bit_patterns: Bits) -> Bits:
    """The bits, corrected where A, B or C has NaN or infinities."""
    a, b, c = abc
    if not any(part.kind.any() for part in abc):
        return bit_patterns
    infinite = (a.kind == INFINITE) | (b.kind == INFINITE)
    zero = ((a.kind == FINITE) & (a.significand == 0)) | ((b.kind == FINITE) & (b.significand == 0))
    nan = ((a.kind == NAN) | (b.kind == NAN) | (infinite & zero)).any(axis=-1) | (c.kind == NAN)
    below = a.negative ^ b.negative
    plus = (infinite & ~below).any(axis=-1) | ((c.kind == INFINITE) & ~c.negative)
    minus = (infinite & below).any(axis=-1) | ((c.kind == INFINITE) & c.negative)
    sign = 1 << d_format.bits - 1
    bit_patterns = np.where(plus, d_format.infinity, np.where(minus, d_format.infinity | sign, bit_patterns))
    return np.where(nan | (plus & minus), nan_bits(d_format, arithmetic), bit_patterns)


def nan_bits(d_format: FloatFormat, arithmetic: Arithmetic) -> int:
    """The NaN that a form returns, as measured; if it varies, all ones except the sign."""
    return int(arithmetic.nan, 16) if arithmetic.nan else (1 << d_format.bits - 1) - 1


def _added(d_format: FloatFormat, arithmetic: Arithmetic, result: Bits, c_bits: Bits) -> Bits:
    """C added last, in D's type, rounded to nearest even."""
    with np.errstate(all="ignore"):
        sum_ = (values_of(d_format, result) + values_of(d_format, c_bits)).astype(d_format.numpy)
    return np.where(np.isnan(sum_), nan_bits(d_format, arithmetic), sum_.view(d_format.word)).astype(d_format.word)
