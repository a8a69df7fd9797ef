"""Matrix moves, measured bit by bit: ldmatrix, stmatrix, movmatrix.

Every bit encodes its own number, one binary digit per image; each image is repeated with all bits inverted. A bit whose
two readings are not complements was not moved. Four patterns give every lane the address of a row of its own. Under
each of them a moved bit must belong to the row of the same lane, at the same place in it; this shows which lane's
address counts.

Rows are numbered in the order of the lanes whose addresses count. movmatrix moves from registers to registers, so its
rows and columns are a convention. They are taken from the first reference whose layouts predict the measured exchange.

Shared memory has more rows than a warp has lanes. In block (image, pattern) the lanes fill shared memory, or the
registers, from an image in global memory. Then every lane passes its address of the pattern to the move, and the result
is stored raw.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Place, Role
from tcprobe.isa.rows.moves import ROW_BYTES, row_bytes
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.layout.table import Table, slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import OWN_RULE, Conclusion, Context, FormExperiment, Readout, stated_tables
from tcprobe.probes.ptx import POISON, EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import bit_length
from tcprobe.store.finding import MEMORY

SIZE = 4096  # bytes of shared memory: 256 rows of ROW_BYTES
NOT_MOVED = -1


class LoadMatrices(FormOp):
    """The op of ldmatrix. Its machine code is a single instruction and does not show what that does."""

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


class StoreMatrices(FormOp):
    """The op of stmatrix, into memory filled with POISON."""

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Memory that no slot is stored to keeps POISON."""
        images, patterns = launch.inputs
        slots, places = _moved_bits(self.instruction, patterns, tables)
        a = self.instruction.fragment("a")
        memory = np.tile(unpack_bits(np.full((1, SIZE), POISON, np.uint8)), (len(patterns), len(images), 1))
        for pattern, where in zip(memory, places, strict=True):
            pattern[:, where] = unpack_bits(images).reshape(len(images), a.slots, a.slot_bits)[:, slots]
        return pack_bits(memory)


class ExchangeMatrix(FormOp):
    """The op of movmatrix."""

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

STEPS = range(0, SIZE, ROW_BYTES * WARP)
PTX = Macros(globals(), ptx=ptx, POISON=POISON)


def kernel(instruction: Instruction) -> Kernel:
    """The probe of a move."""
    row, fragments = instruction, [f for f in instruction.fragments if f.role is not Role.ADDRESS]
    written_by: dict[str, tuple[ptx.Op, Callable[..., list[str]]]] = {
        "ldmatrix": (LoadMatrices(row), PTX.load),
        "stmatrix": (StoreMatrices(row), PTX.store),
        "movmatrix": (ExchangeMatrix(row), PTX.exchange),
    }
    op, written = written_by[row.family]
    name, in_shared = ptx.identifier(row.id), row.family != "movmatrix"
    registers = [*(PTX.shared() if in_shared else []), *(ptx.declare(f.operand, f) for f in fragments)]
    pointers = ("in", "addresses", "out") if in_shared else ("in", "out")
    return Kernel(name, op, ptx.entry(name, pointers, registers, written(row, *fragments)), row.target)


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


FAMILIES = ("ldmatrix", "stmatrix", "movmatrix")


