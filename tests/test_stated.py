"""What is drawn as a figure: B and E of every mma.sp form have an answer on every arch, the measured table."""

import json

from click.testing import CliRunner

from tcprobe.ask.absent import why_not
from tcprobe.cli import main
from tcprobe.isa import arch, inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.names import resolve
from tcprobe.references import claims
from tcprobe.store.cell import cell, stated
from tcprobe.store.choose import default

FACTORS = [f for row in inventory.of_family("mma.sp") for f in row.fragments if f.operand in "be"]


def test_b_and_e_are_answered_on_every_arch():
    layers, drawn = default(), 0
    for fragment in FACTORS:
        for row in ARCHS:
            if not fragment.target.on(row):
                continue
            one = cell(fragment, row.name, layers)
            if one.stated and all(isinstance(claim, str) for _, claim in claims(fragment, row)):
                drawn += 1
                if fragment.target.on(arch.arch("sm_90")):
                    assert one.table == cell(fragment, "sm_90", layers).table
                assert "as a figure, which is the table measured live on sm_90; not measured on" in one.evidence
    assert drawn >= 816 + 88 + 16  # before sm_107, on it, and those of fp8 with f16 accumulators, as of f32 ones


def test_why_not_says_where_it_is_drawn():
    fragment = resolve("mma.sp.m16n8k32.row.col.f32.f16.f16.f32.e").fragment
    words = why_not(fragment, arch.arch("sm_80"), default()).words
    assert "PTX ISA, section 9.7.14.6.2" in words
    assert "nor documented" not in words


def test_figures_are_by_shape_and_factors():
    """fp8 with f16 accumulators, which no arch that was measured live has, shares the figures of fp8 with f32 ones."""
    for operand in "be":
        narrow, wide = (
            resolve(f"mma.sp::ordered_metadata.m16n8k64.row.col.{d}.e4m3.e5m2.{d}.{operand}").fragment
            for d in ("f16", "f32")
        )
        found = stated(narrow, arch.arch("sm_120"))
        assert found
        assert found[1].meant == cell(wide, "sm_90", default()).table


def test_an_arch_alone_asks_for_all_its_multiplies():
    done = CliRunner().invoke(main, ["cost", "--arch", "sm_100", "--json"])
    assert done.exit_code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["arch"] for row in rows} == {"sm_100"}
    assert any(row["id"] == "tcgen05.mma.cta_group::1.kind::f16" and "B200" in row["evidence"] for row in rows)
