"""Products added one by one in f32, as code without tensor cores does: mma.m8n8k4 of f16 from sm_80 on.

The product of two f16 is exact in f32, so a fused multiply-add is an f32 addition, rounded to nearest even.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.formats import FORMATS, OperandBits, values_of
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes
from tcprobe.layout.arrays import Bits

Floats32 = NDArray[np.float32]


def partial_sums(types: ElementTypes, arithmetic: Arithmetic, abc: OperandBits) -> Bits:
    """C plus the groups' sums, each from zero, as bits of f32; A and B are (..., products)."""
    kinds = (types.a, types.b, types.c)
    with np.errstate(all="ignore"):
        a, b, d = (values_of(FORMATS[kind], bits).astype(np.float32) for kind, bits in zip(kinds, abc, strict=True))
        for group in arithmetic.groups:
            d = d + _sum(arithmetic, group, (a, b))
    return np.where(np.isnan(d), np.uint32(0x7FFFFFFF), d.view(np.uint32))


def _sum(arithmetic: Arithmetic, group: Sequence[int], a_and_b: tuple[Floats32, Floats32]) -> Floats32:
    """One group's sum; it starts from the first product if a sum of negative zeros is negative."""
    products = [a_and_b[0][..., k] * a_and_b[1][..., k] for k in group]
    total = products[0] if arithmetic.negative_zero else products[0] + np.float32(0)
    for product in products[1:]:
        total = total + product
    return total
