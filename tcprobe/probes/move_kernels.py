"""Kernels of matrix moves, and the bits that they move.

Shared memory has more rows than a warp has lanes. In block (image, pattern) the lanes fill shared memory, or the
registers, from an image in global memory. Then every lane passes its address of the pattern to the move, and the result
is stored raw.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Place, Role
from tcprobe.isa.rows.moves import ROW_BYTES
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.probes import ptx
from tcprobe.probes.ptx import POISON, EmulatedCore, Kernel, Launch
from tcprobe.probes.slots import bit_length

SIZE = 4096  # bytes of shared memory: 256 rows of ROW_BYTES
NOT_MOVED = -1


@dataclass(frozen=True)
class LoadMatrices:
    """The op of ldmatrix. Its machine code is a single instruction and does not show what that does."""

    instruction: Instruction
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Bits of a slot above its element are zero; for s8 they repeat the sign."""
        images, patterns = launch.inputs
        slots, places = _moved_bits(self.instruction, patterns, tables)
        d = self.instruction.fragment("d")
        out = np.zeros((len(patterns), len(images), d.slots, d.slot_bits), np.uint8)
        elements = unpack_bits(images)[:, places].swapaxes(0, 1)
        out[:, :, slots, : places.shape[2]] = elements
        if d.type == "s8":
            out[:, :, slots, places.shape[2] :] = elements[..., -1:]
        return pack_bits(out)


@dataclass(frozen=True)
class StoreMatrices:
    """The op of stmatrix, into memory filled with POISON."""

    instruction: Instruction
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Memory that no slot is stored to keeps POISON."""
        images, patterns = launch.inputs
        slots, places = _moved_bits(self.instruction, patterns, tables)
        a = self.instruction.fragment("a")
        memory = np.tile(unpack_bits(np.full((1, SIZE), POISON, np.uint8)), (len(patterns), len(images), 1))
        for pattern, where in zip(memory, places, strict=True):
            pattern[:, where] = unpack_bits(images).reshape(len(images), a.slots, a.slot_bits)[:, slots]
        return pack_bits(memory)


@dataclass(frozen=True)
class ExchangeMatrix:
    """The op of movmatrix."""

    instruction: Instruction
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Each slot of D gets its element from the slot of A that holds it."""
        a, d = self.instruction.fragments
        slot_bits = unpack_bits(launch.inputs[0]).reshape(-1, a.slots, a.slot_bits)
        holders = tables.table(a).inverse
        return pack_bits(slot_bits[:, [holders[cell][0] for cell in tables.table(d).cells if cell is not None]])


def _moved_bits(instruction: Instruction, address_patterns: Bytes, tables: EmulatedCore) -> tuple[Ints, Ints]:
    """(used slots; the memory bits of each: (patterns, slots, bits of an element))."""
    cells = {slot: cell for slot, cell in enumerate(tables.table(in_registers(instruction)).cells) if cell is not None}
    lane_of = {row: lanes[0] for (row,), lanes in tables.table(instruction.fragment("address")).inverse.items()}
    lanes, cols = [lane_of[row] for row, _ in cells.values()], np.array([col for _, col in cells.values()])
    width = in_memory(instruction).slot_bits
    starts = 8 * address_patterns.view(np.uint32).astype(np.int64)[:, lanes] + width * cols
    return np.array(list(cells)), starts[..., None] + np.arange(width)


def in_registers(instruction: Instruction) -> Fragment:
    """The operand in registers: D of ldmatrix, A of stmatrix."""
    return next(f for f in instruction.fragments if f.role is not Role.ADDRESS)


def in_memory(instruction: Instruction) -> Operand:
    """The same matrices in shared memory; `slot_bits` is the width of an element there."""
    return next(operand for operand in instruction.operands if operand.place is Place.SHARED)


