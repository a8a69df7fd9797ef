"""The structure tensor of a sparse multiply under changing metadata: what an A slot meets, and which bits decide that.

Nothing about a layout is assumed. One A slot at a time is one. Meanwhile the metadata of all lanes runs through images,
and for each of these B runs through codes: all ones, each bit of a slot's number, all zeros. The kernel loops over B
and packs D's answers: one bit for each code, and the sign bit if an answer is neither zero nor one. All metadata is
legal:

- uniform images: every four bits have the same value. They show which half of four bits an A slot obeys, and which B
  slot it meets under each index
- position images: two values that differ in one bit of one index are placed by one bit of lane * 8 + number of the four
  bits; then the other way round. They encode which four bits of which lane an A slot obeys. All others have other
  values meanwhile, so an A slot that obeyed them too would be noticed

C slots are set one at a time, with A = 0. Sparse tf32 allows only 0x4 and 0xE (PTX ISA 9.1, section 9.7.14.6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import INPUTS, SPARSE_INPUTS
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.layout.table import Table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, Context, FormExperiment, Readout
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import codes, encode, from_slots, into_slots, one_hot, pack, unpack
from tcprobe.probes.sparse_decode import Sparse, b_images, decode, metadata_images, number_tables

PTX = Macros(globals(), ptx=ptx, WARP=WARP)


@dataclass(frozen=True)
class Packed(FormOp):
    """The op of the probe: D for every image of A, B, C and metadata, one bit for each answer."""

    selector: int

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies zeros and ones."""
        row = self.instruction
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        d = row.fragment("d")
        words = np.zeros((len(c), len(k), len(a), WARP, 2), np.uint32)
        for number, image in enumerate(b):
            counts = np.minimum(_counts(a, image, k)[None] + c[:, None, None], 2).astype(np.uint8)  # zero, one, more
            slots = into_slots(tables.table(d), d, counts.reshape(*counts.shape[:3], -1))
            slots = slots.reshape(*slots.shape[:3], WARP, -1)
            for i in range(slots.shape[-1]):
                ones = (slots[..., i] == 1).astype(np.uint32) << np.uint32(len(b) * (i // 2) + number)
                words[..., i % 2] |= ones | (slots[..., i] > 1).astype(np.uint32) << np.uint32(31)
        return words.view(np.uint8).reshape(-1)


@dataclass(frozen=True)
class Product(FormOp):
    """The op that stores D raw, for one image of A, B, C and metadata at a time."""

    selector: int

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies zeros and ones."""
        row = self.instruction
        d = row.fragment("d")
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        counts = np.stack([_counts(a[[x]], b[x], k[[x]])[0, 0] + c[x] for x in range(len(a))]).reshape(len(a), -1)
        return encode(into_slots(tables.table(d), d, counts), d.type, d.slot_bits).reshape(-1)


def matrices(fragment: Fragment, raw: Bytes, tables: EmulatedCore) -> Ints:
    """Slots as matrices of zeros and ones: (images, rows, cols)."""
    ones = unpack(raw, fragment.slot_bits) == fragment.one
    numbers = from_slots(tables.table(fragment), fragment, ones.astype(np.int64))
    return numbers.reshape(len(raw), fragment.rows, fragment.cols)


def columns(e: Fragment, table: Table, raw: Bytes) -> Ints:
    """The column of A of each stored element: (images, rows, stored columns)."""
    rule = sparsity(e)
    values = unpack(raw, e.slot_bits).astype(np.int64) >> (3 if rule.fields == 1 else 0)  # the top bit tells 0xE from 4
    index_fields = from_slots(table, e, values)
    stored = np.arange(e.cols)
    index_fields = index_fields.reshape(len(raw), e.rows, e.cols)[:, :, stored - stored % e.span]
    unit = stored // (rule.fields * rule.span) * rule.positions
    k: Ints = (unit + index_fields) * rule.span + stored % rule.span
    return k


def _counts(a_elements: Ints, b_elements: Ints, k_of_stored: Ints) -> Ints:
    """A x B for every image of A and of metadata: (metadata images, A images, m, n). A has few ones."""
    images, rows, stored = np.nonzero(a_elements)
    counts = np.zeros((len(a_elements) * a_elements.shape[1], len(k_of_stored), b_elements.shape[1]), np.int64)
    np.add.at(counts, images * a_elements.shape[1] + rows, b_elements[k_of_stored[:, rows, stored]].swapaxes(0, 1))
    return counts.reshape(len(a_elements), a_elements.shape[1], len(k_of_stored), -1).transpose(2, 0, 1, 3)


@dataclass(frozen=True)
class SparseExperiment(FormExperiment):
    """An mma.sp, under all documented values of its selector."""

    def launches(self) -> list[Launch]:
        """One launch for each selector, and the C launch."""
        return launches(self.instruction)

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """ "d", "b": what each A slot meets, by index; "field": by selector, what it obeys; "c": D slots by C slot."""
        sparse = decode(self.instruction, outputs)
        return {"d": sparse.d, "b": sparse.b, "field": sparse.field, "c": sparse.c}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables that predict the structure tensor under any legal metadata."""
        return number_tables(
            self.instruction, Sparse(**{name: reading[name].astype(np.int64) for name in reading}), context
        )


def experiments() -> list[SparseExperiment]:
    """One experiment for each mma.sp."""
    return [SparseExperiment(row) for row in inventory.of_family("mma.sp")]


def kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block (x, y, z): A image x, metadata image y, C image z; each lane stores two words of answers."""
    fragments = {f.operand: f for f in instruction.fragments}
    name = ptx.identifier(f"{instruction.id}.selector{selector}")
    body = PTX.body(instruction, fragments, selector, b_images(instruction))
    text = ptx.entry(name, ("a", "b", "c", "e", "out"), PTX.registers(fragments), body)
    return Kernel(name, Packed(instruction, selector), text, instruction.target)


def product_kernel(instruction: Instruction, selector: int) -> Kernel:
    """Block x: D of image x of A, B, C and metadata, stored raw; scales are one."""
    fragments = {f.operand: f for f in instruction.fragments}
    body = PTX.product(instruction, fragments, selector, dict.fromkeys(SPARSE_INPUTS, "%x"))
    name = ptx.identifier(f"product.{instruction.id}.selector{selector}")
    text = ptx.entry(name, [*SPARSE_INPUTS, "d"], [ptx.declare(p, f) for p, f in fragments.items()], body)
    return Kernel(name, Product(instruction, selector), text, instruction.target)


def launches(instruction: Instruction) -> list[Launch]:
    """For each selector, A slots x metadata images; then one C slot at a time, by the first kernel."""
    a, b, c, e = (instruction.fragment(operand) for operand in SPARSE_INPUTS)
    a_images, c_images = (one_hot(f.slots, f.slot_bits, f.one) for f in (a, c))
    coded, metadata = codes(b.slots, b.slot_bits, b.one), pack(metadata_images(sparsity(e)), 4)
    kernels = [kernel(instruction, selector) for selector in e.selectors]
    grid, inputs = (len(a_images), len(metadata), 1), (a_images, coded, c_images[:1], metadata)
    by_selector = [Launch(k, grid, inputs, 0, grid[0] * grid[1] * WARP * 8) for k in kernels]
    grid, inputs = (1, 1, len(c_images)), (a_images[:1], coded, c_images, metadata[:1])
    return [*by_selector, Launch(kernels[0], grid, inputs, 0, len(c_images) * WARP * 8)]
