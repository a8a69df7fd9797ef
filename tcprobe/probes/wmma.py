"""wmma fragments measured through memory: what wmma.load brings where, what wmma.store puts where.

Load: every memory element, padding included, holds its own position, cut into pieces that the element
type can carry (one launch image a piece). Each piece goes a second time with all bits inverted: a slot
whose two readings are not each other's complement was not loaded at all. Two leading dimensions are used.
Store: registers hold slot numbers; memory shows which slot went where, and that nothing else was touched.
Nothing computes, so any bit pattern is safe in any type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import THREADS, Fragment
from tcprobe.probes import ptx
from tcprobe.probes.ptx import POISON, Bytes, Kernel, Launch, Load, Store
from tcprobe.probes.slots import bit_length, pack, unpack

Ints = NDArray[np.int64]
PAD_BITS = 256  # keeps every leading dimension a multiple of 16 bytes (PTX ISA 9.7.14.4.3)
UNUSED = -1


def load_kernel(fragment: Fragment, layout: str) -> Kernel:
    """wmma.load of operand a, b or c from `layout`; raw registers to memory."""
    shape, name = fragment.shape, f"wmma.load.{fragment.operand}.{layout}.{fragment.shape}.{fragment.type}"
    load = f"wmma.load.{fragment.operand}.sync.aligned.{layout}.{shape}.global.{fragment.type}"
    body = [
        f"mad.wide.u32 %in, %x, {image_bytes(fragment, layout)}, %in;",
        f"{load} {ptx.braces('r', fragment)}, [%in], %ldm;",
        *ptx.point("out", "%x", fragment),
        *ptx.move("st", "out", "r", fragment),
    ]
    text = ptx.entry(ptx.identifier(name), ("in", "out"), (ptx.declare("r", fragment),), body)
    return Kernel(ptx.identifier(name), Load(fragment, layout), text, fragment.target.at_least(ptx.ALIGNED))


def store_kernel(fragment: Fragment, layout: str) -> Kernel:
    """Raw registers from memory; wmma.store of operand d to `layout`."""
    name = f"wmma.store.d.{layout}.{fragment.shape}.{fragment.type}"
    body = [
        *ptx.point("in", "%x", fragment),
        *ptx.move("ld", "in", "r", fragment),
        f"mad.wide.u32 %out, %x, {image_bytes(fragment, layout)}, %out;",
        f"wmma.store.d.sync.aligned.{layout}.{fragment.shape}.global.{fragment.type} "
        f"[%out], {ptx.braces('r', fragment)}, %ldm;",
    ]
    text = ptx.entry(ptx.identifier(name), ("in", "out"), (ptx.declare("r", fragment),), body)
    return Kernel(ptx.identifier(name), Store(fragment, layout), text, fragment.target.at_least(ptx.ALIGNED))


def leading_dimensions(fragment: Fragment, layout: str) -> tuple[int, int]:
    """The tight and the padded leading dimension, in elements."""
    tight = fragment.cols if layout == "row" else fragment.rows
    return tight, tight + PAD_BITS // fragment.slot_bits


def image_bytes(fragment: Fragment, layout: str) -> int:
    """Bytes from one memory image to the next, sized for the padded leading dimension."""
    lines = fragment.rows if layout == "row" else fragment.cols
    return lines * leading_dimensions(fragment, layout)[1] * fragment.slot_bits // 8


def load_launch(fragment: Fragment, layout: str, ldm: int) -> Launch:
    """One block per piece and per inverted piece."""
    images = _pieces(_image_elements(fragment, layout), fragment.slot_bits)
    grid = (len(images), 1, 1)
    size = len(images) * THREADS * ptx.thread_bytes(fragment)
    return Launch(load_kernel(fragment, layout), grid, (pack(images, fragment.slot_bits),), ldm, size)


def store_launch(fragment: Fragment, layout: str, ldm: int) -> Launch:
    """As `load_launch`, the slot numbers being in the registers."""
    images = _pieces(THREADS * fragment.elements, fragment.slot_bits)
    grid = (len(images), 1, 1)
    size = len(images) * image_bytes(fragment, layout)
    return Launch(store_kernel(fragment, layout), grid, (pack(images, fragment.slot_bits),), ldm, size)


def decode_load(launch: Launch, raw: Bytes) -> Ints:
    """Element numbers (row * cols + col) by slot, UNUSED where the load wrote nothing; shape (slots,).

    ProbeError if a slot holds padding or a position outside the image.
    """
    fragment, layout = _moved(launch)
    positions, loaded = _join(raw, launch.grid[0], fragment)
    elements = element_of(fragment, layout, launch.ldm, positions)
    wrong = np.flatnonzero(loaded & (elements < 0))
    if len(wrong):
        lane, i = divmod(int(wrong[0]), fragment.elements)
        where = f"memory position {positions[wrong[0]]}, which is padding"
        raise ProbeError(f"{launch.kernel.name}: lane {lane} element {i} holds {where}.")
    return np.where(loaded, elements, UNUSED)


def decode_store(launch: Launch, raw: Bytes) -> Ints:
    """Element numbers by slot, as `decode_load`; shape (slots,).

    ProbeError if an element was not written, padding was, or a number is no slot's.
    """
    fragment, layout = _moved(launch)
    numbers, written = _join(raw, launch.grid[0], fragment)
    elements = element_of(fragment, layout, launch.ldm, np.arange(len(numbers)))
    inside = elements >= 0
    outside = unpack(raw.reshape(launch.grid[0], -1), fragment.slot_bits)[:, ~inside]
    poison = unpack(np.full((1, fragment.slot_bits // 8), POISON, np.uint8), fragment.slot_bits)[0, 0]
    missing, strayed = int((~written[inside]).sum()), int((outside != poison).sum())
    if missing or strayed:
        raise ProbeError(f"{launch.kernel.name}: {missing} elements not written, {strayed} written outside the matrix.")
    slots = numbers[inside]
    if slots.max() >= THREADS * fragment.elements or np.bincount(slots).max() > 1:
        raise ProbeError(f"{launch.kernel.name}: memory holds numbers that are no slot's, or one slot twice.")
    table = np.full(THREADS * fragment.elements, UNUSED, np.int64)
    table[slots] = elements[inside]
    return table


def _moved(launch: Launch) -> tuple[Fragment, str]:
    """What a load or store launch moves, and the memory layout."""
    op = launch.kernel.op
    if not isinstance(op, Load | Store):
        raise TypeError(f"{launch.kernel.name} is neither a load nor a store.")
    return op.fragment, op.layout


def element_of(fragment: Fragment, layout: str, ldm: int, positions: NDArray[Any]) -> Ints:
    """row * cols + col of memory positions, -1 for padding and beyond."""
    line, place = np.divmod(positions.astype(np.int64), ldm)
    row, col = (line, place) if layout == "row" else (place, line)
    return np.where((row < fragment.rows) & (col < fragment.cols), row * fragment.cols + col, -1)


def _image_elements(fragment: Fragment, layout: str) -> int:
    return image_bytes(fragment, layout) * 8 // fragment.slot_bits


def _pieces(count: int, bits: int) -> NDArray[np.uint64]:
    """Numbers 0 to count-1 cut into pieces of `bits` bits, then the same pieces inverted; (2 * pieces, count)."""
    bits_used = min(bits, 32)
    shifts = np.arange(0, bit_length(count), bits_used, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    pieces = np.arange(count, dtype=np.uint64) >> shifts[:, None] & mask
    return np.concatenate([pieces, pieces ^ mask])


def _join(raw: Bytes, images: int, fragment: Fragment) -> tuple[Ints, NDArray[np.bool_]]:
    """Numbers put together from their pieces, and where the inverted pieces bear them out."""
    values = unpack(raw.reshape(images, -1), fragment.slot_bits).astype(np.uint64)
    mask = np.uint64((1 << fragment.slot_bits) - 1)
    pieces, inverted = np.split(values, 2)
    shifts = np.arange(len(pieces), dtype=np.uint64)[:, None] * np.uint64(min(fragment.slot_bits, 32))
    moved = (pieces ^ inverted == mask).all(axis=0)
    return np.where(moved, (pieces << shifts).sum(axis=0), 0).astype(np.int64), moved
