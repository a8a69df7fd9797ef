"""Runs a multiply's own code on random whole numbers: is D the product that given layouts predict?

A multiply is linear in A, in B and in C. If its code forms another sum of products than the layouts predict, the two
differ in some D slot by a nonzero polynomial of degree 2. For numbers drawn from a set of s it vanishes with a
probability of at most 2 / s, or 3 / 4 if s is 2 (Schwartz and Zippel). So over all `trials` a wrong layout passes with
a probability below 1e-15, however similar the two are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.structure import holder
from tcprobe.layout.table import Tables
from tcprobe.probes.slots import decode, encode
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.emulation import EMULATION
from tcprobe.sass.machine import Image, Machine
from tcprobe.sass.tensor import BASES
from tcprobe.sass.tensor_product import Layouts, computing, is_tensor

FACTOR = 4  # floats in A and B are from -FACTOR to FACTOR
ADDEND = (600, 1000)  # bounds of C's magnitude: f16 can hold D, and no D is zero


class Trials(NamedTuple):
    """Numbers by operand (a, b, c), (trials, slots), and the registers that hold them, (trials, bytes)."""

    numbers: Mapping[str, Ints]
    images: Mapping[str, Bytes]


def trials(instruction: Instruction, seed: int = 0) -> Trials:
    """Random numbers for a multiply, the same in every run; another `seed` gives others."""
    count = 128 if instruction.type("a") == "b1" else 32
    numbers = {f.operand: _numbers(f.operand, f.type, count, f.slots, seed) for f in instruction.given}
    return Trials(numbers, images(instruction, numbers))


def images(instruction: Instruction, numbers_by_operand: Mapping[str, Ints]) -> dict[str, Bytes]:
    """Registers that hold the numbers, by operand."""
    return {f.operand: encode(numbers_by_operand[f.operand], f.type, f.slot_bits) for f in instruction.given}


@cache
def _numbers(operand: str, kind: str, count: int, slots: int, seed: int) -> Ints:
    random = np.random.default_rng((ord(operand), count, slots, seed))
    if operand == "c":
        signs = random.choice([-1, 1], (count, slots))
        return np.asarray(random.integers(*ADDEND, (count, slots)) * signs, np.int64)
    bits, half = dtype(kind).bits, kind.startswith("s")
    least, most = (-FACTOR, FACTOR + 1) if dtype(kind).is_float else (-(1 << bits - 1) * half, 1 << bits - half)
    return random.integers(least, most, (count, slots))


def run(code: Code, instruction: Instruction, register_images: Mapping[str, Bytes], layouts: Layouts) -> Array:
    """D as the code of `tensor.kernel(instruction)` computes it from register images: (images, slots).

    `layouts` are those of its tensor-core opcodes. UnreadError if the code is not followed exactly.
    """
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    d, count = instruction.fragment("d"), len(register_images["a"])
    output = np.zeros((count, d.slots * d.slot_bits // 8), np.uint8)
    arrays = [*(register_images[operand] for operand in INPUTS), output]
    memory = [Image(base, image.reshape(-1)) for base, image in zip(BASES, arrays, strict=True)]
    parameters = b"".join(base.to_bytes(8, "little") for base in BASES) + bytes(4)
    if code.parameter_bytes != len(parameters):
        raise UnreadError(f"the cubin has {code.parameter_bytes} bytes of parameters, the kernel {len(parameters)}")
    stems = {step.opcode for step in code.instructions.values() if is_tensor(step)}
    opcodes = EMULATION | {stem: computing(layouts, stem) for stem in stems}
    Machine(count, memory, parameters, code.parameter_base).run(code.instructions, code.start, opcodes)
    return decode(output, d.type)


def predicted_d(instruction: Instruction, numbers_by_operand: Mapping[str, Ints], tables: Tables) -> Ints:
    """D by the layouts of all four operands, (trials, slots); unused slots are zero."""
    a, b, c, d = (holder(tables[f.operand], (f.products, f.rows, f.cols)) for f in instruction.fragments)
    left, right = numbers_by_operand["a"][:, a].astype(np.float64), numbers_by_operand["b"][:, b].astype(np.float64)
    total = left @ right
    if instruction.bit_op == "xor":  # popc(a ^ b) = a + b - 2ab
        total = left.sum(axis=3)[..., None] + right.sum(axis=2)[:, :, None] - 2 * total
    products = np.zeros((len(total), instruction.fragment("d").slots), np.int64)
    products[:, d.reshape(-1)] = (total + numbers_by_operand["c"][:, c]).reshape(len(total), -1)
    return products


def misfit(fragment: Fragment, computed: Array, predicted: Ints) -> str | None:
    """The first D slot that differs from what the layouts predict, in words; None if there is none."""
    wrong = np.argwhere(computed != predicted)
    if not len(wrong):
        return None
    trial, slot = wrong[0]
    lane, i = divmod(int(slot), fragment.elements)
    return f"D lane {lane} i {i} is {computed[trial, slot]:g}, not {predicted[trial, slot]}"
