"""`tcprobe read`: the matrix instructions of anybody's code, from files of any kind; hostile ones are bounded."""

import contextlib
import json
import random
import re
import shutil
import struct
import subprocess
import sys

import damage
import fatbins
import nvrtc
import pytest
from click.testing import CliRunner
from fatbins import FP8, MULTIPLY, entry, fatbin
from hypothesis import given
from hypothesis import strategies as st
from machine_code import TOOLS, needs_tools

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.sass import lowering, matrix_code
from tcprobe.sass.cubin import assemble
from tcprobe.sass.fatbin import images, lz4
from tcprobe.sass.image import cubin
from tcprobe.sass.matrix_code import is_matrix

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")]
ARCHS = ["sm_90", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]


def read(*words, code=0):
    done = CliRunner().invoke(main, ["read", *map(str, words)])
    assert done.exit_code == code, (done.output, done.exception)
    return done


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
    forms = sample([form for form in inventory.executed_by(WARP) if form.target.on(row)], 4)
    codes, _ = assemble(TOOLS, [lowering.probe(form) for form in forms], row)
    assert len(codes) > 20
    found = matrix_code.find(TOOLS, on, [code.raw for code in codes.values()])
    for code, places in zip(codes.values(), found, strict=True):
        whole = {16 * j: o for j, o in enumerate(code.opcodes) if is_matrix(o)}
        assert {at: o for at, o in places.opcodes.items() if is_matrix(o)} == whole
        assert not places.unread
    assert {matrix_code.stem(o) for places in found for o in places.opcodes.values()} >= {"HMMA"}


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
    assert f"layout {shown['layout_id']}, derived from machine code" in text
    assert "HMMA.16816.F32 x 1" in text


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


def unpacked(name):
    try:
        return __import__("importlib").import_module(name)
    except ImportError:
        return None


ZSTD = unpacked("compression.zstd") or unpacked("backports.zstd")


def compressed(raw, how):
    if how == "zstd":
        if ZSTD is None:
            pytest.skip("no Zstandard")
        return entry(ZSTD.compress(raw), flags=0x8011, full=len(raw))
    return entry(fatbins.packed_lz4(raw), flags=0x2011, full=len(raw))


@pytest.mark.parametrize("how", ["plain", "lz4", "zstd"])
@pytest.mark.parametrize("before", [b"", b"MZ" + bytes(77), b"\x7fELF\2\1\1" + bytes(1001)])
def test_a_fatbin_in_a_file_of_any_kind(made, tmp_path, how, before):
    raw = made.read_bytes()
    one = entry(raw) if how == "plain" else compressed(raw, how)
    path = tmp_path / "library"
    path.write_bytes(before + fatbin(entry(fatbins.ptx().encode(), kind=1), one) + bytes(33))
    assert [counts(f) for f in functions(path)] == [counts(f) for f in functions(made)]


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
    modes = [["-fatbin", f"--compress-mode={mode}"] for mode in ("none", "default", *(["size"] if ZSTD else []))]
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
    assert "has no files .cubin" in read(tmp_path / "empty", code=2).stderr


def test_kernels_are_chosen_by_name(made):
    assert [f["name"] for f in functions(made, "--kernel", "mma*")] == ["mma_m16n8k16_row_col_f32_f16_f16_f32"]
    assert "no function is named nothing" in read(made, "--kernel", "nothing", code=2).stderr


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


# bad input


def test_what_is_no_code_is_refused(tmp_path):
    for content in (b"", b"text", bytes(5000), b"\x7fELF" + bytes(200), b"MZ" * 300):
        path = tmp_path / "no"
        path.write_bytes(content)
        assert "no cubin, no PTX, and no fatbin in it" in read(path, code=4).stderr


def test_a_bad_file_among_good_ones_does_not_hide_them(made, tmp_path):
    (tmp_path / "no").write_bytes(b"text")
    done = read(tmp_path / "no", made, code=4)
    assert "HMMA.16816.F32 x 1" in done.stdout
    assert "no cubin" in done.stderr


