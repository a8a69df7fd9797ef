"""Fragments of a warpgroup's multiply, numbered by the addresses of its factors in shared memory.

Each form has two launches. Factors in shared memory are packed without a swizzle, with k contiguous.

- A is in registers, with a single slot set to one, and B encodes the numbers of its elements: this shows which D slots
  answer, and which element of B each of them met. So addresses of B give the k of an A slot and the column of a D slot.
- A is in shared memory and encodes the numbers of its elements, and B has a single one in each column: this shows which
  element of A every D slot met. So addresses of A give the row of a D slot, and of the A slots that reach it.

Rows, columns and k are numbered by address as in the packed descriptor (`layout.descriptor`). That the hardware numbers
elements like this is what the PTX ISA says of canonical layouts; the slots that meet show that it fits.

A launch stores a word for every D slot that an A slot reaches: the D slot, and the element of B met there. The words
have no order, and there are millions of them: they are decoded a few A slots at a time.

Sparse forms: as for dense ones, one A slot at a time is one while B encodes its elements' numbers. This is done once
for all D slots, then for a few slots of each thread under every image of metadata (`probes.sparse`) and every
documented selector. The k that an A slot meets under each index gives its chunk and its place in it; the images encode
the field that it obeys. Finally A in shared memory encodes its own numbers while the metadata picks the first elements
of each chunk: that gives the rows.

Kernels: one matrix in shared memory runs through images; D is packed, or stored raw.

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction, SharedOperand, Sparsity, sparsity
from tcprobe.isa.operand import FACTORS, OF_WARPGROUP, Operand
from tcprobe.layout.arrays import Array, Bits, Bytes, Ints, Words
from tcprobe.layout.descriptor import PERIOD, decode, offsets, packed_descriptor
from tcprobe.layout.structure import NIBBLE, WholeProduct, chunks, picked_k
from tcprobe.layout.table import StructureHash, Table, selected, slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, Context, FormExperiment, Readout
from tcprobe.probes.ptx import POISON, EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import codes, encode, from_slots, into_slots, pack, unpack
from tcprobe.probes.sparse import columns, indices_and_fields, metadata_images
from tcprobe.store.finding import ADDRESSES
from tcprobe.values import Json

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


def meetings(instruction: Instruction, raw: Bytes, n: int) -> Words:
    """The `n` words of each A slot; ProbeError if one has more or fewer."""
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, 1 + n)
    counts = words[:, 0]
    if (counts != n).any():
        slot = int(np.argmax(counts != n))
        raise ProbeError(
            f"{instruction.name}: A slot {slot % instruction.fragment('a').slots} reaches {counts[slot]} D slots, "
            f"not {n}."
        )
    return words[:, 1:]


def split(instruction: Instruction, words: Words) -> tuple[Array, Array]:
    """(D slot, element of B) of every word.

    ProbeError if a word is not an answer, or has a slot or element that does not exist.
    """
    if (words & (ODD | BAD)).any():
        raise ProbeError(f"{instruction.name}: D answers where A or B is zero, or where all ones gave nothing.")
    d, b = (words >> SLOT_SHIFT).astype(np.int32), (words & BAD - 1).astype(np.int32)
    if d.max() >= instruction.fragment("d").slots or b.max() >= instruction.shape.k * instruction.shape.n:
        raise ProbeError(f"{instruction.name}: D slot {d.max()} or element {b.max()} of B, which does not exist.")
    return d, b


def product(instruction: Instruction, raw: Bytes, cols_and_ks: tuple[Ints, Ints]) -> WholeProduct:
    """What the words show; ProbeError if it is not a matrix product. `cols_and_ks`: (column, k) of B's elements."""
    words, slots = meetings(instruction, raw, instruction.shape.n), instruction.fragment("d").slots
    reached, k = np.empty(words.shape, np.uint16), np.empty(len(words), np.int64)
    for part in chunks(len(words)):
        reached[part], k[part] = _by_column(instruction, words[part], cols_and_ks)
    _, first_slots, line = np.unique(reached[:, 0], return_index=True, return_inverse=True)
    lines = reached[first_slots].astype(np.int64)
    same = all((reached[part] == lines[line[part]]).all() for part in chunks(len(words)))
    if not same or lines.size != slots or not np.bincount(lines.reshape(-1), minlength=slots).all():
        raise _no_product(instruction)
    col = np.empty(slots, np.int64)
    col[lines] = np.arange(instruction.shape.n)
    return WholeProduct(k, line.reshape(-1), lines, col)


