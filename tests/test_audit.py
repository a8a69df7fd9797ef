"""`tcprobe audit`: layouts that packages state, against the tables; a package is outside code, and its answer data."""

import json
import subprocess
import sys
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from command import tcprobe

from tcprobe.audit import package_audit
from tcprobe.audit.adapters import adapters
from tcprobe.audit.package_audit import PackageAudit, _decode, judge_statements, refusal, report, reproduction
from tcprobe.audit.statement import Statement
from tcprobe.audit.statement import statement as tabulated_statement
from tcprobe.cli import main
from tcprobe.emit import emit
from tcprobe.errors import DataError
from tcprobe.pages import overview
from tcprobe.store import surveys
from tcprobe.store.cell import load
from tcprobe.store.choose import layers

FORM = "mma.m16n8k16.row.col.f32.f16.f16.f32"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the package's wheel is a Linux one")
DIFFER = {"tensor-layouts": 3, "tilelang": 2}  # in the newest versions that were looked at


def audit(*words, code=0):
    return tcprobe("audit", *words, code=code)


def statement(operand, change=lambda row, col: (row, col), **more):
    """What the table says of an operand of FORM, changed."""
    table = load(f"{FORM}.{operand}", "sm_90").table
    place = lambda t, i: change(*table.cells[t * table.elements + i])  # noqa: E731
    return tabulated_statement(f"their {operand}", f"{FORM}.{operand}", (32, table.elements), place, **more)


def rule(*statements):
    return [(r.verdict, r.differ) for r in judge_statements(statements, layers(None))]


def other_k(row, col):
    """Bits 0 and 3 of a k exchanged."""
    return row, col & 6 | col >> 3 & 1 | (col & 1) << 3


# judging


def test_the_table_itself_agrees():
    assert rule(*(statement(o) for o in "abd")) == [("confirmed", 0)] * 3


def test_one_slot_that_differs_is_found():
    spoilt = statement("a")
    cells = [*spoilt.cells]
    cells[5], cells[9] = cells[9], cells[5]
    assert rule(msgspec.structs.replace(spoilt, cells=cells)) == [("differs", 2)]


def test_k_numbered_otherwise_in_both_factors_is_the_same_multiply():
    turned = statement("b", lambda k, n: other_k(n, k)[::-1], atom="x")
    assert rule(statement("a", other_k, atom="x"), turned, statement("d", atom="x")) == [("confirmed", 0)] * 3


def test_k_numbered_otherwise_in_one_factor_blames_that_alone():
    """With its partners beside it; alone nobody can tell, and it is not covered."""
    alone = statement("a", other_k)
    ((verdict, count),) = rule(alone)
    assert (verdict, count) == ("not covered", 0)
    together = [msgspec.structs.replace(alone, atom="x"), statement("b", atom="x"), statement("d", atom="x")]
    assert [verdict for verdict, _ in rule(*together)] == ["differs", "confirmed", "confirmed"]


def test_a_wrong_result_beside_renumbered_factors_is_blamed_alone():
    turned = statement("b", lambda k, n: other_k(n, k)[::-1], atom="x")
    wrong = statement("d", lambda row, col: (row, col) if row < 8 else (row, col ^ 1), atom="x")
    found = rule(statement("a", other_k, atom="x"), turned, wrong)
    assert [verdict for verdict, _ in found] == ["confirmed", "confirmed", "differs"]


def test_warps_and_multiplies_side_by_side():
    d = load(f"{FORM}.d", "sm_90").table
    wide = [(r, c + 8 * block) for t in range(32) for block in (0, 1) for r, c in d.cells[4 * t : 4 * t + 4]]
    four = [(r + 16 * band, c) for band in range(4) for r, c in d.cells]
    ok = Statement("d", f"{FORM}.d", 32, 8, wide, across=2), Statement("d", f"{FORM}.d", 128, 4, four, bands=4)
    assert rule(*ok) == [("confirmed", 0)] * 2
    assert rule(Statement("d", f"{FORM}.d", 32, 8, [wide[1], *wide[:-1]], across=2))[0][0] == "differs"


