"""What libraries do and is right, beside the same kernel spoilt: roles with their own barriers, prologues of two loops,
masks of bytes, tensor maps that are edited, waits that spin, copies that are announced on a full barrier."""

from functools import cache

import pytest
from test_check_rules import TOOLS, errors, graphs
from test_check_rules import pytestmark as needs

from tcprobe.check.rule import rules

pytestmark = needs

# Threads 0 to 127 compute and store a tile, 128 to 159 copy it out, 160 to 191 store a mask that the first ones read.
ROLES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out) .reqntid 192 {
  .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<4>;
  .shared .align 128 .b8 tile[2048]; .shared .align 128 .b8 mask[128]; .shared .align 8 .b8 bars[16];
  ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, mask; mov.u32 %r3, bars;
  add.u32 %r4, %r3, 8;
  setp.ne.u32 %p, %r0, 0; @%p bra READY;
  mbarrier.init.shared.b64 [%r3], 128; mbarrier.init.shared.b64 [%r4], 32; fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  setp.lt.u32 %p, %r0, 128; @%p bra MATH;
  setp.lt.u32 %p, %r0, 160; @%p bra STORE;
  sub.u32 %r5, %r0, 160; shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r2;
  st.shared.u8 [%r6], %r5; st.shared.u8 [%r6+1], %r5; mbarrier.arrive.shared.b64 _, [%r4]; ret;
MATH:
  mbarrier.try_wait.parity.shared.b64 %p, [%r4], 0; @!%p bra MATH;
  add.u32 %r6, %r2, %r0; ld.shared.u8 %r7, [%r6]; shl.b32 %r8, %r0, 4; add.u32 %r8, %r8, %r1;
  st.shared.v4.u32 [%r8], {%r7, %r7, %r7, %r7};
  <fence> mbarrier.arrive.shared.b64 _, [%r3]; ret;
STORE:
  mbarrier.try_wait.parity.shared.b64 %p, [%r3], 0; @!%p bra STORE;
  <too>
  setp.ne.u32 %p, %r0, 128; @%p bra END;
  cp.async.bulk.global.shared::cta.bulk_group [%d0], [<from>], 128; cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
END:
  ret;
}"""
TOO = "MASK: mbarrier.try_wait.parity.shared.b64 %p, [%r4], 0; @!%p bra MASK;"
FENCE = "fence.proxy.async.shared::cta;"


def roles(fence=FENCE, too="", source="%r1"):
    return ROLES.replace("<fence>", fence).replace("<too>", too).replace("<from>", source)


# Stages are stored by threads 128 to 255 and multiplied by 0 to 127; a full and an empty barrier for each.
RING = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out, .param .u32 steps) .reqntid 256 {
  .reg .pred %p, %q; .reg .b32 %r<14>; .reg .b64 %d<4>; .reg .f32 %f<4>;
  .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 bars[32];
  ld.param.u64 %d1, [out]; ld.param.u32 %r9, [steps]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bars;
  setp.ne.u32 %p, %r0, 0; @%p bra READY;
  mbarrier.init.shared.b64 [%r2], 128; mbarrier.init.shared.b64 [%r2+8], 128;
  mbarrier.init.shared.b64 [%r2+16], 128; mbarrier.init.shared.b64 [%r2+24], 128; fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0; mov.u32 %r3, 0; mov.u32 %r4, 0; and.b32 %r11, %r1, 262143;
  setp.lt.u32 %p, %r0, 128; @%p bra MATH;
  sub.u32 %r5, %r0, 128; shl.b32 %r5, %r5, 4; add.u32 %r5, %r5, %r1;
FILL:
  .pragma "nounroll";
  shl.b32 %r6, %r3, 3; add.u32 %r6, %r6, %r2; xor.b32 %r7, %r4, 1;
FREE:
  mbarrier.try_wait.parity.shared.b64 %q, [%r6+16], %r7; @!%q bra FREE;
  mad.lo.u32 %r8, %r3, 2048, %r5; st.shared.v4.u32 [%r8], {%r9, %r9, %r9, %r9};
  <fence> mbarrier.arrive.shared.b64 _, [%r6];
  xor.b32 %r3, %r3, 1; setp.eq.u32 %q, %r3, 0; @%q xor.b32 %r4, %r4, 1;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra FILL;
  ret;
MATH:
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
STEP:
  .pragma "nounroll";
  shl.b32 %r6, %r3, 3; add.u32 %r6, %r6, %r2;
FULL:
  mbarrier.try_wait.parity.shared.b64 %q, [%r6], %r4; @!%q bra FULL;
  mad.lo.u32 %r8, %r3, 2048, %r11; shr.u32 %r8, %r8, 4; cvt.u64.u32 %d0, %r8; or.b64 %d0, %d0, 0x1000080000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; <early> wgmma.wait_group.sync.aligned 0; <late>
  xor.b32 %r3, %r3, 1; setp.eq.u32 %q, %r3, 0; @%q xor.b32 %r4, %r4, 1;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra STEP;
  mul.wide.u32 %d2, %r0, 16; add.u64 %d1, %d1, %d2; st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
FREED = "mbarrier.arrive.shared.b64 _, [%r6+16];"


def ring(fence=FENCE, early="", late=FREED):
    return RING.replace("<fence>", fence).replace("<early>", early).replace("<late>", late)


# A tensor map is edited in shared memory while a tile that is fenced goes out by another one.
EDITED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 map, .param .u64 of) .reqntid 128 {
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 128 .b8 data[2176];
  ld.param.u64 %d0, [map]; ld.param.u64 %d1, [of]; mov.u32 %r0, %tid.x; mov.u32 %r1, data; add.u32 %r2, %r1, 128;
  shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r2; st.shared.v4.u32 [%r3], {%r0, %r0, %r0, %r0};
  <fence> bar.sync 0; setp.ne.u32 %p, %r0, 0; @%p bra END;
  cvt.u32.u64 %r4, %d1; st.shared.u32 [%r1], %r4; st.shared.u32 [%r1+32], %r4;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r4, %r4}], [%r2];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
END:
  ret;
}"""

