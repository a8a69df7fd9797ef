"""Whole numbers in element types: encoded into slots and decoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array, Bytes
from tcprobe.probes.slots import pack, unpack

FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
RAW: dict[str, Any] = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}


def encode(numbers: Array, kind: str, slot_bits: int) -> Bytes:
    """Whole numbers of shape (images, slots), which the type must hold exactly, as bytes; -0.0 keeps its sign."""
    if kind in FLOATS:
        return pack(np.ascontiguousarray(numbers, FLOATS[kind]).view(RAW[kind]), slot_bits)
    if dtype(kind).is_float:
        least = int(numbers.min())
        patterns = [dtype(kind).pattern(value, slot_bits) for value in range(least, int(numbers.max()) + 1)]
        return pack(np.array(patterns, np.uint64)[numbers.astype(np.int64) - least], slot_bits)
    return pack(numbers.astype(np.int64) & (1 << slot_bits) - 1, slot_bits)


def decode(raw: Bytes, kind: str) -> Array:
    """Bytes of shape (images, bytes) as numbers: integers as int64, floats of 16 bits and more in their own type."""
    bits = dtype(kind).bits
    values = unpack(raw, bits)
    if kind in FLOATS:
        return values.view(FLOATS[kind])
    numbers = values.astype(np.int64)
    return numbers - ((numbers >> bits - 1) << bits) if kind.startswith("s") else numbers
