"""lower, diff and doctor."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcprobe import inventory
from tcprobe.arch import arch
from tcprobe.cli import main
from tcprobe.diff import difference
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.results import Results, published
from tcprobe.sass import toolchain
from tcprobe.sass.lowering import Lowering, count

try:
    toolchain.find()
    MISSING = ""
except EnvironmentUnfitError as error:
    MISSING = str(error)
needs_tools = pytest.mark.skipif(bool(MISSING), reason=f"no ptxas or nvdisasm for this platform: {MISSING}")


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


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
    """ptxas refuses exactly what the PTX ISA does not allow; forms of special targets are left to it."""
    for name in published().archs():
        found = published().lowering(name)["instructions"]
        assert set(found) == set(inventory.instructions())
        for id_, data in found.items():
            target = inventory.instructions()[id_].target
            if target.name[-1].isdigit():
                assert bool(data["refused"]) == (target.on(arch(name)) is None), (name, id_)


def test_counting():
    found = count(["LDG.E", "HMMA.16816.F32", "HMMA.16816.F32", "EXIT", "BRA", "NOP", "STG.E"])
    assert (dict(found.opcodes), found.others) == ({"HMMA.16816.F32": 2}, 2)


@needs_tools
def test_lower_prints_and_saves(tmp_path):
    text = tcprobe("lower", "mma.m16n8k16.f32.f16.f16.f32", "--arch", "sm_80", "--save", tmp_path).stdout
    assert text == "sm_80   mma.m16n8k16.row.col.f32.f16.f16.f32: HMMA.16816.F32\n"
    assert Results(tmp_path).lowering("sm_80")["instructions"]["mma.m16n8k16.row.col.f32.f16.f16.f32"]["others"] > 0
    data = json.loads(tcprobe("lower", "mma.m16n8k8.f32.bf16.bf16.f32", "--arch", "sm_75", "--json").stdout)
    assert "requires .target sm_80" in data["refused"]
    assert "no fragment or instruction" in tcprobe("lower", "nonsense", code=2).stderr


def test_diff_of_two_archs():
    done = tcprobe("diff", "sm_75", "sm_80", "--results", published().root, code=1)
    assert "74 same, 2 changed, 16 only in the first, 56 only in the second" in done.stdout
    assert "row: (lane & 28) >> 2  ->  (i & 1) + ((lane & 3) << 1)" in done.stdout
    assert "132 same, 0 changed" in tcprobe("diff", "sm_80", "sm_86", "--results", published().root).stdout
    assert "not measured" in tcprobe("diff", "sm_80", "sm_86", "--results", published().root / "layouts", code=2).stderr
    assert "give two archs" in tcprobe("diff", "sm_80", code=2).stderr


def test_diff_of_two_folders(tmp_path):
    shutil.copytree(published().root, tmp_path / "r")
    assert "0 changed, 0 only" in tcprobe("diff", published().root, tmp_path / "r").stdout
    shutil.rmtree(tmp_path / "r" / "sm_90")
    done = tcprobe("diff", published().root, tmp_path / "r", code=1)
    assert "only in the first" in done.stdout


def test_difference_names_formulas_and_slots():
    results = published()
    one, two = (results.layout(x) for x in list(results.layouts())[:2])
    found = difference({"x": one, "y": one}, {"x": two, "z": two})
    assert (found.same, found.only_left, found.only_right) == ([], ["y"], ["z"])
    assert found.changed["x"]
    assert not found.none


@needs_tools
def test_diff_of_two_compilers(tmp_path):
    tools = toolchain.find()
    for program in (tools.ptxas, tools.nvdisasm):
        (tmp_path / program.rsplit("/", 1)[-1]).symlink_to(program)
    done = tcprobe("diff", "--cuda", tmp_path, "--cuda", tmp_path, "--arch", "sm_75")
    assert "sm_75: 92 same, 0 changed" in done.stdout


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
