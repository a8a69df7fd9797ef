"""Sparse multiplies in the commands: metadata by selector, in `show`, `list`, `trace`, `where` and `emit`."""

import json

import pytest
from click.testing import CliRunner
from command import tcprobe
from sparse_layouts import CONTEXT, KINDS, SPARSE, documented, outputs

from tcprobe.cli import main
from tcprobe.layout.structure import predict_hash
from tcprobe.probes import experiments
from tcprobe.run.runner import conclude
from tcprobe.store.results import Results


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with one form of each index width, measured on the emulator by the layouts that PTX states."""
    root = tmp_path_factory.mktemp("saved")
    for kind in ("tf32", "f16", "nibbles"):
        row = SPARSE[KINDS[kind]]
        experiment = experiments()[row.id]
        reading = experiment.decode(*outputs(experiment, documented(row, 3)))
        origin = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
        Results(root).write(conclude(experiment, reading, CONTEXT, "emulated", origin))
    return root


def said(saved, *words, code=0):
    return tcprobe(*words, "--results", str(saved), "--only", code=code).output


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "bits", "count", "selectors"), [("tf32", 4, 8, 4), ("f16", 2, 16, 4), ("nibbles", 2, 16, 2)]
)
def test_show_prints_metadata_by_selector(saved, kind, bits, count, selectors):
    row = SPARSE[KINDS[kind]]
    e = row.fragment("e")
    found = [json.loads(line) for line in said(saved, "show", e.id, "--json").splitlines()]
    assert [(x["operand"], x["selector"], x["index_bits"], x["elements"]) for x in found] == [
        ("e", n, bits, count) for n in range(selectors)
    ]
    table = documented(row, 3)[e.id]
    for x in found:
        chosen = table.selection(x["selector"])
        for lane, fields in enumerate(x["table"]):
            held = [chosen.at(lane=lane, i=i) for i in range(count)]
            assert fields == ([h and [h["row"], h["col"]] for h in held] if any(held) else None)
    assert json.loads(said(saved, "show", e.id, "--json", "--selector", "1")) == found[1]
    assert "0, 1" in said(saved, "show", e.id, "--selector", "7", code=2)
    assert "none" in said(saved, "show", row.fragment("d").id, "--selector", "0", code=2)
    assert "selector 1: index fields" in said(saved, "show", e.id, "--selector", "1")


def test_list_has_metadata_with_its_selectors():
    found = json.loads(CliRunner().invoke(main, ["list", "--family", "mma.sp", "--json"]).output)
    assert len(found) == 5 * 110
    e = next(x for x in found if x["id"] == SPARSE[KINDS["tf32"]].fragment("e").id)
    assert (e["selectors"], e["index_bits"], e["role"]) == ([0, 1, 2, 3], 4, "metadata")


@pytest.mark.full
def test_trace_leads_through_the_metadata(saved):
    row = SPARSE[KINDS["f16"]]
    tables = documented(row, 3)
    found = json.loads(said(saved, "trace", row.id, "--row", "3", "--col", "2", "--selector", "2", "--json"))
    assert found["selector"] == 2
    e = tables[row.fragment("e").id].selection(2)
    for stored, meeting in enumerate(found["meetings"]):
        assert meeting["k"] == [stored // 2 * 4 + index for index in range(4)]
        assert [(h["lane"], h["i"]) for h in meeting["e"]] == e.holders(row=3, col=stored)
        assert [h["row"] for h in meeting["b"]] == meeting["k"]
    field = found["meetings"][5]["e"][0]
    words = ["--operand", "e", "--lane", str(field["lane"]), "--i", str(field["i"]), "--selector", "2", "--json"]
    fed = json.loads(said(saved, "trace", row.id, *words))
    assert {(m["a"][0]["row"], m["a"][0]["col"]) for m in fed["meetings"]} == {(3, 5)}
    text = said(saved, "trace", row.id, "--row", "3", "--col", "2", "--selector", "2")
    assert "by E" in text
    every = said(saved, "trace", row.id, "--row", "3", "--col", "2", "--json").splitlines()
    assert [json.loads(line)["selector"] for line in every] == list(row.metadata.selectors)
    dense = ["trace", "mma.m16n8k8.row.col.f32.f16.f16.f32", "--operand", "e", "--lane", "0", "--i", "0"]
    assert "operand E" in CliRunner().invoke(main, dense).output


@pytest.mark.full
def test_where_and_emit_take_a_selector(saved):
    row = SPARSE[KINDS["tf32"]]
    e = row.fragment("e")
    held = json.loads(said(saved, "where", e.id, "--row", "3", "--col", "1", "--selector", "3", "--json"))["holders"]
    table = documented(row, 3)[e.id].selection(3)
    assert [(h["lane"], h["i"]) for h in held] == table.holders(row=3, col=1)
    assert held[0]["bits"] == 4
    text = said(saved, "emit", row.id, "--to", "ptx", "--selector", "3", "--arch", "sm_90")
    assert ".reg .b32 %e0;" in text
    assert "{%c0, %c1, %c2, %c3}, %e0, 3;" in text
    assert "--selector" in said(saved, "emit", row.id, "--to", "ptx", "--arch", "sm_90", code=2)
    assert "metadata" in said(saved, "emit", row.id, "--to", "tinygrad", "--selector", "0", "--arch", "sm_90", code=2)
    assert "fragment" in said(saved, "convert", row.fragment("a").id, row.fragment("d").id, code=2)


def test_the_tables_predict_the_structure_that_is_saved(saved):
    for kind in ("tf32", "f16", "nibbles"):
        found = Results(saved).measurement("sm_90", "emulated", KINDS[kind])
        assert predict_hash(SPARSE[KINDS[kind]], found.tables) == found.structure
