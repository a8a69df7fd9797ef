"""What the emulator does in place of the kernels of warpgroup multiplies, for any layouts and address maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.arrays import Array, Bits, Bytes, Ints
from tcprobe.layout.descriptor import decode
from tcprobe.probes.emulation import NUMBERS, RAW, elements
from tcprobe.probes.ptx import POISON, EmulatedCore, Launch
from tcprobe.probes.slots import pack, unpack

KernelKind = Literal["registers", "codes", "raw"]
# fields of a launch's leading dimension: bytes of an image, number of images, flags of a kernel of kind registers
IMAGES_SHIFT, FEW, SHARED_A = 20, 1 << 30, 1 << 31
FEW_SLOTS, FEW_MEETINGS = (
    4,
    8,
)  # slots of each thread; words of each A slot: 4 threads hold a row, each in 2 of these slots
BAD = 1 << 16  # in a word of meetings: a product of zeros and ones cannot give these answers
SLOT_SHIFT = 17
ODD = 1 << 31  # in a word of codes: an answer was neither zero nor one
VALUES = range(-8, 9)  # factors that occur in products
UNTOUCHED = int.from_bytes(bytes([POISON] * 4), "little")


@dataclass(frozen=True)
class Warpgroup:
    """The op of a kernel: `coded` is the operand whose image changes, `majors` are those of A and B."""

    instruction: Instruction
    kind: KernelKind
    coded: str
    majors: tuple[str, str]
    selector: int = 0
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """The output of the launch."""
        answers = _Run(self, launch, tables).answers()
        raw: Bytes = answers.reshape(-1).view(np.uint8)
        return raw


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
            out.append(pack(slots.astype(NUMBERS[d.type]).view(RAW[d.type])[None], d.slot_bits)[0])
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
        rule = sparsity(e)
        index, used = elements(self.tables.table(e).selection(self.op.selector), e)
        fields = unpack(self.launch.inputs[3][image][None], e.slot_bits)[0].astype(np.int64) >> (
            3 if rule.fields == 1 else 0
        )
        index_fields = np.zeros(e.rows * e.cols, np.int64)
        index_fields[index] = fields[used]
        columns: Ints = np.arange(e.cols) // rule.fields * rule.positions + index_fields.reshape(e.rows, e.cols)
        return columns

    def _still(self, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix that is not coded."""
        if self.coded == "a_smem":
            return self._matrix_behind("b_smem", memory_image, descriptor)
        a = self.instruction.fragment("a")
        index, used = elements(self.tables.table(a), a)
        a_of_index = np.zeros(a.rows * a.cols, np.int64)
        a_of_index[index] = values(a.type, unpack(memory_image[None], a.slot_bits)[0])[used]
        return a_of_index.reshape(a.rows, a.cols)

    def _matrix_behind(self, name: str, memory_image: Bytes, descriptor: int) -> Ints:
        """The matrix behind a descriptor."""
        operand = behind(self.instruction, name)
        major = self.op.majors[name == "b_smem"]
        bits = self.tables.behind(operand, decode(int(descriptor)), major)
        return values(operand.held.type, unpack(memory_image[None], operand.held.slot_bits)[0])[
            bits // operand.held.slot_bits
        ]

    def _slots(self, matrix: Ints) -> Ints:
        d: Fragment = self.instruction.fragment("d")
        index, used = elements(self.tables.table(d), d)
        of_slots = np.zeros(d.slots, np.int64)
        of_slots[used] = matrix.reshape(-1)[index]
        return of_slots


def behind(instruction: Instruction, name: str) -> SharedOperand:
    """The operand `name`, "a_smem" or "b_smem"."""
    return next(operand for operand in instruction.described if operand.held.name == name)


def values(kind: str, raw: Array) -> Ints:
    """Bit patterns as whole numbers; 99 if the number is not in VALUES."""
    row = dtype(kind)
    value_of_bits = {row.pattern(v, row.bits): v for v in VALUES if _holds(kind, v)}
    patterns = np.array(sorted(value_of_bits))
    places = np.searchsorted(patterns, raw).clip(max=len(patterns) - 1)
    numbers = np.array([value_of_bits[p] for p in patterns.tolist()])
    return np.where(patterns[places] == raw, numbers[places], 99)


def _holds(kind: str, value: int) -> bool:
    """Whether a type has a number: unsigned types no negative ones, bits only 0 and 1."""
    if kind == "b1":
        return value in (0, 1)
    return value >= 0 or not kind.startswith("u")


def _descriptors(launch: Launch) -> NDArray[np.uint64]:
    """By x: (descriptor of the coded matrix, descriptor of the other)."""
    return launch.inputs[2].view(np.uint64).reshape(-1, 2)
