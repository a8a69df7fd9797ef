"""ptxas and nvdisasm that go wrong: what they refuse is refused by name, what they fail at changes nothing."""

import os
import stat
import tempfile
from collections import Counter
from pathlib import Path

import faults
import pytest
from command import tcprobe
from machine_code import TOOLS, needs_tools
from wrapped_tools import beside

from tcprobe.errors import EnvironmentUnfitError, StarvedError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.probes import multiply
from tcprobe.sass import cubin, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.store.results import Results

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="makes shell scripts"), needs_tools]
ROW = arch("sm_90")
FORMS = [i for i in inventory.executed_by(32) if i.target.on(ROW) and i.family == "mma"]
COUNTED = faults.COMPILE + 'echo call >> "$(dirname "$0")/calls"\n'
# as ptxas 12.0 does, but without a word: dies over kernels of fp8, whatever is with them
DIES_ON_FP8 = COUNTED + 'grep -q "mma.*e[45]m" "$3" && kill -SEGV $$; exec "$REAL" "$@"'


def fake(folder, script, program="ptxas", version=None):
    """A toolchain whose ptxas is a shell script in which $REAL is the real one."""
    real = getattr(TOOLS, program)
    beside(folder / program)
    said = f'case "$1" in --version) echo V{version}; exit;; esac\n' if version else ""
    path = folder / program
    path.write_text(f"#!/bin/sh\nREAL='{real}'\n{said}{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return toolchain.find(folder, 60.0)


def calls(folder):
    """How often the script was called to assemble."""
    return len((folder / "calls").read_text().splitlines())


@pytest.mark.full
def test_forms_that_ptxas_dies_on_are_refused_by_name_the_others_assembled(tmp_path):
    tools = fake(tmp_path, DIES_ON_FP8)
    kernels = {multiply.kernel(i).name: i for i in FORMS}
    codes, refused = assemble(tools, [multiply.kernel(i) for i in FORMS], ROW)
    fp8 = {name for name, i in kernels.items() if i.type("a") in ("e4m3", "e5m2")}
    assert len(fp8) == 16
    assert refused == dict.fromkeys(fp8, "ptxas ended by signal 11")
    assert set(codes) == set(kernels) - fp8
    right, _ = assemble(TOOLS, [multiply.kernel(i) for i in FORMS], ROW)
    assert {name: code.opcodes for name, code in codes.items()} == {n: right[n].opcodes for n in codes}
    assert calls(tmp_path) < 100 < 2 * len(FORMS)


@pytest.mark.full
def test_the_same_by_lower(tmp_path):
    fake(tmp_path, DIES_ON_FP8)
    name = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    text = tcprobe("lower", name, "mma.m16n8k16.row.col.f32.f16.f16.f32", "--arch", "sm_90", "--cuda", tmp_path).stdout
    assert "refused [sm_90, sm_90a] (ptxas ended by signal 11)" in text
    assert "HMMA.16816.F32" in text
    assert "signal 11" in tcprobe("lower", name, "--arch", "sm_90", "--cuda", tmp_path).stdout  # alone too


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -SEGV $$", "cannot assemble the probes for sm_90: ptxas ended by signal 11"),
        ("exit 1", "cannot assemble the probes for sm_90: ptxas ended with code 1"),
        ("echo dead >&2; exit 1", "cannot assemble the probes for sm_90: dead"),
        ("exit 0", "cannot assemble the probes for sm_90: no cubin came"),
        ("kill -KILL $$", "the system has no more memory"),
    ],
)
def test_a_ptxas_that_fails_at_everything_is_unfit_at_once(tmp_path, script, words):
    tools = fake(tmp_path, COUNTED + script)
    with pytest.raises((EnvironmentUnfitError, StarvedError), match=words):
        assemble(tools, [multiply.kernel(i) for i in FORMS], ROW)
    assert calls(tmp_path) <= 4
    alone = "mma.m16n8k16.row.col.f32.f16.f16.f32"  # nor is the only kernel refused
    assert words in tcprobe("lower", alone, "--arch", "sm_90", "--cuda", tmp_path, code=3).stderr


