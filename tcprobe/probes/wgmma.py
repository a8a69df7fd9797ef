"""Fragments of a warpgroup's multiply, numbered by the addresses of its factors in shared memory.

Each form has two launches. Factors in shared memory are packed without a swizzle, with k contiguous.

- A is in registers, with a single slot set to one, and B encodes the numbers of its elements: this shows which D slots
  answer, and which element of B each of them met. So addresses of B give the k of an A slot and the column of a D slot.
- A is in shared memory and encodes the numbers of its elements, and B has a single one in each column: this shows which
  element of A every D slot met. So addresses of A give the row of a D slot, and of the A slots that reach it.

Rows, columns and k are numbered by address as in the packed descriptor (`layout.descriptor`). That the hardware numbers
elements like this is what the PTX ISA says of canonical layouts; the slots that meet show that it fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.layout.descriptor import offsets, packed_descriptor
from tcprobe.layout.structure import NIBBLE, WholeProduct, picked_k
from tcprobe.layout.table import StructureHash, Table, slot_table
from tcprobe.probes.experiment import Conclusion, Context, OfInstruction, Readout
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import codes, pack
from tcprobe.probes.wgmma_kernels import kernel, shared_bytes
from tcprobe.probes.wgmma_meetings import product
from tcprobe.probes.wgmma_op import FEW, IMAGES_SHIFT, ODD, SHARED_A, KernelKind, behind
from tcprobe.store.measurement import ADDRESSES
from tcprobe.values import Json

LAST = 0xE  # metadata that picks the last elements of each chunk; NIBBLE picks the first


@dataclass(frozen=True)
class WarpgroupExperiment(OfInstruction):
    """A dense wgmma. A reading has "a" and "d", the element number of every slot, and "sha256" of the triples."""

    def launches(self) -> list[Launch]:
        """One A slot at a time in registers; then A in shared memory."""
        row = self.instruction
        b, slots = behind(row, "b_smem").held, row.fragment("a").slots
        return [registers_launch(CodedRun(row), (slots, 1), 4 * slots * (1 + b.cols)), shared_launch(row)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """Elements of A and D by slot; ProbeError if the answers are not those of a matrix product."""
        row = self.instruction
        whole = product(row, outputs[0], places(*packed_b(row)))
        lines = d_rows(row, outputs[1], whole)
        elements_by_slot = slot_elements(
            row, lines[whole.least] * row.shape.k + whole.k, lines * row.shape.n + whole.col
        )
        return {**elements_by_slot, "sha256": whole.digest()}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables, numbered by addresses in shared memory."""
        tables = {f.operand: element_table(f.cols, f.elements, reading[f.operand].tobytes()) for f in self.fragments}
        return Conclusion(tables, ADDRESSES, StructureHash(self.instruction.triples, reading["sha256"].tobytes().hex()))


def experiments() -> list[WarpgroupExperiment]:
    """One experiment for each dense wgmma."""
    return [WarpgroupExperiment(row) for row in inventory.of_family("wgmma")]


@dataclass(frozen=True)
class CodedRun:
    """What a launch runs: the kernel, how (`flags`: FEW, SHARED_A), and images of metadata for a sparse form."""

    row: Instruction
    kind: KernelKind = "registers"
    coded: str = "b_smem"
    majors: tuple[str, str] = ("k", "k")
    selector: int = 0
    flags: int = 0
    metadata: Bytes | None = None

    def launch(
        self, image_pair: tuple[Bytes, Bytes], descriptors: Sequence[tuple[int, int]], grid: tuple[int, int], size: int
    ) -> Launch:
        """`image_pair`: images of the coded matrix and of the other one; `descriptors` of both, by block; `size`:
        output bytes.
        """
        first, _ = image_pair
        length, count = first.shape[1], len(first) if self.kind != "raw" else 1
        described = np.array(descriptors, np.uint64).view(np.uint8).reshape(1, -1)
        inputs = (*image_pair, described, *([] if self.metadata is None else [self.metadata]))
        text = kernel(self.row, self.kind, self.coded, self.majors, self.selector)
        return Launch(
            text,
            (*grid, 1),
            inputs,
            length | count << IMAGES_SHIFT | self.flags,
            size,
            WARPGROUP,
            shared_bytes(self.row, self.kind, length, bool(self.flags & FEW)),
        )


def registers_launch(run: CodedRun, grid: tuple[int, int], size: int) -> Launch:
    """A launch of the kernel of kind registers; with SHARED_A in its flags, A is coded instead of B."""
    a, b = (behind(run.row, name).held for name in ("a_smem", "b_smem"))
    both = [packed_descriptor(k_bytes(operand)).encode() for operand in (b, a)]
    images = coded_images(a if run.flags & SHARED_A else b), ones_by_k(run.row)
    return run.launch(images, [(both[0], 0), (both[1], both[0])], grid, size)


