"""Metadata of sparse multiplies as code: what formats emit builds the register that the measured tables ask for."""

import json
import shutil
import subprocess
import sys
from functools import cache

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner
from test_header import STRICT
from test_odd_tables import with_table

from tcprobe import emit
from tcprobe.ask import registers
from tcprobe.cli import main
from tcprobe.emit.common import cell_identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import sparsity
from tcprobe.run.multiplicands import indices
from tcprobe.store.cell import cell, selections
from tcprobe.store.results import published

RESULTS = published()
# one of each map and index width
METADATA = [
    inventory.fragment(f"mma.sp.{name}.e")
    for name in (
        "m16n8k8.row.col.f32.tf32.tf32.f32",
        "m16n8k16.row.col.f32.tf32.tf32.f32",
        "m16n8k16.row.col.f32.f16.f16.f32",
        "m16n8k32.row.col.f16.f16.f16.f16",
        "m16n8k32.row.col.s32.s8.u8.s32",
        "m16n8k64.row.col.f32.e4m3.e5m2.f32",
        "m16n8k64.row.col.s32.u4.u4.s32",
        "m16n8k128.row.col.s32.s4.s4.s32",
    )
]
CELLS = [one for e in METADATA for one in selections(cell(e, "sm_90", RESULTS))]
consumers = pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel is a Linux one")
gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


