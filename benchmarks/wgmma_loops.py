"""Legal loops whose wgmma has A in registers: PTX of m64nNk16, from 1 to 6 multiplies a group.

A step loads A from shared memory into registers of its own while the group of the step before runs, waits for that
group, copies them into the registers that the multiplies read, and multiplies by B, which stays in shared memory. PTX
allows that: what a group reads is not touched before its wait. ptxas 12.9 and 13.0 give both the same machine
registers.
"""

from __future__ import annotations

K = 16  # of one multiply, in elements of bf16
SIZES = tuple(range(8, 257, 8))  # n
MOST_EACH = 6  # multiplies a group
STAGES = 2  # of A in shared memory
PART = 2048  # bytes of A of one multiply: 16 for each of 128 threads


def loop(n: int, each: int, name: str = "loop", early: bool = True, unrolled: bool = True) -> str:
    """PTX for blocks of 128 threads: D (64 x n) += A B, in `steps` steps of `each` multiplies, stage after stage of A.

    Parameters: A's registers, STAGES x each x 128 threads x 16 bytes; B as shared memory has it, 32 n bytes: 8 x 8
    matrices of 128 bytes, the next one along k first; D, n / 2 floats a thread, block after block; and the number of
    steps. All blocks do the same. Without `early`, A is loaded behind the wait, which every ptxas keeps. ptxas
    unrolls the loop by four unless it is told not to; then every step is the one that it gets wrong.
    """
    part, b_bytes = PART * each, 2 * K * n
    d = [f"%f{i}" for i in range(n // 2)]
    sums = ", ".join(d)
    lines = [
        ".version 8.0",
        ".target sm_90a",
        ".address_size 64",
        f".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u32 steps)",
        ".maxntid 128",
        "{",
        ".reg .pred %p;",
        f".reg .b32 %r<16>, %a<{4 * each}>, %n<{4 * each}>;",
        f".reg .b64 %rd<16>;\n.reg .f32 %f<{len(d)}>;",
        f".shared .align 128 .b8 factors[{STAGES * part}];",
        f".shared .align 128 .b8 tile[{b_bytes}];",
        "ld.param.u64 %rd0, [pa];\nld.param.u64 %rd1, [pb];\nld.param.u64 %rd2, [pd];\nld.param.u32 %r0, [steps];",
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nshl.b32 %r3, %r1, 4;",
        *_copy("factors", "%rd0", STAGES * part),
        *_copy("tile", "%rd1", b_bytes),
        "fence.proxy.async.shared::cta;\nbar.sync 0;",
        "mov.u32 %r4, tile;\nshr.u32 %r4, %r4, 4;\ncvt.u64.u32 %rd3, %r4;",
        f"or.b64 %rd3, %rd3, {128 >> 4 << 16 | 256 >> 4 << 32};",  # LBO along k, SBO along n, no swizzle
        "mov.u32 %r5, factors;\nadd.u32 %r5, %r5, %r3;\nmov.u32 %r6, 0;",
        *(f"mov.f32 {register}, 0f00000000;" for register in d),
        "LOOP:",
        *('.pragma "nounroll";' for _ in range(not unrolled)),
        f"mad.lo.u32 %r7, %r6, {part}, %r5;\nxor.b32 %r6, %r6, 1;",
        *("wgmma.wait_group.sync.aligned 0;" for _ in range(not early)),
        *_load("%n", "%r7", each),
        *("wgmma.wait_group.sync.aligned 0;" for _ in range(early)),
        *(f"mov.b32 %a{i}, %n{i};" for i in range(4 * each)),
        "wgmma.fence.sync.aligned;",
        *(
            f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, {{{_quad('%a', j)}}}, %rd3, 1, 1, 1, 0;"
            for j in range(each)
        ),
        "wgmma.commit_group.sync.aligned;",
        "sub.u32 %r0, %r0, 1;\nsetp.ne.u32 %p, %r0, 0;\n@%p bra LOOP;\nwgmma.wait_group.sync.aligned 0;",
        f"mad.lo.u32 %r8, %r2, 128, %r1;\nmul.wide.u32 %rd4, %r8, {4 * len(d)};\nadd.u64 %rd4, %rd2, %rd4;",
        *(f"st.global.f32 [%rd4+{4 * i}], {register};" for i, register in enumerate(d)),
        "ret;\n}\n",
    ]
    return "\n".join(lines)


def _quad(prefix: str, j: int) -> str:
    return ", ".join(f"{prefix}{4 * j + i}" for i in range(4))


def _load(prefix: str, address: str, each: int) -> list[str]:
    """A's registers of a step, of each multiply."""
    return [f"ld.shared.v4.u32 {{{_quad(prefix, j)}}}, [{address}+{PART * j}];" for j in range(each)]


def _copy(array: str, source: str, size: int) -> list[str]:
    """Global memory to an array in shared memory, 16 bytes a thread at a time."""
    label = array.upper()
    return [
        f"mov.u32 %r9, %r3;\n{label}:\nsetp.ge.u32 %p, %r9, {size};\n@%p bra {label}_THERE;",
        f"cvt.u64.u32 %rd5, %r9;\nadd.u64 %rd6, {source}, %rd5;\nld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd6];",
        f"mov.u32 %r14, {array};\nadd.u32 %r14, %r14, %r9;\nst.shared.v4.u32 [%r14], {{%r10, %r11, %r12, %r13}};",
        f"add.u32 %r9, %r9, {PART};\nbra {label};\n{label}_THERE:",
    ]
