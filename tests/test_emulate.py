"""PTX on a CPU: what kernels compute, what is found in them, and what strangers' text may do."""

import itertools
import json
import math
import os
import re
import shutil
import struct
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import tcprobe
from tcprobe.cli import main
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.report import RULES
from tcprobe.errors import DataError, TcprobeError, UsageError

ROOT = Path(__file__).parent.parent
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTERS = """.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .f32 %f<20>;
.reg .b64 %rd<9>; mov.u32 %r0, %tid.x;
"""
SHARED = ".shared .align 128 .b8 s[4096]; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.s32 %r3, %r1, %r2;\n"


def kernel(body, parameters=".param .u64 a"):
    return f"{HEAD}.visible .entry k({parameters}) {{\n{REGISTERS}{body}\nret;\n}}\n"


def run(body, *arguments, block=32, parameters=".param .u64 a", **more):
    options = {key: more.pop(key) for key in ("schedule", "seed", "most", "arch") if key in more}
    launch = {"block": [block], "arguments": list(arguments), **more}
    return tcprobe.emulate(kernel(body, parameters), launch=launch, **options)


def rules(done):
    return [finding.rule for finding in done.findings]


OUT = "ld.param.u64 %rd1, [a]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;\n"


def computed(body, block=32, **more):
    """What each thread leaves in %r9."""
    done = run(f"{OUT}{body} st.global.u32 [%rd3], %r9;", np.zeros(block, np.uint32), block=block, **more)
    assert done.findings == []
    assert done.finished
    return done.arrays[0]


