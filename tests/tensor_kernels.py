"""PTX of one tcgen05.mma over images in shared memory: what tests of the emulator's tensor memory run."""

import numpy as np

from tcprobe.emulate.launch import BufferArgument, Launch, ScalarArgument
from tcprobe.emulate.machine import Shape
from tcprobe.emulate.ptx import parse
from tcprobe.emulate.run import Options, emulate

A, B, SCALES, METADATA = 0, 32768, 81920, 86016  # where they begin in shared memory
SHARED = 98304
TEXT = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.shared .align 8 .b64 done;
.shared .align 4 .b32 slot;
.visible .entry k(.param .u64 image, .param .u64 out, .param .u32 words, .param .u64 adesc, .param .u64 bdesc,
  .param .u32 idesc)
{{
.reg .b32 %r<200>; .reg .b64 %d<20>; .reg .pred %p<8>; .reg .b16 %h<2>;
ld.param.u64 %d0, [image]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [words];
ld.param.u64 %d2, [adesc]; ld.param.u64 %d3, [bdesc]; ld.param.u32 %r1, [idesc];
cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d1, %d1;
mov.u32 %r2, %tid.x; mov.u32 %r3, smem; mov.u32 %r4, done; mov.u32 %r5, slot; mov.u32 %r6, %ctaid.x;
shr.u32 %r7, %r2, 5;
mul.lo.u32 %r8, %r6, %r0; mul.wide.u32 %d4, %r8, 4; add.u64 %d0, %d0, %d4;
mov.u32 %r9, %r2;
FILL: setp.ge.u32 %p0, %r9, %r0;
@%p0 bra FILLED;
mul.wide.u32 %d5, %r9, 4; add.u64 %d6, %d0, %d5; ld.global.b32 %r10, [%d6];
shl.b32 %r11, %r9, 2; add.u32 %r11, %r11, %r3; st.shared.b32 [%r11], %r10;
add.u32 %r9, %r9, 128; bra FILL;
FILLED:
fence.proxy.async;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [%r4], 1;
fence.mbarrier_init.release.cluster;
READY:
bar.warp.sync 0xffffffff;
setp.ne.u32 %p2, %r7, 0;
@%p2 bra ALLOCATED;
tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%r5], 512;
tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
ALLOCATED:
tcgen05.fence::before_thread_sync;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %r12, [%r5];
setp.ne.u32 %p3, %r2, 0;
@%p3 bra ISSUED;
setp.ne.u32 %p4, %r6, 0;
@%p4 bra ISSUED;
{issue}
{commit}
ISSUED:
bar.warp.sync 0xffffffff;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r4], 0;
@!%p5 bra WAIT;
bar.warp.sync 0xffffffff;
tcgen05.fence::after_thread_sync;
shl.b32 %r13, %r7, 21; add.u32 %r13, %r13, %r12;
{read}
tcgen05.fence::before_thread_sync;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
tcgen05.fence::after_thread_sync;
setp.ne.u32 %p6, %r7, 0;
@%p6 bra OVER;
tcgen05.dealloc.{group}.sync.aligned.b32 %r12, 512;
OVER: ret;
}}
"""


def text(form, columns, pair=False, scales=False, copies=(), sparse=False):
    """The kernel: D's first `columns` of all lanes are stored lane by lane, block by block."""
    group = "cta_group::2" if pair else "cta_group::1"
    issue = ["setp.ne.u32 %p7, 0, 0;", *copies, "add.u32 %r16, %r12, 340;"]
    more = "[%r14], [%r15], " if scales else ""
    if scales:
        issue += ["add.u32 %r14, %r12, 256;", "add.u32 %r15, %r12, 300;"]
    issue.append(f"{form} [%r12], %d2, %d3, {'[%r16], ' if sparse else ''}%r1, {more}%p7;")
    commit = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [%r4];"
    if pair:
        commit = "mov.b16 %h0, 3; " + commit.replace(".b64 [%r4]", ".multicast::cluster.b64 [%r4], %h0")
    read = [
        "mul.lo.u32 %r20, %r6, 128; add.u32 %r20, %r20, %r2;",
        f"mul.wide.u32 %d7, %r20, {4 * columns}; add.u64 %d8, %d1, %d7;",
    ]
    for column in range(columns):
        read += [
            f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r21}}, [%r13+{column}];",
            "tcgen05.wait::ld.sync.aligned;",
            f"st.global.b32 [%d8+{4 * column}], %r21;",
        ]
    return TEXT.format(group=group, issue="\n".join(issue), commit=commit, read="\n".join(read))


def run(ptx, images, words, columns, schedule="late", seed=0):
    """(cells (blocks, lanes, columns) of D, the report); `images` are each block's bytes of shared memory."""
    blocks = len(images)
    image = np.zeros((blocks, SHARED), np.uint8)
    for number, parts in enumerate(images):
        for start, data in parts:
            image[number, start : start + data.size] = data.reshape(-1)
    out = np.zeros((blocks, 128, columns), np.uint32)
    arguments = [BufferArgument(image), BufferArgument(out)]
    arguments += [
        ScalarArgument(value.to_bytes(size, "little"))
        for value, size in zip((SHARED // 4, *words), (4, 8, 8, 4), strict=True)
    ]
    launch = Launch("k", Shape((blocks, 1, 1), (128, 1, 1), (blocks, 1, 1), SHARED), arguments)
    done = emulate(parse(ptx), launch, Options(schedule=schedule, seed=seed))
    return done.buffers[1], done.report
