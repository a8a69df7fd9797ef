"""Evidence that contradicts itself: reported, withheld, exit code 1."""

import dataclasses
import sys
from pathlib import Path

import pytest
from machine_code import TOOLS, needs_tools
from mutations import Run
from wrapped_tools import exchanging, lying, run

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.references import ptx_isa
from tcprobe.run.backend import Device
from tcprobe.run.campaign import Drafts, Report, _derive_moves
from tcprobe.store.results import Results, published

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")]


def saved(folder, name="sm_80"):
    results = Results(folder)
    return {m.experiment: m for method in ("sass", "derived") for m in results.measurements(name, method)}


def stated(move):
    """PTX's tables of those operands of a matrix move that were measured."""
    form = inventory.instructions()[move.experiment]
    assert not form.multiplies
    return {operand: ptx_isa.claim(form.fragment(operand), arch(move.arch)).meant for operand in move.tables}


def right(folder, name="sm_80"):
    """Whether all that was saved as measured is what is published, of matrix moves what PTX states."""
    for m in (m for m in saved(folder, name).values() if m.status == "measured"):
        theirs = published().measurement(name, m.method, m.experiment)
        if (m.tables, m.unread) != ((theirs.tables, theirs.unread) if theirs else (stated(m), {})):
            return False
    opcodes = published().opcodes(name)
    return all(ours["layouts"] == opcodes[o]["layouts"] for o, ours in Results(folder).opcodes(name).items())


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "number", "withheld"),
    [
        ("sm_75", 9, {"wmma.m8n32k16.b.row.f16", "wmma.m32n8k16.a.col.f16"}),
        ("sm_80", 9, {f"wmma.{f}.{t}" for f in ("m8n32k16.b.row", "m32n8k16.a.col") for t in ("f16", "bf16")}),
        ("sm_80", 41, {"wmma.m16n16k16.b.row.f16"}),
    ],
)
def test_a_disassembler_that_lies_once_publishes_nothing_wrong(tmp_path, name, number, withheld):
    done = run(tmp_path / "r", lying(tmp_path / "tools", number), name=name)
    assert done.exit_code == 1, done.output
    failed = {m.experiment: m.words for m in saved(tmp_path / "r", name).values() if m.status == "failed"}
    assert withheld == {experiment for experiment in failed if not experiment.startswith(("wmma.mma", "mma"))}
    for experiment in withheld:
        assert f"contradiction: {experiment}: withheld: contradicted by wmma.mma." in done.stderr, done.stderr
        assert "of HMMA." in failed[experiment]
    assert right(tmp_path / "r", name)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ("wmma_load_a_row_m16n16k16_f16", "wmma_load_a_col_m16n16k16_f16", 1),
        ("wmma_load_a_row_m16n16k16_f16", "wmma_load_b_row_m16n16k16_f16", 1),
        ("wmma_load_b_row_m32n8k16_s8", "wmma_load_b_col_m32n8k16_s8", 1),
        ("wmma_load_c_row_m16n16k16_f32", "wmma_load_c_col_m16n16k16_f32", 1),
        ("wmma_load_a_row_m16n16k16_f16", "wmma_load_a_row_m16n16k16_bf16", 1),
        ("wmma_load_a_row_m32n8k16_f16", "wmma_load_a_row_m32n8k16_bf16", 0),
        ("wmma_load_a_row_m16n16k16_s8", "wmma_load_a_row_m16n16k16_u8", 0),
        ("trace_wmma_mma_row_col_m16n16k16_s32_s8_s8_s32", "trace_wmma_mma_row_col_m16n16k16_s32_u8_u8_s32", 1),
        ("trace_wmma_mma_row_row_m16n16k16_f32_f32", "trace_wmma_mma_row_row_m16n16k16_f32_bf16_bf16_f32", 0),
    ],
)
def test_exchanged_names_are_noticed_or_harmless(tmp_path, first, second, code):
    """Harmless: the same code, or a multiply that is not followed then. All of wmma, which these kernels are of."""
    multiplies = [row.id for row in inventory.of_family("wmma")]
    done = run(tmp_path / "r", exchanging(tmp_path / "tools", first, second), "wmma*", *multiplies)
    assert done.exit_code == code, done.output
    assert right(tmp_path / "r")


