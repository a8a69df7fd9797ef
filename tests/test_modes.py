"""Numbers of several modes: seen in a loop's own runs, agreeing with either, said wherever they are used."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from cost_model import HOPPER, LOAD, MMA, Clock, codes, core
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.cost import find_cost
from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.loops.costs import prices
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import Context
from tcprobe.probes.timing import RUNS, slower_modes
from tcprobe.store import findings, kinds
from tcprobe.store.choose import alone
from tcprobe.store.kinds import cost
from tcprobe.store.results import Results

BULK = "cp.async.bulk.shared.global"


def reading_of(*runs, counted=None):
    """A loop's reading of one block: its runs, what counts of them, a clock."""
    return {"loop": np.array([[*runs, min(runs) if counted is None else counted, 1.7]])}


@given(st.floats(1, 1000), st.floats(1.06, 3), st.integers(0, 5), st.floats(0, 0.002), st.randoms())
def test_two_modes_are_seen_where_each_has_two_runs(fast, apart, slow_runs, noise, random):
    """In any order; one run alone is an outlier, and modes closer than devices that agree are one."""
    runs = [fast * (apart if j < slow_runs else 1) * (1 + noise * j / RUNS) for j in range(RUNS)]
    least = min(runs[slow_runs:], default=min(runs))
    random.shuffle(runs)
    found = slower_modes(reading_of(*runs, counted=least))
    if 2 <= slow_runs <= RUNS - 2:
        assert found["loop"][0, RUNS] == min(run for run in runs if run > fast * (apart + 1) / 2)
    else:
        assert found is None


def test_runs_of_one_mode_have_no_other():
    assert slower_modes(reading_of(10, 10.1, 10.2, 10.3, 10.4)) is None
    assert slower_modes(reading_of(10, 10.1, 12, 14, 16)) is None
    assert slower_modes(reading_of(10, 10, 16, 16, 16, counted=13)) is None


def test_loops_that_make_one_number_are_all_of_a_mode():
    one, other = reading_of(10, 10, 16, 16, 16)["loop"], reading_of(30, 30, 30, 30, 30)["loop"]
    alone_slow = {"short": one, "long": other}
    assert slower_modes(alone_slow, [("short", "long")]) is None
    assert slower_modes({"short": one, "long": 3 * one}, [("short", "long")])["long"][0, RUNS] == 48


def test_a_finding_says_both_modes_of_its_runs():
    """A multiply half as slow again in two runs of five: all cycles, so products a cycle, and no ratio of cycles."""
    experiment, tensor_core = dialogues("cost")[MMA], core({"a": 24, "b": 24, "c": 24}, 1.5, 6.0)
    reading = experiment.measure(Clock(tensor_core, codes(experiment.kernels())))
    context = Context(HOPPER, lambda _: None)
    plain = experiment.conclude(reading, context)
    assert plain.modes == {}
    slow = {name: cycles.copy() for name, cycles in reading.items()}
    for cycles in slow.values():
        if cycles.ndim == 2:
            cycles[:, 3:RUNS] *= 1.5
    found = experiment.conclude(slow, context)
    numbers = {name: cycles for name, cycles in cost.numbers(plain).items() if name != "random"}
    assert found.modes.keys() == numbers.keys()
    assert msgspec.structs.replace(found, modes={}, spread=0) == msgspec.structs.replace(plain, spread=0)
    for name, number in numbers.items():
        slower = number / 1.5 if name == "macs_per_cycle" else number * 1.5
        assert found.modes[name] == pytest.approx([number, slower], rel=1e-3)


def load_with(modes=None, **changes):
    """The published finding of a load with modes, as another device has it."""
    finding = findings.published_finding("cost", "sm_90", LOAD)
    body = msgspec.structs.replace(finding.body, modes=modes or {}, **changes)
    return replace(finding, body=body, provenance=finding.provenance | {"device": "NVIDIA H100"})


def test_another_device_agrees_with_either_mode_and_with_no_third():
    finding = findings.published_finding("cost", "sm_90", LOAD)
    cycles = finding.body.latency
    both = load_with({"latency": [cycles, cycles * 1.5]})
    slow = load_with(latency=cycles * 1.5)
    assert kinds.differences(finding, slow)
    assert kinds.differences(both, slow) == kinds.differences(slow, both) == []
    for wrong in (1.25, 1.6, 0.9):
        assert [part for part, *_ in kinds.differences(both, load_with(latency=cycles * wrong))] == ["latency"]
    third = load_with({"latency": [cycles * 3, cycles * 1.5]}, latency=cycles * 3)
    assert kinds.differences(both, third) == []


@pytest.mark.parametrize("factors", [(1.5, 2.0), (1.0, 1.04)])
def test_modes_hold_what_was_measured_and_are_apart(factors):
    cycles = findings.published_finding("cost", "sm_90", LOAD).body.latency
    with pytest.raises(DataError, match="modes"):
        kinds.check(load_with({"latency": [cycles * factor for factor in factors]}))
    with pytest.raises(DataError, match="none of its modes"):
        kinds.check(load_with({"no number": [1.0, 2.0]}))


def test_copies_at_clocks_alike_agree_by_time_too():
    """Cycles of L2 are of its own clock: 1,655 and 1,745 MHz are 5.4 % apart, and so are the cycles."""
    finding = findings.published_finding("cost", "sm_90", BULK)
    at = {clock: msgspec.structs.replace(finding.body, mhz=clock) for clock in (1655.0, 1745.0)}

    def trips(body, factor):
        made = [msgspec.structs.replace(trip, cycles=trip.cycles * factor) for trip in body.round_trip]
        return replace(finding, body=msgspec.structs.replace(body, round_trip=made))

    slow, fast = trips(at[1655.0], 1), trips(at[1745.0], 1745 / 1655)
    assert kinds.differences(slow, fast) == kinds.differences(fast, slow) == []
    assert kinds.differences(slow, trips(at[1655.0], 1745 / 1655))
    assert kinds.differences(slow, trips(at[1745.0], 1.2))


def test_modes_are_said_wherever_they_are_used(tmp_path):
    finding = findings.published_finding("cost", "sm_90", LOAD)
    cycles = finding.body.latency
    findings.save(Results(tmp_path), load_with({"latency": [cycles, cycles * 2]}))
    folders = alone(Results(tmp_path))
    words = f"latency {cycles:g} or {cycles * 2:g}"
    assert any(words in line for line in find_cost(LOAD, "sm_90", folders).in_words)
    asked = ["cost", LOAD, "--arch", "sm_90", "--results", str(tmp_path), "--only"]
    plain = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert plain["modes"] == {"latency": [cycles, cycles * 2]}
    for full in ((), ("--full",)):
        assert words in " ".join(CliRunner().invoke(main, [*asked, *full]).stdout.split())
    (opcode,) = finding.body.opcodes
    assert words in prices("sm_90", folders).measured[opcode].modes
