"""Inputs of tcgen05.mma: its descriptors, and images of shared and of tensor memory.

A and B are packed in shared memory, without a swizzle and with k contiguous (`layout.descriptor`). Of two CTAs each has
half of the rows of A and half of the columns of B, the first CTA the first half. These addresses number rows, columns
and k. What else a multiply reads is in tensor memory, each operand in its own columns (`REGIONS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from tcprobe.isa import instruction_descriptor
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS
from tcprobe.layout import descriptor
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.descriptor import offsets, packed_descriptor
from tcprobe.probes.slots import pack
from tcprobe.references.memory_operand import BYTE, CELL, LANES, WIDTHS
from tcprobe.values import Json

# types of A and B in these kernels, by kind; every shape of the kind has them
TYPES = {"f16": "f16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3", "mxf4": "e2m1"}
REGIONS = {"a": 256, "e": 288, "scale_a": 320, "scale_b": 352}  # first columns, from the allocated address on
REGION, FIRST, COLUMNS = 16, 256, 128  # columns of an operand; first column of all of them, and their number
ROOM_A, ROOM_B = 8 << 10, 16 << 10  # bytes of shared memory
PLAN = 16  # words of a block's plan
# by kind: stored elements of a chunk, all its elements, elements that an index field governs, bits of a field
CHUNKS = {"tf32": (1, 2, 1, 4), "mxf4": (4, 8, 2, 2), "mxf4nvf4": (4, 8, 2, 2)}
OTHER_CHUNK = (2, 4, 1, 2)
FIRST_HALF, LAST_HALF = 0x4, 0xE  # four bits that pick the first elements of a chunk, and the last ones


@dataclass(frozen=True)
class SizedMultiply:
    """A tcgen05.mma with what its descriptors say: M, N, the type of D, and `vector`, the scales of a row (0 without).

    `selector` selects among copies of the operand `selects`: "e", "scale_a" or "scale_b".
    """

    row: Instruction
    m: int
    n: int
    d_type: str
    vector: int = 0
    selects: str = ""
    selector: int = 0
    a_in_tensor: bool = False

    @property
    def ctas(self) -> int:
        """CTAs that multiply together."""
        return 1 + ("cta_group::2" in self.row.id)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all operands."""
        return tuple(operand.name for operand in self.row.operands)

    @property
    def bits(self) -> int:
        """Bits of an element of A or B in memory."""
        return WIDTHS.get(self.row.kind or "", BYTE)

    @property
    def type(self) -> str:
        """The type of A and B."""
        return TYPES.get(self.row.kind or "", "e2m1")

    @property
    def one(self) -> int:
        """The bit pattern of one in A and B."""
        return dtype(self.type).one_in(self.bits)

    @property
    def k(self) -> int:
        """Rows of B."""
        return self.row.shape.k

    @cached_property
    def stored(self) -> int:
        """Columns of A that are stored."""
        return next(o.cols for o in self.row.operands if o.name == "a")

    @property
    def chunk(self) -> tuple[int, int, int, int]:
        """The sparsity, as in CHUNKS."""
        return CHUNKS.get(self.row.kind or "", OTHER_CHUNK)

    @cached_property
    def first_k(self) -> Ints:
        """The k of each stored column if metadata picks the first elements of each chunk; all k if dense."""
        stored = np.arange(self.stored)
        if "e" not in self.names:
            return stored
        kept, whole, *_ = self.chunk
        return stored // kept * whole + stored % kept

    @property
    def scale_type(self) -> str:
        """The type of scales: the first that the form has with `vector` in a row."""
        scales = (str(scale).split() for scale in self.row.stated["scales"])
        return next(name for name, count in scales if count == f"{self.vector}X")

    @property
    def descriptor_fields(self) -> Json:
        """The fields of the instruction descriptor."""
        fields: Json = {"m": self.m, "n": self.n, "a_type": self.type, "b_type": self.type}
        fields |= {"scale_type": self.scale_type} if self.vector else {"d_type": self.d_type}
        if "e" in self.names:
            fields["sparse"] = 1
        if self.k == 96:
            fields["k"] = 96
        name = {"e": "sparsity_selector", "scale_a": "a_scale_id", "scale_b": "b_scale_id"}.get(self.selects)
        return fields | ({name: self.selector} if name and self.selector else {})

    @property
    def instruction_bits(self) -> int:
        """The instruction descriptor, encoded."""
        return instruction_descriptor.encode(self.row.kind or "", self.descriptor_fields)