LANE = np.arange(32, dtype=np.uint32)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("mad.lo.s32 %r9, %r0, 3, 7;", LANE * 3 + 7),
        (
            "sub.s32 %r4, %r0, 16; div.s32 %r9, %r4, 5;",
            (np.trunc((LANE.astype(int) - 16) / 5)).astype(np.int32).view(np.uint32),
        ),
        (
            "sub.s32 %r4, %r0, 16; rem.s32 %r9, %r4, 5;",
            np.fmod(LANE.astype(int) - 16, 5).astype(np.int32).view(np.uint32),
        ),
        ("mul.hi.u32 %r9, %r0, 0xffffffff;", np.maximum(LANE, 1) - 1),
        ("shl.b32 %r4, %r0, 3; shr.u32 %r9, %r4, 40;", LANE * 0),
        ("brev.b32 %r9, %r0;", np.array([int(f"{n:032b}"[::-1], 2) for n in range(32)])),
        ("popc.b32 %r9, %r0;", np.array([n.bit_count() for n in range(32)])),
        ("clz.b32 %r9, %r0;", np.array([32 - n.bit_length() for n in range(32)])),
        ("bfe.u32 %r9, 0xabcd, %r0, 4;", np.array([0xABCD >> n & 15 for n in range(32)])),
        ("bfi.b32 %r9, 0xff, 0, %r0, 2;", np.array([(3 << n) & 0xFFFFFFFF for n in range(32)])),
        ("lop3.b32 %r9, %r0, 12, 10, 0x96;", LANE ^ 12 ^ 10),
        ("prmt.b32 %r9, 0x03020100, 0x07060504, 0x7531;", LANE * 0 + 0x07050301),
        (
            "shf.l.wrap.b32 %r9, 0x80000000, 1, %r0;",
            np.array([(0x180000000 << n >> 32) & 0xFFFFFFFF for n in range(32)]),
        ),
        ("setp.lt.u32 %p1, %r0, 5; selp.u32 %r9, 1, 2, %p1;", np.where(LANE < 5, 1, 2)),
        ("shfl.sync.bfly.b32 %r9, %r0, 3, 31, -1;", LANE ^ 3),
        ("shfl.sync.up.b32 %r9|%p1, %r0, 1, 0, -1;", np.maximum(LANE, 1) - 1),
        ("shfl.sync.down.b32 %r9, %r0, 4, 0x181f, -1;", np.array([n + 4 if n % 8 < 4 else n for n in range(32)])),
        ("setp.gt.u32 %p1, %r0, 29; vote.sync.ballot.b32 %r9, %p1, -1;", LANE * 0 + 0xC0000000),
        ("redux.sync.add.s32 %r9, %r0, -1;", LANE * 0 + 496),
        ("and.b32 %r4, %r0, 1; match.any.sync.b32 %r9, %r4, -1;", np.where(LANE & 1, 0xAAAAAAAA, 0x55555555)),
        ("elect.sync %r9|%p1, 0xf0;", LANE[:0]),
        ("add.cc.u32 %r4, 0xffffffff, 1; addc.u32 %r9, %r0, 0;", LANE + 1),
        ("dp4a.u32.u32 %r9, 0x01010101, 0x04030201, %r0;", LANE + 10),
        (
            "cvt.rn.f32.u32 %f1, %r0; fma.rn.f32 %f2, %f1, 0f3F000000, 0f3F800000; mov.b32 %r9, %f2;",
            (LANE.astype(np.float32) * 0.5 + 1).astype(np.float32).view(np.uint32),
        ),
        ("cvt.rn.f16x2.f32 %r9, 0f40000000, 0f3F800000;", LANE * 0 + 0x40003C00),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, 0f447A0000, 0f3F800000; cvt.u32.u16 %r9, %h1;", LANE * 0 + 0x7E38),
        ("cvt.rzi.s32.f32 %r9, 0fC0200000;", LANE * 0 + 0xFFFFFFFE),
        ("mov.b32 {%h1, %h2}, %r0; mov.b32 %r9, {%h2, %h1};", LANE << 16),
    ],
)
def test_instructions_compute_as_ptx_says(body, wanted):
    if "elect" in body:  # only lanes of the mask may come
        body = f"setp.eq.u32 %p2, %r0, 4; mov.u32 %r9, 0; and.b32 %r4, %r0, 28; setp.ne.u32 %p3, %r4, 4;@%p3 bra END; {body} END: bar.warp.sync -1;"  # noqa: E501
        assert computed(body.replace("0xf0", "0xf0"))[4:8].tolist() == [4, 4, 4, 4]
        return
    assert computed(body).tolist() == wanted.astype(np.uint32).tolist()


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=96, max_size=96))
def test_floats_are_rounded_once(numbers):
    """fma against exact fractions; every direction brackets the exact sum."""
    x, y, z = np.array(numbers, np.float32).reshape(3, 32)
    body = """ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd3+128]; ld.global.f32 %f3, [%rd3+256];
    fma.rn.f32 %f4, %f1, %f2, %f3; add.rm.f32 %f5, %f1, %f2; add.rp.f32 %f6, %f1, %f2;
    st.global.f32 [%rd3], %f4; st.global.f32 [%rd3+128], %f5; st.global.f32 [%rd3+256], %f6;"""
    done = run(OUT + body, np.concatenate([x, y, z]))
    fused, down, up = done.arrays[0].reshape(3, 32)
    from fractions import Fraction

    for n in range(32):
        if not all(np.isfinite(v[n]) for v in (fused, down, up)):
            continue
        exact = Fraction(float(x[n])) * Fraction(float(y[n])) + Fraction(float(z[n]))
        near = [
            Fraction(float(np.nextafter(fused[n], np.float32(way))))
            if np.isfinite(np.nextafter(fused[n], np.float32(way)))
            else None
            for way in (-np.inf, np.inf)
        ]
        assert all(side is None or abs(Fraction(float(fused[n])) - exact) <= abs(side - exact) for side in near)
        total = Fraction(float(x[n])) + Fraction(float(y[n]))
        assert Fraction(float(down[n])) <= total <= Fraction(float(up[n]))
        assert down[n] == up[n] or np.nextafter(down[n], np.float32(np.inf)) == up[n]


def test_threads_part_and_meet_again():
    """Loops of another length for each lane, then an instruction of the whole warp."""
    body = """mov.u32 %r9, 0; mov.u32 %r4, 0;
    LOOP: setp.ge.u32 %p1, %r4, %r0; @%p1 bra DONE; add.u32 %r9, %r9, %r4; add.u32 %r4, %r4, 1; bra LOOP;
    DONE: shfl.sync.idx.b32 %r9, %r9, 31, 31, -1;"""
    for schedule in ("late", "random"):
        assert set(computed(body, schedule=schedule).tolist()) == {465}


