"""The structure tensor of a block-scaled multiply, and which byte of which lane scales each product.

With all scales one, the structure tensor is measured as for any other multiply. Then one A slot at a time is one, B is
all ones, and the scale bytes are powers of two that encode their own numbers, three bits (a digit) at a time. Each
image is repeated with every digit replaced by 7 minus it. The exponent of D is the digit of the byte that scaled the
product. Both answers must add up to 7; a product scaled by no byte, or by two, would be noticed. First A's bytes encode
their numbers while B's are one, then B's while A's are one. The kernel multiplies once for each value of byte-id and
thread-id of the operand that has more of them.

All metadata of a sparse multiply is 0x4 throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.arrays import Bytes, Ints
from tcprobe.probes import ptx
from tcprobe.probes.block_scale_numbering import Scales, with_scales
from tcprobe.probes.block_scale_op import EXPONENT_OF_ONE, Scaled
from tcprobe.probes.experiment import Conclusion, Context, Experiment, OfInstruction, Readout
from tcprobe.probes.multiply import MultiplyExperiment
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.probes.slots import codes, one_hot, pack
from tcprobe.probes.sparse import SparseExperiment
from tcprobe.probes.sparse_images import metadata_images

DIGIT = 3  # bits of a byte's number in an image: ue4m3 has exponents up to 8
BYTES = WARP * 4
DIGITS = -(-(BYTES - 1).bit_length() // DIGIT)
MOST = (1 << DIGIT) - 1
IMAGES = 1 + 2 * 2 * DIGITS  # all one; by operand and digit: the digit, 7 minus the digit


@dataclass(frozen=True)
class ScaledExperiment(OfInstruction):
    """A block-scaled mma or mma.sp, under all values of byte-id and thread-id."""

    @cached_property
    def unscaled(self) -> Experiment:
        """The experiment on the structure tensor, with all scales one."""
        return SparseExperiment(self.instruction) if self.instruction.metadata else MultiplyExperiment(self.instruction)

    def launches(self) -> list[Launch]:
        """The launches of the structure tensor, then the launch of the scales."""
        return [*self.unscaled.launches(), launch(self.instruction)]

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """The reading of the structure tensor's experiment, with three more arrays.

        "d_slots": those that each A slot reaches. "scale_a", "scale_b": the byte by choice of selectors, A slot and D
        slot met.
        """
        unscaled = self.unscaled.decode(launches[:-1], outputs[:-1])
        by_choice = [decode(self.instruction, raw) for raw in outputs[-1].reshape(len(choices(self.instruction)), -1)]
        d_slots = by_choice[0][0]
        if any(not np.array_equal(d_slots, other) for other, _, _ in by_choice):
            raise ProbeError(f"{self.instruction.name}: byte-id or thread-id changes which slots of A and D meet.")
        scaling = {"scale_a": np.stack([a for _, a, _ in by_choice]), "scale_b": np.stack([b for _, _, b in by_choice])}
        return {**unscaled, "d_slots": d_slots, **scaling}

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """Tables that predict the structure tensor and every scale."""
        scales = Scales(*(reading[name].astype(np.int64) for name in Scales._fields))
        unscaled = {name: array for name, array in reading.items() if name not in Scales._fields}
        return with_scales(self.instruction, self.unscaled.conclude(unscaled, context), scales)


def experiments() -> list[ScaledExperiment]:
    """One for each multiply with scales in registers."""
    return [ScaledExperiment(row) for row in inventory.of_family("mma.block_scale", "mma.sp.block_scale")]


def choices(instruction: Instruction) -> list[dict[str, int]]:
    """Selectors by operand of scales, so that each selector of each operand occurs at least once."""
    count = max(len(f.selectors) for f in instruction.scales)
    return [{f.operand: number % len(f.selectors) for f in instruction.scales} for number in range(count)]


def kernel(instruction: Instruction) -> Kernel:
    """Block (x, y) takes A image x and image y of all scales.

    For each choice of selectors it stores one byte for each D slot, its exponent.
    """
    fragments = {f.operand: f for f in instruction.fragments}
    images = {"a": "%x", "b": "0", "e": "0", "scale_a": "%y", "scale_b": "%y"}
    loaded, selector_choices = [f.operand for f in instruction.given if f.operand != "c"], choices(instruction)
    body = [
        *(line for o in loaded for line in (*ptx.point(o, images[o], fragments[o]), *ptx.load(o, o, fragments[o]))),
        *(f"mov.f32 %c{j}, 0f00000000;" for j in range(fragments["c"].registers)),
        "mad.lo.u32 %image, %y, %nx, %x;",
        f"mad.lo.u32 %image, %image, {WARP}, %lane;",
        "mad.wide.u32 %out, %image, 4, %out;",
        f"mul.lo.u32 %image, %nx, %ny; mul.wide.u32 %step, %image, {BYTES};",
        *(line for selectors in selector_choices for line in _answer(instruction, selectors)),
    ]
    registers = [ptx.declare(p, f) for p, f in fragments.items()]
    registers += [".reg .b32 %word, %bits, %rest;", ".reg .b64 %step;", ".reg .pred %p;"]
    name = ptx.identifier(f"scales.{instruction.id}")
    text = ptx.entry(name, [*loaded, "out"], registers, body)
    return Kernel(name, Scaled(instruction, tuple(selector_choices)), text, instruction.target)


def _exponent(i: int) -> tuple[str, str]:
    """Byte i of %word gets the exponent of D's register i, %rest its bits."""
    return (
        f"mov.b32 %bits, %d{i}; or.b32 %rest, %rest, %bits;",
        f"shr.u32 %bits, %bits, 23; bfi.b32 %word, %bits, %word, {8 * i}, 8;",
    )