# One loop commits as many groups as there are tiles, at most 3, a second one the rest of the 3: then 2 may be left.
PROLOGUE = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 n) .reqntid 128 {
  .reg .pred %p; .reg .b32 %r<14>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[8192];
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r9, [n];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 16; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
  shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; xor.b32 %r1, %r1, 512; add.u32 %r4, %r2, %r1;
  mov.u32 %r5, 0; min.u32 %r6, %r9, 3; setp.eq.u32 %p, %r6, 0; @%p bra REST;
TILES:
  .pragma "nounroll";
  cp.async.cg.shared.global [%r3], [%d0], 16; cp.async.commit_group; add.u64 %d0, %d0, 2048; add.u32 %r3, %r3, 2048;
  add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, %r6; @%p bra TILES;
REST:
  setp.ge.u32 %p, %r5, 3; @%p bra LOOP;
EMPTY:
  .pragma "nounroll";
  cp.async.commit_group; add.u32 %r5, %r5, 1; setp.lt.u32 %p, %r5, 3; @%p bra EMPTY;
LOOP:
  .pragma "nounroll";
  <wait> bar.sync 0;
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r4]; st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};
  add.u32 %r4, %r4, 2048; add.u64 %d1, %d1, 2048;
  cp.async.cg.shared.global [%r3], [%d0], 16; cp.async.commit_group; add.u64 %d0, %d0, 2048;
  sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra LOOP;
  ret;
}"""

# A loop copies, and reads a table that was stored before it; what it copies is waited for behind it.
TABLE = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 n) .reqntid 128 {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[2048]; .shared .align 16 .b8 table[512];
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r9, [n];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
  shl.b32 %r3, %r0, 2; mov.u32 %r4, table; add.u32 %r5, %r3, %r4; st.shared.u32 [%r5], %r0; bar.sync 0;
  xor.b32 %r3, %r3, 508; add.u32 %r3, %r3, <from>;
LOOP:
  .pragma "nounroll";
  ld.shared.u32 %r6, [%r3]; mul.wide.u32 %d2, %r6, 16; add.u64 %d2, %d2, %d0;
  cp.async.cg.shared.global [%r1], [%d2], 16; cp.async.commit_group;
  add.u64 %d0, %d0, 2048; sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra LOOP;
  cp.async.wait_group 0; bar.sync 0; xor.b32 %r1, %r1, 1024; ld.shared.u32 %r6, [%r1];
  mul.wide.u32 %d2, %r0, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r6;
  ret;
}"""

