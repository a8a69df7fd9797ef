"""Other people's measurements: accepted whole or not at all, kept by run, conflicts named."""

import dataclasses
import json
import random
import shutil

import emulation
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.layout.structure import predict_hash
from tcprobe.run.merge import merge
from tcprobe.store import consistency, findings, kinds
from tcprobe.store.cell import load
from tcprobe.store.choose import alone, over_published
from tcprobe.store.results import Results, published

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
WMMA = "wmma.m16n16k16.a.row.f16"
FRAGMENT = inventory.fragments()[f"{MMA}.a"]


def measured(experiment, device="NVIDIA H100", seed=None):
    """The published measurement as another device's; with a seed with other tables that its structure fits."""
    found = published().measurement("sm_90", "live", experiment)
    found = dataclasses.replace(found, provenance={**found.provenance, "device": device})
    if seed is None:
        return found
    rng = random.Random(seed)
    fragments = inventory.of_experiment(experiment)
    tables = {f.operand: emulation.shuffled(f, rng) for f in fragments}
    row = inventory.instructions().get(experiment)
    structure = predict_hash(row, tables) if row and row.multiplies else None
    return dataclasses.replace(found, tables=tables, structure=structure)


def folder(root, *measurements):
    for measurement in measurements:
        Results(root).write(measurement)
    return root


