"""What a person meets: several archs at once, ranges, what is left out, notebooks, completion, a second run."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from command import tcprobe
from machine_code import needs_tools

from tcprobe import api, emit
from tcprobe.cli import main
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select

D = "wmma.m16n16k16.d.f32"
MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"


def test_archs_side_by_side():
    text = tcprobe("show", D, "--arch", "v100,a100,h100").stdout
    assert [line.split(" ")[0] for line in text.splitlines()[2:5]] == ["sm_70", "sm_80", "sm_90"]
    assert text.splitlines()[-1] == "2 different tables"
    lines = tcprobe("show", D, "--arch", "v100,h100", "--json").stdout.splitlines()
    assert [json.loads(line)["arch"] for line in lines] == ["sm_70", "sm_90"]
    both = tcprobe("where", D, "--row", 3, "--col", 9, "--arch", "v100,h100", "--json").stdout.splitlines()
    assert [(json.loads(line)["arch"], json.loads(line)["holders"][0]["lane"]) for line in both] == [
        ("sm_70", 9),
        ("sm_90", 12),
    ]
    lacking = tcprobe("show", "wmma.m16n16k16.a.row.bf16", "--arch", "sm_75,sm_80")
    assert "sm_75 does not have it" in lacking.stderr
    assert "unknown arch" in tcprobe("show", D, "--arch", "sm_90,sm_1", code=2).stderr


def test_trace_takes_ranges():
    text = tcprobe("trace", MULTIPLY, "--row", "0-2", "--col", "1-2").stdout
    heads = re.findall(r"D\[(\d)\]\[(\d)\] in", text)
    assert heads == [(str(r), str(c)) for r in range(3) for c in (1, 2)]
    single = tcprobe("trace", MULTIPLY, "--row", 1, "--col", 2, "--json").stdout
    assert single in tcprobe("trace", MULTIPLY, "--row", "0-2", "--col", "1-2", "--json").stdout
    assert tcprobe("trace", MULTIPLY, "--operand", "a", "--lane", "0-3", "--i", "0").stdout.count("which holds") == 4


def test_emit_leaves_out_what_an_arch_lacks_and_says_so():
    done = tcprobe("emit", "wmma.m16n16k16.*", "--to", "json", "--arch", "v100")
    assert "wmma.m16n16k16.a.row.bf16" in done.stderr
    here = select("wmma.m16n16k16.*", device=arch("sm_70"))
    assert {f.id for f in here} == set(re.findall(r'"id": "(.*?)"', done.stdout))
    assert (
        "wmma.m16n16k16.a.row.bf16 on sm_70"
        in tcprobe("emit", "wmma.m16n16k16.a.row.bf16", "--to", "json", "--arch", "sm_70", code=2).stderr
    )
    assert "cuda " in tcprobe("emit", "--to", "help").stdout
    assert "Missing argument" in tcprobe("emit", "--to", "cuda", code=2).stderr


@pytest.mark.parametrize(
    ("name", "at", "known"),
    [
        (D, "sm_90", "measured live"),
        (D, "sm_70", "from machine code"),
        (f"{MULTIPLY}.a", "sm_80", "derived from machine code"),
        ("mma.m16n8k32.row.col.s32.u4.s4.s32.b", "sm_87", "documented only"),
    ],
)
def test_the_first_line_says_how_a_table_is_known(name, at, known):
    assert tcprobe("show", name, "--arch", at).stdout.splitlines()[0] == f"{name} on {at}, {known}"


def test_notebooks():
    cell = api.load(D, "sm_90")
    assert repr(cell) == f"<{D} on sm_90, 16 x 16 of f32, measured live>"
    assert repr(cell.table) == "<Table of 32 lane x 8 i to row, col, layout 6f521bd25bff>"
    assert cell._repr_html_().count("<pre>") == 1
    assert api.load("ldmatrix.m8n8.x1.shared.b16.address", "sm_90")._repr_html_().startswith("<b>ldmatrix")
    assert api.archs()[0] == "sm_70"
    assert [f.id for f in api.list("wmma.m16n16k16.d.*", arch="v100")] == ["wmma.m16n16k16.d.f16", D]
    assert api.reduce(cell, "row", "max").plan.fewest


def test_ids_complete():
    command = main.get_command(None, "show")
    argument = next(p for p in command.params if p.name == "names")
    found = [item.value for item in argument.shell_complete(None, "wmma.m16n16k16.D")]
    assert found == ["wmma.m16n16k16.d.f16", D, "wmma.m16n16k16.d.s32"]


def test_colours_of_pictures_are_what_every_viewer_reads():
    style = next(e.text for e in ET.fromstring(emit.emit("svg", [api.load(D)])).iter() if e.tag.endswith("style"))
    fills = re.findall(r"fill: ?([^;}]+)", style)
    assert len(fills) >= 8
    assert all(re.fullmatch("none|inherit|#([0-9a-f]{3}|[0-9a-f]{6})", fill) for fill in fills), fills


@pytest.mark.full
@needs_tools
def test_a_second_run_keeps_what_follows_too(tmp_path):
    first = json.loads(tcprobe("run", "--arch", "sm_75", "--results", tmp_path, "--method", "sass", "--json").stdout)
    again = json.loads(tcprobe("run", "--arch", "sm_75", "--results", tmp_path, "--method", "sass", "--json").stdout)
    measured = [e["id"] for e in first["experiments"] if e["status"] == "measured"]
    assert len(measured) > 100
    assert ({e["status"] for e in again["experiments"]}, again["kept"]) == ({"refused"}, len(measured))


def test_why_not_sends_nobody_to_a_run_that_cannot():
    text = tcprobe("why-not", "mma.m16n8k32.row.col.s32.u4.s4.s32.b", "--arch", "sm_87").stdout
    assert "`tcprobe run` on a GPU of sm_87 measures it" in text