def test_functions_are_called():
    text = (
        HEAD
        + """.func (.param .b32 out) twice(.param .b32 x) { .reg .b32 %a<3>;
    ld.param.b32 %a1, [x]; add.u32 %a2, %a1, %a1; st.param.b32 [out], %a2; ret; }
    """
        + kernel(
            OUT
            + """{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r0; call.uni (q), twice, (p);
ld.param.b32 %r9, [q]; }
    st.global.u32 [%rd3], %r9;"""
        ).removeprefix(HEAD)
    )
    done = tcprobe.emulate(text, launch={"block": [32], "arguments": [np.zeros(32, np.uint32)]})
    assert (done.arrays[0].tolist(), done.findings) == ((LANE * 2).tolist(), [])


EXCHANGE = (
    SHARED
    + OUT
    + "st.shared.u32 [%r3], %r0; {between} xor.b32 %r4, %r2, 128; add.s32 %r5, %r1, %r4; ld.shared.u32 %r9, [%r5]; st.global.u32 [%rd3], %r9;"  # noqa: E501
)
COPY = (
    SHARED
    + OUT
    + "cp.async.ca.shared.global [%r3], [%rd3], 4; cp.async.commit_group; {wait} ld.shared.u32 %r9, [%r3]; st.global.u32 [%rd3], %r9;"  # noqa: E501
)
BULK = (
    SHARED
    + """ld.param.u64 %rd1, [a]; st.shared.u32 [%r3], %r0; {fence} bar.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 256; cp.async.bulk.commit_group; {wait} END:"""
)
COPIED_OUT = (  # what cp.async brought goes out again by a bulk copy
    SHARED
    + OUT
    + """cp.async.ca.shared.global [%r3], [%rd3], 4; cp.async.wait_all; {then} {fence} bar.sync 0;
ld.param.u64 %rd1, [a]; setp.ne.u32 %p1, %r0, 0; @%p1 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 256; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; END:"""
)
LOAD = (
    SHARED
    + """.shared .align 8 .b8 m[8]; ld.param.u64 %rd1, [a]; mov.u32 %r4, m; setp.ne.u32 %p1, %r0, 0;
@%p1 bra READY; mbarrier.init.shared.b64 [%r4], 1; {fence} READY: bar.sync 0; @%p1 bra GO;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], {bytes};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r4]; GO:
{wait} ld.shared.u32 %r9, [%r3]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3+256], %r9;"""
)
WAITED = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], {0}; @!%p2 bra WAIT;"
FENCE = "fence.mbarrier_init.release.cluster;"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (EXCHANGE.format(between="bar.sync 0;"), set()),
        (EXCHANGE.format(between=""), {"race"}),
        (EXCHANGE.format(between="bar.warp.sync -1;"), {"race"}),
        (COPY.format(wait="cp.async.wait_group 0;"), set()),
        (COPY.format(wait="cp.async.wait_group 1;"), {"in-flight", "uninitialised"}),
        (COPY.format(wait=""), {"in-flight", "uninitialised"}),
        (BULK.format(fence="fence.proxy.async;", wait="cp.async.bulk.wait_group 0;"), set()),
        (BULK.format(fence="", wait="cp.async.bulk.wait_group 0;"), {"proxy"}),
        (BULK.format(fence="fence.proxy.async;", wait=""), {"in-flight"}),
        (COPIED_OUT.format(fence="fence.proxy.async;", then=""), set()),
        (COPIED_OUT.format(fence="", then=""), {"cp-async-proxy"}),
        (COPIED_OUT.format(fence="", then="st.shared.u32 [%r3], %r0;"), {"proxy"}),  # stored over it
        (LOAD.format(fence=FENCE, bytes=256, wait=WAITED.format(0)), set()),
        (LOAD.format(fence="", bytes=256, wait=WAITED.format(0)), {"proxy"}),
        (LOAD.format(fence=FENCE, bytes=256, wait=""), {"in-flight", "uninitialised"}),
        (LOAD.format(fence=FENCE, bytes=256, wait=WAITED.format(1)), {"in-flight", "uninitialised"}),
        (LOAD.format(fence=FENCE, bytes=272, wait=WAITED.format(0)), {"deadlock"}),
        (OUT + "ld.global.u32 %r9, [%rd3+512];", {"bounds"}),
        (OUT + "ld.global.u32 %r9, [%rd3+2];", {"misaligned"}),
        (SHARED + OUT + "ld.shared.u32 %r9, [%r3]; st.global.u32 [%rd3], %r9;", {"uninitialised"}),
        (SHARED + "ld.shared.u32 %r9, [%r3];", set()),  # loaded ahead, and left
        (SHARED + "st.shared.u32 [%r1], %r0;", {"race"}),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 1, 64;", {"deadlock"}),
        (SHARED + "st.shared.u32 [%r3+8192], %r0;", {"bounds"}),
    ],
)
@pytest.mark.parametrize("schedule", ["late", "early", "random"])
def test_what_is_wrong_is_found_and_nothing_else(body, wanted, schedule):
    done = run(body, np.zeros(128, np.uint32), block=64, schedule=schedule, seed=3)
    found = set(rules(done))
    assert found <= set(RULES)
    if schedule == "late":
        assert found == wanted
    else:  # early, what is not waited for may be there: then nothing orders it
        assert bool(found) == bool(wanted)


