"""PTX of tcgen05.mma and tcgen05.cp: write images to shared and tensor memory, run one instruction, read cells back.

A block is a warpgroup. Its warp w accesses lanes 32 w to 32 w + 31 by tcgen05.st and tcgen05.ld.32x32b.x1, column by
column. All 512 columns are POISON first, so that cells that the instruction does not write are noticed. Forms of two
CTAs run in clusters of two; the first CTA issues. The plan has, for each block, which images it takes and their sizes.

A and B are packed in shared memory, without a swizzle and with k contiguous (`layout.descriptor`). Of two CTAs each has
half of the rows of A and half of the columns of B, the first CTA the first half. These addresses number rows, columns
and k. What else a multiply reads is in tensor memory, each operand in its own columns (`REGIONS`).

The emulator reads A and B in shared memory by their descriptors. If an operand has several copies, the part of the rows
and columns that D[r][c] is in selects one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.isa import bit_fields
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.descriptor import encode_tcgen05, offsets, packed_descriptor
from tcprobe.probes import ptx, tensor_memory
from tcprobe.probes.ptx import EmulatedCore, FormOp, Kernel, Launch
from tcprobe.probes.slots import pack, unpack
from tcprobe.probes.wgmma import PTX as WARPGROUP_PTX
from tcprobe.references.tensor_memory import BYTE, CELL, LANES, WIDTHS
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
    words[:, 3] = bit_fields.encode_instruction(sized.row.kind or "", sized.descriptor_fields)
    described = [encode_tcgen05(packed_descriptor(k_bytes(sized, name))) for name in FACTORS]
    words[:, 4:8] = np.array(described, np.uint64).view(np.uint32)
    lines = (sized.m // sized.ctas, sized.n // sized.ctas)
    words[:, 8:10] = [count * k_bytes(sized, name) for count, name in zip(lines, FACTORS, strict=True)]
    words[:, 10], words[:, 11] = COLUMNS, columns
    return words.view(np.uint8).reshape(1, -1)


WORDS = {"f32": np.float32, "s32": np.int32, "f16": np.float16}


@dataclass(frozen=True)
class TensorMultiply(FormOp):
    """The op of a multiply."""

    a_in_tensor: bool
    vector: int

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """By block, the columns that the kernel reads back, lane by lane; POISON where D is not."""
        words = launch.inputs[0].view(np.uint32).reshape(-1, PLAN)
        columns = int(words[0, 11])
        cells = np.full((len(words), LANES, columns), ptx.POISON * 0x01010101, np.uint32)
        multiply = _Emulated(self, launch, tables, words)
        ctas = multiply.sized.ctas
        for first in range(0, len(words), ctas):
            multiply.write(cells[first : first + ctas], words[first])
        return cells.reshape(-1).view(np.uint8)


class _Emulated:
    """A launch, taken apart."""

    def __init__(self, multiply_op: TensorMultiply, launch: Launch, tables: EmulatedCore, plan_words: Array) -> None:
        row = multiply_op.instruction
        fields = bit_fields.read_instruction(row.kind or "", int(plan_words[0, 3])).fields
        sized = SizedMultiply(row, fields["m"], fields["n"], fields.get("d_type", "f32"), multiply_op.vector)
        self.sized, self.op = replace(sized, a_in_tensor=multiply_op.a_in_tensor), multiply_op
        selector_fields = {"e": "sparsity_selector", "scale_a": "a_scale_id", "scale_b": "b_scale_id"}
        self.places = {
            name: tables.in_tensor_memory(row, name, replace(self.sized, selects=name, selector=fields.get(field, 0)))
            for name, field in ({"d": ""} | {n: f for n, f in selector_fields.items() if n in sized.names}).items()
        }
        if multiply_op.a_in_tensor:
            self.places["a"] = tables.in_tensor_memory(row, "a", self.sized)
        self.memory = launch.inputs[3].view(np.uint32).reshape(-1, sized.ctas, LANES, COLUMNS)
        lines = (sized.m, sized.n)
        self.shared = {
            name: self._matrices(raw, name, count)
            for name, raw, count in zip(FACTORS, launch.inputs[1:3], lines, strict=True)
        }

    def _matrices(self, raw: Bytes, name: str, line_count: int) -> Ints:
        """Zeros and ones by image: (count, lines, k)."""
        sized, k = self.sized, self.sized.stored if name == "a" else self.sized.k
        patterns = unpack(raw, sized.bits)[:, numbers(sized.bits, line_count // sized.ctas, k)]
        matrices: Ints = (patterns == sized.one).astype(np.int64).reshape(-1, line_count, k)
        return matrices

    def write(self, lane_words: Array, plan_words: Array) -> None:
        """Write D of one CTA, or of a pair, to its cells."""
        sized, (of_a, of_b, of_t) = self.sized, (int(number) // self.sized.ctas for number in plan_words[:3])
        memory = self.memory[of_t]
        most = max([1, *(places.shape[2] for name, places in self.places.items() if name != "d")])
        inputs = [self._inputs(of_a, memory, copy / most) for copy in range(most)]
        keys = [b"".join(each.tobytes() for each in input_arrays) for input_arrays in inputs]
        product_of_key = {
            key: self._product(self.shared["b"][of_b], *input_arrays)
            for key, input_arrays in dict(zip(keys, inputs, strict=True)).items()
        }
        products = [product_of_key[key] for key in keys]
        row, col = np.indices((sized.m, sized.n))
        which = (row * most // sized.m + col * most // sized.n) % most
        d = np.stack(products)[which, row, col].astype(WORDS[sized.d_type])
        word = np.uint32 if d.itemsize == CELL // BYTE else np.uint16
        cta, lane, bit = np.moveaxis(self.places["d"], 3, 0)
        lane_words.view(word)[cta, lane, bit // (8 * d.itemsize)] = d.view(word)[:, :, None]

    def _inputs(self, of_a: int, tensor_words: Array, share: float) -> tuple[Array, ...]:
        """(A, the k that its elements meet, both scales); `share` (0 to 1) selects among the copies of each."""
        sized = self.sized
        a = (
            self._read_elements("a", tensor_words, share, sized.bits) == sized.one
            if self.op.a_in_tensor
            else self.shared["a"][of_a]
        )
        k_met = np.broadcast_to(sized.first_k, (sized.m, sized.stored))
        if "e" in sized.names:
            k_met = self._k_of_stored(self._read_elements("e", tensor_words, share, sized.chunk[3]))
        return a, k_met, *(self._scale(name, tensor_words, share) for name in ("scale_a", "scale_b") if sized.vector)

    def _product(self, b_elements: Ints, a_elements: Array, met_k: Ints, *scales: Array) -> Array:
        """D: (M, N)."""
        sized = self.sized
        dense = np.zeros((sized.m, sized.k), np.float32)
        if (met_k == met_k[0]).all():
            dense[:, met_k[0]] = a_elements
        else:
            for column in range(sized.stored):
                dense[np.arange(sized.m), met_k[:, column]] += a_elements[:, column]
        weighed = b_elements.T.astype(np.float32)
        if scales:
            block = np.arange(sized.k) * sized.vector // sized.k
            dense, weighed = dense * scales[0][:, block], weighed * scales[1][block]
        product: Array = dense @ weighed
        return product

    def _read_elements(self, name: str, tensor_words: Array, share: float, bits: int) -> Ints:
        """The elements of an operand in tensor memory."""
        places = self.places[name]
        cta, lane, bit = np.moveaxis(places[:, :, int(share * places.shape[2])], 2, 0)
        words = tensor_words[cta, lane, REGIONS[name] - FIRST + bit // CELL]
        elements: Ints = words.astype(np.int64) >> bit % CELL & (1 << bits) - 1
        return elements

    def _k_of_stored(self, index_fields: Ints) -> Ints:
        """The k that each stored element meets."""
        kept, whole, span, bits = self.sized.chunk
        stored = np.arange(self.sized.stored)
        position = (index_fields == LAST_HALF).astype(np.int64) if bits == 4 else index_fields
        k_met: Ints = stored // kept * whole + position * span + stored % span
        return k_met

    def _scale(self, name: str, tensor_words: Array, share: float) -> Array:
        """Scales as factors, one or two."""
        patterns = self._read_elements(name, tensor_words, share, BYTE)
        return np.where(patterns == dtype(self.sized.scale_type).pattern(2, BYTE), 2, 1).astype(np.float32)


@dataclass(frozen=True)
class TensorCopy(FormOp):
    """The op of tcgen05.cp of numbered words."""

    multicast: str

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """The word of every cell that is written, POISON elsewhere."""
        rows, cols = self.instruction.shape.m, self.instruction.shape.n
        columns = int(launch.inputs[0].view(np.uint32)[0, 11])
        cells = np.full((1, LANES, columns), ptx.POISON * 0x01010101, np.uint32)
        words = launch.inputs[1].view(np.uint32)[0, numbers(CELL, rows, cols)].reshape(rows, cols, 1)
        places = tables.in_tensor_memory(self.instruction, "memory", self.multicast)
        cta, lane, bit = np.moveaxis(places, 3, 0)
        cells[cta, lane, bit // CELL] = words
        return cells.reshape(-1).view(np.uint8)


ALIGNMENT, ALL_COLUMNS = 1024, 512
SLOT, ARRIVED = ROOM_A + ROOM_B, ROOM_A + ROOM_B + 8  # offsets of the allocated address and of the mbarrier
SHARED_BYTES = 120 << 10  # more than half of an SM's: one block allocates its tensor memory at a time
MOST_NS = 1 << 29  # nanoseconds that a block waits for its instruction, which takes less than a thousand
FEW_SCALES = 3  # most scales of a row with blocks of 32 elements; with more, blocks have 16
POINTERS = ("plan", "a", "b", "t", "out")
PTX = Macros(globals(), POISON=ptx.POISON, WARPGROUP=WARPGROUP, wgmma=WARPGROUP_PTX)


@cache
def multiply_kernel(instruction: Instruction, a_in_tensor: bool = False, vector: int = 0) -> Kernel:
    """The probe of a multiply, for any M and N."""
    op = TensorMultiply(instruction, a_in_tensor, vector)
    parts = ["multiply", instruction.id, *["a_tensor"] * a_in_tensor, *([f"{vector}x"] if vector else [])]
    text = tensor_memory.instruction_text(instruction).replace("%p;", "%never;")
    if a_in_tensor:
        text = text.replace("%adesc", "[%ta]")
    if vector > FEW_SCALES:
        text = text.replace(tensor_memory.BLOCK, ".block16")
    since = tensor_memory.SINCE if vector else instruction.target.ptx
    return _kernel(".".join(parts), op, (text, "cta_group::2" in instruction.id, since))


@cache
def copy_kernel(instruction: Instruction, multicast: str = "") -> Kernel:
    """The probe of a copy; the source is where A is."""
    multicasts = instruction.stated.get("multicast", ("",))
    text = tensor_memory.instruction_text(instruction).replace(str(multicasts[0]), multicast)
    return _kernel(
        f"copy.{instruction.id}.{multicast}", TensorCopy(instruction, multicast), (text, False, instruction.target.ptx)
    )


def _kernel(name: str, probe_op: TensorMultiply | TensorCopy, spelled_as: tuple[str, bool, str]) -> Kernel:
    """`spelled_as`: the instruction, whether two CTAs run it, and the PTX version that its spelling needs."""
    text, paired, since = spelled_as
    name = ptx.identifier(name)
    memory = f".extern .shared .align {ALIGNMENT} .b8 {name}_memory[];\n"
    cluster = ".explicitcluster .reqnctapercluster 2, 1, 1" if paired else ""
    source = memory + ptx.entry(name, POINTERS, PTX.registers(), PTX.body(name, text, paired), cluster)
    return Kernel(name, probe_op, source, probe_op.instruction.target.at_least(since))
