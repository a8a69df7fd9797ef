"""lower, diff and doctor."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command import tcprobe
from test_pins import PINNED

from tcprobe.ask.diff import Changed
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, arch
from tcprobe.isa.names import resolve
from tcprobe.layout.table import slot_table
from tcprobe.probes import experiments
from tcprobe.run.doctor import new_words
from tcprobe.sass import toolchain
from tcprobe.sass.lowering import Lowering, count
from tcprobe.store.results import Results, published

try:
    toolchain.find()
    MISSING = ""
except EnvironmentUnfitError as error:
    MISSING = str(error)
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"no ptxas or nvdisasm for this platform: {MISSING}")


def lowered(name, device):
    data = published().lowering(device)["instructions"][name]
    return Lowering(**data)


@pytest.mark.parametrize(
    ("name", "device", "opcodes", "native"),
    [
        ("mma.m16n8k16.row.col.f32.f16.f16.f32", "sm_80", {"HMMA.16816.F32": 1}, True),
        ("wmma.mma.row.col.m16n16k16.f32.f32", "sm_75", {"HMMA.1688.F32": 4}, True),
        ("wmma.mma.row.col.m16n16k16.f32.f32", "sm_90", {"HMMA.16816.F32": 2}, True),
        ("mma.m16n8k32.row.col.s32.s4.s4.s32", "sm_80", {"IMMA.16832.S4.S4": 1}, True),
        ("mma.m16n8k32.row.col.s32.s4.s4.s32", "sm_90", {"IMMA.16816.S8.S8": 2}, False),
        ("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_120", {"QMMA.16832.F32.E4M3.E4M3": 1}, True),
        ("mma.m8n8k4.row.row.f16.f16.f16.f16", "sm_80", {}, False),
    ],
)
def test_published_lowerings(name, device, opcodes, native):
    found = lowered(name, device)
    assert dict(found.opcodes) == opcodes
    assert found.native(inventory.instructions()[name]) == native


def test_fp8_is_emulated_with_f16_on_hopper_and_refused_before_ada():
    row = inventory.instructions()["mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"]
    hopper = lowered(row.id, "sm_90")
    assert not hopper.native(row)
    assert all(opcode.startswith("HMMA") for opcode in hopper.opcodes)
    assert "sm_89" in lowered(row.id, "sm_80").refused


def test_every_arch_has_a_lowering_of_every_multiply():
    """ptxas refuses exactly what the PTX ISA does not allow; forms of special targets are left to it.

    A form that was asked of one arch was asked of all; one that was added may not have been asked yet.
    """
    lowerings = {name: body["instructions"] for name in published().archs() if (body := published().lowering(name))}
    asked = {id_ for found in lowerings.values() for id_ in found}
    multiplies = {row.id for row in inventory.executed_by(32) if row.multiplies} & asked
    assert len(multiplies) > 300
    for name, found in lowerings.items():
        assert multiplies <= set(found) <= set(inventory.instructions())
        for id_, data in found.items():
            target = inventory.instructions()[id_].target
            if target.name[-1].isdigit():
                assert bool(data["refused"]) == (target.on(arch(name)) is None), (name, id_)


def test_counting():
    multiply = resolve("mma.m16n8k16.row.col.f32.f16.f16.f32").instruction
    found = count(["LDG.E", "HMMA.16816.F32", "HMMA.16816.F32", "EXIT", "BRA", "NOP", "STG.E"], multiply)
    assert (dict(found.opcodes), found.others) == ({"HMMA.16816.F32": 2}, 2)
    move = resolve("movmatrix.m8n8.trans.b16").instruction
    found = count(["LDG.E", "MOVM.16.MT88", "EXIT", "STG.E"], move)
    assert (dict(found.opcodes), found.others, found.native(move)) == ({"MOVM.16.MT88": 1}, 2, True)
    assert not count(["SHFL.IDX"], move).native(move)


@pytest.mark.full
@needs_tools
@pytest.mark.parametrize(
    ("device", "opcodes"),
    [
        ("sm_75", ("LDSM.16.M88.2", "refused", "refused", "MOVM.16.MT88")),
        ("sm_90", ("LDSM.16.M88.2", "STSM.16.MT88.4", "refused", "MOVM.16.MT88")),
        ("sm_120", ("LDSM.16.M88.2", "STSM.16.MT88.4", "LDSM.8.MT1616", "MOVM.16.MT88")),
    ],
)
def test_moves_become_one_opcode_each(device, opcodes):
    names = (
        "ldmatrix.m8n8.x2.shared.b16",
        "stmatrix.m8n8.x4.trans.shared.b16",
        "ldmatrix.m16n16.x1.trans.shared.b8",
        "movmatrix.m8n8.trans.b16",
    )
    lines = tcprobe("lower", *names, "--arch", device).stdout.splitlines()
    assert [line.split(": ")[1].split(" (")[0].partition(" [")[0] for line in lines] == list(opcodes)


@needs_tools
def test_lower_prints_and_saves(tmp_path):
    text = tcprobe("lower", "mma.m16n8k16.f32.f16.f16.f32", "--arch", "sm_80", "--save", tmp_path).stdout
    assert text == "sm_80   mma.m16n8k16.row.col.f32.f16.f16.f32: HMMA.16816.F32 [sm_80]\n"
    assert Results(tmp_path).lowering("sm_80")["instructions"]["mma.m16n8k16.row.col.f32.f16.f16.f32"]["others"] > 0
    data = json.loads(tcprobe("lower", "mma.m16n8k8.f32.bf16.bf16.f32", "--arch", "sm_75", "--json").stdout)
    assert "requires .target sm_80" in data["refused"]
    assert (data["source"], data["compiler"]) == (None, toolchain.find().name)
    assert "instruction" in tcprobe("lower", "nonsense", code=2).stderr


def without(monkeypatch, *names):
    """The toolchain, as if its ptxas did not know some archs."""
    known = toolchain.known_targets(toolchain.find().ptxas) - set(names)
    monkeypatch.setattr(toolchain, "known_targets", lambda *_: known)


@needs_tools
def test_saved_lowerings_of_the_same_compiler_stay(tmp_path):
    names = ("mma.m16n8k16.row.col.f32.f16.f16.f32", "mma.m16n8k8.row.col.f32.f16.f16.f32")
    for name in names:
        tcprobe("lower", name, "--arch", "sm_80", "--save", tmp_path)
    saved = Results(tmp_path).lowering("sm_80")["instructions"]
    assert set(saved) == set(names)
    Results(tmp_path).write_lowering("sm_80", "ptxas 99", saved)
    tcprobe("lower", names[0], "--arch", "sm_80", "--save", tmp_path)
    assert set(Results(tmp_path).lowering("sm_80")["instructions"]) == {names[0]}


@pytest.mark.full
@needs_tools
def test_an_arch_that_ptxas_does_not_know_is_no_refusal(tmp_path, monkeypatch):
    without(monkeypatch, "sm_110")
    monkeypatch.chdir(tmp_path)
    name = "mma.m16n8k16.row.col.f32.f16.f16.f32"
    compiler = published().lowering("sm_110")["compiler"]
    text = tcprobe("lower", name, "--arch", "sm_110").stdout
    assert text == f"sm_110  {name}: HMMA.16816.F32 [sm_110] (published, by {compiler})\n"
    data = json.loads(tcprobe("lower", name, "--arch", "sm_110", "--json").stdout)
    assert (data["source"], data["compiler"], data["refused"]) == ("published", compiler, None)
    assert [line.split()[0] for line in tcprobe("lower", name).stdout.splitlines()] == [row.name for row in ARCHS]
    own = {name: published().lowering("sm_110")["instructions"][name]}
    Results(tmp_path / "results").write_lowering("sm_110", "ptxas 99", own)
    shutil.copytree(published().root / "sm_75" / "sass", tmp_path / "results" / "sm_75" / "sass")
    assert "(results, by ptxas 99)" in tcprobe("lower", name, "--arch", "sm_110").stdout
    assert "(published, by ptxas" in tcprobe("lower", "mma.m16n8k8.f32.f16.f16.f32", "--arch", "sm_110").stdout
    folder = str(Path(toolchain.find().ptxas).parent)
    for asked in (["--save", tmp_path / "s"], ["--cuda", folder]):
        assert "does not know sm_110; it knows sm_70" in tcprobe("lower", "--arch", "sm_110", *asked, code=2).stderr
    assert not (tmp_path / "s").exists()
    monkeypatch.setattr(Results, "lowering", lambda self, arch: None)
    assert "sm_110" in tcprobe("lower", "--arch", "sm_110", code=2).stderr


def diff(*arguments, code=0):
    """What `diff --json` prints, one object a comparison."""
    return [json.loads(line) for line in tcprobe("diff", *arguments, "--json", code=code).stdout.splitlines()]


def test_diff_of_two_archs():
    done = tcprobe("diff", "sm_75", "sm_80", code=1)
    assert "sm_75 to sm_80: 151 same, 2 changed; absent: 100 on sm_75, 0 on sm_80, " in done.stdout
    assert "tables: published" in done.stdout
    assert "row: lane >> 2  ->  (i & 1) + ((lane & 3) << 1)" in done.stdout
    assert "sm_80: wmma.m16n16k16.a.row.bf16" in done.stdout
    assert re.search(r"not measured on sm_75 in the published tables: .* and \d+ more", done.stdout)
    every = tcprobe("diff", "sm_75", "sm_80", "--all", code=1).stdout
    assert "(documented by PTX ISA, section 9.7.14.5.15: the same layout): ldmatrix.m8n8.x4.shared.b16" in every
    assert "more" not in every
    assert (
        "not measured"
        in tcprobe("diff", "sm_80", "sm_86", "--results", published().root / "layouts", "--only", code=2).stderr
    )
    assert "two archs" in tcprobe("diff", "sm_80", code=2).stderr
    assert "already" in tcprobe("diff", "sm_80", "sm_90", "--arch", "sm_80", code=2).stderr


def test_absent_is_not_different():
    assert "253 same, 0 changed" in tcprobe("diff", "sm_80", "sm_86").stdout
    found = tcprobe("diff", "sm_80", "sm_90")
    assert re.search(r" same, 0 changed; absent: \d+ on sm_80, 0 on sm_90, ", found.stdout)


@pytest.mark.full
@pytest.mark.parametrize("names", [("sm_75", "sm_80"), ("sm_70", "sm_120"), ("sm_89", "sm_90")])
def test_every_cell_is_same_changed_or_absent_for_a_reason(names):
    (found,) = diff(*names, code=0 if names == ("sm_89", "sm_90") else 1)
    both = {*found["same"], *(c["id"] for c in found["changed"])}
    cells = {(a["id"], a["side"]) for a in found["absent"]}
    assert len(cells) == len(found["absent"])
    assert {id_ for id_, _ in cells} == set(inventory.fragments()) - both
    assert all(
        cell["elsewhere"] == (len(cells & {(cell["id"], s) for s in ("first", "second")}) == 1)
        for cell in found["absent"]
    )
    for cell in found["absent"]:
        allowed = inventory.fragments()[cell["id"]].target.on(arch(cell["arch"]))
        assert cell["arch"] == names[cell["side"] == "second"]
        assert cell["reason"].startswith("not measured on " if allowed else f"{cell['arch']} does not have it: needs ")
        silent = "nor documented" in cell["reason"]  # by any reference: there is no layout to compare with
        assert ("layout" in cell["reason"]) == bool(cell["elsewhere"] and allowed and not silent)
    listed = tcprobe("diff", *names, "--all", code=0 if names == ("sm_89", "sm_90") else 1).stdout
    assert all(cell["id"] in listed for cell in found["absent"])


def test_changed_cells_come_with_formulas_and_slots():
    (found,) = diff("sm_75", "sm_80", "wmma.m8n32k16.?.s32", code=1)
    assert [c["id"] for c in found["changed"]] == ["wmma.m8n32k16.c.s32", "wmma.m8n32k16.d.s32"]
    assert (found["same"], found["absent"]) == ([], [])
    change = found["changed"][0]
    assert change["formula"]["first"]["row"] == "lane >> 2"
    assert (change["differing"], change["source"]) == (224, {"first": "published", "second": "published"})
    assert change["first_slots"][0] == {"lane": 0, "i": 1, "first": [0, 1], "second": [1, 0]}
    (found,) = diff("sm_75", "sm_80", "--changed", code=1)
    assert "absent" not in found
    assert len(found["changed"]) == 2
    assert "absent on sm_75" not in tcprobe("diff", "sm_75", "sm_80", "--changed", code=1).stdout
    assert "instruction" in tcprobe("diff", "sm_75", "sm_80", "nonsense", code=2).stderr


@pytest.mark.full
def test_diff_of_two_folders(tmp_path):
    shutil.copytree(published().root, tmp_path / "r")
    assert all(
        d["changed"] == [] and not any(a["elsewhere"] for a in d["absent"])
        for d in diff(published().root, tmp_path / "r")
    )
    shutil.rmtree(tmp_path / "r" / "sm_90")
    (found,) = diff(published().root, tmp_path / "r", "wmma.*", "--arch", "sm_90")
    assert (found["first"]["source"], found["second"]["source"]) == ("published", str(tmp_path / "r"))
    assert {a["reason"] for a in found["absent"] if a["id"] == "wmma.m16n16k16.a.row.f16"} == {
        f"not measured on sm_90 in {tmp_path / 'r'} (nor documented)"
    }
    assert "neither" in tcprobe("diff", tmp_path, tmp_path, code=2).stderr


def test_a_refusal_and_a_failure_are_reasons(tmp_path):
    saved = published().measurement("sm_80", "sass", "wmma.m16n16k16.accumulator.f32")
    for status in ("refused", "failed"):
        Results(tmp_path).write(
            replace(saved, method="live", status=status, tables={}, numbering=None, words="no luck")
        )
        (found,) = diff(published().root, tmp_path, "wmma.m16n16k16.d.f32", "--arch", "sm_80")
        (cell,) = found["absent"]
        assert (cell["side"], cell["reason"]) == ("second", f"{status}: no luck (live, from {tmp_path})")


def test_tables_of_two_sizes_are_not_set_side_by_side():
    one = published().table("sm_80", "sass", inventory.fragments()["wmma.m16n16k16.d.f32"])
    found = Changed("x", (one, slot_table(32, 2, {"row": (0,) * 64, "col": (1,) * 64})), ("published", "r"))
    assert "8 elements per lane -> 2" in found.lines()
    assert (found.to_json()["differing"], found.to_json()["first_slots"]) == (None, [])


@needs_tools
@pytest.mark.full
def test_diff_of_two_compilers(tmp_path):
    tools = toolchain.find()
    for program in (tools.ptxas, tools.nvdisasm):
        (tmp_path / program.rsplit("/", 1)[-1]).symlink_to(program)
    done = tcprobe("diff", "--cuda", tmp_path, "--cuda", tmp_path, "--arch", "sm_75")
    assert f"sm_75 of {tmp_path} to sm_75 of {tmp_path}: 153 same, 0 changed; absent: 0 on" in done.stdout


def test_doctor_says_what_is_there_and_what_to_do():
    text = tcprobe("doctor").stdout
    assert "ok  Python" in text
    assert "CuPy" in text
    if not MISSING:
        assert f"ok  ptxas: {toolchain.find().ptxas_version}" in text
        assert "archs from machine code: sm_70" in text


def test_set_up_says_what_cannot_be_run(tmp_path):
    """A copy of the project with an environment that is none."""
    root = Path(__file__).parent.parent
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools" / "dev.py", tmp_path / "tools")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").write_text("no program")
    for job in ("demo", "test"):
        command = [sys.executable, str(tmp_path / "tools" / "dev.py"), job]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"cannot be run: Permission denied. Remove {tmp_path / '.venv'}" in done.stderr
        assert "Traceback" not in done.stderr


def test_doctor_says_what_a_gpu_would_add():
    """By what is published: of sm_90 what was added since, all tables of sm_100, those of tensor memory among them."""
    added = {id_ for id_ in experiments() if id_ not in PINNED}
    assert new_words(arch("sm_90")).startswith("nothing: every table of sm_90" if not added else f"{len(added)} tables")
    assert "tcgen05 84" in new_words(arch("sm_100"))
    assert "tcgen05" not in new_words(arch("sm_120"))