FLAGGED = (
    SHARED
    + """ld.param.u64 %rd1, [a]; mov.u32 %r10, %ctaid.x; mul.wide.u32 %rd2, %r10, 4; add.s64 %rd3, %rd1, %rd2;
setp.ne.u32 %p1, %r0, 0; @%p1 bra READ; st.shared.u32 [%r1], 7; setp.lt.u32 %p2, %r10, {fenced};
@%p2 fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd3], 1; bra END;
READ: setp.ne.u32 %p1, %r0, 32; @%p1 bra END;
POLL: ld.acquire.gpu.global.u32 %r9, [%rd3]; setp.eq.u32 %p1, %r9, 0; @%p1 bra POLL; ld.shared.u32 %r9, [%r1]; END:"""
)


@pytest.mark.parametrize(("fenced", "wanted"), [(2, []), (1, ["race"]), (0, ["race"])])
def test_a_fence_is_of_its_own_block(fenced, wanted):
    done = run(FLAGGED.format(fenced=fenced), np.zeros(2, np.uint32), block=512, grid=[2])  # one block after the other
    assert (rules(done), done.arrays[0].tolist()) == (wanted, [1, 1])


def test_a_phase_of_the_wrong_parity_is_a_race_or_waits_for_ever():
    arrived = LOAD.format(fence=FENCE, bytes=256, wait=WAITED.format(0) + WAITED.format(0).replace("WAIT", "AGAIN"))
    assert rules(run(arrived, np.zeros(128, np.uint32), block=64)) == []


MMA = """ld.global.u32 %r10, [%rd3]; ld.global.u32 %r11, [%rd3+128]; ld.global.u32 %r12, [%rd3+256];
ld.global.u32 %r13, [%rd3+384]; mov.f32 %f1, 0f00000000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
{%f2, %f3, %f4, %f5}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%f1, %f1, %f1, %f1};
st.global.f32 [%rd3], %f2; st.global.f32 [%rd3+128], %f3; st.global.f32 [%rd3+256], %f4;
st.global.f32 [%rd3+384], %f5;"""


