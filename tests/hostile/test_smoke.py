"""A sample of the campaign, and what its judges must notice; `python -m tests.hostile` runs all of it."""

import json
import math
from dataclasses import replace

import pytest

from . import arguments, board, code, crafted, csvs, files, paths, reading, run, saved, texts
from .board import Outcome

pytestmark = pytest.mark.full  # its sample: test_hostile_text.py

SAMPLE = {
    files: ("schema None", "live: half", "live: digit of the checksum", "layout: no col"),
    texts: ("heading", "columns"),
    csvs: ("as it is", "two elements exchanged", "a slot twice, differing", "minus one as lane"),
    paths: ("-o a new file", "-o no such folder"),
    arguments: ("nothing", "diff sm_80", "emit --to cuda", "--version"),
}


def _sample(trials):
    for module, names in SAMPLE.items():
        found = {case.name: case for case in module.cases() if case.name in names}
        assert set(found) == set(names)
        yield from (replace(case, trials=case.trials[:trials]) for case in found.values())


def test_sample_of_each_category(monkeypatch, whole):
    monkeypatch.setattr(board.limits, "seconds", 300)  # a command that does not end, not one of a busy machine
    report = run.campaign(_sample(2 if whole else 1), seconds=math.inf)
    assert report.findings == []
    assert report.left_out == 0
    assert sum(tally.inputs for tally in report.tallies.values()) == sum(map(len, SAMPLE.values()))


def _outcome(code=0, out="", err="", seconds=0.1, megabytes=50, **others):
    return Outcome(code, out, err, seconds, megabytes, others.get("hung", False), others.get("left", ()))


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (_outcome(1, err="Traceback (most recent call last):\nKeyError: 'a'"), "crashed"),
        (_outcome(-9), "crashed"),
        (_outcome(120), "crashed"),
        (_outcome(megabytes=601), "crashed"),
        (_outcome(hung=True), "hung"),
        (_outcome(out="\x1b[31m"), "wrong"),
        (_outcome(err="a\rb"), "wrong"),
        (_outcome(out="\u202e"), "wrong"),
        (_outcome(left=("ptxas",)), "torn"),
    ],
)
def test_what_no_command_may_do(outcome, kind):
    assert [fault.kind for fault in board.faults(outcome)] == [kind]


def test_a_fair_outcome_has_no_fault():
    assert list(board.faults(_outcome(2, err="Error: no.\n"))) == []


@pytest.mark.parametrize("name", sorted(saved.healthy_files()))
def test_files_are_sealed_as_tcprobe_seals_them(name):
    raw = saved.healthy_files()[name]
    body = json.loads(raw)
    body.pop("sha256")
    assert saved.sealed(body) == raw


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("python", "# on x\nA = 1\n", "# on x\nimport os\nA = 1\n"),
        ("python", 'A = 1\nB = "x"\n', 'A = 1\nB = "x" + PWNED\n'),
        ("cuda", "// on x\nint a;\n", "// on x \\\nint a;\n"),
        ("cuda", "/* x */ int a;\n", "/* */ int PWNED; /* */ int a;\n"),
        ("cuda", "// x\nint a;\n", "// x\nint PWNED;\nint a;\n"),
        ("latex", "% x\n\\[a\\]\n", "% x\n\\input{PWNED}\n\\[a\\]\n"),
        ("svg", "<svg><text>x</text></svg>", "<svg><text></text><script/></svg>"),
        ("json", '{"a": "x"}', '{"a": "x", "b": 1}'),
        ("markdown", "on x | 1\n", "on <img src=x> | 1\n"),
        ("pages", "on x\n", "on [x](javascript:x)\n"),
    ],
)
def test_code_is_told_from_words(form, good, bad):
    assert code.skeleton(form, good) == code.skeleton(form, good.replace("on x", "on another"))
    assert code.skeleton(form, good) != code.skeleton(form, bad)


def test_another_answer_is_noticed():
    argv = reading.commands(reading.MMA)[2]
    judge = reading.refuses(argv, saved.file_of(saved.MMA))
    healthy = reading.baselines().ask(argv)
    wrong = healthy.shown.replace("[0, 1]", "[1, 0]")
    assert list(judge(_outcome(0, healthy.shown), None)) == []
    assert [fault.kind for fault in judge(_outcome(0, wrong), None)] == ["wrong"]
    assert [fault.kind for fault in judge(_outcome(4, err="Error: no."), None)] == ["unclear"]
    assert list(judge(_outcome(4, err=f"Error: {saved.MMA}: damaged."), None)) == []


def test_formulas_are_evaluated_by_another_evaluator():
    formula = "((i & 4) << 1) + ((lane & 28) >> 2)"
    for lane in range(32):
        assert csvs.value(formula, lane, 5) == 8 + lane // 4


def test_enough_inputs():
    counts = {module.CATEGORY: sum(1 for _ in module.cases()) for module in SAMPLE}
    least = {"files": 100, "csv": 150, "paths": 50, "arguments": 150, "texts": 50}
    assert all(counts[name] >= count for name, count in least.items())
    assert len(crafted.MEASUREMENTS) >= 100
