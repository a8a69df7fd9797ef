"""What `tcprobe banks` refuses: bad lines, any data, files without patterns, and what cannot be."""

import json

import pytest
from bank_commands import GOOD, A, lines
from click.testing import CliRunner
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.cli import main


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "an object"),
        ('"x"', "an object"),
        ("9" * 5000, "not JSON"),
        ('{"op": "ld.shared.b32"}', "32 numbers"),
        ('{"op": "ld.shared.b32", "op": "ld.shared.b64", "address": []}', "a key appears twice"),
        (GOOD | {"op": 3}, "an object"),
        (GOOD | {"op": "ld.shared.b31"}, "did you mean ld.shared.b32"),
        (GOOD | {"op": "cp.async.cg.16"}, "unknown access"),
        (GOOD | {"address": [0] * 31}, "32 numbers"),
        (GOOD | {"address": [0] * 33}, "32 numbers"),
        (GOOD | {"address": "0" * 32}, "32 numbers"),
        (GOOD | {"address": {}}, "32 numbers"),
        (GOOD | {"address": [True] * 32}, "lane 0 has 'True'"),
        (GOOD | {"address": [0.0] * 32}, "lane 0 has '0.0'"),
        (GOOD | {"address": [0] * 31 + ["0"]}, "lane 31 has '0'"),
        (GOOD | {"address": [0] * 31 + [[]]}, "lane 31 has '[]'"),
        (GOOD | {"address": [0] * 31 + [2]}, "lane 31 has 2, which is not a multiple of 4"),
        (GOOD | {"address": [-4] * 32}, "outside 0 to 233471"),
        (GOOD | {"address": [4 << 900] * 32}, "a number of 903 bits, which is outside"),
        (GOOD | {"address": [233472] * 32}, "outside"),
        (GOOD | {"source": [0] * 32}, "only cp.async has a source"),
        (GOOD | {"arch": "sm_1"}, "unknown arch"),
        (GOOD | {"arch": ["sm_90"]}, "unknown arch"),
        ({"op": "stmatrix.x1", "address": [0] * 32, "arch": "sm_80"}, "needs sm_90"),
        ({"op": "ldmatrix.x2", "address": [0] * 8 + [None] * 24}, "lane 8 has none"),
        ({"op": "cp.async.ca.8", "address": [0] * 32, "source": [4] * 32}, "source: lane 0 has 4"),
        ({"op": "cp.async.ca.8", "address": [0] * 32, "source": [0] * 31 + [None]}, "needs a source too"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(bad, words, tmp_path):
    error = lines(tmp_path, GOOD, "", bad, GOOD, code=4)
    assert "patterns.jsonl, line 3: " in error
    assert words in error
    assert len(error) < 2000


@given(st.text(max_size=80))
def test_any_line_is_judged_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "patterns.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    done = CliRunner().invoke(main, ["banks", "--patterns", str(path), "--json"])
    assert done.exit_code in (0, 4)
    assert done.exit_code == 4 or not text.strip()


FIELDS = st.sampled_from(["op", "address", "source", "arch"])


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=33) | st.dictionaries(FIELDS, inner),
)


@given(DATA)
def test_any_data_is_judged_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "patterns.jsonl"
    for row in (
        data,
        GOOD | {"address": data},
        GOOD | {"arch": data},
        {"op": "cp.async.ca.4", "address": [0] * 32, "source": data},
    ):
        path.write_text(json.dumps(row))
        done = CliRunner().invoke(main, ["banks", "--patterns", str(path), "--json"])
        assert done.exit_code in (0, 4), done.exception


