"""Reductions, masks and fills: the emitted code run by 32 threads of the host, for every layout of an accumulator."""

import json
import re
import shutil
import subprocess

import numpy as np
import nvrtc
import pytest
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.reduce.mask import condition, holds, linear, mask_fragment
from tcprobe.ask.reduce.reduction import plan, reduce_fragment
from tcprobe.errors import UsageError
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.arch import WARP as LANES
from tcprobe.isa.names import select
from tcprobe.isa.operand import WHOLE
from tcprobe.store.cell import load

D = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
W = "wgmma.m64n128k16.f32.bf16.bf16.d"
HOST = """
#include <barrier>
#include <cstdio>
#include <thread>
#include <vector>
#define __device__
static thread_local unsigned tid;
static std::barrier<> gate(32);
static double words[32];
template <class T> T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  gate.arrive_and_wait();
  words[tid] = value;
  gate.arrive_and_wait();
  return T(words[tid ^ mask]);
}
"""
MASKS = ("row >= col", "row + row0 >= col + col0", "col < 5 or row == 3", "not (2 * row - col > 7) and row != 1")
VALUES = {"row0": 3, "col0": 1}


def layouts():
    """A cell of every layout of an accumulator or result, on any arch, and of some factors."""
    found = {}
    for row in ARCHS:
        for fragment in select(device=row):
            of_multiply = fragment.family in ("wmma", "mma") and fragment.role in WHOLE
            if of_multiply and (fragment.operand == "d" or fragment.id.startswith("wmma.m16n16k16.a.")):
                cell = load(fragment.id, row.name)
                found.setdefault(cell.table.id, cell)
    return list(found.values())


def element(cell, row, col, product=0):
    """A number of its own for each element, not in the order of rows."""
    return (row * 37 + col * 11 + product * 101) % 257 - 100


