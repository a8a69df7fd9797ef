"""Timing of banks: ptxas takes every kernel and keeps every access; a machine with any rule is read back as it."""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from bench import Clock, bench, concluded, run, save
from click.testing import CliRunner

from tcprobe.ask.bank_rules import rules_for
from tcprobe.cli import main
from tcprobe.errors import DataError, ProbeError, UnreadProbeError
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import access, accesses
from tcprobe.layout import banks as model
from tcprobe.layout.banks import BankRule, SourceTags, designed_rules, from_json, pattern_cost, tags_from_pairs
from tcprobe.probes import banks
from tcprobe.probes import banks as live
from tcprobe.probes.banks import BankExperiment, Timed, costly, tag_steps
from tcprobe.probes.ptx import module
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.store.finding import Key
from tcprobe.store.findings import read
from tcprobe.store.kinds import to_body
from tcprobe.store.results import Results

ARCHS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
SASS = {
    "ld": "LDS",
    "st": "STS",
    "atom": "ATOMS",
    "red": "ATOMS",
    "cp": "LDGSTS",
    "ldmatrix": "LDSM",
    "stmatrix": "STSM",
}


@pytest.fixture(scope="module")
def tools():
    return toolchain.find()


@pytest.mark.full
@pytest.mark.parametrize("name", ARCHS)
def test_ptxas_keeps_every_access(name, tools):
    """As many as are written, or whole multiples where it unrolls the loop; none merged, widened or split."""
    kernels = {row.name: banks.kernel(row) for row in accesses().values()}
    codes, refused = assemble(tools, list(kernels.values()), arch(name))
    for access_name, kernel in kernels.items():
        row = accesses()[access_name]
        if not row.target.on(arch(name)):
            assert kernel.name in refused
            continue
        opcode = SASS[access_name.split(".")[0]]
        memory = [o for o in codes[kernel.name].opcodes if re.match(r"(LDS|STS|ATOMS|LDGSTS|LDSM|STSM)\b", o)]
        ours = [o for o in memory if o.split(".")[0] == opcode]
        assert len(ours) >= banks.UNROLL
        assert len(ours) % banks.UNROLL == 0
        assert {o for o in memory if o not in ours} <= ({"LDS"} if row.has_source else set())  # never run: @!PT
        if access_name.startswith(("ld.", "st.")):
            width = {"U8": 1, "U16": 2, "64": 8, "128": 16}
            assert {width.get(o.split(".")[-1], 4) for o in ours} == {row.bytes}


@pytest.mark.parametrize("name", ["ld.shared.b64", "stmatrix.x2.trans", "cp.async.ca.16", "atom.shared.add.u32"])
def test_golden_ptx(name, golden):
    kernel = banks.kernel(access(name))
    golden(f"{kernel.name}.ptx", module([kernel], arch("sm_90")))


def test_no_clock_is_emulated():
    row = access("ld.shared.b32")
    launch = banks.launches(row, banks.swaps(row), 1 << 16)[0]
    with pytest.raises(ProbeError, match="cannot be emulated"):
        launch.kernel.op.emulate(launch, None)
    assert not launch.kernel.op.from_code
    assert issubclass(UnreadProbeError, ProbeError)


@pytest.mark.parametrize("name", accesses())
def test_phases_are_found_by_exchanging_lanes(name):
    row = accesses()[name]
    experiment = BankExperiment(row)
    timed, steady = experiment.time_cases(bench(experiment, Clock(noise=20)), banks.swaps(row))
    assert steady.all()
    size = designed_rules()[name].phase
    assert banks.phases(row, timed) == [tuple(range(j, j + size)) for j in range(0, row.lanes, size)]


def test_other_phases_are_refused():
    """Phases of every fourth lane are none that the patterns of the swap test could show."""
    row = access("st.shared.b128")
    order = np.arange(32).reshape(8, 4).T.reshape(-1)
    timed = model.Judge(row, BankRule(8, 8)).cycles(banks.swaps(row).address[:, order]).astype(float)
    with pytest.raises(ProbeError, match="exchanging lanes"):
        banks.phases(row, timed)


def test_phases_of_unequal_size_are_refused():
    row = access("st.shared.b128")
    cases = banks.swaps(row)
    with pytest.raises(ProbeError, match="neighbouring"):
        live.fit(row, [(0, 1), tuple(range(2, 32))], Timed(cases, np.ones(len(cases.address)), np.ones(1, bool)))


