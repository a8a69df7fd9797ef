"""Multiplies of f64 with .rz, .rm and .rp: asked by name, answered from what a GPU gave, refused where PTX has none."""

import json

import pytest
from click.testing import CliRunner

from tcprobe.arithmetic.f64_rounding import ROUNDINGS, measured
from tcprobe.cli import main
from tcprobe.isa import inventory

FORMS = [
    row
    for row in inventory.instructions().values()
    if row.multiplies and row.fragments and row.fragment("d").type == "f64"
]


@pytest.mark.parametrize("row", FORMS, ids=lambda row: row.id)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_form_answers_with_each_rounding(row, rounding):
    done = CliRunner().invoke(main, ["numerics", f"{row.id} {rounding}", "--arch", "sm_90", "--json"])
    assert done.exit_code == 0, done.output
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert found["id"] == row.id
    assert found["result"]["rounding"] in ROUNDINGS[rounding]
    assert (found["overflow"] == "infinity") == (rounding == "rn")
    counted = measured(row.id, rounding)
    assert counted.apart == 0 < counted.results
    assert (f"{counted.results:,}" in found["evidence"]) == (rounding != "rn")


def test_a_modifier_may_stand_in_the_name_and_is_of_f64_alone():
    spelled = CliRunner().invoke(main, ["numerics", "mma.m8n8k4.row.col.rz.f64.f64.f64.f64"])
    assert "fma.rz.f64" in spelled.stdout
    assert "fma.rz.f64" in CliRunner().invoke(main, ["numerics", "wmma", "m8n8k4", "f64", "rz"]).stdout
    refused = CliRunner().invoke(main, ["numerics", "m16n8k16", "bf16", "rz"])
    assert refused.exit_code == 2
    assert "of f64 alone" in refused.stderr
    computed = CliRunner().invoke(main, ["numerics", FORMS[0].id, "rz", "--a", "1,2,3,4", "--b", "1,1,1,1"])
    assert computed.exit_code == 2
    assert "with .rn only" in computed.stderr
    several = CliRunner().invoke(main, ["numerics", "wmma m8n8k4 f64 rp", "--arch", "sm_80"])
    assert several.exit_code == 2
    assert "f64.f64.f64.f64 rp'" in several.stderr
