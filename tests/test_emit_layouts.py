"""Formats that are layouts in the terms of others: CuTe, tensor-layouts, Triton, tinygrad."""

import sys

import pytest
from emit_tables import RESULTS, distinct, number, run_python, warpgroup

from tcprobe import emit
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve, select
from tcprobe.references import cute
from tcprobe.store.cell import cell, load, operands

consumers = pytest.mark.consumer


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the wheel of tensor-layouts is a Linux one")
def test_tensor_layouts_evaluates_to_the_table():
    for table in [*distinct(), *warpgroup()]:
        found = run_python(emit.emit("tensor-layouts", [table]))[identifier(table.fragment.id)]
        slots = enumerate(table.table.cells)
        assert all(found(*divmod(slot, table.table.elements)) == number(table.fragment, cell) for slot, cell in slots)


def test_cute_text_is_that_of_the_traits():
    """The same as CuTe's own, up to how modes are written: compared as maps."""
    compared = 0
    for fragment in select("mma.m*", device=arch("sm_90")):
        claim = cute.claim(fragment, arch("sm_90"))
        if not isinstance(claim, str):
            assert claim.meant == cell(fragment, "sm_90", RESULTS).table
            compared += 1
    text = emit.emit("cute", [load("mma.m16n8k16.row.col.f32.f16.f16.f32.a")])
    assert "// ((4, 8), (2, 2, 2)):((32, 1), (16, 8, 128))" in text
    assert compared > 200


@consumers
def test_triton_gives_the_same_map():
    from triton._C.libtriton.linear_layout import LinearLayout

    for table in distinct():
        found = emit.formats()["triton"]
        register, lane = found.bases(table)
        names = ["product", "row", "col"][-len(register[0] if register else lane[0]) :]
        layout = LinearLayout.from_bases([("register", register), ("lane", lane)], names)
        for slot, element in enumerate(table.table.cells):
            at = dict(zip(("lane", "register"), divmod(slot, table.table.elements), strict=True))
            assert [layout.apply(at)[n] for n in ("row", "col")] == list(element[:2])


@consumers
def test_gluon_takes_the_emitted_text():
    for table in distinct()[::6]:
        scope = run_python(emit.emit("triton", [table]))
        made = scope[identifier(table.fragment.id)]
        assert made.shape[-2:] == [table.fragment.rows, table.fragment.cols]


@consumers
@pytest.mark.parametrize(
    ("instruction", "operand"),
    [
        (f"mma.m16n8k{k}.row.col.{types}", o)
        for k, types in (
            (16, "f32.f16.f16.f32"),
            (8, "f32.tf32.tf32.f32"),
            (32, "s32.s8.s8.s32"),
            (32, "f32.e4m3.e4m3.f32"),
        )
        for o in "abd"
    ],
)
def test_tritons_own_mma_layouts_are_the_measured_ones(instruction, operand):
    """One more reference: what Triton's NVMMA and dot-operand layouts say of one instruction's tile."""
    register, lane = triton_mma(instruction, operand)
    row = resolve(instruction).instruction
    table = cell(next(f for f in row.fragments if f.operand == operand), "sm_90", RESULTS)
    ours = emit.formats()["triton"].bases(table)
    assert (register, lane) == ours


def triton_mma(instruction, operand):
    """Bases (register, lane) that Triton computes for one tile of an instruction."""
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout

    row = resolve(instruction).instruction
    m, n, _ = row.shape
    mma = NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[m, n])
    fragment = next(f for f in row.fragments if f.operand == operand)
    layout = mma
    if operand in "ab":
        layout = DotOperandLayout(parent=mma, operand_index="ab".index(operand), k_width=32 // fragment.slot_bits)
    return triton_linear(layout, [fragment.rows, fragment.cols])[:2]


def triton_linear(layout, shape):
    """Bases (register, lane, warp) of a Gluon layout of a matrix."""
    from triton._C.libtriton import ir
    from triton._C.libtriton.gluon_ir import GluonOpBuilder

    context = ir.context()
    ir.load_dialects(context)
    builder = GluonOpBuilder(context)
    linear = builder.to_linear_layout(layout._to_ir(builder), shape)
    return linear.reg_bases, linear.lane_bases, linear.warp_bases


@consumers
def test_tinygrad_has_the_same_rows_and_its_constructor_accepts_all():
    from tinygrad.codegen.opt import tc
    from tinygrad.dtype import dtypes

    theirs = {str(t.dims) + t.dtype_in.name: (t.opts, t.swizzle) for t in (*tc.cuda_sm80, *tc.cuda_sm89)}
    cases = {
        "(8, 16, 16)half": "mma.m16n8k16.row.col.f32.f16.f16.f32",
        "(8, 16, 8)half": "mma.m16n8k8.row.col.f32.f16.f16.f32",
        "(8, 16, 8)float": "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
        "(8, 16, 32)float8_e4m3": "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    }
    for key, name in cases.items():
        made = tinygrad_row(name)
        assert (made["opts"], made["swizzle"]) == theirs[key], name
    for row in inventory.executed_by(32):
        if row.family == "mma" and row.products == 1 and row.target.on(arch("sm_90")):
            tc.TensorCore(**tinygrad_row(row.id), dtype_in=dtypes.half, dtype_out=dtypes.float)


def tinygrad_row(name):
    tables = list(operands(resolve(name).instruction, "sm_90", RESULTS).values())
    return run_python(emit.emit("tinygrad", tables))[identifier(name)]


def test_tinygrad_refuses_copies_and_several_products():
    for name, words in (
        ("wmma.mma.row.col.m16n16k16.f32.f32", "several times"),
        ("mma.m8n8k4.row.col.f32.f16.f16.f32", "4 products"),
    ):
        tables = list(operands(resolve(name).instruction, "sm_90", RESULTS).values())
        with pytest.raises(UsageError, match=words):
            emit.emit("tinygrad", tables)
