"""Products that are added one by one in f32, as code without a tensor core does it: mma.m8n8k4 of f16 from sm_80 on.

A product of two f16 is an f32 exactly, so a fused multiply-add is an addition of f32, to nearest even.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.formats import FORMATS, values_of
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes
from tcprobe.layout.arrays import Bits

Floats = NDArray[np.float32]


def partial_sums(types: ElementTypes, arithmetic: Arithmetic, operands: tuple[Bits, Bits, Bits]) -> Bits:
    """The bits, as f32, of C and the groups' sums, each from zero: A and B of shape (..., products)."""
    kinds = (types.a, types.b, types.c)
    with np.errstate(all="ignore"):
        a, b, d = (
            values_of(FORMATS[kind], bits).astype(np.float32) for kind, bits in zip(kinds, operands, strict=True)
        )
        for group in arithmetic.groups:
            d = d + _sum(arithmetic, group, (a, b))
    return np.where(np.isnan(d), np.uint32(0x7FFFFFFF), d.view(np.uint32))


def _sum(arithmetic: Arithmetic, group: Sequence[int], a_and_b: tuple[Floats, Floats]) -> Floats:
    """One group's; from its first product on where a sum of negative zeros is one."""
    products = [a_and_b[0][..., k] * a_and_b[1][..., k] for k in group]
    total = products[0] if arithmetic.negative_zero else products[0] + np.float32(0)
    for product in products[1:]:
        total = total + product
    return total
