"""`tcprobe read --tables`: kernels of NVRTC and nvcc that load and store fragments show the published tables."""

import json
import shutil
import subprocess
import sys
from functools import cache

import nvrtc
import pytest
from command import tcprobe
from machine_code import TOOLS, needs_tools

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.sass.copies import lanes_of
from tcprobe.store.cell import load

pytestmark = [needs_tools, pytest.mark.skipif(sys.platform == "win32", reason="the tools' wheels differ")]
ARCHS = ["sm_90", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_100", "sm_103", "sm_120", "sm_121"]
TYPES = {"f64": ("double", "d"), "f32": ("float", "f")}  # of registers: in C++, and in asm


def read(path, *words, code=0):
    return tcprobe("read", str(path), "--tables", *words, code=code).stdout


def kernel(fragment, order=None, leading=None):
    """CUDA C++ that loads a fragment and stores its registers lane by lane, or the other way round."""
    count, store = fragment.registers, fragment.operand == "d"
    kind, letter = TYPES.get(fragment.type, ("unsigned", "r"))
    leading = leading or 2 * (fragment.rows if fragment.layout == "col" else fragment.cols)
    names = [f"r[{j}]" for j in (order or range(count))]
    shown, own = "{" + ", ".join(f"%{j + store}" for j in range(count)) + "}", "threadIdx.x * "
    name = fragment.id.replace(".", "_")
    move = f"for (int j = 0; j < {count}; j++) "
    if store:
        held = ", ".join(f'"{letter}"({r})' for r in names)
        body = f"{move} r[j] = in[{own}{count} + j];\n"
        body += f'asm volatile("{fragment.instruction} [%0], {shown}, {leading};" :: "l"(out), {held} : "memory");'
    else:
        held = ", ".join(f'"={letter}"({r})' for r in names)
        body = f'asm volatile("{fragment.instruction} {shown}, [%{count}], {leading};" : {held} : "l"(in));\n'
        body += f"{move} out[{own}{count} + j] = r[j];"
    return f'extern "C" __global__ void {name}({kind} *in, {kind} *out) {{ {kind} r[{count}];\n{body} }}'


def fragments(on):
    return [f for f in inventory.fragments().values() if f.family == "wmma" and f.target.on(arch(on))]


@cache
def compiled(on, text):
    """PTX by NVRTC, for the least arch that it still compiles for."""
    lib = nvrtc.library()
    if lib is None:
        pytest.skip("no NVRTC")
    least = max(min(nvrtc.archs(lib)), arch(on).number)
    if f"sm_{least}" != on or on not in {row.name for row in TOOLS.archs}:
        pytest.skip(f"this NVRTC or ptxas does not compile for {on}")
    return nvrtc.ptx(lib, text, f"-arch=compute_{least}")


@pytest.mark.full
@pytest.mark.parametrize("on", ARCHS)
def test_every_fragment_of_nvrtcs_code_is_the_published_one(tmp_path, on):
    path = tmp_path / "k.ptx"
    path.write_text(compiled(on, "\n".join(kernel(f) for f in fragments(on))))
    found = {f["name"]: f for f in map(json.loads, read(path, "--json", "--arch", on).splitlines())}
    seen = 0
    for fragment in fragments(on):
        function = found[fragment.id.replace(".", "_")]
        for table in function["tables"]:
            seen += 1
            assert table["differ"] == 0, (fragment.id, table["first"])
            assert fragment.id in table["fragments"]
            same = {load(id_, on).table.id for id_ in table["fragments"]}  # code does not say how wide elements are
            assert table["layout_id"] in same
            assert table["provenance"]["method"] == "read"
        if not function["tables"]:
            assert function["not_seen"], fragment.id
    assert seen == len(fragments(on)), [f["not_seen"] for f in found.values() if not f["tables"]][:3]


@pytest.mark.full
def test_a_spoiled_layout_is_found(tmp_path):
    """Two registers exchanged: the slots that differ, and exit code 1."""
    a = load("wmma.m16n16k16.a.row.f16", "sm_90").fragment
    path = tmp_path / "k.ptx"
    path.write_text(compiled("sm_90", kernel(a, order=[0, 3, 2, 1, 4, 5, 6, 7])))
    text = read(path, "--arch", "sm_90", code=1)
    assert "holds wmma.m16n16k16.a.row.f16, leading dimension 32: 128 of 512 slots DIFFER" in text
    assert "lane 0 i 2: in this code" in text
    (function,) = map(json.loads, read(path, "--json", "--arch", "sm_90", code=1).splitlines())
    (table,) = function["tables"]
    assert (table["differ"], table["of"]) == (128, 512)
    published = load("wmma.m16n16k16.a.row.f16", "sm_90").table
    assert table["table"][5][2] == list(published.cells[5 * 16 + 6])


@pytest.mark.full
def test_a_leading_dimension_is_found(tmp_path):
    d = load("wmma.m16n16k16.d.f32", "sm_90").fragment
    path = tmp_path / "k.ptx"
    path.write_text(compiled("sm_90", kernel(d, leading=40)))
    assert "leading dimension 40: the published table" in read(path, "--arch", "sm_90")


CODE = 'extern "C" __global__ void k(unsigned *in, unsigned *out{more}) {{ {body} }}'


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("body", "more", "words"),
    [
        ("out[threadIdx.x] = in[threadIdx.x] + 1;", "", "is computed, not copied"),
        ("out[threadIdx.x] = in[threadIdx.x];", "", "a larger leading dimension would"),
        ("out[31 - threadIdx.x] = in[threadIdx.x];", "", "4 bytes per lane in this order"),
        ("out[31 - threadIdx.x] = in[64 - 2 * threadIdx.x];", "", "registers lane by lane, which"),
        ("out[threadIdx.x] = threadIdx.x ^ 1;", "", "that it stores are computed, and not lane * s + i"),
        ("out[threadIdx.x] = threadIdx.x;", "", "4 bytes per lane in this order"),
        ("out[0] = in[threadIdx.x];", "", "different values to the same address"),
        ("out[threadIdx.x] = in[in[threadIdx.x]];", "", "outside the images"),
        ("", "", "it stores nothing"),
        ("for (int j = 0; j < n; j++) out[j] = in[j];", ", int n", "not modelled"),
    ],
)
def test_what_is_no_such_kernel_says_why(tmp_path, body, more, words):
    path = tmp_path / "k.ptx"
    path.write_text(compiled("sm_90", CODE.format(body=body, more=more)))
    assert words in read(path, "--arch", "sm_90")


