"""wmma fragments, measured through memory: what wmma.load loads into which slot, where wmma.store stores each slot.

Load: every memory element, padding included, holds its own position, cut into pieces that fit the element type (one
image for each). Each piece is repeated with all bits inverted: a slot whose two readings are not complements was not
loaded. Two leading dimensions are used. Store: registers hold slot numbers; memory shows where each slot went, and that
nothing else was written. Nothing is computed, so any bit pattern is safe in any type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Array, Bools, Bytes, Ints
from tcprobe.layout.table import Table, slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, Context, Readout
from tcprobe.probes.ptx import POISON, EmulatedCore, Kernel, Launch
from tcprobe.probes.slots import InMemory, bit_length, pack, positions, unpack
from tcprobe.store.finding import MEMORY

PAD_BITS = 256  # keeps every leading dimension a multiple of 16 bytes (PTX ISA 9.7.14.4.3)
UNUSED = -1


@dataclass(frozen=True)
class Load:
    """The op wmma.load of `fragment` from memory in `layout` ("row" or "col")."""

    fragment: Fragment
    layout: str
    from_code: bool = True

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Every used slot gets its element; an unused one holds something that is not an element."""
        memory, table = unpack(launch.inputs[0], self.fragment.slot_bits), tables.table(self.fragment)
        places, used = positions(table, self.fragment, InMemory(self.layout, launch.ldm))
        registers = np.full((len(memory), table.points), 1, memory.dtype)
        registers[:, used] = memory[:, places]
        return pack(registers, self.fragment.slot_bits).reshape(-1)