def _answer(instruction: Instruction, selectors: Mapping[str, int]) -> list[str]:
    """Multiply; store the exponents of the lane's D slots, or NO_POWER in all if one is not a power of two."""
    return [
        ptx.instruction_text(instruction, selectors),
        "mov.b32 %word, 0; mov.b32 %rest, 0;",
        *(line for i in range(instruction.fragment("d").registers) for line in _exponent(i)),
        "and.b32 %rest, %rest, 0x807fffff; setp.ne.u32 %p, %rest, 0; selp.b32 %word, 0xffffffff, %word, %p;",
        "st.global.b32 [%out], %word; add.u64 %out, %out, %step;",
    ]


def launch(instruction: Instruction) -> Launch:
    """The launch of all A slots with all images of scales."""
    a, b = instruction.factors
    inputs = [one_hot(a.slots, a.slot_bits, a.one), codes(b.slots, b.slot_bits, b.one)[:1]]
    if instruction.metadata:
        inputs.append(pack(metadata_images(sparsity(instruction.metadata))[:1], 4))
    inputs += [scale_images(f, turn) for turn, f in enumerate(instruction.scales)]
    grid = (1 + a.slots, IMAGES, 1)
    size = len(choices(instruction)) * grid[0] * IMAGES * BYTES
    return Launch(kernel(instruction), grid, tuple(inputs), 0, size)


def scale_images(fragment: Fragment, turn: int) -> Bytes:
    """Scale bytes of all lanes: (IMAGES, BYTES).

    All bytes are one, except in the images of the operand's `turn` (0 for scale_a, 1 for scale_b), which encode the
    bytes' numbers.
    """
    exponents = np.zeros((IMAGES, BYTES), np.int64)
    numbers = np.arange(BYTES)
    for digit in range(DIGITS):
        encoded, image = numbers >> DIGIT * digit & MOST, 1 + 2 * (turn * DIGITS + digit)
        exponents[image], exponents[image + 1] = encoded, MOST - encoded
    step = fragment.one & -fragment.one
    return (fragment.one + exponents * step).astype(np.uint8)


def decode(instruction: Instruction, raw: Bytes) -> tuple[Ints, Ints, Ints]:
    """(D slots by A slot; bytes of scale_a, and of scale_b, by A slot and D slot met): (A slots, n) each.

    ProbeError for answers that one product with one scale of each operand cannot give.
    """
    a, n = instruction.fragment("a"), instruction.shape.n
    answers = raw.reshape(IMAGES, 1 + a.slots, -1).astype(np.int64)
    reached = answers[:, 1:] > 0
    if answers[:, 0].any() or (reached != reached[0]).any() or (reached[0].sum(axis=1) != n).any():
        raise ProbeError(f"{instruction.name}: scales change which slots of A and D meet, or A is zero and D is not.")
    d_slots = np.nonzero(reached[0])[1].reshape(a.slots, n)
    exponents = np.take_along_axis(answers[:, 1:], d_slots[None], axis=2) - EXPONENT_OF_ONE
    if exponents[0].any():
        raise ProbeError(f"{instruction.name}: with all scales one a product of ones is not one.")
    return d_slots, _scaling_bytes(instruction, exponents, 0), _scaling_bytes(instruction, exponents, 1)


def _scaling_bytes(instruction: Instruction, exponents: Ints, turn: int) -> Ints:
    """The number of the byte that scaled each answer."""
    own: Any = exponents[1 + 2 * turn * DIGITS :][: 2 * DIGITS]
    plain, turned = own[::2], own[1::2]
    if (plain + turned != MOST).any() or plain.min() < 0 or turned.min() < 0:
        name = instruction.scales[turn].operand
        raise ProbeError(f"{instruction.name}: some product is not scaled by one byte of {name} alone.")
    byte: Ints = (plain << DIGIT * np.arange(DIGITS)[:, None, None]).sum(axis=0)
    if byte.max() >= BYTES:
        raise ProbeError(f"{instruction.name}: the answers encode byte {byte.max()}, which does not exist.")
    return byte
