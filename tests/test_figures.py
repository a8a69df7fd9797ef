"""Pictures of answers: what they draw is what JSON says; any SVG is XML."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

from tcprobe.cli import main

SVG = "{http://www.w3.org/2000/svg}"


def run(*words, code=0):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, list(words))
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize(("stride", "access"), [(4, "ld.shared.b32"), (16, "ld.shared.b32"), (128, "ld.shared.b64")])
def test_a_map_of_banks_is_what_the_phases_say(tmp_path, stride, access):
    asked = ("banks", "--address", f"lane * {stride}", "--with", access)
    path = tmp_path / "map.svg"
    text = run(*asked, "--svg", str(path))
    phases = json.loads(run(*asked, "--json", "--explain"))["phases"]
    rows = [line.split()[-1] for line in text.splitlines() if line.startswith("  phase") and "lanes" not in line]
    said = [{bank: len(c["lanes"]) for c in phase["collisions"] for bank in c["banks"]} for phase in phases]
    drawn = [{bank: mark for bank, mark in enumerate(row) if mark != "."} for row in rows]
    assert [{b: str(n) if n < 10 else "+" for b, n in one.items()} for one in said if one] == drawn
    root = ET.parse(path).getroot()
    bad = [one for one in root.iter(f"{SVG}rect") if one.get("class") == "bad"]
    assert len(bad) == sum(map(len, said))


def test_a_curve_has_every_point(tmp_path):
    path = tmp_path / "curve.svg"
    asked = ("cost", "mma.m16n8k16.row.col.f32.bf16.bf16.f32")
    run(*asked, "--svg", str(path))
    points = json.loads(run(*asked, "--json"))["curve"]
    titles = [one.text for one in ET.parse(path).getroot().iter(f"{SVG}title")]
    assert sorted(titles) == sorted(f"{p['warps']} warps, {p['chains']} chains: {p['cycles']:g} cycles" for p in points)


@pytest.mark.parametrize("words", [("mma.m16n8k16.row.col.f32.f16.f16.f32.a",), ("wgmma.m64n24k16.f32.bf16.bf16.d",)])
def test_a_shown_fragment_is_drawn_as_its_table(tmp_path, words):
    """Every element's cell names the holders that JSON has."""
    path = tmp_path / "a.svg"
    assert run("show", *words, "--svg", str(path)) == run("show", *words)
    table = json.loads(run("show", *words, "--json"))["table"]
    said = {(row, col): f"{lane}:{i}" for lane, slots in enumerate(table) for i, (row, col) in enumerate(slots)}
    drawn = {}
    for one in ET.parse(path).getroot().iter(f"{SVG}title"):
        if cell := re.fullmatch(r"\[(\d+)\]\[(\d+)\]: (\d+):(\d+)(?:-(\d+))?", one.text):
            row, col, lane, first, last = (int(each or cell[4]) for each in cell.groups())
            drawn |= {(row, col + n): f"{lane}:{first + n}" for n in range(last - first + 1)}
    assert drawn == said


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (
            ("m16n8k16", "f16", "f32", "d", "--warps", "2x4", "--tile", "64x64x16"),
            "mma.m16n8k16.row.col.f32.f16.f16.f32.d",
        ),
        (
            ("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e", "--selector", "1"),
            "mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e: ",
        ),
        (("Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)",), "Sw<3,4,3>"),
    ],
)
def test_tiles_metadata_and_memory_are_drawn(tmp_path, words, title):
    path = tmp_path / "a.svg"
    run("show", *words, "--json", "--svg", str(path))
    root = ET.parse(path).getroot()
    assert root.find(f"{SVG}title").text.startswith(title)
    assert "selector 1" in path.read_text() or "--selector" not in words


@pytest.mark.parametrize(
    "words",
    [
        ("cost", "wgmma.m64n8k16.f32.f16.f16"),
        ("cost", "HMMA.16816.F32"),
        ("banks", "--rule"),
        ("show", "m16n8k16 f16 f32"),
        ("show", "wgmma.m64n24k16.f32.bf16.bf16.b_smem"),
        ("show", "m16n8k16 f16 f32 a", "m16n8k16 f16 f32 b", "m16n8k8 f16 f32 a"),
        ("show", "m16n8k16 f16 f32 a", "--arch", "sm_80,sm_90"),
    ],
)
def test_what_has_no_picture_is_refused(tmp_path, words):
    assert "--svg draws" in run(*words, "--svg", str(tmp_path / "x.svg"), code=2)
    assert not list(tmp_path.iterdir())
