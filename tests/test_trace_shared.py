"""Traces through shared memory: what feeds an element of D, and what a byte or a slot feeds, are the same meetings."""

import json
import random
import re
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner

from tcprobe.ask.confidence import least
from tcprobe.ask.shared_operand import SharedMultiply, fed_by_byte, fed_by_slot, shared_map, trace_element
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa.names import resolve
from tcprobe.store import findings
from tcprobe.store.cell import operands
from tcprobe.store.choose import alone, over_published
from tcprobe.store.results import Results, published

LAYERS = alone(published())
CASE = "wgmma.mma_async.m64n128k16.f32.f16.f16.b_smem.k.128"
CASES = [
    ("wgmma.m64n24k16.f32.bf16.bf16", "mn", 128, {}),
    ("wgmma.m64n8k32.s32.s8.u8", "k", 64, {"base_offset": 2}),
    ("wgmma.sp.m64n8k32.f32.f16.f16", "k", 32, {}),
    ("wgmma.sp.m64n16k16.f32.tf32.tf32", "k", 0, {"start": 48}),
    ("wgmma.m64n8k256.b1", "k", 32, {}),
    ("wgmma.m64n16k16.f16.f16.f16", "k", 128, {"sbo": 0}),
]


def memory(name, major, swizzle, given, a_too):
    row = resolve(name).instruction
    a, b = (shared_map(one, LAYERS, major, swizzle, **given) for one in row.described)
    return SharedMultiply(row, operands(row, "sm_90", published()), b, a if a_too else None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_byte_feeds_what_it_is_part_of(case):
    found, rng = memory(*case, a_too=True), random.Random(case[0])
    size = max(1, found.b.operand.held.slot_bits // 8)
    m, n = rng.randrange(64), rng.randrange(found.instruction.shape.n)
    feeding = trace_element(found, m, n).meetings
    assert [one.stored for one in feeding] == list(range(found.instruction.stored))
    for one in rng.sample(feeding, 3):
        assert one.a == []
        back = fed_by_byte(found, "a_smem", one.a_offset + rng.randrange(size))
        assert one in back.meetings
        assert all(m.a_offset == one.a_offset for m in back.meetings)
        at = rng.choice(one.b_offsets)
        back = fed_by_byte(found, "b_smem", at + size - 1)
        assert one in back.meetings
        assert all(at in m.b_offsets for m in back.meetings)
        assert {m.row for m in back.meetings} == set(range(64))
        assert all(byte == size - 1 for _, _, byte in back.held)


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case[0])
def test_a_slot_feeds_a_row(case):
    found = memory(*case, a_too=False)
    fed = fed_by_slot(found, 77, 3)
    assert [m.col for m in fed.meetings] == list(range(found.instruction.shape.n))
    for one in fed.meetings:
        assert one in trace_element(found, one.row, one.col).meetings
        assert (77, 3) in [(h.lane, h.i) for h in one.a]


def test_elements_that_share_a_byte_are_all_named():
    found = memory(*CASES[-1], a_too=False)  # SBO 0: lines 8 apart are the same bytes
    assert [(row, col) for row, col, _ in fed_by_byte(found, "b_smem", 2).held] == [(1, 0), (1, 8)]
    bits = fed_by_byte(memory(*CASES[4], a_too=False), "b_smem", 1)
    assert [row for row, _, _ in bits.held] == list(range(8, 16))


def test_what_cannot_be_traced_says_why():
    found = memory(*CASES[0], a_too=False)
    for call, words in (((found, "b_smem", 1 << 20), "holds no element"), ((found, "a_smem", 0), "`a_in` shared")):
        with pytest.raises(UsageError, match=words):
            fed_by_byte(*call)
    with pytest.raises(UsageError, match="outside"):
        trace_element(found, 64, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--row", "3"],
        ["--operand", "b", "--lane", "0", "--i", "0"],
        ["--operand", "a", "--byte", "3"],
        ["--operand", "a_smem", "--lane", "0", "--i", "0"],
        ["--row", "3", "--col", "5", "--byte", "3"],
        ["--byte", "3"],
        ["--operand", "a", "--lane", "0", "--i", "0", "--a-in", "shared"],
        ["--operand", "b_smem", "--byte", "9999"],
        ["--row", "3", "--col", "5", "--selector", "1"],
        ["--row", "3", "--col", "5", "--product", "0"],
        ["--operand", "a_smem", "--byte", "3", "--a-in", "registers"],
    ],
)
def test_mistakes_in_the_call(arguments):
    done = CliRunner().invoke(main, ["trace", "wgmma.m64n8k16.f32.bf16.bf16", *arguments])
    assert (done.exit_code, "Traceback" in done.output) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (["--row", "1", "--col", "1", "--a-in", "shared"], "--a-in"),
        (["--operand", "b_smem", "--byte", "3"], "--byte"),
        (["--row", "1", "--col", "1", "--swizzle", "128"], "--swizzle"),
        (["--operand", "b_smem"], "--operand b_smem"),
    ],
)
def test_a_multiply_of_registers_has_nothing_in_shared_memory(arguments, out):
    done = CliRunner().invoke(main, ["trace", "mma.m16n8k16.row.col.f32.f16.f16.f32", *arguments])
    assert done.exit_code == 2
    assert "shared memory" in done.output
    assert re.search(rf"remove .*{out}", done.output)


