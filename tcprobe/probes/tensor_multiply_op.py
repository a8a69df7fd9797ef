"""What the emulator does in place of the kernels of tcgen05.mma and tcgen05.cp, with operands at any places.

It reads A and B in shared memory by their descriptors. If an operand has several copies, the part of the rows and
columns that D[r][c] is in selects one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tcprobe.isa import instruction_descriptor
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.probes import ptx
from tcprobe.probes.ptx import EmulatedCore, Launch
from tcprobe.probes.slots import unpack
from tcprobe.probes.tensor_multiply_images import COLUMNS, FIRST, LAST_HALF, PLAN, REGIONS, SizedMultiply, numbers
from tcprobe.references.memory_operand import BYTE, CELL, LANES

WORDS = {"f32": np.float32, "s32": np.int32, "f16": np.float16}


@dataclass(frozen=True)
class TensorMultiply:
    """The op of a multiply."""

    instruction: Instruction
    a_in_tensor: bool
    vector: int
    from_code: bool = False

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
        fields = instruction_descriptor.read(row.kind or "", int(plan_words[0, 3])).fields
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
class TensorCopy:
    """The op of tcgen05.cp of numbered words."""

    instruction: Instruction
    multicast: str
    from_code: bool = False

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