def patterns(size: int = ROW_BYTES) -> Words:
    """Addresses of rows of `size` bytes in shared memory, (patterns, lanes): two strided, two scattered."""
    regular = [list(range(0, step * WARP, step)) for step in (1, 7)]
    scattered = [random.Random(seed).sample(range(SIZE // size), WARP) for seed in (1, 2)]
    return np.array([*regular, *scattered], np.uint32) * np.uint32(size)


def launch(instruction: Instruction, lane_addresses: Words) -> Launch:
    """ldmatrix or stmatrix with address patterns of shape (patterns, lanes); blocks are (image, pattern)."""
    text, registers_fragment = kernel(instruction), in_registers(instruction)
    registers, loads = WARP * ptx.thread_bytes(registers_fragment), isinstance(text.op, LoadMatrices)
    images = bit_codes(8 * (SIZE if loads else registers))
    grid, size = (len(images), len(lane_addresses), 1), registers if loads else SIZE
    return Launch(text, grid, (images, lane_addresses.view(np.uint8)), 0, grid[0] * grid[1] * size)


# kernels

SHARED = (f".shared .align {ROW_BYTES} .b8 memory[{SIZE}];", ".reg .u32 %base, %place, %address;", ".reg .b32 %w<4>;")
STEPS = range(0, SIZE, ROW_BYTES * WARP)  # the warp copies shared memory 16 bytes per lane at a time
WORDS = "{%w0, %w1, %w2, %w3}"
PLACE = ("mov.u32 %base, memory;", f"mad.lo.u32 %place, %lane, {ROW_BYTES}, %base;")
ADDRESS = (
    "mad.lo.u32 %image, %y, 32, %lane;",
    "mad.wide.u32 %addresses, %image, 4, %addresses;",
    "ld.global.u32 %address, [%addresses];",
    "add.u32 %address, %address, %base;",
    "bar.sync 0;",
)
OUTPUT = "mad.lo.u32 %image, %y, %nx, %x;"


def kernel(instruction: Instruction) -> Kernel:
    """The probe of a move."""
    op, pointers, registers, body = _KERNELS[instruction.family](instruction)
    name = ptx.identifier(instruction.id)
    declared = (ptx.declare(f.operand, f) for f in instruction.fragments if f.role is not Role.ADDRESS)
    text = ptx.entry(name, pointers, (*registers, *declared), body)
    return Kernel(name, op, text, instruction.target)


KernelParts = tuple[ptx.Op, tuple[str, ...], tuple[str, ...], list[str]]


def _load_kernel(instruction: Instruction) -> KernelParts:
    d = instruction.fragment("d")
    body = [
        *PLACE,
        f"mad.wide.u32 %in, %x, {SIZE}, %in;",
        f"mad.wide.u32 %in, %lane, {ROW_BYTES}, %in;",
        *(
            line
            for offset in STEPS
            for line in (f"ld.global.v4.b32 {WORDS}, [%in+{offset}];", f"st.shared.v4.b32 [%place+{offset}], {WORDS};")
        ),
        *ADDRESS,
        f"{instruction.name} {ptx.braces('d', d)}, [%address];",
        OUTPUT,
        *ptx.point("out", "%image", d),
        *ptx.store("out", "d", d),
    ]
    return LoadMatrices(instruction), ("in", "addresses", "out"), SHARED, body


def _store_kernel(instruction: Instruction) -> KernelParts:
    a = instruction.fragment("a")
    body = [
        *PLACE,
        *(f"mov.b32 %w{word}, 0x{POISON * 0x01010101:x};" for word in range(4)),
        *(f"st.shared.v4.b32 [%place+{offset}], {WORDS};" for offset in STEPS),
        *ptx.point("in", "%x", a),
        *ptx.load("in", "a", a),
        *ADDRESS,
        f"{instruction.name} [%address], {ptx.braces('a', a)};",
        "bar.sync 0;",
        OUTPUT,
        f"mad.wide.u32 %out, %image, {SIZE}, %out;",
        f"mad.wide.u32 %out, %lane, {ROW_BYTES}, %out;",
        *(
            line
            for offset in STEPS
            for line in (f"ld.shared.v4.b32 {WORDS}, [%place+{offset}];", f"st.global.v4.b32 [%out+{offset}], {WORDS};")
        ),
    ]
    return StoreMatrices(instruction), ("in", "addresses", "out"), SHARED, body


def _exchange_kernel(instruction: Instruction) -> KernelParts:
    a, d = instruction.fragments
    body = [
        *ptx.point("in", "%x", a),
        *ptx.load("in", "a", a),
        f"{instruction.name} %d0, %a0;",
        *ptx.point("out", "%x", d),
        *ptx.store("out", "d", d),
    ]
    return ExchangeMatrix(instruction), ("in", "out"), (), body


_KERNELS = {"ldmatrix": _load_kernel, "stmatrix": _store_kernel, "movmatrix": _exchange_kernel}


# bits


def bit_codes(count: int) -> Bytes:
    """Images of `count` bits in which bit n has one binary digit of n, lowest digit first; then their complements.

    Shape (images, count / 8), packed low bits first.
    """
    digits = np.arange(count) >> np.arange(bit_length(count))[:, None] & 1
    return np.packbits(np.concatenate([digits, digits ^ 1]).astype(np.uint8), axis=1, bitorder="little")


def numbers(bit_images: Bytes) -> Ints:
    """The number that each bit encodes, NOT_MOVED if none; from images of shape (..., images, bits)."""
    plain, inverted = np.split(bit_images, 2, axis=-2)
    moved = (plain ^ inverted).all(axis=-2)
    digits = np.arange(plain.shape[-2])[:, None]
    return np.where(moved, (plain.astype(np.int64) << digits).sum(axis=-2), NOT_MOVED)


def unpack_bits(raw: Bytes) -> Bytes:
    """Bytes as bits along the last axis, low bits first."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=-1, bitorder="little")


def pack_bits(planes: Bytes) -> Bytes:
    """Bits as bytes in one row, low bits first."""
    return np.packbits(planes.reshape(-1), bitorder="little")
