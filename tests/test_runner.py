"""Runs on the emulated worker: what goes wrong costs one experiment, nothing is torn, the rest goes on."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcprobe.errors import EnvironmentUnfitError, NewerSchemaError, StarvedError, UsageError
from tcprobe.run import runner
from tcprobe.run.backend import Device, Worker
from tcprobe.run.campaign import select
from tcprobe.store.results import Results

HERE = Path(__file__).parent
FEW = ("wmma.m8n8k4.*", "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64", "mma.m16n8k8.row.col.f32.*", "mma.m8n8k16.*")


def worker(*arguments, limit=120.0):
    return Worker((sys.executable, str(HERE / "emulated_worker.py"), *arguments), limit)


def run(root, spec, patterns=FEW, force=False):
    """All measurements by experiment, as `tcprobe run` would make them."""
    results = Results(root)
    with runner.Session(spec) as session:
        device = runner.choose(session.devices)
        todo = select(patterns)
        todo = todo if force else runner.missing(todo, device, results)[0]
        items = list(runner.measure(session, device, todo, results))
    return {m.experiment: m for m in items if not isinstance(m, runner.JobEnd)}


def test_a_run_measures_everything_and_saves_it(tmp_path):
    found = run(tmp_path, worker("fine"))
    assert {m.status for m in found.values()} == {"measured"}
    assert set(found) == {e.id for e in select(FEW)}
    saved = Results(tmp_path)
    assert {e: saved.measurement("sm_90", "emulated", e) for e in found} == found
    assert run(tmp_path, worker("fine")) == {}  # nothing is missing
    assert run(tmp_path, worker("fine"), force=True) == found


@pytest.mark.full
def test_two_runs_write_the_same_bytes(tmp_path):
    for name in ("x", "y"):
        run(tmp_path / name, worker("fine"))
    trees = [{p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*.json")} for n in "xy"]
    assert trees[0] == trees[1]


CULPRIT = "mma.m16n8k8.row.col.f32.bf16.bf16.f32"


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "limit", "words"),
    [
        ("die", 120, "ended by signal 11"),
        ("hang", 8, "no answer for 8 s"),
        ("fault", 120, "illegal memory access"),
        ("load-die", 120, "ended by signal 11"),
    ],
)
def test_a_launch_that_goes_wrong_costs_itself_only(tmp_path, mode, limit, words):
    found = run(tmp_path, worker(mode, CULPRIT, limit=limit))
    failed = {e for e, m in found.items() if m.status != "measured"}
    assert failed == {CULPRIT}
    assert found[CULPRIT].status == "failed"
    assert words in found[CULPRIT].words
    assert set(found) == {e.id for e in select(FEW)}
    again = run(tmp_path, worker("fine"))  # a failure is tried again
    assert {e: m.status for e, m in again.items()} == {CULPRIT: "measured"}


@pytest.mark.full
@pytest.mark.parametrize("mode", ["killed", "starved"])
def test_want_of_memory_is_no_fault_of_a_launch(tmp_path, mode):
    with pytest.raises(StarvedError, match="no more memory"):
        run(tmp_path, worker(mode, CULPRIT))
    assert {m.status for m in Results(tmp_path).measurements("sm_90", "emulated")} <= {"measured"}
    assert CULPRIT in run(tmp_path, worker("fine"))


def test_refusals_are_recorded_in_the_backends_words(tmp_path):
    found = run(tmp_path, worker("fine"), ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",))
    (only,) = found.values()
    assert (only.status, only.words) == ("refused", "not on sm_90")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(6)
def test_killing_the_tool_leaves_whole_files_only(tmp_path, seed):
    """kill -9 at any moment: what is there is whole, and the next run adds what is missing."""
    script = (
        "import sys; sys.path[:0] = [sys.argv[1]]; from pathlib import Path; import test_runner as t\n"
        "t.run(Path(sys.argv[2]), t.worker('slow'), ('wmma.m8n8k4.*', 'wmma.m16n16k8.*', 'mma.m8n8k16.*'))"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(HERE), str(tmp_path)])
    folder = tmp_path / "sm_90" / "emulated"
    rng = random.Random(seed)
    while process.poll() is None and not folder.is_dir():
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.25))
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved = Results(tmp_path)
    whole = [m.experiment for m in saved.measurements("sm_90", "emulated")]  # reads and checks every file
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text())
    patterns = ("wmma.m8n8k4.*", "wmma.m16n16k8.*", "mma.m8n8k16.*")
    added = run(tmp_path, worker("fine"), patterns)
    assert set(whole) | set(added) == {e.id for e in select(patterns)}
    assert not set(whole) & set(added)


@pytest.mark.full
def test_the_worker_ends_with_the_tool(tmp_path):
    session = runner.Session(worker("hang", CULPRIT))
    device = runner.choose(session.devices)
    messages = session.work(
        {"device": device.index, "kind": "table", "experiments": [CULPRIT], "folder": None, "careful": True}
    )
    assert next(messages)[0]["event"] == "compiled"
    assert next(messages)[0]["event"] == "begin"
    session._process.stdin.close()  # what the kernel does when the tool is killed
    assert session._process.wait(timeout=60) == 1


@pytest.mark.full
def test_damaged_files_are_measured_again_newer_ones_are_not_touched(tmp_path):
    found = run(tmp_path, worker("fine"))
    results = Results(tmp_path)
    path = results.path("sm_90", "emulated", CULPRIT)
    whole = path.read_text()
    path.write_text(whole[:100])
    device = Device(0, "emulated tensor core", "sm_90", "none", "none", "none", "emulated")
    todo, complaints = runner.missing(select(FEW), device, Results(tmp_path))
    assert [e.id for e in todo] == [CULPRIT]
    assert str(path) in complaints[0]
    assert run(tmp_path, worker("fine")) == {CULPRIT: found[CULPRIT]}
    path.write_text(whole.replace('"schema": 1', '"schema": 9'))
    with pytest.raises(NewerSchemaError):
        run(tmp_path, worker("fine"))


@pytest.mark.full
def test_a_changed_probe_is_measured_again(tmp_path, monkeypatch):
    run(tmp_path, worker("fine"))
    monkeypatch.setattr(runner, "ptx_hash", lambda kernels: "another")
    device = Device(0, "emulated tensor core", "sm_90", "none", "none", "none", "emulated")
    todo, _ = runner.missing(select(FEW), device, Results(tmp_path))
    assert todo == select(FEW)


DEVICES = [Device(0, "NVIDIA A100", "sm_80", "580", "13.0", "c"), Device(1, "NVIDIA H200", "sm_90", "580", "13.0", "c")]


def test_choosing_a_device():
    assert runner.choose(DEVICES).index == 0
    assert runner.choose(DEVICES, "sm_90").index == 1
    assert runner.choose(DEVICES, index=1).arch == "sm_90"
    for name, index in (("sm_75", None), ("sm_80", 1), (None, 7)):
        with pytest.raises(UsageError, match=r"0: NVIDIA A100 \(sm_80\), 1: NVIDIA H200"):
            runner.choose(DEVICES, name, index)
    with pytest.raises(UsageError, match="no tensor cores"):
        runner.choose([Device(0, "GTX 1080", "sm_61", "580", "12.0", "c")])


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("raise SystemExit(3)", runner.WorkerLostError, "ended with code 3"),
        (
            "from tcprobe.run.worker import main; from tcprobe.errors import EnvironmentUnfitError\n"
            "def no(): raise EnvironmentUnfitError('no driver here')\nmain(no)",
            EnvironmentUnfitError,
            "no driver here",
        ),
    ],
)
def test_a_worker_that_cannot_start(code, error, words):
    with pytest.raises(error, match=words), runner.Session(Worker((sys.executable, "-c", code))) as session:
        _ = session.devices


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_without_cupy_or_gpu_the_message_says_what_to_do(tmp_path):
    """On a machine without CuPy or GPU; with both, the same command works."""
    from conftest import gpu_missing

    if not gpu_missing():
        pytest.skip("there is a GPU here")
    command = [sys.executable, "-m", "tcprobe", "run", "--method", "live", "--results", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "pip install" in done.stderr
    assert not (tmp_path / "r").exists()
