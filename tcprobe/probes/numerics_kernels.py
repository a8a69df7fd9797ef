"""Kernels that probe the arithmetic: load registers, multiply once, store registers; one image per block.

A block multiplies one image of A, B and C, with one of metadata if A is sparse. A warpgroup has B in shared memory,
packed without gaps; A is in registers, or, if the leading dimension is 1, behind a descriptor as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcprobe.arithmetic.formats import BlockScales
from tcprobe.arithmetic.parameters import ElementTypes, types_of
from tcprobe.code.templates import Macros
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, sparsity
from tcprobe.isa.operand import Operand
from tcprobe.layout.arrays import Array, Bits, Bytes, Ints
from tcprobe.layout.descriptor import packed_descriptor
from tcprobe.layout.table import Tables
from tcprobe.probes import ptx
from tcprobe.probes.ptx import FormOp, Kernel, Launch
from tcprobe.probes.slots import from_slots, into_slots, pack, unpack
from tcprobe.probes.wgmma import PTX as WARPGROUP_PTX
from tcprobe.probes.wgmma import Warpgroup, k_bytes, places, shared_operand, whole_periods

LEGAL = 0x4  # four bits of metadata that every form allows: the first units of a chunk
SATFINITE = ".satfinite"
PTX = Macros(
    globals(),
    ptx=ptx,
    wgmma=WARPGROUP_PTX,
    k_bytes=k_bytes,
    packed_descriptor=packed_descriptor,
    whole_periods=whole_periods,
)


@dataclass(frozen=True)
class Operands:
    """Matrices as bits: A (images, products, m, stored k), B (.., n, stored k), C (.., m, n).

    `metadata` has four bits for each image, used everywhere in it. B's lines along k are in the order in which A is
    stored.
    """

    a: Bits
    b: Bits
    c: Bits
    metadata: Bytes | None = None
    scales: BlockScales | None = None


@dataclass(frozen=True)
class Numeric(FormOp):
    """The op D = A x B + C, for any numbers."""

    tables: Tables
    satfinite: bool = False

    def emulate(self, launch: Launch, core: Any) -> Bytes:
        """Computes D by the model of the emulated core."""
        form = TabledForm(self.instruction, self.tables, self.satfinite)
        image = form.read(launch)
        operands = (image.a, image.b, image.c, *([image.scales] if image.scales else []))
        d = core.computed(self.instruction, operands, self.satfinite)
        return form.registers("d", d).reshape(-1)


@dataclass(frozen=True)
class TabledForm:
    """A form with the tables of its fragments."""

    row: Instruction
    tables: Tables
    satfinite: bool = False

    @property
    def types(self) -> ElementTypes:
        return types_of(self.row)

    @property
    def kernel(self) -> Kernel:
        text = kernel(self.row, self.satfinite)
        return replace(text, op=Numeric(self.row, self.tables, self.satfinite))

    def launch(self, operand_bits: Operands, from_memory: bool = False) -> Launch:
        """One launch, with a block for each image."""
        c, d = "c" if "c" in self.tables else "d", self.row.fragment("d")
        e, nibbles = self.row.metadata, operand_bits.metadata
        if nibbles is None:
            nibbles = np.full(len(operand_bits.a), LEGAL, np.uint8)
        b = self._spread(operand_bits.b, nibbles)
        warpgroup = "b" not in self.tables
        images = (
            self._memory("a_smem", operand_bits.a)
            if warpgroup and from_memory
            else self.registers("a", operand_bits.a),
            self._memory("b_smem", b) if warpgroup else self.registers("b", b.swapaxes(2, 3)),
            self.registers(c, operand_bits.c),
            *([np.repeat((nibbles * 0x11)[:, None], e.threads * ptx.thread_bytes(e), axis=1)] if e else []),
            *self._scales(operand_bits),
        )
        size = len(operand_bits.a) * d.threads * ptx.thread_bytes(d)
        return Launch(self.kernel, (len(operand_bits.a), 1, 1), images, int(from_memory), size, self.row.threads)

    def results(self, raw: Bytes) -> Bits:
        """D: (images, products, m, n)."""
        return self._matrices("d", raw)

    def registers(self, operand: str, matrices: Bits) -> Bytes:
        """Matrices in the registers of an operand: (images, bytes)."""
        fragment = self.row.fragment(operand)
        words = matrices.reshape(len(matrices), -1).astype(_word(fragment.slot_bits)) << _shift(fragment)
        return pack(into_slots(self.tables[operand], fragment, words), fragment.slot_bits)

    def read(self, launch: Launch) -> Operands:
        """The matrices of a launch: the inverse of `launch`."""
        warpgroup, images = "b" not in self.tables, launch.inputs
        nibbles = (images[3][:, 0] & 0xF).astype(np.uint8) if self.row.metadata else None
        a = self._from_memory("a_smem", images[0]) if warpgroup and launch.ldm else self._matrices("a", images[0])
        b = self._from_memory("b_smem", images[1]) if warpgroup else self._matrices("b", images[1]).swapaxes(2, 3)
        c = self._matrices("c" if "c" in self.tables else "d", images[2])
        if nibbles is not None:
            b = np.stack([part[..., self._stored_k(int(nibble))] for part, nibble in zip(b, nibbles, strict=True)])
        return Operands(a, b, c, nibbles, self._read_scales(images))

    def _matrices(self, operand: str, raw: Bytes) -> Bits:
        fragment = self.row.fragment(operand)
        slots = unpack(raw.reshape(-1, fragment.threads * ptx.thread_bytes(fragment)), fragment.slot_bits)
        numbers = from_slots(self.tables[operand], fragment, slots >> _shift(fragment))
        return numbers.reshape(len(slots), fragment.products, fragment.rows, fragment.cols)

    def _memory(self, name: str, factor_lines: Bits) -> Bytes:
        """Lines along k, packed as a descriptor without swizzle needs them."""
        operand = shared_operand(self.row, name).held
        line, k = places(operand.slot_bits, *factor_lines.shape[2:])
        return pack(np.ascontiguousarray(factor_lines[:, 0][:, line, k]), operand.slot_bits)

    def _from_memory(self, name: str, raw: Bytes) -> Bits:
        operand = shared_operand(self.row, name).held
        size = (operand.rows, operand.cols) if name == "a_smem" else (operand.cols, operand.rows)
        line, k = places(operand.slot_bits, *size)
        lines = np.zeros((len(raw), *size), _word(operand.slot_bits))
        lines[:, line, k] = unpack(raw, operand.slot_bits)
        return lines[:, None]

    def _scales(self, operand_bits: Operands) -> list[Bytes]:
        """The registers of scales; all one if none are given."""
        if not self.row.scales:
            return []
        of_a, of_b = self.row.scales
        shapes = [(*operand_bits.a.shape[:2], *size) for size in ((of_a.rows, of_a.cols), (of_b.cols, of_b.rows))]
        ones = [np.full(shape, of_a.one, np.uint8) for shape in shapes]
        lines = operand_bits.scales or BlockScales(ones[0], ones[1], of_a.type)
        return [self.registers(of_a.operand, lines.a), self.registers(of_b.operand, lines.b.swapaxes(2, 3))]

    def _read_scales(self, inputs: Sequence[Array]) -> BlockScales | None:
        if not self.row.scales:
            return None
        of_a, of_b = self.row.scales
        lines = self._matrices(of_a.operand, inputs[-2]), self._matrices(of_b.operand, inputs[-1]).swapaxes(2, 3)
        return BlockScales(*lines, of_a.type)

    def _spread(self, b_bits: Bits, nibbles: Bytes) -> Bits:
        """B with its lines where the metadata picks them, and zeros in between."""
        if not self.row.metadata:
            return b_bits
        whole = np.zeros((*b_bits.shape[:-1], self.row.shape.k), b_bits.dtype)
        for nibble in np.unique(nibbles):
            selected = np.flatnonzero(nibbles == nibble)
            whole[selected[:, None], ..., self._stored_k(int(nibble))] = b_bits[selected].transpose(0, 3, 1, 2)
        return whole

    def _stored_k(self, nibble: int) -> Ints:
        """The k of every stored column under four bits of metadata."""
        e = self.row.fragment("e")
        rule = sparsity(e)
        return np.array(
            [rule.k(stored, rule.read(nibble, stored // rule.span % rule.fields)) for stored in range(self.row.stored)]
        )


def _word(bits: int) -> Any:
    return {16: np.uint16, 32: np.uint32, 64: np.uint64}.get(bits, np.uint8)


def _shift(fragment: Fragment) -> Any:
    """How far up a number is in its slot, if the slot is wider."""
    kind = dtype(fragment.type)
    return _word(fragment.slot_bits)(kind.container_shift if fragment.slot_bits > kind.bits else 0)


def kernel(instruction: Instruction, satfinite: bool = False) -> Kernel:
    """The kernel of a form; its op has no tables yet."""
    named = instruction
    if satfinite:  # PTX puts it at the end for wmma, before the types otherwise
        at_end = instruction.family == "wmma"
        before, integers, after = (instruction.name, "", "") if at_end else instruction.name.partition(".s32.")
        named = replace(instruction, name=f"{before}{SATFINITE}{integers}{after}", called=instruction.id)
    name = ptx.identifier(f"numerics.{instruction.id}{SATFINITE if satfinite else ''}")
    text = _warp_kernel(named, name) if instruction.threads == WARP else _warpgroup_kernel(named, name)
    return Kernel(name, Numeric(instruction, {}, satfinite), text, instruction.target)


def _warp_kernel(instruction: Instruction, name: str) -> str:
    fragments = {f.operand: f for f in instruction.fragments}
    inputs = [o for o in ("a", "b", "c", "e", "scale_a", "scale_b") if o in fragments]
    body = PTX.warp(instruction, fragments, dict.fromkeys(inputs, "%x"))
    return ptx.entry(name, [*inputs, "d"], [ptx.declare(p, f) for p, f in fragments.items()], body)


def _warpgroup_kernel(instruction: Instruction, name: str) -> str:
    a, b = (shared_operand(instruction, operand).held for operand in ("a_smem", "b_smem"))
    op = Warpgroup(instruction, "raw", "b_smem", ("k", "k"), 0)
    total = sum(whole_periods(bytes_of(factor)) for factor in (a, b))
    memory = f".shared .align 1024 .b8 {name}_memory[{total}];\n"
    pointers = ["a_", "b", "c", *(["e"] if instruction.metadata else []), "out"]
    registers, body = PTX.warpgroup_registers(instruction.fragment("d")), PTX.warpgroup(op, name, a, b)
    return memory + ptx.entry(name, pointers, registers, body)


def bytes_of(factor: Operand) -> int:
    """Bytes of a factor in shared memory, packed without gaps."""
    return factor.rows * factor.cols * factor.slot_bits // 8