NUMBERED = """
extern "C" __global__ void NAME(KIND *out) {
  unsigned r[8]; KIND value; unsigned lane = threadIdx.x % 32;
  for (int i = 0; i < 8; i++) { value = EXPRESSION; r[i] = *(unsigned *)&value; }
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.TYPE [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, LEADING;"
    :: "l"(out), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
    : "memory"); }"""
SLOTS = {
    "unsigned numbers": "lane * 8u + i",
    "signed numbers": "(int)lane * 8 + i",
    "bytes": "(unsigned char)(lane * 8 + i)",
    "shorts": "(short)(lane * 8 + i)",
    "halfwords": "(unsigned short)(lane * 8 + i)",
    "wide": "(long long)lane * 100 + i",
}


def numbering(expression, kind="float", leading=16, name="k"):
    """The kernel that writes numbers of lanes and registers into an accumulator and stores it."""
    words = {"NAME": name, "EXPRESSION": expression, "KIND": kind, "LEADING": str(leading)}
    text = NUMBERED.replace("TYPE", "f32" if kind == "float" else "s32")
    for place, word in words.items():
        text = text.replace(place, word)
    return text


def numbered(on, expression, kind="float"):
    return compiled(on, numbering(expression, kind))


LEADING = (16, 24)


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """By name what is read of kernels with several numbers and both leading dimensions, for an arch: all at once."""
    path = tmp_path_factory.mktemp("numbers") / "k.ptx"

    @cache
    def of(on, numbers):
        asked = [(number, leading) for number in numbers for leading in LEADING]
        texts = [numbering(SLOTS[number], leading=leading, name=named(number, leading)) for number, leading in asked]
        path.write_text(compiled(on, "\n".join(texts)))
        return {one["name"]: one for one in map(json.loads, read(path, "--json", "--arch", on).splitlines())}

    return of


