"""What the emulator does in place of the kernels of sparse multiplies, for any layouts and any map of metadata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.arrays import Bytes, Ints, Words
from tcprobe.layout.table import Table
from tcprobe.probes.emulation import NUMBERS, RAW, elements
from tcprobe.probes.ptx import EmulatedCore, Launch
from tcprobe.probes.slots import pack, unpack


@dataclass(frozen=True)
class Packed:
    """The op of the probe: D for every image of A, B, C and metadata, one bit for each answer."""

    instruction: Instruction
    selector: int
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies zeros and ones."""
        row = self.instruction
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        index, used = elements(tables.table(row.fragment("d")), row.fragment("d"))
        words = np.zeros((len(c), len(k), len(a), WARP, 2), np.uint32)
        for number, image in enumerate(b):
            counts = np.minimum(_counts(a, image, k)[None] + c[:, None, None], 2).astype(np.uint8)  # zero, one, more
            slots = np.zeros((*counts.shape[:3], row.fragment("d").slots), np.uint8)
            slots[..., used] = counts.reshape(*counts.shape[:3], -1)[..., index]
            _add(words, slots.reshape(*slots.shape[:3], WARP, -1), number, len(b))
        return words.view(np.uint8).reshape(-1)


@dataclass(frozen=True)
class Product:
    """The op that stores D raw, for one image of A, B, C and metadata at a time."""

    instruction: Instruction
    selector: int
    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Multiplies zeros and ones."""
        row = self.instruction
        d = row.fragment("d")
        a, b, c = (matrices(row.fragment(o), raw, tables) for o, raw in zip(INPUTS, launch.inputs, strict=False))
        e = row.fragment("e")
        k = columns(e, tables.table(e).selection(self.selector), launch.inputs[3])
        index, used = elements(tables.table(d), d)
        slots = np.zeros((len(a), d.slots), NUMBERS[d.type])
        for image in range(len(a)):
            counts = _counts(a[image : image + 1], b[image], k[image : image + 1])[0, 0] + c[image]
            slots[image, used] = counts.reshape(-1)[index]
        return pack(slots.view(RAW[d.type]), d.slot_bits).reshape(-1)


def matrices(fragment: Fragment, raw: Bytes, tables: EmulatedCore) -> Ints:
    """Slots as matrices of zeros and ones: (images, rows, cols)."""
    ones = unpack(raw, fragment.slot_bits) == fragment.one
    index, used = elements(tables.table(fragment), fragment)
    matrices = np.zeros((len(raw), fragment.rows * fragment.cols), np.int64)
    matrices[:, index] = ones[:, used]
    return matrices.reshape(len(raw), fragment.rows, fragment.cols)


def columns(e: Fragment, table: Table, raw: Bytes) -> Ints:
    """The column of A of each stored element: (images, rows, stored columns)."""
    rule = sparsity(e)
    index, used = elements(table, e)
    values = unpack(raw, e.slot_bits).astype(np.int64) >> (
        3 if rule.fields == 1 else 0
    )  # the top bit tells 0xE from 0x4
    index_fields = np.zeros((len(raw), e.rows * e.cols), np.int64)
    index_fields[:, index] = values[:, used]
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


def _add(words: Words, d_slots: Bytes, number: int, image_count: int) -> None:
    """Pack the answers of D slots to B image `number`."""
    for i in range(d_slots.shape[-1]):
        ones = (d_slots[..., i] == 1).astype(np.uint32) << np.uint32(image_count * (i // 2) + number)
        wrong = (d_slots[..., i] > 1).astype(np.uint32) << np.uint32(31)
        words[..., i % 2] |= ones | wrong