def test_a_multiply_is_at_the_tables_places_and_has_the_models_bits():
    form = "mma.m16n8k16.row.col.f32.f16.f16.f32"
    words = np.random.default_rng(0).standard_normal((4, 32, 2)).astype(np.float16)
    done = run(OUT + MMA, words.view(np.uint32).reshape(-1))
    tables = {name: tcprobe.fragment(f"{form}.{name}", arch="sm_90") for name in "abd"}
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    for lane in range(32):
        for i in range(8):
            a[tables["a"].at(lane=lane, i=i)] = words[i // 2, lane, i % 2]
        for i in range(4):
            b[tables["b"].at(lane=lane, i=i)] = words[i // 2, lane, i % 2]
    d = tcprobe.numerics.multiply(form, a, b, np.zeros((16, 8), np.float32))
    held = done.arrays[0].view(np.float32).reshape(4, 32)
    assert all(held[i, lane] == d[tables["d"].at(lane=lane, i=i)] for lane in range(32) for i in range(4))
    assert done.findings == []


def test_a_break_says_which_element_a_register_holds(tmp_path):
    text = kernel(OUT + MMA)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "mma.sync" in each)
    path, launch = tmp_path / "k.ptx", {"block": [32], "arguments": [np.full(128, 0x3C003C00, np.uint32)]}
    path.write_text(text)
    done = tcprobe.emulate(path, launch=launch, break_=f"{line},5")
    assert not done.finished
    at = tcprobe.fragment("mma.m16n8k16.row.col.f32.f16.f16.f32.a", arch="sm_90").at(lane=5, i=2)
    assert any(f"A({at[0]}, {at[1]}) = 1" in each for each in done.lines)
    traced = tcprobe.emulate(path, launch=launch, trace=f"{line},5")
    assert len(traced.lines) == 1


def test_a_kernel_that_never_ends_is_stopped():
    done = run("LOOP: bra LOOP;", np.zeros(1, np.uint32), most=1000)
    assert not done.finished
    assert 1000 <= done.instructions < 10_000


HOSTILE = {
    "": (4, "target"),
    "?": (4, "character"),
    HEAD + "{" * 5000: (4, "directive"),
    kernel("{" * 5000): (4, "blocks"),
    kernel("mov.u32 %r1, " + "{" * 5000): (4, "brackets"),
    kernel("add.u32 %r1, %r2, 0x" + "f" * 5000 + ";"): (4, "number"),
    kernel(".shared .b8 big[99999999999999];"): (4, "bytes"),
    kernel("frobnicate.u32 %r1, %r2;"): (2, r"line \d+: frobnicate.u32 is not emulated"),
    kernel("mma.sync.aligned.m1n1k1.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};"): (2, "not emulated"),
    kernel("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};"): (
        2,
        "D in 1 registers, not 4",
    ),
    kernel("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 %r1;"): (2, "with these operands"),
    kernel("tcgen05.mma.cta_group::1.kind::f16 [%r1];"): (2, "with these operands"),
    kernel("tcgen05;"): (2, "with these operands"),
    kernel(".shared .b8 big[9999999];"): (2, "shared memory"),
    kernel(".local .b8 big[99999999];"): (2, "local memory"),
    kernel("ld.global.u32 %r1, [nobody];"): (2, "nobody"),
    kernel("bra NOWHERE;"): (2, "label NOWHERE"),
    kernel("call printf, (%r1);"): (2, "printf"),
}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused_in_a_line(text, tmp_path):
    (tmp_path / "k.ptx").write_text(text)
    (tmp_path / "l.json").write_text(json.dumps({"arguments": [{"u64": 1}]}))
    done = CliRunner().invoke(main, ["emulate", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "l.json")])
    code, words = HOSTILE[text]
    assert done.exit_code == code, done.output
    assert re.search(words, done.output), done.output
    assert len(done.output.strip().splitlines()) <= 2


def test_a_tensor_map_may_stand_in_a_struct():
    """As in the parameters of CUTLASS's kernels: a pointer, and a map at a multiple of 64 bytes."""
    body = f"""{SHARED}.shared .align 8 .b64 full; mov.u32 %r5, full; mov.u64 %rd5, p; cvta.param.u64 %rd5, %rd5;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd5+128, {{8, 1}}], [%r5];
    READY: bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT;
    ld.shared.u32 %r9, [%r3]; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r9;"""
    given_ = np.arange(5 * 16, dtype=np.uint32).reshape(5, 16)
    described = {"tensorDataType": "UINT32", "globalDim": [16, 5], "boxDim": [8, 4], "globalStrides": [64]}
    struct = {"bytes": "00" * 256, "pointers": {"0": 2}, "maps": {"128": 1}}
    arguments = [struct, {"tensor_map": described, "of": 3}, np.zeros(32, np.uint32), given_]
    done = run(body, *arguments, parameters=".param .align 64 .b8 p[256]")
    assert done.findings == []
    assert (done.arrays[2].reshape(4, 8) == given_[1:5, 8:]).all()


def test_no_cluster_is_cancelled_for_one_that_asks():
    """Its answer comes beside an mbarrier; which cluster it was may be asked only of one."""
    body = """.shared .align 16 .b8 answer[16]; .shared .align 8 .b64 full; .reg .b128 %q; mov.u32 %r1, answer;
    mov.u32 %r5, full; setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
    mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r5];
    READY: bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT;
    ld.shared.b128 %q, [%r1];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q; selp.u32 %r9, 7, 5, %p3;
    @GUARD clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r6, %r7, %r8, _}, %q;"""
    assert computed(body.replace("GUARD", "%p3")).tolist() == [5] * 32
    done = run(f"{OUT}{body.replace('GUARD', '!%p3')}", np.zeros(32, np.uint32))
    assert rules(done) == ["uninitialised"]
    early = body.replace("WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT;", "")
    assert "in-flight" in rules(run(f"{OUT}{early.replace('GUARD', '%p3')}", np.zeros(32, np.uint32)))


