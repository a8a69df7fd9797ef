"""The dense mma.sync forms of PTX ISA 9.1, section 9.7.14.5, as rows.

A row stands for its shapes x pairs of A and B types x accumulator types (d = c unless `mixed`).
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Literal, NamedTuple

from tcprobe.isa.forms import Forms, one_by_one
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.multiply import MultiplyRow, OperandTypes
from tcprobe.isa.target import target


def _pairs(*types: str) -> tuple[tuple[str, str], ...]:
    """Every type of A with every type of B."""
    return tuple((a, b) for a in types for b in types)


ROW_COL = (("row", "col"),)
ANY = (("row", "row"), ("row", "col"), ("col", "row"), ("col", "col"))
SAME = (("f16", "f16"), ("f32", "f32"))
TO_F32 = (("f32", "f32"),)
TO_S32 = (("s32", "s32"),)
INT8 = _pairs("u8", "s8")
INT4 = _pairs("u4", "s4")
FP8 = _pairs("e4m3", "e5m2")
NARROW = _pairs("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
NOT_FP8 = tuple(pair for pair in NARROW if pair not in FP8)
F16, BF16, TF32, F64, B1 = (
    (("f16", "f16"),),
    (("bf16", "bf16"),),
    (("tf32", "tf32"),),
    (("f64", "f64"),),
    (("b1", "b1"),),
)


# of kind::f8f6f4; fp8 is accepted by ptxas 12.9 to 13.5 beyond what section 9.7.14.5 says, and becomes HMMA there
SM_120F = (("sm_120f", "8.8"),)
FP8_ELSEWHERE = (*SM_120F, ("sm_100a", "8.7"), ("sm_110a", "9.0"), ("sm_100f", "8.8"), ("sm_110f", "9.0"))
# of m16n8k32 with D of f32, for which ptxas 13.5 takes PTX 8.6 on sm_100a; PTX ISA states 8.7 for the kind
FP8_TO_F32 = (*SM_120F, ("sm_100a", "8.6"), *FP8_ELSEWHERE[2:])
STATED_KIND = "8.7"


class MmaRow(NamedTuple):
    """One line of the manual's table of shapes and types: `ab` pairs of types, `dc` pairs of accumulators."""

    shape: tuple[int, int, int]
    ab: tuple[tuple[str, str], ...]
    dc: tuple[tuple[str, str], ...]
    target: str
    ptx: str
    layouts: tuple[tuple[str, str], ...] = ROW_COL
    bit_op: Literal["xor", "and"] | None = None
    kind: str | None = None
    others: tuple[tuple[str, str], ...] = ()
    products: int = 1
    others_f32: tuple[tuple[str, str], ...] = ()  # the same with D of f32, where they are others


ROWS = (
    # .f32 C requires .f32 D in m8n8k4 (PTX ISA 9.7.14.5.14)
    MmaRow((8, 8, 4), F16, (*SAME, ("f32", "f16")), "sm_70", "6.4", ANY, products=4),
    MmaRow((16, 8, 8), F16, SAME, "sm_75", "6.5"),
    MmaRow((16, 8, 16), F16, SAME, "sm_80", "7.0"),
    MmaRow((16, 8, 8), BF16, TO_F32, "sm_80", "7.0"),
    MmaRow((16, 8, 16), BF16, TO_F32, "sm_80", "7.0"),
    MmaRow((16, 8, 4), TF32, TO_F32, "sm_80", "7.0"),
    MmaRow((16, 8, 8), TF32, TO_F32, "sm_80", "7.0"),
    MmaRow((16, 8, 16), FP8, SAME, "sm_89", "8.7"),
    MmaRow((16, 8, 32), FP8, (("f16", "f16"),), "sm_89", "8.7"),
    MmaRow((16, 8, 32), FP8, TO_F32, "sm_89", "8.4"),
    MmaRow((16, 8, 16), FP8, SAME, "sm_120a", "8.7", kind="f8f6f4", others=FP8_ELSEWHERE),  # not in the manual
    MmaRow((16, 8, 32), FP8, SAME, "sm_120a", "8.7", kind="f8f6f4", others=FP8_ELSEWHERE, others_f32=FP8_TO_F32),
    MmaRow((16, 8, 32), NOT_FP8, SAME, "sm_120a", "8.7", kind="f8f6f4", others=SM_120F),
    MmaRow((8, 8, 4), F64, (("f64", "f64"),), "sm_80", "7.0"),
    MmaRow((16, 8, 4), F64, (("f64", "f64"),), "sm_90", "7.8"),
    MmaRow((16, 8, 8), F64, (("f64", "f64"),), "sm_90", "7.8"),
    MmaRow((16, 8, 16), F64, (("f64", "f64"),), "sm_90", "7.8"),
    MmaRow((8, 8, 16), INT8, TO_S32, "sm_75", "6.5"),
    MmaRow((16, 8, 16), INT8, TO_S32, "sm_80", "7.0"),
    MmaRow((16, 8, 32), INT8, TO_S32, "sm_80", "7.0"),
    MmaRow((8, 8, 32), INT4, TO_S32, "sm_75", "6.5"),
    MmaRow((16, 8, 32), INT4, TO_S32, "sm_80", "7.0"),
    MmaRow((16, 8, 64), INT4, TO_S32, "sm_80", "7.0"),
    MmaRow((8, 8, 128), B1, TO_S32, "sm_75", "7.0", bit_op="xor"),
    MmaRow((8, 8, 128), B1, TO_S32, "sm_80", "7.1", bit_op="and"),
    MmaRow((16, 8, 128), B1, TO_S32, "sm_80", "7.0", bit_op="xor"),
    MmaRow((16, 8, 128), B1, TO_S32, "sm_80", "7.1", bit_op="and"),
    MmaRow((16, 8, 256), B1, TO_S32, "sm_80", "7.0", bit_op="xor"),
    MmaRow((16, 8, 256), B1, TO_S32, "sm_80", "7.1", bit_op="and"),
)


def _forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    for row in ROWS:
        for layouts, (a, b), (d, c) in product(row.layouts, row.ab, row.dc):
            form = (row, layouts, (d, a, b, c))
            yield _name(*form), partial(_instruction, *form)


def _name(mma: MmaRow, layouts: tuple[str, str], types: OperandTypes) -> str:
    kind = f".kind::{mma.kind}" if mma.kind else ""
    bits = f".{mma.bit_op}.popc" if mma.bit_op else ""
    return f"mma.sync.aligned.{Shape(*mma.shape)}.{'.'.join(layouts)}{kind}.{'.'.join(types)}{bits}"


def _instruction(mma: MmaRow, layouts: tuple[str, str], types: OperandTypes) -> Instruction:
    others = mma.others_f32 if mma.others_f32 and types[0] == "f32" else mma.others
    stated = STATED_KIND if others is mma.others_f32 and others else None
    least, shape = target(mma.target, mma.ptx, others, stated), Shape(*mma.shape)
    multiply = MultiplyRow(shape, types, layouts, least, mma.bit_op, mma.kind, products=mma.products)
    return Instruction(
        "mma",
        _name(mma, layouts, types),
        shape,
        multiply.operands(),
        least,
        products=mma.products,
        bit_op=mma.bit_op,
        kind=mma.kind,
    )


INSTRUCTIONS = Forms(("mma",), ("mma.m",), one_by_one(_forms))