def k_bytes(sized: SizedMultiply, operand: str) -> int:
    """Bytes along k in a row of A or a column of B."""
    return (sized.stored if operand == "a" else sized.k) * sized.bits // 8


def shared_images(sized: SizedMultiply, operand: str, zeros_and_ones: Ints) -> Bytes:
    """Images of A (count, M, stored) or B (count, N, k), of zeros and ones, packed: (count * CTAs, bytes)."""
    count, lines, k = zeros_and_ones.shape
    parts = zeros_and_ones.reshape(count * sized.ctas, lines // sized.ctas * k)
    images = np.zeros(parts.shape, np.uint64)
    images[:, numbers(sized.bits, lines // sized.ctas, k)] = parts * sized.one
    return pack(images, sized.bits)


@cache
def numbers(bits: int, line_count: int, k: int) -> Ints:
    """The number in packed memory of each element, by line, then k; flat."""
    line, element_k = np.indices((line_count, k)).reshape(2, -1)
    element_numbers: Ints = (
        offsets(packed_descriptor(k * bits // 8), "k", line, element_k, bits) * 8 + element_k * bits % 8
    ) // bits
    return element_numbers


def tensor_image(sized: SizedMultiply) -> Array:
    """Tensor memory that does not change a product: scales of one, metadata that picks the first elements, A zero.

    Words of shape (CTAs, lanes, COLUMNS).
    """
    memory = np.zeros((sized.ctas, LANES, COLUMNS), np.uint32)
    _region(memory, "e")[...] = FIRST_HALF * 0x11111111
    if sized.vector:
        one_bits = dtype(sized.scale_type).one_in(BYTE)
        for name in ("scale_a", "scale_b"):
            _region(memory, name)[...] = one_bits * 0x01010101
    return memory


def encode_parts(sized: SizedMultiply, operand: str, bits: int, high: int, low: int) -> Array:
    """Images of tensor memory in which parts of `bits` bits of an operand encode their numbers.

    All parts are `high`; then, for each bit of the number, `high` if it is set and else `low`; then all are `low`.
    Words of shape (images, CTAs, lanes, COLUMNS).
    """
    shape = (sized.ctas, LANES, REGION)
    parts = np.arange(int(np.prod(shape)) * (CELL // bits), dtype=np.uint64)
    planes = [parts >> np.uint64(bit) & np.uint64(1) for bit in range((len(parts) - 1).bit_length())]
    is_high = np.stack([np.ones_like(parts), *planes, np.zeros_like(parts)])
    words = pack(np.where(is_high == 1, np.uint64(high), np.uint64(low)), bits).view(np.uint32)
    images = np.repeat(tensor_image(sized)[None], len(is_high), axis=0)
    _region(images, operand)[...] = words.reshape(-1, *shape)
    return images


def part(sized: SizedMultiply, bits: int, part_numbers: Ints) -> tuple[Ints, Ints, Ints]:
    """(CTA, lane, bit from the operand's address on) of parts of `encode_parts`, by number."""
    each = CELL // bits
    cta, rest = np.divmod(part_numbers, LANES * REGION * each)
    lane, inside = np.divmod(rest, REGION * each)
    return cta, lane, inside * bits


def _region(tensor_words: Array, operand: str) -> Any:
    first = REGIONS[operand] - FIRST
    return tensor_words[..., first : first + REGION]


def plan(sized: SizedMultiply, image_numbers: Sequence[tuple[int, int, int]], columns: int) -> Bytes:
    """A row of words for each block: images of A, B and tensor memory, descriptors, sizes.

    Sizes: bytes of A and of B in shared memory, columns to write, columns to read.
    """
    each = np.array(image_numbers, np.uint32).repeat(sized.ctas, axis=0) * sized.ctas
    words = np.zeros((len(each), PLAN), np.uint32)
    words[:, :3] = each + (np.arange(len(each)) % sized.ctas)[:, None]
    words[:, 3] = sized.instruction_bits
    described = [descriptor.encode_tcgen05(packed_descriptor(k_bytes(sized, name))) for name in FACTORS]
    words[:, 4:8] = np.array(described, np.uint64).view(np.uint32)
    lines = (sized.m // sized.ctas, sized.n // sized.ctas)
    words[:, 8:10] = [count * k_bytes(sized, name) for count, name in zip(lines, FACTORS, strict=True)]
    words[:, 10], words[:, 11] = COLUMNS, columns
    return words.view(np.uint8).reshape(1, -1)
