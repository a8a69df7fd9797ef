"""The measured rule of banks: read, shown, marked where it is another arch's, refused where it is none."""

import json
from dataclasses import asdict

import bank_reference as reference
import pytest
from bank_commands import GOOD, KEYS, lines, tile
from bench import document, save
from command import tcprobe

from tcprobe.ask.banks.patterns import rules_for
from tcprobe.errors import DataError
from tcprobe.isa.shared_memory import access
from tcprobe.layout.banks import BankRule, Judge, as_array, designed_rules
from tcprobe.store.documents import seal
from tcprobe.store.kinds.banks import Body
from tcprobe.store.results import Results

RULES = designed_rules() | {"ld.shared.b64": BankRule(16, 16, idle=True)}  # the designed ones, but these never join
MEASURED = {name: Body(rule, patterns=10, misfits=0, r2=1.0) for name, rule in RULES.items()}


EARLIER = {n: {"rule": asdict(rule), "patterns": 10, "misfits": 0, "r2": 1.0} for n, rule in RULES.items()}


def test_a_measured_rule_answers_instead(tmp_path):
    results = Results(tmp_path)
    assert rules_for(None, results).measured is None
    assert "sm_90's by design" in rules_for(None, results).evidence
    save(tmp_path, "banks", MEASURED)
    found = rules_for("sm_90", results)
    assert (
        found.evidence
        == "measured on sm_90, live on text, driver text, CUDA text: the model matches 280 of 280 measured patterns"
    )
    pair = ["banks", "--address", "8 * (lane / 2)", "--with", "ld.shared.b64", "--json", "--results", tmp_path]
    assert json.loads(tcprobe(*pair).stdout)["phases"] == [1, 1]
    borrowed = json.loads(tcprobe(*pair, "--arch", "sm_80").stdout)
    assert borrowed["phases"] == [1, 1]
    assert (borrowed["rule"]["arch"], borrowed["rule"]["measured"]) == ("sm_90", False)
    assert "of sm_80" in borrowed["rule"]["words"]


def test_an_arch_without_a_measurement_is_marked(tmp_path):
    [plain, marked] = lines(tmp_path, GOOD, GOOD | {"arch": "sm_86"})
    assert list(plain) == KEYS
    assert {key: marked[key] for key in KEYS} == plain
    assert (marked["rule"]["arch"], marked["rule"]["asked"]) == ("sm_90", "sm_86")
    text = tcprobe("banks", "--address", "lane*4", "--with", "ld.shared.b32", "--arch", "sm_86").stdout
    assert "of sm_86" in text
    assert tile("--tile", "32x32", "--type", "f32", "--with", "ld.shared.b32@rows")["rule"]["arch"] == "sm_90"


GOOD_RULE = {"phase": 32, "joined": 32, "passes": "words", "idle": False}


@pytest.mark.parametrize(
    "broken",
    [
        {"arch": "sm_80"},
        {"method": "derived"},
        {"accesses": None},
        {"provenance": {}},
        {"provenance": None},
        *(
            {"accesses": EARLIER | {"ld.shared.b8": row}}
            for row in (None, {}, {"rule": GOOD_RULE}, {"rule": None, "patterns": 1, "misfits": 0, "r2": 1.0})
        ),
        *(
            {"accesses": EARLIER | {"ld.shared.b8": EARLIER["ld.shared.b8"] | {"rule": GOOD_RULE | bad}}}
            for bad in ({"phase": 3, "joined": 3}, {"joined": 16}, {"passes": "guess"}, {"idle": 0}, {"phase": True})
        ),
    ],
)
def test_a_rule_that_is_none_is_refused(broken, tmp_path):
    document(tmp_path, "banks", {"accesses": EARLIER} | broken)
    with pytest.raises(DataError, match=r"banks\.json"):
        rules_for("sm_90", Results(tmp_path))


def test_an_earlier_document_is_read_and_answers_where_it_has_every_access(tmp_path):
    document(tmp_path, "banks", {"accesses": EARLIER})
    assert rules_for("sm_90", Results(tmp_path)).rules == RULES
    document(tmp_path, "banks", {"accesses": {}})
    assert rules_for("sm_90", Results(tmp_path)).measured is None


def test_a_damaged_rule_is_refused(tmp_path):
    save(tmp_path, "banks", MEASURED)
    path = tmp_path / "sm_90" / "live" / "banks" / "ld.shared.b64.json"
    path.write_text(path.read_text().replace('"phase": 16', '"phase": 32', 1))
    with pytest.raises(DataError, match="checksum"):
        rules_for("sm_90", Results(tmp_path))


NONE = [
    {"arch": "sm_80"},
    {"subject": "ld.shared.b128"},
    {"method": "sass"},
    {"body": None},
    {"status": "guessed"},
    {"words": "why"},
    {"extra": 1},
    {"provenance": {}},
]


@pytest.mark.parametrize("change", NONE)
def test_a_file_that_is_no_finding_is_refused(change, tmp_path):
    save(tmp_path, "banks", MEASURED)
    path = tmp_path / "sm_90" / "live" / "banks" / "ld.shared.b64.json"
    content = {
        key: value for key, value in json.loads(path.read_text()).items() if key not in ("kind", "schema", "sha256")
    }
    path.write_text(seal("banks", content | change))
    with pytest.raises(DataError, match=r"ld\.shared\.b64\.json"):
        rules_for("sm_90", Results(tmp_path))


def test_beats_of_idle_phases_count_where_the_rule_says_so():
    row, address = access("ld.shared.b64"), as_array([[8 * i if i < 16 else None for i in range(32)], [None] * 32])
    for idle, expected in ((False, [1, 0]), (True, [2, 0])):
        judge = Judge(row, BankRule(16, 16, "words", idle))
        assert judge.cycles(address).tolist() == expected
        assert [cost.cycles for cost in judge.costs(address)] == expected


def test_the_rule_is_shown(tmp_path):
    text = tcprobe("banks", "--rule").stdout
    assert (
        "phases of 16 lanes; 32 where neighbouring phases agree; the most words in a bank; an idle phase costs a beat\n"
        in text
    )
    assert "cp.async.ca.16        phases of 8 lanes; lanes one by one" in text
    shown = json.loads(tcprobe("banks", "--rule", "--json", "--arch", "sm_80").stdout)
    assert shown["rule"]["arch"] == "sm_90"
    assert set(shown["accesses"]) == {op for op in reference.OPS if not op.startswith("stmatrix")}
    assert shown["accesses"]["ld.shared.b128"] == {"phase": 8, "joined": 16, "passes": "words", "idle": True}
    save(tmp_path, "banks", MEASURED)
    assert (
        "ld.shared.b64         phases of 16 lanes; the most words"
        in tcprobe("banks", "--rule", "--results", tmp_path).stdout
    )
