"""What tcgen05.mma multiplies and sums: numbers of bits, scales, products; the arithmetic is documented, not measured.

Where every order of summing gives the same f32, as of whole numbers, the result is exact. Else it is summed as sources
say that a B200 does (references/numerics.csv): toward zero, in terms cut 25 bits below the largest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, chained
from tcprobe.layout.arrays import Array, Bytes, Floats, Ints

WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e3m2": 6, "e2m3": 6, "e2m1": 4}  # of others 8
EXACT = 2.0**24  # whole numbers up to it are f32's
FRACTION, FLOOR = 25, -133  # of a term, and the least exponent that terms are cut by
PRODUCTS = {16: 16, 8: 8}  # by k how many products one sum takes in; else 32
ROWS = 16  # of a product at a time
Bits = NDArray[Any]


@cache
def _values(kind: str) -> Floats:
    """Of every pattern of up to 8 bits."""
    count = 1 << WIDTHS.get(kind, 8)
    patterns = np.arange(count, dtype=np.uint8)
    if kind == "ue8m0":
        powers = np.ldexp(1.0, patterns.astype(int) - 127)
        return np.asarray(np.where(patterns == 255, np.nan, powers))
    if kind == "ue4m3":
        return np.asarray((patterns & 127).view(ml_dtypes.float8_e4m3fn).astype(np.float64))
    if kind in ("u8", "s8"):
        return patterns.view(np.uint8 if kind == "u8" else np.int8).astype(np.float64)
    return np.asarray(patterns.view(FORMATS[kind].numpy).astype(np.float64))


def numbers(kind: str, patterns: Bits) -> Floats:
    """What patterns of bits stand for, as f64, which holds all of them."""
    if kind == "f16":
        return patterns.astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (patterns.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind == "tf32":
        return (patterns.astype(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)
    if kind == "f32":
        return patterns.astype(np.uint32).view(np.float32).astype(np.float64)
    return _values(kind)[patterns]


def unpacked(raw: Bytes, kind: str, packed: bool) -> Bits:
    """(lines, elements) patterns in rows of bytes; unless `packed`, 16 of 4 or 6 bits stand in 16 bytes, with a gap."""
    width = WIDTHS.get(kind, 8)
    if width >= 8:
        return np.ascontiguousarray(raw).view({8: np.uint8, 16: np.uint16, 32: np.uint32}[width])
    if packed:
        return np.stack([raw & 15, raw >> 4], axis=-1).reshape(raw.shape[0], -1)
    bits = np.unpackbits(raw.reshape(raw.shape[0], -1, 16), axis=-1, bitorder="little")[..., : 16 * width]
    powers = 1 << np.arange(width, dtype=np.uint8)
    return np.asarray((bits.reshape(raw.shape[0], -1, width) * powers).sum(axis=-1), np.uint8)


def multiply(a: Floats, b: Floats, c: Floats, met: Ints | None = None) -> tuple[Floats, bool]:
    """(a b + c, whether every order of summing gives it): (m, k), (k, n), (m, n); `met` as `matmul` has it."""
    with np.errstate(all="ignore"):
        d = matmul(a, b, met) + c
        unit = min(_unit(a) * _unit(b), _unit(c))
        exact = bool((matmul(np.abs(a), np.abs(b), met) + np.abs(c)).max() <= EXACT * unit)
    return d, exact


def matmul(a: Floats, b: Floats, met: Ints | None = None) -> Floats:
    """a b, in parts that are too small for NumPy's library to wake threads for them.

    `met`, (m, k of a): the line of b that each element of a meets.
    """
    made = np.empty((a.shape[0], b.shape[1]))
    for first in range(0, a.shape[0], ROWS):
        rows = slice(first, first + ROWS)
        made[rows] = a[rows] @ b if met is None else (a[rows, None] @ b[met[rows]])[:, 0]
    return made


def _unit(values: Floats) -> float:
    """The largest power of two of which all are multiples; NaN where one is not finite."""
    there = values[values != 0]
    if not there.size:
        return np.inf
    if not np.isfinite(there).all():
        return float("nan")
    significand, exponent = np.frexp(there)
    whole = np.ldexp(significand, 53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return float(np.ldexp(1.0, int((exponent - 53 + trailing).min())))


def multiply_documented(kind: tuple[str, str, str], a: Bits, b: Bits, c: Bits) -> Array:
    """D's bits as sources say that a B200 sums: patterns of A (m, k), B (k, n), C (m, n), without scales."""
    k = a.shape[1]
    rule = Arithmetic(chained(k, PRODUCTS.get(k, 32)), FRACTION, 23, "toward zero", exponent_floor=FLOOR)
    types = ElementTypes(kind[0], kind[1], kind[2], kind[2])
    m, n = c.shape
    rows = np.broadcast_to(a[:, None, :], (m, n, k))
    cols = np.broadcast_to(b.T[None, :, :], (m, n, k))
    return np.asarray(dot(types, rule, (rows, cols, c)))
