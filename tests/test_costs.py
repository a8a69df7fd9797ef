"""Costs: a machine whose clock follows a model is read back; loops are proved by their machine code."""

import fnmatch
import json
import re
from collections import Counter
from pathlib import Path

import machine_code
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from cost_model import FP8, HOPPER, LOAD, MMA, WGMMA, Clock, codes, concluded, core

from tcprobe.ask.cost import InstructionCost, archs, stated_numbers, stated_on, table
from tcprobe.ask.cost import costs as costs_of
from tcprobe.ask.cost_words import rates
from tcprobe.ask.cost_words import words as said
from tcprobe.ask.plan_cost import MeasuredCosts, accesses_cost, sum_cycles
from tcprobe.check import published as published_rates
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, WARPGROUP, arch
from tcprobe.pages import numbers
from tcprobe.probes import cost_warpgroups, dialogues
from tcprobe.probes.cost_multiplies import BOX, FMA, ChainLoop
from tcprobe.probes.cost_warpgroups import COPIES, warpgroup_loops
from tcprobe.probes.experiment import Context, TimedCode
from tcprobe.probes.timing import IMAGE_WORDS, LONG, SHORT, Seen, prove
from tcprobe.question.terminal import fold
from tcprobe.references.cost import rows, rows_about
from tcprobe.run.runner import conclude
from tcprobe.sass.cubin import assemble, timed_code
from tcprobe.store import findings, kinds
from tcprobe.store.choose import layers
from tcprobe.store.finding import Finding, Key
from tcprobe.store.kinds.cost import FULL_LOAD
from tcprobe.store.results import Results, published
from tcprobe.text import Whole

