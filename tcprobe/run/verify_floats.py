"""Random floats for a multiply, and the bits of D by the model of its arithmetic.

A, B and C are normally distributed and of the type's whole precision, so that sums are cut and rounded; the bits
of tf32 that are not read are random too. A of a sparse multiply has the stored elements, under random legal indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcprobe import numerics
from tcprobe.arithmetic.formats import FORMATS
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import Arithmetic, types_of
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.isa.sparsity import sparsity
from tcprobe.layout.arrays import Bits, Ints
from tcprobe.run.multiplicands import indices, matrix
from tcprobe.store.choose import Layers


@dataclass(frozen=True)
class RandomFloats:
    """Bits of the numbers, without padding: a (products, m, stored k), b (products, k, n), c (products, m, n).

    `index` (m, stored units) of a sparse multiply: where in its chunk a unit was.
    """

    a: Bits
    b: Bits
    c: Bits
    index: Ints | None = None


def model_of(instruction: Instruction, arch: str, layers: Layers | None) -> Arithmetic | None:
    """The parameters of a form's arithmetic; None for integers, and if no model gives every bit."""
    if not types_of(instruction).is_float:
        return None
    rule = numerics.find_model(instruction, arch, layers)
    return rule if isinstance(rule, Arithmetic) else None


def draw_floats(instruction: Instruction, rng: np.random.Generator, steps: int = 1) -> RandomFloats:
    """Random floats for `steps` multiplies along k; C as large as a sum."""
    size = [(matrix(instruction, name).rows, matrix(instruction, name).cols) for name in INPUTS]
    (m, stored), (k, n), _ = size
    kinds = types_of(instruction)
    shapes = (
        (kinds.a, (m, stored * steps), 1.0),
        (kinds.b, (k * steps, n), 1.0),
        (kinds.c, (m, n), (stored * steps) ** 0.5),
    )
    a, b, c = (_normal(kind, rng, (instruction.products, *shape), scale) for kind, shape, scale in shapes)
    e = instruction.metadata
    return RandomFloats(a, b, c, indices(e, rng, steps) if e else None)


def _normal(kind: str, rng: np.random.Generator, shape: Sequence[int], scale: float) -> Bits:
    form = FORMATS[kind]
    values = (rng.normal(size=shape) * scale).astype(form.numpy)
    return values.view(form.word)


def in_slots(instruction: Instruction, random: RandomFloats) -> list[NDArray[np.uint64]]:
    """A, B and C as slots hold them: narrow numbers at their place in the container."""
    slots = []
    for name, bits in zip(INPUTS, (random.a, random.b, random.c), strict=True):
        operand = matrix(instruction, name)
        kind = dtype(operand.type)
        shift = kind.container_shift if operand.slot_bits > kind.bits else 0
        slots.append(bits.astype(np.uint64) << np.uint64(shift))
    return slots


def bits_by_model(instruction: Instruction, arithmetic: Arithmetic, random: RandomFloats) -> Bits:
    """D's bits (products, m, n), by multiplies along k in turn; D of one is C of the next."""
    kinds, d, first = types_of(instruction), random.c, 0
    stored, k = arithmetic.products, matrix(instruction, "b").rows
    for step in range(random.a.shape[2] // stored):
        a = random.a[:, :, None, first : first + stored]
        b_rows = _b_rows(instruction, random.index, step)
        lines = random.b[:, step * k : (step + 1) * k].swapaxes(1, 2)
        b = lines[:, None] if b_rows is None else lines[:, :, b_rows].swapaxes(1, 2)
        shape = (*d.shape, stored)
        d = dot(kinds, arithmetic, (np.broadcast_to(a, shape), np.broadcast_to(b, shape), d))
        first += stored
    return d


def _b_rows(instruction: Instruction, units_of_rows: Ints | None, step: int) -> Ints | None:
    """(m, stored k): the row of B that an element of a sparse A meets in a step; None if A is dense."""
    if instruction.metadata is None or units_of_rows is None:
        return None
    rule, units = sparsity(instruction.metadata), instruction.stored // sparsity(instruction.metadata).span
    part = units_of_rows[:, step * units : (step + 1) * units]
    return np.array([[rule.k(s, row[s // rule.span]) for s in range(instruction.stored)] for row in part.tolist()])