def _by_column(instruction: Instruction, words: Words, cols_and_ks: tuple[Ints, Ints]) -> tuple[Array, Array]:
    """(D slot that each A slot reaches in each column, k of each A slot), for some A slots."""
    (d, b), (cols, ks) = split(instruction, words), cols_and_ks
    reached, k = np.full(words.shape, -1, np.int32), ks[b]
    np.put_along_axis(reached, cols[b], d, axis=1)
    if (k != k[:, :1]).any() or reached.min() < 0:
        raise _no_product(instruction)
    return reached, k[:, 0]


def _no_product(instruction: Instruction) -> ProbeError:
    return ProbeError(f"{instruction.name}: not a matrix product: the slots that meet have no rows, columns and k.")


LAST = 0xE  # metadata that picks the last elements of each chunk; NIBBLE picks the first


@dataclass(frozen=True)
class WarpgroupExperiment(FormExperiment):
    """A dense wgmma. A reading has "a" and "d", the element number of every slot, and "sha256" of the triples."""

    def launches(self) -> list[Launch]:
        """One A slot at a time in registers; then A in shared memory."""
        row = self.instruction
        b, slots = shared_operand(row, "b_smem").held, row.fragment("a").slots
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
        fields = length | count << IMAGES_SHIFT | self.flags
        shared = shared_bytes(self.row, self.kind, length, bool(self.flags & FEW))
        return Launch(text, (*grid, 1), inputs, fields, size, WARPGROUP, shared)


def registers_launch(run: CodedRun, grid: tuple[int, int], size: int) -> Launch:
    """A launch of the kernel of kind registers; with SHARED_A in its flags, A is coded instead of B."""
    a, b = (shared_operand(run.row, name).held for name in ("a_smem", "b_smem"))
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
        packed_b(instruction), shared_operand(instruction, "b_smem").held.one, tuple(picked_k(instruction).tolist())
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
    b = shared_operand(instruction, "b_smem").held
    return b.slot_bits, b.cols, b.rows


def d_rows(instruction: Instruction, raw: Bytes, whole: WholeProduct) -> Ints:
    """The row of every D slot; ProbeError if it met an element of A with another k than B picked."""
    a, name = shared_operand(instruction, "a_smem").held, instruction.name
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


HALF = 16  # bits of each of two packed numbers: k and column of an element of B, row and column of a D slot
IMAGES = 8  # of metadata whose words are decoded at a time