@dataclass(frozen=True)
class MemoryMove(FormExperiment):
    """ldmatrix or stmatrix. For every bit of the registers a reading has "lane" and "offset": whose row, and which bit
    of it.
    """

    def launches(self) -> list[Launch]:
        """One launch: images x address patterns."""
        return [launch(self.instruction, patterns(row_bytes(self.instruction)))]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """ "lane" and "offset" of every bit of the registers; NOT_MOVED in both if it is not in memory.

        ProbeError if patterns contradict each other, or something outside the rows was read or written.
        """
        ((launched,), (raw,)) = launches, outputs
        shape = (launched.grid[1], launched.grid[0], -1)
        read = _sources_of_load if isinstance(launched.kernel.op, LoadMatrices) else _sources_of_store
        places = read(self.instruction, unpack_bits(raw.reshape(shape)))
        rows = [_rows(self.instruction, *both) for both in zip(places, launched.inputs[1].view(np.uint32), strict=True)]
        for pattern, other in enumerate(rows[1:], 1):
            differs = np.flatnonzero((other != rows[0]).any(axis=0))
            if len(differs):
                raise ProbeError(
                    f"{self.instruction.name}: address patterns 0 and {pattern} disagree in {len(differs)} bits, first "
                    f"bit {differs[0]}: lane and offset {rows[0][:, differs[0]]} and {other[:, differs[0]]}."
                )
        return {"lane": rows[0][0], "offset": rows[0][1]}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """The tables of the registers and of the addresses.

        ProbeError if an element is torn, missing, or held twice.
        """
        registers, memory = in_registers(self.instruction), in_memory(self.instruction)
        lanes, cols, place = _whole(self.instruction, reading["lane"], reading["offset"])
        rows = {lane: row for row, lane in enumerate(sorted(set(lanes.tolist())))}
        elements = [(rows[lane], col) for lane, col in zip(lanes.tolist(), cols.tolist(), strict=True)]
        if len(rows) != registers.rows or len(set(elements)) != registers.rows * registers.cols:
            raise ProbeError(
                f"{self.instruction.name}: addresses of {len(rows)} lanes count, and {len(set(elements))} elements are "
                f"moved, where there are {registers.rows} rows of {registers.cols}."
            )
        values = {"row": tuple(row for row, _ in elements), "col": tuple(col for _, col in elements)}
        tables = {
            registers.operand: slot_table(WARP, registers.elements, values),
            "address": slot_table(WARP, 1, {"row": tuple(rows.get(lane) for lane in range(WARP))}),
        }
        return Conclusion(tables, MEMORY + (place if memory.slot_bits < registers.slot_bits else ""))


