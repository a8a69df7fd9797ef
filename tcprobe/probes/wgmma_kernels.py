"""PTX of warpgroup multiplies: one matrix in shared memory runs through images; D is packed, or stored raw.

The *coded* matrix (B, or A behind a descriptor) is all ones; then it encodes each bit of its elements' numbers; then it
is all zeros. There are three kinds of kernel:

- registers: A is in registers, and the slot with the block's number alone is one. For every D slot that answers (FEW:
  of the first slots of each thread) a word with the D slot and the number of the element of B that it met. SHARED_A: A
  is coded, in shared memory, and the output is as for codes
- codes: the other matrix is fixed (A in registers, B in shared memory); for every D slot what it answered
- raw: one image of both, and all of D: products

If A is sparse, image y of the metadata is used. Shared memory has, from a base aligned to 1024: the coded matrix, the
other one, the answers. Start addresses in descriptors count from their own matrix. Every thread that writes shared
memory fences its writes towards the asynchronous proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tcprobe.code.templates import Macros
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Array, Bits, Bytes, Ints
from tcprobe.layout.descriptor import PERIOD, decode
from tcprobe.probes import ptx
from tcprobe.probes.ptx import POISON, EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import encode, from_slots, into_slots, unpack
from tcprobe.probes.sparse import columns

KernelKind = Literal["registers", "codes", "raw"]
# fields of a launch's leading dimension: bytes of an image, number of images, flags of a kernel of kind registers
IMAGES_SHIFT, FEW, SHARED_A = 20, 1 << 30, 1 << 31
FEW_SLOTS = 4  # of each thread
FEW_MEETINGS = 8  # words of each A slot: 4 threads hold a row, each in 2 of these slots
BAD = 1 << 16  # in a word of meetings: a product of zeros and ones cannot give these answers
SLOT_SHIFT = 17
ODD = 1 << 31  # in a word of codes: an answer was neither zero nor one
VALUES = range(-8, 9)  # factors that occur in products
UNTOUCHED = int.from_bytes(bytes([POISON] * 4), "little")


@dataclass(frozen=True)
class Warpgroup(FormOp):
    """The op of a kernel: `coded` is the operand whose image changes, `majors` are those of A and B."""

    kind: KernelKind
    coded: str
    majors: tuple[str, str]
    selector: int = 0

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """The output of the launch."""
        return _Run(self, launch, tables).answers().reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class _Run:
    """A launch on a tensor core with these layouts."""

    op: Warpgroup
    launch: Launch
    tables: EmulatedCore

    @property
    def instruction(self) -> Instruction:
        return self.op.instruction

    @property
    def coded(self) -> str:
        """The operand whose image changes in this launch."""
        return "a_smem" if self.op.kind == "registers" and self.launch.ldm & SHARED_A else self.op.coded

    def answers(self) -> Bits:
        """By block, what a kernel of this kind stores."""
        if self.op.kind == "registers" and not self.launch.ldm & SHARED_A:
            return self._meetings()
        return self._raw() if self.op.kind == "raw" else self._codes()

    def _meetings(self) -> Bits:
        row, few = self.instruction, bool(self.launch.ldm & FEW)
        a, d, n = row.fragment("a"), row.fragment("d"), row.shape.n
        acc = np.zeros((row.shape.k, n), np.int64)
        for number, image in enumerate(self.launch.inputs[0]):
            acc |= self._matrix_behind("b_smem", image, _descriptors(self.launch)[0, 0]) << number
        bad = (acc & (1 | 1 << len(self.launch.inputs[0]) - 1)) != 1
        words = (acc >> 1 & BAD - 1) | np.where(bad, BAD, 0)
        holder = np.array([[self.tables.table(d).inverse[m, c][0] for c in range(n)] for m in range(row.shape.m)])
        out = np.full((self.launch.grid[1], a.slots, 1 + (FEW_MEETINGS if few else n)), UNTOUCHED, np.uint32)
        for y in range(self.launch.grid[1]):
            columns = self._columns(y)
            for slot, (m, s) in enumerate(self.tables.table(a).cells):  # type: ignore[misc]
                words_met = holder[m] << SLOT_SHIFT | words[columns[m, s]]
                if few:
                    words_met = words_met[holder[m] % d.elements < FEW_SLOTS]
                out[y, slot, 0] = len(words_met)
                out[y, slot, 1 : 1 + len(words_met)] = words_met[: out.shape[2] - 1]
        return out

    def _codes(self) -> Bits:
        images, others, descriptors = self.launch.inputs[0], self.launch.inputs[1], _descriptors(self.launch)
        descriptors = descriptors[1:] if self.op.kind == "registers" else descriptors
        out = np.zeros((self.launch.grid[1], self.launch.grid[0], self.instruction.fragment("d").slots), np.uint32)
        for y, other in enumerate(others):
            columns = self._columns(y)
            for x, (first, second) in enumerate(descriptors):
                still = self._still(other, second)
                for number, image in enumerate(images):
                    product = self._product(self._matrix_behind(self.coded, image, first), still, columns)
                    slots = self._slots(product)
                    out[y, x] |= np.where(slots == 1, np.uint32(1) << np.uint32(number), 0).astype(np.uint32)
                    out[y, x] |= np.where((slots != 0) & (slots != 1), ODD, 0).astype(np.uint32)
        return out

    def _raw(self) -> Bits:
        d, out = self.instruction.fragment("d"), []
        for x, (image, other, (first, second)) in enumerate(
            zip(*self.launch.inputs[:2], _descriptors(self.launch), strict=True)
        ):
            still = self._still(other, second)
            matrix = self._matrix_behind(self.coded, image, first)
            slots = self._slots(self._product(matrix, still, self._columns(x)))
            out.append(encode(slots[None], d.type, d.slot_bits)[0])
        return np.stack(out)

    def _product(self, matrix: Ints, still: Ints, columns: Ints) -> Ints:
        """D of the coded matrix and the other; `columns` are the columns of A of its stored elements."""
        a, b = (matrix, still) if self.coded == "a_smem" else (still, matrix)
        d: Ints = np.einsum("ms,msn->mn", a, b[columns])
        return d

    def _columns(self, image: int) -> Ints:
        """The column of A of each stored element: (rows, stored columns)."""
        row, e = self.instruction, self.instruction.metadata
        if e is None:
            return np.broadcast_to(np.arange(row.shape.k), (row.shape.m, row.shape.k))
        table = self.tables.table(e).selection(self.op.selector)
        of_image: Ints = columns(e, table, self.launch.inputs[3][image][None])[0]
        return of_image

    def _still(self, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix that is not coded."""
        if self.coded == "a_smem":
            return self._matrix_behind("b_smem", memory_image, descriptor)
        a = self.instruction.fragment("a")
        slots = values(a.type, unpack(memory_image[None], a.slot_bits)[0])
        return from_slots(self.tables.table(a), a, slots).reshape(a.rows, a.cols)

    def _matrix_behind(self, name: str, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix behind a descriptor."""
        operand = shared_operand(self.instruction, name)
        major = self.op.majors[name == "b_smem"]
        bits = self.tables.behind(operand, decode(int(descriptor)), major)
        return values(operand.held.type, unpack(memory_image[None], operand.held.slot_bits)[0])[
            bits // operand.held.slot_bits
        ]

    def _slots(self, matrix: Ints) -> Ints:
        d = self.instruction.fragment("d")
        return into_slots(self.tables.table(d), d, matrix.reshape(-1))


def shared_operand(instruction: Instruction, name: str) -> SharedOperand:
    """The operand `name`, "a_smem" or "b_smem"."""
    return next(operand for operand in instruction.described if operand.held.name == name)


def values(kind: str, raw: Array) -> Ints:
    """Bit patterns as whole numbers; 99 if the number is not in VALUES."""
    row = dtype(kind)
    held = (0, 1) if kind == "b1" else [v for v in VALUES if v >= 0 or not kind.startswith("u")]
    value_of_bits = {row.pattern(v, row.bits): v for v in held}
    patterns = np.array(sorted(value_of_bits))
    places = np.searchsorted(patterns, raw).clip(max=len(patterns) - 1)
    numbers = np.array([value_of_bits[p] for p in patterns.tolist()])
    return np.where(patterns[places] == raw, numbers[places], 99)


def _descriptors(launch: Launch) -> NDArray[np.uint64]:
    """By x: (descriptor of the coded matrix, descriptor of the other)."""
    return launch.inputs[2].view(np.uint64).reshape(-1, 2)


POINTERS = ("coded", "other", "desc", "out")
ANSWER_BYTES = 4 * WARPGROUP
COUNT_BYTES = 16
FEW_BIT = FEW.bit_length() - 1
PTX = Macros(globals(), ptx=ptx, WARPGROUP=WARPGROUP, PERIOD=PERIOD)


def other_bytes(instruction: Instruction) -> int:
    """Bytes of B in shared memory where it is fixed: packed without gaps."""
    b = shared_operand(instruction, "b_smem").held
    return b.rows * b.cols * b.slot_bits // 8


def shared_bytes(instruction: Instruction, kind: KernelKind, image_bytes: int, few: bool = False) -> int:
    """Dynamic shared memory of a launch, in bytes."""
    slots = FEW_SLOTS if few else instruction.fragment("d").elements
    answers = 0 if kind == "raw" else register_bytes(instruction, slots) + slots * ANSWER_BYTES
    other = image_bytes if kind == "raw" else other_bytes(instruction)
    return PERIOD + whole_periods(image_bytes) + whole_periods(other) + answers + COUNT_BYTES


@lru_cache(maxsize=16)  # launches of a form share a kernel
def kernel(
    instruction: Instruction,
    kind: KernelKind,
    coded: str = "b_smem",
    majors: tuple[str, str] = ("k", "k"),
    selector: int = 0,
) -> Kernel:
    """`coded` is the operand that is coded, "b_smem" or "a_smem"; `majors` are those of A and B."""
    major_suffix = "".join(f".{name}.mn" for name, major in zip(FACTORS, majors, strict=True) if major == "mn")
    selector_suffix = f".selector{selector}" if instruction.metadata else ""
    name = ptx.identifier(f"{kind}.{instruction.id}.{coded}{major_suffix}{selector_suffix}")
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    pointers = POINTERS[:3] + (("e",) if instruction.metadata else ()) + POINTERS[3:]
    op = Warpgroup(instruction, kind, coded, majors, selector)
    body = PTX.body(op, name, other_bytes(instruction))
    text = memory + ptx.entry(name, pointers, PTX.registers(instruction.fragment("d")), body)
    return Kernel(name, op, text, instruction.target)


def instruction_text(warpgroup_op: Warpgroup, by_descriptor: bool) -> str:
    """PTX of D = A x B. Scales are one; 16-bit types have immediates that say whether A and B are transposed."""
    instruction = warpgroup_op.instruction
    a = "%da" if by_descriptor else "{%a0, %a1, %a2, %a3}"
    scales = [] if instruction.type("d") == "s32" else ["1", "1"]
    transposable = len(instruction.described[0].held.majors) > 1
    transposed = ["1" if major == "mn" else "0" for major in warpgroup_op.majors] if transposable else []
    sparse = ["%meta", str(warpgroup_op.selector)] if instruction.metadata else []
    operands = [a, "%db", *sparse, "%never", *scales, *(transposed if by_descriptor else transposed[1:])]
    return f"{instruction.name} {ptx.braces('d', instruction.fragment('d'))}, {', '.join(operands)};"


def register_bytes(instruction: Instruction, slots: int) -> int:
    """Bytes in shared memory of the registers of so many D slots of each thread."""
    return slots * instruction.fragment("d").slot_bits // 32 * ANSWER_BYTES


def whole_periods(size: int) -> int:
    """Bytes, rounded up to whole patterns of all swizzles."""
    return -(-size // PERIOD) * PERIOD
