"""Registers of a warpgroup's multiply, numbered by the addresses that its factors have in shared memory.

Two launches a form, with factors packed in shared memory without a swizzle, k contiguous:

- A in registers, one slot alone is one, B encodes the number of its element: which D slots answer, and which element of
  B each of them met. So the k of an A slot and the column of a D slot are those of addresses of B.
- A in shared memory encodes the number of its element, B is as many ones: which element of A every D slot met. So the
  row of a D slot, and of the A slots that reach it, is that of an address of A.

Addresses count rows, columns and k as the packed descriptor does (`layout.descriptor`); that the hardware's elements
are numbered like this is what PTX ISA says of canonical layouts, and which elements meet shows that it fits.
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
from tcprobe.layout.descriptor import offsets, packed
from tcprobe.layout.predicted import NIBBLE, WholeProduct, picked
from tcprobe.layout.structure_hash import StructureHash
from tcprobe.layout.table import Table, slot_table
from tcprobe.probes.experiment import Conclusion, Context, OfInstruction, Reading
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import codes, pack
from tcprobe.probes.wgmma_kernels import kernel, shared_bytes
from tcprobe.probes.wgmma_meetings import product
from tcprobe.probes.wgmma_op import FEW, IMAGES_SHIFT, ODD, SHARED_A, Kind, behind
from tcprobe.store.measurement import ADDRESSES
from tcprobe.values import Json

LAST = 0xE  # metadata that picks the last elements of each chunk, as NIBBLE picks the first


@dataclass(frozen=True)
class WarpgroupExperiment(OfInstruction):
    """A dense wgmma. A reading has "a" and "d", the element number of every slot, and the hash of the triples."""

    def launches(self) -> list[Launch]:
        """A slot by slot in registers; A in shared memory."""
        row = self.instruction
        b, slots = behind(row, "b_smem").held, row.fragment("a").slots
        return [registers_launch(Coded(row), (slots, 1), 4 * slots * (1 + b.cols)), shared_launch(row)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Reading:
        """Elements of A and D by slot; ProbeError where the answers are not those of a product of matrices."""
        row = self.instruction
        met = product(row, outputs[0], places(*packed_b(row)))
        lines = lines_of(row, outputs[1], met)
        elements_by_slot = of_memory(row, lines[met.least] * row.shape.k + met.k, lines * row.shape.n + met.col)
        return {**elements_by_slot, "sha256": met.digest()}

    def conclude(self, reading: Reading, context: Context) -> Conclusion:
        """Tables by the addresses of shared memory."""
        tables = {f.operand: table_of(f.cols, f.elements, reading[f.operand].tobytes()) for f in self.fragments}
        return Conclusion(tables, ADDRESSES, StructureHash(self.instruction.triples, reading["sha256"].tobytes().hex()))


def experiments() -> list[WarpgroupExperiment]:
    """One for each dense wgmma, wherever A is."""
    return [WarpgroupExperiment(row) for row in inventory.of_family("wgmma")]


@dataclass(frozen=True)
class Coded:
    """What a launch runs: the kernel, how (FEW, SHARED_A), and images of the metadata of a sparse form."""

    row: Instruction
    kind: Kind = "registers"
    coded: str = "b_smem"
    majors: tuple[str, str] = ("k", "k")
    selector: int = 0
    flags: int = 0
    metadata: Bytes | None = None

    def launch(
        self, images: tuple[Bytes, Bytes], descriptors: Sequence[tuple[int, int]], grid: tuple[int, int], size: int
    ) -> Launch:
        """Images of the coded matrix and of the other; by block the descriptors of both; `size` bytes come out."""
        first, _ = images
        length, count = first.shape[1], len(first) if self.kind != "raw" else 1
        described = np.array(descriptors, np.uint64).view(np.uint8).reshape(1, -1)
        inputs = (*images, described, *([] if self.metadata is None else [self.metadata]))
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


def registers_launch(run: Coded, grid: tuple[int, int], size: int) -> Launch:
    """One of the two ways in which the kernel of registers runs; with SHARED_A it is A that is coded."""
    a, b = (behind(run.row, name).held for name in ("a_smem", "b_smem"))
    both = [packed(held_bytes(held)).encode() for held in (b, a)]
    images = spelled(a if run.flags & SHARED_A else b), ones_by_k(run.row)
    return run.launch(images, [(both[0], 0), (both[1], both[0])], grid, size)


def shared_launch(instruction: Instruction) -> Launch:
    """A in shared memory encodes its elements' numbers, each image of B with the metadata of `picked`."""
    shifts = len(ones_by_k(instruction))
    run = Coded(instruction, flags=SHARED_A, metadata=uniform(instruction, [NIBBLE] * shifts))
    return registers_launch(run, (1, shifts), 4 * instruction.fragment("d").slots * shifts)


