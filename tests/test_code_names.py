"""Names in generated code: what is taken is refused with the reason, what is accepted compiles, and ours are legal."""

import itertools
import keyword
import re
import shutil
import subprocess

import nvrtc
import pytest
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.convert.code import header
from tcprobe.ask.convert.conversion import plan_conversion
from tcprobe.ask.reduce.mask import mask_fragment
from tcprobe.code import names
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.store.cell import load

D = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"
S32 = "mma.m16n8k32.row.col.s32.s8.s8.s32.d"
OWN = ["lane", "x", "d0", "c12", "thread", "fill"]  # of masks, as arguments
REFUSED = [
    "goto",
    "operator",
    "or_eq",
    "main",
    "xor",
    "__x",
    "_X",
    "a__b",
    "_",
    "threadIdx",
    "warpSize",
    "int32_t",
    "size_t",
    "float4",
    "dim3",
    "half",
    "NULL",
    "M_PI",
    "linux",
    "co_await",
    "lambda",
    "def",
    "nonlocal",
    "std",
    "assert",
    "errno",
    "cudaError_t",
    "TCPROBE_X",
    "T",
    *OWN,
]
FINE = ["row0", "seq", "k", "M", "mask", "kv_start", "rowX", "_".join("abc"), "f32", "int_", "Mx"]
DECLARED = [
    "min",
    "max",
    "printf",
    "time",
    "clock",
    "exp",
    "abs",
    "y0",
    "index",
    "nvcuda",
    "cuda",
    "atomicAdd",
    "malloc",
]
HEADERS = ["cmath", "cstdio", "cstdlib", "climits", "cfloat", "cstdint", "cassert", "cstring", "cstddef", "ctime"]
gcc = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_is_taken_is_refused_with_the_reason(name):
    done = tcprobe("reduce", D, "--mask", f"row + {name} >= col", code=2)
    assert f"'{name}' is one of the names that cannot be arguments: " in done.stderr
    if name not in OWN:
        done = tcprobe("reduce", D, "--over", "row", "--name", name, code=2)
        assert f"'{name}' is not a name of a function: " in done.stderr
    if name not in (*OWN, "T"):
        tcprobe("convert", D, D, "--name", name, code=2)
        assert "namespace" in tcprobe("convert", D, D, "--namespace", f"a::{name}", "-o", "x.h", code=2).stderr


def test_keywords_of_both_languages_are_refused():
    for name in (*names.CPP, *names.ALTERNATIVE, *names.BUILTIN, *names.TAKEN, *keyword.kwlist):
        with pytest.raises(UsageError):
            names.require_legal(name, names.FUNCTION)


@gcc
def test_no_macro_of_common_headers_is_a_name(tmp_path):
    (tmp_path / "all.cpp").write_text("".join(f"#include <{name}>\n" for name in HEADERS))
    done = subprocess.run(["g++", "-dM", "-E", str(tmp_path / "all.cpp")], capture_output=True, text=True, check=True)
    found = re.findall(r"#define (\w+)", done.stdout)
    assert len(found) > 500
    for name in found:
        with pytest.raises(UsageError):
            names.require_legal(name, names.FUNCTION)


def test_names_that_are_accepted_compile():
    """As variables and as functions, in one text beside each other."""
    d = load(D)
    codes = [
        mask_fragment(d, f"row + {name} >= col", None, f"f{at}").code for at, name in enumerate([*FINE, *DECLARED])
    ]
    codes += [mask_fragment(d, f"row >= {name}", "-inf", name).code for name in FINE]
    codes += ["__global__ void k(float* p) { float x[4]; f0(x, 1.f, 2); seq(x, 3); p[0] = x[0]; }"]
    assert nvrtc.compile_cuda(nvrtc.library(), "\n".join(codes), "-arch=sm_90", "-std=c++17") == (True, "")


@pytest.mark.parametrize("name", DECLARED)
def test_a_name_that_cuda_declares_is_refused_where_it_would_not_compile(name):
    """As a function, a kernel and a namespace; not as an argument, which hides it inside one function."""
    for arguments in (
        ["reduce", D, "--over", "row", "--name", name],
        ["convert", D, D, "--name", name],
        ["kernel", "gemm", "--arch", "sm_80", "--type", "f16", "--name", name],
        ["convert", D, D, "--namespace", name],
    ):
        assert names.DECLARED in re.sub(r"\s+", " ", tcprobe(*arguments, code=2).stderr)
    tcprobe("reduce", D, "--mask", f"row + {name} >= col")