# One thread fills two tiles in turn: while one is read, it announces on the full barrier of the other one what comes.
ANNOUNCED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out, .param .u32 steps) .reqntid 128 {
  .reg .pred %p, %q, %t; .reg .b32 %r<12>; .reg .b64 %d<6>; .reg .f32 %f<4>;
  .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 full[16];
  ld.param.u64 %d1, [in]; ld.param.u64 %d3, [out]; ld.param.u32 %r9, [steps]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile;
  mov.u32 %r2, full; add.u32 %r7, %r1, 2048; add.u32 %r8, %r2, 8; setp.eq.u32 %t, %r0, 0; @!%t bra READY;
  mbarrier.init.shared.b64 [%r2], 1; mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 2048, [%r2];
READY:
  bar.sync 0; mov.u32 %r4, 0; and.b32 %r5, %r1, 262143; shr.u32 %r5, %r5, 4; cvt.u64.u32 %d0, %r5;
  or.b64 %d0, %d0, 0x1000080000; add.u64 %d4, %d0, 128;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
STEP:
  .pragma "nounroll";
FIRST:
  mbarrier.try_wait.parity.shared.b64 %q, [%r2], %r4; @!%q bra FIRST;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  @%t mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 2048;
  @%t cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [<first>], [%d1], 2048, [%r8];
  wgmma.wait_group.sync.aligned 0; bar.sync 0;
SECOND:
  mbarrier.try_wait.parity.shared.b64 %q, [%r8], %r4; @!%q bra SECOND;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d4, %d4, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  @%t mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
  @%t cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 2048, [%r2];
  wgmma.wait_group.sync.aligned 0; bar.sync 0;
  xor.b32 %r4, %r4, 1; sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0; @%p bra STEP;
  mul.wide.u32 %d2, %r0, 16; add.u64 %d3, %d3, %d2; st.global.v4.f32 [%d3], {%f0, %f1, %f2, %f3};
  ret;
}"""


def announced(first):
    return ANNOUNCED.replace("<first>", first)


# What a bulk copy brought goes out again by another one; an index was stored in the same place before.
THROUGH = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out) .reqntid 128 {
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 128 .b8 tile[2048]; .shared .align 8 .b64 full;
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, full;
  shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r1; st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r4, [%r3+4];
  mul.wide.u32 %d2, %r4, 16; add.u64 %d0, %d0, %d2; bar.sync 0; setp.ne.u32 %p, %r0, 0; @%p bra END;
  mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], 2048, [%r2];
FULL:
  mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra FULL;
  <store> cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 2048; cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
END:
  ret;
}"""


def table(source):
    return TABLE.replace("<from>", source)


# by name: the right kernel, the spoilt one, the rule that finds it, and the first word of who is named
PATTERNS = {
    "roles with their own barriers": (roles(), roles(fence=""), "async-proxy", "UBLKCP.G.S", "STS.128"),
    "a mask of bytes": (roles(too=TOO), roles(too=TOO, source="%r2"), "async-proxy", "UBLKCP.G.S", "STS.U8"),
    "waits that spin": (ring(), ring(fence=""), "async-proxy", "HGMMA.64x8x16.F32.BF16", "STS.128"),
    "a stage that is freed": (ring(), ring(early=FREED, late=""), "wgmma-shared", "SYNCS.ARRIVE", "STS.128"),
    "an edited tensor map": (
        EDITED.replace("<fence>", FENCE),
        EDITED.replace("<fence>", ""),
        "async-proxy",
        "UTMASTG.2D",
        "STS.128",
    ),
    "a prologue of two loops": (
        PROLOGUE.replace("<wait>", "cp.async.wait_group 2;"),
        PROLOGUE.replace("<wait>", ""),
        "unfinished-copy",
        "LDS.128",
        "LDGSTS",
    ),
    "a table in a loop that copies": (table("%r4"), table("%r2"), "unfinished-copy", "LDS", "LDGSTS"),
    "what was brought goes out": (
        THROUGH.replace("<store>", ""),
        THROUGH.replace("<store>", "st.shared.v2.u32 [%r1], {%r0, %r4};"),
        "async-proxy",
        "UBLKCP.G.S",
        "STS.64",
    ),
    "an announcement": (announced("%r7"), announced("%r1"), "wgmma-shared", "UBLKCP.S.G", "HGMMA"),
}


@cache
def kernels():
    """All of them, as graphs."""
    texts = dict.fromkeys(text for right, spoilt, *_ in PATTERNS.values() for text in (right, spoilt))
    return graphs((text, TOOLS.ptxas) for text in texts)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_right_kernel_is_silent_and_its_spoilt_twin_is_found(name):
    """By its rule alone, once; the finding names who reads, and who wrote."""
    right, spoilt, rule, first, other = PATTERNS[name]
    asked = [one for one, of in rules().items() if of.SEVERITY == "error" or one == "cp-async-proxy"]
    assert [finding for one in asked for finding in errors(kernels()[right, TOOLS.ptxas], one)] == []
    twin = kernels()[spoilt, TOOLS.ptxas]
    assert [one for one in asked if errors(twin, one)] == [rule]
    found = errors(twin, rule)
    assert found[0].text.startswith(first)
    assert other in found[0].text
    assert rule != "async-proxy" or len(found) == 1
