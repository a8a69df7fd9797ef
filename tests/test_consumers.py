"""Programs that take what is emitted, and state layouts of their own: CuTe DSL, JAX, Numba, Triton.

What they state of an instruction is one more reference: each is compared with the measured table, slot by slot.
"""

from pathlib import Path
from types import SimpleNamespace

import cute_dsl
import numpy as np
import pytest
from emit_tables import distinct, number, run_python, warpgroup
from stand_ins import shared_out
from test_emit_layouts import triton_linear
from test_python_formats import every_n, slots

from tcprobe import emit
from tcprobe.emit.common import cell_identifier
from tcprobe.emit.mosaic import shape
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.sass import toolchain
from tcprobe.store.cell import cell, load
from tcprobe.store.results import published

pytestmark = pytest.mark.consumer
WGMMA = "wgmma.mma_async.m64n{n}k16.f32.f16.f16"


def whole():
    """A table of every layout, of warps and of warpgroups, all widths of D among them."""
    return [*distinct(), *warpgroup(), *every_n()]


def emitted(name, one):
    return run_python(emit.emit(name, [one]))


def on_sm_90(name):
    return cell(inventory.fragment(name), "sm_90", published())


# CuTe DSL


@pytest.fixture
def cute(monkeypatch):
    """CuTe DSL for sm_90a, which its warpgroup atoms ask for; layouts exist inside `cute.jit` only."""
    return cute_dsl.for_arch(monkeypatch, "sm_90a")


def wrong_slots(layout, one):
    """Slots that a layout of CuTe DSL leads elsewhere."""
    return [slot for slot in slots(one) if layout(tuple(slot[:2])) != number(one.fragment, slot[2:])]


def test_cute_dsl_makes_the_measured_layouts(cute):
    cells = [one for one in whole() if one.table.points <= 4096]
    made = [(one, emitted("cute-dsl", one)[cell_identifier(one)]) for one in cells]
    wrong = {}

    @cute.jit
    def compare():
        wrong.update({one.fragment.id: wrong_slots(make(), one) for one, make in made})

    compare()
    assert wrong.keys() == {one.fragment.id for one in cells}
    assert not any(wrong.values())


def atoms():
    """(fragments' instruction, operation) of CuTe DSL's multiplies, with A in registers."""
    import cutlass
    from cutlass.cute.nvgpu import OperandMajorMode, warp
    from cutlass.cute.nvgpu import warpgroup as group

    f16, f32, e4m3, s8 = cutlass.Float16, cutlass.Float32, cutlass.Float8E4M3FN, cutlass.Int8
    how = (group.OperandSource.RMEM, OperandMajorMode.K, OperandMajorMode.K)
    yield "mma.m16n8k8.row.col.f32.f16.f16.f32", warp.MmaF16BF16Op(f16, f32, (16, 8, 8))
    yield "mma.m16n8k16.row.col.f32.f16.f16.f32", warp.MmaF16BF16Op(f16, f32, (16, 8, 16))
    yield "mma.m16n8k4.row.col.f32.tf32.tf32.f32", warp.MmaTF32Op((16, 8, 4))
    yield "mma.m16n8k8.row.col.f32.tf32.tf32.f32", warp.MmaTF32Op((16, 8, 8))
    yield "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", warp.MmaFP8Op(e4m3, f32, (16, 8, 32))
    for n in (8, 24, 40, 64, 128, 256):
        yield WGMMA.format(n=n), group.MmaF16BF16Op(f16, f32, (64, n, 16), *how)
    yield "wgmma.mma_async.m64n24k32.f32.e4m3.e4m3", group.MmaF8Op(e4m3, e4m3, f32, (64, 24, 32), *how)
    yield "wgmma.mma_async.m64n24k32.s32.s8.s8", group.MmaI8Op(s8, s8, cutlass.Int32, (64, 24, 32), *how)


def judged(make_atom, name, operation):
    """Wrong slots by fragment. Of a warpgroup's B, which is in shared memory, there is no table."""
    atom = make_atom(operation)
    theirs = {"a": atom.tv_layout_A, "b": atom.tv_layout_B, "d": atom.tv_layout_C}
    ours = [fragment.id for fragment in resolve(name).instruction.fragments if fragment.operand in theirs]
    return {one: wrong_slots(theirs[one[-1]], on_sm_90(one)) for one in ours}


def test_atoms_of_cute_dsl_are_the_measured_ones(cute):
    wrong = {}

    @cute.jit
    def compare():
        wrong.update(one for name, made in atoms() for one in judged(cute.make_mma_atom, name, made).items())

    compare()
    assert len(wrong) == 5 * 3 + 8 * 2
    assert not any(wrong.values())


# JAX


def of_jax(layout, extent, threads):
    """The number of the element in every slot, by JAX's own tiling."""
    strides = tuple(int(np.prod(extent[axis + 1 :], dtype=int)) for axis in range(len(extent)))
    sizes, strides = layout.tiling.tile_shape(extent), layout.tiling.tile_strides(strides)
    held = shared_out(layout, list(zip(sizes, strides, strict=True)), threads)
    assert len(held) == threads * np.prod(layout.registers_shape(extent)) * layout.vector_length
    return held


def elements(one):
    """As `of_jax`, by the measured table."""
    f = one.fragment
    return [(product * f.rows + row) * f.cols + col for *_, row, col, product in slots(one)]


