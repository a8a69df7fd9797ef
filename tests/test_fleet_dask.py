"""`tcprobe run --scheduler`, on a Dask scheduler and workers on this machine, each with an emulated GPU."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import tcprobe
from machine_code import TOOLS
from test_merge import tree

from tcprobe.store.results import Results

HERE = Path(__file__).parent
MACHINE = (sys.executable, str(HERE / "fleet_machine.py"))
FORMS = ("mma.m16n8k16.row.col.f32.f16.f16.f32", "wmma.m16n16k16.a.row.f16")
pytestmark = [
    pytest.mark.consumer("distributed"),
    pytest.mark.skipif(os.name != "posix", reason="starts processes as POSIX does"),
]


@contextlib.contextmanager
def fleet(*workers):
    """A scheduler's address, and by mode those of workers, (arch, mode) each."""
    with contextlib.ExitStack() as stack:

        def started(*words):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = stack.enter_context(subprocess.Popen([*MACHINE, *words], text=True, **pipes))
            stack.callback(process.kill)
            return process.stdout

        address = started("scheduler").readline().strip()
        said = {mode: started(address, arch, mode) for arch, mode in workers}
        yield address, {mode: out.readline().strip() for mode, out in said.items()}


def single(folder, arch, *words):
    """The report of a single run where there is an emulated GPU."""
    places = ["--results", folder / arch, "--report", folder / f"{arch}.report"]
    command = [sys.executable, HERE / "fleet_gpu.py", "program", arch, "run", *words, *places]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return folder / f"{arch}.report"


def test_gpus_of_four_archs_of_which_one_dies_one_is_slow_and_one_lies(tmp_path):
    """Byte for byte what single runs of the same GPUs give, merged; what only the dead or lying one has is given up."""
    workers = [("sm_80", "slow"), ("sm_89", "lying"), ("sm_90", "fine"), ("sm_120", "dying")]
    with fleet(*workers) as (address, at):
        words = ["run", *FORMS, "--scheduler", address, "--method", "live", "--results", tmp_path / "ours"]
        done = tcprobe(*words, "--limit", "6", "--json", code=1)
    by_arch = {one["arch"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert {name: one["machine"] for name, one in by_arch.items()} == {
        "sm_80": at["slow"],
        "sm_89": None,
        "sm_90": at["fine"],
        "sm_120": None,
    }
    assert by_arch["sm_120"]["complaints"][-1] == "given up: no machine is left that could do it"
    assert f"{at['lying']}: " in done.stderr
    assert "jobs" in done.stderr
    reports = [single(tmp_path / "single", arch, *FORMS, "--method", "live") for arch in ("sm_80", "sm_90")]
    tcprobe("merge", *reports, "--results", tmp_path / "merged")
    assert tree(tmp_path / "ours") == tree(tmp_path / "merged")
    assert {run.archs()[0] for run in Results(tmp_path / "ours").runs()} == {"sm_80", "sm_90"}


@pytest.mark.skipif(not TOOLS, reason="no ptxas or nvdisasm for this platform")
def test_compilers_times_archs_survive_a_machine_that_dies(tmp_path):
    """By machines of which one dies with its first run; byte for byte what single runs give, also when continued."""
    words = ("wmma.m8n8k4.*", "--method", "sass")
    with fleet(("sm_80", "dying"), ("sm_80", "fine")) as (address, at):
        common = ["run", *words, "--arch", "sm_80", "--results", tmp_path / "ours"]
        done = tcprobe(*common, "--scheduler", address, "--json")
        again = tcprobe(*common, "--scheduler", address, "--json")
    (one,) = map(json.loads, done.stdout.splitlines())
    assert one["machine"] == at["fine"]
    assert len(one["experiments"]) >= 5
    (continued,) = map(json.loads, again.stdout.splitlines())
    assert (continued["experiments"], continued["kept"]) == ([], len(one["experiments"]))
    tcprobe("run", *words, "--arch", "sm_80", "--results", tmp_path / "one", "--report", tmp_path / "r")
    tcprobe("merge", tmp_path / "r", "--results", tmp_path / "merged")
    assert tree(tmp_path / "ours") == tree(tmp_path / "merged")


def test_no_scheduler_there():
    done = tcprobe("run", "--scheduler", "tcp://127.0.0.1:9", "--limit", "1", code=3)
    assert "tcp://127.0.0.1:9" in done.stderr
