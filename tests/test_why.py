"""`tcprobe show --why`: what a table rests on, and how sure it is."""

import json

import pytest
from click.testing import CliRunner

from tcprobe.ask.confidence import ASSUMED, RAN, WRONG, Confidence, chain, confidence
from tcprobe.cli import main
from tcprobe.store.cell import load

FORM = "mma.m16n8k16.row.col.f32.f16.f16.f32"
SCALED = "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.a"


@pytest.mark.parametrize(
    ("name", "arch", "word"),
    [
        (f"{FORM}.a", "sm_90", "strong"),
        ("mma.m16n8k8.row.col.f32.f16.f16.f32.a", "sm_80", "good"),
        (SCALED, "sm_120", "documented only"),
        ("wmma.m32n8k16.b.col.u8", "sm_72", "single"),
    ],
)
def test_the_word_follows_from_the_numbers(name, arch, word):
    found = confidence(load(name, arch))
    assert found.word == word
    assert (found.devices > 0) == (word == "strong")


def test_another_table_on_the_arch_is_a_contradiction():
    assert Confidence(2, 1, 1, 1, 3, 0).word == "contradicted"


def test_every_method_has_its_links():
    for arch, name in (("sm_90", f"{FORM}.a"), ("sm_80", f"{FORM}.a"), ("sm_80", "wmma.m16n16k16.a.row.f16")):
        cell = load(name, arch)
        links = dict(chain(cell))
        assert list(links) == ["probe", "code", "anchor", "assumption", "wrong if"]
        assert cell.measured.provenance["ptx"][:12] in links["probe"]
    assert set(RAN) == set(ASSUMED) == set(WRONG)


def test_as_text_and_json():
    done = CliRunner().invoke(main, ["show", f"{FORM}.a", "--arch", "sm_90", "--why"])
    assert "wrong if: `tcprobe run" in " ".join(done.stdout.split())
    (one,) = map(json.loads, CliRunner().invoke(main, ["show", f"{FORM}.a", "--why", "--json"]).stdout.splitlines())
    assert one["why"]["confidence"]["confirmed"] == 2
    assert "numbers" in one["why"]["chain"]["anchor"]
    side = CliRunner().invoke(main, ["show", f"{FORM}.a", "--arch", "sm_80,sm_90", "--why"])
    assert side.exit_code == 2
    assert "--why takes" in side.stderr