LAUNCHES = {
    "[1]": 4,
    "{": 4,
    '{"grid": [0, 1, 1]}': 2,
    '{"block": [2000]}': 2,
    '{"grid": "x"}': 4,
    '{"grids": [1]}': 4,
    '{"arguments": [{"u32": "x"}]}': 4,
    '{"arguments": [{"u32": -1}]}': 4,
    '{"arguments": [{"buffer": "none.npy"}]}': 4,
    '{"arguments": [{"zeros": 99999999999}]}': 4,
    '{"arguments": [{"bytes": "xyz"}]}': 4,
    '{"arguments": [{"bytes": "00", "pointers": {"0": 0}}]}': 4,
    '{"arguments": [{"bytes": "00", "maps": {"0": 0}}]}': 4,
    '{"arguments": [{"bytes": "00", "maps": 1}]}': 4,
    '{"arguments": [{"tensor_map": {}, "of": 0}]}': 4,
    '{"arguments": []}': 2,
    '{"kernel": "other", "arguments": [{"zeros": 4}]}': 2,
    '{"shared": 300000, "arguments": [{"zeros": 4}]}': 2,
    '{"cluster": [3, 1, 1], "arguments": [{"zeros": 4}]}': 2,
}


@pytest.mark.parametrize("text", LAUNCHES)
def test_launches_that_are_none_are_refused(text, tmp_path):
    (tmp_path / "k.ptx").write_text(kernel(""))
    (tmp_path / "l.json").write_text(text)
    done = CliRunner().invoke(main, ["emulate", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "l.json")])
    assert (done.exit_code, "Traceback" in done.output) == (LAUNCHES[text], False), done.output


def test_files_of_a_launch_are_read_and_written_and_no_others(tmp_path):
    (tmp_path / "k.ptx").write_text(
        kernel(OUT.replace("[a]", "[b]") + "st.global.u32 [%rd3], %r0;", ".param .u64 a, .param .u64 b")
    )
    np.save(tmp_path / "a.npy", np.zeros(4, np.uint16))
    launch = {"block": [32], "arguments": [{"buffer": "a.npy"}, {"zeros": 128, "out": "d.npy"}]}
    (tmp_path / "l.json").write_text(json.dumps(launch))
    words = [
        "emulate",
        str(tmp_path / "k.ptx"),
        "--launch",
        str(tmp_path / "l.json"),
        "--json",
        "--sarif",
        str(tmp_path / "s.json"),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["finished"], told["findings"]) == (True, [])
    assert np.load(tmp_path / "d.npy").view(np.uint32).tolist() == LANE.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {"k.ptx", "l.json", "a.npy", "d.npy", "s.json"}
    (tmp_path / "l.py").write_text(f"launch = {launch!r}")
    assert CliRunner().invoke(main, [*words[:2], "--launch", str(tmp_path / "l.py")]).exit_code == 0


def test_structs_hold_addresses_of_buffers():
    body = OUT.replace("[a]", "[a+8]") + "ld.param.u32 %r9, [a]; add.u32 %r9, %r9, %r0; st.global.u32 [%rd3], %r9;"
    struct = {"bytes": "07000000" + "00" * 12, "pointers": {"8": 1}}
    done = run(body, struct, np.zeros(32, np.uint32), parameters=".param .align 8 .b8 a[16]")
    assert (done.arrays[1].tolist(), done.findings) == ((LANE + 7).tolist(), [])


