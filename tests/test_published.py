"""What is published: every file whole, every formula proven, every page what its tables give."""

import json
from collections import Counter
from pathlib import Path

import pytest
from test_pins import PINNED

from tcprobe.fit import LINEAR, fit
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select
from tcprobe.layout.structure import predict_hash
from tcprobe.pages import overview
from tcprobe.pages.tables import MADE
from tcprobe.probes import experiments
from tcprobe.probes.experiment import kernels, ptx_hash
from tcprobe.sass import tensor
from tcprobe.sass.moves import form_kernel
from tcprobe.store.acceptance import misfit
from tcprobe.store.cell import DOCUMENTED, cell
from tcprobe.store.choose import alone
from tcprobe.store.results import Results, published

RESULTS = published()
ALL = [(a, m, e) for a in RESULTS.archs() for m in RESULTS.methods(a) for e in RESULTS.experiments(a, m)]


def test_sm_90_is_complete():
    """Every form that the arch is allowed, of a family of which any is published; of others its refusal or nothing.

    A form whose text has no pin yet may be measured later.
    """
    saved = [RESULTS.measurement(*key) for key in ALL if key[:2] == ("sm_90", "live")]
    kinds = Counter((experiments()[m.experiment].group, m.status) for m in saved)
    assert kinds["wmma fragments", "measured"] + kinds["wmma.mma", "measured"] + kinds["mma", "measured"] >= 241
    assert kinds["mma", "refused"] >= 58
    published_kinds = {kind for kind, _ in kinds}
    of_kinds = [e for e in experiments().values() if e.group in published_kinds]
    allowed = {e.id for e in of_kinds if all(f.target.on(arch("sm_90")) for f in e.fragments)}
    assert allowed & PINNED <= {m.experiment for m in saved} <= {e.id for e in of_kinds}
    for m in saved:
        allowed = all(f.target.on(arch("sm_90")) for f in experiments()[m.experiment].fragments)
        assert m.status == ("measured" if allowed else "refused")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "method"), sorted({key[:2] for key in ALL}))
def test_every_measurement_is_whole_and_fits_the_inventory(name, method):
    assert method != "emulated"
    device = arch(name)
    for experiment in RESULTS.experiments(name, method):
        found = RESULTS.measurement(name, method, experiment)
        fragments = {f.operand: f for f in experiments()[experiment].fragments}
        texts = [kernels(experiments()[experiment])]
        if method != "live" and experiment in inventory.instructions():
            row = inventory.instructions()[experiment]
            texts = [[tensor.kernel(row) if row.multiplies else form_kernel(row)]]
        assert found.provenance["ptx"] == ptx_hash(*texts), "made by other probes"
        if found.status != "measured":
            assert found.words
            assert not any(f.target.on(device) for f in fragments.values())
            continue
        missing = set(fragments) - set(found.tables)
        assert not missing or (method, missing) == ("derived", {"address"})
        for operand, table in found.tables.items():
            f = fragments[operand]
            assert misfit(f, table) is None
            for selection in [table.selection(n) for n in f.selectors] or [table]:
                assert (selection.threads, selection.elements) == (f.threads, f.elements)
                assert len(selection.inverse) == f.rows * f.cols * f.products // f.span
                assert {len(h) for h in selection.inverse.values()} == {f.copies}


def test_published_hashes_are_those_of_the_structure_tensors_of_the_tables():
    checked = 0
    for key in ALL:
        found = RESULTS.measurement(*key)
        row = inventory.instructions().get(found.experiment)
        if row and row.family == "mma" and found.structure:
            assert predict_hash(row, found.tables) == found.structure
            checked += 1
    assert checked >= 70


@pytest.mark.full
def test_every_layout_has_a_proven_formula_and_a_user():
    used = {layout for a in RESULTS.archs() for m in RESULTS.methods(a) for layout in RESULTS.sharing(a, m)}
    assert set(RESULTS.layouts()) == used
    for layout in RESULTS.layouts():
        table = RESULTS.layout(layout)
        found = fit(table)
        assert found.verdict == LINEAR
        for name, formula in found.formulas.items():
            values = [formula(*point) for point in table.space.all()]
            assert all(wanted in (None, value) for value, wanted in zip(values, table.values[name], strict=True))


def test_every_page_is_what_its_tables_give():
    assert overview.stale(RESULTS) == []


@pytest.mark.full
def test_links_of_pages_lead_somewhere():
    import re

    for page, text in overview.render(RESULTS).items():
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert (page.parent / link).exists(), (page, link)


@pytest.mark.full
def test_a_changed_table_makes_its_pages_stale(tmp_path):
    """Of one arch; that all published pages are of their tables is tested above."""
    import shutil

    copy, others = tmp_path / "results", {name for name in RESULTS.archs() if name != "sm_70"}
    shutil.copytree(RESULTS.root, copy, ignore=shutil.ignore_patterns(*others))
    overview.write(Results(copy))
    assert overview.stale(Results(copy)) == []
    next((copy / "sm_70" / "sass").glob("*.json")).unlink()
    assert {p.name for p in overview.stale(Results(copy))} >= {"README.md"}


def test_a_page_that_is_no_longer_made_goes_and_what_others_wrote_stays(tmp_path):
    results = Results(tmp_path)
    results.write(RESULTS.measurement("sm_90", "live", "wmma.m16n16k16.accumulator.f32"))
    former, foreign = tmp_path / "sm_90" / "live.md", tmp_path / "notes.md"
    former.write_text(f"{MADE}\n# live\n")
    foreign.write_text("mine\n")
    assert former in overview.stale(results)
    overview.write(results)
    assert not former.exists()
    assert foreign.read_text() == "mine\n"
    assert overview.stale(results) == []


def test_no_file_holds_a_path_or_time_of_the_machine():
    for path in RESULTS.root.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            assert str(Path.home()) not in text
            if path.suffix == ".json":
                json.loads(text)


def test_layouts_of_opcodes_are_stored_whole():
    met = set()
    for name in RESULTS.archs():
        for opcode, data in RESULTS.opcodes(name).items():
            shape = tensor.form(opcode)
            for operand, layout in data["layouts"].items():
                table = RESULTS.layout(layout)
                rows, cols = {"a": (shape.m, shape.k), "b": (shape.k, shape.n)}.get(operand, (shape.m, shape.n))
                assert len(table.inverse) == rows * cols * shape.products
                assert {len(h) for h in table.inverse.values()} == {1}
            met.add(opcode.split(".")[0] + "." + opcode.split(".")[1])
    assert met >= {
        "HMMA.884",
        "HMMA.1688",
        "HMMA.16816",
        "HMMA.1684",
        "IMMA.8816",
        "IMMA.16816",
        "IMMA.8832",
        "BMMA.88128",
        "DMMA.884",
        "DMMA.8x8x4",
    }


@pytest.mark.full
def test_what_is_not_measured_on_an_arch_is_documented_there():
    """Every fragment that an arch has is measured on it or stated by a reference, and never both in one cell."""
    facts = overview.cells_of(RESULTS)
    for name in RESULTS.archs():
        for f in select("wmma.*", "mma.m*", device=arch(name)):
            found = cell(f, name, RESULTS)
            assert (found.measured is None) == (alone(RESULTS).choose(f, [name]) is None)
            assert (facts[f.id][name].how == DOCUMENTED) == (found.measured is None)
            assert facts[f.id][name].table == found.table
