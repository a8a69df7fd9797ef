"""Paths of s4 in shared memory to s8 in registers, by ldmatrix .s8.s4: each nibble comes to its byte, with its sign."""

import json
import re
import shutil
import subprocess

import host_cuda
import numpy as np
import nvrtc
import path_cases
import pytest
from click.testing import CliRunner
from machine_code import TOOLS, needs_tools
from path_cases import Case
from test_w4a8 import newer, packed, ptxas

from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.path.code import name, source
from tcprobe.ask.path.plan import PathOptions, plan_path, request
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import access, accesses, widening
from tcprobe.store.cell import load
from tcprobe.store.results import published

S8, WG = path_cases.S8, "wgmma.mma_async.m64n32k32.s32.s8.s8.a"
LOAD = "ldmatrix.m8n16.x{}.s8.s4"
X4, X2, X1 = (LOAD.format(number) for number in (4, 2, 1))
CASES = (
    Case(S8 + ".a", "64x128", "row", "sw:2,4,3", X4),
    Case(S8 + ".a", "32x64", "row", "pad:8", X2),
    Case(S8 + ".b", "64x64", "col", "plain", X4),
    Case(S8 + ".b", "64x64", "col", "pad:8", X2, 80),
    Case(S8 + ".b", "32x24", "col", "plain", X1, 48, "plain"),
    Case(S8 + ".b", "128x32", "col", "SWIZZLE_64B", X4),
    Case("mma.m16n8k16.row.col.s32.s8.s8.s32.a", "32x32", "row", "sw:1,3,3", X2),
    Case("mma.m16n8k16.row.col.s32.s8.u8.s32.a", "32x32", "row", "plain", X1),
    Case(WG, "64x64", "row", "plain", X4),
    Case(WG, "128x128", "row", "sw:2,4,3", X2),
)
ASM = "ldmatrix.sync.aligned.m8n16.x{}.shared.s8.s4"


def numbers(case):
    """Random s4, the tile's image in memory with its gaps, and what registers of all threads must hold, as bytes."""
    found = path_cases.plan(case)
    tile, cell = found.request.tile, found.request.cell
    matrix = np.random.default_rng(7).integers(-8, 8, (tile.rows, tile.cols))
    lines = np.zeros((tile.lines, found.request.ld), np.int64)
    lines[:, : tile.length] = matrix if tile.contiguous == "row" else matrix.T
    row, col = (np.array(cell.table.values[axis]).reshape(cell.table.threads, -1) for axis in ("row", "col"))
    held = [matrix[down + row, right + col] for down, right in path_cases.order(found)]
    return packed(lines).tobytes(), np.ascontiguousarray(np.stack(held, axis=1)).astype(np.int8).tobytes()


