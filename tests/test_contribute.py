"""`contribute`, on emulated GPUs: what is asked first, what the file says, what goes on after a stop."""

import dataclasses
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

import first_minute
import fleet_gpu
import jsonschema
import pytest
from click.testing import CliRunner
from json_samples import SCHEMA
from test_merge import MMA, WMMA, measured

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.probes import dialogues, experiments
from tcprobe.run import contribute as contributing
from tcprobe.run import merge, runner
from tcprobe.run.backend import Device, Worker
from tcprobe.run.runner import kind_of
from tcprobe.store import documents, findings
from tcprobe.store.results import Results, published

HERE = Path(__file__).parent
ROOT = HERE.parent


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
@pytest.mark.sampled(5)
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
@pytest.mark.sampled(4)
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


# the least of what an emulated GPU of each arch can show, some of it documented only
SHOWN = ("wmma.m16n16k16.a.row.f16", "ldmatrix.m8n8.x1.shared.b16")
OWN = {"sm_10": ["tcgen05.ld.32x32b"], "sm_11": ["tcgen05.st.32x32b"], "sm_12": ["ldmatrix.m16n16.x1.trans.shared.b8"]}


@pytest.fixture
def emulated(monkeypatch, tmp_path):
    """A contribution in `tmp_path` by emulated GPUs of archs, as documented; gives the JSON."""

    def contribute(names, *words):
        def batches(device):
            return [[experiments()[id_] for id_ in (*SHOWN, *OWN.get(device.arch[:5], []))]]

        fleet_gpu.shows(monkeypatch, names)
        monkeypatch.setattr(contributing, "batches", batches)
        monkeypatch.setattr("tcprobe.run.backend.COMMAND", first_minute.worker_command(names, {}))
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(main, ["contribute", "--json", *words])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return contribute


def request_check(theirs, ours):
    """(exit code, comment) of what runs for a pull request."""
    command = [sys.executable, ROOT / "tools" / "contribution.py", theirs, ours]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", ["sm_120", "sm_100", "sm_75", "sm_86", "sm_89", "sm_103", "sm_110", "sm_121"])