def shared_launch(instruction: Instruction) -> Launch:
    """A in shared memory encodes its elements' numbers; each image of B comes with the metadata of `picked`."""
    shifts = len(ones_by_k(instruction))
    run = CodedRun(instruction, flags=SHARED_A, metadata=uniform(instruction, [NIBBLE] * shifts))
    return registers_launch(run, (1, shifts), 4 * instruction.fragment("d").slots * shifts)


def k_bytes(operand: Operand) -> int:
    """Bytes along k in a row of A or a column of B."""
    return (operand.cols if operand.name == "a_smem" else operand.rows) * operand.slot_bits // 8


def uniform(instruction: Instruction, values: Sequence[int]) -> Bytes | None:
    """One image of metadata for each of `values`, which every four bits have; None for a dense form."""
    if instruction.metadata is None:
        return None
    return np.repeat(np.array([value * 0x11 for value in values], np.uint8)[:, None], 4 * instruction.threads, axis=1)


def coded_images(operand: Operand, image_bytes: int | None = None) -> Bytes:
    """Images of a matrix that encode every element's number in memory; by default they have the matrix's size."""
    count = image_bytes * 8 // operand.slot_bits if image_bytes else operand.rows * operand.cols
    return codes(count, operand.slot_bits, operand.one)


@cache
def places(bits: int, line_count: int, k: int) -> tuple[Ints, Ints]:
    """(line, k) of every element number of a packed matrix."""
    line_and_k = np.indices((line_count, k)).reshape(2, -1)
    bit = (
        offsets(packed_descriptor(k * bits // 8), "k", line_and_k[0], line_and_k[1], bits) * 8
        + line_and_k[1] * bits % 8
    )
    order = np.argsort(bit // bits)
    return line_and_k[0][order].astype(np.int32), line_and_k[1][order].astype(np.int32)


def ones_by_k(instruction: Instruction) -> Bytes:
    """Packed images of B with a single one in every column.

    In image y, column n has it at k = picked[(n + y * N) % stored].
    """
    return _ones_by_k(
        packed_b(instruction), behind(instruction, "b_smem").held.one, tuple(picked_k(instruction).tolist())
    )


@cache
def _ones_by_k(packed: tuple[int, int, int], one_bits: int, k_of_lines: tuple[int, ...]) -> Bytes:
    (lines, k), (bits, cols, _) = places(*packed), packed
    shifts = np.arange(-(-len(k_of_lines) // cols))[:, None]
    k_of_column = np.array(k_of_lines)[(lines + shifts * cols) % len(k_of_lines)]
    return pack(np.where(k == k_of_column, one_bits, 0).astype(np.uint64), bits)


def decode_answers(instruction: Instruction, words: Words, image_count: int) -> Ints:
    """The numbers that words of answers encode; ProbeError if a single one cannot give an answer."""
    wrong = words & (ODD | 1 | 1 << image_count - 1) != 1
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        raise ProbeError(
            f"{instruction.name}: {wrong.sum()} of {words.size} answers are not an element of the coded matrix, "
            f"first at {first}: {int(words[tuple(first)]):#x}."
        )
    return (words >> 1 & (1 << image_count - 2) - 1).astype(np.int64)


def packed_b(instruction: Instruction) -> tuple[int, int, int]:
    """(bits of an element of B, columns, k): arguments of `places`."""
    b = behind(instruction, "b_smem").held
    return b.slot_bits, b.cols, b.rows


def d_rows(instruction: Instruction, raw: Bytes, whole: WholeProduct) -> Ints:
    """The row of every D slot; ProbeError if it met an element of A with another k than B picked."""
    a, name = behind(instruction, "a_smem").held, instruction.name
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, len(whole.col))
    lines, ks = (
        x[decode_answers(instruction, words, len(coded_images(a)))] for x in places(a.slot_bits, a.rows, a.cols)
    )
    expected = (whole.col + np.arange(len(words))[:, None] * instruction.shape.n) % instruction.stored
    if (ks != expected).any() or (lines != lines[0]).any():
        raise ProbeError(f"{name}: A and B in shared memory disagree about k, or a D slot is of two rows.")
    line: Ints = lines[0]
    if (line != line[whole.first]).any():
        raise ProbeError(f"{name}: A in registers and A in shared memory disagree about which D slots are a row.")
    return line


def slot_elements(instruction: Instruction, a_numbers: Ints, d_numbers: Ints) -> Readout:
    """The element that every slot of A and D holds; ProbeError if two slots hold the same one."""
    for operand, numbers in (("a", a_numbers), ("d", d_numbers)):
        if np.bincount(numbers, minlength=instruction.fragment(operand).slots).max() > 1:
            raise ProbeError(f"{instruction.name}: not every slot of {operand.upper()} holds its own element.")
    return {"a": a_numbers.astype(np.int32), "d": d_numbers.astype(np.int32)}


@cache
def element_table(cols: int, elements: int, number_bytes: bytes) -> Table:
    """The table of slots that hold elements of these numbers, counted row by row."""
    rows, columns = np.divmod(np.frombuffer(number_bytes, np.int32), cols)
    values: Json = {"row": tuple(rows.tolist()), "col": tuple(columns.tolist())}
    return slot_table(WARPGROUP, elements, values)