def named(number, leading):
    return f"{number.replace(' ', '_')}_{leading}"


@pytest.mark.sampled(19)
@pytest.mark.parametrize("on", ["sm_90", "sm_75", "sm_80", "sm_86", "sm_100", "sm_120"])
@pytest.mark.parametrize("kind", SLOTS)
def test_numbers_in_an_accumulator_show_its_slots(functions, law, kind, on):
    """The classical probe: lane * 8 + i, converted from integers of any width, stored with two leading dimensions."""
    found = functions(on, tuple(params["kind"] for params in law if params["on"] == on))
    for leading in LEADING:
        (table,) = found[named(kind, leading)]["tables"]
        assert (table["leading_dimension"], table["differ"]) == (leading, 0)
        assert table["layout_id"] == load("wmma.m16n16k16.d.f32", on).table.id
        assert "wmma.m16n16k16.d.f32" in table["fragments"]


def test_numbers_that_are_wrong_or_ambiguous_are_named(tmp_path, sample):
    """A register exchanged with another; the lane alone; the number of another lane; a fraction."""
    path = tmp_path / "k.ptx"
    path.write_text(numbered("sm_90", "lane * 8 + (i == 1 ? 2 : i == 2 ? 1 : i)"))
    assert "64 of 256 slots DIFFER" in read(path, code=1)
    path.write_text(numbered("sm_90", "lane"))
    words = read(path)
    assert "wmma.m16n16k16.d.f32" in words
    for expression in sample(("(lane ^ 1) * 8 + i", "lane * 4 + i", "lane * 16 + i * 2"), 3):
        path.write_text(numbered("sm_90", expression))
        assert "numbers that it stores are computed, and not lane * s + i" in read(path)
    path.write_text(numbered("sm_90", "lane * 8 + i", "int"))
    assert "holds wmma.m16n16k16.d.f32" in read(path)


def test_lanes_that_own_bytes_in_turn():
    """Lane after lane with equally many bytes next to each other, and nothing else."""
    import numpy as np

    owner, places = np.repeat(np.arange(32), 4), np.arange(128)
    assert lanes_of(owner, places)[0] == 4
    assert lanes_of(owner[::-1].copy(), places[::-1].copy())[1].tolist() == np.arange(128)[::-1].reshape(32, 4).tolist()
    assert lanes_of(np.roll(owner, 4), places) is None
    assert lanes_of(owner, places * 2) is None
    assert lanes_of(owner[:100], places[:100]) is None


NVCC = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void load_a(const half *in, half *out) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
  wmma::load_matrix_sync(f, in, 16);
  for (int i = 0; i < f.num_elements; i++) out[threadIdx.x * f.num_elements + i] = f.x[i];
}
extern "C" __global__ void store_d(const float *in, float *out) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
  for (int i = 0; i < f.num_elements; i++) f.x[i] = in[threadIdx.x * f.num_elements + i];
  wmma::store_matrix_sync(out, f, 24, wmma::mem_col_major);
}
"""


@pytest.mark.full
@pytest.mark.parametrize("on", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_what_nvcc_writes(tmp_path, on):
    """wmma.h as everybody uses it, by the toolkit's compiler."""
    if not shutil.which("nvcc"):
        pytest.skip("no nvcc")
    (tmp_path / "k.cu").write_text(NVCC)
    command = ["nvcc", f"-arch={on}", "-cubin", str(tmp_path / "k.cu"), "-o", str(tmp_path / "k.cubin")]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this nvcc does not compile here")
    text = read(tmp_path / "k.cubin")
    assert "wmma.m16n16k16.a.row.f16" in text
    assert "leading dimension 24: the published table" in text
    assert "wmma.m16n16k16.d.f32" in text