@dataclass(frozen=True)
class SparseWarpgroupExperiment(FormExperiment):
    """A wgmma.sp. A reading has "a" and "d", elements by slot; "e": by selector, the field that each A slot obeys."""

    def launches(self) -> list[Launch]:
        """All D slots under one metadata; for each selector, a few under all of it; A in shared memory."""
        row, images = self.instruction, _metadata(self._rule)
        slots, n = row.fragment("a").slots, row.shape.n
        few = (slots, len(images)), 4 * slots * len(images) * (1 + FEW_MEETINGS)
        selectors = row.fragment("e").selectors
        return [
            registers_launch(CodedRun(row, metadata=images), (slots, 1), 4 * slots * (1 + n)),
            *(registers_launch(CodedRun(row, selector=s, flags=FEW, metadata=images), *few) for s in selectors),
            shared_launch(row),
        ]

    @property
    def _rule(self) -> Sparsity:
        return sparsity(self.instruction.fragment("e"))

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """Elements and fields; ProbeError if the answers are not those of a sparse matrix product."""
        row = self.instruction
        whole = product(row, outputs[0], places(*packed_b(row)))
        by_selector = [self._stored_and_field(raw, whole, selector) for selector, raw in enumerate(outputs[1:-1])]
        stored = by_selector[0][0]
        if any((other != stored).any() for other, _ in by_selector):
            raise ProbeError(f"{row.name}: a selector changes which elements of A the slots are.")
        lines = d_rows(row, outputs[-1], whole)
        fields = np.stack([field for _, field in by_selector])
        slots = slot_elements(row, lines[whole.least] * row.stored + stored, lines * row.shape.n + whole.col)
        return {**slots, "e": fields.astype(np.int32), "sha256": whole.digest()}

    def _stored_and_field(self, raw: Bytes, whole: WholeProduct, selector: int) -> tuple[Ints, Ints]:
        """(stored column of every A slot, field that it obeys) under a selector."""
        row, rule, name = self.instruction, self._rule, f"{self.instruction.name}, selector {selector}"
        by_index, field = indices_and_fields(
            rule, self._k_met(meetings(row, raw, FEW_MEETINGS), whole, name), WARPGROUP, name
        )
        index = np.arange(rule.positions)[None, :, None]
        chunk = by_index.max(axis=(1, 2)) // rule.positions
        if ((by_index >= 0) & (by_index != chunk[:, None, None] * rule.positions + index)).any():
            raise ProbeError(f"{name}: an index is not the place in a chunk that it should be.")
        return chunk * rule.fields + field % rule.fields, field

    def _k_met(self, words: Words, whole: WholeProduct, name: str) -> Ints:
        """By image and A slot, the k that it meets in the few D slots that it reaches.

        ProbeError unless that is one k, and the row and the columns are those of `whole`.
        """
        cols, ks = places(*packed_b(self.instruction))
        element, slot = ks << HALF | cols, (whole.first << HALF | whole.col).astype(np.int32)
        images, row = words.reshape(-1, len(whole.k), FEW_MEETINGS), whole.least[:, None]
        ks_met = np.empty((*images.shape[:2], 1), np.int64)
        # by D slot, its bit among those of its row that are used: the few that the first image has
        bit = np.zeros(self.instruction.fragment("d").slots, np.uint8)
        bit[np.sort(split(self.instruction, images[0])[0], axis=1)] = 1 << np.arange(FEW_MEETINGS, dtype=np.uint8)
        for start in range(0, len(images), IMAGES):
            d, b = split(self.instruction, images[start : start + IMAGES])
            b_element, d_slot = element[b], slot[d]
            k = b_element >> HALF
            ks_met[start : start + IMAGES] = k[:, :, :1]
            same = ((b_element ^ d_slot) & (1 << HALF) - 1 == 0) & (d_slot >> HALF == row)
            all_few = (np.bitwise_or.reduce(bit[d], axis=2) == (1 << FEW_MEETINGS) - 1).all()
            if not same.all() or not all_few or (k != k[:, :, :1]).any():
                raise ProbeError(f"{name}: an A slot meets several k, or metadata changes the row or columns it meets.")
        return ks_met

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables numbered by addresses in shared memory; the metadata's by what its fields govern."""
        row = self.instruction
        tables = {
            o: element_table(row.fragment(o).cols, row.fragment(o).elements, reading[o].tobytes()) for o in OF_WARPGROUP
        }
        e = selected([self._metadata_table(reading["a"], field) for field in reading["e"]])
        hashed = StructureHash(row.triples, reading["sha256"].tobytes().hex())
        return Conclusion({**tables, "e": e}, ADDRESSES, hashed)

    def _metadata_table(self, element_of_slot: Ints, field: Ints) -> Table:
        """The table of the metadata: by field, the element of A that it governs."""
        e = self.instruction.fragment("e")
        governed = np.full(e.slots, -1)
        governed[field] = element_of_slot
        if (governed[field] != element_of_slot).any():
            raise ProbeError(f"{self.instruction.name}: a field of the metadata governs two elements of A.")
        cells = [None if x < 0 else divmod(x, e.cols) for x in governed.tolist()]
        values = {n: tuple(None if cell is None else cell[j] for cell in cells) for j, n in enumerate(("row", "col"))}
        return slot_table(e.threads, e.elements, values)


@cache
def _metadata(sparsity: Sparsity) -> Bytes:
    """Images of metadata for all lanes of a warpgroup."""
    return pack(metadata_images(sparsity, WARPGROUP), 4)


def experiments() -> list[WarpgroupExperiment | SparseWarpgroupExperiment]:
    """One experiment for each warpgroup multiply."""
    sparse = [SparseWarpgroupExperiment(row) for row in inventory.of_family("wgmma.sp")]
    return [*map(WarpgroupExperiment, inventory.of_family("wgmma")), *sparse]