@dataclass(frozen=True)
class RegisterMove(FormExperiment):
    """movmatrix. For every bit of D a reading has "source", the number of the bit of A that it comes from."""

    def launches(self) -> list[Launch]:
        """One launch, with a block for each image."""
        a, d = self.fragments
        images = bit_codes(8 * WARP * ptx.thread_bytes(a))
        size = len(images) * WARP * ptx.thread_bytes(d)
        return [Launch(kernel(self.instruction), (len(images), 1, 1), (images,), 0, size)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """ "source" of every bit of D; ProbeError if a bit does not come from A."""
        sources = numbers(unpack_bits(outputs[0].reshape(launches[0].grid[0], -1)))
        missing = int((sources == NOT_MOVED).sum())
        if missing:
            raise ProbeError(f"{self.instruction.name}: {missing} bits of D are not a bit of A.")
        return {"source": sources}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables numbered as in the first reference that predicts the exchange, else by rule.

        ProbeError if slots are torn, or a slot of A is in no slot of D.
        """
        a, d = self.instruction.fragments
        of_slots = reading["source"].reshape(d.slots, d.slot_bits)
        sources = of_slots[:, 0] // a.slot_bits
        whole = of_slots == sources[:, None] * a.slot_bits + np.arange(a.slot_bits)
        if not whole.all() or len(set(sources.tolist())) != a.slots:
            raise ProbeError(f"{self.instruction.name}: not every slot of D holds one slot of A, each another.")
        for name, stated in stated_tables((a, d), context.device):
            if stated["d"] == _through(stated["a"], sources):
                return Conclusion(stated, name)
        rows, cols = zip(*(divmod(slot, a.cols) for slot in range(a.slots)), strict=True)
        table = slot_table(WARP, a.elements, {"row": rows, "col": cols})
        return Conclusion({"a": table, "d": _through(table, sources)}, OWN_RULE)


def experiments() -> list[MemoryMove | RegisterMove]:
    """One experiment for each form."""
    rows = inventory.of_family(*FAMILIES)
    return [(MemoryMove if row.of_role(Role.ADDRESS) else RegisterMove)(row) for row in rows]


# reading


def _sources_of_load(instruction: Instruction, registers: Bytes) -> Ints:
    """The memory bit of every bit of the registers, by pattern; `registers` are (patterns, images, bits).

    ProbeError if a bit that does not come from memory differs between images.
    """
    sources = numbers(registers)
    unsteady = int(((sources == NOT_MOVED) & (registers != registers[:, :1]).any(axis=1)).sum())
    if unsteady:
        raise ProbeError(f"{instruction.name}: {unsteady} bits of registers change, but not as any bit of memory does.")
    return sources


def _sources_of_store(instruction: Instruction, memory_bits: Bytes) -> Ints:
    """As `_sources_of_load`, from the bits of memory after each pattern.

    ProbeError if anything else was written, or a bit was written twice.
    """
    sources = numbers(memory_bits)
    poison = unpack_bits(np.full(SIZE, POISON, np.uint8))
    strayed = int(((sources == NOT_MOVED)[:, None] & (memory_bits != poison)).sum())
    count = 8 * WARP * ptx.thread_bytes(in_registers(instruction))
    if strayed or sources.max() >= count:
        raise ProbeError(f"{instruction.name}: {strayed} bits of memory hold something that is in no register.")
    places = np.full((len(sources), count), NOT_MOVED)
    for pattern, pattern_sources in zip(places, sources, strict=True):
        (in_memory_bits,) = np.nonzero(pattern_sources != NOT_MOVED)
        pattern[pattern_sources[in_memory_bits]] = in_memory_bits
        if (pattern != NOT_MOVED).sum() != len(in_memory_bits):
            raise ProbeError(f"{instruction.name}: a bit of a register is in memory twice.")
    return places


def _rows(instruction: Instruction, places: Ints, lane_addresses: Words) -> Ints:
    """(2, bits): the lane whose row has each memory bit, and its number in that row; ProbeError if a bit is in none."""
    size = row_bytes(instruction)
    owners = np.full(SIZE // size, NOT_MOVED)
    owners[lane_addresses // size] = np.arange(WARP)
    moved = places != NOT_MOVED
    lanes = np.where(moved, owners[places // (8 * size)], NOT_MOVED)
    wrong = np.flatnonzero(moved & (lanes == NOT_MOVED))
    if len(wrong):
        raise ProbeError(
            f"{instruction.name}: bit {wrong[0]} of the registers is bit {places[wrong[0]]} of shared memory, "
            "which is in no row that a lane points to."
        )
    return np.stack([lanes, np.where(moved, places % (8 * size), NOT_MOVED)])


def _whole(instruction: Instruction, lanes: Ints, offsets: Ints) -> tuple[Ints, Ints, str]:
    """(lane whose row each slot is in, column, where in a slot the element is, in words).

    ProbeError unless every slot holds one whole element of memory, its bits in order, at the same place in all slots.
    Above it there is nothing from memory, or in all slots the element's highest bit again.
    """
    registers, width = in_registers(instruction), in_memory(instruction).slot_bits
    bits = registers.slots, registers.slot_bits
    lanes, offsets = lanes.reshape(bits), offsets.reshape(bits)
    start = int((lanes[0] != NOT_MOVED).argmax())
    extended = start + width < registers.slot_bits and lanes[0, start + width] != NOT_MOVED
    element = slice(start, registers.slot_bits if extended else start + width)
    moved = np.zeros(registers.slot_bits, bool)
    moved[element] = True
    first, steps = offsets[:, start], np.minimum(np.arange(moved.sum()), width - 1)
    fits = ((lanes != NOT_MOVED) == moved).all(axis=1) & (lanes[:, element] == lanes[:, start, None]).all(axis=1)
    fits &= (offsets[:, element] == first[:, None] + steps).all(axis=1) & (first % width == 0)
    fits &= first // width < registers.cols
    if not fits.all():
        lane, i = divmod(int(fits.argmin()), registers.elements)
        raise ProbeError(f"{instruction.name}: lane {lane} element {i} does not hold one element of {width} bits.")
    words = f"; an element is in bits {start} to {start + width - 1} of its byte"
    return lanes[:, start], first // width, words + (", its highest bit in those above too" if extended else "")


def _through(table: Table, sources: Ints) -> Table:
    """The table in which slot i holds the element that slot sources[i] holds in `table`."""
    return table.with_values({name: tuple(column[s] for s in sources) for name, column in table.values.items()})
