"""The model of integers and bits: sums are exact; results beyond 32 bits wrap or are clamped."""

from __future__ import annotations

import numpy as np

from tcprobe.arithmetic.parameters import ElementTypes, Integers
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Bits, Ints

LEAST, MOST = -(1 << 31), (1 << 31) - 1


def numbers(kind: str, bit_patterns: Bits) -> Ints:
    """Bits as integers."""
    width = dtype(kind).bits
    whole = bit_patterns.astype(np.int64) & (1 << width) - 1
    return whole - ((whole >> width - 1) << width) if kind.startswith("s") else whole


def multiplied(types: ElementTypes, rule: Integers, abc: tuple[Ints, Ints, Ints], satfinite: bool = False) -> Ints:
    """D of numbers: A (..., m, k), B (..., n, k), C (..., m, n); for b1, the number of bits set in a ^ b or a & b."""
    a, b, c = abc
    products = np.matmul(a.astype(np.float64), b.swapaxes(-1, -2).astype(np.float64)).astype(np.int64)  # exact
    if types.bit_op == "xor":
        products = a.sum(-1)[..., :, None] + b.sum(-1)[..., None, :] - 2 * products
    total = products + c
    if (rule.satfinite if satfinite else rule.overflow) == "clamps":
        clamped: Ints = np.clip(total, LEAST, MOST)
        return clamped
    wrapped: Ints = (total - LEAST & 0xFFFFFFFF) + LEAST
    return wrapped
