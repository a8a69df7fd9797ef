"""`tcprobe path`: every plan is gone again from its JSON alone, figures, refusals, formulas."""

import itertools
import json
import random
from dataclasses import replace

import emulation
import path_cases
import path_reference as reference
import pytest
from click.testing import CliRunner

from tcprobe.ask.path.code import source
from tcprobe.ask.path.plan import PathOptions, advance, plan_path, prove, request
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.layout.expression import values
from tcprobe.store.cell import load

F16 = "mma.m16n8k16.row.col.f32.f16.f16.f32"
HALF = "mma.m16n8k16.row.col.f16.f16.f16.f16"
TF32 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32"
S8 = "mma.m16n8k32.row.col.s32.s8.s8.s32"
F64 = "mma.m16n8k8.row.col.f64.f64.f64.f64"


def answered(*arguments):
    done = CliRunner().invoke(main, ["path", *arguments, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def plan(name, *options, arch="sm_90", **more):
    return plan_path(request(load(name, arch), PathOptions(*options, **more)))


def check(answer, table):
    """Every element comes where it should, by the JSON alone, and costs what the tests' own rule says."""
    found = reference.Simulated(answer, table, table.fragment.slot_bits).run()
    loads = answer["steps"][0]["kind"] == "global->shared"
    if loads:
        assert found.registers == found.expected()
    else:
        assert found.back == found.whole()
    placed(answer, table, found)
    goes_on(answer)
    for step in answer["steps"]:
        if step["instruction"].startswith("cp.async.bulk"):
            assert step["wavefronts"] is None
        else:
            assert step["wavefronts"] == reference.wavefronts(step["issues"], step["instruction"])


def goes_on(answer):
    """The addresses of each k step are those of step 0, plus or XOR one number, and its slots are those of its k."""
    k, issues = answer["k"], answer["steps"][-1]["issues"]
    if not k or not k["issues"]:
        return
    count = k["issues"]
    assert len(issues) == k["steps"] * count
    for s, j in itertools.product(range(k["steps"]), range(count)):
        first, here = issues[j], issues[s * count + j]
        if k["op"]:
            by = k["shared"][s]
            moved = [a if a is None else a + by if k["op"] == "+" else a ^ by for a in first["shared"]]
            assert moved == here["shared"]
        axis = ["row", "col"].index(k["axis"])
        apart = {at[axis] - start[axis] for start, at in zip(first["slots"], here["slots"], strict=True)}
        assert apart == {s * answer["tile"][axis] // k["steps"]}


def placed(answer, table, found):
    """Each element is at swizzle(pitch * major + minor * size) of its block of shared memory."""
    text = answer["shared"]
    three = tuple(map(int, text[3:-1].split(","))) if text.startswith("Sw") else (0, 0, 0)
    bits = table.fragment.slot_bits
    for at, (row, col, p) in found.shared.items():
        line, place = (row, col) if answer["global"] == "row" else (col, row)
        bit = place * bits + p * found.piece
        block, byte = divmod(bit // 8, answer["block"] or 1 << 20)
        lines = answer["tile"][0 if answer["global"] == "row" else 1]
        linear = block * lines * answer["pitch"] + line * answer["pitch"] + byte
        assert at == 8 * reference.swizzled(linear, three) + bit % 8


def test_the_example_of_the_manual():
    answer = answered(F16 + ".b", "--tile", "64x64", "--global", "col", "--shared", "sw:3,4,3", "--with", "ldmatrix.x4")
    assert [(s["kind"], s["instruction"], s["wavefronts"], len(s["issues"])) for s in answer["steps"]] == [
        ("global->shared", "cp.async.16", 64, 16),
        ("shared->registers", "ldmatrix.x4", 64, 16),
    ]
    first, second = (step["issues"][1] for step in answer["steps"])
    assert (first["bytes"], first["global"][:2], first["shared"][:2]) == (16, [512, 528], [576, 592])
    assert second["slots"] == [[0, 16, 0], [0, 16, 2], [0, 24, 0], [0, 24, 2]]
    assert second["shared"][:9] == [2048 + 128 * r + 16 * r for r in range(8)] + [2064]
    assert answer["k"] == {"axis": "row", "steps": 4, "issues": 4, "op": "^", "shared": [0, 32, 64, 96], "global": 128}
    check(answer, load(F16 + ".b", "sm_90"))


WORKED = [
    (F16 + ".a", "64x64", ["plain", "sw:3,4,3"], ["ldmatrix.x4"], [[64, 512], [64, 64]]),
    (F16 + ".a", "64x32", ["plain", "sw:2,4,3"], ["ldmatrix.x4"], [[32, 128], [32, 32]]),
    (F16 + ".a", "64x128", ["plain", "sw:3,4,4"], ["ldmatrix.x4"], [[128, 1024], [128, 128]]),
    (F16 + ".d", "64x32", ["plain", "sw:2,5,2"], ["st.shared.v2"], [[256, 64], [64, 64]]),
]


@pytest.mark.parametrize(("name", "size", "places", "access", "figures"), WORKED, ids=str)
def test_worked_figures(name, size, places, access, figures):
    found = [answered(name, "--tile", size, "--shared", place, "--with", *access) for place in places]
    assert [[step["wavefronts"] for step in answer["steps"]] for answer in found] == figures
    for answer in found:
        check(answer, load(name, "sm_90"))


@pytest.mark.parametrize(("place", "fill"), [("plain", 32), ("sw:5,2,5", 32), ("pad:4", 32)])
def test_the_transpose_of_f32_fills_without_conflicts(place, fill):
    """32 x 32 of f32 by cp.async.4; the read across the lines is `tcprobe banks`'s alone, and tested there."""
    answer = answered(
        TF32 + ".a", "--tile", "32x32", "--shared", place, "--fill", "cp.async.4", "--with", "ld.shared.b32"
    )
    assert answer["steps"][0]["wavefronts"] == fill
    check(answer, load(TF32 + ".a", "sm_90"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", path_cases.CASES, ids=str)
def test_cases_of_the_gpu_are_gone_again(case):
    cell = load(case.fragment, "sm_90")
    check(plan(case.fragment, *case.options).to_json(), cell)


def test_more_than_forty_cases():
    assert len(set(path_cases.CASES)) >= 40
    types = {load(case.fragment, "sm_90").fragment.type for case in path_cases.CASES}
    assert types >= {"f16", "bf16", "tf32", "f32", "s8", "e4m3", "f64"}


NAMES = [
    F16 + ".a",
    F16 + ".b",
    F16 + ".c",
    HALF + ".d",
    TF32 + ".b",
    S8 + ".a",
    S8 + ".d",
    F64 + ".a",
    F64 + ".d",
    "mma.m16n8k64.row.col.s32.s4.s4.s32.b",
    "mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a",
    "wmma.m16n16k16.b.col.f16",
    "wmma.m32n8k16.a.row.f16",
    "mma.m8n8k4.row.col.f64.f64.f64.f64.b",
    "mma.m16n8k4.row.col.f32.tf32.tf32.f32.a",
]
PLACES = ["plain", "pad:16", "pad:20", "sw:2,4,3", "SWIZZLE_128B", "sw:1,5,-2"]
OPS = [
    "ldmatrix.x1",
    "ldmatrix.x2",
    "ldmatrix.x4.trans",
    "ld.shared.b32",
    "ld.shared.v2",
    "stmatrix.x2",
    "stmatrix.x1.trans",
    "st.shared.b16",
    "st.shared.b64",
    None,
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(5)
def test_whatever_is_planned_is_right_and_the_rest_is_refused(name):
    """A third of all combinations: each is either a path, proven from its JSON, or refused with a reason."""
    cell, made = load(name, "sm_90"), 0
    size = f"{2 * cell.fragment.rows}x{4 * cell.fragment.cols}"
    every = list(itertools.product(["row", "col"], PLACES, OPS))[::3]
    for number, (major, place, op) in enumerate(every):
        fill, extra = [None, "plain", "tma"][number % 3], [0, 8, 3][number % 3]
        lines = cell.fragment.cols * 4 if major == "row" else cell.fragment.rows * 2
        found = tried(name, size, major, place, op, lines + extra, fill)
        if not found:
            continue
        if made < 4 or number % 7 == 0:
            check(found.to_json(), cell)
        formulas_hold(found.to_json())
        made += 1
    assert made > 3


def tried(name, *options):
    """The path, or None where it is refused, without words on what else there is."""
    try:
        return prove(request(load(name, "sm_90"), PathOptions(*options)))
    except UsageError:
        return None


def formulas_hold(answer):
    """What the formulas say for each issue, read by tcprobe's own parser, is what the issues have."""
    for step in answer["steps"]:
        for where, text in step["formula"].items():
            assert text is not None
            for number, issue in list(enumerate(step["issues"]))[:: max(1, len(step["issues"]) // 4)]:
                said = values(text.replace("issue", str(number)))
                assert all(a is None or a == b for a, b in zip(issue[where], said, strict=True)), (text, number)


@pytest.mark.full
@pytest.mark.parametrize("size", ["48x48", "16x80", "112x32"])
@pytest.mark.parametrize("place", ["plain", "pad:16", "sw:1,4,3"])
@pytest.mark.parametrize("major", ["row", "col"])
def test_tiles_that_are_no_power_of_two(size, place, major):
    found = plan(F16 + ".a", size, major, place)
    check(found.to_json(), load(F16 + ".a", "sm_90"))
    formulas_hold(found.to_json())
    ahead = advance(found)
    assert ahead.steps == int(size.partition("x")[2]) // 16


def test_without_an_access_the_most_matrices_are_taken():
    found = {
        name: plan(name, "64x64", major).registers.instruction
        for name, major in (
            (F16 + ".a", "row"),
            (F16 + ".b", "row"),
            (HALF + ".d", "col"),
            (F16 + ".d", "row"),
            (S8 + ".a", "col"),
        )
    }
    assert list(found.values()) == [
        "ldmatrix.x4",
        "ldmatrix.x4.trans",
        "stmatrix.x4.trans",
        "st.shared.b64",
        "ld.shared.b8",
    ]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_120"])
def test_other_archs_by_their_own_tables(arch):
    answer = plan("wmma.m16n16k16.a.row.f16", "32x64", "row", "sw:3,4,3", "ldmatrix.x4", arch=arch).to_json()
    check(answer, load("wmma.m16n16k16.a.row.f16", arch))
    assert f"no measurement of {arch}" in answer["evidence"][-1]
    assert any("ldmatrix.m8n8.x4.shared.b16.d" in words for words in answer["evidence"])
    assert answer["steps"][0]["instruction"] == ("st.shared.b128" if arch == "sm_75" else "cp.async.16")


def test_another_table_is_not_proven(monkeypatch):
    """Were ldmatrix's registers the other way round, there would be no path."""
    from tcprobe.ask.path import steps

    real = steps._column
    monkeypatch.setattr(steps, "_column", lambda found, name: real(found, name)[:, ::-1])
    with pytest.raises(UsageError, match="would land elsewhere"):
        plan(F16 + ".a", "64x64", "row", "plain", "ldmatrix.x4")


def test_any_table():
    """A table without any order is gone element by element; formulas and code are left out where there are none."""
    cell = load(F16 + ".a", "sm_90")
    odd = replace(cell, table=emulation.shuffled(cell.fragment, random.Random(5)))
    found = plan_path(request(odd, PathOptions("32x32", "row", "pad:2", "ld.shared.b16", fill="plain")))
    check(found.to_json(), odd)
    assert found.to_json()["steps"][1]["formula"] == {"shared": None}
    with pytest.raises(UsageError, match="no closed form"):
        source(found)
    with pytest.raises(UsageError, match=r"Nearest that exists: `access` ld\.shared\.b16"):
        plan_path(request(odd, PathOptions("32x32", "row", "plain", "ldmatrix.x4")))


@pytest.mark.parametrize("case", path_cases.CASES, ids=str)
def test_a_start_as_aligned_as_it_says_changes_nothing(case):
    """A swizzle of addresses is then a swizzle of offsets."""
    found = path_cases.plan(case)
    three, size = found.request.shared.swizzle, found.request.shared.bytes(found.request.tile)
    for start in (found.alignment, 3 * found.alignment):
        for offset in range(0, size, 4):
            assert reference.swizzled(start + offset, three) == start + reference.swizzled(offset, three)


def test_boxes_of_one_line_where_lines_are_wider_than_the_span():
    answer = plan(F16 + ".a", "16x128", "row", "sw:3,4,3", fill="tma").to_json()
    assert [issue["box"] for issue in answer["steps"][0]["issues"]] == [[64, 1]] * 32
    check(answer, load(F16 + ".a", "sm_90"))


def test_the_way_back_by_tensor_map():
    answer = plan(HALF + ".d", "64x64", "row", "SWIZZLE_128B", fill="tma").to_json()
    assert [(s["kind"], s.get("swizzle")) for s in answer["steps"]] == [
        ("registers->shared", None),
        ("shared->global", "SWIZZLE_128B"),
    ]
    check(answer, load(HALF + ".d", "sm_90"))


def test_text_says_what_the_json_has():
    asked = ["path", F16 + ".b", "--tile", "64x64", "--global", "col", "--shared", "sw:3,4,3"]
    lines = CliRunner().invoke(main, [*asked, "--full"]).stdout.splitlines()
    brief, why = (CliRunner().invoke(main, [*asked, *more]).stdout.splitlines() for more in ((), ("--why",)))
    assert lines[-1] == brief[-1] == why[-1] == [line for line in lines if line.startswith("confidence: ")][-1]
    assert [line for line in brief if line not in lines] == []
    assert not [line for line in brief if "live on" in line or "issue 0 ->" in line]
    assert [line for line in lines if "live on" in line] == [line for line in why if "live on" in line] != []
    assert "shared->registers  ldmatrix.x4      16          64     64" in lines
    assert "  matrix 3 of issue 0 -> the fragment at (0, 8), i = 2 on: its register 1" in lines
    assert any(
        line.startswith("k: 4 steps along rows of 4 issues each, shared address ^ 0, 32, 64, 96") for line in lines
    )


def test_code_goes_into_a_file(tmp_path):
    target = tmp_path / "path.h"
    done = CliRunner().invoke(main, ["path", F16 + ".a", "--tile", "64x64", "-o", str(target)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert target.read_text() == source(plan(F16 + ".a", "64x64", "row"))
