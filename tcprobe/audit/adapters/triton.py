"""Triton: Gluon's NVMMADistributedLayout and DotOperandLayout, as bases of a linear layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tcprobe.audit.statement import StatedPlace, Statement, statement
from tcprobe.isa.operand import MULTIPLIED, OF_WARPGROUP

PACKAGE = "triton"
REPORTED: Mapping[str, str] = {}


class GluonMultiply(NamedTuple):
    """A multiply as Triton describes it: its form here, m n k, version and warps, `width` elements of k together."""

    form: str
    shape: tuple[int, int, int]
    version: int
    width: int


F16, S8 = "f32.f16.f16", "s32.s8.s8"
WARP = (
    GluonMultiply("mma.m16n8k16.row.col.f32.f16.f16.f32", (16, 8, 16), 2, 2),
    GluonMultiply("mma.m16n8k16.row.col.f16.f16.f16.f16", (16, 8, 16), 2, 2),
    GluonMultiply("mma.m16n8k16.row.col.f32.bf16.bf16.f32", (16, 8, 16), 2, 2),
    GluonMultiply("mma.m16n8k8.row.col.f32.tf32.tf32.f32", (16, 8, 8), 2, 1),
    GluonMultiply("mma.m16n8k32.row.col.s32.s8.s8.s32", (16, 8, 32), 2, 4),
    GluonMultiply("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", (16, 8, 32), 2, 4),
    GluonMultiply("mma.m16n8k32.row.col.f32.e5m2.e5m2.f32", (16, 8, 32), 2, 4),
)
TYPES = ((F16, 16, 2), ("f32.bf16.bf16", 16, 2), ("f32.tf32.tf32", 8, 1), (S8, 32, 4), ("f32.e4m3.e4m3", 32, 4))
GROUP = tuple(
    GluonMultiply(f"wgmma.mma_async.m64n{n}k{k}.{types}", (64, n, k), 3, width)
    for n in (8, 16, 32, 64, 128, 256)
    for types, k, width in TYPES
)


def statements() -> Iterator[Statement]:
    """The operands in registers."""
    for multiply in (*WARP, *GROUP):
        m, n, k = multiply.shape
        sizes = {"a": (m, k), "b": (k, n), "d": (m, n)}
        for operand in MULTIPLIED if multiply.version == 2 else OF_WARPGROUP:
            code = _code(multiply, operand)
            # bases of i and of the thread: lane, then warp
            from triton._C.libtriton import ir
            from triton._C.libtriton.gluon_ir import GluonOpBuilder

            context = ir.context()
            ir.load_dialects(context)
            builder = GluonOpBuilder(context)
            linear = builder.to_linear_layout(_layout(multiply, operand)._to_ir(builder), list(sizes[operand]))
            bases = linear.reg_bases, [*linear.lane_bases, *linear.warp_bases]
            threads, elements = 1 << len(bases[1]), 1 << len(bases[0])
            name = f"{_parent(multiply)}, operand {operand} of {multiply.form}"
            yield statement(
                name, f"{multiply.form}.{operand}", (threads, elements), _place(bases), atom=multiply.form, code=code
            )


def _parent(gluon: GluonMultiply) -> str:
    m, n, k = gluon.shape
    warps, shape = ([1, 1], [m, n]) if gluon.version == 2 else ([4, 1], [16, n, k])
    return f"NVMMADistributedLayout(version=[{gluon.version}, 0], warps_per_cta={warps}, instr_shape={shape})"


def _layout(gluon: GluonMultiply, operand: str) -> Any:
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout

    m, n, k = gluon.shape
    warps, shape = ([1, 1], [m, n]) if gluon.version == 2 else ([4, 1], [16, n, k])
    parent = NVMMADistributedLayout(version=[gluon.version, 0], warps_per_cta=warps, instr_shape=shape)
    number = "ab".find(operand)
    return parent if number < 0 else DotOperandLayout(parent=parent, operand_index=number, k_width=gluon.width)


def _place(bases: tuple[list[list[int]], list[list[int]]]) -> Callable[[int, int], StatedPlace]:
    def place(thread: int, i: int) -> StatedPlace:
        row = col = 0
        for number, vectors in ((i, bases[0]), (thread, bases[1])):
            for bit, vector in enumerate(vectors):
                if number >> bit & 1:
                    row, col = row ^ vector[0], col ^ vector[1]
        return row, col

    return place


def _code(gluon: GluonMultiply, operand: str) -> str:
    m, n, k = gluon.shape
    number = "ab".find(operand)
    size = {"a": [m, k], "b": [k, n], "d": [m, n]}[operand]
    dot_arguments = f"parent=layout, operand_index={number}, k_width={gluon.width}"
    dot_layout = "" if number < 0 else f"\nlayout = DotOperandLayout({dot_arguments})"
    return f"""\
from triton._C.libtriton import ir
from triton._C.libtriton.gluon_ir import GluonOpBuilder
from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout
layout = {_parent(gluon)}{dot_layout}
context = ir.context()
ir.load_dialects(context)
builder = GluonOpBuilder(context)
linear = builder.to_linear_layout(layout._to_ir(builder), {size})
def stated(thread, i):
    at = [0, 0]
    for number, bases in ((i, linear.reg_bases), (thread, [*linear.lane_bases, *linear.warp_bases])):
        for bit, base in enumerate(bases):
            if number >> bit & 1:
                at = [at[0] ^ base[0], at[1] ^ base[1]]
    return tuple(at)"""
