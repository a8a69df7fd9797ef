"""Names as people say them: words in any order and case, patterns, and what several meanings have in common."""

import difflib
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP, arch
from tcprobe.isa.names import resolve, search, select, select_instructions
from tcprobe.store import names
from tcprobe.store.cell import cell
from tcprobe.store.choose import alone
from tcprobe.store.results import published


@pytest.fixture(scope="module")
def tables():
    return alone(published())


def test_ids_that_are_alike_are_those_of_difflib(sample):
    known, rng = [*inventory.fragments(), *inventory.instructions()], random.Random(1)
    for id_ in sample(rng.sample(known, 24), 12):
        at = rng.randrange(len(id_))
        for name in (id_[:at] + id_[at + 1 :], id_[at:]):
            assert search._alike(name) == difflib.get_close_matches(name, known, n=3, cutoff=0.6), name


def test_shuffled_words_of_an_id_mean_its_table(tables, sample):
    """A fourth of a warp's fragments of sm_90, some of a warpgroup's; capitals and the order of words do not matter."""
    device, shuffled = arch("sm_90"), random.Random(3)
    of = {threads: [f for f in select(device=device) if f.threads == threads] for threads in (WARP, WARPGROUP)}
    for fragment in sample([*of[WARP][::4], *of[WARPGROUP][::60]], 5):
        found = tables.choose(fragment, ["sm_90"])
        parts = fragment.id.split(".")
        shuffled.shuffle(parts)
        if found and fragment.shape != (8, 8, 4):  # there row and col stand in either order
            meant = names.find_cell(" ".join(parts).upper(), "sm_90", tables)
            assert meant.cell.table == found.table(fragment), (fragment.id, parts)


@pytest.mark.parametrize(
    ("name", "at", "id_"),
    [
        ("accumulator wmma 16x16x16 f32", "v100", "wmma.m16n16k16.c.f32"),
        ("wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major>", "a100", "wmma.m16n16k16.b.col.f16"),
        ("mma.m16n8k16*.f16.f16.*.a", None, "mma.m16n8k16.row.col.f16.f16.f16.f16.a"),
        ("HMMA.16816.F32 b", "h100", "mma.m16n8k16.row.col.f32.f16.f16.f32.b"),
        ("HMMA.16816 d", "h100", None),
        ("SM80_16x8x16_F32BF16BF16F32_TN d", None, "mma.m16n8k16.row.col.f32.bf16.bf16.f32.d"),
        ("mma m16n8k32 fp8 a", "sm_89", "mma.m16n8k32.row.col.f16.e4m3.e4m3.f16.a"),
        ("m16n8k16 a", None, None),
    ],
)
def test_a_name_of_several_answers_where_their_tables_agree(name, at, id_, tables):
    if id_ is None:
        with pytest.raises(UsageError, match=r"matches \d+ fragments with \d different tables"):
            names.find_cell(name, at, tables)
        return
    found = names.find_cell(name, at, tables)
    assert found.cell.fragment.id == id_
    rows = [f for f in names.resolve(name, tables).fragments if not at or f.target.on(arch(at))]
    assert all(cell(f, at, tables).table == found.cell.table for f in rows)
    assert (found.note is not None) == (len(rows) > 1)


@pytest.mark.parametrize(
    ("pattern", "operands"),
    [
        ("wgmma.m64n24k16.f32.bf16.bf16.*", "ad"),
        ("wgmma.m64n24k16.f32.bf16*", "ad"),
        ("wgmma.m64n24k16.f32.b*.[cd]", "d"),
        ("wgmma.sp.*n24k32.f32.bf16*", "ade"),
    ],
)
def test_a_pattern_may_leave_parts_of_a_name_out(pattern, operands):
    form = "wgmma.mma_async.sp.m64n24k32" if ".sp." in pattern else "wgmma.mma_async.m64n24k16"
    assert [f.id for f in select(pattern)] == [f"{form}.f32.bf16.bf16.{one}" for one in operands]


def test_operands_in_shared_memory_are_meant_by_the_same_patterns():
    found = resolve("wgmma.m64n24k16.f32.bf16.*").shared
    assert [one.held.name for one in found] == ["a_smem", "b_smem"]
    assert not resolve("wgmma.m64n24k16.f32.bf16.[cd]").shared


@pytest.mark.full
@given(st.text(max_size=60))
def test_any_name_is_understood_or_refused(text):
    with suppress(UsageError):
        assert resolve(text).some_fragments


def test_of_several_that_fit_the_best_counts():
    """The type of the operand itself, one accumulator type, the family that is named, and patterns of parts."""
    assert {f.type for f in resolve("m16n8k16 fp16 A").some_fragments} == {"f16"}
    assert {i.id.split(".")[-1] for i in resolve("wmma 16x16x16 half float").some_instructions} == {"f32"}
    assert {i.family for i in select_instructions("mma m16n8k16 f16")} == {"mma"}
    assert {f.shape.k for f in resolve("m16n8k8*").some_fragments} == {8}
    assert resolve("*m16n8k8*").some_fragments != resolve("m16n8k*").some_fragments


def test_a_qualifier_with_a_capital_letter_is_a_word():
    assert len(select("mma block_scale scale_vec::4X ue4m3 e2m1 scale_a")) == 1
    assert len(select("mma sparse block_scale scale_vec::4X ue4m3 e2m1 scale_a")) == 1


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("m16n8k16 bf16 A", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("mma.m16n8k16.row.col.f32.bf16.bf16.f32 a", "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a"),
        ("sparse m16n8k32 bf16 A ordered_metadata", "mma.sp::ordered_metadata.m16n8k32.row.col.f32.bf16.bf16.f32.a"),
        ("sparse mma.sp m16n8k32 f32 bf16 accumulator D", "mma.sp.m16n8k32.row.col.f32.bf16.bf16.f32.d"),
        ("m16n8k64 mxfp4 A", "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.a"),
        (
            "m16n8k64 nvfp4 scale_a",
            "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3.scale_a",
        ),
        ("m64n64k16 f32 bf16 D", "wgmma.mma_async.m64n64k16.f32.bf16.bf16.d"),
        ("SM90_64x64x16_F32BF16BF16_SS<Major::K, Major::MN> d", "wgmma.mma_async.m64n64k16.f32.bf16.bf16.d"),
    ],
)
def test_words_mean_one_fragment(name, id_):
    assert resolve(name).fragment.id == id_


@given(st.sampled_from([row for row in inventory.instructions().values() if row.family == "mma"]))
def test_dense_is_meant_unless_sparse_is_said(row):
    words = " ".join(row.id.split("."))
    assert {i.family for i in resolve(words).instructions} == {"mma"}
    assert not {i.family for i in resolve(f"{words} sparse").instructions} & {"mma", "mma.block_scale"}


def test_words_of_tensor_memory_and_scales():
    assert {row.kind for row in resolve("TMEM mma nvfp4").instructions} == {"mxf4nvf4"}
    assert {row.kind for row in resolve("m16n8k32 mxfp8").instructions} == {"mxf8f6f4"}
    assert {row.family for row in resolve("m16n8k32 block-scaled").instructions} == {"mma.block_scale"}
    atom = "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 128, UMMA::Major::K>"
    assert [row.id for row in resolve(atom).bare] == ["tcgen05.mma.cta_group::2.kind::f16"]