def test_what_nobody_can_compare_is_not_covered():
    """Another shape, an unknown fragment, a table that is documented only."""
    small = Statement("x", f"{FORM}.a", 32, 4, [(0, 0)] * 128)
    unknown = Statement("x", "mma.m16n8k99.row.col.f32.f16.f16.f32.a", 32, 1, [(0, 0)] * 32)
    name = "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0.a"
    table = load(name).table
    documented = Statement("x", name, 32, table.elements, [(0, 0)] * table.points)
    assert [verdict for verdict, _ in rule(small, unknown, documented)] == ["not covered"] * 3


def test_a_form_that_does_not_exist_is_told_from_one_that_ptxas_takes():
    words = refusal("mma.m16n8k64.row.col.f32.e4m3.e4m3.f32")
    if words is None:
        pytest.skip("no ptxas")
    assert "refuses it for" in words
    assert refusal("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32") is None  # which there is
    assert refusal("mma.m16n8k32.row.col.f64.e4m3.e4m3.f64") is None  # which nobody asks for


# a package is outside code

GOOD = {"name": "x", "fragment": f"{FORM}.a"}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        7,
        [[]],
        [{"name": 3, "fragment": "x"}],
        [GOOD | {"more": 1}],
        [GOOD | {"cells": [[1]]}],
        [GOOD | {"name": ""}],
        [GOOD | {"name": "\x1b[2J"}],
        [GOOD | {"name": "x" * 300}],
        [GOOD | {"code": "print()\x1b[2J"}],
        [GOOD | {"code": "x" * 5000}],
        [GOOD] * 5001,
    ],
)
def test_an_answer_that_is_none_is_refused(answer):
    with pytest.raises(DataError):
        _decode("x", json.dumps(answer).encode())


@pytest.mark.parametrize(
    "lies",
    [
        {"threads": 33},
        {"threads": 1 << 40},
        {"elements": -1},
        {"threads": 32, "elements": 1 << 30},
        {"threads": 1, "elements": 1, "cells": [[-5, 0]]},
        {"threads": 1, "elements": 1, "cells": [[1 << 60, 0]]},
        {"threads": 1, "elements": 2, "cells": [[0, 0]]},
        {"arch": "sm_999"},
        {"selector": 5},
        {"bands": 1 << 40},
        {"across": 1 << 40},
        {"fragment": "../../etc"},
    ],
)
def test_a_statement_that_lies_is_not_covered(lies):
    (one,) = _decode("x", json.dumps([GOOD | {"threads": 32, "elements": 8, "cells": [[0, 0]] * 256} | lies]).encode())
    assert rule(one)[0][0] == "not covered"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of tensor-layouts."""

    def put(text):
        (tmp_path / "tensor_layouts.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setattr(package_audit, "version", lambda name: "9" if name == "tensor-layouts" else None)

    return put


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("while True: pass", 3, "gave no answer within 2 s"),
        ("import os; os._exit(0)", 4, "gave no answer"),
        ("raise ValueError('no\\x1b[2J luck')", 3, "cannot be read: ValueError: no\\x1b[2J luck"),
        ("print('[]' * 1000)\nx = 1", 3, "cannot be read"),
        ("x = bytearray(1 << 40)", 3, "cannot be read"),
    ],
)
def test_a_package_that_does_harm(package, text, code, words):
    package(text)
    done = audit("tensor-layouts", "--limit", 2 if "while" in text else 60, code=code)
    if "1 << 40" not in text:
        assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_packages(monkeypatch):
    monkeypatch.setattr(package_audit, "version", lambda _: None)
    assert "pip" in audit("tilus", code=3).stderr
    assert "apache-tvm" in audit(code=3).stderr
    assert "there is no adapter for numpy, only for apache-tvm" in audit("numpy", code=2).stderr


# packages that tests install


@pytest.mark.full
@LINUX
def test_tensor_layouts(tmp_path):
    """What is known to differ is found, every report says how to see it, and the page is made of what is saved."""
    words = ["tensor-layouts", "--json", "--save", tmp_path]
    found = json.loads(audit(*words, code=1).stdout)
    slots = {f["name"].split(".")[0]: (f["differ"], f["of"]) for f in found["findings"]}
    assert slots["SM80_16x8x32_S32S4S4S32_TN"] == (192, 256)
    assert {name for name in slots if name.startswith("SM120_16x8x64")} == set(slots) - {"SM80_16x8x32_S32S4S4S32_TN"}
    assert found["version"] == package_audit.version("tensor-layouts")
    assert {(f["since"], f["before"]) for f in found["findings"]} == {("0.1.0", None)}
    assert all("since 0.1.0, the first version that was audited." in f["report"] for f in found["findings"])
    assert found["of"] == found["agree"] + found["differ"] > 150
    page = "\n".join(overview.errata_page(surveys.load_audits(tmp_path)))
    assert "192 of 256" in page
    audit(*words, code=1)
    assert len(surveys.load_audits(tmp_path)) == 1  # a package once


def run_reproductions(package):
    """Each report's program, in a Python of its own, counts what the audit counts."""
    given = package_audit.ask(package, 300)[1]
    rulings = judge_statements(given, layers(None))
    for ruling in [r for r in rulings if r.verdict == "differs" and not r.refused]:
        text = report(PackageAudit(package, "1", tuple(rulings)), ruling)
        program = text.partition("```python\n")[2].partition("```")[0]
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"{ruling.differ} of {ruling.compared} slots differ")
        yield ruling


