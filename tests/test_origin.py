"""What is up to date, what may stand on what, and what never takes the place of a table."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_runner import CULPRIT, run, worker

from tcprobe.cli import main
from tcprobe.errors import DataError, InternalError, NewerSchemaError, UsageError
from tcprobe.probes import experiments
from tcprobe.probes.experiment import kernels, ptx_hash
from tcprobe.run import runner
from tcprobe.run.backend import Device, Worker
from tcprobe.run.runner import provenance, same, saved_tables, up_to_date
from tcprobe.store.results import Results

H200 = Device(0, "NVIDIA H200", "sm_90", "580.1", "13.0", "driver's PTX compiler, CUDA 13.0", "emulated")
OTHERS = {
    "name": "NVIDIA H100",
    "driver": "590.1",
    "cuda": "13.1",
    "compiler": "another compiler",
    "method": "live",
}
WMMA = "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64"


def files(root):
    """Every file's bytes by name."""
    return {str(p.relative_to(root)): p.read_bytes() for p in Path(root).rglob("*") if p.is_file()}


@pytest.mark.full
def test_up_to_date_is_the_same_probe_method_and_maker(tmp_path):
    found = run(tmp_path, worker("fine"))[CULPRIT]
    experiment = experiments()[CULPRIT]
    found = replace(found, provenance=provenance(H200, ptx_hash(kernels(experiment))))
    assert same(found, H200)
    assert up_to_date(experiment, found, H200)
    assert not up_to_date(experiment, None, H200)
    for name, value in OTHERS.items():
        assert not up_to_date(experiment, found, replace(H200, **{name: value})), name
    assert up_to_date(experiment, found, replace(H200, index=3))
    for change in ({"ptx": "of another probe"}, {"tcprobe": "9.9"}):
        changed = replace(found, provenance={**found.provenance, **change})
        assert up_to_date(experiment, changed, H200) == ("tcprobe" in change)
    assert not up_to_date(experiment, replace(found, status="failed"), H200)


@pytest.mark.full
def test_another_compiler_measures_all_anew(tmp_path):
    first = run(tmp_path, worker("fine", "", "A"))
    assert run(tmp_path, worker("fine", "", "A")) == {}
    second = run(tmp_path, worker("fine", "", "B"))
    assert set(first) == set(second)
    saved = Results(tmp_path)
    assert {m.provenance["compiler"] for m in saved.measurements("sm_90", "emulated")} == {"B"}


@pytest.mark.full
def test_conclusions_do_not_rest_on_another_compiler_s_tables(tmp_path):
    run(tmp_path, worker("fine", "", "A"))
    found = run(tmp_path, worker("refuse", "wmma.load.a", "B"), (WMMA,))
    assert found["wmma.m8n8k4.a.row.f64"].status == "refused"
    assert found[WMMA].status == "failed"
    assert "wmma.m8n8k4.a.row.f64" in found[WMMA].words
    device = replace(H200, name="emulated tensor core", driver="none", cuda="none", compiler="B")
    table = saved_tables(Results(tmp_path), device)
    fragments = {f.operand: f for f in experiments()[WMMA].fragments}
    assert table(fragments["a"]) is None
    assert table(fragments["b"]) is not None


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("die", "failed", "ended by signal 11"),
        ("fault", "failed", "illegal memory access"),
        ("bug", "failed", "internal error, please report it: ZeroDivisionError"),
        ("load-die", "failed", "ended by signal 11"),
        ("refuse", "failed", "refused, though this compiler took it before: no such form"),
    ],
)
def test_what_goes_wrong_stands_beside_a_table_never_over_it(tmp_path, mode, status, words):
    run(tmp_path, worker("fine"))
    before = files(tmp_path)
    found = run(tmp_path, worker(mode, CULPRIT), force=True)
    assert found[CULPRIT].status == status
    assert words in found[CULPRIT].words
    beside = Results(tmp_path).refusal_path("sm_90", "emulated", CULPRIT)
    after = files(tmp_path)
    assert words.encode() in after.pop(str(beside.relative_to(tmp_path)))
    assert after == before
    assert CULPRIT in Results(tmp_path).experiments("sm_90", "emulated")  # once, as measured
    assert Results(tmp_path).measurement("sm_90", "emulated", CULPRIT).status == "measured"
    run(tmp_path, worker("fine"), force=True)
    assert files(tmp_path) == before


@pytest.mark.full
def test_another_compiler_s_refusal_leaves_the_table_and_is_no_failure(tmp_path, monkeypatch):
    run(tmp_path, worker("fine", "", "A"))
    before = files(tmp_path)
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", worker("refuse", CULPRIT, "B").command)
    done = CliRunner().invoke(main, ["run", CULPRIT, "--results", str(tmp_path)])
    beside = Results(tmp_path).refusal_path("sm_90", "emulated", CULPRIT)
    assert done.exit_code == 0, done.output
    assert f"1 tables measured before are kept; the new outcome is recorded beside them: {beside}" in done.stderr
    assert {k: v for k, v in files(tmp_path).items() if not k.endswith(".failed")} == before


@pytest.mark.full
def test_a_failure_over_nothing_good_is_saved_in_its_place(tmp_path):
    assert run(tmp_path, worker("fault", CULPRIT))[CULPRIT].status == "failed"
    assert Results(tmp_path).measurement("sm_90", "emulated", CULPRIT).status == "failed"
    path = Results(tmp_path).path("sm_90", "emulated", CULPRIT)
    path.write_text("damaged")
    run(tmp_path, worker("fault", CULPRIT))
    assert Results(tmp_path).measurement("sm_90", "emulated", CULPRIT).status == "failed"
    assert not list(tmp_path.rglob("*.failed"))


@pytest.mark.full
def test_force_does_not_write_over_a_later_version_s_file(tmp_path, monkeypatch):
    run(tmp_path, worker("fine"))
    path = Results(tmp_path).path("sm_90", "emulated", CULPRIT)
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 9'))
    before = files(tmp_path)
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", worker("fine").command)
    done = CliRunner().invoke(main, ["run", CULPRIT, "--force", "--results", str(tmp_path)])
    assert done.exit_code == NewerSchemaError.exit_code
    assert files(tmp_path) == before


@pytest.mark.full
@pytest.mark.parametrize(("mode", "error"), [("data", DataError), ("usage", UsageError), ("load-bug", InternalError)])
def test_errors_of_the_worker_keep_their_class(tmp_path, mode, error, monkeypatch):
    with pytest.raises(error, match=r"this is so|ZeroDivisionError: nobody expects this"):
        run(tmp_path, worker(mode, CULPRIT))
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", worker(mode, CULPRIT).command)
    done = CliRunner().invoke(main, ["run", CULPRIT, "--method", "live", "--results", str(tmp_path)])
    assert done.exit_code == error.exit_code
    assert not Results(tmp_path).path("sm_90", "emulated", CULPRIT).exists()


def test_a_worker_that_says_nothing_of_ours_is_lost():
    garbage = Worker((sys.executable, "-c", "print('x' * 5 + '{' * 99)"))
    with pytest.raises(runner.WorkerLostError), runner.Session(garbage) as session:
        _ = session.devices


def test_a_worker_ends_where_nobody_gives_it_a_job():
    session = runner.Session(worker("fine"))
    assert session.devices
    session._process.stdin.close()
    assert session._process.wait(timeout=60) == 1