def expected(one, index):
    """The registers that the table asks for, field by field."""
    e, rule, found = one.fragment, sparsity(one.fragment), [0] * 32
    for slot, element in enumerate(one.table.cells):
        if element:
            lane, i = divmod(slot, e.elements)
            value = int(index[element[0], element[1] // e.span])
            found[lane] |= (value if rule.fields > 1 else rule.legal[value]) << e.where(i)[1]
    return found


def drawn(one):
    return indices(one.fragment, np.random.default_rng(one.selector))


def spread(one, index):
    """The index of each stored column."""
    return index.repeat(one.fragment.span, axis=1)


@cache
def header():
    return emit.emit("cuda", CELLS)


PRINT = """
#include <cstdio>
template <class E, class I> void print(const I* index) {
  for (int lane = 0; lane < E::lanes; ++lane) std::printf("%u\\n", tcprobe::metadata<E>(lane, index));
  for (int col = 0; col < E::cols; ++col) std::printf("%d\\n", E::k(col, static_cast<int>(index[col / E::span])));
}
"""


@gcc
def test_host_code_builds_the_registers(tmp_path):
    lines, wanted = [], []
    for one in CELLS:
        index, rule = drawn(one), sparsity(one.fragment)
        lines += [
            f"  {{ const int index[] = {{{', '.join(map(str, index.ravel()))}}};",
            f"    print<tcprobe::{cell_identifier(one)}>(index); }}",
        ]
        wanted += expected(one, index)
        wanted += [rule.k(col, int(v)) for col, v in enumerate(spread(one, index)[0])]
    (tmp_path / "layouts.h").write_text(header())
    (tmp_path / "main.cpp").write_text("\n".join(['#include "layouts.h"', PRINT, "int main() {", *lines, "}"]))
    program = tmp_path / "main"
    done = subprocess.run(
        ["g++", *STRICT, str(tmp_path / "main.cpp"), "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    assert list(map(int, printed)) == wanted


@consumers
def test_nvrtc_compiles_kernels_that_build_registers():
    lib = nvrtc.library()
    name = next(cell_identifier(one) for one in CELLS if one.selector == 2)
    use = f"""
    using E = tcprobe::{name};
    static_assert(E::selector == 2 && E::read(2) && !E::read(1) && E::elements * E::slot_bits == 32, "");
    static_assert(E::lane_of(3, 1) == 14 && E::k(1, 1) == 3, "");
    extern "C" __global__ void build(const unsigned char* index, unsigned* out) {{
      out[threadIdx.x] = tcprobe::metadata<E>(threadIdx.x, index);
    }}
    """
    done, log = nvrtc.compile_cuda(lib, header() + use, "-arch=sm_90", "-std=c++17")
    assert (done, log) == (True, "")


@consumers
@pytest.mark.parametrize("one", CELLS[:1] + CELLS[-3:], ids=cell_identifier)
def test_a_changed_number_does_not_compile(one):
    lib, text = nvrtc.library(), emit.emit("cuda", [one])
    start = text.index(f"struct metadata_{one.table.id}")
    for old, new in ((">> 2", ">> 1"), ("& 28", "& 12"), ("== 0;", "== 1;"), ("i & ", "1 + i & ")):
        changed = text[:start] + text[start:].replace(old, new, 1)
        if changed != text:
            done, log = nvrtc.compile_cuda(lib, changed, "-arch=sm_90", "-std=c++17")
            assert not done, (old, new)
            assert "layout" in log


@pytest.mark.parametrize("one", CELLS, ids=cell_identifier)
def test_python_and_numpy_build_the_registers(one):
    index, rule, spaces = drawn(one), sparsity(one.fragment), {}
    for name in ("python", "numpy"):
        spaces[name] = {}
        exec(compile(emit.emit(name, [one]), name, "exec"), spaces[name])
    e, whole = spaces["python"][cell_identifier(one)], spread(one, index)
    built = [
        sum(e.field(i, int(whole[e.row(lane, i), e.col(lane, i)])) for i in range(e.ELEMENTS)) if e.read(lane) else 0
        for lane in range(e.LANES)
    ]
    assert built == expected(one, index)
    for (row, col), (slot,) in one.table.inverse.items():
        assert (e.lane_of(row, col), e.i_of(row, col)) == divmod(slot, e.ELEMENTS)
    array = spaces["numpy"][cell_identifier(one)]
    assert array.registers(whole).tolist() == built
    k = [[rule.k(col, int(v)) for col, v in enumerate(line)] for line in whole]
    assert array.k(whole).tolist() == k
    assert [[e.k(col, int(v)) for col, v in enumerate(line)] for line in whole] == k


def test_all_selectors_stand_side_by_side_or_one_is_asked_for():
    e = METADATA[2]
    for name in ("cuda", "json", "markdown", "numpy", "python"):
        text = emit.emit(name, [cell(e, "sm_90", RESULTS)])
        assert all(emit.emit(name, [one]) != text for one in selections(cell(e, "sm_90", RESULTS)))
    runner = CliRunner()
    shown = runner.invoke(main, ["show", e.id, "--json"]).stdout.splitlines()
    assert json.loads(emit.emit("json", [cell(e, "sm_90", RESULTS)])) == [json.loads(line) for line in shown]
    for name in ("csv", "ptx", "cute"):
        with pytest.raises(UsageError, match="4 selectors: choose one with `selector`"):
            emit.emit(name, [cell(e, "sm_90", RESULTS)])
    text = runner.invoke(main, ["emit", e.id, "--to", "cuda", "--arch", "sm_90", "--selector", "3"]).stdout
    assert "_e_selector3 :" in text
    assert "_e_selector2" not in text


def printed(*words):
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_where_leads_to_the_field_from_every_column():
    for one in CELLS:
        found = json.loads(printed("where", one.fragment.id, "--selector", str(one.selector), "--row", "3", "--json"))
        assert [h["col"] for h in found["holders"]] == list(range(0, one.fragment.cols, one.fragment.span))
        for col in range(one.fragment.cols):
            (slot,) = registers.where(one, [3], [col])
            ((lane, i),) = one.table.holders(row=3, col=col - col % one.fragment.span)
            assert (slot.lane, slot.i) == (lane, i)
    odd = printed("where", METADATA[6].id, "--selector", "0", "--row", "3", "--col", "5")
    assert odd.startswith("E[3][4-5]: lane")


def test_show_draws_the_lanes_that_are_read_bit_by_bit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    for one in CELLS:
        text = printed("show", one.fragment.id, "--full", "--selector", str(one.selector))
        heads, *lines = text.partition("bits of its register\n")[2].partition("\n\n")[0].splitlines()
        bits = one.fragment.slot_bits
        assert heads.split() == [f"{low}-{low + bits - 1}" for low in range(0, 32, bits)]
        assert {int(line.split()[0]): line.split()[1:] for line in lines} == {
            lane: [f"{h.row},{h.col}" + (f"-{h.col + 1}" if one.fragment.span > 1 else "") for h in held]
            for lane in range(32)
            if (held := registers.elements_held(one, [lane]))
        }


def test_a_csv_of_metadata_is_read_back(tmp_path):
    one = CELLS[9]
    (tmp_path / "e.csv").write_text(emit.emit("csv", [one]))
    words = ["compare", str(tmp_path / "e.csv"), one.fragment.id, "--selector", str(one.selector)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "128 of 128" in done.output
    assert f"{one.fragment.id}, selector 3, on" in done.output
    other = CliRunner().invoke(main, [*words[:-1], "1"])
    assert other.exit_code == 1, other.output
    assert "needs FILE.csv" in CliRunner().invoke(main, ["compare", "--selector", "1"]).output


def test_cute_writes_metadata_that_every_lane_holds():
    """As the traits of SM120_SPARSE_16x8x64 have it."""
    documented = inventory.fragment("mma.sp::ordered_metadata.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32.e")
    for e, name in ((METADATA[5], "sm_90"), (documented, "sm_120")):
        text = emit.emit("cute", [cell(e, name, RESULTS)])
        assert "// ((2, 2, 8), 16):((8, 256, 1), 16)" in text
    with pytest.raises(UsageError, match="read from 8 of 32 lanes under selector 1"):
        emit.emit("cute", [CELLS[1]])


def test_what_no_mask_says_is_refused():
    one = CELLS[0]
    lanes = [*range(1, 32), 0]  # all moved on by one lane, so the lanes read are 3, 7, ... and the last
    size = one.table.elements
    lanes[4], lanes[5] = lanes[5], lanes[4]
    values = {n: tuple(v[lane * size + i] for lane in lanes for i in range(size)) for n, v in one.table.values.items()}
    with pytest.raises(UsageError):
        emit.emit("cuda", [with_table(one, one.table.with_values(values))])
