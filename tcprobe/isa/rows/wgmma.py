"""The warpgroup multiplies wgmma and wgmma.sp of PTX ISA 9.1, section 9.7.15, as rows; one row covers every N.

A is in registers (operand a) or in shared memory (a_smem): PTX has one name for both. B is in shared memory always.
Of sparse forms A is m x k/2: what is stored of it. Only 16-bit types have operands with m or n contiguous (`majors`).
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from math import prod
from typing import NamedTuple

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.forms import Forms, one_by_one
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Place, Role, registers_for
from tcprobe.isa.target import target

M = 64
K_BYTES = 32  # of a dense row of A, and of what is stored of a sparse one
FLOAT_N = tuple(range(8, 257, 8))
INTEGER_N = (8, 16, 24, *range(32, 257, 16))
OLD, MIXED, SPARSE = "8.0", "8.4", "8.2"  # PTX ISA versions: dense, u8 with s8, sparse


class WarpgroupRow(NamedTuple):
    """One type of D with types of A and B; `selectors` are those of the sparse form, 0 where there is none."""

    d: str
    a: str
    b: str
    ptx: str
    numbers: tuple[int, ...]
    selectors: int
    bit_op: str | None = None


ROWS = (
    WarpgroupRow("f16", "f16", "f16", OLD, FLOAT_N, 2),
    WarpgroupRow("f32", "f16", "f16", OLD, FLOAT_N, 2),
    WarpgroupRow("f32", "bf16", "bf16", OLD, FLOAT_N, 2),
    WarpgroupRow("f32", "tf32", "tf32", OLD, FLOAT_N, 2),
    *(
        WarpgroupRow(d, a, b, OLD, FLOAT_N, 1)
        for a, b, d in product(("e4m3", "e5m2"), ("e4m3", "e5m2"), ("f16", "f32"))
    ),
    *(
        WarpgroupRow("s32", a, b, OLD if a == b else MIXED, INTEGER_N, 1)
        for a, b in product(("u8", "s8"), ("u8", "s8"))
    ),
    WarpgroupRow("s32", "b1", "b1", OLD, INTEGER_N, 0, "and"),
)


def _forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    forms = (
        (row, n, sparse) for sparse in (False, True) for row in ROWS if row.selectors or not sparse for n in row.numbers
    )
    return ((_name(*form), partial(_instruction, *form)) for form in forms)


def _shape(warpgroup: WarpgroupRow, n: int, sparse: bool) -> Shape:
    return Shape(M, n, K_BYTES * 8 // dtype(warpgroup.a).bits * (2 if sparse else 1))


def _name(warpgroup: WarpgroupRow, n: int, sparse: bool) -> str:
    bits = f".{warpgroup.bit_op}.popc" if warpgroup.bit_op else ""
    shape = _shape(warpgroup, n, sparse)
    return (
        f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.{shape}.{warpgroup.d}.{warpgroup.a}.{warpgroup.b}{bits}"
    )


def _instruction(warpgroup: WarpgroupRow, n: int, sparse: bool) -> Instruction:
    shape = _shape(warpgroup, n, sparse)
    operands = _factors(warpgroup, shape, sparse) + (
        _metadata(warpgroup.a, (shape.m, shape.k // 2), warpgroup.selectors) if sparse else ()
    )
    least = target("sm_90a", max(warpgroup.ptx, SPARSE) if sparse else warpgroup.ptx)
    return Instruction(
        "wgmma.sp" if sparse else "wgmma",
        _name(warpgroup, n, sparse),
        shape,
        operands,
        least,
        threads=WARPGROUP,
        bit_op="and" if warpgroup.bit_op else None,
    )


def _factors(warpgroup: WarpgroupRow, shape: Shape, sparse: bool) -> tuple[Operand, ...]:
    """d, a in registers or in shared memory, b in shared memory."""
    m, n, k = shape
    stored = k // 2 if sparse else k
    return (
        _held("d", Role.RESULT, warpgroup.d, (m, n)),
        _held("a", Role.FACTOR, warpgroup.a, (m, stored)),
        _shared("a_smem", warpgroup.a, (m, stored)),
        _shared("b_smem", warpgroup.b, (k, n)),
    )


@cache  # many forms have the same ones
def _held(name: str, role: Role, kind: str, size: tuple[int, int]) -> Operand:
    bits = dtype(kind).bits
    return Operand(name, role, kind, *size, bits, registers_for(prod(size), bits, WARPGROUP))


@cache
def _shared(name: str, kind: str, size: tuple[int, int]) -> Operand:
    bits = dtype(kind).bits
    majors = ("k", "mn") if bits == 16 else ("k",)
    return Operand(name, Role.FACTOR, kind, *size, bits, 0, place=Place.SHARED, majors=majors)


@cache
def _metadata(kind: str, size: tuple[int, int], count: int) -> tuple[Operand, ...]:
    """The index fields of a register, and the selector that says whose registers count."""
    bits, selectors = 4 if kind == "tf32" else 2, tuple(range(count))
    e = Operand("e", Role.METADATA, f"b{bits}", *size, bits, 1, selectors=selectors)
    return e, Operand("selector", Role.SELECTOR, "s32", 1, 1, 32, 0, place=Place.IMMEDIATE, selectors=selectors)


INSTRUCTIONS = Forms(("wgmma", "wgmma.sp"), ("wgmma.",), one_by_one(_forms), WARPGROUP, opcode="wgmma")
