"""where and trace: every answer is what the tables say, both ways."""

import json
import re

import pytest
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.ask import operand, registers
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve, select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.structure import predict
from tcprobe.store.cell import cell, operands
from tcprobe.store.choose import layers
from tcprobe.store.results import published

RESULTS = published()
FRAGMENTS = [f for f in inventory.of_a_warp().values() if f.role in WHOLE and f.target.on(arch("sm_90"))]
FRAGMENTS += select("wgmma.mma_async.m64n24k*.[ad]")
MULTIPLIES = [i for i in inventory.executed_by(32) if i.multiplies and i.target.on(arch("sm_90")) and not i.metadata]
RESULTS_OPTION = ["--results", str(RESULTS.root)]


def said(*words, code=0):
    return tcprobe(*words, *RESULTS_OPTION, code=code)


@given(st.sampled_from(FRAGMENTS), st.data())
@examples(60)
def test_where_and_held_are_inverse(fragment, data):
    table = cell(fragment, "sm_90", RESULTS)
    row, col = data.draw(st.integers(0, fragment.rows - 1)), data.draw(st.integers(0, fragment.cols - 1))
    found = registers.where(table, [row], [col])
    assert len(found) == fragment.copies * fragment.products
    for holder in found:
        (back,) = registers.elements_held(table, [holder.lane], [holder.i])
        assert back == holder
        assert (holder.register, holder.bit) == fragment.where(holder.i)
        assert holder.bit + holder.bits <= fragment.register_bits


def test_all_elements_of_all_lanes():
    for fragment in FRAGMENTS[::9]:
        table = cell(fragment, "sm_90", RESULTS)
        assert len(registers.elements_held(table, range(fragment.threads))) == table.table.points
        assert len(registers.where(table, range(fragment.rows), range(fragment.cols))) == table.table.points


@given(st.sampled_from([i for i in MULTIPLIES if i.family == "mma"]), st.data())
@examples(25)
def test_trace_is_the_structure_tensor(instruction, data):
    """The triples of one D slot, as measured by hash, are those that trace lists, in k order; feeds is the reverse."""
    tables = operands(instruction, "sm_90", RESULTS)
    row = data.draw(st.integers(0, instruction.shape.m - 1))
    col = data.draw(st.integers(0, instruction.shape.n - 1))
    product = data.draw(st.integers(0, 3)) if instruction.products > 1 else None
    found = registers.trace(instruction, tables, row, col, product)
    sizes = {o: tables[o].table.elements for o in "abd"}
    slot = {o: lambda h, o=o: h.lane * sizes[o] + h.i for o in "abd"}
    (d,) = found.d
    triples = predict(instruction, {o: tables[o].table for o in "abd"})
    mine = {(slot["a"](m.a[0]), slot["b"](m.b[0])) for m in found.meetings}
    theirs = {
        (a, b)
        for a, b, e in zip(triples.a.tolist(), triples.b.tolist(), triples.d.tolist(), strict=True)
        if e == slot["d"](d)
    }
    assert mine == theirs
    assert [m.a[0].col for m in found.meetings] == list(range(instruction.shape.k))
    first = found.meetings[0]
    back = registers.feeds(instruction, tables, "a", first.a[0].lane, first.a[0].i)
    assert any(m.d == found.d and m.b == first.b for m in back.meetings)
    back = registers.feeds(instruction, tables, "b", first.b[0].lane, first.b[0].i)
    assert any(m.d == found.d and m.a == first.a for m in back.meetings)
    assert registers.feeds(instruction, tables, "c", found.c[0].lane, found.c[0].i).d == found.d


def test_copies_that_are_never_read_are_marked():
    question = ("trace", "wmma.mma.row.col.m16n16k16.f32.f32", "--row", "0", "--col", "0")
    assert re.search(r"A\[0\]\[0\] +0:0 \(0:8\) +x +B\[0\]\[0\] +0:0 \(0:8\)", said(*question).stdout)
    data = json.loads(said(*question, "--json").stdout)
    assert [h["read"] for h in data["meetings"][0]["a"]] == [True, False]


