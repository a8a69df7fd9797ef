"""Slots in raw memory: numbers of 1 to 64 bits packed into bytes and back, low bits first.

Registers of a thread are contiguous, and so are threads: a register image is the flat array of its slots. A memory
image is the flat array of its elements.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tcprobe.layout.arrays import Array, Bytes

_WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def pack(numbers: Array, bits: int) -> Bytes:
    """Numbers of shape (images, count), 0 <= value < 2**bits, as bytes of shape (images, count * bits / 8)."""
    if bits in _WORDS:
        return np.ascontiguousarray(numbers, _WORDS[bits]).view(np.uint8)
    planes = (numbers.astype(np.uint8)[..., None] >> np.arange(bits, dtype=np.uint8)) & 1
    return np.packbits(planes.reshape(len(numbers), -1), axis=1, bitorder="little")


def unpack(raw: Bytes, bits: int) -> Array:
    """The inverse of `pack`."""
    if bits in _WORDS:
        return np.ascontiguousarray(raw).view(_WORDS[bits])
    planes = np.unpackbits(raw, axis=1, bitorder="little").reshape(len(raw), -1, bits)
    values: Array = (planes << np.arange(bits, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return values


@cache
def one_hot(count: int, bits: int, one_bits: int) -> Bytes:
    """Image 0 is all zero; image 1 + s has `one_bits` in slot s alone. (1 + count, count * bits / 8), read-only."""
    images = np.zeros((1 + count, count * bits // 8), np.uint8)
    slots = np.arange(count)
    if bits in _WORDS:
        images.view(_WORDS[bits])[1 + slots, slots] = one_bits
    else:
        images[1 + slots, slots * bits // 8] = one_bits << (slots * bits % 8)
    images.flags.writeable = False
    return images


@cache
def codes(count: int, bits: int, one_bits: int) -> Bytes:
    """Image 0 has `one_bits` in all slots; image 1 + j in those whose number has bit j set; the last one is all zero.

    Shape (2 + bits of a slot number, count * bits / 8), read-only.
    """
    numbers = np.arange(count, dtype=np.uint64)
    planes = [numbers >> np.uint64(bit) & np.uint64(1) for bit in range(bit_length(count))]
    images = pack(np.stack([np.ones_like(numbers), *planes, np.zeros_like(numbers)]) * np.uint64(one_bits), bits)
    images.flags.writeable = False
    return images


def bit_length(count: int) -> int:
    """Bits needed to number `count` things from 0; at least 1."""
    return max(1, (count - 1).bit_length())