def test_files_that_are_no_patterns(tmp_path):
    path = tmp_path / "patterns.jsonl"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in tcprobe("banks", "--patterns", path, code=4).stderr
    assert "read" in tcprobe("banks", "--patterns", tmp_path / "none", code=4).stderr
    path.write_text("")
    assert tcprobe("banks", "--patterns", path, "--json").stdout.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of --tile, --address, --patterns and --rule"),
        (["--rule", "--propose"], "--propose cannot be combined with --rule"),
        (["--address", "lane*4", "--tile", "8x8", "--with", "ld.shared.b32"], "give one of"),
        (["--address", "lane*4"], "needs exactly one access"),
        (["--address", "lane*4", "--with", "ld.shared.b32", "st.shared.b32"], "got 2"),
        (["--address", "lane", "--with", "ld.shared.b32"], "lane 1 has 1"),
        (["--address", "lane*", "--with", "ld.shared.b32"], "column 6"),
        (["--address", "lane*4", "--with", "ld.shared.b33"], "unknown access"),
        (
            ["--address", "lane*4", "--with", "ld.shared.b32", "--propose"],
            "--propose cannot be combined with --address",
        ),
        ([A + ".a", "--address", "lane*4", "--with", "ld.shared.b32"], "FRAGMENT cannot be combined with --address"),
        (["--address", "lane*4", "--with", "stmatrix.x4", "--arch", "sm_80"], "lane 1 has 4"),
        (["--address", "lane*16", "--with", "stmatrix.x4", "--arch", "sm_80"], "needs sm_90"),
        (["--tile", "8x8", "--type", "f32"], "no accesses are given"),
        (["--tile", "8x8", "--with", "ld.shared.b32@rows"], "needs the type"),
        (["--tile", "8by8", "--type", "f32", "--with", "ld.shared.b32@rows"], "not ROWSxCOLS"),
        (["--tile", "0x8", "--type", "f32", "--with", "ld.shared.b32@rows"], "not ROWSxCOLS"),
        (["--tile", "8x8", "--type", "f33", "--with", "ld.shared.b32@rows"], "unknown element type"),
        (["--tile", "999x999", "--type", "f32", "--with", "ld.shared.b32@rows"], "largest shared memory"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32"], "give a FRAGMENT"),
        (["--tile", "8x8", "--type", "f32", "--with", "cp.async.4", "--arch", "sm_75"], "needs sm_80"),
        (["--tile", "224x256", "--type", "f32", "--with", "cp.async.4", "--shared", "pad:64"], "243712 bytes with 64"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@lanes"], "after @"),
        (["--tile", "8x8", "--type", "f32", "--with", "cp.async.16@cols"], "only @rows"),
        (["--tile", "8x3", "--type", "f16", "--with", "ld.shared.b32@rows"], "whole number of 4-byte pieces"),
        (["--tile", "8x3", "--type", "s4", "--with", "ld.shared.b32@rows"], "not whole bytes"),
        (["--tile", "9x8", "--type", "f16", "--with", "ldmatrix.x4@rows"], "not a multiple of 32"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "odd"], "is not plain"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "sw:3,4,2"], "at least B"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b32@rows", "--shared", "pad:2"], "multiples of 4"),
        (["--tile", "8x8", "--type", "f32", "--with", "ld.shared.b128@rows", "--shared", "sw:2,3,3"], "splits"),
        ([A + ".a", "--tile", "64x24", "--with", "ldmatrix.x4"], "not a whole number of them"),
        ([A + ".a", "--tile", "64x64", "--type", "f32", "--with", "ldmatrix.x4"], "elements of 16 bits"),
        ([A + ".a", "--tile", "64x64", "--with", "ld.shared.b64"], "are not adjacent"),
        ([A + ".b", "--tile", "64x64", "--global", "row", "--with", "ld.shared.b32"], "are not adjacent"),
        ([A + ".d", "--tile", "64x64", "--with", "stmatrix.x4"], "not an 8 x 8 matrix"),
        ([A + ".a", "--tile", "64x64", "--with", "ld.shared.b8"], "which do not divide"),
        ([A + ".b", "--tile", "16x8", "--global", "col", "--with", "ldmatrix.x4"], "2 matrices"),
        (
            ["m16n8k32.row.col.s32.s8.s8.s32.a", "--tile", "64x64", "--global", "col", "--with", "ldmatrix.x4.trans"],
            "16 bytes",
        ),
        (["m8n8k4.row.col.f32.f16.f16.f32.a", "--tile", "64x64", "--with", "ld.shared.b64"], "4 products"),
        (["m8n8k4.row.col.f64.f64.f64.f64.a", "--tile", "64x64", "--with", "ldmatrix.x4"], "elements of 64 bits"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(arguments, words):
    assert words in tcprobe("banks", *arguments, code=2).stderr


@pytest.mark.parametrize("name", ["wgmma", "wgmma.mma_async", "TMA", "cp.async.bulk", "tcgen05.mma"])
def test_of_what_is_not_measured_the_command_says_what_to_ask_instead(name):
    done = CliRunner().invoke(main, ["banks", "--tile", "64x64", "--type", "f16", "--with", name])
    assert done.exit_code == 2
    assert f"how '{name}' meets in banks is not measured" in done.output
    for other in ("st.shared.b128@rows", "stmatrix.x4", "ldmatrix.x4"):
        assert f"--with {other}" in done.output
        assert CliRunner().invoke(main, ["banks", "--tile", "64x64", "--type", "f16", "--with", other]).exit_code == 0