@pytest.mark.parametrize("call", [["emit", "--to", "cuda"], ["load"], ["reduce", "--over", "row"]])
def test_where_no_registers_are_an_operand_in_shared_memory_is_named_as_that(call):
    done = CliRunner().invoke(main, [call[0], "wgmma.m64n24k16.f32.bf16.bf16.b_smem", *call[1:]])
    assert done.exit_code == 2
    assert "b_smem is in shared memory" in done.output


def test_why_not_takes_a_shortened_operand_in_shared_memory():
    done = CliRunner().invoke(main, ["why-not", "wgmma.m64n24k16.f32.bf16.bf16.b_smem", "--arch", "sm_100"])
    assert done.exit_code == 0
    assert "target sm_90a" in done.output


def test_ranges_give_one_answer_after_the_other():
    call = [
        "trace",
        "wgmma.m64n8k16.f32.bf16.bf16",
        "--operand",
        "b_smem",
        "--byte",
        "2-3",
        "--swizzle",
        "32",
        "--json",
    ]
    found = [json.loads(line) for line in CliRunner().invoke(main, call).stdout.splitlines()]
    assert [one["held"] for one in found] == [[{"row": 1, "col": 0, "byte": 0}], [{"row": 1, "col": 0, "byte": 1}]]
    assert found[0]["a_descriptor"] is None
    assert len(found[0]["meetings"]) == 64


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_where_says_every_byte_both_ways(case):
    found = memory(*case, a_too=True)
    for one in (found.a, found.b):
        held, offsets = one.operand.held, one.offsets
        lying = one.elements(range(held.rows), range(held.cols))
        assert [element.offset for element in lying] == [at for row in offsets for at in row]
        for element in random.Random(3).sample(lying, 5):
            assert element in one.at(element.offset + element.bytes - 1)
        if held.slot_bits == 1:
            assert len({(element.offset, element.bit) for element in lying}) == len(lying)


def test_where_on_the_command_line():
    name = "wgmma.m64n24k16.f32.bf16.bf16.b_smem"
    ask = ["where", name, "--swizzle", "128"]
    assert "B[8][5]: bytes 704..705 from" in CliRunner().invoke(main, [*ask, "--row", "8", "--col", "5"]).output
    assert "B[8][5]: bytes 704..705 from" in CliRunner().invoke(main, [*ask, "--byte", "705"]).output
    for wrong in ([], ["--lane", "3"], ["--row", "99"], ["--byte", "3", "--col", "3"], ["--byte", "99999"]):
        assert CliRunner().invoke(main, [*ask, *wrong]).exit_code == 2
    for command in (ask, ["show", name]):
        for wrong in (["--arch", "sm_80"], ["--arch", "sm_90,sm_100"], ["--selector", "1"]):
            assert CliRunner().invoke(main, [*command, *wrong]).exit_code == 2
    assert CliRunner().invoke(main, ["show", name, "--arch", "h100"]).exit_code == 0
    register = ["where", name.replace("b_smem", "d"), "--row", "0", "--col", "0", "--swizzle", "32"]
    assert "--swizzle" in CliRunner().invoke(main, register).output


def found_otherwise(folder, device, agree):
    """A layer with another GPU's finding of 16 bits, k and 128 bytes, of which so many elements agree."""
    finding = LAYERS.finding("descriptors", "sm_90", CASE).finding
    body = msgspec.structs.replace(finding.body, case=msgspec.structs.replace(finding.body.case, agree=agree))
    changed = replace(finding, body=body, provenance={**finding.provenance, "device": device})
    findings.save_all(Results(folder), [changed])
    return over_published(folder)


def test_how_sure_a_descriptors_map_is(tmp_path):
    """Another kind of GPU that agrees makes it surer; one that does not contradicts it; without any it is stated."""
    one = resolve("wgmma.m64n64k16.f32.bf16.bf16").instruction.described[-1]
    sure = shared_map(one, LAYERS, "k", 128).confidence
    assert (sure.word, sure.methods, sure.devices, sure.otherwise, sure.confirmed) == ("strong", 1, 1, 0, 2)
    every = LAYERS.finding("descriptors", "sm_90", CASE).finding.body.case.elements
    more = shared_map(one, found_otherwise(tmp_path / "alike", "NVIDIA H100", every), "k", 128).confidence
    assert (more.word, more.devices, more.otherwise) == ("strong", 2, 0)
    less = shared_map(one, found_otherwise(tmp_path / "other", "NVIDIA H100", every - 1), "k", 128).confidence
    assert (less.word, less.devices, less.otherwise) == ("contradicted", 1, 1)
    assert shared_map(one, alone(Results(tmp_path / "none")), "k", 128).confidence.word == "documented only"


def test_answers_say_how_sure_they_are():
    """`where` as sure as the map behind the descriptor, `trace` as the least sure table or map; text and JSON alike."""
    for words, found in (
        (["where", "wgmma.m64n24k16.f32.bf16.bf16.b_smem", "--byte", "7"], lambda m: m.b.confidence),
        (["trace", "wgmma.m64n24k16.f32.bf16.bf16", "--row", "3", "--col", "5"], lambda m: m.confidence),
    ):
        sure = found(memory("wgmma.m64n24k16.f32.bf16.bf16", "k", 0, {}, a_too=False))
        text = CliRunner().invoke(main, words).stdout.splitlines()
        plain = CliRunner().invoke(main, [*words, "--json"]).stdout.splitlines()
        assert text[-1] == f"confidence: {sure}"
        assert {json.dumps(json.loads(line)["confidence"]) for line in plain} == {json.dumps(sure.to_json())}
    by_register = memory("wgmma.m64n24k16.f32.bf16.bf16", "k", 0, {}, a_too=False)
    assert by_register.confidence == least([by_register.tables["a"]])
