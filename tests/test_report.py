"""Reports: one file of findings of every kind, merged as folders are; lying and damaged ones are refused."""

import dataclasses
import json
import random
import sys
from contextlib import suppress

import pytest
from click.testing import CliRunner
from machine_code import needs_tools
from test_merge import MMA, WMMA, folder, measured, tree

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.run import merge
from tcprobe.store import documents, findings
from tcprobe.store.choose import alone
from tcprobe.store.results import Results, published


def every_kind():
    """Some findings of every kind that is published for sm_90."""
    kinds = [kind for kind in ("banks", "descriptors", "tensor_maps") if findings.archs(published(), kind)]
    return [
        measured(MMA),
        measured(WMMA),
        *(f for k in kinds for f in list(findings.every(published(), k, "sm_90"))[:2]),
    ]


def written(path, known):
    merge.write_report(path, known)
    return path


def refused(path, target, words):
    with pytest.raises(DataError, match=words) as error:
        merge.merge([path], Results(target))
    assert not target.exists()
    assert "tcprobe-" not in str(error.value).replace("tcprobe-version", "")
    return str(error.value)


def test_a_report_merges_as_the_folder_that_it_is_of(tmp_path):
    """Byte for byte, findings of every kind."""
    known = every_kind()
    assert len({type(f) for f in known}) == 2
    findings.save_all(Results(tmp_path / "theirs"), known)
    path = written(tmp_path / "theirs.report", known)
    for source, target in (("theirs", "a"), ("theirs.report", "b")):
        assert sum(merge.merge([tmp_path / source], Results(tmp_path / target), "x").added.values()) == len(known)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    again = merge.merge([path], Results(tmp_path / "b"), "x")
    assert (again.added, again.known) == ({}, len(known))
    assert path.read_bytes() == written(tmp_path / "again", known).read_bytes()


@pytest.mark.full
@needs_tools
@pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")
def test_run_writes_one_without_a_gpu(tmp_path):
    path = tmp_path / "mine.report"
    words = ["run", "wmma.m8n8k4.*", "--method", "sass", "--arch", "sm_80", "--results", str(tmp_path / "r")]
    done = CliRunner().invoke(main, [*words, "--report", str(path)])
    assert done.exit_code == 0, done.output
    assert f"findings in {path}" in done.stderr
    text = merge.unpacked(path.read_bytes()).decode()
    body = json.loads(text)
    assert (body["kind"], len(body["sha256"])) == ("report", 64)
    assert str(tmp_path) not in text
    taken = CliRunner().invoke(main, ["merge", str(path), "--results", str(tmp_path / "m"), "--json"])
    assert taken.exit_code == 0, taken.output
    assert sum(json.loads(taken.stdout)["added"].values()) == len(merge.own(Results(tmp_path / "r")))


def resealed(path, change):
    """The report with its content changed, and its checksums recomputed."""
    body = json.loads(merge.unpacked(path.read_bytes()))
    change(body)
    for name in ("kind", "schema", "sha256"):
        body.pop(name)
    path.write_bytes(merge.packed(documents.seal(merge.KIND, body)))


def document(body, part):
    return next(d for name, d in body["files"].items() if part in name)


def reseal_inside(body, part, change):
    name = next(name for name in body["files"] if part in name)
    inner = body["files"][name]
    change(inner)
    plain = {key: value for key, value in inner.items() if key not in ("kind", "schema", "sha256")}
    body["files"][name] = json.loads(documents.seal(inner["kind"], plain, inner["schema"]))


def moved(to):
    def change(body):
        name = next(name for name in body["files"] if "live" in name)
        body["files"][to] = body["files"].pop(name)

    return change


LIES = {
    "a finding edited": (lambda b: document(b, "live").update(numbering="mine"), "does not match its checksum"),
    "an arch edited": (lambda b: reseal_inside(b, "live", lambda d: d.update(arch="sm_80")), "renamed or copied"),
    "a path outside": (moved("../../sm_90/live/x.json"), "not the document of a finding"),
    "an absolute path": (moved("/tmp/x.json"), "not the document of a finding"),
    "a hidden path": (moved("sm_90/live/.x.json"), "not the document of a finding"),
    "another key": (lambda b: b.update(host="me"), "keys are not those of a report"),
    "no files": (lambda b: b.update(files=[]), "keys are not those of a report"),
    "a document that is none": (lambda b: b["files"].update({"sm_90/live/x.json": 3}), "not the document of a finding"),
    "another probe": (
        lambda b: reseal_inside(b, "live", lambda d: d["provenance"].update(ptx="0" * 16)),
        "differs from the probe",
    ),
    "a layout gone": (lambda b: b["files"].pop(next(n for n in b["files"] if n.startswith("layouts"))), "layout"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_report_is_refused(tmp_path, lie):
    change, words = LIES[lie]
    path = written(tmp_path / "r", [measured(MMA)])
    resealed(path, change)
    assert str(path) in refused(path, tmp_path / "target", words)


def test_tables_that_do_not_give_their_structure_are_refused(tmp_path):
    liar = dataclasses.replace(measured(MMA, seed=4), structure=measured(MMA).structure)
    refused(written(tmp_path / "r", [liar]), tmp_path / "target", str(tmp_path / "r"))


@pytest.mark.parametrize("many", [60, pytest.param(3000, marks=pytest.mark.full)])
def test_a_damaged_report_is_refused(tmp_path, many):
    """But where the damage leaves what it unpacks to: bits that pad deflate's last byte, a distance to equal bytes."""
    path, rng = written(tmp_path / "r", [measured(WMMA)]), random.Random(4)
    raw = path.read_bytes()
    text, unharmed = merge.unpacked(raw), 0
    for _ in range(many):
        at = rng.randrange(len(raw))
        path.write_bytes(rng.choice((raw[:at], raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :])))
        with suppress(DataError):
            if merge.unpacked(path.read_bytes()) == text:
                unharmed += 1
                continue
        with pytest.raises(DataError):
            merge.merge([path], Results(tmp_path / "target"))
    assert unharmed <= many // 100
    assert not (tmp_path / "target").exists()


@pytest.mark.full
def test_a_kind_of_device_counts_once(tmp_path):
    """Five uploads of one kind say what one says: two other kinds decide."""
    same = [
        dataclasses.replace(m, provenance={**m.provenance, "driver": str(n)})
        for n in range(5)
        for m in [measured(MMA, "NVIDIA H200", seed=3)]
    ]
    others = [measured(MMA, device) for device in ("NVIDIA H100", "NVIDIA GH200")]
    target = Results(tmp_path / "all")
    for n, one in enumerate([*same, *others]):
        merge.merge([folder(tmp_path / str(n), one)], target)
    fragment = inventory.fragments()[f"{MMA}.a"]
    found = alone(Results(tmp_path / "all")).choose(fragment, ["sm_90"])
    assert found.table(fragment) == measured(MMA).tables["a"]