SIMULATED = Path(__file__).parent / "data" / "costs"
ORIGIN = dict.fromkeys(("device", "driver", "cuda", "compiler", "ptx", "tcprobe"), "x")
FORMS = [
    MMA,
    FP8,
    WGMMA,
    LOAD,
    "mma.m8n8k4.row.col.f64.f64.f64.f64",
    "wmma.mma.row.col.m16n16k16.f32.f32",
    "mma.sp.m16n8k32.row.col.f32.f16.f16.f32",
    "stmatrix.m8n8.x4.shared.b16",
    "movmatrix.m8n8.trans.b16",
    "ld.shared.b128",
    "st.shared.b8",
    "shfl.sync.idx.b32",
    "cp.async.ca.16",
    "cp.async.bulk.shared.global",
    "cp.async.bulk.tensor.2d.shared.global",
    "wgmma.mma_async.sp.m64n64k64.s32.u8.u8",
    "mma.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("row", ARCHS, ids=lambda row: row.name)
def test_what_is_stated_of_an_arch_is_said_of_it_and_an_error_only_where_nothing_is(row):
    """Of every arch without a cost, every form that it has: rows of papers, or the peak of its maker."""
    folders, stated = layers(None), [one for one in rows() if one.arch == row.name]
    if folders.findings("cost", row.name):
        return
    known = stated_on(row.name, folders)
    forms = [form for form in inventory.instructions().values() if form.target.on(row)]
    for form in forms:
        there = any(fnmatch.fnmatchcase(form.id, one.forms) for one in stated)
        assert (form.id in known) == (there or (form.multiplies and bool(row.peak(form.type("a"))))), form.id
    for id_ in known[:: max(1, len(known) // 4)]:
        done = CliRunner().invoke(main, ["cost", id_, "--arch", row.name, "--json"])
        assert done.exit_code == 0, done.output
        (found,) = [json.loads(line) for line in done.stdout.splitlines()]
        nothing = {"interval": None, "latency": None, "one_warp": None, "macs_per_cycle": None, "curve": []}
        assert nothing.items() <= found.items()
        assert (found["status"], found["confidence"]["word"]) == ("published", "documented only")
        assert row.name in {one["arch"] for one in found["stated"]}
        words = " ".join(CliRunner().invoke(main, ["cost", id_, "--arch", row.name]).stdout.split())
        assert f"{id_} on {row.name}: not measured" in words
        assert f"stated for {row.name}: " in words
    listed = CliRunner().invoke(main, ["cost", "--table", "--arch", row.name, "--json"])
    assert listed.exit_code == (0 if known else 2)
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == known
    silent = next((form.id for form in forms if form.id not in known), None)
    if silent:
        assert CliRunner().invoke(main, ["cost", silent, "--arch", row.name]).exit_code == 2


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_120"])
def test_what_is_stated_of_an_arch_comes_first_and_of_others_by_full(name, sample):
    """Of a form that nobody measured there: its own arch, then its generation; a peak says what it means for one."""
    generations = {row.name: row.generation.partition(" ")[0] for row in ARCHS}
    for id_ in sample(stated_on(name, layers(None)), 40):
        (one,) = costs_of([id_], name, layers(None))
        devices = {row.device: row.arch for row in one.stated}
        for full in (False, True):
            lines = [line for line in said(one, full=full) if re.match(r"  stated( for \w+)?: ", line)]
            near = [devices[line.partition(": ")[2].partition(":")[0]] for line in lines]
            apart = [0 if there == name else 1 if generations[there] == generations[name] else 2 for there in near]
            assert apart == sorted(apart), (id_, lines)
            assert full or 2 not in apart
            assert not full or len(lines) == len(one.stated)
            for line in lines:
                if most := re.search("at most ([0-9]+) multiply-adds per cycle per SM", line):
                    assert line.endswith(f": at least {one.row.triples / int(most[1]):g} cycles each")


@pytest.mark.parametrize("name", archs(layers(None)))
def test_no_rate_that_is_answered_exceeds_the_peak(name):
    """Measured ones may, by what the ends of a loop are off: the peak bounds the answer, which says so."""
    device, costs_there = arch(name), costs_of([], name, layers(None))
    for one in costs_there:
        row = inventory.instructions().get(one.id.removeprefix(f"{FULL_LOAD}."))
        most = device.peak(row.type("a")) if row and row.multiplies else None
        if not most:
            assert one.above is None
            continue
        plain, measured = one.to_json(), one.sourced.finding.body.macs_per_cycle
        intervals = plain["interval"] if isinstance(plain["interval"], list) else [plain["interval"]]
        points = [*filter(None, intervals), *plain["curve"], *plain.get("forms", []), *plain.get("clocks", [])]
        assert points
        assert all(row.triples / point["cycles"] <= most for point in points), one.id
        assert (plain["macs_per_cycle"] or 0) <= most
        assert ("bound_by_peak" in plain) == bool(measured and measured > most)
        for full in (False, True):
            assert any("bounded by the stated peak" in line for line in said(one, full=full)) == bool(one.above)
        if one.above:
            assert plain["bound_by_peak"] == {"peak": most, "measured": measured}
    assert all(0 < line.share <= 1 for line in table(costs_there))
    opcodes = {opcode for one in costs_there for opcode in one.body.opcodes if "MMA" in opcode}
    shares = [share for opcode in sorted(opcodes) if (share := published_rates.share(name, opcode))]
    assert shares
    assert all(share.macs <= share.most for share in shares)


def test_plans_say_what_is_stated_of_their_accesses():
    found = accesses_cost("ld.shared.b32", 4, 4, MeasuredCosts("sm_80", layers(None)))
    assert found.missing == ("ld.shared.b32 on sm_80",)
    assert "A100: shared memory load 29 cycles" in str(found)
    assert found.to_json()["stated"] == list(found.stated)
    assert sum_cycles([found, found]).stated == found.stated * 2
    assert not accesses_cost("ldmatrix.x4", 4, 4, MeasuredCosts("sm_80", layers(None))).stated


def test_an_argument_in_local_memory_is_part_of_a_call_and_more_is_spilled():
    """Each call may bring one store; one more in a round, or one where a single copy has none, is no such argument."""
    call = {"CALL.ABS.NOINC": 1, "STL": 1}
    loop = {opcode: 16 * n for opcode, n in call.items()}
    prove("c1", Seen(loop, {}), loop)
    with pytest.raises(ProbeError, match="STL x 17"):
        prove("c1", Seen({**loop, "STL": 17}, {}), loop)
    for around in ({}, {"STL": 16}):
        with pytest.raises(ProbeError, match="spills"):
            prove("c1", Seen(loop, {}), {"CALL.ABS.NOINC": 16}, around)


def test_a_round_has_few_copies_where_compilers_take_long():
    """Each loop keeps as many in flight as it is named for, and a round trip has whole groups."""
    for row in inventory.executed_by(WARPGROUP):
        for one in warpgroup_loops(row) if row.described else ():
            assert one.copies == COPIES or row.shape.n >= 96
            assert not one.trip or (one.copies % one.in_flight == 0 and one.copies >= 4)


@pytest.mark.full
@pytest.mark.parametrize("latency", [{"a": 24, "b": 25, "c": 26}, {"a": 33, "b": 33, "c": 18}])
@pytest.mark.parametrize("interval", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("noise", [0, 3])
def test_any_tensor_core_is_read_back(latency, interval, noise):
    found = concluded(MMA, core(latency, interval, 6.25), noise=noise)
    assert found.latency == pytest.approx(latency, rel=0.01)
    assert found.interval.cycles == pytest.approx(interval, rel=0.02)
    assert found.one_warp == pytest.approx(6.25, rel=0.02)
    assert found.opcodes == {"HMMA.16816.F32": 1}
    assert found.macs_per_cycle == pytest.approx(2048 / interval, rel=0.02)
    assert not found.emulated
    assert not found.refused
    assert found.spread < 0.02
    assert found.mhz == pytest.approx(1700, rel=0.01)
    assert {(p.warps, p.chains) for p in found.curve} == {(w, c) for w in (1, 4, 8, 16, 32) for c in (1, 2, 4, 8)}


@pytest.mark.full
def test_the_end_of_a_round_counts_for_little():
    """There the compiler waits for results: 20 cycles in one warp."""
    tensor_core = core({"a": 24, "b": 24, "c": 24}, 1.5, 6.0)
    found = concluded(MMA, lambda op, row: tensor_core(op, row) + 20 / op.copies)
    assert found.interval.cycles == pytest.approx(1.5, rel=0.015)
    assert found.one_warp == pytest.approx(6.0, abs=0.2)


@pytest.mark.full
def test_an_emulated_form_counts_its_changing_loops():
    found = concluded(FP8, core({"a": 67, "b": 64, "c": 9}, 8.75, 8.75))
    assert found.emulated
    assert found.opcodes == {"F2FP.F16.E4M3.UNPACK_B": 12, "HMMA.16816.F32": 2, "FADD": 4}
    assert found.latency == pytest.approx({"a": 67, "b": 64, "c": 9})
    assert found.at_most == ["c"]


@pytest.mark.full
def test_a_warpgroup_is_read_back():
    def cycles(op, row):
        pairs = {"both": 150, "first": 128, "second": 96}
        if op.variant.split(".")[0] in pairs:
            return pairs[op.variant.split(".")[0]]
        groups, trip = int(row[0]) // WARPGROUP, op.variant[1] == "t"
        place = {"s": 10, "r": 0}[op.variant[0]]
        count = int(op.variant[2:].removesuffix(".mn"))
        return (120 + 128 * (count - 1) * groups + place) / count if trip else (128 + place) * groups

    found = concluded(WGMMA, cycles)
    assert {(f.a, f.warpgroups, f.in_flight): f.cycles for f in found.interval} == {
        (a, w, n): 138 if a == "shared" else 128 for a in ("shared", "registers") for w in (1, 2) for n in (2, 4, 8)
    }
    trips = {(f.a, f.warpgroups, f.in_flight): f.cycles for f in found.round_trip}
    assert trips["shared", 1, 1] == 130
    assert trips["registers", 2, 4] == 120 + 6 * 128
    assert {(f.swizzle, f.major) for f in found.forms} == {(s, m) for s in (0, 32, 64, 128) for m in ("k", "mn")}
    assert found.macs_per_cycle == 2048
    assert {name: pair.hidden for name, pair in found.overlap.items()} == dict.fromkeys(
        (FMA, BOX), (128 + 96 - 150) / 96
    )


@pytest.mark.full
def test_the_clock_under_full_load_is_read_back():
    def cycles(op, row):
        assert int(row[0]) == 256
        return 8 * 1.5

    body = concluded(f"{FULL_LOAD}.{MMA}", cycles, rate=1.25)
    assert [(c.data, c.mhz, c.cycles) for c in body.clocks] == [("zeros", 1250, 1.5), ("random", 1250, 1.5)]
    assert body.opcodes == {"HMMA.16816.F32": 1}
    cost = InstructionCost(f"{FULL_LOAD}.{MMA}", "sm_90", body, "")
    assert "all SMs at work, random: 1250 MHz, one every 1.5 cycles per SM" in "".join(said(cost))
    assert cost.to_json()["clocks"][0] == {"data": "zeros", "mhz": 1250.0, "cycles": 1.5}


@pytest.mark.parametrize("row", cost_warpgroups.rows(), ids=lambda row: row.id)
def test_a_load_of_numbers_is_finite_and_random(row):
    image = cost_warpgroups.numbers(row.type("a"))
    assert image.shape == (IMAGE_WORDS,)
    assert len(np.unique(image)) > IMAGE_WORDS / 2
    kind = {"f16": np.float16, "tf32": np.float32, "f64": np.float64, "e4m3": ml_dtypes.float8_e4m3fn, "s8": np.int8}
    held = np.repeat(image, 2) if row.type("a") == "f64" else image
    assert np.isfinite(held.view(kind[row.type("a")]).astype(float)).all()


@pytest.mark.full
def test_a_move_is_read_back():
    def cycles(op, row):
        warps, passes = int(row[0]) // WARP, max(1, int(row[2]) // 16)
        return 34 if op.variant == "chain" else max(34 / 8, 4 * warps * passes)

    found = concluded(LOAD, cycles)
    assert found.latency == 34
    assert found.interval.cycles == 4
    assert [(p.passes, p.cycles) for p in found.passes] == [(1, 4), (2, 8), (4, 16), (8, 32)]


@pytest.mark.full
def test_bulk_copies_are_read_back():
    found = concluded("cp.async.bulk.shared.global", lambda _, row: 300 + int(row[2]) / 64)
    assert [(t.bytes, t.cycles) for t in found.round_trip] == [(16 << n, 300 + (16 << n) / 64) for n in range(13)]


def test_overlap_is_what_the_shorter_hides():
    def cycles(op, row):
        return {"both": 16, "first": 12, "second": 8}.get(op.variant.split(".")[0]) or core(
            {"a": 24, "b": 24, "c": 24}, 1.5, 6.25
        )(op, row)

    found = concluded(MMA, cycles).overlap
    assert set(found) == {LOAD, "fma.rn.f32"}
    assert found[LOAD].hidden == pytest.approx(0.5)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("id_", FORMS)
def test_the_loops_of_every_kind_hold_what_was_written(id_):
    """Numbers of one cycle and more that no peak forbids: nothing is refused but what is said below."""
    found = concluded(id_, lambda op, row: 2000.0)
    assert not found.refused
    assert found.opcodes


# what cannot be true


def finding(body, subject=MMA):
    return Finding("cost", subject, "sm_90", "live", "measured", ORIGIN, body)


@pytest.fixture(scope="module")
def body():
    return concluded(MMA, core({"a": 24, "b": 24, "c": 24}, 1.5, 6.25))


def test_a_sound_body_is_taken(body):
    kinds.check(finding(body))


def test_a_number_beyond_the_peak_is_none():
    made = concluded(MMA, core({"a": 24, "b": 24, "c": 24}, 0.9, 0.9))
    with pytest.raises(DataError, match="more than the 2048"):
        kinds.check(finding(made))


def test_runs_that_differ_are_noticed():
    made = concluded(MMA, core({"a": 24, "b": 24, "c": 24}, 1.5, 6.25), noise=30_000)
    with pytest.raises(DataError, match="used by others"):
        kinds.check(finding(made))


def test_every_form_has_an_experiment():
    """Loads and stores of tensor memory have a probe of their tables, none of their cost."""
    known = dialogues("cost")
    probed = [row for row in inventory.instructions().values() if not row.unprobed and row.family != "tcgen05"]
    assert not [row.id for row in probed if row.id not in known]


def test_a_loop_is_found_between_the_clocks():
    lines = [
        (0, "CS2R R2, SR_CLOCKLO"),
        (16, "HMMA.16816.F32 R4, R4, R2, R4"),
        (32, "@P0 BRA 0x10"),
        (48, "CS2R R2, SR_CLOCKLO"),
        (64, "@P1 BRA 0x0"),
    ]
    assert timed_code(lines) == TimedCode(("HMMA.16816.F32", "BRA"), ())
    assert timed_code(lines[1:3]) == TimedCode((), ())
    assert Counter(timed_code([lines[0], lines[1], lines[3]]).beside) == {"HMMA.16816.F32": 1}


def test_the_difference_of_counts_is_the_loop():
    assert (LONG - SHORT) % 2 == 0


@pytest.mark.full
@pytest.mark.parametrize("id_", [MMA, WGMMA, LOAD, "cp.async.bulk.shared.global"])
def test_a_body_is_read_back_from_its_file(id_, tmp_path):
    made = concluded(id_, lambda op, row: 2000.0)
    findings.save(Results(tmp_path), finding(made, id_))
    assert findings.read(Results(tmp_path), Key("cost", "sm_90", "live", id_)).body == made


def test_a_body_that_cannot_be_true_fails_its_own_experiment():
    experiment = dialogues("cost")[MMA]
    bench = Clock(core({"a": 24, "b": 24, "c": 24}, 0.9, 0.9), codes(experiment.kernels()))
    with pytest.raises(ProbeError, match="more than the 2048"):
        conclude(experiment, experiment.measure(bench), Context(HOPPER, lambda _: None), "live", ORIGIN)


def test_references_stand_beside_what_is_measured(body):
    pairs = {p.row.source: p for p in stated_numbers([InstructionCost(MMA, "sm_90", body, "x")])}
    assert pairs["arXiv 2402.13499, table VII"].agrees
    assert {row.arch for row in rows_about(MMA)} >= {"sm_80", "sm_89", "sm_90", "sm_120"}
    known = dialogues("cost")
    assert not [r.forms for r in rows() if r.number and not any(fnmatch.fnmatchcase(id_, r.forms) for id_ in known)]


def test_an_answer_is_short_and_every_number_is_in_the_full_one():
    """In 80 columns: 14 lines a form, 15 of modes, 60 for all; each number of the body stands in what --full prints."""

    def lines_of(texts):
        return [line for text in texts for line in ([text] if isinstance(text, Whole) else fold(text, 80))]

    everything = costs_of([], "sm_90", layers(None))
    for one in everything:
        lines = lines_of(said(one))
        assert len(lines) <= 14 + bool(one.body.modes), one.id
        assert max(map(len, lines)) <= 80, one.id
    assert len(lines_of(rates(table(everything)))) <= 60
    for one in everything[::60]:
        whole = " ".join(said(one, full=True))
        points = [*one.body.curve, *one.body.forms, *one.body.round_trip]
        points += one.body.interval if isinstance(one.body.interval, list) else []
        assert all(f"{point.cycles:g}" in whole for point in points), one.id


def test_commands_answer_from_a_folder():
    def answered(*call):
        done = CliRunner().invoke(main, [*call, "--results", str(SIMULATED), "--only"])
        assert done.exit_code in (0, 1), done.output
        return done.output

    assert "latency 24 cycles, from A, B or C to D" in answered("cost", MMA)
    assert "latency to D, from A 24, B 24, C 24 cycles" in answered("cost", MMA, "--full")
    assert "hidden" in answered("cost", MMA, "--with", "ldmatrix.x4")
    assert answered("cost", "HMMA.16816.F32").count(" on sm_90: ") == 2
    assert "emulated" in answered("cost", "--table")
    assert "agrees" in answered("compare", "--cost")
    assert "| `mma.m16n8k16.row.col.f32.f16.f16.f32` | 24, 24, 24 |" in "\n".join(
        numbers.costs_page(Results(SIMULATED))
    )


@pytest.mark.full
def test_clocks_under_load_are_asked_for_by_their_name():
    for words in ("HMMA.16816.F32", "mma.m16n8k16*", MMA):
        assert FULL_LOAD not in CliRunner().invoke(main, ["cost", words]).output
    assert CliRunner().invoke(main, ["cost", f"{FULL_LOAD}*", "--json"]).output.count(f'"{FULL_LOAD}.') == 8


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("spoken", "ids"),
    [
        ("m16n8k16 bf16", ["mma.m16n8k16.row.col.f32.bf16.bf16.f32"]),
        ("mma.sync m16n8k16 bf16 h100", ["mma.m16n8k16.row.col.f32.bf16.bf16.f32"]),
        ("ldmatrix x4", ["ldmatrix.m8n8.x4.shared.b16", "ldmatrix.m8n8.x4.trans.shared.b16"]),
        ("wgmma m64n256k16 bf16", ["wgmma.mma_async.m64n256k16.f32.bf16.bf16"]),
        ("ld.shared 128", ["ld.shared.b128"]),
        ("cp.async 16", ["cp.async.ca.16", "cp.async.cg.16"]),
        ("tma 2d", [f"cp.async.bulk.tensor.2d.{to}" for to in ("global.shared", "shared.global")]),
        ("movm", ["movmatrix.m8n8.trans.b16"]),
    ],
)
def test_words_mean_one_instruction_quoted_or_not(spoken, ids):
    for arguments in (spoken.split(), [spoken]):
        done = CliRunner().invoke(main, ["cost", *arguments, "--json"])
        assert sorted(json.loads(line)["id"] for line in done.output.splitlines()) == sorted(ids)


def test_what_is_not_there_is_said():
    for call, words in (
        (("cost",), "give an INSTRUCTION"),
        (("cost", "nothing"), "no cost loop for 'nothing'"),
        (("cost", "wgmma", "m64n8k16", "bf16"), "no cost of 'wgmma m64n8k16 bf16'"),
        (("cost", MMA, "--with", "shfl"), "was not timed with 'shfl'"),
        (("cost", MMA, "--arch", "sm_70"), "on sm_70"),
        (("cost", "--table", "--with", "x"), "--with needs"),
    ):
        done = CliRunner().invoke(main, [*call, "--results", str(SIMULATED), "--only"])
        assert done.exit_code == 2
        assert words in done.output


LINK = ("mma.m16n8k8.row.col.f32.f16.f16.f32", "mma.sp.m16n8k32.row.col.s32.s8.s8.s32", MMA)


def _stated_cycles(id_, chains):
    """What the code states of a link: cycles of each of its instructions and NOPs, in the loop's middle."""
    kernel = ChainLoop(inventory.instructions()[id_], chains=chains).loop().kernel()
    codes, refused = assemble(machine_code.TOOLS, [kernel], arch("sm_90"))
    assert not refused
    code = codes[kernel.name]
    words = [int.from_bytes(code.raw[at : at + 16], "little") for at in range(0, len(code.raw), 16)]
    multiplies = [at for at, text in enumerate(code.lines) if "MMA" in text]
    first, last = multiplies[32], multiplies[32 + chains]
    return [(code.lines[at].split()[0], words[at] >> 105 & 15) for at in range(first, last)]


@pytest.mark.sampled(3)
@machine_code.needs_tools
@pytest.mark.parametrize("id_", LINK)
def test_a_chain_states_the_same_cycles_alone_and_beside_another(id_):
    """So two chains take what it states; alone it takes one more where a NOP states a single cycle (docs/cost.md)."""
    body = json.loads((published().root / "sm_90/live/cost" / f"{id_}.json").read_text())["body"]
    two = next(2 * p["cycles"] for p in body["curve"] if (p["warps"], p.get("chains", 1)) == (1, 2))
    alone, beside_another = (_stated_cycles(id_, chains) for chains in (1, 2))
    states = sum(cycles for _, cycles in alone)
    assert states == sum(cycles for _, cycles in beside_another)
    assert two == pytest.approx(states, abs=0.2)
    assert body["latency"]["c"] == pytest.approx(states + (("NOP", 1) in alone), abs=0.1)
