"""Random and adversarial products that prove the model; every result of a multiply is a case.

Images take turns through the styles: any bits; numbers of similar size; sums that nearly cancel; two products that
cancel beside small ones at every depth; subnormals and zeros; products below the least number of D; infinities and NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tcprobe.arithmetic.formats import FORMATS, BlockScales, FloatFormat
from tcprobe.arithmetic.parameters import ElementTypes
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array, Bits

Random = np.random.Generator
DRAWS = 120  # how often styles draw, if there are many images
NEAR = 4  # exponents of numbers of similar size differ by at most twice as much
FIRST_BELOW = 6  # bits between the smallest number of D and what a least exponent can cut
SPECIAL = 0.01  # share of infinities, in images that have them


class MultiplySize(NamedTuple):
    """The shape of one multiply: how many products a warp computes, and m, n and stored k of each."""

    products: int
    m: int
    n: int
    k: int


class Images(NamedTuple):
    """A (images, products, m, k), B (.., n, k), C (.., m, n), as bits.

    `scales` are (images, products, row of A or column of B, block).
    """

    a: Bits
    b: Bits
    c: Bits
    scales: BlockScales | None = None

    def select(self, some: Any) -> Images:
        """The images that an index or a slice selects."""
        scales = self.scales and BlockScales(self.scales.a[some], self.scales.b[some], self.scales.kind)
        return Images(self.a[some], self.b[some], self.c[some], scales)


def floats(types: ElementTypes, mnk: MultiplySize, count: int, seed: int) -> Images:
    """`count` images of floats, of one style after another.

    If there are many, some consecutive images share what a style draws once.
    """
    rng = np.random.default_rng(seed)
    batch = max(1, count // DRAWS)
    several = mnk._replace(products=mnk.products * batch)
    images = [STYLES[n % len(STYLES)](types, several, rng) for n in range(-(-count // batch))]
    shapes = [(-1, mnk.products, *shape[1:]) for shape in _shapes(mnk)]
    a, b, c = (np.concatenate([image[j].reshape(shapes[j]) for image in images])[:count] for j in range(3))
    return Images(a, b, c)


def integers(types: ElementTypes, mnk: MultiplySize, count: int, seed: int) -> Images:
    """`count` images of integers.

    Every other image has C near both ends; in half of these, all factors are the type's highest bit.
    """
    rng = np.random.default_rng(seed)
    bits = [dtype(kind).bits for kind in (types.a, types.b)]
    a, b = (rng.integers(0, 1 << width, (count, *shape)) for width, shape in zip(bits, _shapes(mnk), strict=False))
    c = rng.integers(0, 1 << 32, (count, *_shapes(mnk)[2]))
    ends = rng.choice([0x7FFFFFFF, 0x80000000], c[1::2].shape) + rng.integers(-4096, 4096, c[1::2].shape)
    c[1::2] = ends & 0xFFFFFFFF
    a[1::4], b[1::4] = (1 << width - 1 for width in bits)
    return Images(a.astype(np.uint8), b.astype(np.uint8), c.astype(np.uint32))


def scales(kind: str, mnk: MultiplySize, blocks: int, count: int) -> BlockScales:
    """Scales of `count` images, taking turns: all one, near one, any. In some of the last there is a NaN."""
    rng, shapes = (np.random.default_rng(blocks), [(count, mnk.products, line, blocks) for line in (mnk.m, mnk.n)])
    unit, last = (127, 255) if kind == "ue8m0" else (0x38, 0x7F)
    factor_scales = []
    for shape in shapes:
        bits = np.full(shape, unit)
        bits[1::3] += rng.integers(-9, 10, bits[1::3].shape)
        bits[2::3] = rng.integers(0, last, bits[2::3].shape)
        bits[5::12][rng.random(bits[5::12].shape) < SPECIAL / 8] = last
        factor_scales.append(bits.astype(np.uint8))
    return BlockScales(factor_scales[0], factor_scales[1], kind)


def _shapes(mnk: MultiplySize) -> list[tuple[int, ...]]:
    products, m, n, k = mnk
    return [(products, m, k), (products, n, k), (products, m, n)]


def _numbers(floats: FloatFormat, shape: Sequence[int], rng: Random, exponents: Array) -> Bits:
    """Finite numbers with random signs and fractions; biased exponents are clipped to the format."""
    top = (1 << floats.bits - 1 - floats.fraction) - 1 - (floats.special == "ieee")
    fraction = rng.integers(0, 1 << floats.fraction, shape)
    bits = np.clip(exponents, 0, top).astype(np.int64) << floats.fraction | fraction
    if floats.special == "nan":
        bits = np.minimum(bits, (1 << floats.bits - 1) - 2)
    signed: Bits = (bits | rng.integers(0, 2, shape) << floats.bits - 1).astype(floats.word)
    return signed


def _forms(types: ElementTypes) -> list[FloatFormat]:
    return [FORMATS[kind] for kind in (types.a, types.b, types.c)]


def _any(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Exponents from the whole range of each type."""
    return [
        _numbers(form, shape, rng, rng.integers(0, 1 << form.bits - 1 - form.fraction, shape))
        for form, shape in zip(_forms(types), _shapes(mnk), strict=True)
    ]