def held_bytes(operand: Operand) -> int:
    """Bytes of k in a line."""
    return (operand.cols if operand.name == "a_smem" else operand.rows) * operand.slot_bits // 8


def uniform(instruction: Instruction, values: Sequence[int]) -> Bytes | None:
    """Images of metadata whose every four bits are one of `values`; None if A is not sparse."""
    if instruction.metadata is None:
        return None
    return np.repeat(np.array([value * 0x11 for value in values], np.uint8)[:, None], 4 * instruction.threads, axis=1)


def spelled(operand: Operand, image_bytes: int | None = None) -> Bytes:
    """Images of a matrix that encode the number of every element in memory; by default it fills them without a gap."""
    count = image_bytes * 8 // operand.slot_bits if image_bytes else operand.rows * operand.cols
    return codes(count, operand.slot_bits, operand.one)


@cache
def places(bits: int, lines: int, k: int) -> tuple[Ints, Ints]:
    """(line, k) of every element number of a packed matrix."""
    at = np.indices((lines, k)).reshape(2, -1)
    bit = offsets(packed(k * bits // 8), "k", at[0], at[1], bits) * 8 + at[1] * bits % 8
    order = np.argsort(bit // bits)
    return at[0][order].astype(np.int32), at[1][order].astype(np.int32)


def ones_by_k(instruction: Instruction) -> Bytes:
    """Images of B, packed, with a single one in every column: of image y column n at the (n + y * N)-th `picked`."""
    return _ones_by_k(
        packed_b(instruction), behind(instruction, "b_smem").held.one, tuple(picked(instruction).tolist())
    )


@cache
def _ones_by_k(size: tuple[int, int, int], one: int, k_of_lines: tuple[int, ...]) -> Bytes:
    (lines, k), (bits, cols, _) = places(*size), size
    shifts = np.arange(-(-len(k_of_lines) // cols))[:, None]
    wanted = np.array(k_of_lines)[(lines + shifts * cols) % len(k_of_lines)]
    return pack(np.where(k == wanted, one, 0).astype(np.uint64), bits)


def spoken(instruction: Instruction, words: Words, images: int) -> Ints:
    """The numbers that words of codes encode; ProbeError where an answer is none that a single one can give."""
    wrong = words & (ODD | 1 | 1 << images - 1) != 1
    if wrong.any():
        at = np.argwhere(wrong)[0].tolist()
        raise ProbeError(
            f"{instruction.name}: {wrong.sum()} of {words.size} answers are not an element of the coded matrix, "
            f"first at {at}: {int(words[tuple(at)]):#x}."
        )
    return (words >> 1 & (1 << images - 2) - 1).astype(np.int64)


def packed_b(instruction: Instruction) -> tuple[int, int, int]:
    """Bits of an element of B, its columns and its k: what `places` takes."""
    held = behind(instruction, "b_smem").held
    return held.slot_bits, held.cols, held.rows


def lines_of(instruction: Instruction, raw: Bytes, met: WholeProduct) -> Ints:
    """The row of every D slot; ProbeError where what it met of A is not of the k that B picked."""
    a = behind(instruction, "a_smem").held
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, len(met.col))
    lines, ks = (x[spoken(instruction, words, len(spelled(a)))] for x in places(a.slot_bits, a.rows, a.cols))
    expected = (met.col + np.arange(len(words))[:, None] * instruction.shape.n) % instruction.stored
    if (ks != expected).any() or (lines != lines[0]).any():
        raise ProbeError(f"{instruction.name}: A and B in shared memory disagree about k, or a D slot is of two rows.")
    line: Ints = lines[0]
    if (line != line[met.first]).any():
        raise ProbeError(
            f"{instruction.name}: A in registers and A in shared memory disagree about which D slots are a row."
        )
    return line


def of_memory(instruction: Instruction, a: Ints, d: Ints) -> Reading:
    """The element that every slot of A and D holds; ProbeError where two slots hold the same one."""
    for operand, numbers in (("a", a), ("d", d)):
        if np.bincount(numbers, minlength=instruction.fragment(operand).slots).max() > 1:
            raise ProbeError(f"{instruction.name}: not every slot of {operand.upper()} holds its own element.")
    return {"a": a.astype(np.int32), "d": d.astype(np.int32)}


@cache
def table_of(cols: int, elements: int, numbers: bytes) -> Table:
    """The table of slots that hold elements of these numbers, row after row."""
    rows, columns = np.divmod(np.frombuffer(numbers, np.int32), cols)
    values: Json = {"row": tuple(rows.tolist()), "col": tuple(columns.tolist())}
    return slot_table(WARPGROUP, elements, values)
