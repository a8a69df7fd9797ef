"""Which bytes of a block's shared memory instructions read and write, in a kernel's rounds (`iterations`).

In units of 16 bytes: those of a multiply by its descriptors, those of stores and cp.async by the addresses of all
lanes, of a bulk copy from its first on, by its size where that is known. None where they do not follow.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.layout.descriptor import Descriptor
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.kernel import Instruction
from tcprobe.sass.lanes import ALL, Lanes
from tcprobe.sass.reader import Reader
from tcprobe.sass.requests import width
from tcprobe.sass.state import State
from tcprobe.sass.widths import group_sizes

STORES = ("STS", "STSM", "ATOMS", "LDGSTS", "STAS")
FILLS = ("UTMALDG", "UBLKCP.S.G")  # bulk copies from global memory
COPIES_OUT = ("UTMASTG", "UTMAREDG", "UBLKCP.G.S", "UBLKCP.S.S", "UBLKRED")
UNIT = 16  # bytes
WINDOW = 0xFFFFFF  # bits of an address inside a block's shared memory
LINES_A, K_BYTES = 64, 32  # of a warpgroup's multiply
SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}  # bytes, by the code of a descriptor of wgmma
EVERY_LANE = bytes([True] * WARP)
Units = frozenset[int]


def reads_tiles(instruction: Instruction) -> bool:
    """Whether it is a warpgroup's multiply with a factor in shared memory."""
    return _reads_tiles(instruction.form)


@lru_cache(maxsize=1 << 14)
def _reads_tiles(form: Form) -> bool:
    return form.mnemonic.endswith("GMMA") and any(operand.prefix == "gdesc" for operand in form.operands)


def writes_tiles(instruction: Instruction) -> bool:
    """Whether it fills shared memory."""
    return fills(instruction.form)


@lru_cache(maxsize=1 << 14)
def fills(form: Form) -> bool:
    """As `writes_tiles`, by its text."""
    return form.guard != "never" and (form.mnemonic in STORES or form.opcode.startswith(FILLS))


def exact(value: Lanes) -> bool:
    """Whether the place in the block's shared memory is known of every lane."""
    return not (value.xor_unknown | value.unknown | value.add_unknown) & WINDOW


def takes_part(instruction: Instruction, reader: Reader, state: State) -> np.ndarray:
    """The lanes that may execute an instruction."""
    condition = reader.condition(instruction.guard, state.registers)
    active = np.asarray(state.active)
    return active & (condition.known != 0) if condition.exact else active


def writes(instruction: Instruction, reader: Reader, state: State) -> Units | None:
    """What stores, cp.async and bulk copies write; of a bulk copy whose size is not known its first unit."""
    operand = next(o for o in instruction.operands if o.kind == "address")
    if instruction.mnemonic not in STORES:
        return _bulk(operand, instruction, reader, state)
    address = reader.address(operand, state.registers)
    if not exact(address):
        return None
    return _stored(instruction.form, address, takes_part(instruction, reader, state).tobytes())