def test_where_prints_lines_and_json():
    text = said("where", "wmma.m16n16k16.a.row.f16", "--row", "5", "--col", "3").stdout
    assert "A[5][3]: lane 21 i 1 (register 0, bits 16..31); lane 21 i 9 (register 4, bits 16..31)" in text
    assert "measured: live on NVIDIA H200" in text
    data = json.loads(said("where", "mma.m8n8k4.row.col.f32.f16.f16.f32.d", "--lane", "4", "--i", "0", "--json").stdout)
    assert data["holders"] == [
        {"row": 0, "col": 0, "product": 1, "lane": 4, "i": 0, "register": 0, "bit": 0, "bits": 32}
    ]
    ranged = said("where", "mma.m16n8k8.row.col.f32.f16.f16.f32.d", "--lane", "0-3").stdout
    assert ranged.count("lane ") == 16


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["where", "wmma.m16n16k16.d.f32"], "give --row and --col, or --lane and --i"),
        (["where", "wmma.m16n16k16.d.f32", "--row", "0", "--lane", "0"], "give --row and --col, or --lane and --i"),
        (["where", "wmma.m16n16k16.d.f32", "--row", "16"], "row 16 is outside 0 to 15"),
        (["where", "wmma.m16n16k16.d.f32", "--lane", "32"], "lane 32 is outside 0 to 31"),
        (["where", "wmma.m16n16k16.d.f32", "--row", "7-3"], "is not a number such as 3, nor a range"),
        (["where", "--strict", "wmma.m16n16k16.d", "--row", "0"], "matches"),
        (["trace", "wmma.mma.row.col.m16n16k16.f32.f32", "--row", "0"], "give --row and --col, or"),
        (["trace", "mma.m8n8k4.row.col.f32.f16.f16.f32", "--row", "0", "--col", "0"], "choose one with --product"),
        (["trace", "mma.m16n8k16.row.col.f32.f16.f16.f32", "--row", "0", "--col", "8"], "col 8 is outside 0 to 7"),
        (["trace", "--strict", "mma.m16n8k16.f16", "--row", "0", "--col", "0"], "matches"),
        (
            ["trace", "mma.m16n8k16.row.col.f32.f16.f16.f32", "--operand", "a", "--lane", "0", "--i", "8"],
            "i 8 is outside",
        ),
        (["convert", "wmma.m16n16k16.d.f32", "nonsense"], "no fragment or instruction"),
        (["convert", "wmma.m16n16k16.d.f32", "wmma.m16n16k16.a.row.u8"], "no conversion from f32 to u8"),
    ],
)
def test_mistakes_get_a_message(arguments, words):
    assert words in said(*arguments, code=2).stderr


def test_tables_of_an_arch_that_lacks_one_are_refused():
    with pytest.raises(UsageError, match="no table of"):
        operands(resolve("mma.m16n8k16.row.col.f32.f16.f16.f32").instruction, "sm_75", RESULTS)


@pytest.mark.parametrize(
    ("name", "kind", "sought"),
    [
        ("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "InRegisters", {"rows": [3], "cols": [9]}),
        ("wgmma.mma_async.m64n8k16.f32.f16.f16.a_smem", "InSharedMemory", {"rows": [3], "cols": [9]}),
        ("wgmma.mma_async.m64n8k16.f32.f16.f16.a_smem", "InSharedMemory", {"byte": [7]}),
        ("tcgen05.mma.cta_group::1.kind::f16.d", "InTensorMemory", {"rows": [3], "cols": [9]}),
        ("tcgen05.mma.cta_group::1.kind::f16.d", "InTensorMemory", {"lanes": [3], "columns": [9]}),
    ],
)
def test_an_operand_answers_alike_in_every_place(name, kind, sought):
    """Words and JSON of where its elements are, and why an arch lacks it."""
    place = operand.in_place(name)
    assert type(place).__name__ == kind
    folders = layers(None)
    (answer,) = place.where(operand.OperandOptions(folders), operand.Sought(**sought))
    assert answer.to_json()["id"] == name
    assert all(isinstance(line, str) for line in answer.in_words)
    (why,) = place.why_not(arch("sm_70"), folders)
    assert (why.id, why.allowed) == (name, False)