def on_host(functions, calls, tmp_path):
    """What a program of 32 threads prints: numbers by line."""
    code = "\n".join(functions).replace('asm("mov.u32 %0, %%laneid;" : "=r"(lane));', "lane = tid;")
    body = "\n".join(calls)
    text = f"""{HOST}{code}
static std::vector<double> out[32];
static void work(unsigned lane_number) {{
  tid = lane_number;
  {body}
}}
int main() {{
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 32; ++t) all.emplace_back(work, t);
  for (auto& one : all) one.join();
  for (auto& lane : out) {{ for (double v : lane) std::printf("%.0f ", v); std::puts(""); }}
}}"""
    (tmp_path / "run.cpp").write_text(text)
    built = subprocess.run(
        ["g++", "-std=c++20", "-O0", "-pthread", "run.cpp", "-o", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr[:3000]
    done = subprocess.run([str(tmp_path / "run")], capture_output=True, text=True, check=True)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def filled(cell, name):
    """C++ that puts every element's number into x of a lane."""
    numbers = [element(cell, *found) for found in cell.table.cells]
    table = f"static const float {name}[] = {{{', '.join(map(str, numbers))}}};"
    size = cell.table.elements
    return f"{table} float x[{size}]; for (int i = 0; i < {size}; ++i) x[i] = {name}[tid * {size} + i];"


def numbered(table, axis):
    """The result for each row (or column): its elements, each once."""
    rows = {}
    for cell in table.inverse:
        size = table.extent["row" if axis == 0 else "col"]
        rows.setdefault(cell[axis] + (cell[2] * size if len(cell) > 2 else 0), set()).add(cell)
    return rows


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_every_accumulator_on_the_host(tmp_path):
    functions, calls, expected = [], [], [[] for _ in range(LANES)]
    for number, cell in enumerate(layouts()):
        for axis, over in enumerate(("row", "col")):
            op = ("max", "sum")[(number + axis) % 2]
            found = reduce_fragment(cell, over, op, f"f{number}{over}")
            functions.append(found.code)
            parts = len(found.plan.groups)
            calls.append(
                f"{{ {filled(cell, 't')} float o[{parts}]; f{number}{over}(x, o); "
                "for (float v : o) out[tid].push_back(v); }"
            )
            rows = numbered(cell.table, axis)
            for lane in range(LANES):
                join = max if op == "max" else sum
                expected[lane] += [join(element(cell, *e) for e in rows[row]) for row in found.plan.rows[lane]]
    assert len(functions) >= 30
    assert on_host(functions, calls, tmp_path) == expected


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_masks_and_fills_on_the_host(tmp_path):
    functions, calls, expected = [], [], [[] for _ in range(LANES)]
    for number, cell in enumerate(layouts()):
        if "product" in cell.table.outputs:
            continue
        for at, mask in enumerate(MASKS):
            seven = "7" if cell.fragment.type.startswith("u") else "-7"
            fill = (None, "row * 16 + col", seven, "col - row + row0")[(number + at) % 4]
            found = mask_fragment(cell, mask, fill, f"m{number}_{at}")
            functions.append(found.code)
            given = list(dict.fromkeys(re.findall("row0|col0", mask + (fill or ""))))
            arguments = ["x", *(["-1.f"] if fill is None else []), *(str(VALUES[name]) for name in given)]
            calls.append(
                f"{{ {filled(cell, 't')} m{number}_{at}({', '.join(arguments)}); "
                "for (float v : x) out[tid].push_back(v); }"
            )
            for slot, (row, col) in enumerate(cell.table.cells):
                values = {"row": row, "col": col, **VALUES}
                other = -1 if fill is None else linear(fill).at(values)
                kept = holds(condition(mask), values)
                expected[slot // cell.table.elements].append(element(cell, row, col) if kept else other)
    assert on_host(functions, calls, tmp_path) == expected


def test_the_code_compiles_for_a_gpu():
    d = load(D)
    parts = [
        reduce_fragment(d, "row", "max", "a").code,
        mask_fragment(d, "row >= col", None, "b").code,
        mask_fragment(load("wmma.m16n16k16.d.f32", "sm_90"), None, "row * 16 + col", "c").code,
    ]
    use = """
    __global__ void k(float* p) {
      float x[4], o[2], y[8];
      for (int i = 0; i < 4; ++i) x[i] = p[i];
      a(x, o); b(x, -1.f); c(y);
      p[0] = o[0] + o[1] + x[0] + y[3];
    }"""
    assert nvrtc.compile_cuda(nvrtc.library(), "\n".join([*parts, use]), "-arch=sm_90", "-std=c++17") == (True, "")


@pytest.mark.full
def test_accumulators_have_the_fewest_exchanges():
    """As few as the bound, but for two layouts of sm_70 over columns, where one more is needed than it says."""
    for cell in layouts():
        if cell.fragment.operand == "d":
            for axis in (0, 1):
                found = plan(cell.table, axis)
                assert found.shuffles <= found.least + (axis and cell.arch in ("sm_70", "sm_72")), cell.fragment.id
                assert found.back == len(found.groups) - len(found.final_rows[0])


def test_known_cases():
    found = reduce_fragment(load(D), "row", "max")
    assert (found.plan.groups, found.plan.shuffles, found.plan.back) == (((0, 1), (2, 3)), 2, 1)
    assert [one.lane for one in found.plan.rounds] == [1, 2]
    copies = reduce_fragment(load("wmma.m16n16k16.a.row.f16", "sm_70"), "row", "sum")
    assert copies.plan.shuffles == 0
    assert np.size(copies.plan.groups) == 16


@pytest.mark.parametrize(
    ("mask", "costs"),
    [
        ("row >= col", {"compare": 2, "select": 2}),
        ("row < 8", {"compare": 0, "select": 0}),
        ("row >= col + off", {"compare": 4, "select": 4}),
        ("row >= 0", {"compare": 0, "select": 0}),
    ],
)
def test_what_is_the_same_in_all_lanes_costs_nothing(mask, costs):
    assert mask_fragment(load(D), mask, None).costs == costs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row", "is compared with nothing: give a condition"),
        ("row >=", "where a number"),
        ("row * col > 3", "not linear"),
        ("row > 3 > col", "two comparisons"),
        ("(row > 3", "not closed"),
        ("row > a.b('os')", "is not allowed in a condition"),
        ("row > 1e9", "is not allowed in a condition"),
        ("row > 99999999", "is not allowed in a condition"),
        ("row > lane", "cannot be"),
        ("(" * 100 + "row > 1", "more than 30 levels"),
        ("row > 1 " * 100, "at most 500"),
        ("", "where a number"),
        ("row > 1048577", "a number above"),
        ("row; col", "is not allowed in a condition"),
        ("row > int", "cannot be arguments"),
        ("row > x", "cannot be arguments"),
        ("row and col > 1", "a value that is compared with nothing where a condition"),
        ("3 and col > 1", "a number where a condition"),
    ],
)
def test_what_is_no_condition(text, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        condition(text)


@given(st.text(alphabet="rowcl 0123456789+-*()<>=!&|and", max_size=40))
def test_any_text_is_a_condition_or_refused(text):
    try:
        found = condition(text)
    except UsageError:
        return
    assert holds(found, {"row": 1, "col": 2}) in (True, False)
    assert condition(str(found)) == found or "!" in str(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((W, "--over", "col"), "reduce over row instead"),
        ((D, "--over", "row", "--tile", "60x128"), "next is 64x128"),
        ((D, "--over", "row", "--tile", "64"), "is not a tile such as 16x16"),
        ((D, "--over", "row", "--tile", "64x512"), "the limit is 512"),
        ((D, "--mask", "row > 1", "--tile", "64x64"), "--tile needs --over"),
        (("wmma.m16n16k16.a.row.f16", "--arch", "sm_80", "--over", "row", "--op", "softmax"), "holds elements twice"),
        (
            ("mma.m8n8k4.row.col.f32.f16.f16.f32.d", "--arch", "sm_70", "--over", "row", "--tile", "16x8"),
            "holds 4 products",
        ),
        ((D, "--over", "row", "--name", "x"), "another use"),
    ],
)
def test_what_has_no_plan(arguments, words):
    assert words in " ".join(tcprobe("reduce", *arguments, code=2).stderr.split())


def test_a_warpgroup_and_a_tile_of_fragments():
    of_warpgroup = json.loads(tcprobe("reduce", W, "--over", "row", "--json").stdout)
    assert (of_warpgroup["shuffles"], len(of_warpgroup["results"])) == ({"combine": 2, "back": 1}, 128)
    assert [of_warpgroup["results"][thread] for thread in (0, 37, 127)] == [[0, 8], [17, 25], [55, 63]]
    tile = json.loads(tcprobe("reduce", D, "--over", "row", "--tile", "64x128", "--json").stdout)
    assert (tile["shuffles"], tile["fewest"], tile["fragments"]) == ({"combine": 6, "back": 6}, True, [4, 16])
    step = tcprobe("reduce", D, "--over", "row", "--op", "softmax").stdout
    assert len(re.findall("__shfl_xor_sync", step)) == 6  # of the maximum, and of the total
    assert "void softmax(" in step
    assert "void softmax_total(" in step


@pytest.mark.parametrize("asked", [["--over", "row"], ["--over", "row", "--op", "softmax"], ["--mask", "row >= col"]])
@pytest.mark.parametrize("namespace", [[], ["--namespace", "mine"]])
def test_a_file_is_a_header_that_may_be_included_twice(tmp_path, asked, namespace):
    """-o writes what a pipe gets; twice in one text it compiles, and the words go to stderr."""
    path = tmp_path / "reduce.h"
    written = tcprobe("reduce", D, *asked, *namespace, "-o", str(path))
    assert written.stdout == ""
    assert D in written.stderr
    text = path.read_text()
    assert text == tcprobe("reduce", D, *asked, *namespace).stdout
    assert json.loads(tcprobe("reduce", D, *asked, "--json").stdout)["code"].strip() in text or namespace
    lib = nvrtc.library()
    if lib is None:
        pytest.skip("no NVRTC")
    assert nvrtc.compile_cuda(lib, text + text, "-arch=compute_80") == (True, "")


def test_python_prints_the_code():
    """Of a reduction, a mask, a conversion and a store, as their commands do; their repr is short."""
    import tcprobe as library

    for answer in (
        library.reduce(D, over="row"),
        library.reduce(D, mask="row >= col"),
        library.convert(D, D.replace(".d", ".a")),
        library.convert(D, "stmatrix"),
    ):
        assert answer.code
        assert str(answer).endswith(answer.code)
        assert str(answer).startswith("\n".join(answer.in_words))
        assert answer.code not in repr(answer)


def test_the_command():
    done = tcprobe("reduce", D, "--over", "row", "--op", "max")
    assert re.match(r"#ifndef (TCPROBE_\w+)\n#define \1\ntemplate <class T>\n", done.stdout)
    assert "2 shuffles, no exchange of words between lanes needs fewer" in done.stderr
    data = json.loads(
        tcprobe(
            "reduce", "accumulator", "wmma", "16x16x16", "float", "--arch", "v100", "--over", "row", "--json"
        ).stdout
    )
    assert (data["arch"], data["shuffles"], data["groups"]) == (
        "sm_70",
        {"combine": 2, "back": 1},
        [[0, 1, 4, 5], [2, 3, 6, 7]],
    )
    assert len(data["results"]) == 32
    assert "keeps where row >= col; per lane: 2 comparisons" in tcprobe("reduce", D, "--mask", "row >= col").stderr
    for arguments, words in {
        (): "give --over",
        ("--over", "row", "--fill", "0"): "give --over",
        ("--over", "row", "--name", "a b"): "is not a name",
    }.items():
        assert words in tcprobe("reduce", D, *arguments, code=2).stderr
    of_addresses = tcprobe("reduce", "ldmatrix.m8n8.x1.shared.b16.address", "--fill", "0", code=2)
    assert "holds no elements of a matrix" in of_addresses.stderr
