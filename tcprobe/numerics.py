"""The very bits that a multiply gives, from what was measured of it: for tests of kernels on a CPU.

    d = numerics.multiply("mma.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)

Types below 16 bits and bf16 are those of ml_dtypes; tf32 is NumPy's float32. UsageError for a form whose arithmetic was
not measured, or that does not follow the model; for values that a type does not have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import bits_of, check_numbers, values_of
from tcprobe.arithmetic.gemm import gemm, integers_of, multiplied_integers
from tcprobe.arithmetic.model import dot as dot_of_bits
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers, types_of
from tcprobe.errors import UsageError
from tcprobe.isa import names
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.layout.arrays import Array, Bits
from tcprobe.question.arguments import checked
from tcprobe.store import arithmetic

__all__ = ["dot", "measured", "model", "multiply"]

measured, model = checked(arithmetic.measured), checked(arithmetic.model)


@checked
def multiply(form: str, a: ArrayLike, b: ArrayLike, c: ArrayLike, arch: str | None = None) -> Array:
    """D = A x B + C: A of m x k, B of k x n, C of m x n, of any size whose k is a multiple of the instruction's.

    D of one multiply is C of the next, k ascending. A sparse form has no such product; `dot` takes its stored products.
    """
    row = names.resolve(form).instruction
    if row.metadata:
        raise UsageError(f"{row.id} is sparse, so every row meets other lines of B: use `numerics.dot`.")
    rule, kinds = model(row, arch), types_of(row)
    given = dict(zip(INPUTS, map(np.asarray, (a, b, c)), strict=True))
    if any(array.ndim != 2 for array in given.values()):
        raise UsageError("A, B and C are matrices.")
    bits = tuple(bits_in(kinds, name, array) for name, array in given.items())
    if isinstance(rule, Integers):
        whole_a, whole_b, whole_c = (array.astype(np.int64) for array in given.values())
        if whole_a.shape[1] != whole_b.shape[0] or whole_c.shape != (whole_a.shape[0], whole_b.shape[1]):
            raise UsageError(f"A {whole_a.shape}, B {whole_b.shape} and C {whole_c.shape} are not a product.")
        return multiplied_integers(kinds, rule, (whole_a, whole_b.T, whole_c)).astype(np.int32)
    return values_of(FORMATS[kinds.d], gemm(kinds, rule, bits))  # type: ignore[arg-type]


@checked
def dot(form: str, a: ArrayLike, b: ArrayLike, c: ArrayLike, arch: str | None = None) -> Array:
    """D of dot products of one multiply: A and B of shape (..., k), of a sparse form those stored, C of shape (...)."""
    row = names.resolve(form).instruction
    rule, kinds = model(row, arch), types_of(row)
    given = dict(zip(INPUTS, map(np.asarray, (a, b, c)), strict=True))
    check_length(row, *(np.atleast_1d(given[name]).shape[-1] for name in "ab"))
    _check_alike(*given.values())
    bits = tuple(bits_in(kinds, name, array) for name, array in given.items())
    return values_of_d(kinds, of_bits(kinds, rule, bits))


def _check_alike(a: Array, b: Array, c: Array) -> None:
    """UsageError unless there are as many lists in A and in B as values in C."""
    try:
        found = np.broadcast_shapes(a.shape[:-1], b.shape[:-1], c.shape)
    except ValueError:
        found = (0,)
    if 0 in found:
        raise UsageError(f"A {a.shape}, B {b.shape} and C {c.shape} are not lists and a number for each pair of them.")


def check_length(instruction: Instruction, *lengths: int) -> None:
    """UsageError unless lists have the k values of one multiply."""
    for length in lengths:
        if length != instruction.stored:
            stored = " stored" if instruction.metadata else ""
            raise UsageError(f"{instruction.id} takes {instruction.stored}{stored} values of A and of B, not {length}.")


def of_bits(kinds: ElementTypes, arithmetic: Arithmetic | Integers, bits_of_operands: tuple[Array, ...]) -> Array:
    """D's bits of dot products."""
    a, b, c = bits_of_operands
    if isinstance(arithmetic, Arithmetic):
        return dot_of_bits(kinds, arithmetic, (a, b, c))
    numbers = [integers_of(getattr(kinds, o), part) for o, part in zip(INPUTS, bits_of_operands, strict=True)]
    d = multiplied_integers(
        kinds, arithmetic, (numbers[0][..., None, :], numbers[1][..., None, :], numbers[2][..., None, None])
    )
    return (d[..., 0, 0] & 0xFFFFFFFF).astype(np.uint32)


def bits_in(kinds: ElementTypes, operand: str, numbers: Array) -> Array:
    """Values of an operand as bits; UsageError where its type does not have them."""
    kind = getattr(kinds, operand)
    if kind in FORMATS:
        return bits_of(FORMATS[kind], numbers)
    check_numbers(kind, numbers)
    width, signed = dtype(kind).bits, kind.startswith("s")
    least, most = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    wrong = (numbers < least) | (numbers > most) | (numbers != np.floor(numbers))
    if wrong.any():
        raise UsageError(f"{numbers[wrong].flat[0]} is not a number of type {kind}.")
    return numbers.astype(np.int64).astype(np.uint64) & np.uint64((1 << width) - 1)


def values_of_d(kinds: ElementTypes, bit_patterns: Bits) -> Array:
    """D's bits as NumPy's numbers."""
    if kinds.is_float:
        return values_of(FORMATS[kinds.d], bit_patterns)
    return np.ascontiguousarray(bit_patterns, np.uint32).view(np.int32)
