"""Two runs that disagree: whoever asks is told of both; what most devices found counts, and nothing if none did."""

import json
from dataclasses import replace

import jsonschema
import msgspec
import pytest
from bench import TensorMemoryCore, run
from command import tcprobe
from json_samples import SCHEMA

from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.undocumented import beyond
from tcprobe.errors import NoMajorityError
from tcprobe.isa import inventory, names
from tcprobe.isa.shared_memory import access
from tcprobe.store import arithmetic, findings, kinds
from tcprobe.store.choose import alone, layers
from tcprobe.store.kinds import tensor_maps
from tcprobe.store.results import Results, published

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
SPARSE = "mma.sp.m16n8k32.row.col.f32.f16.f16.f32"


def of(kind, subject, device="NVIDIA H200", arch="sm_90"):
    """A published finding, as if of a device."""
    finding = next(one for one in findings.every(published(), kind, arch) if one.subject == subject)
    return replace(finding, provenance={**finding.provenance, "device": device})


def changed(finding, **values):
    return replace(finding, body=msgspec.structs.replace(finding.body, **values))


def other_numerics(finding, bits=24):
    return changed(finding, floats=msgspec.structs.replace(finding.body.floats, fraction_bits=bits))


def other_cost(finding, latency=240.0):
    return changed(finding, latency=dict.fromkeys(finding.body.latency, latency))


def other_rule(finding):
    rule = replace(finding.body.rule, phase=16, joined=16)
    return changed(finding, rule=rule)


def other_case(finding):
    return changed(finding, case=msgspec.structs.replace(finding.body.case, agree=finding.body.case.agree - 1))


def other_mode(finding):
    return changed(finding, mode=msgspec.structs.replace(finding.body.mode, swizzle=(1, 4, 3)))


def other_nibbles(finding):
    return changed(finding, nibbles=[finding.body.nibbles[1], *finding.body.nibbles[1:]])


CASE = "wgmma.mma_async.m64n128k16.f32.f16.f16.b_smem.k.128"
OTHERS = {
    "descriptors": (CASE, other_case),
    "numerics": (MMA, other_numerics),
    "cost": (MMA, other_cost),
    "banks": ("ldmatrix.x4", other_rule),
    "tensor_maps": ("128B", other_mode),
    "undocumented": (SPARSE, other_nibbles),
}


def save(folder, *made):
    findings.save_all(Results(folder), made)
    return folder


def fits(command, plain):
    """Whether an answer follows the schema of its command."""
    schema = json.loads(SCHEMA.read_text())["$defs"][command]
    return not [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(plain)]


def merge(into, *made, code=0):
    """Each finding from a folder of its own, in turn; what the last merge says."""
    for number, one in enumerate(made):
        theirs = save(into.parent / f"{into.name} from {number} {one.provenance['device']}", one)
        last = number == len(made) - 1
        done = tcprobe("merge", theirs, "--results", into, code=code if last else 0)
    return done.stdout


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", ["first by name", "last by name"])
@pytest.mark.parametrize("kind", OTHERS)
def test_merge_names_both_and_two_devices_have_no_majority(tmp_path, kind, order):
    subject, alter = OTHERS[kind]
    own, other = ("NVIDIA H200", "NVIDIA H100") if order == "first by name" else ("NVIDIA H100", "NVIDIA H200")
    said = merge(tmp_path / "both", of(kind, subject, own), alter(of(kind, subject, other)), code=1)
    assert "NVIDIA H100" in said
    assert "NVIDIA H200" in said
    assert subject in said
    sourced = alone(Results(tmp_path / "both")).finding(kind, "sm_90", subject)
    assert {one.provenance["device"] for one in sourced.rivals} == {own, other}
    with pytest.raises(NoMajorityError, match=r"no majority decides.*NVIDIA H[12]00.*NVIDIA H[12]00"):
        _ = sourced.settled
    assert alone(Results(tmp_path / "both")).findings(kind, "sm_90")[subject] == sourced


@pytest.mark.sampled(3)
@pytest.mark.parametrize("odd", ["NVIDIA A", "NVIDIA Z"])
@pytest.mark.parametrize("kind", OTHERS)
def test_what_most_devices_found_counts(tmp_path, kind, odd):
    subject, alter = OTHERS[kind]
    made = [of(kind, subject, device) for device in ("NVIDIA H200", "NVIDIA H100")]
    merge(tmp_path / "all", *made, alter(of(kind, subject, odd)), code=1)
    sourced = alone(Results(tmp_path / "all")).finding(kind, "sm_90", subject)
    assert sourced.settled.plain == made[0].plain
    assert [one.provenance["device"] for one in sourced.otherwise] == [odd]
    assert odd in sourced.contradiction


