"""What others count of bank conflicts: where they agree, and what they count differently."""

import sys

import numpy as np
import pytest

from tcprobe.ask.banks.accesses import Shared, Tile, parse_access, slots_of, walk
from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.banks.tiles import cost
from tcprobe.layout.banks import judge
from tcprobe.store.cell import load
from tcprobe.store.results import published

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the consumers of the dev extra are Linux wheels")


@pytest.fixture(scope="module")
def triton_builder():
    """A builder inside a function of a module for sm_90, as bank_conflicts needs it."""
    from triton._C.libtriton import ir
    from triton._C.libtriton.gluon_ir import GluonOpBuilder

    context = ir.context()
    ir.load_dialects(context)
    builder = GluonOpBuilder(context)
    module = builder.create_module()
    for name, value in (("num-warps", 1), ("threads-per-warp", 32), ("num-ctas", 1)):
        module.set_attr(f"ttg.{name}", builder.get_int32_attr(value))
    module.set_attr("ttg.target", builder.get_string_attr("cuda:90"))
    function = builder.get_or_insert_function(module, "f", builder.get_function_ty([], []), "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    yield builder
    del builder, function, module, context  # in this order: each lives in the next


SWIZZLES = [(1, 1, 1), (8, 1, 2), (8, 1, 4), (8, 1, 8), (8, 2, 4), (4, 2, 4), (2, 1, 4)]
ACCESSES = [("a", "ld.shared.b32", 16), ("d", "st.shared.v2", 32)]


def as_swizzle(cols, swizzle, bits):
    """Triton's (vec, per_phase, max_phase) on lines of `cols` elements as Swizzle<B, M, S> of bytes."""
    vec, per_phase, max_phase = swizzle
    m = (vec * bits // 8).bit_length() - 1
    return max_phase.bit_length() - 1, m, (cols * bits // 8 * per_phase).bit_length() - 1 - m


def comparable(cols, swizzle, access, bits):
    """Whether Swizzle<B, M, S> can say it, and Triton does not read narrower because it tears the access."""
    b, m, s = as_swizzle(cols, swizzle, bits)
    return s >= b and (not b or 1 << m >= parse_access(access).row.bytes)


CASES = [
    (cols, swizzle, *how)
    for cols in (32, 64, 128)
    for swizzle in SWIZZLES
    for how in ACCESSES
    if comparable(cols, swizzle, *how[1:])
]


@pytest.mark.consumer
@pytest.mark.parametrize(("cols", "swizzle", "operand", "access", "bits"), CASES)
def test_triton_counts_the_same_excess(triton_builder, cols, swizzle, operand, access, bits):
    """Its bank_conflicts is what a wavefront needs beyond one: our wavefronts / ideal - 1."""
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout, SwizzledSharedLayout

    mma = NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[16, 8])
    held = DotOperandLayout(0, mma, 2) if operand == "a" else mma
    builder = triton_builder
    theirs = builder.get_shared_bank_conflicts(
        held._to_ir(builder), SwizzledSharedLayout(*swizzle, [1, 0])._to_ir(builder), [64, cols], bits
    )
    cell = load(f"{MMA}.{operand}", "sm_90")
    tile = Tile(64, cols, cell.fragment.type, bits, "row")
    walked = walk(parse_access(access), tile, slots_of(cell))
    shared = Shared(swizzle=as_swizzle(cols, swizzle, bits))
    ours = cost(walked, tile, shared, rules_for(None, published()))
    assert ours.wavefronts == ours.ideal * (theirs + 1)


def test_enough_is_compared():
    assert len(CASES) > 30


@pytest.mark.parametrize("stride", range(1, 34))
def test_tensor_layouts_agrees_on_words(stride):
    from tensor_layouts import Layout
    from tensor_layouts.analysis import bank_conflicts

    ours = judge("ld.shared.b32", [4 * stride * lane for lane in range(32)])
    assert bank_conflicts(Layout(32, stride), element_bytes=4)["max_ways"] == ours.wavefronts


@pytest.mark.parametrize(
    ("access", "lanes", "words"), [("ld.shared.b64", 16, 2), ("ld.shared.b128", 8, 4), ("ldmatrix.x4", 8, 4)]
)
def test_tensor_layouts_counts_wide_accesses_over_the_whole_warp(access, lanes, words):
    """It calls a plain 64-bit access 2-way and a 128-bit one 4-way: the phases that these always have.

    Split into phases by hand, its count is ours.
    """
    from tensor_layouts import Layout
    from tensor_layouts.analysis import bank_conflicts, per_group_bank_conflicts

    plain = judge(access, [4 * words * lane for lane in range(32)])
    theirs = bank_conflicts(Layout((32, words), (words, 1)), element_bytes=4)
    assert (theirs["max_ways"], theirs["conflict_free"]) == (words, False)
    assert plain.wavefronts == plain.ideal == words
    for stride in range(words, 33, words):
        layout = Layout((32, words), (stride, 1))
        groups = per_group_bank_conflicts(layout, element_bytes=4, group_size=lanes)["groups"]
        assert [g["max_ways"] for g in groups] == judge(access, [4 * stride * lane for lane in range(32)]).phases


def test_tensor_layouts_does_not_know_that_neighbours_join():
    from tensor_layouts import Layout
    from tensor_layouts.analysis import per_group_bank_conflicts

    pairs = [8 * (lane // 2) for lane in range(32)]
    layout = Layout(((2, 16), 2), ((0, 2), 1))
    assert [8 * int(layout(int(lane)) // 2) for lane in np.arange(32)] == pairs
    groups = per_group_bank_conflicts(layout, element_bytes=4, group_size=16)["groups"]
    assert [g["max_ways"] for g in groups] == [1, 1]
    assert judge("ld.shared.b64", pairs).phases == [1]
    assert judge("st.shared.b64", pairs).phases == [1, 1]
