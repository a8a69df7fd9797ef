"""The sparse mma.sp forms of PTX ISA 9.1, section 9.7.14.6, as rows, with and without ::ordered_metadata.

A row stands for its shape x pairs of A and B types x accumulator types. A is m x k/2: what is stored of it. `selectors`
is how many values the sparsity selector has (section 9.7.14.6.1): four where one lane of a quad holds the metadata,
two where a pair does, one where all four do.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.forms import Forms, one_by_one
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.multiply import MultiplyRow, OperandTypes
from tcprobe.isa.operand import Operand, Place, Role, registers_for
from tcprobe.isa.target import Target

Pairs = tuple[tuple[str, str], ...]


def _pairs(*types: str) -> Pairs:
    """Every type of A with every type of B."""
    return tuple((a, b) for a in types for b in types)


SAME = (("f16", "f16"), ("f32", "f32"))
TO_F16, TO_F32 = (("f16", "f16"),), (("f32", "f32"),)
TO_S32 = (("s32", "s32"),)
F16, BF16, TF32 = (("f16", "f16"),), (("bf16", "bf16"),), (("tf32", "tf32"),)
INT8, INT4, FP8 = _pairs("u8", "s8"), _pairs("u4", "s4"), _pairs("e4m3", "e5m2")
NOT_FP8 = tuple(pair for pair in _pairs("e4m3", "e5m2", "e3m2", "e2m3", "e2m1") if pair not in FP8)
ORDERED = "8.5"  # PTX ISA version that brought ::ordered_metadata


class SparseRow(NamedTuple):
    """One line of the manual's table of shapes and types: `ab` pairs of types, `dc` pairs of accumulators."""

    shape: tuple[int, int, int]
    ab: Pairs
    dc: Pairs
    selectors: int
    target: Target
    kind: str | None = None
    ordered: tuple[bool, ...] = (False, True)  # without ::ordered_metadata, with it


SM_80, SM_89, SM_120 = Target("sm_80", "7.1"), Target("sm_89", "8.4"), Target("sm_120a", "8.7", (("sm_120f", "8.8"),))
# fp8 of kind::f8f6f4 with f32: ptxas 12.9 to 13.5 accepts it beyond what the section says, and makes HMMA of it there
FP8_TOO = Target(
    "sm_120a", "8.7", (*SM_120.others, ("sm_100a", "8.6"), ("sm_110a", "9.0"), ("sm_100f", "8.8"), ("sm_110f", "9.0"))
)
ROWS = (
    SparseRow((16, 8, 16), F16, SAME, 4, SM_80),
    SparseRow((16, 8, 16), BF16, TO_F32, 4, SM_80),
    SparseRow((16, 8, 32), F16, SAME, 2, SM_80),
    SparseRow((16, 8, 32), BF16, TO_F32, 2, SM_80),
    SparseRow((16, 8, 8), TF32, TO_F32, 4, SM_80),
    SparseRow((16, 8, 16), TF32, TO_F32, 2, SM_80),
    SparseRow((16, 8, 64), FP8, TO_F32, 1, SM_89),
    SparseRow((16, 8, 32), INT8, TO_S32, 2, SM_80),
    SparseRow((16, 8, 64), INT8, TO_S32, 1, SM_80),
    SparseRow((16, 8, 64), INT4, TO_S32, 2, SM_80),
    SparseRow((16, 8, 128), INT4, TO_S32, 1, SM_80),
    SparseRow((16, 8, 64), FP8, TO_F16, 1, SM_120, ordered=(True,)),  # not in the manual, but accepted
    SparseRow((16, 8, 64), FP8, TO_F32, 1, FP8_TOO, "f8f6f4", (True,)),
    SparseRow((16, 8, 64), FP8, TO_F16, 1, SM_120, "f8f6f4", (True,)),
    SparseRow((16, 8, 64), NOT_FP8, SAME, 1, SM_120, "f8f6f4", (True,)),
)


def _forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    for ordered, row in product((False, True), ROWS):
        if ordered in row.ordered:
            for (a, b), (d, c) in product(row.ab, row.dc):
                form = (row, ordered, (d, a, b, c))
                yield _name(*form), partial(_instruction, *form)


def _name(sparse_row: SparseRow, ordered: bool, types: OperandTypes) -> str:
    variant, kind = "::ordered_metadata" if ordered else "", f".kind::{sparse_row.kind}" if sparse_row.kind else ""
    return f"mma.sp{variant}.sync.aligned.{Shape(*sparse_row.shape)}.row.col{kind}.{'.'.join(types)}"


def _instruction(sparse_row: SparseRow, ordered: bool, types: OperandTypes) -> Instruction:
    target = sparse_row.target.at_least(ORDERED) if ordered else sparse_row.target
    multiply = MultiplyRow(Shape(*sparse_row.shape), types, ("row", "col"), target, kind=sparse_row.kind)
    return Instruction(
        "mma.sp",
        _name(sparse_row, ordered, types),
        multiply.shape,
        sparse_operands(multiply, sparse_row.selectors),
        target,
        kind=sparse_row.kind,
    )


def sparse_operands(multiply_row: MultiplyRow, count: int) -> tuple[Operand, ...]:
    """d, a, b, c as of the dense multiply, but A stored; e and the selector."""
    d, a, b, c = multiply_row.operands()
    stored = multiply_row.shape.k // 2
    return (d, _stored(a, stored), b, c, *_metadata(a, stored, count))


@cache  # many rows have the same ones
def _stored(operand: Operand, cols: int) -> Operand:
    return replace(operand, cols=cols, registers=registers_for(operand.rows * cols, operand.slot_bits, WARP))


@cache
def _metadata(operand: Operand, cols: int, count: int) -> tuple[Operand, Operand]:
    bits, span = 4 if operand.type == "tf32" else 2, 2 if dtype(operand.type).bits == operand.slot_bits == 4 else 1
    selectors = tuple(range(count))
    e = Operand("e", Role.METADATA, f"b{bits}", operand.rows, cols, bits, 1, selectors=selectors, span=span)
    selector = Operand("selector", Role.SELECTOR, "s32", 1, 1, 32, 0, place=Place.IMMEDIATE, selectors=selectors)
    return e, selector


INSTRUCTIONS = Forms(("mma.sp",), ("mma.sp.", "mma.sp::"), one_by_one(_forms))
