"""Other people's measurements: accepted whole or not at all, kept by run, conflicts named."""

import dataclasses
import json
import random
import shutil

import emulation
import pytest
from click.testing import CliRunner

from tcprobe.cli import main
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.probes.structure import predict
from tcprobe.run.merge import merge
from tcprobe.store.cell import load
from tcprobe.store.choose import alone
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
    structure = predict(row, tables).digest() if row and row.multiplies else None
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
    assert (done.exit_code, "`tcprobe site` makes pages of" in done.output) == (2, True)


@pytest.mark.parametrize("case", ["missing", "empty", "itself"])
def test_mistakes(tmp_path, case):
    ours = folder(tmp_path / "ours", measured(MMA))
    (tmp_path / "empty").mkdir()
    path = {"missing": tmp_path / "missing", "empty": tmp_path / "empty", "itself": ours}[case]
    with pytest.raises(UsageError, match=str(path)):
        merge([path], Results(ours))


def test_what_an_h200_measured_can_be_merged_whole(tmp_path):
    """Every structure tensor that is published is the one of its tables."""
    for part in ("sm_90", "layouts"):
        shutil.copytree(published().root / part, tmp_path / "copy" / part)
    done = merge([tmp_path / "copy"], Results(tmp_path / "ours"))
    measured_ones = [m for k in published().methods("sm_90") for m in published().measurements("sm_90", k)]
    assert done.conflicts == []
    assert sum(done.added.values()) == sum(m.status == "measured" for m in measured_ones)
    assert {run.root.name for run in Results(tmp_path / "ours").runs()} == set(done.added)
