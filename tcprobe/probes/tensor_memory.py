"""tcgen05.ld and tcgen05.st, measured by numbers: each cell of tensor memory has its own number, or each register has.

`kernel` has one tcgen05 instruction, to see what the compiler makes of it. It is assembled, never launched: it neither
allocates tensor memory nor describes matrices. If a name has several spellings, the first is taken: the least number of
repetitions, no optional qualifier, one CTA.

A warp allocates the columns of the load or store, at least 32. For a load, tcgen05.st.32x32b.x1 first writes a number
into every cell, which encodes thread and column; the load brings some of them into registers. For a store, each
register has the number of its slot, and tcgen05.ld.32x32b.x1 reads all columns back; all cells were cleared before. So
rows are the lanes that 32x32b assigns to threads, and columns those of the address; nothing else is assumed about a
layout. Of 32x32b itself the measurement shows that its load and its store agree.

For the value that a reduction adds to a load, one cell at a time is one and all others are zero: the cell feeds the
threads whose maximum is one. All this needs a GPU with tensor memory; elsewhere it is proven on an emulator, and
assembled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.arrays import Bytes
from tcprobe.layout.table import slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, Context, FormExperiment, Readout
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch, NotEmulated

_BRACES = re.compile(r"\{([^{}]*)\}")
MULTIPLY = {"d": "[%taddr]", "a": "%adesc", "b": "%bdesc", "e": "[%meta]", "scale_a": "[%sa]", "scale_b": "[%sb]"}
BLOCK, SINCE = ".block32", "8.8"  # the name of scales of 32 elements on all targets; the first PTX version with it
# by prefix of the id; {half}: columns from the first access of 16x32bx2 to the second, which begins where it ends
MOVES = {
    "tcgen05.ld.red.16x32bx2": "{d}, %redval0, [%taddr], {half}",
    "tcgen05.ld.red.": "{d}, %redval0, [%taddr]",
    "tcgen05.ld.16x32bx2": "{d}, [%taddr], {half}",
    "tcgen05.ld.": "{d}, [%taddr]",
    "tcgen05.st.16x32bx2": "[%taddr], {half}, {a}",
    "tcgen05.st.": "[%taddr], {a}",
    "tcgen05.cp.": "[%taddr], %adesc",
    "tcgen05.shift.": "[%taddr]",
}
PTX = Macros(globals(), ptx=ptx)
ASSEMBLED = NotEmulated("it is for the compiler, not to be run")


def kernel(instruction: Instruction, least: bool = False) -> Kernel:
    """The instruction between loads of its registers and stores of its results.

    With `least`, scales are named as the least target and PTX version allow; targets of a family do not know these
    names.
    """
    body = PTX.assembled(instruction, instruction.of_role(Role.RESULT))
    registers = [".reg .b32 %taddr, %idesc, %meta, %sa, %sb;", ".reg .b64 %adesc, %bdesc;", ".reg .pred %p;"]
    registers += [ptx.declare(f.operand, f) for f in instruction.fragments]
    name = ptx.identifier(f"tensor_memory.{instruction.id}")
    text = ptx.entry(name, ["in", "out"], registers, body)
    if least and BLOCK in text and instruction.named_apart:
        vector = str(instruction.stated["scales"][0]).split()[1]
        return Kernel(name, ASSEMBLED, text.replace(BLOCK, f".scale_vec::{vector}"), instruction.target)
    target = instruction.target.at_least(SINCE) if BLOCK in text else instruction.target
    return Kernel(name, ASSEMBLED, text, target)


def instruction_text(instruction: Instruction) -> str:
    """PTX of the instruction, with the registers that `kernel` declares."""
    return f"{instruction_name(instruction)} {operands(instruction)};"


def operands(instruction: Instruction) -> str:
    """What follows the instruction's name."""
    if instruction.multiplies:
        words = {o.name: MULTIPLY[o.name] for o in instruction.operands}
        scales = [words.pop(o) for o in ("scale_a", "scale_b") if o in words]
        return ", ".join([*words.values(), "%idesc", *scales, "%p"])
    pattern = next(words for start, words in MOVES.items() if instruction.id.startswith(start))
    half = instruction.shape.n // 2  # PTX ISA, section 9.7.16.2.3.1: immHalfSplitoff
    return pattern.format(half=half, **{f.operand: ptx.braces(f.operand, f) for f in instruction.fragments})