@pytest.mark.sampled(8)
def test_from_an_empty_folder_to_a_green_check(name, emulated, tmp_path):
    made = emulated(name)
    wanted = len(SHOWN) + len(OWN.get(name[:5], []))
    assert {key: made[key] for key in ("measured", "agrees", "contradicts", "new", "refused")} == {
        "measured": wanted,
        "agrees": len(SHOWN),
        "contradicts": 0,
        "new": wanted - len(SHOWN),
        "refused": 0,
    }
    raw = (tmp_path / made["file"]).read_bytes()
    told = gzip.decompress(raw).decode()
    assert len(raw) < contributing.MOST_FILE
    assert not [word for word in (str(tmp_path), socket.gethostname(), str(Path.home()), sys.prefix) if word in told]
    done = CliRunner().invoke(main, ["merge", made["file"], "--check", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["agrees"]) == (0, len(SHOWN))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    assert (
        CliRunner().invoke(main, ["merge", made["file"], "--contributor", "a", "--results", str(theirs)]).exit_code == 0
    )
    assert {path.relative_to(theirs).parts[0] for path in theirs.rglob("*.json")} == {"runs", "layouts"}
    code, comment = request_check(theirs, ours)
    assert (code, comment.splitlines()[0]) == (0, "What this adds fits what is published.")


@pytest.mark.full
def test_all_kinds_of_gpus_of_a_machine_are_in_one_file(emulated, tmp_path):
    made = emulated("sm_75,sm_89,sm_75")
    assert (made["devices"], made["measured"]) == (["emulated sm_75", "emulated sm_89"], 2 * len(SHOWN))
    devices = {f.provenance["device"] for f in merge.accept(tmp_path / made["file"], None).findings}
    assert devices == set(made["devices"])


@pytest.mark.full
def test_a_request_that_lies_is_red_and_one_that_contradicts_gets_a_comment(tmp_path):
    """A file that is edited; one that says something else; one that was published, changed."""
    ours, table = tmp_path / "ours", measured(MMA, "NVIDIA H200")
    findings.save_all(Results(ours), [table])
    for name, change in (
        ("other", lambda: measured(MMA, "NVIDIA H100", seed=3)),
        ("same", lambda: measured(MMA, "NVIDIA H100")),
    ):
        shutil.copytree(ours, tmp_path / name)
        findings.save_all(Results(tmp_path / "of" / name), [change()])
        merge.merge([tmp_path / "of" / name], Results(tmp_path / name))
    assert request_check(tmp_path / "same", ours)[0] == 0
    code, comment = request_check(tmp_path / "other", ours)
    assert (code, "NVIDIA H100" in comment, "ANOTHER TABLE" in comment) == (1, True, True)
    (path,) = (tmp_path / "same" / "runs").glob("*/sm_90/live/*.json")
    path.write_text(path.read_text().replace("NVIDIA H100", "NVIDIA B100"))
    code, comment = request_check(tmp_path / "same", ours)
    assert (code, "cannot be trusted" in comment) == (4, True)
    (tmp_path / "other" / "runs" / "`x`.json").symlink_to("/etc/passwd")
    next((tmp_path / "other" / "sm_90" / "live").glob("*.json")).unlink()
    code, comment = request_check(tmp_path / "other", ours)
    assert (code, "changed or removed here: sm_90/live" in comment, comment.count("`")) == (1, True, 6)
    assert "no file of a contribution: runs/?x?.json" in comment


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_stops_it_and_the_same_command_goes_on(tmp_path):
    command = [sys.executable, HERE / "fleet_gpu.py", "program", "sm_75", "contribute", "--json", "--minutes", "1"]
    process = subprocess.Popen([str(word) for word in command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.rglob("live/*.json"))) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()[-1]) == (130, "Stopped.")
    saved = {path: path.read_bytes() for path in tmp_path.rglob("live/*.json")}
    assert not list(tmp_path.glob("*.gz"))
    done = subprocess.run([str(word) for word in command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["measured"] > len(saved)
    assert {path: path.read_bytes() for path in saved} == saved


@pytest.mark.full
def test_time_is_up_where_nothing_answers(tmp_path, monkeypatch):
    """A kernel that hangs for longer than there is time costs no more than that; what was measured is written."""
    hanging = first_minute.worker_command("sm_120", {"stmatrix.m16n8.x1.trans.shared.b8": "hangs the driver"})
    probes = [[experiments()["ldmatrix.m8n8.x1.shared.b16"]], [experiments()["stmatrix.m16n8.x1.trans.shared.b8"]]]
    fleet_gpu.shows(monkeypatch, "sm_120")
    monkeypatch.setattr(contributing, "batches", lambda device: probes)
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", hanging)
    request = contributing.Request(tmp_path / "c", tmp_path / "f", 0.15, 60.0, lambda _: None, lambda _, __: None)
    made = contributing.contribute(request)
    assert (made.measured, made.failed, made.left) == (1, 0, 1)


def test_what_is_beyond_a_file_is_what_is_known(tmp_path, monkeypatch):
    new = measured(WMMA, "NVIDIA H100", seed=4)
    known = [*some(), *list(findings.every(published(), "cost", "sm_90"))[:20]]
    merge.write_report(tmp_path / "all", [*known, new])
    monkeypatch.setattr(contributing, "MOST_FILE", (tmp_path / "all").stat().st_size - 1)
    count = contributing._write(tmp_path / "less", [*known, new])
    kept = merge.accept(tmp_path / "less", None).findings
    assert len(kept) == count < len(known) + 1
    assert new.tables in [f.tables for f in kept if f.key.kind == "table"]


def test_what_is_too_new_for_the_driver_goes_to_a_later_ptxas(tmp_path, monkeypatch):
    """An emulated driver that is too old for a form, and a worker with the ptxas that is not."""
    id_, other = "ldmatrix.m16n16.x1.trans.shared.b8", "ldmatrix.m8n8.x1.shared.b16"
    old = first_minute.worker_command("sm_120", {id_: "is too new"})
    monkeypatch.setattr("tcprobe.sass.toolchain.newer_than", lambda cuda, arch: "a later ptxas")
    monkeypatch.setattr(
        "tcprobe.run.runner.live_command", lambda ptxas, limit: first_minute.worker_command("sm_120", {})
    )
    probes = [experiments()[one] for one in (id_, other)]
    with runner.Session(Worker(old)) as session:
        (device,) = session.devices
        ended = list(runner.measure(session, device, probes, Results(tmp_path)))
    assert {f.key.subject: f.status for f in ended if not isinstance(f, runner.JobEnd)} == dict.fromkeys(
        (id_, other), "measured"
    )


@pytest.mark.full
def test_the_notebook_runs(tmp_path, monkeypatch):
    """Its cells, but for pip, on an emulated GPU."""
    notebook = json.loads((ROOT / "docs" / "contribute.ipynb").read_text())
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (4, len(notebook["cells"]))
    fleet_gpu.shows(monkeypatch, "sm_75", SHOWN[:1])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 580.65.06\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    display = type(sys)("display")
    display.FileLink = lambda name: Path(name).stat().st_size
    monkeypatch.setitem(sys.modules, "IPython", type(sys)("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    known = {}
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        lines = "".join(cell["source"]).splitlines()
        exec("\n".join(line for line in lines if line[:1] not in "%!" or not line), known)
        for line in (line for line in lines if line.startswith("!")):
            done = CliRunner().invoke(main, line.split()[1:])
            assert done.exit_code in (0, 1), done.output
        extras = [known["extra"] for line in lines if line == "%pip install --quiet tcprobe[{extra}]"]
        assert set(extras) <= {"cuda13"}
    assert '\ncuda13 = ["cupy' in (ROOT / "pyproject.toml").read_text()
    assert (tmp_path / "contribution.json.gz").exists()


def test_the_container_runs_contribute():
    text = (ROOT / "docs" / "Containerfile").read_text()
    assert text.endswith('ENTRYPOINT ["tcprobe", "contribute"]\n')
    assert 'pip install --no-cache-dir "tcprobe[cuda${CUDA}]"' in text


def some():
    return list(findings.every(published(), "descriptors", "sm_90"))[:3]


def test_check_writes_nothing_and_says_what_is_known_new_and_wrong(tmp_path):
    merge.write_report(tmp_path / "r", some())
    with merge.open_report(tmp_path / "r") as there:
        shutil.copytree(there.root, tmp_path / "folder", dirs_exist_ok=True)
    for command, code in ((["merge", str(tmp_path / "r")], 0), (["merge", str(tmp_path / "folder")], 0)):
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


def told(path, target):
    """(exit code, JSON or the error's line) of merge --check of a report."""
    done = CliRunner().invoke(main, ["merge", str(path), "--check", "--results", str(target), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.exit_code < 2 else done.stderr.strip()


def test_a_resealed_lie_breaks_a_law_or_is_a_contradiction(tmp_path):
    """A cost beyond the arch's peak, a table that gives another structure: no trust. A wmma fragment: contradicted."""
    cost = next(one for one in findings.every(published(), "cost", "sm_90") if one.subject.startswith("mma.m16n8k16"))
    lies = {
        "cost": cost,
        "structure": dataclasses.replace(measured(MMA, seed=4), structure=measured(MMA).structure),
        "fragment": measured(WMMA, "NVIDIA H100", seed=4),
    }

    def faster(name, document):
        body = document["body"]
        points = [point | {"cycles": point["cycles"] / 15} for point in body["curve"]]
        interval = body["interval"] | {"cycles": body["interval"]["cycles"] / 15}
        rate = round(2048 / interval["cycles"], 1)
        return name, resealed(document, body=body | {"curve": points, "interval": interval, "macs_per_cycle": rate})

    for name, lie in lies.items():
        merge.write_report(tmp_path / name, [lie])
    renamed(tmp_path / "cost", faster)
    said = {name: told(tmp_path / name, tmp_path / "none") for name in lies}
    assert {name: code for name, (code, _) in said.items()} == {"cost": 4, "structure": 4, "fragment": 1}
    assert "more than the" in said["cost"][1]
    assert "structure tensor" in said["structure"][1]
    assert "ANOTHER TABLE" in said["fragment"][1]["conflicts"][0]


def renamed(path, change):
    """The report with the names and documents of its findings changed, and sealed again."""
    body = json.loads(merge.unpacked(path.read_bytes()))
    body["files"] = dict(change(name, document) for name, document in body["files"].items())
    inner = {key: value for key, value in body.items() if key not in ("kind", "schema", "sha256")}
    path.write_bytes(merge.packed(documents.seal(merge.KIND, inner)))


def resealed(document, **changes):
    plain = {key: value for key, value in (document | changes).items() if key not in ("kind", "schema", "sha256")}
    return json.loads(documents.seal(changes.get("kind", document["kind"]), plain, document["schema"]))


def test_what_this_version_does_not_know_is_kept_aside_and_said(tmp_path):
    """A later arch beside one that is known; a later kind; damaged ones are not taken."""
    path = tmp_path / "r"

    def later(name, document):
        if name.startswith("sm_90/live/"):
            return name.replace("sm_90", "sm_130"), resealed(document, arch="sm_130")
        return name, document

    merge.write_report(path, [measured(MMA)])
    renamed(path, later)
    code, said = told(path, tmp_path / "none")
    assert (code, said["added"], len(said["aside"]) > 1) == (0, {}, True)
    done = CliRunner().invoke(main, ["merge", str(path), "--results", str(tmp_path / "ours")])
    assert (done.exit_code, "kept aside" in done.stdout, "sm_130/live/" in done.stdout) == (0, True, True)
    (aside,) = (tmp_path / "ours" / "aside").iterdir()
    assert {kept.relative_to(aside).as_posix() for kept in aside.rglob("*.json")} == set(said["aside"])
    assert Results(tmp_path / "ours").archs() == []
    code, said = told(aside, tmp_path / "none")  # which a later version merges
    assert (code, len(said["aside"]) > 1) == (0, True)

    merge.write_report(path, [*some(), measured(WMMA, "NVIDIA H200")])
    renamed(path, lambda name, document: (name.replace("/descriptors/", "/entropies/"), document))
    code, said = told(path, tmp_path / "none")
    assert (code, len(said["aside"]), sum(said["added"].values()) + said["known"]) == (0, len(some()), 1)

    kept = next(aside.rglob("sm_130/live/*.json"))
    kept.write_bytes(kept.read_bytes().replace(b"H100", b"B100"))
    assert told(aside, tmp_path / "none")[0] == 4


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{", b"{}", b"null", b"\xff", b'{"kind": "report", "schema": 99}'])
def test_what_is_no_contribution_is_refused_in_a_line(text, tmp_path):
    for raw in (text, merge.GZIP + gzip.compress(text, mtime=0)[len(merge.GZIP) :]):
        (tmp_path / "r").write_bytes(raw)
        code, said = told(tmp_path / "r", tmp_path / "none")
        assert (code, said.count("\n"), said.startswith("Error: ")) == (4, 0, True)


def test_devices_that_agree_are_counted(tmp_path):
    """Kinds of them, however often one reports; an H200 is published."""
    for device, counts in (("H100", {"2": 1}), ("GH200", {"3": 1}), ("GH200", {})):
        merge.write_report(tmp_path / "r", [measured(MMA, f"NVIDIA {device}")])
        _, said = told(tmp_path / "r", tmp_path / "ours")
        assert (said["devices"], said["agrees"], said["known"]) == (counts, len(counts), 1 - len(counts))
        CliRunner().invoke(main, ["merge", str(tmp_path / "r"), "--results", str(tmp_path / "ours")])


@pytest.mark.full
def test_kinds_that_are_known_of_the_arch_are_measured_side_by_side(tmp_path, monkeypatch):
    """Descriptors in two processes, then a table alone; a part whose worker is lost costs its own experiment."""
    every = [
        one for id_, one in dialogues("descriptors").items() if id_ in {f.subject for f in published_descriptors()}
    ]
    chosen, table = every[::60], experiments()["ldmatrix.m8n8.x1.shared.b16"]
    fleet_gpu.shows(monkeypatch, "sm_90")
    monkeypatch.setattr(contributing, "batches", lambda device: [chosen, [table]])
    monkeypatch.setattr(contributing, "processes", lambda: 2)
    faults = {chosen[1].id: "traps"}
    monkeypatch.setattr("tcprobe.run.backend.COMMAND", first_minute.worker_command("sm_90", faults))
    made = contributing.contribute(
        contributing.Request(tmp_path / "c", tmp_path / "f", 5, 60.0, lambda _: None, lambda _, __: None)
    )
    assert (made.measured, made.failed, made.left) == (len(chosen), 1, 0)


def published_descriptors():
    return findings.every(published(), "descriptors", "sm_90")