@pytest.mark.full
def test_a_ptxas_that_fails_at_all_but_nothing_is_given_up(tmp_path):
    tools = fake(tmp_path, COUNTED + 'grep -q mma "$3" && exit 1; exec "$REAL" "$@"')
    forms = [i for i in inventory.executed_by(32) if i.multiplies and i.target.on(ROW)]
    with pytest.raises(EnvironmentUnfitError, match="ended with code 1"):
        assemble(tools, [multiply.kernel(i) for i in forms], ROW)
    assert calls(tmp_path) < 450


def test_nor_does_it_go_on_where_each_form_is_assembled_alone(tmp_path, monkeypatch):
    fake(tmp_path, COUNTED + 'grep -q mma "$3" && exit 1; exec "$REAL" "$@"')
    monkeypatch.setattr(cubin, "MOST_STUMBLES", 1)
    done = tcprobe("lower", "mma.m16n8k*.f32.f16.*", "--arch", "sm_90", "--cuda", tmp_path, code=3)
    assert "code 1" in done.stderr


@pytest.mark.full
def test_a_ptxas_for_another_arch_that_refuses_all_is_unfit_too(tmp_path):
    """Forms of sm_80, assembled for sm_75: no cubin shows the arch, an empty kernel's does."""
    (elsewhere,) = [f.script for f in faults.TOOLS if f.name == "ptxas assembles for another arch"]
    fake(tmp_path, elsewhere)
    for asked in (
        ["run", "wmma.m8n8k4.*", "--method", "sass", "--results", tmp_path / "r"],
        ["lower", "mma.m8n8k4.*f64*"],
    ):
        done = tcprobe(*asked, "--arch", "sm_80", "--cuda", tmp_path, code=3)
        assert "was asked for sm_80 and assembled for sm_75" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_kernel_that_is_left_out_is_missed(tmp_path):
    (leaves_out,) = [f.script for f in faults.TOOLS if f.name == "ptxas leaves out a kernel"]
    tools = fake(tmp_path, leaves_out)
    with pytest.raises(EnvironmentUnfitError, match=r"left .* out of its cubin for sm_90"):
        assemble(tools, [multiply.kernel(i) for i in FORMS], ROW)


@pytest.mark.full
def test_a_hang_is_counted_once(tmp_path):
    fake(tmp_path, COUNTED + "sleep 100")
    arguments = (
        "run",
        "--arch",
        "all",
        "--method",
        "sass",
        "--cuda",
        tmp_path,
        "--limit",
        5,
        "--results",
        tmp_path / "r",
    )
    done = tcprobe(*arguments, code=3)
    assert f"{tmp_path}/ptxas gave no answer within 5 s (`tcprobe run --limit`) and was stopped" in done.stderr
    assert calls(tmp_path) <= 4  # of the two archs that are read at a time
    assert not (tmp_path / "r").exists()


# fragments, the multiplies that take them, and one that is derived through these
SOME = ("wmma.m16n16k16.*.f16", "wmma.mma.row.col.m16n16k16.f16.f16", "mma.m16n8k16.row.col.f16.f16.f16.f16")


@pytest.fixture(scope="module")
def measured():
    """A folder of tables by the real tools, and its files."""
    with tempfile.TemporaryDirectory() as folder:
        tcprobe("run", *SOME, "--arch", "sm_80", "--method", "sass", "--results", folder)
        yield folder


def contents(root):
    return {p.relative_to(root): p.read_bytes() for p in Path(root).rglob("*") if p.is_file()}


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "script"),
    [
        ("ptxas", faults.COMPILE + "sleep 100"),
        ("ptxas", faults.COMPILE + "kill -SEGV $$"),
        ("ptxas", faults.COMPILE + "exit 1"),
        ("nvdisasm", faults.COMPILE + "kill -SEGV $$"),
    ],
)
def test_force_with_a_broken_tool_loses_nothing(measured, tmp_path, program, script):
    before = contents(measured)
    fake(tmp_path, script, program)
    arguments = ("--arch", "sm_80", "--method", "sass", "--cuda", tmp_path, "--results", measured, "--limit", 1)
    tcprobe("run", "--force", *arguments, code=3)
    assert contents(measured) == before


