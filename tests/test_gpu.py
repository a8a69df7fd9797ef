"""On a live GPU: everything is measured or refused, twice the same, as others document it, and faults stay alone."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tcprobe import inventory, runner
from tcprobe.arch import arch
from tcprobe.backends.process import Worker
from tcprobe.compare import verdicts
from tcprobe.results import Results, published

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent


def run(root, worker=Worker(), patterns=()):  # noqa: B008
    results = Results(root)
    with runner.Session(worker) as session:
        device = runner.choose(session.devices)
        items = list(runner.measure(session, device, runner.select(patterns), results))
    return device, {m.experiment: m for m in items if not isinstance(m, runner.Done)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    device, found = run(root)
    return root, device, found


def test_everything_is_measured_or_refused_for_a_reason(whole):
    _, device, found = whole
    assert set(found) == {e.id for e in runner.select(())}
    assert Counter(m.status for m in found.values())["failed"] == 0
    here = arch(device.arch)
    for m in found.values():
        allowed = all(f.target.on(here) for e in runner.select(()) if e.id == m.experiment for f in e.fragments)
        assert (m.status == "measured") == allowed, (m.experiment, m.words)
        assert m.status == "measured" or "not supported" in m.words


def test_two_runs_write_the_same_bytes(whole, tmp_path):
    root, _, _ = whole
    run(tmp_path)
    trees = [{p.relative_to(r): p.read_bytes() for p in r.rglob("*.json")} for r in (root, tmp_path)]
    assert trees[0] == trees[1]


def test_the_references_are_confirmed(whole):
    _, device, found = whole
    for fragment in inventory.select(device=arch(device.arch)):
        for verdict in verdicts(fragment, found[fragment.experiment]):
            assert not verdict.unexplained, (fragment.id, verdict)
            if fragment.family == "mma" and verdict.reference == "PTX ISA":
                assert verdict.verdict == "confirmed" or verdict.erratum
    mma = [m for m in found.values() if m.status == "measured" and m.experiment.startswith("mma")]
    assert {m.numbering for m in mma} == {"PTX ISA"}


def test_the_published_tables_are_these(whole):
    _, device, found = whole
    for m in published().measurements(device.arch, "live"):
        now = found[m.experiment]
        assert (m.status, m.tables, m.structure, m.unread) == (now.status, now.tables, now.structure, now.unread)


FEW = ("mma.m16n8k8.row.col.f32.*", "wmma.m8n8k4.*")
CULPRIT = "mma.m16n8k8.row.col.f32.bf16.bf16.f32"


@pytest.mark.parametrize(
    ("mode", "limit", "words"), [("trap", 30, ""), ("wild", 30, ""), ("loop", 5, "no word for 5 s")]
)
def test_a_fault_costs_its_own_experiment_only(tmp_path, mode, limit, words):
    worker = Worker((sys.executable, str(HERE / "faulty_gpu_worker.py"), mode, CULPRIT), limit)
    _, found = run(tmp_path, worker, FEW)
    assert {e for e, m in found.items() if m.status != "measured"} == {CULPRIT}
    assert found[CULPRIT].status == "failed"
    assert words in found[CULPRIT].words
    assert found[CULPRIT].words


@pytest.mark.parametrize(("mode", "words"), [("bad", "such"), ("future", "needs PTX 99.9")])
def test_what_the_driver_rejects_is_refused_in_its_words(tmp_path, mode, words):
    """An instruction and a PTX version that no driver knows: refused alone, the rest measured."""
    worker = Worker((sys.executable, str(HERE / "faulty_gpu_worker.py"), mode, CULPRIT))
    _, found = run(tmp_path, worker, FEW)
    assert {e for e, m in found.items() if m.status != "measured"} == {CULPRIT}
    assert found[CULPRIT].status == "refused"
    assert words in found[CULPRIT].words


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "tcprobe", "run", "mma.m16n8k8.*", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout
    missing = "sm_70" if published().archs() != ["sm_70"] else "sm_75"
    refused = subprocess.run([*command, "--arch", missing], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert f"no visible GPU of arch {missing}; there are: 0:" in refused.stderr
