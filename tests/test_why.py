"""`tcprobe show --why`: what a table rests on, and how sure it is."""

import itertools
import json

import pytest
from click.testing import CliRunner

from tcprobe.ask.confidence import ASSUMED, RAN, WRONG, Confidence, chain, confidence, line
from tcprobe.cli import main
from tcprobe.code.cuda import origins
from tcprobe.question import function
from tcprobe.store.cell import load
from tcprobe.text import Whole

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


@pytest.mark.parametrize("counts", itertools.product((0, 1, 9), repeat=4))
def test_a_line_of_what_speaks_for_an_answer_fits_80_columns(counts):
    methods, devices, compilers, confirmed = counts
    assert len(line(Confidence(methods, devices, compilers, 0, confirmed, 0))) <= 80


@pytest.mark.parametrize(
    ("question", "name", "given"),
    [
        ("where", f"{FORM}.d", {"rows": [3], "cols": [5]}),
        ("where", "wgmma.m64n24k16.f32.bf16.bf16.b_smem", {"rows": [3], "cols": [5]}),
        ("trace", FORM, {"row": [3], "col": [5]}),
        ("load", f"{FORM}.a", {}),
        ("path", f"{FORM}.a", {"tile": "64x64", "placed": "sw:3,4,3"}),
    ],
)
def test_a_longer_one_is_folded_by_a_narrow_terminal(question, name, given):
    found = function(question)(name, **given)
    answer = found if hasattr(found, "in_words") else next(iter(found))
    (said,) = [text for text in answer.in_words if text.startswith("confidence: ")]
    assert not isinstance(said, Whole)


def test_evidence_of_several_tables_is_said_once():
    """A conversion's two tables that rest on the same, and two that do not."""
    one, two = (load(f"{FORM}.{operand}", "sm_90") for operand in "ad")
    (words,) = origins([one, two, one])
    assert words == origins([one])[0].replace("the table of", "the tables of").replace(
        " on sm_90", f" and {two.fragment.id} on sm_90"
    )
    assert origins([one, load(f"{FORM}.a", "sm_80")]) == [*origins([one]), *origins([load(f"{FORM}.a", "sm_80")])]


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
