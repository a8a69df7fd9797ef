"""Random numbers for a multiply, and the results that they must have: whole numbers and floats.

Whole: A, B and C hold small numbers, none of them zero and no two lines alike, so that every type computes exactly and
a misplaced element shows; NumPy has the product. Floats are normally distributed and of the type's whole precision,
so that sums are cut and rounded, and the bits of tf32 that are not read are random too; the model of the form's
arithmetic has the bits of D. A of a sparse multiply has the stored elements, under random legal indices.

>>> import numpy as np
>>> from tcprobe.isa.names import resolve
>>> row = resolve("wgmma.m64n24k16.f32.bf16.bf16").instruction
>>> given = draw(row, np.random.default_rng(0), steps=4)
>>> given.a.shape, given.b.shape, given.c.shape, product(row, given).shape
((1, 64, 64), (1, 64, 24), (1, 64, 24), (1, 64, 24))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import Arithmetic, types_of
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, Sparsity, sparsity
from tcprobe.isa.operand import INPUTS, Operand
from tcprobe.layout.arrays import Array, Bits, Ints
from tcprobe.store import arithmetic
from tcprobe.store.choose import Layers

DECODE: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


@dataclass(frozen=True)
class Multiplicands:
    """Whole numbers, or the bits of floats without padding: a (products, m, k), b (products, k, n), c (products, m, n).

    Of a sparse multiply a (1, m, stored k), and `index` (m, stored units): where in its chunk a unit was.
    """

    a: Array
    b: Array
    c: Array
    index: Ints | None = None


def matrix(instruction: Instruction, name: str) -> Operand:
    """The operand a, b or c, in registers or in shared memory; c of a wgmma is its d."""
    operands = {o.name: o for o in instruction.operands}
    return next(operands[candidate] for candidate in (name, f"{name}_smem", "d") if candidate in operands)


def draw(instruction: Instruction, rng: np.random.Generator, steps: int = 1) -> Multiplicands:
    """Random whole numbers for `steps` multiplies along k that the types hold exactly, as do all sums; bits for b1."""

    def numbers(name: str, most: int, down: int = 1, across: int = 1) -> Ints:
        operand = matrix(instruction, name)
        shape = (instruction.products, operand.rows * down, operand.cols * across)
        if operand.type == "b1":
            return rng.integers(0, 2, shape)
        signed = operand.type not in ("u8", "u4")
        return rng.integers(1, most + 1, shape) * (rng.choice([-1, 1], shape) if signed else 1)

    drawn = Multiplicands(numbers("a", 3, across=steps), numbers("b", 3, down=steps), numbers("c", 9))
    e = instruction.metadata
    return replace(drawn, index=indices(e, rng, steps)) if e else drawn


def indices(metadata: Fragment, rng: np.random.Generator, steps: int = 1) -> Ints:
    """Legal indices at random, (rows, stored units of all steps): ascending in each chunk."""
    rule = sparsity(metadata)
    values = np.array([[rule.read(nibble, field) for field in range(rule.fields)] for nibble in rule.legal])
    chunks = steps * metadata.cols // (rule.fields * rule.span)
    return values[rng.integers(0, len(values), (metadata.rows, chunks))].reshape(metadata.rows, -1)


def dense(sparsity: Sparsity, stored: Ints, index: Ints) -> Ints:
    """A sparse A with all its columns (products, m, k), zero in those that are not stored."""
    columns = range(stored.shape[2])
    k = np.array([[sparsity.k(s, row[s // sparsity.span]) for s in columns] for row in index.tolist()])
    whole = np.zeros((*stored.shape[:2], len(columns) * sparsity.positions // sparsity.fields), np.int64)
    np.put_along_axis(whole, k[None], stored, axis=2)
    return whole


def product(instruction: Instruction, multiplicands: Multiplicands) -> Ints:
    """D as NumPy computes it; for b1 the population count of the bit operation."""
    if instruction.bit_op == "xor":
        ones = multiplicands.a.sum(axis=2)[:, :, None] + multiplicands.b.sum(axis=1)[:, None, :]
        return np.asarray(multiplicands.c + ones - 2 * (multiplicands.a @ multiplicands.b))
    a = multiplicands.a  # AND of bits is their product
    if instruction.metadata and multiplicands.index is not None:
        a = dense(sparsity(instruction.metadata), a, multiplicands.index)
    return np.asarray(a @ multiplicands.b + multiplicands.c)


def patterns(values: Ints, matrix_operand: Operand | Fragment) -> NDArray[np.uint64]:
    """The bits of every number in the operand's type."""
    kind = dtype(matrix_operand.type)
    bits_of_value = {value: kind.pattern(value, matrix_operand.slot_bits) for value in np.unique(values).tolist()}
    low = min(bits_of_value)
    bits_by_value = np.array([bits_of_value.get(value, 0) for value in range(low, max(bits_of_value) + 1)], np.uint64)
    return np.asarray(bits_by_value[values - low])


def decode(bit_patterns: Bits, matrix_operand: Operand | Fragment) -> Array:
    """The numbers that bit patterns of an accumulator stand for."""
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[matrix_operand.slot_bits]
    return bit_patterns.astype(unsigned).view(DECODE[matrix_operand.type])


def model_of(instruction: Instruction, arch: str, layers: Layers | None) -> Arithmetic | None:
    """The parameters of a form's arithmetic; None for integers, and if no model gives every bit."""
    if not types_of(instruction).is_float:
        return None
    rule = arithmetic.find_model(instruction, arch, layers)
    return rule if isinstance(rule, Arithmetic) else None


def draw_floats(instruction: Instruction, rng: np.random.Generator, steps: int = 1) -> Multiplicands:
    """Random floats for `steps` multiplies along k; C as large as a sum."""
    size = [(matrix(instruction, name).rows, matrix(instruction, name).cols) for name in INPUTS]
    (m, stored), (k, n), _ = size
    kinds = types_of(instruction)
    shapes = (
        (kinds.a, (m, stored * steps), 1.0),
        (kinds.b, (k * steps, n), 1.0),
        (kinds.c, (m, n), (stored * steps) ** 0.5),
    )
    a, b, c = (
        (rng.normal(size=(instruction.products, *shape)) * scale).astype(FORMATS[kind].numpy).view(FORMATS[kind].word)
        for kind, shape, scale in shapes
    )
    e = instruction.metadata
    return Multiplicands(a, b, c, indices(e, rng, steps) if e else None)


def in_slots(instruction: Instruction, random: Multiplicands) -> list[NDArray[np.uint64]]:
    """A, B and C as slots hold them: narrow numbers at their place in the container."""
    slots = []
    for name, bits in zip(INPUTS, (random.a, random.b, random.c), strict=True):
        operand = matrix(instruction, name)
        kind = dtype(operand.type)
        shift = kind.container_shift if operand.slot_bits > kind.bits else 0
        slots.append(bits.astype(np.uint64) << np.uint64(shift))
    return slots


def bits_by_model(instruction: Instruction, arithmetic: Arithmetic, random: Multiplicands) -> Bits:
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