def test_what_is_no_partition_is_refused():
    row = access("st.shared.b64")
    timed = model.Judge(row, BankRule(16, 16)).cycles(banks.swaps(row).address).astype(float)
    assert len(banks.phases(row, timed)) == 2
    timed[5] += 1
    with pytest.raises(ProbeError, match="exchanging lanes"):
        banks.phases(row, timed)


def meaning(row, rule, cases):
    return live.cycles_by_rule(row, rule, cases).tolist()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", accesses())
def test_the_designed_rule_is_fitted_to_its_own_clock(name):
    row = accesses()[name]
    experiment = BankExperiment(row, 400)
    found, cases = concluded(experiment, Clock(noise=20)), experiment.cases()
    assert found.misfits == 0
    assert found.r2 > 0.999
    assert meaning(row, found.rule, cases) == meaning(row, designed_rules()[name], cases)
    assert found.rule == designed_rules()[name]
    assert found.second.misfits > 0


OTHERS = [
    ("ld.shared.b64", BankRule(16, 16)),  # never joins
    ("ld.shared.b64", BankRule(16, 32)),  # no beat for idle phases
    ("ld.shared.b128", BankRule(8, 32)),
    ("ld.shared.b128", BankRule(16, 16)),
    ("st.shared.b64", BankRule(32, 32)),
    ("st.shared.b128", BankRule(8, 8)),
    ("st.shared.b32", BankRule(32, 32, "lanes")),
    ("atom.shared.add.u32", BankRule(32, 32, "words")),
    ("cp.async.ca.8", BankRule(16, 16, "words")),
    ("ldmatrix.x4", BankRule(16, 16)),
]


@pytest.mark.full
@pytest.mark.parametrize(("name", "rule"), OTHERS, ids=str)
def test_a_machine_with_another_rule_is_told_apart(name, rule):
    row = access(name)
    experiment = BankExperiment(row, 600)
    found, cases = concluded(experiment, Clock({name: rule}, noise=20)), experiment.cases()
    assert found.rule == rule
    assert found.misfits == 0
    assert meaning(row, rule, cases) != meaning(row, designed_rules()[name], cases)


@pytest.mark.full
def test_every_rule_that_is_tried_is_told_apart():
    """The patterns decide between all candidates: no two say the same of all patterns, but those that mean the same."""
    for row in accesses().values():
        cases = costly(row, 600)
        said = {}
        for rule in live.candidates(row, designed_rules()[row.name].phase):
            said.setdefault(tuple(meaning(row, rule, cases)), []).append(rule)
        alike = [rules for rules in said.values() if len(rules) > 1]
        for rules in alike:  # idle beats count for nothing where there is one phase, or no lane can be idle
            assert {(r.joined, r.passes) for r in rules} == {(rules[0].joined, rules[0].passes)}, row.name
            assert row.is_matrix or rules[0].phase == 32 or rules[0].joined == 32


def test_misfits_and_ambiguous_timings_are_counted():
    row = access("st.shared.b32")
    cases = costly(row, 300)
    timed = live.cycles_by_rule(row, designed_rules()[row.name], cases).astype(float)
    timed[7] += 1
    timed[9] += 0.4
    steady = np.ones(len(timed), bool)
    steady[9] = False
    found = live.fit(row, [tuple(range(32))], Timed(cases, timed, steady))
    assert (found.misfits, found.ambiguous, found.patterns) == (1, 1, 299)
    (shown,) = found.shown
    assert shown.address == cases.address[7].tolist()
    assert shown.cycles == shown.rule + 1
    assert 0.99 < found.r2 < 1


def test_unsteady_runs_are_ambiguous():
    least, steady = banks.least_and_steady([np.array([1.0, 2.0, 3.4, 4.1]), np.array([1.1, 2.9, 3.4, 4.0])])
    assert least.tolist() == [1.0, 2.0, 3.4, 4.0]
    assert steady.tolist() == [True, False, False, True]


@pytest.fixture
def few(monkeypatch):
    """Fewer patterns of each access."""
    experiments = {row.name: BankExperiment(row, 60) for row in accesses().values()}
    monkeypatch.setattr("bench.dialogues", lambda _: experiments)


