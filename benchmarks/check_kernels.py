"""PTX of kernels that break a rule of `tcprobe check`, and of the same kernels mended, for `checks.py`.

All have blocks of 128 threads that do the same, and the parameters A, B, D, steps. A is STAGES tiles of 64 x 64 bf16,
as shared memory is to have them, one a step by turns; B one tile of 64 x n.
"""

from __future__ import annotations

STAGES = 2
THREADS = 128
TILE = 8192  # bytes of A: 64 lines of 64 bf16
PLAIN = 128 >> 4 << 16 | 1024 >> 4 << 32  # 8 x 8 matrices of 128 bytes, the next one along k first, no swizzle
SWIZZLED = 1 << 16 | 1024 >> 4 << 32 | 1 << 62  # lines of 128 bytes, 8 of them 1,024 bytes on, SWIZZLE_128B
OVERLAPPING = 1 << 16 | 512 >> 4 << 32 | 1 << 62  # the same with 512 bytes, which no tile has
HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u32 steps)
.maxntid 128
{{
.reg .pred %p, %q;
.reg .b32 %r<64>;
.reg .b64 %rd<24>;
.reg .f32 %f<{sums}>;
.shared .align 1024 .b8 a[{a_bytes}];
.shared .align 1024 .b8 b[{b_bytes}];
ld.param.u64 %rd0, [pa];
ld.param.u64 %rd1, [pb];
ld.param.u64 %rd2, [pd];
ld.param.u32 %r0, [steps];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
shl.b32 %r3, %r1, 4;
cvt.u64.u32 %rd3, %r3;
add.u64 %rd0, %rd0, %rd3;
add.u64 %rd1, %rd1, %rd3;
mov.u32 %r4, a;
add.u32 %r5, %r4, %r3;
mov.u32 %r6, b;
add.u32 %r7, %r6, %r3;
mov.u32 %r8, 0;
"""
STEP = "sub.u32 %r0, %r0, 1;\nsetp.ne.u32 %p, %r0, 0;\n@%p bra STEP;"
ENDED = "wgmma.wait_group.sync.aligned 0;"
FENCE, BARRIER = "fence.proxy.async.shared::cta;", "bar.sync 0;"
WAIT = "cp.async.commit_group;\ncp.async.wait_group 0;"


def multiply(name: str, n: int, fill: str, fenced: bool, descriptor: int = PLAIN) -> str:
    """D (64 x n, n / 2 floats a thread) += A B a step; A comes into shared memory by st or cp.async, fenced or not."""
    d = [f"%f{i}" for i in range(n // 2)]
    lines = [
        HEAD.format(name=name, sums=len(d), a_bytes=TILE, b_bytes=128 * n),
        *(_copied("%rd1", "%r7", at) for at in range(0, 128 * n, 16 * THREADS)),
        FENCE,
        *(f"mov.f32 {register}, 0f00000000;" for register in d),
        _descriptor("%rd4", "%r4", descriptor),
        _descriptor("%rd5", "%r6", PLAIN),
        "STEP:\nmul.wide.u32 %rd6, %r8, 8192;\nadd.u64 %rd6, %rd0, %rd6;\nxor.b32 %r8, %r8, 1;",
        *(_filled(fill, "%rd6", "%r5", at) for at in range(0, TILE, 16 * THREADS)),
        *(WAIT for _ in range(fill == "cp.async")),
        *(FENCE for _ in range(fenced)),
        BARRIER,
        "wgmma.fence.sync.aligned;",
        *(_multiplied(n, d, k, 2 if descriptor != PLAIN else 16) for k in range(4)),
        "wgmma.commit_group.sync.aligned;",
        ENDED,
        BARRIER,
        STEP,
        _place(4 * len(d)),
        *(f"st.global.f32 [%rd10+{4 * i}], {register};" for i, register in enumerate(d)),
        "ret;\n}\n",
    ]
    return "\n".join(lines)


def refill(name: str, n: int, fill: str) -> str:
    """The same, but all multiplies are waited for behind the last step: each step fills A while they may read it."""
    rest = f"{BARRIER}\n{STEP}\n"
    right = multiply(name, n, fill, True)
    return right.replace(f"{ENDED}\n{rest}", f"{rest}{ENDED}\n")


def copy_out(name: str, fenced: bool) -> str:
    """A of each step through shared memory to D, by st and then a bulk copy; D is steps x TILE bytes a block."""
    lines = [
        HEAD.format(name=name, sums=1, a_bytes=TILE, b_bytes=16),
        "mul.wide.u32 %rd7, %r0, 8192;\ncvt.u64.u32 %rd8, %r2;\nmad.lo.u64 %rd9, %rd7, %rd8, %rd2;",
        "setp.eq.u32 %q, %r1, 0;",
        "STEP:\nmul.wide.u32 %rd6, %r8, 8192;\nadd.u64 %rd6, %rd0, %rd6;\nxor.b32 %r8, %r8, 1;",
        *(_filled("st", "%rd6", "%r5", at) for at in range(0, TILE, 16 * THREADS)),
        *(FENCE for _ in range(fenced)),
        BARRIER,
        "@!%q bra COPIED;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd9], [%r4], 8192;",
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;",
        "COPIED:",
        BARRIER,
        "add.u64 %rd9, %rd9, 8192;",
        STEP,
        "cp.async.bulk.wait_group 0;\nret;\n}\n",
    ]
    return "\n".join(lines)


def copy_in(name: str, waits: bool) -> str:
    """A of each step by cp.async, read by other threads: D has steps x 16 bytes a thread, block after block."""
    lines = [
        HEAD.format(name=name, sums=1, a_bytes=TILE, b_bytes=16),
        "xor.b32 %r9, %r3, 1008;\nadd.u32 %r9, %r9, %r4;",  # another thread's 16 bytes, of another warp
        "mul.wide.u32 %rd7, %r0, 2048;\ncvt.u64.u32 %rd8, %r2;\nmad.lo.u64 %rd9, %rd7, %rd8, %rd2;",
        "add.u64 %rd9, %rd9, %rd3;",
        "STEP:\nmul.wide.u32 %rd6, %r8, 8192;\nadd.u64 %rd6, %rd0, %rd6;\nxor.b32 %r8, %r8, 1;",
        "cp.async.cg.shared.global [%r5], [%rd6], 16;",
        *(WAIT for _ in range(waits)),
        BARRIER,
        "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r9];",
        "st.global.v4.u32 [%rd9], {%r10, %r11, %r12, %r13};",
        "cp.async.wait_all;",
        BARRIER,
        "add.u64 %rd9, %rd9, 2048;",
        STEP,
        "ret;\n}\n",
    ]
    return "\n".join(lines)


def half_warp(name: str, whole: bool) -> str:
    """ldmatrix.x4 of A by all lanes, or by the lower half of each warp; D has steps x 16 bytes a thread."""
    lines = [
        HEAD.format(name=name, sums=1, a_bytes=TILE, b_bytes=16),
        *(_copied("%rd0", "%r5", at) for at in range(0, TILE, 16 * THREADS)),
        BARRIER,
        "and.b32 %r14, %r1, 31;\nsetp.lt.u32 %q, %r14, 16;",
        "mul.wide.u32 %rd7, %r0, 2048;\ncvt.u64.u32 %rd8, %r2;\nmad.lo.u64 %rd9, %rd7, %rd8, %rd2;",
        "add.u64 %rd9, %rd9, %rd3;",
        "STEP:",
        *("@!%q bra LEFT;" for _ in range(not whole)),
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];",
        *("@!%q bra LEFT;" for _ in range(whole)),
        "st.global.v4.u32 [%rd9], {%r10, %r11, %r12, %r13};",
        "LEFT:",
        "add.u64 %rd9, %rd9, 2048;",
        STEP,
        "ret;\n}\n",
    ]
    return "\n".join(lines)


def _filled(fill: str, source: str, to: str, at: int) -> str:
    if fill == "cp.async":
        return f"cp.async.cg.shared.global [{to}+{at}], [{source}+{at}], 16;"
    return _copied(source, to, at)


def _copied(source: str, to: str, at: int) -> str:
    """16 bytes of a thread from global to shared memory, by registers."""
    words = "{%r20, %r21, %r22, %r23}"
    return f"ld.global.v4.u32 {words}, [{source}+{at}];\nst.shared.v4.u32 [{to}+{at}], {words};"


def _descriptor(to: str, address: str, bits: int) -> str:
    return (
        f"shr.u32 %r30, {address}, 4;\nand.b32 %r30, %r30, 16383;\ncvt.u64.u32 {to}, %r30;\nor.b64 {to}, {to}, {bits};"
    )


def _multiplied(n: int, d: list[str], k: int, along: int) -> str:
    """One multiply of 16 of k; `along`: the descriptor's units of 16 bytes from one to the next."""
    sums = ", ".join(d)
    return (
        f"add.u64 %rd14, %rd4, {along * k};\nadd.u64 %rd15, %rd5, {16 * k};\n"
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, %rd14, %rd15, 1, 1, 1, 0, 0;"
    )


def _place(each: int) -> str:
    """%rd10: D of this thread, `each` bytes."""
    return f"mad.lo.u32 %r31, %r2, 128, %r1;\nmul.wide.u32 %rd10, %r31, {each};\nadd.u64 %rd10, %rd2, %rd10;"