USES = (
    "namespace {} {{ __device__ inline void f() {{}} }}",
    "struct own {{}}; struct {} {{}};",
    "__device__ void {}(float (&x)[4]) {{}}",
)


def test_what_nvrtc_declares_for_every_program_is_known():
    """Its own functions, without a header: of these words those that break a use are refused."""
    lib = nvrtc.library()
    for name in ("min", "max", "printf", "clock", "sinf", "atomicAdd", "memcpy", "row0", "seq", "warp_sum", "apply"):
        uses = [nvrtc.compile_cuda(lib, use.format(name), "-arch=compute_90")[0] for use in USES]
        assert all(uses) == (name not in names.taken()), name


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
def test_no_name_of_the_headers_of_this_toolkit_is_accepted_and_taken(tmp_path, sample):
    """The words of what nvcc reads for every program: those that are accepted can be functions and namespaces."""
    source = tmp_path / "k.cu"
    includes = "".join(f"#include <{name}>\n" for name in (*HEADERS, "cuda_fp16.h", "cuda_bf16.h", "mma.h"))
    source.write_text(includes)
    nvcc = ["nvcc", "-arch=sm_90", str(source)]
    done = subprocess.run([*nvcc, "-E"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this nvcc does not compile here")
    words = sorted(set(re.findall(r"\b[A-Za-z]\w*\b", re.sub(r"(?m)^#.*$", "", done.stdout))))
    accepted = [name for name in words if not names.is_ruled_out(name) and name not in names.taken()]
    assert len(accepted) > 1000
    for use in sample(USES, 2):
        lines = [use.replace("own", f"own_{at}").format(name) for at, name in enumerate(accepted)]
        source.write_text(includes + "\n".join(lines))
        done = subprocess.run([*nvcc, "-cubin", "-o", str(tmp_path / "k")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]


@given(st.text(max_size=40))
def test_what_is_made_is_legal(text):
    name = names.identifier(text)
    assert names.require_legal(name, names.FUNCTION) == name
    assert names.identifier(text) == name


def test_names_of_fragments_are_legal_and_differ():
    found = {f.id: names.identifier(f.id) for f in inventory.fragments().values()}
    assert len(set(found.values())) == len(found)
    assert all(names.require_legal(name, names.FUNCTION) == name for name in found.values())


def test_generated_code_has_no_reserved_names():
    path = ["path", D.replace(".d", ".a"), "--tile", "64x64", "--global", "row"]
    known = {
        "__device__",
        "__restrict__",
        "__shfl_xor_sync",
        "__byte_perm",
        "__shfl_sync",
        "__host__",
        "__global__",
        "__CUDACC__",
        "__CUDACC_RTC__",
        "__CUDA_ARCH__",
        "__int_as_float",
        "__grid_constant__",
    }
    placed = [[*path, "--shared", shared, "--code", "cuda"] for shared in ("SWIZZLE_128B", "sw:2,4,3", "pad:16")]
    for arguments in (
        ["reduce", D, "--over", "row"],
        ["reduce", D, "--mask", "row > col", "--fill", "-inf"],
        *placed,
        ["convert", D, D.replace(".d", ".a")],
        ["load", D, "--code"],
        ["emit", D, "--to", "cuda"],
    ):
        code = tcprobe(*arguments).stdout
        assert set(re.findall(r"\b(?:__\w+|_[A-Z]\w*|\w+__\w*)", code)) <= known
        assert "measured: " not in code


@pytest.mark.parametrize(
    ("fill", "text"),
    [
        ("-inf", "-__int_as_float(0x7f800000)"),
        ("-INFINITY", "-__int_as_float(0x7f800000)"),
        ("inf", "__int_as_float(0x7f800000)"),
        ("nan", "__int_as_float(0x7fffffff)"),
        ("NAN", "__int_as_float(0x7fffffff)"),
        ("1e30", "1e+30f"),
        ("-1e30", "-1e+30f"),
        ("0.5", "0.5f"),
        ("-.5f", "-0.5f"),
        ("-7", "-7"),
        ("4000000000", "4000000000.0f"),
    ],
)
def test_a_number_to_fill_with_has_its_type(fill, text):
    for mask in ("row >= col", None):
        code = mask_fragment(load(D), mask, fill).code
        assert f"const T fill = T({text});" in code
        assert "int " not in code.splitlines()[1]


@pytest.mark.parametrize(
    ("name", "fill", "words"),
    [
        (D, "1e39", "out of the range of f32"),
        (D, "1e-60", "out of the range of f32"),
        (S32, "-inf", "is not of type s32"),
        (S32, "1e30", "is not of type s32"),
        (S32, "0.5", "is not of type s32"),
        (D, "row * 0.5", "not a whole number"),
        (D, "row + 1e30", "a number above"),
        (D, "row + inf", "a number above"),
        ("mma.m16n8k16.row.col.f16.f16.f16.f16.d", "1e30", "out of the range of f16, up to 65504"),
        ("mma.m16n8k16.row.col.f16.f16.f16.f16.d", "100000", "out of the range of f16, up to 65504"),
        ("mma.m16n8k32.row.col.s32.s8.u8.s32.a", "128", "out of the range of s8, -128 to 127"),
        ("mma.m16n8k32.row.col.s32.s8.u8.s32.b", "-1", "out of the range of u8, 0 to 255"),
        ("mma.m16n8k64.row.col.s32.s4.s4.s32.a", "-9", "out of the range of s4, -8 to 7"),
        ("mma.m16n8k32.row.col.f32.e5m2.e4m3.f32.a", "1e5", "out of the range of e5m2, up to 57344"),
        ("mma.m16n8k32.row.col.f32.e5m2.e4m3.f32.b", "449", "out of the range of e4m3, up to 448"),
        ("mma.m16n8k32.row.col.f32.e5m2.e4m3.f32.b", "inf", "e4m3 has no infinity"),
        ("mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32.a", "nan", "e2m1 has no NaN"),
    ],
)
def test_a_fill_that_elements_cannot_be(name, fill, words):
    assert words in tcprobe("reduce", name, "--mask", "row >= col", "--fill", fill, code=2).stderr


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("1e30", "'1e30' is a number, not a condition"),
        ("-inf", "is a number, not a condition"),
        ("row < 1e30", "a number above 1048576"),
        ("row < 0.5", "not a whole number"),
        ("row < inf", "a number above"),
    ],
)
def test_numbers_in_conditions_are_numbers(mask, words):
    assert words in tcprobe("reduce", D, "--mask", mask, code=2).stderr
    assert "row < 1e1" in tcprobe("reduce", D, "--mask", "row < 1e1").stderr


def test_arguments_stand_in_the_order_of_first_use():
    for order in itertools.permutations(("b", "a", "z")):
        code = mask_fragment(load(D), f"row + {order[0]} >= col + {order[1]}", f"row - {order[2]} + {order[0]}").code
        assert "void mask(T (&x)[4], " + ", ".join(f"int {name}" for name in order) + ")" in code
        assert all(f"// {name}: as in --mask and --fill" in code for name in order)
    assert "T fill, int b, int a)" in mask_fragment(load(D), "b < row and a < col", None).code


def test_two_functions_of_one_name_that_differ_are_refused():
    a, b = (
        plan_conversion(load(D), load(f"mma.m16n8k16.row.col.f32.{t}.{t}.f32.a"), name="f") for t in ("f16", "bf16")
    )
    assert header([a, a]).count("inline void f(") == 2
    with pytest.raises(UsageError, match="two functions have the signature"):
        header([a, b])


def test_names_that_no_user_gave_are_legal(tmp_path):
    """Names of functions after names of fragments that begin with digits, or are long."""
    tcprobe("convert", "16x16x16 wmma d f32", "16x16x16 wmma a row f16", "--arch", "sm_90", "-o", tmp_path / "x.h")


@gcc
def test_headers_that_differ_under_one_name_do_not_compile_together(tmp_path):
    """A fragment's loads on two archs: the second was left out once, and the first one's code used for both."""
    a = "wmma.m16n16k16.a.row.f16"
    one, two = (tcprobe("load", a, "--code", "--arch", name).stdout for name in ("sm_70", "sm_90"))
    assert re.findall(r"struct \w+", one) == re.findall(r"struct \w+", two)
    for texts, fine in (((one, one), True), ((one, two), False), ((one, f"namespace sm_90 {{ {two} }}"), True)):
        (tmp_path / "x.cpp").write_text("#define __device__\n" + re.sub(r"asm volatile.*", "", "\n".join(texts)))
        command = ["g++", "-std=c++17", "-fsyntax-only", "-w", str(tmp_path / "x.cpp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == fine, done.stderr