@pytest.mark.full
@pytest.mark.usefixtures("few")
def test_what_is_found_of_all_accesses_is_saved_and_answers(tmp_path):
    run("banks", Clock({"ld.shared.b64": BankRule(16, 16)}), tmp_path)
    swaps = sum(2 * (1 + r.lanes * (r.lanes - 1) // 2) for r in accesses().values())
    patterns = swaps + sum(60 * (1 + r.has_source) for r in accesses().values())
    rules = rules_for(None, Results(tmp_path))
    assert rules.rule(access("ld.shared.b64")).joined == 16
    assert f"the model matches {patterns:,} of {patterns:,} measured patterns" in rules.evidence


TAGS = SourceTags((0x1BD5A80 & banks.ARENA - 1, 0x16AED00 & banks.ARENA - 1))


@pytest.mark.parametrize("tags", [TAGS, SourceTags((0x880,)), SourceTags((0x8180, 0x4400))], ids=str)
def test_tags_of_sources_are_found(tags):
    """Any parities of the bits of a line's address: what is found says the same of every line."""
    row = access("cp.async.ca.8")
    experiment, machine = BankExperiment(row, 400), Clock(noise=20, tags=tags)
    desk = bench(experiment, machine)
    reading = experiment.measure(desk)
    found = experiment.conclude(reading, None)
    assert found.misfits == 0
    assert found.rule == designed_rules()[row.name]
    lines = np.arange(0, banks.ARENA, banks.LINE)
    pairs = {*zip(found.tags.bank(lines).tolist(), tags.bank(lines).tolist(), strict=True)}
    assert len(pairs) == 1 << len(tags.masks)
    timed = Timed(experiment.cases(), reading["cycles"], reading["steady"])
    assert live.fit(row, banks.phases(row, reading["swapped"]), timed).misfits


def test_pairs_that_no_parities_explain():
    steps = tag_steps()
    together = np.zeros(len(steps), bool)
    assert tags_from_pairs(steps, together) is None
    together[steps.index(0x180)] = together[steps.index(0x300)] = True
    assert tags_from_pairs(steps, together) is None


@pytest.mark.full
@pytest.mark.usefixtures("few")
def test_tags_are_saved_and_answer(tmp_path):
    run("banks", Clock(tags=TAGS), tmp_path)
    rules = rules_for(None, Results(tmp_path))
    assert set(rules.tags) == {"cp.async.ca.4", "cp.async.ca.8", "cp.async.ca.16"}
    ask = ["banks", "--address", "lane * 4", "--with", "cp.async.ca.4", "--results", str(tmp_path), "--only"]
    answer = json.loads(CliRunner().invoke(main, [*ask, "--source", "lane * 132", "--json", "--explain"]).stdout)
    assert (answer["cycles"], answer["lookups"], answer["timed"]) == (1, 8, 9)
    for less in (["--json", "--explain"], ["--source", "lane * 132", "--json"]):
        assert "lookups" not in json.loads(CliRunner().invoke(main, [*ask, *less]).stdout)
    text = CliRunner().invoke(main, [*ask, "--source", "lane * 4"]).stdout
    assert "1 cycles; 1 if no lanes collided; 2 cycles with 1 lookups of the source's lines" in text
    key = Key("banks", "sm_90", "live", "cp.async.ca.4")
    body = read(Results(tmp_path), key).plain
    for wrong in ([], [0], [3], ["x"], [1 << 70], [128] * 9, [True]):
        with pytest.raises(DataError):
            save(tmp_path, "banks", {key.subject: to_body("banks", body | {"tags": {"masks": wrong}})})


def test_lookups_are_counted_by_sets():
    """Once more, by nothing but sets; and the cycles of patterns with them."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        sources = [None if rng.random() < 0.2 else int(rng.integers(0, 1 << 30)) for _ in range(32)]
        to = [None if s is None else int(rng.integers(0, rng.choice([8, 64, 8192]))) * 4 for s in sources]
        lines = {s // 128 for s in sources if s is not None}
        banked = [tuple((line * 128 & m).bit_count() % 2 for m in TAGS.masks) for line in lines]
        most, passes = max(map(banked.count, banked), default=0), int(rng.integers(1, 9)) if lines else 0
        rows, blocks = ({a // size for a in to if a is not None} for size in (128, 2048))
        more = (len(rows) > 4 and len(blocks) > 1) or (passes > 1 and most == 1)
        wanted = max(passes, most + 1 + more) if lines else 0
        assert pattern_cost(TAGS, to, sources, passes) == (most, wanted)
    assert from_json(TAGS.to_json()) == TAGS


@pytest.mark.full
@pytest.mark.parametrize("family", ["banks", "descriptors", "undocumented", "tma"])
def test_without_a_gpu_it_says_so(family, tmp_path):
    if find_spec("cupy"):
        pytest.skip("CuPy is installed")
    done = CliRunner().invoke(main, ["run", "--family", family, "--results", str(tmp_path)])
    assert done.exit_code == 3
    assert "Error: CuPy cannot be imported" in done.stderr
    assert not list(tmp_path.rglob("*.json"))
