"""Programs that take what is emitted, and state layouts of their own: CuTe DSL, JAX, Numba, tilelang, Triton.

What they state of an instruction is one more reference: each is compared with the measured table, slot by slot.
"""

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from stand_ins import shared_out
from test_emit import distinct, number, run_python, triton_linear, warpgroup
from test_python_formats import every_n, slots

from tcprobe import emit
from tcprobe.emit.common import named
from tcprobe.emit.mosaic import shape
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.sass import toolchain
from tcprobe.store.cell import cell, load
from tcprobe.store.results import published

pytestmark = pytest.mark.consumer
tilelang = pytest.mark.skipif(not find_spec("tilelang"), reason="no tilelang: python3 tools/dev.py test --tilelang")
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
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_90a")
    import cutlass.cute

    return cutlass.cute


def wrong_slots(layout, one):
    """Slots that a layout of CuTe DSL leads elsewhere."""
    return [slot for slot in slots(one) if layout(tuple(slot[:2])) != number(one.fragment, slot[2:])]


def test_cute_dsl_makes_the_measured_layouts(cute):
    cells = [one for one in whole() if one.table.points <= 4096]
    made = [(one, emitted("cute-dsl", one)[named(one)]) for one in cells]
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
    ours = [fragment.id for fragment in inventory.instruction(name).fragments if fragment.operand in theirs]
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
        assert of_jax(run_python(text)[named(one)], shape(one), one.fragment.threads) == elements(one), one
    assert {one.fragment.family for one in refused} == {"wmma"}


def test_layouts_of_jax_are_the_measured_ones():
    from jax.experimental.mosaic.gpu import fragmented_array as fa

    for one in every_n():
        assert emitted("mosaic", one)[named(one)] == fa.WGMMA_LAYOUT
        assert of_jax(fa.WGMMA_LAYOUT, shape(one), 128) == elements(one)
        assert of_jax(fa.WGMMA_LAYOUT_ACC_32BIT, shape(one), 128) == elements(one)
    for name, layout in (("k16.f32.f16.f16", fa.WGMMA_LAYOUT), ("k32.s32.s8.s8", fa.WGMMA_LAYOUT_8BIT)):
        a = on_sm_90(f"wgmma.mma_async.m64n8{name}.a")
        assert emitted("mosaic", a)[named(a)] == layout
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
        scope, names = emitted("numba", one), [f"{named(one)}_{name}" for name in ("row", "col")]
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
    row, lane_of = (scope[f"{named(d)}_{name}"] for name in ("row", "lane_of"))

    def kernel(out):
        out[cuda.threadIdx.x] = row(cuda.threadIdx.x, 3) + lane_of(out[0], out[1])

    text, _ = cuda.compile_ptx(kernel, (types.int32[:],), cc=(9, 0))
    assert ".target sm_90" in text
    assert "and.b32" in text
    assert "call" not in text


# tilelang


@tilelang
def test_tilelang_makes_the_fragments():
    cells = [one for one in [*distinct()[::3], *warpgroup()] if one.table.points <= 2048]
    made = [(one, emitted("tilelang", one).get(f"{named(one)}_fragment")) for one in cells]
    for one, make in made:
        if make is None or max(one.table.copies) > 1:  # a thread of a replica is a function of one variable more
            assert make is None or make().get_thread_size() == one.table.threads
            assert max(one.table.copies) > 1
            continue
        fragment = make()
        assert [int(size) for size in fragment.get_output_shape()] == [one.table.elements]
        for thread, i, row, col, product in slots(one):
            at = [product, row, col] if one.fragment.products > 1 else [row, col]
            assert int(fragment.map_forward_thread(at)[0]) == thread
            assert int(fragment.map_forward_index(at)[0]) == i


B8 = "mma.m16n8k32.row.col.s32.s8.s8.s32"
B16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
B32 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32"
# (name of a function of mma_layout, table, of how many multiplies side by side in n, whether it lists n before k)
LED = [
    ("mma_load_a_32x4_to_shared_16x8_layout", f"{B32}.a", 1, False),
    ("mma_load_a_32x8_to_shared_16x16_layout", f"{B16}.a", 1, False),
    ("mma_load_a_32x16_to_shared_16x32_layout", f"{B8}.a", 1, False),
    ("mma_load_a_32x32_to_shared_16x64_layout", "mma.m16n8k64.row.col.s32.s4.s4.s32.a", 1, False),
    ("mma_load_b_32x4_to_shared_16x8_layout", f"{B32}.b", 2, True),
    ("mma_load_b_32x8_to_shared_16x16_layout", f"{B16}.b", 2, True),
    ("mma_load_b_32x16_to_shared_16x32_layout", f"{B8}.b", 2, True),
    ("mma_load_b_32x16_to_shared_8x64_layout", "mma.m16n8k64.row.col.s32.s4.s4.s32.b", 1, True),
    ("mma_store_32x8_to_shared_16x16_layout", f"{B16}.d", 2, False),
    ("mma_store_32x2_to_shared_8x8_layout_fp64", "mma.m8n8k4.row.col.f64.f64.f64.f64.d", 1, False),
]
SPARSE = [
    ("mma_sp_load_a_32x4_to_shared_16x16_layout", "mma.sp.m16n8k16.row.col.f32.tf32.tf32.f32.a", 1, False),
    ("mma_sp_load_a_32x8_to_shared_16x32_layout", "mma.sp.m16n8k32.row.col.f32.f16.f16.f32.a", 1, False),
    ("mma_sp_load_a_32x16_to_shared_16x64_layout", "mma.sp.m16n8k64.row.col.s32.s8.s8.s32.a", 1, False),
    ("mma_sp_load_b_32x8_to_shared_16x16_layout", "mma.sp.m16n8k16.row.col.f32.tf32.tf32.f32.b", 2, True),
    ("mma_sp_load_b_32x16_to_shared_16x32_layout", "mma.sp.m16n8k32.row.col.f32.f16.f16.f32.b", 2, True),
    ("mma_sp_load_b_32x32_to_shared_16x64_layout", "mma.sp.m16n8k64.row.col.s32.s8.s8.s32.b", 2, True),
]


