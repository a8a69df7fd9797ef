"""Slots in raw memory: numbers of 1 to 64 bits packed into bytes and back, low bits first; and what they hold.

Registers of a thread are contiguous, and so are threads: a register image is the flat array of its slots. A memory
image is the flat array of its elements.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.structure import elements
from tcprobe.layout.table import Table, slot_table

_WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
RAW: dict[str, Any] = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}


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


def element_numbers(table: Table, fragment: Fragment) -> tuple[Ints, Ints]:
    """(element number, slot) of every used slot; elements are numbered in the order (product, row, col)."""
    row, col, product = elements(table)
    used = np.flatnonzero(row >= 0)
    return ((product * fragment.rows + row) * fragment.cols + col)[used], used


def from_slots(table: Table, fragment: Fragment, slot_values: Array) -> Array:
    """Elements from (.., slots), as (.., elements): of several holders the last one counts; zero if there is none."""
    index, used = element_numbers(table, fragment)
    numbers = np.zeros((*slot_values.shape[:-1], fragment.products * fragment.rows * fragment.cols), slot_values.dtype)
    numbers[..., index] = slot_values[..., used]
    return numbers


def into_slots(table: Table, fragment: Fragment, numbers: Array) -> Array:
    """The inverse of `from_slots`; zero in slots that hold nothing."""
    index, used = element_numbers(table, fragment)
    slots = np.zeros((*numbers.shape[:-1], fragment.slots), numbers.dtype)
    slots[..., used] = numbers[..., index]
    return slots


def place_table(fragment: Fragment, row: Ints, col: Ints) -> Table:
    """A table from the row and the column of every slot, -1 if it is unused."""
    values = {
        name: tuple(None if v < 0 else v for v in places.tolist()) for name, places in (("row", row), ("col", col))
    }
    return slot_table(fragment.threads, fragment.elements, values)


class InMemory(NamedTuple):
    """The layout of a matrix in memory, "row" or "col"; its lines are `ldm` elements apart."""

    layout: str
    ldm: int


def positions(table: Table, fragment: Fragment, memory: InMemory) -> tuple[Ints, Ints]:
    """(position in memory, in elements; slot) of every used slot."""
    index, used = element_numbers(table, fragment)
    row, col = np.divmod(index, fragment.cols)
    return (row * memory.ldm + col if memory.layout == "row" else col * memory.ldm + row), used
