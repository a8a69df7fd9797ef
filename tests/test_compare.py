"""Comparing: what agrees is confirmed, what differs is shown, what is a known erratum says so."""

import csv

import pytest

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, same_but_renumbered, same_slots, verdicts
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select
from tcprobe.layout.csv import read_csv
from tcprobe.layout.table import slot_table
from tcprobe.references import register_mapping
from tcprobe.store.finding import Measurement
from tcprobe.store.results import published

RESULTS = published()


def measured(experiment, name="sm_90"):
    return RESULTS.measurement(name, "live", experiment)


def by_reference(fragment, measurement):
    return {v.reference: v for v in verdicts(fragment, measurement)}


def test_every_published_mma_fragment_is_confirmed_or_a_stated_erratum():
    counts = {CONFIRMED: 0, DIFFERS: 0}
    for fragment in select(family="mma", device=arch("sm_90")):
        if measured(fragment.experiment) is None:  # of a form that was added
            continue
        found = by_reference(fragment, measured(fragment.experiment))
        counts[found["PTX ISA"].verdict] += 1
        assert not found["PTX ISA"].unexplained
        assert found["CuTe"].verdict in (CONFIRMED, NOT_COVERED)
    assert counts[CONFIRMED] >= 278
    assert counts[DIFFERS] == 2


def test_an_erratum_is_shown_as_a_difference_with_its_explanation():
    name = "mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc"
    fragment = inventory.fragments()[f"{name}.a"]
    verdict = by_reference(fragment, measured(name))["PTX ISA"]
    assert verdict.verdict == DIFFERS
    assert "24576 of 32768 triples" in verdict.detail
    assert "measured D lane 0 i 2 = D[8, 0] accumulates A lane 0 i 32 = A[8, 32]" in verdict.detail
    assert "0x1F" in verdict.erratum
    assert not verdict.unexplained


def changed(table, first, second):
    """The table with the elements of two slots exchanged."""
    values = {}
    for name, column in table.values.items():
        new = list(column)
        new[first], new[second] = new[second], new[first]
        values[name] = tuple(new)
    return slot_table(table.threads, table.elements, values)


@pytest.mark.parametrize("operand", ["a", "b", "c", "d"])
def test_one_exchanged_pair_of_slots_is_found(operand):
    saved = measured("mma.m16n8k16.row.col.f32.f16.f16.f32")
    tables = dict(saved.tables) | {operand: changed(saved.tables[operand], 5, 77)}
    fragment = inventory.fragments()[f"{saved.experiment}.{operand}"]
    wrong = Measurement(saved.experiment, "sm_90", "live", "measured", saved.provenance, tables, saved.numbering)
    for name in ("PTX ISA", "CuTe"):
        verdict = by_reference(fragment, wrong)[name]
        assert verdict.unexplained, verdict


def test_a_renumbered_mma_is_still_confirmed():
    """Exchange rows 0 and 3 in A, C and D at once: the hardware cannot tell, so the references are confirmed."""
    saved = measured("mma.m16n8k16.row.col.f32.f16.f16.f32")
    swap = {0: 3, 3: 0}
    tables = dict(saved.tables)
    for operand in "acd":
        values = dict(tables[operand].values)
        values["row"] = tuple(swap.get(v, v) for v in values["row"])
        tables[operand] = slot_table(32, tables[operand].elements, values)
    renumbered = Measurement(saved.experiment, "sm_90", "live", "measured", saved.provenance, tables, "own")
    for operand in "abcd":
        fragment = inventory.fragments()[f"{saved.experiment}.{operand}"]
        assert by_reference(fragment, renumbered)["CuTe"].verdict == CONFIRMED


def test_wmma_accumulators_against_the_register_mapping():
    fragment = inventory.fragments()["wmma.m16n16k16.d.f32"]
    saved = measured(fragment.experiment)
    verdict = by_reference(fragment, saved)["register-mapping"]
    assert verdict.verdict == NOT_COVERED
    assert "states this layout for sm_75, sm_80" in verdict.detail
    ampere = Measurement(saved.experiment, "sm_80", "live", "measured", saved.provenance, saved.tables)
    assert by_reference(fragment, ampere)["register-mapping"].verdict == CONFIRMED
    volta = Measurement(saved.experiment, "sm_70", "live", "measured", saved.provenance, saved.tables)
    found = by_reference(fragment, volta)["register-mapping"]
    assert found.unexplained
    assert "of 256 slots agree" in found.detail
    assert "stated [" in found.detail
    assert "measured [" in found.detail


def write(path, rows, header=("lane", "i", "row", "col")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows] if header else rows)
    return path


def rows_of(table):
    return [(*divmod(s, table.elements), *cell) for s, cell in enumerate(table.cells)]


def test_csv_round_trip(tmp_path):
    table = register_mapping.claim(inventory.fragments()["wmma.m16n16k16.d.f16"], arch("sm_70")).printed
    for header in (("lane", "i", "row", "col"), None):
        assert read_csv(write(tmp_path / "t.csv", rows_of(table), header)) == table
    turned = [(c, r, i, lane) for lane, i, r, c in rows_of(table)]
    assert read_csv(write(tmp_path / "u.csv", turned, ("col", "row", "i", "lane"))) == table
    partial = read_csv(write(tmp_path / "v.csv", rows_of(table)[:-3]))
    assert same_slots(partial, table) == (253, 253, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("lane,i,row,col\n", "no slots"),
        ("lane,i,row\n0,0,0\n", "expected lane,i,row,col"),
        ("lane,i,row,col\n0,0,0\n", "line 2: 3 values"),
        ("lane,i,row,col\n0,0,0,x\n", "line 2: .*whole numbers"),
        ("lane,i,row,col\n0,0,0,-1\n", "line 2: a value is outside"),
        ("lane,i,row,col\n0,0,0,0\n\n0,0,1,0\n", "line 4: lane 0 i 0 is given twice"),
        ("lane,i,row,col\n99999999,0,0,0\n", "outside"),
        ("{}", "columns"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read_csv(path)
    assert str(path) in str(caught.value)


def test_renumbering_is_recognised():
    table = measured("mma.m16n8k8.row.col.f32.f16.f16.f32").tables["a"]
    values = dict(table.values) | {"row": tuple(15 - v for v in table.values["row"])}
    assert same_but_renumbered(slot_table(32, table.elements, values), table)
    assert not same_but_renumbered(changed(table, 0, 1), table) or changed(table, 0, 1) == table
    assert not same_but_renumbered(changed(table, 0, 9), table)