@pytest.mark.full
def test_tables_that_were_not_checked_say_so_and_are_checked_by_the_next_run(tmp_path):
    """Fragments alone, read wrongly; then everything, with good tools; then once more."""
    bad, good = lying(tmp_path / "bad", 41), Path(TOOLS.ptxas).parent
    first = run(tmp_path / "r", bad, "wmma.m*")
    assert first.exit_code == 0, first.output
    assert "wmma.m16n16k16.a.row.f16" in first.stderr
    assert "72 more" in first.stderr
    assert not right(tmp_path / "r")
    second = run(tmp_path / "r", good)
    assert second.exit_code == 1
    assert "wmma.m16n16k16.b.row.f16" in second.stderr
    assert right(tmp_path / "r")
    third = run(tmp_path / "r", good)
    assert (third.exit_code, "contradiction" in third.stderr) == (0, False), third.output
    assert right(tmp_path / "r")
    assert {m.status for m in saved(tmp_path / "r").values()} == {"measured"}


@pytest.mark.full
def test_two_sides_that_are_too_close_to_tell_are_both_withheld():
    """On sm_80 only two fragments hold A of DMMA.884; one of them with two columns exchanged."""
    run_ = Run("sm_80")
    name, other = "wmma.m8n8k4.a.col.f64", "wmma.m8n8k4.a.row.f64"
    table = run_.tables[name]
    exchanged = dataclasses.replace(
        table, values=dict(table.values) | {"col": tuple({0: 1, 1: 0}.get(c, c) for c in table.values["col"])}
    )
    found = run_.conclude(run_.tables | {name: exchanged}, run_.traces)
    assert set(found.verdict.withheld) == {name, other}
    assert found.contested == {"DMMA.884"}
    assert found.failed["mma.m8n8k4.row.col.f64.f64.f64.f64"] == "rests on DMMA.884, whose layout is contradicted"


def test_drafts_are_saved_together_or_not_at_all(tmp_path):
    theirs = published().measurement("sm_80", "sass", "wmma.m8n8k4.a.row.f64")
    drafts = Drafts(tmp_path)
    drafts.write(theirs)
    assert drafts.measurement("sm_80", "sass", theirs.experiment) == theirs
    assert not list(tmp_path.iterdir())
    (failed,) = drafts.withhold("sm_80", "sass", {theirs.experiment: "because", "wmma.m8n8k4.a.col.f64": "not here"})
    assert (failed.status, failed.words, failed.tables) == ("failed", "because", {})
    drafts.settle()
    assert Results(tmp_path).measurement("sm_80", "sass", theirs.experiment) == failed


def test_a_move_does_not_stay_when_the_loads_that_it_rests_on_are_withheld(tmp_path, monkeypatch):
    form = inventory.instructions()["ldmatrix.m8n8.x4.shared.b16"]
    theirs = published().measurement("sm_80", "derived", form.id)
    Results(tmp_path).write(theirs)
    monkeypatch.setattr("tcprobe.sass.moves.derive_moves", lambda *_: [])
    device = Device(0, "machine code", "sm_80", "none", "none", TOOLS.name, method="sass")
    for contradictions, status in (([], "measured"), (["wmma.x: withheld"], "failed")):
        report, drafts = Report(device, [], 0, [], contradictions=contradictions), Drafts(tmp_path)
        _derive_moves(report, TOOLS, drafts, [form])
        drafts.settle()
        assert [m.status for m in report.measurements] == ["failed"] * bool(contradictions)
        assert Results(tmp_path).measurement("sm_80", "derived", form.id).status == status
    assert Results(tmp_path).measurement("sm_80", "derived", form.id).words == "withheld: wmma.x: withheld"