def side_by_side(one, count, n_first):
    """(thread, i) -> place of `count` multiplies side by side in n."""
    found = {}
    for block in range(count):
        for thread, i, row, col, _ in slots(one):
            at = (row, col + block * one.fragment.cols)
            found[thread, i + block * one.fragment.elements] = at[::-1] if n_first else at
    return found


@tilelang
@pytest.mark.parametrize(("function", "name", "count", "n_first"), LED + SPARSE)
def test_functions_of_tilelang_are_the_measured_ones(function, name, count, n_first):
    from tilelang.cuda.intrinsics.layout import mma_layout, mma_sp_layout

    theirs = getattr(mma_sp_layout if "_sp_" in function else mma_layout, function)
    wanted = side_by_side(on_sm_90(name), count, n_first)
    assert {at: tuple(theirs(*at)) for at in wanted} == wanted


BACK = [
    ("shared_16x8_to_mma_a_32x4_layout", f"{B32}.a", 1, False),
    ("shared_16x16_to_mma_a_32x8_layout", f"{B16}.a", 1, False),
    ("shared_16x32_to_mma_a_32x16_layout", f"{B8}.a", 1, False),
    ("shared_16x8_to_mma_b_32x4_layout", f"{B32}.b", 2, True),
    ("shared_16x16_to_mma_b_32x8_layout", f"{B16}.b", 2, True),
    ("shared_16x32_to_mma_b_32x16_layout", f"{B8}.b", 2, True),
    ("shared_8x64_to_mma_b_32x16_layout", "mma.m16n8k64.row.col.s32.s4.s4.s32.b", 1, True),
]


@tilelang
@pytest.mark.parametrize(("function", "name", "count", "n_first"), BACK)
def test_inverses_of_tilelang_are_the_measured_ones(function, name, count, n_first):
    from tilelang.cuda.intrinsics.layout import mma_layout

    wanted = {at: slot for slot, at in side_by_side(on_sm_90(name), count, n_first).items()}
    assert {at: tuple(getattr(mma_layout, function)(*at)) for at in wanted} == wanted


@tilelang
def test_one_inverse_of_tilelang_exchanges_two_bits():
    """Its A of 4 bits from (m, k) takes rows 8 to 15 for the high half of k; its function the other way does not."""
    from tilelang.cuda.intrinsics.layout.mma_layout import shared_16x64_to_mma_a_32x32_layout as theirs

    for (thread, i), at in side_by_side(on_sm_90("mma.m16n8k64.row.col.s32.s4.s4.s32.a"), 1, False).items():
        assert tuple(theirs(*at)) == (thread, i & 7 | (i & 8) << 1 | (i & 16) >> 1)


@tilelang
@pytest.mark.parametrize("n", [8, 24, 64])
def test_tilelangs_accumulator_of_a_warpgroup_is_the_measured_one(n):
    from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter
    from tvm import tirx

    how = {"accum_dtype": "float32", "block_row_warps": 4, "block_col_warps": 1, "warp_row_tiles": 16,
           "warp_col_tiles": n, "b_transposed": True}  # fmt: skip
    held = tirx.decl_buffer((64, n), "float32", scope="local.fragment")
    theirs = TensorCoreIntrinEmitter(**how).make_mma_store_layout(held)
    one = on_sm_90(f"{WGMMA.format(n=n)}.d")
    for thread, i, row, col, _ in slots(one):
        assert int(theirs.map_forward_thread([row, col])[0]) == thread
        assert int(theirs.map_forward_index([row, col])[0]) == i


# Triton


@pytest.mark.parametrize("n", [8, 16, 64, 256])
def test_tritons_layouts_of_a_warpgroup_are_the_measured_ones(n):
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout

    mma = NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, n, 16])
    for operand, layout in (("d", mma), ("a", DotOperandLayout(parent=mma, operand_index=0, k_width=2))):
        one = on_sm_90(f"{WGMMA.format(n=n)}.{operand}")
        register, lane, warp = triton_linear(layout, [one.fragment.rows, one.fragment.cols])
        assert (register, [*lane, *warp]) == emit.formats()["triton"].bases(one)