@dataclass(frozen=True)
class Store:
    """The op wmma.store of `fragment` to memory in `layout` ("row" or "col")."""

    fragment: Fragment
    layout: str
    from_code: bool = True

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Memory that no slot is stored to keeps POISON."""
        registers = unpack(launch.inputs[0], self.fragment.slot_bits)
        places, used = positions(tables.table(self.fragment), self.fragment, InMemory(self.layout, launch.ldm))
        poison = np.full((len(registers), launch.output_bytes // len(registers)), POISON, np.uint8)
        memory = unpack(poison, self.fragment.slot_bits).copy()
        memory[:, places] = registers[:, used]
        return pack(memory, self.fragment.slot_bits).reshape(-1)


@dataclass(frozen=True)
class MemoryExperiment:
    """A wmma fragment through wmma.load and wmma.store; all launches must give the same table.

    A and B: their own memory layout, with two leading dimensions. Accumulators: load.c and store.d, by row and by
    column, with two leading dimensions each.
    """

    id: str
    fragments: tuple[Fragment, ...]
    methods: tuple[str, ...] = ("live", "sass")
    early: bool = True
    group: str = "wmma fragments"

    def launches(self) -> list[Launch]:
        """One launch for each fragment, memory layout and leading dimension."""
        return [
            launch(fragment, layout, ldm)
            for fragment in self.fragments
            for layout in ([fragment.layout] if fragment.layout else ["row", "col"])
            for ldm in leading_dimensions(fragment, layout)
        ]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """ "elements": the element number of every slot; ProbeError unless all launches agree."""
        read = [
            (decode_store if isinstance(launch.kernel.op, Store) else decode_load)(launch, raw)
            for launch, raw in zip(launches, outputs, strict=True)
        ]
        for launch, table in zip(launches, read, strict=True):
            differs = np.flatnonzero(table != read[0])
            if len(differs):
                lane, i = divmod(int(differs[0]), self.fragments[0].elements)
                raise ProbeError(
                    f"{launch.kernel.name} (ldm {launch.ldm}) and {launches[0].kernel.name} disagree in "
                    f"{len(differs)} slots, first lane {lane} element {i}: {table[differs[0]]}, {read[0][differs[0]]}."
                )
        return {"elements": read[0]}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """The table; ProbeError unless every element is held as often as the slots allow."""
        table = memory_table(self.fragments[0], reading["elements"].tolist())
        return Conclusion({fragment.operand: table for fragment in self.fragments}, MEMORY)


def experiments() -> list[MemoryExperiment]:
    """One experiment for each wmma fragment; C and D of a type share one."""
    groups: dict[str, list[Fragment]] = {}
    for fragment in inventory.of_a_warp().values():
        if fragment.family == "wmma":
            groups.setdefault(fragment.experiment, []).append(fragment)
    return [MemoryExperiment(id_, tuple(group)) for id_, group in groups.items()]


def memory_table(fragment: Fragment, numbers: Sequence[int]) -> Table:
    """The table of element numbers row * cols + col by slot; -1 means unused.

    ProbeError unless every element is held as often as the slots allow. That is so on every GPU seen, and rarely after
    a failed probe. A GPU where it is not so must be examined before anything is published.
    """
    rows, cols = fragment.rows, fragment.cols
    holders = Counter(numbers)
    wrong = [n for n in range(rows * cols) if holders[n] != fragment.copies]
    if wrong:
        row, col = divmod(wrong[0], cols)
        raise ProbeError(
            f"{fragment.id}: {len(wrong)} elements are not held {fragment.copies} times, "
            f"first row {row} col {col}: {holders[wrong[0]]} times."
        )
    values = {
        "row": tuple(None if n < 0 else n // cols for n in numbers),
        "col": tuple(None if n < 0 else n % cols for n in numbers),
    }
    return slot_table(fragment.threads, fragment.elements, values)


def load_kernel(fragment: Fragment, layout: str) -> Kernel:
    """wmma.load of operand a, b or c from memory in `layout`; its registers are stored raw."""
    shape, name = fragment.shape, f"wmma.load.{fragment.operand}.{layout}.{fragment.shape}.{fragment.type}"
    load = f"wmma.load.{fragment.operand}.sync.aligned.{layout}.{shape}.global.{fragment.type}"
    body = [
        f"mad.wide.u32 %in, %x, {image_bytes(fragment, layout)}, %in;",
        f"{load} {ptx.braces('r', fragment)}, [%in], %ldm;",
        *ptx.point("out", "%x", fragment),
        *ptx.store("out", "r", fragment),
    ]
    text = ptx.entry(ptx.identifier(name), ("in", "out"), (ptx.declare("r", fragment),), body)
    return Kernel(ptx.identifier(name), Load(fragment, layout), text, fragment.target)


def store_kernel(fragment: Fragment, layout: str) -> Kernel:
    """Registers are loaded raw; wmma.store of operand d to memory in `layout`."""
    name = f"wmma.store.d.{layout}.{fragment.shape}.{fragment.type}"
    body = [
        *ptx.point("in", "%x", fragment),
        *ptx.load("in", "r", fragment),
        f"mad.wide.u32 %out, %x, {image_bytes(fragment, layout)}, %out;",
        f"wmma.store.d.sync.aligned.{layout}.{fragment.shape}.global.{fragment.type} "
        f"[%out], {ptx.braces('r', fragment)}, %ldm;",
    ]
    text = ptx.entry(ptx.identifier(name), ("in", "out"), (ptx.declare("r", fragment),), body)
    return Kernel(ptx.identifier(name), Store(fragment, layout), text, fragment.target)


def leading_dimensions(fragment: Fragment, layout: str) -> tuple[int, int]:
    """The tight and the padded leading dimension, in elements."""
    tight = fragment.cols if layout == "row" else fragment.rows
    return tight, tight + PAD_BITS // fragment.slot_bits


def image_bytes(fragment: Fragment, layout: str) -> int:
    """Bytes of a memory image, with the padded leading dimension."""
    lines = fragment.rows if layout == "row" else fragment.cols
    return lines * leading_dimensions(fragment, layout)[1] * fragment.slot_bits // 8


def launch(fragment: Fragment, layout: str, ldm: int) -> Launch:
    """One block for each piece and each inverted piece: of positions in memory, or, for D, of slots."""
    memory, registers = image_bytes(fragment, layout), fragment.threads * ptx.thread_bytes(fragment)
    stores, bits = fragment.operand == "d", fragment.slot_bits
    kernel = (store_kernel if stores else load_kernel)(fragment, layout)
    images = _pieces(fragment.slots if stores else memory * 8 // bits, bits)
    size = len(images) * (memory if stores else registers)
    return Launch(kernel, (len(images), 1, 1), (pack(images, bits),), ldm, size)


def decode_load(launch: Launch, raw: Bytes) -> Ints:
    """Element numbers (row * cols + col) by slot, UNUSED if nothing was loaded; shape (slots,).

    ProbeError if a slot holds padding, or a position outside the image.
    """
    fragment, memory = _fragment_and_memory(launch)
    positions, loaded = _join(raw, launch.grid[0], fragment)
    elements = element_of(fragment, memory, positions)
    wrong = np.flatnonzero(loaded & (elements < 0))
    if len(wrong):
        lane, i = divmod(int(wrong[0]), fragment.elements)
        where = f"memory position {positions[wrong[0]]}, which is padding"
        raise ProbeError(f"{launch.kernel.name}: lane {lane} element {i} holds {where}.")
    return np.where(loaded, elements, UNUSED)


def decode_store(launch: Launch, raw: Bytes) -> Ints:
    """Element numbers by slot, as `decode_load`; shape (slots,).

    ProbeError if an element was not written, if anything else was, or if memory holds a number that is not a slot's.
    """
    fragment, memory = _fragment_and_memory(launch)
    numbers, written = _join(raw, launch.grid[0], fragment)
    elements = element_of(fragment, memory, np.arange(len(numbers)))
    inside = elements >= 0
    outside = unpack(raw.reshape(launch.grid[0], -1), fragment.slot_bits)[:, ~inside]
    poison = unpack(np.full((1, fragment.slot_bits // 8), POISON, np.uint8), fragment.slot_bits)[0, 0]
    missing, strayed = int((~written[inside]).sum()), int((outside != poison).sum())
    if missing or strayed:
        raise ProbeError(f"{launch.kernel.name}: {missing} elements not written, {strayed} written outside the matrix.")
    slots = numbers[inside]
    if slots.max() >= fragment.slots or np.bincount(slots).max() > 1:
        raise ProbeError(f"{launch.kernel.name}: memory holds numbers that are not a slot's, or one slot twice.")
    table = np.full(fragment.slots, UNUSED, np.int64)
    table[slots] = elements[inside]
    return table


def _fragment_and_memory(launch: Launch) -> tuple[Fragment, InMemory]:
    """(the fragment that a launch loads or stores, its layout in memory)."""
    op = launch.kernel.op
    if not isinstance(op, Load | Store):
        raise TypeError(f"{launch.kernel.name} is neither a load nor a store.")
    return op.fragment, InMemory(op.layout, launch.ldm)


def element_of(fragment: Fragment, memory: InMemory, positions: Array) -> Ints:
    """row * cols + col for positions in memory; -1 for padding and beyond."""
    line, place = np.divmod(positions.astype(np.int64), memory.ldm)
    row, col = (line, place) if memory.layout == "row" else (place, line)
    return np.where((row < fragment.rows) & (col < fragment.cols), row * fragment.cols + col, -1)


def _pieces(count: int, bits: int) -> NDArray[np.uint64]:
    """Numbers 0 to count - 1, cut into pieces of `bits` bits; then the pieces inverted. (2 * pieces, count)."""
    bits_used = min(bits, 32)
    shifts = np.arange(0, bit_length(count), bits_used, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    pieces = np.arange(count, dtype=np.uint64) >> shifts[:, None] & mask
    return np.concatenate([pieces, pieces ^ mask])


def _join(raw: Bytes, image_count: int, fragment: Fragment) -> tuple[Ints, Bools]:
    """(numbers put together from their pieces, whether the inverted pieces confirm them)."""
    values = unpack(raw.reshape(image_count, -1), fragment.slot_bits).astype(np.uint64)
    mask = np.uint64((1 << fragment.slot_bits) - 1)
    pieces, inverted = np.split(values, 2)
    shifts = np.arange(len(pieces), dtype=np.uint64)[:, None] * np.uint64(min(fragment.slot_bits, 32))
    moved = (pieces ^ inverted == mask).all(axis=0)
    return np.where(moved, (pieces << shifts).sum(axis=0), 0).astype(np.int64), moved
