"""The model: what a multiply of floats computes, bit by bit, from its parameters.

>>> import numpy as np
>>> from tcprobe.arithmetic.model import dot
>>> from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, chained
>>> types, rule = ElementTypes("f16", "f16", "f32", "f32"), Arithmetic(chained(2, 2), 25, 23, "toward zero")
>>> a, b = np.array([[0x3C00, 0x3C00]], np.uint16), np.array([[0x3C00, 0x0001]], np.uint16)
>>> hex(dot(types, rule, (a, b, np.zeros(1, np.uint32)))[0])
'0x3f800000'

All sums are sums of integers, which NumPy's 64 bits hold exactly.

A multiply of f64 is a chain of fused multiply-adds, each rounded once to nearest even: exact in NumPy. Terms are scaled
to the larger one. Product and sum are split without error, and combined by rounding to odd (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008). Results next to subnormal numbers are computed with Python's
integers.

Code without tensor cores adds products one by one in f32: mma.m8n8k4 of f16 from sm_80 on. The product of two f16 is
exact in f32, so a fused multiply-add is an f32 addition, rounded to nearest even.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.floats import FORMATS, FloatFormat
from tcprobe.arithmetic.formats import FINITE, INFINITE, NAN, Decoded, DecodedOperands, OperandBits, decode, values_of
from tcprobe.arithmetic.parameters import AFTER, BEFORE, NEAREST, Arithmetic, ElementTypes
from tcprobe.layout.arrays import Bits, Floats, Ints

SUBNORMAL = -1022  # the exponent, as frexp has it, of the largest subnormal numbers
NO_TERM = -(1 << 20)
FAR = 300  # with exponents this far apart, the smaller term is below every digit of the larger
SPLIT = 2.0**27 + 1
ORDINARY = 2.0**200  # between its reciprocal and it, products and their rounding errors are normal numbers


def fused_chain(arithmetic: Arithmetic, a_bits: Bits, b_bits: Bits, c_bits: Bits) -> Bits:
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
        result[at] = _exact_fma(float(x[at]), float(y[at]), float(z[at]))
    return result


def _ordinary(x: Floats) -> bool:
    """Whether no number is so large or small that it must be scaled."""
    size = abs(x)
    return bool(((size < ORDINARY) & ((size > 1 / ORDINARY) | (size == 0))).all())


def _apart(x: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """x * y + z as two numbers, the second rounded to odd, so that their sum is rounded once."""
    high, low = _two_product(x, y)
    first, first_rest = two_sum(z, low)
    top, top_rest = two_sum(high, first)
    return top, rounded_to_odd(*two_sum(top_rest, first_rest))


def fma_parts(x: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """x * y + z of finite numbers: rounded to nearest as a number near one; what was lost, rounded; its exponent."""
    terms, scale = _near_one(x, y, z)
    nearest, rest = two_sum(*_apart(*terms))
    return nearest, rest, scale


def _scaled(x: Floats, y: Floats, z: Floats) -> tuple[tuple[Floats, Floats], NDArray[np.int32]]:
    """(x * y + z as a number near one, rounded to nearest and to odd; its exponent)."""
    terms, scale = _near_one(x, y, z)
    return _fma(*terms), scale


def _near_one(x: Floats, y: Floats, z: Floats) -> tuple[tuple[Floats, Floats, Floats], NDArray[np.int32]]:
    """Terms of x * y + z of which the larger one is near one, and its exponent. A far smaller one decides roundings."""
    (first, one), (second, two), (own, three) = (np.frexp(term) for term in (x, y, z))
    product = np.where((x == 0) | (y == 0), NO_TERM, one + two)
    scale = np.maximum(product, np.where(z == 0, NO_TERM, three))
    scale = np.where(scale == NO_TERM, 0, scale).astype(np.int32)
    below = np.where(product == NO_TERM, 0, np.maximum(one + two - scale, -FAR))
    return (first, np.ldexp(second, below), np.ldexp(own, np.maximum(three - scale, -FAR))), scale


def _fma(x: Floats, y: Floats, z: Floats) -> tuple[Floats, Floats]:
    """(rounded to nearest even, rounded to odd); a second rounding of the latter to fewer bits is correct."""
    top, small = _apart(x, y, z)
    nearest = top + small
    zero = (x * y == 0) & (z == 0)
    return np.where(zero, x * y + z, nearest), np.where(zero, x * y + z, rounded_to_odd(*two_sum(top, small)))


def rounded_to_odd(total: Floats, rest: Floats) -> Floats:
    """total + rest, rounded to odd."""
    even = total.view(np.int64) & 1 == 0
    outward = (rest > 0) == (total > 0)
    return np.where((rest != 0) & even, np.nextafter(total, np.where(outward, total * 2, 0.0)), total)


def two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The sum, and the error of its rounding (Knuth)."""
    sum_ = x + y
    other = sum_ - x
    return sum_, (x - (sum_ - other)) + (y - other)


def _two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The product, and the error of its rounding (Dekker)."""
    (xh, xl), (yh, yl) = _split(x), _split(y)
    product = x * y
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _split(x: Floats) -> tuple[Floats, Floats]:
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def _exact_fma(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z if not x * y and not z else 0.0
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def partial_sums(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    """C plus the groups' sums, each from zero, as bits of f32; A and B are (..., products)."""
    kinds = (types.a, types.b, types.c)
    with np.errstate(all="ignore"):
        a, b, d = (values_of(FORMATS[kind], bits).astype(np.float32) for kind, bits in zip(kinds, abc, strict=True))
        for group in arithmetic.groups:
            products = [a[..., k] * b[..., k] for k in group]
            # a sum starts from the first product if a sum of negative zeros is negative
            total = products[0] if arithmetic.negative_zero else products[0] + np.float32(0)
            for product in products[1:]:
                total = total + product
            d = d + total
    return np.where(np.isnan(d), np.uint32(0x7FFFFFFF), d.view(np.uint32))


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
    if operand not in arithmetic.normalized:
        return number
    # subnormals get the exponent of their leading bit
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
        return fused_chain(arithmetic, *abc)
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
    kept = magnitude >> right
    if arithmetic.rounding == NEAREST:
        rest, half = magnitude - (kept << right), np.where(right > 0, 1 << np.maximum(right - 1, 0), MOST_SHIFT)
        kept += (rest > half) | ((rest == half) & (kept & 1 == 1))
    kept <<= left
    bits = (exponent - d_format.least << d_format.fraction) + (kept << d_format.fraction - arithmetic.result_bits)
    if arithmetic.subnormals.d is False:
        bits = np.where(bits >> d_format.fraction == 0, 0, bits)
    most = d_format.infinity - (arithmetic.overflow == "largest")
    bits = np.where(magnitude == 0, 0, np.minimum(bits, most))
    signed: Bits = np.where((total < 0) & (bits != 0), bits | 1 << d_format.bits - 1, bits)
    return signed


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