def test_jax_takes_the_tiled_layouts():
    """TiledLayout refuses a tiling that is not canonical, and dimensions that are not four warps of 32 lanes."""
    refused = []
    for one in whole():
        try:
            text = emit.emit("mosaic", [one])
        except UsageError:
            refused.append(one)
            continue
        assert of_jax(run_python(text)[cell_identifier(one)], shape(one), one.fragment.threads) == elements(one), one
    assert {one.fragment.family for one in refused} == {"wmma"}


def test_layouts_of_jax_are_the_measured_ones():
    from jax.experimental.mosaic.gpu import fragmented_array as fa

    for one in every_n():
        assert emitted("mosaic", one)[cell_identifier(one)] == fa.WGMMA_LAYOUT
        assert of_jax(fa.WGMMA_LAYOUT, shape(one), 128) == elements(one)
        assert of_jax(fa.WGMMA_LAYOUT_ACC_32BIT, shape(one), 128) == elements(one)
    for name, layout in (("k16.f32.f16.f16", fa.WGMMA_LAYOUT), ("k32.s32.s8.s8", fa.WGMMA_LAYOUT_8BIT)):
        a = on_sm_90(f"wgmma.mma_async.m64n8{name}.a")
        assert emitted("mosaic", a)[cell_identifier(a)] == layout
        assert of_jax(layout, shape(a), 128) == elements(a)


def test_jax_loads_tensor_memory_as_documented():
    """A warp's 32 rows are two loads of 16 rows, tcgen05.ld.16x256b; natively one of 32, tcgen05.ld.32x32b."""
    from jax.experimental.mosaic.gpu import fragmented_array as fa

    one, line = (
        cell(inventory.fragment(f"tcgen05.ld.{name}.d"), "sm_100", published()) for name in ("16x256b", "32x32b")
    )
    held = np.array(of_jax(fa.TCGEN05_LAYOUT, (128, 8), 128)).reshape(4, 32, 2, 4)
    strips = np.arange(4)[:, None, None, None] * 256 + np.arange(2)[:, None] * 128
    assert np.array_equal(held, strips + np.array(elements(one)).reshape(32, 1, 4))
    native = np.array(of_jax(fa.TMEM_NATIVE_LAYOUT, (128, 2), 128)).reshape(4, 32, 2)
    assert np.array_equal(native[0, :, 0] // 2, elements(line))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("F16Type", "mma.m16n8k16.row.col.f32.f16.f16.f32"),
        ("Float8E4M3FNType", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    ],
)
def test_jaxs_multiplies_of_a_warp_have_the_measured_operands(kind, name):
    """Its A and D are those of four warps, 16 rows each; all four hold B."""
    from jax.experimental.mosaic.gpu.mma import MMALayouts
    from jaxlib.mlir import ir

    with ir.Context():
        theirs = MMALayouts(getattr(ir, kind).get())
    for operand, layout in (("a", theirs.lhs), ("b", theirs.rhs), ("d", theirs.acc)):
        one = on_sm_90(f"{name}.{operand}")
        rows, cols = shape(one)
        bands = 1 if operand == "b" else 4
        held = of_jax(layout, (bands * rows, cols), 128)
        assert held[: len(elements(one))] == elements(one)
        assert held == [element + warp % bands * rows * cols for warp in range(4) for element in elements(one)]


# Numba


def test_numba_compiles_the_functions():
    from numba import njit

    for one in [*distinct()[::7], *warpgroup()]:
        scope, names = emitted("numba", one), [f"{cell_identifier(one)}_{name}" for name in ("row", "col")]
        row, col = (scope[name] for name in names)

        @njit
        def filled(out, row=row, col=col):
            for lane in range(out.shape[0]):
                for i in range(out.shape[1]):
                    out[lane, i, 0], out[lane, i, 1] = row(lane, i), col(lane, i)
            return out

        found = filled(np.zeros((one.table.threads, one.table.elements, 2), np.int64))
        assert found.reshape(-1, 2).tolist() == [list(element[:2]) for element in one.table.cells]
        assert row(1, 0) == one.table.at(1, 0)["row"]  # in Python too


def test_numba_kernels_take_the_functions(monkeypatch):
    """Compiled to PTX for sm_90 by the libnvvm of the compiler's wheel; no GPU is asked which one it is."""
    monkeypatch.setenv("CUDA_HOME", str(Path(toolchain.find().ptxas).parents[1]))
    import numba.cuda.dispatcher
    from numba import cuda, types

    monkeypatch.setattr(numba.cuda.dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    d = load("wgmma.m64n24k16.f32.f16.f16.d")
    scope = emitted("numba", d)
    row, lane_of = (scope[f"{cell_identifier(d)}_{name}"] for name in ("row", "lane_of"))

    def kernel(out):
        out[cuda.threadIdx.x] = row(cuda.threadIdx.x, 3) + lane_of(out[0], out[1])

    text, _ = cuda.compile_ptx(kernel, (types.int32[:],), cc=(9, 0))
    assert ".target sm_90" in text
    assert "and.b32" in text
    assert "call" not in text


# Triton


@pytest.mark.parametrize("n", [8, 16, 64, 256])
def test_tritons_layouts_of_a_warpgroup_are_the_measured_ones(n):
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout

    mma = NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, n, 16])
    for operand, layout in (("d", mma), ("a", DotOperandLayout(parent=mma, operand_index=0, k_width=2))):
        one = on_sm_90(f"{WGMMA.format(n=n)}.{operand}")
        register, lane, warp = triton_linear(layout, [one.fragment.rows, one.fragment.cols])
        assert (register, [*lane, *warp]) == emit.formats()["triton"].bases(one)