def tree(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_merging_twice_is_no_mistake(tmp_path):
    theirs = folder(tmp_path / "theirs", measured(MMA), measured(WMMA))
    ours = Results(tmp_path / "ours")
    first = merge([theirs], ours, "somebody")
    assert (sum(first.added.values()), first.known, first.conflicts) == (2, 0, [])
    before = tree(tmp_path / "ours")
    again = merge([theirs], Results(tmp_path / "ours"), "somebody")
    assert (again.added, again.known) == ({}, 2)
    assert tree(tmp_path / "ours") == before
    (run,) = Results(tmp_path / "ours").runs()
    about = json.loads((run.root / "run.json").read_text())
    assert (about["device"], about["contributor"], about["schema"]) == ("NVIDIA H100", "somebody", 2)


def test_what_is_merged_answers_and_names_its_run(tmp_path):
    merge([folder(tmp_path / "theirs", measured(MMA))], Results(tmp_path / "ours"))
    cell = load(f"{MMA}.a", "sm_90", tmp_path / "ours", only=True)
    assert "NVIDIA H100" in cell.evidence
    assert str(tmp_path / "ours") in cell.source


def test_a_conflict_is_kept_and_named_with_the_device_by_merge_and_show(tmp_path):
    ours = folder(tmp_path / "ours", measured(MMA, "NVIDIA H200"))
    theirs = folder(tmp_path / "theirs", measured(MMA, "NVIDIA GH200", seed=3))
    done = CliRunner().invoke(main, ["merge", str(theirs), "--results", str(ours)])
    assert done.exit_code == 1
    assert "NVIDIA GH200" in done.stdout
    assert "ANOTHER TABLE" in done.stdout
    text = CliRunner().invoke(main, ["show", f"{MMA}.a", "--results", str(ours), "--only"]).stdout
    assert "NVIDIA GH200" in text
    assert "ANOTHER TABLE" in text
    assert "NVIDIA H200" in load(f"{MMA}.a", "sm_90", ours, only=True).evidence  # one against one: the folder's own


def test_the_table_that_most_devices_agree_on_counts(tmp_path):
    ours = folder(tmp_path / "ours", measured(MMA, "odd one", seed=5))
    for number, device in enumerate(("NVIDIA H100", "NVIDIA H200")):
        merge([folder(tmp_path / str(number), measured(MMA, device))], Results(ours))
    found = alone(Results(ours)).choose(FRAGMENT, ["sm_90"])
    assert found.measured.provenance["device"] == "NVIDIA H100"
    assert found.table(FRAGMENT) == published().table("sm_90", "live", FRAGMENT)


def test_the_same_device_with_the_same_tables_is_there_already(tmp_path):
    ours = folder(tmp_path / "ours", measured(MMA))
    assert merge([folder(tmp_path / "theirs", measured(MMA))], Results(ours)).added == {}


def test_a_refused_folder_changes_nothing(tmp_path):
    ours = folder(tmp_path / "ours", measured(MMA))
    good = folder(tmp_path / "good", measured(WMMA, "NVIDIA H100"))
    wrong = measured(MMA, "liar")
    lying = dataclasses.replace(wrong, tables=measured(MMA, seed=9).tables)
    bad = folder(tmp_path / "bad", lying)
    before = tree(tmp_path / "ours")
    with pytest.raises(DataError, match="its tables do not give its structure tensor"):
        merge([good, bad], Results(ours))
    assert tree(tmp_path / "ours") == before
    path = Results(bad).path("sm_90", "live", MMA)
    path.write_text(path.read_text().replace("liar", "lyre"))
    done = CliRunner().invoke(main, ["merge", str(good), str(bad), "--results", str(ours)])
    assert done.exit_code == 4
    assert tree(tmp_path / "ours") == before


@pytest.mark.parametrize("name", ["wgmma.mma_async.m64n8k16.f32.f16.f16", "wgmma.mma_async.sp.m64n8k16.f32.tf32.tf32"])
@pytest.mark.parametrize("operand", ["a", "d"])
def test_two_slots_exchanged_behind_a_structure_of_addresses_are_refused(tmp_path, name, operand):
    found = published().measurement("sm_90", "live", name)
    table = found.tables[operand]
    swapped = table.with_values({n: (v[1], v[0], *v[2:]) for n, v in table.values.items()})
    lying = dataclasses.replace(found, tables={**found.tables, operand: swapped})
    with pytest.raises(DataError, match="its tables do not give its structure tensor"):
        merge([folder(tmp_path / "bad", lying)], Results(tmp_path / "ours"))


def test_pages_of_merged_runs_alone_say_who_makes_them(tmp_path):
    merge([folder(tmp_path / "theirs", measured(MMA))], Results(tmp_path / "ours"))
    done = CliRunner().invoke(main, ["pages", "--results", str(tmp_path / "ours")])
    assert (done.exit_code, "`tcprobe site` makes pages" in done.output) == (2, True)


@pytest.mark.parametrize("case", ["missing", "empty", "itself"])
def test_mistakes(tmp_path, case):
    ours = folder(tmp_path / "ours", measured(MMA))
    (tmp_path / "empty").mkdir()
    path = {"missing": tmp_path / "missing", "empty": tmp_path / "empty", "itself": ours}[case]
    with pytest.raises(UsageError, match=str(path)):
        merge([path], Results(ours))


@pytest.mark.full
def test_what_an_h200_measured_can_be_merged_whole(tmp_path):
    """Every structure tensor that is published is the one of its tables."""
    for part in ("sm_90", "layouts"):
        shutil.copytree(published().root / part, tmp_path / "copy" / part)
    done = merge([tmp_path / "copy"], Results(tmp_path / "ours"))
    tables = [m for k in published().methods("sm_90") for m in published().measurements("sm_90", k)]
    others = [f for kind in kinds.names() for f in findings.every(published(), kind, "sm_90")]
    assert done.conflicts == []
    assert sum(done.added.values()) == sum(found.status == "measured" for found in (*tables, *others))
    assert set(kinds.names()) - {f.kind for f in others} <= {
        "tensor_memory",
        "order",
    }  # an H200 does not have the first
    assert {run.root.name for run in Results(tmp_path / "ours").runs()} == set(done.added)


def exchanged(table, *pairs):
    """The table with the slots of each pair exchanged."""
    columns = {name: list(column) for name, column in table.values.items()}
    for one, other in pairs:
        for column in columns.values():
            column[one], column[other] = column[other], column[one]
    return table.with_values({name: tuple(column) for name, column in columns.items()})


def rows_exchanged(table):
    """The table with rows 0 and 1 of its matrix exchanged."""
    return table.with_values(table.values | {"row": tuple({0: 1, 1: 0}.get(r, r) for r in table.values["row"])})


def elsewhere():
    """wgmma on sm_80, which does not have it."""
    return dataclasses.replace(published().measurement("sm_90", "live", WGMMA), arch="sm_80")


def derived():
    """A derived multiply with slots of A exchanged; it has no structure tensor that would show it."""
    found = published().measurement("sm_80", "derived", MMA)
    assert found.structure is None
    return dataclasses.replace(found, tables={**found.tables, "a": exchanged(found.tables["a"], (0, 9))})


def of_c():
    """A multiply with slots of C exchanged, which meet no slot of A or B."""
    found = published().measurement("sm_90", "live", MMA)
    return dataclasses.replace(found, tables={**found.tables, "c": exchanged(found.tables["c"], (0, 9))})


def of_rows():
    """A wgmma with the same two rows of A and D exchanged, which meet as before."""
    found = published().measurement("sm_90", "live", WGMMA)
    return dataclasses.replace(found, tables={o: rows_exchanged(table) for o, table in found.tables.items()})


def of_metadata():
    """A sparse multiply with two fields of its second selector exchanged."""
    found = published().measurement("sm_90", "live", SPARSE)
    table = found.tables["e"]
    used = [s for s, row in enumerate(table.values["row"]) if row is not None and s >= table.points // 2]
    return dataclasses.replace(found, tables={**found.tables, "e": exchanged(table, (used[0], used[9]))})


WGMMA = "wgmma.mma_async.m64n8k16.f32.f16.f16"
SPARSE = "mma.sp.m16n8k16.row.col.f32.f16.f16.f32"
IMPOSSIBLE = [elsewhere, derived, of_c, of_rows, of_metadata]


@pytest.mark.parametrize("anchored", [False, True], ids=["earlier", "anchored"])
@pytest.mark.parametrize("make", IMPOSSIBLE, ids=lambda make: make.__name__)
def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path, make, anchored):
    """Whether the file has an anchor of what the structure tensor leaves open, or is of an earlier version."""
    lying = make()
    if anchored and lying.structure:
        row = inventory.instructions()[lying.experiment]
        true = published().measurement("sm_90", "live", lying.experiment)
        lying = dataclasses.replace(lying, structure=predict_hash(row, true.tables))
    bad, ours = folder(tmp_path / "bad", lying), folder(tmp_path / "ours", measured(MMA))
    before = tree(ours)
    done = CliRunner().invoke(main, ["merge", str(bad), "--results", str(ours)])
    assert done.exit_code == 4, done.output
    assert tree(ours) == before
    # nor does it answer where it lies: the published table does
    fragment = inventory.fragments()[f"{lying.experiment}.{sorted(lying.tables)[0]}"]
    over = over_published(bad).choose(fragment, ["sm_90"])
    assert over.source == "published"


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_two_slots_of_a_measured_multiply_can_be_exchanged(tmp_path, data):
    """Of whichever operand: the structure tensor or its anchor says so."""
    form = data.draw(st.sampled_from([MMA, SPARSE, WGMMA]))
    found = published().measurement("sm_90", "live", form)
    row = inventory.instructions()[form]
    found = dataclasses.replace(found, structure=predict_hash(row, found.tables))
    consistency.check(found, Results(tmp_path))
    operand = data.draw(st.sampled_from(sorted(found.tables)))
    table = found.tables[operand]
    one, other = data.draw(st.lists(st.integers(0, table.points - 1), min_size=2, max_size=2, unique=True))
    changed = exchanged(table, (one, other))
    if changed != table:
        lying = dataclasses.replace(found, tables={**found.tables, operand: changed})
        with pytest.raises(DataError, match=r"structure tensor|cannot be that of"):
            consistency.check(lying, Results(tmp_path))


def test_a_local_table_that_contradicts_the_published_one_says_so(tmp_path):
    """In every answer: of `show`, `where` and what is emitted."""
    local = folder(tmp_path / "ours", measured(MMA, "NVIDIA GH200", seed=3))
    for ask in (["show"], ["where", "--row", "1", "--col", "2"], ["emit", "--to", "markdown"]):
        name, *rest = ask
        done = CliRunner().invoke(main, [name, f"{MMA}.a", *rest, "--arch", "sm_90", "--results", str(local)])
        assert done.exit_code == 0, done.output
        assert "ANOTHER TABLE than the published one" in done.output, ask
