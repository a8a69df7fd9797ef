"""Random whole numbers for a multiply, their product by NumPy, and their bit patterns.

A, B and C hold small whole numbers, none of them zero and no two lines alike, so that every type computes exactly and a
misplaced element shows. A of a sparse multiply has the stored elements, under random legal indices.

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

from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand
from tcprobe.isa.sparsity import Sparsity, sparsity
from tcprobe.layout.arrays import Array, Bits, Ints

DECODE: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


@dataclass(frozen=True)
class Multiplicands:
    """Whole numbers: a (products, m, k), b (products, k, n), c (products, m, n).

    Of a sparse multiply a (1, m, stored k), and `index` (m, stored units): where in its chunk a unit was.
    """

    a: Ints
    b: Ints
    c: Ints
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