def _like(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Exponents near each other; C's are near the products'."""
    middles = [_middle(form, rng) for form in _forms(types)]
    middles[2] = _exponent_of_products(types, middles)
    return [
        _numbers(form, shape, rng, middle + rng.integers(-NEAR, NEAR + 1, shape))
        for form, shape, middle in zip(_forms(types), _shapes(mnk), middles, strict=True)
    ]


def _middle(floats: FloatFormat, rng: Random) -> int:
    top = (1 << floats.bits - 1 - floats.fraction) - 1
    return int(rng.integers(top // 4, top - top // 4 + 1))


def _exponent_of_products(types: ElementTypes, middles: list[int]) -> int:
    a, b, c = _forms(types)
    return middles[0] - a.bias + middles[1] - b.bias + c.bias


def _cancelling(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Pairs of products that cancel, except for a few whose last bit differs."""
    a, b, c = _like(types, mnk, rng)
    order = rng.permutation(mnk.k)
    half = mnk.k // 2
    ours, theirs = order[:half], order[half : 2 * half]
    a[..., theirs] = a[..., ours] ^ (1 << FORMATS[types.a].bits - 1)
    b[..., theirs] = b[..., ours]
    last = 1 << 13 if types.a == "tf32" else 1
    a[..., theirs] ^= (rng.random(a[..., theirs].shape) < 0.2).astype(a.dtype) * a.dtype.type(last)
    c[rng.random(c.shape) < 0.5] = 0
    return [_finite(FORMATS[types.a], a), b, c]


def _finite(floats: FloatFormat, bit_patterns: Bits) -> Bits:
    """The bits, with infinities and NaN made finite."""
    top = (bit_patterns.astype(np.int64) >> floats.fraction) & (1 << floats.bits - 1 - floats.fraction) - 1
    full = top == (1 << floats.bits - 1 - floats.fraction) - 1
    if floats.special == "none" or (floats.special == "nan" and floats.fraction == 0):
        return bit_patterns
    last = (bit_patterns & ((1 << floats.fraction) - 1)) == (1 << floats.fraction) - 1
    wrong = full if floats.special == "ieee" else full & last
    return np.where(
        wrong, bit_patterns ^ (1 << floats.fraction if floats.special == "ieee" else 1), bit_patterns
    ).astype(bit_patterns.dtype)


def _beside(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Large products at two k cancel; the others are at any depth below: shows what alignment keeps."""
    (fa, fb, fc), (sa, sb, sc) = _forms(types), _shapes(mnk)
    tops = [min((1 << f.bits - 1 - f.fraction) - 2, f.bias + 50) for f in (fa, fb)]
    a, b = (
        _numbers(f, s, rng, top - rng.integers(min(3, top), min(17, top + 1), (*s[:-1], 1)) - rng.integers(0, 3, s))
        for f, s, top in zip((fa, fb), (sa, sb), tops, strict=True)
    )
    i, j = rng.choice(mnk.k, 2, replace=False)
    a[..., i] = _numbers(fa, sa[:-1], rng, np.full(sa[:-1], tops[0]))
    b[..., i] = _numbers(fb, sb[:-1], rng, np.full(sb[:-1], tops[1]))
    a[..., j], b[..., j] = a[..., i] ^ (1 << fa.bits - 1), b[..., i]
    c = _numbers(fc, sc, rng, tops[0] - fa.bias + tops[1] - fb.bias + fc.bias - rng.integers(0, 40, sc))
    c[rng.random(sc) < 0.7] = 0
    return [a, b, c]


def _small(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Subnormals, least exponents and zeros; every other line has any exponents, and some rows of A are zero."""
    matrices = []
    for form, shape in zip(_forms(types), _shapes(mnk), strict=True):
        top = (1 << form.bits - 1 - form.fraction) - 2
        exponents = rng.integers(0, 3, shape)
        exponents[:, ::2] = rng.integers(0, top, exponents[:, ::2].shape)
        bits = _numbers(form, shape, rng, exponents)
        bits[rng.random(shape) < 0.2] = 0
        bits[rng.random(shape) < 0.05] = 1 << form.bits - 1
        matrices.append(bits)
    matrices[0][rng.random(_shapes(mnk)[0][:-1]) < 0.2] = 0
    return matrices


def _low_products(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """The smallest number of D beside a product below it, which a least exponent would cut.

    Types that do not go so low are clipped to their least exponents.
    """
    a, b, c = _forms(types)
    low = FORMATS[types.d].least - FORMATS[types.d].fraction + a.bias + b.bias
    sa, sb, sc = _shapes(mnk)
    i, j = rng.choice(mnk.k, 2, replace=False)
    factors = [np.zeros(sa, a.word), np.zeros(sb, b.word)]
    depths = np.broadcast_to(FIRST_BELOW + np.arange(mnk.m) % 8, sa[:-1])
    for k, below in ((i, 0 * depths), (j, depths)):
        factors[0][..., k] = _numbers(a, sa[:-1], rng, low // 2 - below)
        factors[1][..., k] = _numbers(b, sb[:-1], rng, np.full(sb[:-1], low - low // 2))
    factors = [_power(form, bits) for form, bits in zip((a, b), factors, strict=True)]
    own = _numbers(c, sc, rng, np.zeros(sc)) & c.word((1 << c.bits - 1) | 3)
    own[rng.random(sc) < 0.8] = 0
    return [*factors, own]


def _power(floats: FloatFormat, bit_patterns: Bits) -> Bits:
    """The numbers with their fractions cleared."""
    whole: Bits = bit_patterns & ~floats.word((1 << floats.fraction) - 1)
    return whole


def _special(types: ElementTypes, mnk: MultiplySize, rng: Random) -> list[Bits]:
    """Infinities, NaN and the largest patterns among others."""
    matrices = _any(types, mnk, rng)
    for bits, form in zip(matrices, _forms(types), strict=True):
        if form.special == "ieee":
            bits[rng.random(bits.shape) < SPECIAL] = form.infinity
            bits[rng.random(bits.shape) < SPECIAL / 2] = form.infinity | 1 << form.bits - 1
        if form.special != "none":
            bits[rng.random(bits.shape) < SPECIAL / 8] = (1 << form.bits - 1) - 1
    return matrices


STYLES = (_any, _like, _cancelling, _beside, _small, _low_products, _special, _beside, _small, _low_products)