def instruction_name(instruction: Instruction) -> str:
    """The name with its braces filled: the first of several choices, nothing for optional parts."""
    name = instruction.name.replace("{num}", str(instruction.stated.get("num", ("",))[0]))
    name = name.replace("{.scale_vectorsize}", BLOCK)
    while (match := _BRACES.search(name)) is not None:
        first = "" if match[1].startswith(".") else match[1].split("|")[0]
        name = name[: match.start()] + first + name[match.end() :]
    return re.sub(r"\|[^.|]+", "", name)


FAMILIES = ("tcgen05",)
LEAST = 32  # columns that can be allocated
REDUCED = "redval"
NUMBERING = "the threads and columns of tcgen05.st.32x32b.x1"


class LoadCells(FormOp):
    """The op of tcgen05.ld from numbered cells."""

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Each register gets the number of its cell; POISON if its slot holds none."""
        cells, width = tables.table(self.instruction.fragments[0]).cells, columns(self.instruction)
        numbers = [ptx.POISON * 0x01010101 if cell is None else cell[0] * width + cell[1] + 1 for cell in cells]
        return np.array(numbers, np.uint32).view(np.uint8)


class StoreCells(FormOp):
    """The op of tcgen05.st of numbered registers into cells that were zero."""

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Each cell gets the number of the slot that goes there."""
        memory = np.zeros((WARP, columns(self.instruction)), np.uint32)
        for slot, cell in enumerate(tables.table(self.instruction.fragments[0]).cells):
            if cell is not None:
                memory[cell] = slot + 1
        return memory.reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class TensorMove(FormExperiment):
    """A load or store of tensor memory. A reading has "lane" and "column" of every slot."""

    @property
    def moved_fragment(self) -> Fragment:
        """The registers that are loaded or stored."""
        return next(f for f in self.instruction.fragments if f.operand != REDUCED)

    @property
    def loads(self) -> bool:
        """Whether it is a load."""
        return self.instruction.id.startswith("tcgen05.ld")

    def launches(self) -> Sequence[Launch]:
        """One launch of one warp."""
        size = WARP * ptx.thread_bytes(self.moved_fragment) if self.loads else WARP * columns(self.instruction) * 4
        return [Launch(move_kernel(self.instruction), (1, 1, 1), (), 0, size)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """The cell of every slot; ProbeError if a register has no cell's number, or a slot is in no cell."""
        slots, width = self.moved_fragment.slots, columns(self.instruction)
        numbers_read = outputs[0].view(np.uint32).astype(np.int64) - 1
        if self.loads:
            numbers = numbers_read
        else:
            cells = np.flatnonzero(numbers_read >= 0)
            if sorted(numbers_read[cells].tolist()) != list(range(slots)):
                raise ProbeError(f"{self.instruction.name}: {len(cells)} cells are written, by {slots} registers.")
            numbers = np.empty(slots, np.int64)
            numbers[numbers_read[cells]] = cells
        strange = int(((numbers < 0) | (numbers >= WARP * width)).sum())
        if strange:
            raise ProbeError(f"{self.instruction.name}: {strange} registers hold no cell's number.")
        return {"lane": numbers // width, "column": numbers % width}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """The table of the registers; ProbeError unless the cells are all those of the access, each once."""
        moved = self.moved_fragment
        cells = list(zip(reading["lane"].tolist(), reading["column"].tolist(), strict=True))
        if set(cells) != {(row, col) for row in range(moved.rows) for col in range(moved.cols)}:
            raise ProbeError(
                f"{self.instruction.name}: its {len(set(cells))} cells are not the {moved.rows} lanes x {moved.cols} "
                "columns from the address on."
            )
        values = {"row": tuple(row for row, _ in cells), "col": tuple(col for _, col in cells)}
        return Conclusion({moved.operand: slot_table(WARP, moved.elements, values)}, NUMBERING)


def move_kernel(instruction: Instruction) -> Kernel:
    """The probe of a load or store."""
    loads = instruction.fragments[0].operand == "d"
    op, written = (LoadCells, PTX.load) if loads else (StoreCells, PTX.store)
    return _kernel(instruction, "numbered", op(instruction), written(instruction, columns(instruction)))


def marked_kernel(instruction: Instruction) -> Kernel:
    """The probe of a reduction's value: block x sets cell x to one, counted row by row."""
    written = PTX.mark(instruction, columns(instruction))
    return _kernel(instruction, "marked", MarkedCells(instruction), written)


def _kernel(instruction: Instruction, what: str, op: ptx.Op, ptx_lines: Sequence[str]) -> Kernel:
    name = ptx.identifier(f"{instruction.id}.{what}")
    text = ptx.entry(name, ["out"], PTX.registers(instruction, what == "marked"), ptx_lines)
    return Kernel(name, op, text, instruction.target)


def columns(instruction: Instruction) -> int:
    """Columns to allocate for a load or store: at least 32."""
    return max(LEAST, instruction.fragments[0].cols)


class MarkedCells(FormOp):
    """The op of tcgen05.ld.red with one cell set to one, another in each block: all threads' maxima, by block."""

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """A thread's maximum is one if a cell in its part of the row is one."""
        moved, kept = (self.instruction.fragment(name) for name in ("d", REDUCED))
        width = moved.cols // kept.cols
        maxima = np.zeros((moved.rows * moved.cols, WARP), np.uint32)
        for number in range(len(maxima)):
            row, col = divmod(number, moved.cols)
            for thread in tables.table(kept).inverse[row, col // width]:  # each has one
                maxima[number, thread] = 1
        return maxima.reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class TensorReduction(TensorMove):
    """A load with a reduction. A reading also has "marked": for every cell, which threads it feeds."""

    def launches(self) -> Sequence[Launch]:
        """The load's launch, then one with a block for each cell."""
        count = self.moved_fragment.rows * self.moved_fragment.cols
        marked = Launch(marked_kernel(self.instruction), (count, 1, 1), (), 0, 4 * WARP * count)
        return [*super().launches(), marked]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """As for a load, with "marked"; ProbeError if a maximum is neither zero nor one."""
        marked = outputs[1].view(np.uint32).reshape(-1, WARP)
        if (marked > 1).any():
            raise ProbeError(f"{self.instruction.name}: a maximum of zeros and ones is {int(marked.max()):#x}.")
        return {**super().decode(launches[:1], outputs[:1]), "marked": marked.astype(np.int64)}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Both tables; a thread's reduced value is in the row of its cells, its column is the number of their part of
        the row.

        ProbeError unless each thread's cells are such a part, all parts having the same number of columns.
        """
        moved, reduced = super().conclude(reading, context), self.instruction.fragment(REDUCED)
        width = self.moved_fragment.cols // reduced.cols
        parts = reading["marked"].reshape(reduced.rows, reduced.cols, width, WARP)
        if (parts != parts[:, :, :1]).any() or (parts[:, :, 0].sum(axis=(0, 1)) != 1).any():
            beside = f"{width} next to each other in one lane"
            raise ProbeError(f"{self.instruction.name}: the cells that feed a thread's {REDUCED} are not {beside}.")
        numbers = parts[:, :, 0].reshape(-1, WARP).argmax(axis=0)
        values = {"row": tuple((numbers // reduced.cols).tolist()), "col": tuple((numbers % reduced.cols).tolist())}
        return Conclusion({**moved.tables, REDUCED: slot_table(WARP, 1, values)}, NUMBERING)


def experiments() -> list[TensorMove]:
    """The load, the store and the reduction of every shape: first with the fewest repetitions, by the listed name; then
    with every number of repetitions.
    """
    listed = [row for row in inventory.of_family(*FAMILIES) if row.fragments]
    repeated = [inventory.instructions()[f"{row.id}.x{n}"] for row in listed for n in row.stated["num"]]
    rows = [*listed, *repeated]
    return [TensorReduction(row) if len(row.fragments) > 1 else TensorMove(row) for row in rows]
