"""Pictures of answers: what they draw is what JSON says; any SVG is XML."""

import json
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


@pytest.mark.parametrize(
    "words", [("cost", "wgmma.m64n8k16.f32.f16.f16"), ("cost", "HMMA.16816.F32"), ("banks", "--rule")]
)
def test_what_has_no_picture_is_refused(tmp_path, words):
    assert "--svg draws" in run(*words, "--svg", str(tmp_path / "x.svg"), code=2)
    assert not list(tmp_path.iterdir())
