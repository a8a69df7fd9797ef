"""tilelang takes what is emitted, and its own layouts are one more reference: each is compared slot by slot.

It brings PyTorch, so it has an extra of its own: python3 tools/dev.py test --tilelang.
"""

from importlib.util import find_spec

import pytest
from emit_tables import distinct, warpgroup
from test_consumers import WGMMA, emitted, on_sm_90
from test_python_formats import slots

from tcprobe.emit.common import cell_identifier

pytestmark = [
    pytest.mark.consumer,
    pytest.mark.skipif(not find_spec("tilelang"), reason="no tilelang: python3 tools/dev.py test --tilelang"),
]


def test_tilelang_makes_the_fragments():
    cells = [one for one in [*distinct()[::3], *warpgroup()] if one.table.points <= 2048]
    made = [(one, emitted("tilelang", one).get(f"{cell_identifier(one)}_fragment")) for one in cells]
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


@pytest.mark.parametrize(("function", "name", "count", "n_first"), BACK)
def test_inverses_of_tilelang_are_the_measured_ones(function, name, count, n_first):
    from tilelang.cuda.intrinsics.layout import mma_layout

    wanted = {at: slot for slot, at in side_by_side(on_sm_90(name), count, n_first).items()}
    assert {at: tuple(getattr(mma_layout, function)(*at)) for at in wanted} == wanted


def test_one_inverse_of_tilelang_exchanges_two_bits():
    """Its A of 4 bits from (m, k) takes rows 8 to 15 for the high half of k; its function the other way does not."""
    from tilelang.cuda.intrinsics.layout.mma_layout import shared_16x64_to_mma_a_32x32_layout as theirs

    for (thread, i), at in side_by_side(on_sm_90("mma.m16n8k64.row.col.s32.s4.s4.s32.a"), 1, False).items():
        assert tuple(theirs(*at)) == (thread, i & 7 | (i & 8) << 1 | (i & 16) >> 1)


@pytest.mark.parametrize("n", [8, 24, 64])
def test_tilelangs_accumulator_of_a_warpgroup_is_the_measured_one(n):
    from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import TensorCoreIntrinEmitter
    from tvm import tirx

    how = {
        "accum_dtype": "float32",
        "block_row_warps": 4,
        "block_col_warps": 1,
        "warp_row_tiles": 16,
        "warp_col_tiles": n,
        "b_transposed": True,
    }
    held = tirx.decl_buffer((64, n), "float32", scope="local.fragment")
    theirs = TensorCoreIntrinEmitter(**how).make_mma_store_layout(held)
    one = on_sm_90(f"{WGMMA.format(n=n)}.d")
    for thread, i, row, col, _ in slots(one):
        assert int(theirs.map_forward_thread([row, col])[0]) == thread
        assert int(theirs.map_forward_index([row, col])[0]) == i
