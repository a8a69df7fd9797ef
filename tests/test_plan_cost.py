"""Cycles of plans: from measured costs alone, in proportion to wavefronts; what is not measured is said."""

import json

import pytest
from click.testing import CliRunner

from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.convert.conversion import plan_conversion
from tcprobe.ask.cost import find_cost
from tcprobe.ask.load.straight import straight_load as straight
from tcprobe.ask.path.plan import PathOptions, plan_path, request, step_cycles
from tcprobe.ask.plan_cost import (
    MeasuredCosts,
    PlanCycles,
    accesses_cost,
    busiest,
    copy_cost,
    free_wavefronts,
    measured_name,
    moves_cost,
)
from tcprobe.ask.prices import prices
from tcprobe.cli import main
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import accesses
from tcprobe.layout.banks import designed_rules
from tcprobe.store.cell import load
from tcprobe.store.choose import alone, default
from tcprobe.store.kinds.cost import Point
from tcprobe.store.results import Results

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
NONE = ("atom.shared.add.u32", "atom.shared.exch.b32", "red.shared.add.u32")  # which no experiment times
HOPPER = MeasuredCosts("sm_90", default())


@pytest.mark.parametrize("name", [n for n in accesses() if n not in NONE])
def test_every_access_has_its_measured_cost(name):
    cost = find_cost(measured_name(name), "sm_90", HOPPER.layers)
    assert isinstance(cost.body.interval, Point)
    each = free_wavefronts(name)
    found = accesses_cost(name, 10, 10 * each, HOPPER)
    assert found.interval == pytest.approx(10 * cost.body.interval.cycles, abs=0.06)
    assert found.latency == cost.body.latency
    assert not found.missing


@pytest.mark.parametrize("name", ["ldmatrix.x1", "ldmatrix.x4.trans", "stmatrix.x2", "stmatrix.x4"])
def test_conflicts_cost_what_was_timed_pass_by_pass(name):
    body = find_cost(measured_name(name), "sm_90", HOPPER.layers).body
    for one in body.passes:
        found = accesses_cost(name, 100, 100 * one.passes * free_wavefronts(name), HOPPER)
        assert found.interval == pytest.approx(100 * one.cycles, rel=0.02)


@pytest.mark.parametrize("name", accesses())
def test_wavefronts_without_conflicts_are_what_the_rule_says(name):
    """Lanes side by side: as many as the designed rule counts, but for atomics, where each lane is one."""
    if name in NONE:
        pytest.skip("not timed")
    from tcprobe.layout.banks import judge

    row = accesses()[name]
    at = [row.bytes * lane if lane < row.lanes else None for lane in range(32)]
    assert designed_rules()[name]
    assert judge(name, at).cycles == free_wavefronts(name)


def test_what_is_not_measured_is_said_and_has_no_number():
    for costs_on in (MeasuredCosts("sm_80", HOPPER.layers), MeasuredCosts("sm_90", None)):
        assert accesses_cost("ldmatrix.x4", 1, 4, costs_on) == PlanCycles(missing=(f"ldmatrix.x4 on {costs_on.arch}",))
    assert accesses_cost(NONE[0], 1, 32, HOPPER).interval is None
    assert accesses_cost("cp.async.16", 1, 8, HOPPER) == PlanCycles(missing=("what bank conflicts add to cp.async.16",))
    assert moves_cost("shfl.sync.idx.b32", 4, MeasuredCosts("sm_80", HOPPER.layers)).missing
    [missing] = copy_cost("cp.async.bulk.shared.global", 48, HOPPER).missing
    assert missing == "cp.async.bulk.shared.global of 48 bytes on sm_90"
    assert copy_cost("cp.async.bulk.shared.global", 64, HOPPER).round_trip


def cycles_of(**more):
    options = {"tile": "64x64", "contiguous": "row", "placed": "sw:3,4,3"} | more
    plan = plan_path(request(load(f"{F16}.a", more.pop("arch", "sm_90")), PathOptions(**options)))
    return [step_cycles(plan.request, step) for step in plan.steps]


def test_a_path_names_what_it_leaves_out():
    fill, read = cycles_of(fill="plain")
    assert fill.missing == ("ld.global.v4.b32",)
    assert fill.interval == pytest.approx(64, rel=0.02)
    assert read.interval == pytest.approx(64, rel=0.02)
    box, _ = cycles_of(fill="tma")
    assert box.round_trip
    assert box.missing == ("what SWIZZLE_128B adds",)
    plain, _ = cycles_of(fill="tma", placed="plain")
    assert plain == PlanCycles(round_trip=box.round_trip)
    many, _ = cycles_of(fill="tma", placed="pad:128")
    assert many.round_trip is None
    assert "128 bytes" in many.missing[0]
    assert cycles_of(placed="plain")[1].interval == pytest.approx(512, rel=0.02)


def test_loads_and_conversions_say_what_they_know():
    cell = load(f"{F16}.a", "sm_90")
    assert set(straight(cell, "row").cycles.values()) == {PlanCycles(missing=("loads from global memory",))}
    int8 = "mma.m16n8k32.row.col.s32.s8.s8.s32"
    found = plan_conversion(load(f"{int8}.d", "sm_90"), load(f"{int8}.a", "sm_90"))
    half = prices("sm_90", HOPPER.layers)["PRMT"].interval.cycles  # as of SEL: both need the same pipe
    assert found.cycles.interval == pytest.approx((found.costs["prmt"] + found.costs["select"]) * half, abs=0.06)
    assert found.cycles.missing == ("cvt",)  # of four numbers into bytes
    halves = plan_conversion(load(f"{F16}.d", "sm_90"), load(f"{F16}.a", "sm_90"))
    one = prices("sm_90", HOPPER.layers)["F2FP.F16.F32"].interval.cycles
    assert halves.cycles == PlanCycles(halves.costs["cvt"] * one)
    older = plan_conversion(load(f"{int8}.d", "sm_80"), load(f"{int8}.a", "sm_80"))
    assert older.cycles.interval is None
    assert older.cycles.missing == ("shfl.sync.idx.b32 on sm_80", "cvt", "prmt", "select")


def test_pipes_work_side_by_side():
    lanes, no_price = ("lanes", PlanCycles(4.0)), ("cvt", PlanCycles(missing=("cvt",)))
    both = [("alu", PlanCycles(2.0)), ("alu", PlanCycles(3.0))]
    assert busiest([lanes, *both, no_price]) == PlanCycles(5.0, missing=("cvt",))
    assert busiest([lanes]) == PlanCycles(4.0)
    assert busiest([no_price]).interval is None


def test_commands_answer_from_the_folder_that_is_asked(tmp_path):
    """An empty folder alone has no costs: nothing of what is published leaks into the answer."""
    rules = rules_for("sm_90", alone(Results(tmp_path)))
    assert accesses_cost("ldmatrix.x4", 1, 4, MeasuredCosts.of(rules)).missing
    call = ["banks", "--tile", "32x32", "--type", "f32", "--with", "st.shared.b32@rows", "--json"]
    [found] = json.loads(CliRunner().invoke(main, call).stdout)["cycles"]
    assert found["interval"] == pytest.approx(32, rel=0.02)
    assert found["not_measured"] == []
    assert arch(rules.for_arch).name == "sm_90"
