"""`tcprobe read`: the matrix instructions of anybody's code, from files of any kind; hostile ones are bounded."""

import json
import re
import shutil
import struct
import subprocess
import sys

import fatbins
import nvrtc
import pytest
from click.testing import CliRunner
from command import tcprobe
from fatbins import FP8, MULTIPLY, entry, fatbin
from machine_code import TOOLS, needs_tools

from tcprobe.cli import main
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.sass import lowering, matrix_code, toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.sass.image import MAGIC, zstd
from tcprobe.sass.matrix_code import is_matrix

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")]
ARCHS = ["sm_90", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]


def read(*words, code=0):
    return tcprobe("read", *words, code=code)


def functions(*words, code=0):
    return [json.loads(line) for line in read(*words, "--json", code=code).stdout.splitlines()]


def counts(function):
    return {use["opcode"]: use["count"] for use in function["instructions"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return fatbins.cubin(tmp_path_factory.mktemp("made"), MULTIPLY, "movmatrix.m8n8.trans.b16")


@pytest.mark.parametrize("on", [ARCHS[0], *(pytest.param(name, marks=pytest.mark.full) for name in ARCHS[1:])])
def test_what_is_found_is_what_nvdisasm_prints(on, sample):
    """The code of every form that a warp executes, and the matrix instructions of the whole disassembly."""
    row = arch(on)
    forms = sample([form for form in inventory.executed_by(WARP) if form.target.on(row)], 9)
    codes, _ = assemble(TOOLS, [lowering.probe(form) for form in forms], row)
    assert len(codes) > 20
    found = matrix_code.find(TOOLS, on, [code.raw for code in codes.values()])
    for code, places in zip(codes.values(), found, strict=True):
        whole = {16 * j: o for j, o in enumerate(code.opcodes) if is_matrix(o)}
        assert {at: o for at, o in places.opcodes.items() if is_matrix(o)} == whole
        assert not places.unread
    assert {matrix_code.mnemonic(o) for places in found for o in places.opcodes.values()} >= {"HMMA"}


def test_a_cubin(made):
    multiply, move = sorted(functions(made), key=lambda f: f["name"])
    assert (counts(multiply), multiply["arch"]) == ({"HMMA.16816.F32": 1}, "sm_80")
    assert counts(move) == {"MOVM.16.MT88": 1}
    use = multiply["instructions"][0]
    form = next(form for form in use["forms"] if form["instruction"] == MULTIPLY)
    assert (use["native"], form["native"], form["each"]) == (True, True, 1)
    shown = json.loads(CliRunner().invoke(main, ["show", f"{MULTIPLY}.a", "--arch", "sm_80", "--json"]).stdout)
    assert form["layouts"]["a"]["layout_id"] == shown["layout_id"]
    text = read(made).stdout
    assert f"layout {shown['layout_id']}" in text
    assert "derived from machine code" in text
    assert "HMMA.16816.F32 x 1" in text
    table = [line.split() for line in text.splitlines()[:3]]
    assert table[0] == ["kernel", "arch", "multiplies", "loads", "registers", "spills", "findings"]
    assert sorted(row[1:4] for row in table[1:]) == [["sm_80", "0", "1"], ["sm_80", "1", "0"]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("on", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_registers_and_stack_are_what_ptxas_says(tmp_path, on):
    """Headers of both ABI versions."""
    names = [
        name
        for name in (MULTIPLY, "mma.m16n8k8.row.col.f32.f16.f16.f32", "wmma.mma.row.col.m16n16k16.f32.f32")
        if inventory.instructions()[name].target.on(arch(on))
    ]
    path = fatbins.cubin(tmp_path, *names, on=on)
    call = [TOOLS.ptxas, "-v", "-arch", on, str(path.with_suffix(".ptx")), "-o", str(tmp_path / "v")]
    words = subprocess.run(call, check=True, capture_output=True, text=True).stderr
    told = dict(re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", words, re.DOTALL))
    stacks = dict(re.findall(r"properties for (\w+)\s+(\d+) bytes stack frame", words))
    assert {f["name"]: str(f["registers"]) for f in functions(path)} == told
    assert {f["name"]: str(f["stack"]) for f in functions(path)} == stacks


@pytest.mark.full
def test_local_memory_is_counted(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(""".version 7.8
.target sm_80

.address_size 64
.visible .entry k(.param .u64 p) {
 .local .align 4 .b8 own[64]; .reg .b64 %a; .reg .b32 %r<4>;
 ld.param.u64 %a, [p];
 ld.global.u32 %r0, [%a];
 mov.u32 %r2, own; and.b32 %r3, %r0, 60; add.u32 %r2, %r2, %r3;
 st.local.u32 [own+4], %r0; st.local.u32 [own+8], %r0; ld.local.u32 %r1, [%r2];
 st.global.u32 [%a], %r1; ret; }
""")
    (function,) = functions(path)
    assert (function["local_loads"], function["local_stores"], function["stack"]) == (1, 2, 64)
    assert "no matrix instruction" in read(path).stdout


@pytest.mark.full
def test_ptx_names_the_forms(tmp_path):
    """Of all forms that become an opcode those that the text has; emulated where that is so on the arch."""
    path = tmp_path / "k.ptx"
    path.write_text(fatbins.ptx(FP8, on="sm_90"))
    (function,) = functions(path, "--arch", "sm_90")
    assert function["ptx"] == [{"name": inventory.instructions()[FP8].name, "count": 1}]
    (use,) = function["instructions"]
    assert use["native"] is False
    assert [form["instruction"] for form in use["forms"]] == [FP8]
    assert "emulated: " in read(path, "--arch", "sm_90").stdout
    (native,) = functions(path, "--arch", "sm_89")[0]["instructions"]
    assert (native["native"], native["opcode"]) == (True, "QMMA.16832.F32.E4M3.E4M3")


@pytest.mark.parametrize(("version", "target"), [("9.7", "sm_80"), ("8.0", "sm_110")])
def test_ptx_newer_than_the_first_ptxas_is_assembled_by_the_next(tmp_path, monkeypatch, version, target):
    """A ptxas on PATH that knows the version or the arch; which one, and why, is said. With --cuda it is that one."""
    words = "Unsupported .version 9.7; current version is '8.8'" if target == "sm_80" else ""
    words = words or "Value 'sm_110' is not defined for option 'gpu-name'"
    made = fatbins.cubin(tmp_path, MULTIPLY)
    for name, script in (
        ("old", f'case "$*" in *--version*) echo V12.9.86;; *) echo "{words}" >&2; exit 255;; esac'),
        ("new", f'case "$*" in *--version*) echo V13.9.99;; *) for last; do :; done; cp {made} "$last";; esac'),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ptxas").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name / "ptxas").chmod(0o755)
        shutil.copy(TOOLS.nvdisasm, tmp_path / name / "nvdisasm")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'new'}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "_wheel_folders", list)
    path = tmp_path / "k.ptx"
    path.write_text(f".version {version}\n.target {target}\n.visible .entry k() {{ ret; }}\n")
    done = read(path)
    assert "HMMA.16816.F32 x 1" in done.stdout
    assert (
        f"by {tmp_path / 'new' / 'ptxas'} 13.9.99, because {tmp_path / 'old' / 'ptxas'} does not assemble"
        in done.stderr
    )
    assert words in done.stderr
    assert "13.9.99" not in read(path, "--cuda", tmp_path / "old", code=4).stderr


@pytest.mark.full
def test_a_warpgroup_multiply(tmp_path):
    name = "wgmma.mma_async.m64n16k16.f32.f16.f16"
    (function,) = functions(fatbins.cubin(tmp_path, name, on="sm_90a"))
    (use,) = function["instructions"]
    assert use["opcode"].startswith("HGMMA.64x16x16.F32")
    assert name in [form["instruction"] for form in use["forms"] if form["native"]]


@pytest.mark.full
def test_source_lines_of_cuda_code(tmp_path):
    lib = nvrtc.library()
    if lib is None:
        pytest.skip("no NVRTC")
    text = """extern "C" __global__ void multiply(unsigned *p) {
      unsigned a = p[0], b = p[1], c = p[2];
      asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1},{%2},{%2},{%0,%1};" : "+r"(a), "+r"(b) : "r"(c));
      p[0] = a; p[1] = b; }"""
    path = tmp_path / "k.ptx"
    path.write_text(nvrtc.ptx(lib, text, "-arch=compute_80", "-lineinfo"))
    (function,) = functions(path)
    (use,) = function["instructions"]
    assert use["opcode"].startswith("IMMA.8816.S8.S8")
    assert [(at["line"], at["count"]) for at in use["lines"]] == [(3, 1)]
    assert use["lines"][0]["file"].endswith("text.cu")


# containers


def compressed(raw, how):
    if how == "zstd":
        return entry(zstd.compress(raw), flags=0x8011, full=len(raw))
    return entry(fatbins.packed_lz4(raw), flags=0x2011, full=len(raw))


@pytest.mark.parametrize("how", ["plain", "lz4", "zstd"])
@pytest.mark.parametrize("before", [b"", b"MZ" + bytes(77), b"\x7fELF\2\1\1" + bytes(1001)])
def test_a_fatbin_in_a_file_of_any_kind(made, tmp_path, how, before):
    raw = made.read_bytes()
    one = entry(raw) if how == "plain" else compressed(raw, how)
    path = tmp_path / "library"
    path.write_bytes(before + fatbin(entry(fatbins.ptx().encode(), kind=1), one) + bytes(33))
    assert [counts(f) for f in functions(path)] == [counts(f) for f in functions(made)]


MAGIC_IN_CODE = b"\x48\xb8" + MAGIC + b"\x49\xc7\x84\x24\xb0\x02" + bytes(100)  # x86-64: movabs, mov


@pytest.mark.parametrize("between", [b"", bytes(3), MAGIC_IN_CODE])
def test_the_magic_number_in_machine_code_is_no_fatbin(made, tmp_path, between):
    path = tmp_path / "library"
    path.write_bytes(MAGIC_IN_CODE + between + fatbin(entry(made.read_bytes())) + MAGIC_IN_CODE + MAGIC)
    assert [counts(f) for f in functions(path)] == [counts(f) for f in functions(made)]


def test_entries_of_other_archs_are_not_unpacked(made, tmp_path):
    """Nor is PTX beside a cubin: what is damaged there is no error of who asked for another arch."""
    path = tmp_path / "library"
    bad = entry(b"\x1fa\1\0", flags=0x2011, full=5000, arch=75), entry(b"\x1fa\1\0", kind=1, flags=0x2011, full=5000)
    path.write_bytes(fatbin(entry(made.read_bytes()), *bad))
    assert {f["arch"] for f in functions(path, "--arch", "sm_80")} == {"sm_80"}
    assert "LZ4" in read(path, code=4).stderr
    assert "LZ4" in read(path, "--arch", "sm_75", code=4).stderr
    assert "PTX" in read(path, "--arch", "sm_120", code=4).stderr


def test_headers_longer_than_the_least(made, tmp_path):
    path = tmp_path / "f.fatbin"
    path.write_bytes(fatbin(entry(made.read_bytes(), header=112), entry(made.read_bytes(), header=80)))
    assert len(functions(path)) == 4


@pytest.mark.full
def test_ptx_is_assembled_for_an_arch_that_a_file_has_no_code_for(made, tmp_path):
    path = tmp_path / "f.fatbin"
    path.write_bytes(fatbin(entry(made.read_bytes()), entry(fatbins.ptx().encode() + b"\0", kind=1)))
    assert {f["arch"] for f in functions(path)} == {"sm_80"}
    assert {f["arch"] for f in functions(path, "--arch", "sm_80,sm_86")} == {"sm_80", "sm_86"}
    assert "has no code for sm_86, and no PTX; it has sm_80" in read(made, "--arch", "sm_86", code=2).stderr


@pytest.mark.full
def test_what_nvcc_writes(tmp_path):
    """Fatbins of every compression, objects, relocatable ones and with -G, from the toolkit's own compiler."""
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    source = tmp_path / "k.cu"
    source.write_text("""#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm(const half *a, const half *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc); wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
""")
    archs = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
    modes = [["-fatbin", f"--compress-mode={mode}"] for mode in ("none", "default", "size")]
    for options in (*modes, ["-c"], ["-c", "-rdc=true"], ["-c", "-G"]):
        done = subprocess.run(["nvcc", *archs, *options, str(source), "-o", str(tmp_path / "out")], check=False)
        if done.returncode:
            pytest.skip("this nvcc does not compile here")
        found = functions(tmp_path / "out")
        assert {f["arch"] for f in found if "HMMA.16816.F32" in counts(f)} == {"sm_80", "sm_90"}, options
        assert sum(counts(f).get("HMMA.16816.F32", 0) for f in found) == 4, options


def test_a_cache_is_read_as_it_lies(made, tmp_path):
    """Folders in folders; of a kernel's cubin and PTX the cubin."""
    place = tmp_path / "cache" / "AB12"
    place.mkdir(parents=True)
    (place / "k.cubin").write_bytes(made.read_bytes())
    (place / "k.ptx").write_text(fatbins.ptx())
    (place / "k.json").write_text("{}")
    assert len(functions(tmp_path / "cache")) == 2
    (tmp_path / "empty").mkdir()
    assert ".cubin" in read(tmp_path / "empty", code=2).stderr


def test_kernels_are_chosen_by_name(made):
    assert [f["name"] for f in functions(made, "--kernel", "mma*")] == ["mma_m16n8k16_row_col_f32_f16_f16_f32"]
    assert "function" in read(made, "--kernel", "nothing", code=2).stderr


def test_a_stripped_cubin(made, tmp_path):
    """Without a table of symbols there are the names of sections, and the code."""
    raw = bytearray(made.read_bytes())
    table, size, count = struct.unpack_from("<Q10xHH", raw, 40)
    for head in range(table, table + size * count, size):
        if struct.unpack_from("<I", raw, head + 4)[0] == 2:
            struct.pack_into("<I", raw, head + 4, 0)
    path = tmp_path / "stripped.cubin"
    path.write_bytes(raw)
    assert [counts(f) for f in functions(path)] == [counts(f) for f in functions(made)]
