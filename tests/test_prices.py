"""Prices of opcodes: loops hold what was written, a model is found again, answers are whole."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from click.testing import CliRunner
from cost_model import HOPPER, Clock
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.prices import named, price_of, prices
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import Context
from tcprobe.probes.prices import AREA, BASE, CHAINS, PAIR_WARPS, STANDING, opcodes, prove, role, sound
from tcprobe.probes.ptx import WORD_BYTES, Recoding, module
from tcprobe.probes.timing import Seen
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import register_reads, timed_codes
from tcprobe.sass.decode import decode
from tcprobe.sass.elf import code_by_kernel
from tcprobe.sass.toolchain import Ptxas
from tcprobe.store import findings, kinds
from tcprobe.store.choose import alone
from tcprobe.store.finding import PROVENANCE, Finding
from tcprobe.store.findings import save
from tcprobe.store.kinds.cost import Point
from tcprobe.store.results import Results, published

KIND = "prices"
ORIGIN = dict.fromkeys(PROVENANCE, "x") | {"device": "a model"}


def raw_code(kernels):
    """Machine code by kernel, with what no PTX becomes, by ptxas of this environment."""
    tools = toolchain.find()
    cubin, why = Ptxas(tools.ptxas, tools.limit).assemble(HOPPER, module(kernels, HOPPER), optimised=True)
    assert cubin, why
    codes = code_by_kernel(cubin)
    return {k.name: k.recoded(codes[k.name]) for k in kernels}


def machine_code(kernels):
    """Timed code by kernel."""
    return timed_codes(raw_code(kernels), HOPPER)


@pytest.fixture(scope="module")
def read():
    """Machine code of the kernels of an opcode, each once."""
    made = {}

    def of(id_):
        if id_ not in made:
            made[id_] = machine_code(dialogues(KIND)[id_].kernels())
        return made[id_]

    return of


def concluded(id_, cycles, read):
    experiment = dialogues(KIND)[id_]
    return experiment.conclude(experiment.measure(Clock(cycles, read(id_))), Context(HOPPER, lambda _: None))


def finding_of(id_, body):
    return Finding(KIND, id_, "sm_90", "live", "measured", ORIGIN, body)


def loops_alone(id_):
    """Those of an opcode alone, and beside others."""
    return {v: run for v, run in dialogues(KIND)[id_].runs().items() if not v.startswith("only_")}


@cache
def code_of_loops(ids):
    """Timed code of the loops of opcodes: nvdisasm, which is slow to start, runs once."""
    made = [raw_code([run.kernel for run in loops_alone(id_).values()]) for id_ in ids]
    return timed_codes({name: raw for codes in made for name, raw in codes.items()}, HOPPER)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("id_", list(opcodes()))
def test_every_loop_alone_holds_its_copies_and_no_more(id_, together):
    """Of every line: the loops of it alone, in both lengths, and of at least half of the pairs."""
    experiment, runs = dialogues(KIND)[id_], loops_alone(id_)
    code = code_of_loops(together)
    right = Counter()
    for variant, run in runs.items():
        way, _, length = variant.rpartition("_")
        copies = {experiment.opcode: int(length)} if length.isdigit() else {}
        if variant.startswith("with_"):
            mixed = experiment.mixed(variant.removeprefix("with_"))
            copies = Counter(chains.opcode for chains in mixed)
        try:
            prove(variant, Seen.from_code(code[run.kernel.name]), copies)
            right[variant[:4] == "with"] += 1
        except ProbeError:
            assert variant.startswith("with_") or way.startswith(("a1", "b1", "c1")), variant
    assert right[False] >= 2
    assert right[True] >= len(experiment.partners) / 2


@pytest.mark.parametrize("id_", [row.id for row in opcodes().values() if row.memory[0] == "shared"][::4])
def test_words_of_shared_memory_hold_the_address_of_the_access_that_they_are_in(id_):
    """So whatever a chain loads is an address of its own lane, aligned to its width; and a partner stores elsewhere."""
    experiment = dialogues(KIND)[id_]
    stride = experiment.opcode.memory[1]
    runs = experiment.runs()
    for variant, run in runs.items():
        lines = [line.strip() for line in run.kernel.text.splitlines()]
        own = f"mad.lo.u32 %s0, %address, {stride}, {BASE};"
        assert variant.startswith("only_") or own in lines
        masks = {line for line in lines if line.startswith("and.b32 %low, %low, -")}
        assert masks <= {f"and.b32 %low, %low, -{size};" for size in (4, stride)}
        if variant.startswith("with_"):
            assert f"and.b32 %low, %low, -{stride};" in masks
    stored = runs.get("with_STS")
    assert stored is None or f"mad.lo.u32 %os0, %address, 4, {BASE + AREA};" in stored.kernel.text


def test_points_below_the_plateau_or_the_issue_are_left_out():
    """A clock that began late shows too few cycles; what one warp or few chains take is above the plateau."""
    flat = [Point(4.0, 1, 1), Point(1.0, 4, 1), Point(0.5, 8, 1), Point(0.5, 16, 1), Point(0.505, 16, 8)]
    assert sound(flat) == flat
    assert sound([*flat, Point(0.45, 32, 8)]) == flat
    assert sound([Point(0.9, 1, 1), Point(0.2, 8, 8), Point(0.25, 16, 8)]) == [Point(0.25, 16, 8)]


def model(pipes, latency=4.0):
    """A GPU: each opcode takes its pipe for so many cycles of a sub-partition; a chain waits for its latency."""

    def cycles(op, row):
        """Cycles of a copy of the round, of all warps: the busiest pipe, or the chain."""
        warps = int(row[0]) // WARP
        experiment = dialogues(KIND)[op.subject]
        own, other = experiment.opcode, op.variant.partition("_")[2]
        if op.variant.startswith(("with_", "only_")):
            mixed = experiment.mixed(other)
            counts = Counter(c.opcode.id for c in mixed if op.variant.startswith("with_") or c.prefix)
            chains = CHAINS
        else:
            counts, chains = Counter({own.id: op.copies}), int(op.variant.partition("_")[0][1:] or 1)
        busy, per = Counter(), max(1.0, warps / 4)
        for id_, n in counts.items():
            pipe, each = pipes[id_]
            busy[pipe] += n * each
            busy["issue"] += n
        slowest = max(counts.values()) * latency / chains
        return max(max(busy.values()) * per, slowest) / op.copies

    return cycles


PIPES = {opcode: (pipe, float(opcodes()[opcode].pace)) for pipe, opcode in STANDING.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("id_", "pipe"), [("SHF.L", "alu"), ("MUFU.RCP", "xu"), ("UIADD3", "uniform"), ("IMAD", None)])
def test_a_model_is_found_again(id_, pipe, read):
    """Latency of every operand, interval, one warp, and the pipe that it shares with the opcode standing for it."""
    pace = float(opcodes()[id_].pace)
    body = concluded(id_, model(PIPES | {id_: (pipe or "fmaheavy", pace)}, latency=24.0), read)
    assert set(body.latency.values()) <= {24.0, None}
    assert body.latency["a"] == 24.0
    assert body.interval.cycles == pytest.approx(pace / 4, rel=0.01)
    assert body.one_warp == pytest.approx(max(pace, 24.0 / CHAINS), rel=0.01)
    assert body.pipe == (pipe or "fmaheavy")
    assert all(pair.warps == PAIR_WARPS for pair in body.beside.values())
    kinds.check(finding_of(id_, body))


def test_a_loop_that_lost_a_copy_or_has_another_opcode_is_refused(read):
    row = opcodes()["FFMA"]
    right = Seen({"FFMA": 64, "IADD3": 1, "ISETP.NE.U32.AND": 1, "BRA": 1}, {})
    prove("a1_64", right, {row: 64})
    wrong = ({"FFMA": 63}, {"FFMA": 65}, {"MOV": 64}, {"LDL": 1}, {"MUFU.EX2": 1}, {"FADD": 1})
    for change in wrong:
        with pytest.raises(ProbeError):
            prove("a1_64", Seen({**right.loop, **change}, {}), {row: 64})


@pytest.mark.parametrize("id_", list(opcodes()))
def test_what_is_published_follows_from_its_own_numbers(id_):
    """Pipe, interval, bounds and covered opcodes of a finding are those that its curve and its pairs conclude today."""
    (body,) = (f.body for f in findings.every(published(), KIND, "sm_90") if f.subject == id_)
    experiment = dialogues(KIND)[id_]
    points = experiment._sound(body.curve, {})
    assert points == body.curve
    assert body.interval == experiment._best(points)
    assert body.pipe == experiment._pipe(body.beside, body.interval)
    assert body.covers == list(experiment.opcode.covers)
    bound = experiment.opcode.others or experiment.opcode.code
    assert body.at_most == [operand for operand, cycles in body.latency.items() if bound and cycles is not None]


def test_an_opcode_has_the_row_that_covers_it_best():
    rows = list(opcodes().values())
    for opcode, id_ in (
        ("LDS.U.128", "LDS.128"),
        ("HADD2.F32", "HADD2.F32"),
        ("FFMA.FTZ", "FFMA"),
        ("IMAD.WIDE.U32", "IMAD.WIDE.U32"),
        ("ISETP.GE.AND", "ISETP"),
    ):
        assert role(opcode, rows) == id_
    assert role("WHAT", rows) == ""


COUNTERS = (0x810, 0x836)  # IADD3 and VIADD with a number


@pytest.mark.sampled(18)
@pytest.mark.parametrize("id_", [row.id for row in opcodes().values() if row.words and not row.id.startswith("BSSY")])
def test_words_of_machine_code_take_no_cycles_from_the_counter_of_a_round(id_):
    """Between the counter and its comparison, and between that and the branch, stalls are as long as results take."""
    kernels = [kernel for kernel in dialogues(KIND)[id_].kernels() if kernel.recodings]
    codes = raw_code(kernels)
    for kernel in kernels:
        raw = codes[kernel.name]
        words = [int.from_bytes(raw[at : at + WORD_BYTES], "little") for at in range(0, len(raw), WORD_BYTES)]
        down = [w for w in words if w & 0xFFF in COUNTERS and w >> 32 & 0xFFFFFFFF == 0xFFFFFFFF]
        compared = [w for w in words if w & 0xFFF == 0x20C and w >> 32 & 0xFF == 0xFF]
        assert down, kernel.name
        assert compared, kernel.name
        assert all(w >> 105 & 15 >= 5 for w in down), kernel.name
        assert all(w >> 105 & 15 >= 12 for w in compared), kernel.name


@given(st.lists(st.integers(0, (1 << 128) - 1), min_size=1, max_size=8), st.integers(0, 0xFFF), st.data())
def test_only_marked_instructions_are_recoded(words, mark, data):
    """The nth gets the nth word, under its mask; with another number of them nothing changes."""
    raw = b"".join(word.to_bytes(WORD_BYTES, "little") for word in words)
    places = [at for at, word in enumerate(words) if word & 0xFFF == mark]
    bits = st.integers(0, (1 << 128) - 1)
    made = tuple(data.draw(st.lists(st.tuples(bits, bits), min_size=2, max_size=4)))
    changed = Recoding(mark, 0xFFF, made).applied(raw)
    found = [int.from_bytes(changed[at : at + WORD_BYTES], "little") for at in range(0, len(changed), WORD_BYTES)]
    expected = list(words)
    for at, (mask, value) in zip(places, made, strict=False):
        expected[at] = (words[at] & ~mask | value) if len(places) == len(made) else words[at]
    assert found == expected


def reads(texts):
    return register_reads([decode(text) for text in texts])


def test_reads_of_registers_are_counted_by_bank_and_reuse():
    assert reads(["FFMA R0, R1, R2, R3"]) == (1, 2)
    assert reads(["FFMA R0, R1, R2.reuse, R4", "FFMA R6, R7, R2, R5"]) == (2, 3)
    assert reads(["FFMA R0, R1, R2.reuse, R4", "NOP", "FFMA R6, R7, R2, R5"]) == (3, 3)
    assert reads(["FADD R0, -R1, |R3|", "MUFU.EX2 R0, R2", "IADD3 R2, R4, 0x1, RZ"]) == (1, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, read):
    """Results with four prices, of a model."""
    results = Results(tmp_path_factory.mktemp("prices"))
    for id_ in ("SHF.L", "MUFU.RCP", "UIADD3", "IMAD"):
        pipes = PIPES | {id_: ("alu", float(opcodes()[id_].pace))}
        save(results, finding_of(id_, concluded(id_, model(pipes), read)))
    return results


def answered(folder, *words):
    done = CliRunner().invoke(main, ["cost", *words, "--results", str(folder.root), "--only"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_an_opcode_is_answered_in_words_as_json_and_in_the_table(folder):
    entry = json.loads(answered(folder, "MUFU.RCP", "--json"))
    assert list(entry) == ["id", "arch", "latency", "interval", "one_warp", "pipe", "evidence"]
    assert set(entry["latency"]) == {"a", "b", "c"}
    assert set(entry["interval"]) == {"cycles", "warps", "chains"}
    assert answered(folder, "MUFU.RCP").startswith("MUFU.RCP on sm_90: MUFU.RCP, pipe ")
    assert json.loads(answered(folder, "SHF.L.W.U32.HI", "--json"))["id"] == "SHF.L"
    listed = answered(folder, "--opcodes").splitlines()
    assert [line.split()[0] for line in listed] == ["opcode", "IMAD", "MUFU.RCP", "SHF.L", "UIADD3"]
    assert all(len(line) <= 80 for line in listed)
    assert [json.loads(line)["id"] for line in answered(folder, "--opcodes", "--json").splitlines()] == [
        "IMAD",
        "MUFU.RCP",
        "SHF.L",
        "UIADD3",
    ]


def test_prices_are_values_too(folder):
    found = prices("sm_90", alone(folder))
    assert set(found) == {"SHF.L", "MUFU.RCP", "UIADD3", "IMAD"}
    assert price_of("IMAD.U32", found) is found["IMAD"]
    assert price_of("FFMA", found) is None
    assert [price.id for price in named("MUFU.*", found)] == ["MUFU.RCP"]
    assert named("nothing", found) == []
    assert prices("sm_80", alone(folder)) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--opcodes", "FFMA"), "cannot be combined"),
        (("--opcodes", "--table"), "cannot be combined"),
        (("IMAD", "--arch", "sm_80"), "it is on sm_90"),
        (("--opcodes", "--arch", "sm_80"), "no price"),
    ],
)
def test_what_has_no_price_is_said(folder, words, said):
    done = CliRunner().invoke(main, ["cost", *words, "--results", str(folder.root), "--only"])
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_what_cannot_be_true_of_an_opcode_is_refused(folder):
    finding = finding_of("IMAD", prices("sm_90", alone(folder))["IMAD"].body)
    kinds.check(finding)
    body = finding.body
    point = replace_point(body.interval)
    for wrong in (
        replace(finding, subject="banana"),
        replace(finding, arch="sm_70"),
        replace(finding, body=changed(body, pipe="water")),
        replace(finding, body=changed(body, opcodes={"MOV": 1.0})),
        replace(finding, body=changed(body, spread=0.2)),
        replace(finding, body=changed(body, interval=point)),
    ):
        with pytest.raises(DataError):
            kinds.check(wrong)


def changed(body, **values):
    import msgspec

    return msgspec.structs.replace(body, **values)


def replace_point(point):
    return changed(point, cycles=point.cycles / 2)
