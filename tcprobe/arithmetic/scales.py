"""Scales of blocks: a product has two more factors, the scale of its block in A's row and that in B's column.

ue8m0 is a power of two, ue4m3 an e4m3 without a sign; both have a NaN (PTX ISA 9.1, section 5.2.3; OCP MX 1.0).

>>> import numpy as np
>>> from tcprobe.arithmetic.scales import decoded_scale
>>> scale = decoded_scale("ue8m0", np.array([127, 130, 255], np.uint8))
>>> scale.significand.tolist(), scale.exponent.tolist(), scale.kind.tolist()
([1, 1, 1], [0, 3, 128], [0, 0, 2])
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcprobe.arithmetic.formats import FINITE, FORMATS, NAN, Decoded, decode
from tcprobe.layout.arrays import Bits

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
    ones = Decoded(
        np.ones_like(total),
        np.zeros_like(total, np.int32),
        np.zeros_like(total, bool),
        np.zeros_like(total, np.uint8),
        0,
    )
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