@lru_cache(maxsize=1 << 12)
def _stored(form: Form, address: Lanes, taking_part: bytes) -> Units:
    """What a store or cp.async writes at places that are known, by the lanes that take part."""
    active = np.frombuffer(taking_part, np.bool_).reshape(-1, WARP)
    known, active = np.broadcast_arrays(address.known & np.uint32(WINDOW), active)
    if form.mnemonic == "STSM":
        count = {"4": 32, "2": 16}.get(form.opcode.rpartition(".")[2], 8)
        known, active = known[:, :count], active[:, :count]
    size = UNIT if form.mnemonic == "STSM" else width(form)
    begins = known[active].astype(np.int64)
    return frozenset(np.unique((begins[:, None] + np.arange(0, size, 4)) // UNIT).tolist())


@lru_cache(maxsize=1 << 12)
def places(value: Lanes, taking_part: bytes) -> frozenset[int]:
    """The places that are known, in the block's shared memory, of the lanes that take part."""
    active = np.frombuffer(taking_part, np.bool_).reshape(-1, WARP)
    known, active = np.broadcast_arrays(value.known & np.uint32(WINDOW), active)
    return frozenset(np.unique(known[active]).tolist())


def reads(instruction: Instruction, reader: Reader, state: State) -> Units | None:
    """What a warpgroup's multiply reads of shared memory, or a bulk copy out of it: where a tensor map says how much,
    its first unit.
    """
    if reads_tiles(instruction):
        return _multiplied(instruction, reader, state)
    if instruction.opcode.startswith(COPIES_OUT):
        operands = [o for o in instruction.operands if o.kind == "address"]
        return _bulk(operands[instruction.mnemonic.startswith("UBLK")], instruction, reader, state)
    return None


def open_ended(instruction: Instruction) -> bool:
    """Whether a tensor map says how much it copies, of which the first unit stands for all."""
    return instruction.mnemonic.startswith("UTMA")


def _bulk(operand: Operand, instruction: Instruction, reader: Reader, state: State) -> Units | None:
    """From the place that the first register of an operand names."""
    (address, *_) = reader.inputs(operand.mask & -operand.mask, state.registers)
    if not exact(address):
        return None
    begins, count = places(address, EVERY_LANE), _bulk_units(instruction, reader, state)
    return frozenset(begin // UNIT + j for begin in begins for j in range(count))


def _bulk_units(instruction: Instruction, reader: Reader, state: State) -> int:
    size = instruction.operands[-1]
    if instruction.mnemonic in ("UBLKCP", "UBLKRED") and size.kind == "UR":
        value = reader.read(size, state.registers)
        if value.exact and value.known.size == 1:
            return max(1, min(int(value.known[0, 0]), 1 << 18) // UNIT)
    return 1


def _multiplied(instruction: Instruction, reader: Reader, state: State) -> Units | None:
    """What a multiply reads of shared memory."""
    operand = next(o for o in instruction.operands if o.prefix == "gdesc")
    words = tuple(reader.inputs(operand.mask, state.registers))
    return _tiles(instruction.form, words, state.active.any(axis=1).tobytes())


@lru_cache(maxsize=1 << 12)
def _tiles(form: Form, registers: tuple[Lanes, ...], active: bytes) -> Units | None:
    """As `_multiplied`, by what the descriptors hold, and the warps that are there."""
    sizes, size = group_sizes(form.opcode), 2 if form.mnemonic == "HGMMA" else 1
    found = frozenset[int]()
    for name, (low, high), lines in (("A", registers[:2], LINES_A), ("B", registers[2:4], sizes[1])):
        if name == "A" and form.operands[1].kind == "R":
            continue
        transposed = any(f"tnsp{name}" in each.part for each in form.operands)
        # the system's bits of an address may reach up to LBO, which swizzled tiles with k contiguous don't have
        used = 0x3FFF if high.exact and not transposed and (high.known >> np.uint32(30)).all() else ALL
        if not high.exact or (low.xor_unknown | low.unknown | low.add_unknown) & used:
            return None
        warps = np.frombuffer(active, np.bool_)
        *rows, there = np.broadcast_arrays(low.known[:, 0] & np.uint32(used), high.known[:, 0], warps)
        for words in set(zip(*(row[there].tolist() for row in rows), strict=True)):
            found |= tile(*words, lines * size if transposed else lines, transposed, size)
    return found


@lru_cache(maxsize=1 << 12)
def tile(low: int, high: int, lines: int, transposed: bool, size: int) -> Units:
    """The units of a factor with this descriptor: `lines`, or bytes of them if contiguous, by 32 bytes of k."""
    start, lbo, sbo = (low & 0x3FFF) << 4, (low >> 16 & 0x3FFF) << 4, (high & 0x3FFF) << 4
    laid = Descriptor(lbo, sbo, SWIZZLE[high >> 30], high >> 17 & 7, start)
    if transposed:
        places = laid.offset("mn", np.arange(0, lines, UNIT)[:, None], np.arange(K_BYTES // size)[None])
    else:
        places = laid.offset("k", np.arange(lines)[:, None], np.arange(0, K_BYTES, UNIT)[None])
    return frozenset(np.unique((places + start) // UNIT).tolist())
