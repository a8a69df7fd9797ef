"""`tcprobe compilers`: what several ptxas agree in; what differs is found; too old for a form is not a refusal."""

import json
import sys

import pytest
from click.testing import CliRunner
from command import tcprobe
from machine_code import TOOLS, needs_tools
from wrapped_tools import tool

from tcprobe.cli import main
from tcprobe.run.survey import newest_ptx

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")]
WMMA = "wmma.m8n8k4.*"


def ptxas(folder, version, does=""):
    """The real ptxas under another version's name."""
    answer = f'[ "$1" = --version ] && {{ echo "V{version}"; exit 0; }}'
    return tool(folder / "ptxas", f'{answer}\n{does}\nexec {TOOLS.ptxas} "$@"')


def compilers(*folders, code=0, patterns=(WMMA,)):
    words = [word for folder in folders for word in ("--cuda", str(folder))]
    done = tcprobe("compilers", *patterns, "--arch", "sm_80", *words, "--json", code=code)
    return json.loads(done.stdout) if code < 2 else done.stderr


@pytest.mark.full
def test_versions_that_agree(tmp_path):
    found = compilers(ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "13.1.1"))
    assert found["versions"] == ["ptxas 12.8.93", "ptxas 13.1.1"]
    assert (found["differing"], found["exceptions"]) == ([], [])
    assert found["tables"] == 6
    assert found["lowerings"] > 150
    assert [key for key in found if "differ" in key or "conflict" in key] == ["differing"]


@pytest.mark.full
def test_a_version_that_makes_something_else_is_named(tmp_path):
    """Two loads are exchanged, and a multiply is taken for another one."""
    first, second = "wmma_load_a_row_m8n8k4_f64", "wmma_load_a_col_m8n8k4_f64"
    swap = f"s/entry {first}(/entry %(/; s/entry {second}(/entry {first}(/; s/entry %(/entry {second}(/"
    other = "s/mma.sync.aligned.m16n8k16.row.col.f32.f16/mma.sync.aligned.m16n8k16.row.col.f32.bf16/"
    turn = f"sed -i '{swap}; {other}; s/bf16.f16.f32/bf16.bf16.f32/' \"$3\" 2> /dev/null"
    found = compilers(ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "13.1.1", turn), code=1)
    by = {fact["id"]: fact["said"] for fact in found["differing"]}
    assert by["mma.m16n8k16.row.col.f32.f16.f16.f32"] == {
        "ptxas 12.8.93": "HMMA.16816.F32",
        "ptxas 13.1.1": "HMMA.16816.F32.BF16",
    }
    assert all(fact["arch"] == "sm_80" for fact in found["differing"])


@pytest.mark.full
def test_what_a_version_refuses_is_no_difference(tmp_path):
    """A form that it does not take is refused in its words, and shown by the others only."""
    turn = "sed -i 's/mma.sync.aligned.m16n8k8.row.col.f32.tf32/mna.sync/' \"$3\" 2> /dev/null"
    found = compilers(ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "13.1.1", turn))
    (refused,) = found["refused"]
    assert refused["id"] == "mma.m16n8k8.row.col.f32.tf32.tf32.f32"
    assert list(refused["words"]) == ["ptxas 13.1.1"]
    assert [(e["id"], e["versions"]) for e in found["exceptions"]] == [(refused["id"], ["ptxas 12.8.93"])]


@pytest.mark.full
def test_a_version_too_old_for_a_form_refuses_nothing(tmp_path):
    """It says which PTX it takes; forms of newer PTX are not given to it."""
    assert newest_ptx(TOOLS) >= (8, 8)
    old = "echo \"Unsupported .version 99.9; current version is '7.0'\" >&2"
    turn = f'[ -f "$1" ] && grep -q "version 99.9" "$1" 2> /dev/null && {{ {old}; exit 255; }}'
    found = compilers(ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "11.0.1", turn))
    assert found["refused"] == found["differing"] == []
    assert {tuple(e["versions"]) for e in found["exceptions"]} == {("ptxas 12.8.93",)}


@pytest.mark.full
def test_mistakes(tmp_path):
    twice = compilers(ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "12.8.93"), code=2)
    assert "ptxas 12.8.93 is given twice" in twice


@pytest.mark.full
def test_run_takes_several_toolkits(tmp_path):
    """The first into the folder, each other into a run beside it."""
    a, b = ptxas(tmp_path / "a", "12.8.93"), ptxas(tmp_path / "b", "13.1.1")
    words = ["run", WMMA, "--arch", "sm_80", "--results", str(tmp_path / "r"), "--cuda", str(a), "--cuda", str(b)]
    done = CliRunner().invoke(main, [*words, "--method", "sass"])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "r" / "sm_80" / "sass").iterdir())) == 5
    (run,) = (tmp_path / "r" / "runs").iterdir()
    assert run.name.startswith("ptxas-13.1.1")
    assert len(list((run / "sm_80" / "sass").iterdir())) == 5
    assert "--method" in CliRunner().invoke(main, words).stderr