@pytest.mark.parametrize("published_too", [True, False])
def test_numerics_says_who_disagrees(tmp_path, published_too):
    both = tmp_path / "both"
    merge(both, of("numerics", MMA), other_numerics(of("numerics", MMA, "NVIDIA H100")), code=1)
    options = ("--results", both, *([] if published_too else ["--only"]))
    plain = json.loads(tcprobe("numerics", MMA, *options, "--json", code=1).stdout)
    assert (plain["status"], plain["fraction_bits"], plain["groups"]) == ("contradicted", None, None)
    assert fits("numerics", plain)
    assert {run["device"]: run["value"]["fraction_bits"] for run in plain["runs"]} == {
        "NVIDIA H200": 25,
        "NVIDIA H100": 24,
    }
    assert plain["confidence"]["word"] == "contradicted"
    assert plain["confidence"]["otherwise"] >= 1
    words = " ".join(tcprobe("numerics", MMA, *options, code=1).stdout.split())
    assert "fraction_bits 24" in words
    assert "fraction_bits 25" in words
    assert "0 wrong bits" not in words
    for more in (("--bound", "64"), ("--header",), ("--a", "1," * 15 + "1", "--b", "1," * 15 + "1")):
        done = tcprobe("numerics", MMA, *options, *more, code=1)
        assert "NVIDIA H100" in done.stderr
        assert not done.stdout
    asked = tcprobe("numerics", MMA, *options, "--bound", "64", "--json", code=1)
    assert {run["device"] for run in json.loads(asked.stdout)["runs"]} == {"NVIDIA H100", "NVIDIA H200"}
    row = names.resolve(MMA).instruction
    with pytest.raises(NoMajorityError, match="NVIDIA H100"):
        arithmetic.model(row, "sm_90", layers(both))
    assert arithmetic.find_model(row, "sm_90", layers(both)) is None
    merge(both, of("numerics", MMA, "NVIDIA GH200"), code=1)
    plain = json.loads(tcprobe("numerics", MMA, *options, "--json").stdout)
    assert (plain["status"], plain["fraction_bits"]) == ("measured", 25)
    assert (plain["confidence"]["word"], plain["confidence"]["otherwise"]) == ("contradicted", 1)
    assert plain["confidence"]["devices"] == 2
    assert "NVIDIA H100" in {run["device"] for run in plain["runs"]}
    assert "CONTRADICTED" in tcprobe("numerics", MMA, *options).stdout


def test_cost_says_who_disagrees(tmp_path):
    both = tmp_path / "both"
    merge(both, of("cost", MMA), other_cost(of("cost", MMA, "NVIDIA H100")), code=1)
    plain = json.loads(tcprobe("cost", MMA, "--results", both, "--json", code=1).stdout)
    nothing = {"latency": None, "interval": None, "one_warp": None, "macs_per_cycle": None, "curve": []}
    assert nothing.items() <= plain.items()
    assert (plain["status"], plain["confidence"]["word"]) == ("contradicted", "contradicted")
    assert fits("cost", plain)
    found = {run["device"]: run["value"]["latency"]["c"] for run in plain["runs"]}
    assert found == {"NVIDIA H200": 24.0, "NVIDIA H100": 240.0}
    words = tcprobe("cost", MMA, "--results", both, code=1).stdout
    assert "latency a 24" in words
    assert "latency a 240" in words
    assert "stated for sm_90: H800" in words
    done = tcprobe("cost", MMA, "--with", "ldmatrix.x4", "--results", both, code=1)
    assert "NVIDIA H100" in done.stderr
    table = tcprobe("cost", "--table", "--results", both, code=1).stdout
    assert f"{MMA} on sm_90: contradicted" in table
    merge(both, of("cost", MMA, "NVIDIA GH200"), code=1)
    plain = json.loads(tcprobe("cost", MMA, "--results", both, "--json").stdout)
    assert (plain["latency"]["c"], plain["status"], plain["confidence"]["otherwise"]) == (24.0, "measured", 1)
    assert fits("cost", plain)
    assert "CONTRADICTED" in tcprobe("cost", MMA, "--results", both).stdout


def test_costs_agree_within_five_percent(tmp_path):
    near = other_cost(of("cost", MMA, "NVIDIA H100"), 24.9)
    merge(tmp_path / "near", of("cost", MMA), near)
    plain = json.loads(tcprobe("cost", MMA, "--results", tmp_path / "near", "--only", "--json").stdout)
    assert (plain["confidence"]["devices"], plain["confidence"]["otherwise"]) == (2, 0)
    assert "runs" not in plain
    assert kinds.differences(of("cost", MMA), other_cost(of("cost", MMA), 25.5))