@pytest.mark.full
@LINUX
def test_reproductions_of_tensor_layouts():
    assert len(list(run_reproductions("tensor-layouts"))) == 1


def test_the_text_says_what_agrees(package):
    package("")
    done = CliRunner().invoke(main, ["audit", "tensor-layouts"])
    assert done.exit_code == 3  # an empty package has no atoms to ask
    assert "No module named" in done.stderr or "cannot" in done.stderr


@pytest.mark.consumer
@pytest.mark.parametrize("name", sorted(adapters()))
def test_packages(name, tmp_path):
    """All that are installed: nothing differs but what is known, and each program of a layout gives its table."""
    if not package_audit.version(name):
        pytest.skip(f"pip install {name}")
    found = json.loads(audit(name, "--json", code=1 if name in DIFFER else 0).stdout)
    assert len(found["findings"]) == DIFFER.get(name, 0)
    assert found["agree"] > 4
    assert len(list(run_reproductions(name))) <= found["differ"]
    of_each = {}
    for ruling in judge_statements(package_audit.ask(name, 300)[1], layers(None)):
        if ruling.verdict == "confirmed":
            of_each[ruling.statement.code.split("{")[0][:200], ruling.statement.fragment[-1]] = ruling
    for ruling in list(of_each.values())[:6]:
        program = reproduction(replace(ruling, verdict="differs"))
        if program and not ruling.words.startswith("rows"):
            path = tmp_path / "program.py"  # CuTe DSL reads the source of what it compiles
            path.write_text(program)
            done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
            assert done.stdout.startswith("0 of"), (ruling.statement.name, done.stderr[-1000:])


# files


def test_csv_files(tmp_path):
    """A folder of tables, for an arch where the name says so."""
    for name, arch in (("wmma.m16n16k16.a.row.f16", ""), ("wmma.m16n16k16.a.row.f16", "sm_70")):
        cell = load(name, arch or None)
        (tmp_path / f"{name}{arch and ','}{arch}.csv").write_text(emit("csv", [cell]))
    assert "2 layouts" in audit(tmp_path).stdout
    path = tmp_path / "wmma.m16n16k16.a.row.f16.csv"
    (tmp_path / "wmma.m16n16k16.a.row.f16,sm_70.csv").write_text(path.read_text())
    done = audit(tmp_path, code=1)
    assert "wmma.m16n16k16.a.row.f16,sm_70.csv" in done.stdout
    assert "1 differ" in done.stdout
    assert "1 layouts" in audit(path).stdout
    (tmp_path / "empty").mkdir()
    assert ".csv" in audit(tmp_path / "empty", code=4).stderr


def test_errata_of_a_stranger_are_refused(tmp_path):
    for text in ("{", "[3]", '[{"package": "x"}]'):
        (tmp_path / "errata.json").write_text(text)
        with pytest.raises(DataError, match="no list of audits"):
            surveys.load_audits(tmp_path)