def ran(folder, cases, changed=lambda text: text):
    """(wanted, found) of each case, its code run by all threads on the host."""
    calls, texts, given, wanted = [], [], [], []
    for case in cases:
        image, registers = numbers(case)
        texts.append(changed(source(path_cases.plan(case))))
        given.append(image)
        wanted.append(registers)
        call = f"load<{name(path_cases.plan(case))}>"
        calls.append(f"step({path_cases.threads(case)}, {len(image)}, {len(registers)}, output, {call});")
    out = host_cuda.execute(folder, texts, calls, b"".join(given))
    found = []
    for one in wanted:
        found.append(out[: len(one)])
        out = out[len(one) :]
    assert not out
    return list(zip(wanted, found, strict=True))


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_the_code_brings_every_nibble_to_its_byte(tmp_path):
    for case, (wanted, found) in zip(CASES, ran(tmp_path, CASES), strict=True):
        assert wanted == found, str(case)


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_wrong_code_is_noticed(tmp_path):
    """Another address, or registers in another order."""
    for old, new in (("lane & 16", "lane & 8"), ("registers + issue * 4", "registers + (issue ^ 1) * 4")):
        assert old in source(path_cases.plan(CASES[0]))
        try:
            [(wanted, found)] = ran(tmp_path, CASES[:1], lambda text, a=old, b=new: text.replace(a, b))
        except subprocess.CalledProcessError:  # an address that is not a multiple of 8
            continue
        assert wanted != found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_issue_by_hand(case):
    """From the issues of --json alone: register r of lane l gets row l / 4, nibbles 4 (l % 4) on, of matrix r."""
    said = path_cases.plan(case).to_json()
    [loads] = [step for step in said["steps"] if step["kind"] == "shared->registers"]
    fills = said["steps"][0]
    cell, (rows, cols), row_major = load(case.fragment, "sm_90"), said["tile"], said["global"] == "row"
    lines, length = (rows, cols) if row_major else (cols, rows)
    shared, registers = {}, {}
    for issue in fills["issues"]:
        for at, start in zip(issue["shared"], issue["global"], strict=True):
            for byte in range(issue["bytes"] if at is not None else 0):
                line, place = divmod(2 * (start + byte), said["ld"])
                shared[at + byte] = ((line, place), (line, place + 1))
    count = int(re.search(r"\.x(\d)", loads["instruction"])[1])
    assert lines * length // 2 == len(shared)
    for issue in loads["issues"]:
        for m, (row, col, i) in enumerate(issue["slots"]):
            for lane in range(32):
                for j in range(4):
                    at = issue["shared"][8 * m + lane // 4]
                    assert at % 8 == 0
                    place = 4 * (lane % 4) + j
                    line, position = shared[at + place // 2][place % 2]
                    element = (line, position) if row_major else (position, line)
                    registers[row, col, 32 * issue.get("warp", 0) + lane, i + j] = element
        assert len(issue["slots"]) == count
    for (row, col, lane, i), element in registers.items():
        at = cell.table.at(lane=lane, i=i)
        assert element == (row + at["row"], col + at["col"])
    assert len(registers) == said["fragments"] * cell.table.points


@needs_tools
def test_it_is_assembled():
    """With `load` in a kernel, by a compiler that knows PTX 9.4."""
    compiler, case = ptxas(), CASES[2]
    found = path_cases.plan(case)
    kernel = f"""extern "C" __global__ void f(const void* given, unsigned* made) {{
  __shared__ __align__(1024) unsigned char tile[{name(found)}::BYTES];
  const unsigned shared = (unsigned)__cvta_generic_to_shared(tile);
  {name(found)}::fill(shared, given, threadIdx.x, 32);
  asm volatile("cp.async.wait_all;" : : : "memory");
  __syncthreads();
  unsigned registers[{name(found)}::REGISTERS];
  {name(found)}::load(shared, threadIdx.x, registers);
  for (int i = 0; i < {name(found)}::REGISTERS; ++i) made[32 * i + threadIdx.x] = registers[i];
}}"""
    ptx = newer(nvrtc.ptx(nvrtc.library(), source(found) + kernel, "-arch=compute_90a"))
    assert ptx.count(ASM.format(4)) == 8
    made, log = compiler.assembled(arch("sm_90"), ptx, True)
    assert made, log
    assert TOOLS.ptxas


def test_the_largest_that_there_is_without_with():
    """--type s4 alone asks for it; odd numbers of matrices take smaller ones."""
    b = load(S8 + ".b", "sm_90")
    for size, wanted in (("64x64", X4), ("32x8", X2)):
        found = plan_path(request(b, PathOptions(size, "col", kind="s4")))
        assert found.registers.instruction == wanted
    assert found.needs == "sm_90a, sm_100f, sm_110f or sm_120f, and PTX 9.4"
    assert found.registers.wavefronts is None


def test_ptx_s_name_means_the_same():
    case = CASES[2]._replace(access="ldmatrix.m8n16.x4.shared.s8.s4")
    assert path_cases.plan(case).registers.issues() == path_cases.plan(CASES[2]).registers.issues()


def test_no_rule_of_banks_is_made_up():
    """They are not an access whose rule is measured, and what asks for one is told so."""
    assert not widening().keys() & accesses().keys()
    with pytest.raises(UsageError, match="how its lanes collide in banks is not measured"):
        rules_for("sm_90", published()).rule(access(X4))


@pytest.mark.parametrize(
    ("fragment", "options", "arch_name", "words"),
    [
        (S8 + ".a", PathOptions("64x64", "row", kind="s4"), "sm_80", "needs sm_90a, sm_100f, sm_110f or sm_120f"),
        (S8 + ".a", PathOptions("64x64", "col", kind="s4"), "sm_90", r"no \.trans"),
        (
            S8 + ".a",
            PathOptions("64x64", "row", kind="s8", access=X4),
            "sm_90",
            "it turns s4 in memory into s8 in registers",
        ),
        (S8 + ".a", PathOptions("64x64", "row", "sw:3,2,3", kind="s4"), "sm_90", "splits the 8 bytes"),
        (S8 + ".a", PathOptions("64x64", "row", "pad:4", kind="s4"), "sm_90", "multiples of 8 bytes"),
        (S8 + ".a", PathOptions("64x64", "row", access="ld.shared.b32", kind="s4"), "sm_90", "the elements are s8"),
        (S8 + ".d", PathOptions("64x64", "row", kind="s4"), "sm_90", "the elements are s32"),
        (path_cases.F16 + ".a", PathOptions("64x64", "row", access=X4), "sm_90", "the fragment's elements are f16"),
        (S8 + ".a", PathOptions("64x64", "row", fill="tma", kind="s4"), "sm_90", "elements of 4 bits"),
    ],
)
def test_what_cannot_be_is_refused(fragment, options, arch_name, words):
    with pytest.raises(UsageError, match=words):
        plan_path(request(load(fragment, arch_name), options))


def test_cute_has_no_atom_of_it():
    asked = ["path", S8 + ".b", "--tile", "64x64", "--global", "col", "--type", "s4"]
    done = CliRunner().invoke(main, [*asked, "--code", "cute"])
    assert done.exit_code == 2
    assert "no copy atom" in done.output


def test_the_next_tile_of_elements_below_a_byte():
    """A tile of 64 elements of 4 bits is 32 bytes wide."""
    done = CliRunner().invoke(
        main, ["path", "mma.m16n8k64.row.col.s32.s4.s4.s32.a", "--tile", "64x128", "--arch", "sm_80", "--json"]
    )
    assert json.loads(done.output)["k"]["global"] == 64
    done = CliRunner().invoke(main, ["path", S8 + ".b", "--tile", "64x64", "--global", "col", "--type", "s4", "--json"])
    assert json.loads(done.output)["k"]["global"] == 32