def test_ptx_that_does_not_assemble_is_refused(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(fatbins.ptx().replace("mma.sync", "nma.sync"))
    assert "does not assemble this PTX for sm_80" in read(path, code=4).stderr


def test_names_are_escaped(made, tmp_path):
    path = tmp_path / "k.cubin"
    path.write_bytes(made.read_bytes().replace(b"mma_m16n8k16", b"\x1b[2J\n\xe2\x80\xae\xffk16"))
    done = read(path)
    assert "\\x1b[2J\\n\\u202e" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())


BOMBS = {
    "states more than there is": lambda: entry(b"abc", flags=0x8011, full=1 << 60),
    "a copy of a copy": lambda: entry(b"\x1fa\1\0" + b"\xff" * 60000 + b"\0\0", flags=0x2011, full=127 << 20),
    "a frame that is larger": lambda: entry(ZSTD.compress(bytes(1 << 28)), flags=0x8011, full=100),
    "an entry of 2^63 bytes": lambda: entry(b"").replace(struct.pack("<IQ", 64, 0), struct.pack("<IQ", 64, 1 << 63)),
    "a header of nothing": lambda: entry(b"x" * 64, header=64).replace(struct.pack("<I", 64), bytes(4), 1),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_not_unpacked(tmp_path, kind):
    if ZSTD is None:
        pytest.skip("no Zstandard")
    path = tmp_path / "bomb"
    path.write_bytes(fatbin(BOMBS[kind]()))
    assert read(path, code=4).stderr.count("\n") == 1


def test_more_than_any_file_has_is_refused():
    many = fatbin(*[entry(b"", kind=2)] * 100_001)
    with pytest.raises(DataError, match="more than 100000 entries"):
        sum(1 for _ in images(many))


@given(st.binary(max_size=400), st.integers(0, 2000))
def test_lz4_of_anything_ends(data, size):
    """What is stated comes out, or a refusal; and whatever is packed comes out as it was."""
    with contextlib.suppress(DataError):
        assert len(lz4(data, size)) == size
    assert lz4(fatbins.packed_lz4(data * 5), 5 * len(data)) == data * 5


def outcome(raw):
    """Whether a file is read."""
    try:
        for image in images(raw):
            if image.kind == "cubin" and image.data:
                cubin(image.data)
    except DataError:
        return False
    return True


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_damaged_file_is_read_or_refused(made, many):
    """Cubins and fatbins with bytes changed, cut, doubled or exchanged, and header fields set to anything."""
    rng = random.Random(25)
    raw = made.read_bytes()
    whole = fatbin(entry(raw), compressed(raw, "lz4"), *([compressed(raw, "zstd")] if ZSTD else []))
    came = [outcome(damage.damaged_bytes(raw, rng)) for _ in range(many)]
    for _ in range(many):
        at = rng.randrange(len(whole))
        field = rng.choice((b"\0", b"\xff", b"\xff" * 8, rng.randbytes(4)))
        came.append(outcome(whole[:at] + field + whole[at + len(field) :]))
    assert {True, False} == set(came)


@pytest.mark.parametrize("seed", range(8))
def test_damaged_code_is_answered(made, tmp_path, seed):
    """The whole command: code that nvdisasm does not take is counted, the rest is read."""
    path = tmp_path / "k.cubin"
    path.write_bytes(damage.damaged_bytes(made.read_bytes(), random.Random(seed)))
    done = CliRunner().invoke(main, ["read", str(path)])
    assert done.exit_code in (0, 4), (done.output, done.exception)
    assert "internal error" not in done.output


@pytest.mark.full
def test_words_that_are_no_code_are_counted(made):
    (function, *_) = cubin(made.read_bytes()).functions
    code = bytearray(function.code)
    code[32:48], code[80:96] = b"\xff" * 16, bytes(16)
    before, after = (matrix_code.find(TOOLS, "sm_80", [bytes(c)])[0] for c in (function.code, code))
    assert after.unread == 2
    assert before.unread == 0