def test_descriptors_and_tensor_memory_have_no_answer_without_a_majority(tmp_path):
    both = tmp_path / "both"
    merge(both, of("descriptors", CASE), other_case(of("descriptors", CASE, "NVIDIA H100")), code=1)
    shown = ("show", CASE.removesuffix(".k.128"), "--swizzle", "128", "--results", both)
    assert "NVIDIA H100" in tcprobe(*shown, code=1).stderr
    merge(both, of("descriptors", CASE, "NVIDIA GH200"), code=1)
    told = " ".join(tcprobe(*shown).stdout.split())
    assert "NVIDIA H100" in told
    assert "CONTRADICTED" in told
    subject = "tcgen05.cp.128x128b.memory"
    run("tensor_memory", TensorMemoryCore(), tmp_path / "made", (subject,))
    (made,) = findings.every(Results(tmp_path / "made"), "tensor_memory", "sm_103")
    here, there = (replace(made, provenance={**made.provenance, "device": name}) for name in ("NVIDIA B300", "GB300"))
    first, second = here.body.runs[0], here.body.runs[1]
    swapped = [(*first[:3], *second[3:]), (*second[:3], *first[3:]), *here.body.runs[2:]]
    assert swapped != here.body.runs
    memory = tmp_path / "memory"
    merge(memory, here, changed(there, runs=swapped), code=1)
    asked = ("where", "tcgen05.cp.128x128b.memory", "--row", "0", "--col", "0", "--results", memory)
    assert "GB300" in tcprobe(*asked, code=1).stderr


def test_copies_at_another_clock_are_another_number():
    """L2 has its own clock: 319 cycles at 1,980 MHz are 299 at 1,695."""
    finding = of("cost", "cp.async.bulk.shared.global")
    slower = [msgspec.structs.replace(trip, cycles=trip.cycles * 0.93) for trip in finding.body.round_trip]
    assert kinds.differences(finding, changed(finding, round_trip=slower))
    assert not kinds.differences(finding, changed(finding, round_trip=slower, mhz=finding.body.mhz * 0.85))


def test_other_questions_have_no_answer_without_a_majority(tmp_path):
    """Of banks, tensor maps and metadata: the answer names both devices, exit 1."""
    whole = [of("banks", one.subject) for one in findings.every(published(), "banks", "sm_90")]
    save(tmp_path / "banks", *whole)
    merge(tmp_path / "banks", other_rule(of("banks", "ldmatrix.x4", "NVIDIA H100")), code=1)
    rules = rules_for("sm_90", layers(tmp_path / "banks"))
    with pytest.raises(NoMajorityError, match="NVIDIA H100"):
        rules.rule(access("ldmatrix.x4"))
    assert rules.rule(access("ldmatrix.x2"))
    assert rules.confidence.word == "contradicted"
    asked = ("banks", "--address", "lane * 16", "--with", "ldmatrix.x4", "--results", tmp_path / "banks")
    assert "NVIDIA H100" in tcprobe(*asked, code=1).stderr
    assert json.loads(tcprobe(*asked, "--json", code=1).stdout)["status"] == "contradicted"
    merge(tmp_path / "maps", of("tensor_maps", "128B"), other_mode(of("tensor_maps", "128B", "NVIDIA H100")), code=1)
    with pytest.raises(NoMajorityError, match="NVIDIA H100"):
        tensor_maps.newest(alone(Results(tmp_path / "maps")), "sm_90")
    merge(tmp_path / "sp", of("undocumented", SPARSE), other_nibbles(of("undocumented", SPARSE, "NVIDIA H100")), code=1)
    with pytest.raises(NoMajorityError, match="NVIDIA H100"):
        beyond(inventory.instructions()[SPARSE].fragment("e"), "sm_90", alone(Results(tmp_path / "sp")))


def test_merge_names_findings_that_contradict_their_own_model(tmp_path):
    case = next(
        one for one in findings.every(published(), "descriptors", "sm_90") if one.status == "measured" and one.body.case
    )
    products = next(one for one in findings.every(published(), "descriptors", "sm_90") if one.body.products)
    wrong = msgspec.structs.replace(products.body.products, wrong=1)
    for number, one in enumerate(
        (
            changed(of("numerics", MMA), wrong=1),
            other_case(case),
            changed(products, products=wrong),
            changed(
                of("tensor_maps", "128B"),
                mode=msgspec.structs.replace(of("tensor_maps", "128B").body.mode, misfits=1),
            ),
        )
    ):
        assert " 1 of " in merge(tmp_path / str(number), one, code=1)
    right, wrong = of("numerics", MMA), changed(of("numerics", MMA, "NVIDIA H100"), wrong=1)
    assert "every case" in merge(tmp_path / "beside", right, wrong, code=1)