@pytest.mark.full
def test_what_the_same_ptxas_took_before_it_cannot_refuse(measured, tmp_path):
    before = contents(measured)
    refuses = 'grep -n "wmma.load.a" "$3" | sed "s/:.*//; s/.*/ptxas x, line &; error : no/" >&2; exit 255'
    fake(tmp_path, f'{faults.COMPILE}grep -q wmma.load.a "$3" || exec "$REAL" "$@"; {refuses}')
    name = "wmma.m16n16k16.a.row.f16"
    arguments = (name, "--arch", "sm_80", "--method", "sass", "--cuda", tmp_path, "--results", measured)
    done = tcprobe("run", "--force", *arguments, code=1)
    assert f"failed: {name}: refused, though this compiler took it before: no" in done.stdout
    assert f"recorded beside them: {Results(Path(measured)).refusal_path('sm_80', 'sass', name)}" in done.stderr
    after = contents(measured)
    assert {k: v for k, v in after.items() if k.suffix != ".failed"} == before
    assert len(after) == len(before) + 1
    tcprobe("run", "--force", name, "--arch", "sm_80", "--method", "sass", "--results", measured)
    assert contents(measured) == before


@pytest.mark.full
def test_a_run_with_another_compiler_measures_and_derives_anew(measured, tmp_path):
    tools = fake(tmp_path, 'exec "$REAL" "$@"', version="12.9.85")
    results = Results(Path(measured))
    kinds = Counter((m, d.status) for m in results.methods("sm_80") for d in results.measurements("sm_80", m))
    arguments = (*SOME, "--arch", "sm_80", "--method", "sass", "--results", measured)
    text = tcprobe("run", *arguments, "--cuda", tmp_path).stdout
    assert "kept" not in text
    assert "(1 mma, 5 wmma fragments, 1 wmma.mma)" in text
    saved = Results(Path(measured))
    for method in ("sass", "derived"):
        assert {m.provenance["compiler"] for m in saved.measurements("sm_80", method)} == {tools.name}
    assert {entry["compiler"] for entry in saved.opcodes("sm_80").values()} == {tools.name}
    assert kinds == Counter((m, d.status) for m in saved.methods("sm_80") for d in saved.measurements("sm_80", m))
    assert "kept        7" in tcprobe("run", *arguments, "--cuda", tmp_path).stdout


def test_a_folder_without_tools_is_not_passed_over(tmp_path):
    fake(tmp_path, 'exec "$REAL" "$@"', "nvdisasm")
    (tmp_path / "ptxas").unlink()
    for asked in (
        ["lower"],
        ["run", "--arch", "sm_80", "--method", "sass", "--results", tmp_path / "r"],
        ["diff", "--cuda", tmp_path],
    ):
        assert f"{tmp_path} has no ptxas" in tcprobe(*asked, "--cuda", tmp_path, code=3).stderr
    (tmp_path / "ptxas").write_text("#!/bin/sh\n")
    assert "executable" in tcprobe("lower", "--cuda", tmp_path, code=3).stderr


def test_doctor_reports_tools_that_go_wrong_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("tcprobe.run.doctor.LIMIT", 0.5)
    fake(tmp_path, 'exec "$REAL" "$@"')
    (tmp_path / "ptxas").write_text("#!/bin/sh\nsleep 100\n")
    assert (
        f"--  machine code: {tmp_path}/ptxas gave no answer within 0.5 s"
        in tcprobe("doctor", "--cuda", tmp_path).stdout
    )


def test_comparing_compilers_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    for name in ("tmp", "cuda"):
        (tmp_path / name).mkdir()
    fake(tmp_path / "cuda", faults.COMPILE + "exit 1")
    cuda = ("--cuda", tmp_path / "cuda")
    assert "code 1" in tcprobe("diff", *cuda, *cuda, "--arch", "sm_90", code=3).stderr
    assert not list((tmp_path / "tmp").iterdir())