@given(st.text(alphabet='abc%.[]{}()<>;:,|@!+-*0123456789 \n\t_$"/', max_size=200))
def test_any_text_is_read_or_refused(text):
    for each in (text, kernel(text)):
        try:
            parse(each)
        except TcprobeError as error:
            assert isinstance(error, UsageError | DataError)  # noqa: PT017


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", ["sm_80 f16 72x136x104", "sm_90 bf16 128x72x104 --tile 128x64x64 --cluster 2"])
def test_printed_kernels_multiply_exactly(words):
    arch, kind, size, *more = words.split()
    done = CliRunner().invoke(
        main, ["kernel", "gemm", "--arch", arch, "--type", kind, "--emulate", size, "--json", *more]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    m, n, _ = map(int, size.split("x"))
    assert (told["elements"], told["wrong"], told["findings"]) == (m * n, 0, [])
    schema = json.loads((ROOT / "docs" / "schema.json").read_text())["$defs"]["kernel gemm --emulate"]
    jsonschema.validate(told, schema)


def test_a_fence_that_only_the_text_of_ptx_wants_is_a_warning():
    done = run(COPIED_OUT.format(fence="", then=""), np.zeros(128, np.uint32), block=64)
    assert [finding.severity for finding in done.findings] == ["warning"]
    assert done.report.errors == []


def test_a_kernel_of_ours_without_a_fence_is_noticed():
    """The example of the guide, with the fence: nothing."""
    text = (ROOT / "examples" / "emulate" / "store.ptx").read_text()
    launch = json.loads((ROOT / "examples" / "emulate" / "store.json").read_text())
    assert rules(tcprobe.emulate(text, launch=launch)) == ["proxy"]
    mended = text.replace("    bar.sync 0;", "    fence.proxy.async.shared::cta;\n    bar.sync 0;")
    done = tcprobe.emulate(mended, launch=launch)
    assert (rules(done), done.arrays[0].view(np.uint32).tolist()) == ([], list(range(128)))


@pytest.mark.skipif(os.name != "posix", reason="needs FIFOs")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for names in (
        {"ptx": tmp_path / "fifo", "launch": {}},
        {"ptx": ROOT / "examples" / "emulate" / "store.ptx", "launch": tmp_path / "fifo"},
    ):
        with pytest.raises(DataError, match="not a regular file"):
            tcprobe.emulate(**names)


ODD = (0, 1 << 31, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFABCDEF)
BITS = st.sampled_from(ODD) | st.integers(0, (1 << 32) - 1)


@given(st.lists(BITS, min_size=32, max_size=32), st.sampled_from(["min", "max"]))
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("absolute", ["", ".abs"])
def test_extremes_of_a_warps_floats(absolute, nan, bits, name):
    """Without .NaN numbers alone count; +0 is above -0; a NaN that comes out is canonical (PTX ISA, redux.sync)."""
    redux = f"redux.sync.{name}{absolute}{nan}.f32 %f2, %f1, 0xffffffff;"
    array = np.array(bits, np.uint32)
    done = run(f"{OUT}ld.global.f32 %f1, [%rd3]; {redux} st.global.f32 [%rd3], %f2;", array, arch="sm_100")
    assert done.findings == []
    taken = (array & 0x7FFFFFFF if absolute else array).tolist()
    floats = [struct.unpack("<f", struct.pack("<I", bit))[0] for bit in taken]
    numbers = [(value, not bit >> 31) for value, bit in zip(floats, taken, strict=True) if not math.isnan(value)]
    (found,) = set(done.arrays[0].tolist())
    if not numbers or (nan and len(numbers) < 32):
        assert found == 0x7FFFFFFF
    else:
        value, positive = (min if name == "min" else max)(numbers)
        assert (struct.unpack("<f", struct.pack("<I", found))[0], not found >> 31) == (value, positive)


@pytest.mark.parametrize("count", [1, 2])
def test_a_matrix_of_bytes_is_turned(count):
    """ldmatrix.m16n16 of b8: lane 4 g + t holds rows 4 t to 4 t + 3 of column g, then of column g + 8."""
    held = ", ".join(f"%r{20 + n}" for n in range(2 * count))
    stores = " ".join(f"st.global.u32 [%rd3+{4 * n}], %r{20 + n};" for n in range(2 * count))
    body = f"""{SHARED} ld.param.u64 %rd1, [a]; mul.wide.u32 %rd2, %r0, 16; add.s64 %rd3, %rd1, %rd2;
    shl.b32 %r5, %r0, 4; add.s32 %r6, %r1, %r5; ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd3];
    st.shared.v4.u32 [%r6], {{%r10, %r11, %r12, %r13}}; bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{held}}}, [%r6]; {stores}"""
    rows = np.random.default_rng(5).integers(0, 256, (32, 16), np.uint8)
    done = run(body, rows.copy(), arch="sm_100")
    assert done.findings == []
    lanes = done.arrays[0].reshape(32, 16)
    for lane, matrix, half in itertools.product(range(32), range(count), range(2)):
        group, four = divmod(lane, 4)
        wanted = rows[16 * matrix + 4 * four : 16 * matrix + 4 * four + 4, group + 8 * half]
        assert lanes[lane, 8 * matrix + 4 * half :][:4].tolist() == wanted.tolist()
