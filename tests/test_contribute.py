"""`contribute`, on emulated GPUs: what is asked first, what the file says, what goes on after a stop."""

import gzip
import json
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import fleet_gpu
import jsonschema
import pytest
from click.testing import CliRunner
from json_samples import SCHEMA

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.run import contribute as contributing
from tcprobe.run import merge
from tcprobe.run.backend import Device
from tcprobe.run.runner import kind_of
from tcprobe.store import findings
from tcprobe.store.results import Results, published

HERE = Path(__file__).parent


@pytest.fixture
def few(monkeypatch):
    """A contribution of a few tables, by an emulated GPU of an arch; gives its JSON."""

    def contribute(folder, arch, number, *words):
        fleet_gpu.shows(monkeypatch, arch, fleet_gpu.FORMS[:number])
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(main, ["contribute", "--json", *words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return contribute


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_120"])
def test_a_contribution_goes_on_where_it_was_stopped_and_merges(arch, few, tmp_path):
    first, second = few(tmp_path, arch, 1), few(tmp_path, arch, 3, "-o", "second.json.gz")
    for made in (first, second):
        jsonschema.validate(made, json.loads(SCHEMA.read_text())["$defs"]["contribute"])
        assert made["measured"] == made["agrees"] + made["contradicts"] + made["new"]
    assert (first["measured"], second["measured"], second["left"], second["file"]) == (1, 3, 0, "second.json.gz")
    path = tmp_path / "second.json.gz"
    assert str(tmp_path) not in gzip.decompress(path.read_bytes()).decode()
    done = CliRunner().invoke(main, ["merge", str(path), "--check", "--results", str(tmp_path / "none"), "--json"])
    assert (done.exit_code, len(json.loads(done.stdout)["conflicts"]) > 0) == (
        (1, True) if second["contradicts"] else (0, False)
    )
    done = CliRunner().invoke(main, ["merge", str(path), "--results", str(tmp_path / "theirs"), "--json"])
    assert sum(json.loads(done.stdout)["added"].values()) == second["measured"]


@pytest.mark.full
def test_a_whole_contribution_ends_in_its_time_and_below_a_megabyte(tmp_path):
    """Of an emulated sm_75, with all that it can show; what the minute does not suffice for is counted."""
    command = [sys.executable, HERE / "fleet_gpu.py", "program", "sm_75", "contribute", "--json", "--minutes", "1"]
    done = subprocess.run([str(word) for word in command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["measured"] > 10
    assert (tmp_path / made["file"]).stat().st_size < contributing.MOST_FILE


@pytest.mark.parametrize("name", ["sm_75", "sm_90", "sm_100", "sm_120"])
def test_what_nobody_measured_is_asked_first(name):
    batches = contributing.batches(Device(0, "a GPU", name, "1", "1", "1"))
    seen = {(f.key.kind, f.key.subject) for f in merge.measured_findings(published(), (name,)) if f.method == "live"}
    known = [[(kind_of(probe), probe.id) in seen for probe in batch] for batch in batches]
    assert all(len(set(batch)) == 1 for batch in known)
    assert [batch[0] for batch in known] == sorted(batch[0] for batch in known)
    assert all(len({kind_of(probe) for probe in batch}) == 1 for batch in batches)
    assert {True for batch in known if batch[0]} == ({True} if name == "sm_90" else set())


def test_without_a_gpu_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["contribute"])
    assert done.exit_code == 3, done.output
    assert not list(tmp_path.iterdir())


def some():
    return list(findings.every(published(), "descriptors", "sm_90"))[:3]


def test_check_writes_nothing_and_says_what_is_known_new_and_wrong(tmp_path):
    merge.write_report(tmp_path / "r", some())
    for command, code in ((["merge", str(tmp_path / "r")], 0), (["merge", "results"], 0)):
        done = CliRunner().invoke(main, [*command, "--check", "--results", str(tmp_path / "none"), "--json"])
        assert (done.exit_code, json.loads(done.stdout)["added"]) == (code, {})
    assert not (tmp_path / "none").exists()
    raw = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(raw[:-1])
    done = CliRunner().invoke(main, ["merge", str(tmp_path / "r"), "--check"])
    assert done.exit_code == 4, done.output


def test_a_report_that_unpacks_to_too_much_is_refused(tmp_path):
    """A small file of many zeros; two streams in one; a stream that goes on."""
    path, deflated = tmp_path / "r", zlib.compressobj(9, wbits=31)
    bomb = deflated.compress(bytes(merge.MOST_BYTES + 1)) + deflated.flush()
    whole = merge.packed(merge.report_text(some()))
    for raw in (merge.GZIP + bomb[10:], whole + whole, whole + b"0", whole[:-9]):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"damaged|MiB|not"):
            merge.merge([path], Results(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


def test_what_is_published_itself_agrees_whatever_it_is_of(tmp_path):
    """A multiply of wmma has no fragment of its own; a table, an arithmetic, a cost."""
    multiply = published().measurement("sm_90", "live", "wmma.mma.row.col.m16n16k16.f32.f32")
    known = [multiply, *some(), *list(findings.every(published(), "numerics", "sm_90"))[:1]]
    merge.write_report(tmp_path / "r", known)
    made = contributing._compared(tmp_path / "r", [], Counter(left=2))
    assert made[2:9] == (len(known), len(known), 0, 0, 0, 0, 2)
