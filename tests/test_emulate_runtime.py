"""What CUDA's runtime gives to kernels under `emulate`: printf as C prints, assert; and what of a module counts."""

import ctypes
import json
import struct
import sys

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

import tcprobe
from tcprobe.cli import main
from tcprobe.errors import UsageError

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
PRINTS = """.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 8 .b8 text[{size}] = {{{text}}};
.global .align 8 .b8 held[{room}] = {{{held}}};
.global .align 8 .b8 word[6] = {{119, 111, 114, 100, 10, 0}};
.visible .entry k(.param .u64 out) {{ .reg .b32 %r<3>; .reg .b64 %d<4>;
  mov.u64 %d1, text; cvta.global.u64 %d1, %d1; mov.u64 %d2, held; cvta.global.u64 %d2, %d2;
  {{ .param .b32 r; .param .b64 f; .param .b64 a; st.param.b64 [f], %d1; st.param.b64 [a], %d2;
    call.uni (r), vprintf, (f, a); ld.param.b32 %r2, [r]; }}
  ret; }}"""


def printed(text, arguments):
    """Lines that a kernel prints by a format and the bytes of its arguments."""
    raw = text.encode() + b"\0"
    held = arguments + bytes(8)
    ptx = HEAD + PRINTS.format(
        size=len(raw), text=", ".join(map(str, raw)), room=len(held), held=", ".join(map(str, held))
    )
    done = tcprobe.emulate(ptx, launch={"block": [1], "arguments": [np.zeros(4, np.uint32)]})
    assert done.findings == []
    return done.to_json()["output"]


KINDS = {
    **{kind: ("<i", ctypes.c_int, st.integers(-(2**31), 2**31 - 1)) for kind in "di"},
    **{kind: ("<I", ctypes.c_uint, st.integers(0, 2**32 - 1)) for kind in "uxXo"},
    **{f"ll{kind}": ("<q", ctypes.c_longlong, st.integers(-(2**63), 2**63 - 1)) for kind in "di"},
    **{f"l{kind}": ("<Q", ctypes.c_ulong, st.integers(0, 2**64 - 1)) for kind in "ux"},
    **{kind: ("<d", ctypes.c_double, st.floats(allow_nan=False)) for kind in "feEgG"},
}


@st.composite
def fields(draw):
    kind = draw(st.sampled_from(sorted(KINDS)))
    flags = "".join(draw(st.sets(st.sampled_from("-+0 "), max_size=2)))
    width = draw(st.sampled_from(["", "1", "5", "12"]))
    precision = draw(st.sampled_from(["", ".0", ".3", ".10"])) if kind in ("f", "e", "E", "g", "G") else ""
    return kind, f"%{flags}{width}{precision}{kind}", draw(KINDS[kind][2])


@pytest.mark.skipif(sys.platform == "win32", reason="another C library")
@given(st.lists(st.tuples(fields(), st.sampled_from([" ", ", ", "%% ", "|"])), min_size=1, max_size=4))
@examples(100)
def test_printf_prints_as_c_does(parts):
    text = ">" + "".join(field + between for (_, field, _), between in parts)
    arguments = b""
    for (kind, _, value), _ in parts:
        packed = struct.pack(KINDS[kind][0], value)
        arguments += bytes(-len(arguments) % len(packed)) + packed
    room = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).snprintf(room, 4096, text.encode(), *(KINDS[kind][1](value) for (kind, _, value), _ in parts))
    assert printed(text + "\n", arguments) == [room.value.decode()[:1024]]


@pytest.mark.parametrize("text", ["%999999999d", "%.999999999f", "%*d", "%", "%q", "%s", "%-+ #0lld%", "%n"])
def test_a_format_may_be_anything(text):
    """Nothing is as wide as it says; an address of nothing is a finding, no crash."""
    raw = struct.pack("<qq", 2**31 - 1, 7)
    ptx_text = text + "\n"
    if text == "%s":
        with pytest.raises(AssertionError, match="bounds"):
            printed(ptx_text, raw)
        return
    assert len("".join(printed(ptx_text, raw))) < 300


@pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC")
def test_what_a_compiler_makes_of_printf_and_assert(tmp_path):
    source = r"""
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, unsigned long);
extern "C" __global__ void k(int *out, int most) {
  int i = threadIdx.x;
  if (i % 16 == 3) printf("thread %d of %s: %.2f\n", i, "k", i / 4.0);
  if (i >= most) __assertfail("i < most", "k.cu", 7, "void k(int *, int)", 1);
  out[i] = i;
}
"""
    ptx = nvrtc.ptx(nvrtc.library(), source, "--gpu-architecture=compute_90")
    (tmp_path / "k.ptx").write_text(ptx)
    launch = {"kernel": "k", "block": [32], "arguments": [{"zeros": 128}, {"s32": 30}]}
    (tmp_path / "l.json").write_text(json.dumps(launch))
    done = CliRunner().invoke(main, ["emulate", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "l.json")])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:2] == ["printed: thread 3 of k: 0.75", "printed: thread 19 of k: 4.75"]
    assert "assert: thread 30: assertion `i < most` failed in void k(int *, int), k.cu:7" in done.stdout
    right = tcprobe.emulate(
        ptx, launch={"kernel": "k", "block": [32], "arguments": [np.zeros(32, np.int32), {"s32": 32}]}
    )
    assert (right.findings, right.arrays[0].tolist()) == ([], list(range(32)))


def module(names, size, dynamic=""):
    """Kernels with a tile of shared memory each, at the module's level."""
    tiles = "".join(f".shared .align 16 .b8 tile{name}[{size}];\n" for name in names)
    body = "{{ .reg .b32 %r<3>; mov.u32 %r1, tile{}; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], %r2; ret; }}\n"
    return HEAD + tiles + "".join(f".visible .entry k{name}() " + body.format(name) for name in names)


def test_shared_memory_of_other_kernels_is_not_theirs():
    """As ptxas gives a kernel what it and the functions that it calls name."""
    for name in range(6):
        assert tcprobe.emulate(module(range(6), 48 << 10), launch={"kernel": f"k{name}", "block": [1]}).findings == []
    with pytest.raises(UsageError, match="at most"):
        tcprobe.emulate(module(range(2), 228 << 10), launch={"kernel": "k1", "block": [1]})


def test_variables_that_variables_lead_to_are_there():
    text = (
        HEAD
        + """.global .align 4 .u32 number = 77;
.global .align 8 .u64 first = number;
.global .align 8 .u64 table[1] = {first};
.visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %d<5>;
  mov.u64 %d1, table; ld.global.u64 %d2, [%d1]; ld.global.u64 %d3, [%d2]; ld.global.u32 %r1, [%d3];
  ld.param.u64 %d4, [out]; st.global.u32 [%d4], %r1; ret; }"""
    )
    done = tcprobe.emulate(text, launch={"block": [1], "arguments": [np.zeros(1, np.uint32)]})
    assert (done.findings, done.arrays[0].tolist()) == ([], [77])


def test_maps_behind_the_parameters_may_be_of_a_parameter():
    """They are no parameters: structs lead to them."""
    text = (
        HEAD
        + """.visible .entry k(.param .u64 out, .param .u32 n) { .reg .b32 %r<3>; .reg .b64 %d<2>;
  ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n]; st.global.u32 [%d1], %r1; ret; }"""
    )
    sizes = {"globalDim": [8, 8], "globalStrides": [16], "boxDim": [8, 8], "swizzle": "NONE"}
    tensor = {"tensor_map": {"tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16", **sizes}, "of": 0}
    arguments = [{"buffer": np.zeros(64, np.float16)}, {"u32": 7}, tensor, tensor]
    done = tcprobe.emulate(text, launch={"block": [1], "arguments": arguments})
    assert (done.findings, int(done.arrays[0].view(np.uint32)[0])) == ([], 7)
