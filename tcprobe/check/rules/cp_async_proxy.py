"""Shared memory that cp.async fills and the async proxy reads, without a proxy fence between: as by `async-proxy`."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.check.rule import Finding, Severity
from tcprobe.check.rules import async_proxy
from tcprobe.sass.kernel import Kernel

NAME = "cp-async-proxy"
SEVERITY: Severity = "warning"
SAYS = "shared memory that cp.async filled is read by wgmma, tcgen05.mma or a bulk copy without a proxy fence between"
FIX = "by PTX's text fence.proxy.async.shared::cta behind the wait for cp.async, before the barrier"
EVIDENCE = (
    "PTX ISA, cp.async: it is treated as a weak memory operation performed in the generic proxy in the memory "
    "consistency model; wgmma.fence: an async proxy fence must be used to establish an ordering between prior writes "
    "to shared memory matrices and subsequent accesses to the same matrices in wgmma.mma_async.",
    "Measured on an H200, eight blocks per SM, 20 launches (docs/checks_h200.json): without the fence none of "
    "4,325,376 elements a launch was wrong, where the same kernel with st.shared was wrong nearly everywhere. So it is "
    "a warning.",
    "Libraries do without: cuBLAS 13.10 fences tiles that it stores (aligna2), and none that cp.async brings "
    "(aligna4); FlashAttention 3 with paged keys has no fence; Triton's Hopper matmul has none as built by "
    "3.4 and 3.6, and has it by 3.8 and 3.9.",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each fence that is missing; at most one note."""
    if async_proxy.COPIED in kernel.mnemonics:
        yield from async_proxy.findings(kernel, NAME, SEVERITY, FIX, copied=True)


_MULTIPLY = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out) .maxntid 128 {
  .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>;
  .shared .align 128 .b8 tile[2048];
  ld.param.u64 %d3, [in]; mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 16; add.u64 %d3, %d3, %d2;
  shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
  cp.async.cg.shared.global [%r1], [%d3], 16; cp.async.commit_group; cp.async.wait_group 0;
  <fence>bar.sync 0;
  shr.u32 %r3, %r2, 4; cvt.u64.u32 %d0, %r3; or.b64 %d0, %d0, 0x1000080000;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %d1, [out]; add.u64 %d1, %d1, %d2; st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
FAILS = _MULTIPLY.replace("<fence>", "")
PASSES = _MULTIPLY.replace("<fence>", "fence.proxy.async.shared::cta; ")
