"""Synthetic loops from a seed, as PTX: mixes of multiplies, moves, arithmetic and barriers, 1 to 8 warps.

A loop has accumulators of its own for each kind of instruction, so that nothing in it can be left out; addresses in
shared memory change from round to round, so that nothing can be moved out of it. ptxas decides the rest: what is
predicted is read back from its machine code. Each warp writes SM clocks before and behind the loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

FLOATS, INTEGERS, HALVES, CHAINS = 12, 12, 6, 8
WORDS = (("i", INTEGERS), ("h", HALVES), ("a", 32), ("d", 4 * CHAINS))  # registers by name
SINGLES = (("f", FLOATS), ("c", 4 * CHAINS))
SHARED = 32768  # bytes; reads in the lower half, writes in the upper
KINDS = {
    "ffma": 6,
    "fadd": 3,
    "fmul": 3,
    "fmnmx": 2,
    "imad": 3,
    "iadd": 4,
    "lop": 4,
    "shf": 3,
    "prmt": 2,
    "select": 2,
    "wide": 1,
    "mufu": 3,
    "pack": 2,
    "hfma": 2,
    "shfl": 1,
    "lds": 3,
    "lds64": 2,
    "lds128": 2,
    "ldsm": 4,
    "sts": 2,
    "sts128": 1,
    "copy": 2,
    "hmma": 8,
    "imma": 2,
    "tf32": 1,
}


class Text(NamedTuple):
    """A loop's PTX, and how many warps its block has."""

    name: str
    ptx: str
    warps: int


class Body:
    """Instructions of a round, each with registers from small pools."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines = rng, list[str]()
        self.at = 0

    def f(self) -> str:
        """A float."""
        return f"%f{self.rng.randrange(FLOATS)}"

    def i(self) -> str:
        """An integer."""
        return f"%i{self.rng.randrange(INTEGERS)}"

    def h(self) -> str:
        """Two halves."""
        return f"%h{self.rng.randrange(HALVES)}"

    def place(self, size: int) -> int:
        """A place of a thread's data that no other access of the round has."""
        self.at = (self.at + 1) % 28
        return 512 * self.at

    def add(self, kind: str) -> None:
        """An instruction of a kind."""
        self.lines += MAKERS[kind](self)


def _shared(size: int, store: bool) -> Callable[[Body], list[str]]:
    count, width = size // 4, {4: "b32", 8: "v2.b32", 16: "v4.b32"}[size]

    def make(body: Body) -> list[str]:
        values = [body.i() for _ in range(count)]
        pack = values[0] if count == 1 else "{" + ", ".join(dict.fromkeys(values) if not store else values) + "}"
        if not store and count > 1:
            values = [f"%i{(int(values[0][2:]) + j) % INTEGERS}" for j in range(count)]
            pack = "{" + ", ".join(values) + "}"
        base = {4: "%by4", 8: "%by8", 16: "%by16"}[size]
        if store:
            return [f"st.volatile.shared.{width} [{base}+{16384 + body.place(size) // 16 * 16}], {pack};"]
        return [f"ld.volatile.shared.{width} {pack}, [{base}+{body.place(size) // 16 * 16}];"]

    return make


def _multiply(name: str, a: int, c: str, kind: str) -> Callable[[Body], list[str]]:
    def make(body: Body) -> list[str]:
        chain = body.rng.randrange(CHAINS)
        d = ", ".join(f"%{c}{4 * chain + j}" for j in range(4))
        first = body.rng.randrange(4)
        left = ", ".join(f"%a{4 * first + j}" for j in range(a))
        right = ", ".join(f"%a{(2 * body.rng.randrange(8) + 16)}" if j == 0 else "" for j in range(1))
        number = int(right[2:])
        return [f"mma.sync.aligned.{name} {{{d}}}, {{{left}}}, {{%a{number}, %a{number + 1}}}, {{{d}}};"]

    return make


def _matrix(body: Body) -> list[str]:
    first = 4 * body.rng.randrange(8)
    to = ", ".join(f"%a{first + j}" for j in range(4))
    return [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{to}}}, [%by16+{body.place(16)}];"]


MAKERS: dict[str, Callable[[Body], list[str]]] = {
    "ffma": lambda b: [f"fma.rn.f32 {(d := b.f())}, {b.f()}, {b.f()}, {d};"],
    "fadd": lambda b: [f"add.f32 {(d := b.f())}, {d}, {b.f()};"],
    "fmul": lambda b: [f"mul.f32 {(d := b.f())}, {d}, {b.f()};"],
    "fmnmx": lambda b: [f"max.f32 {(d := b.f())}, {d}, {b.f()};"],
    "imad": lambda b: [f"mad.lo.u32 {(d := b.i())}, {b.i()}, {b.i()}, {d};"],
    "iadd": lambda b: [f"add.u32 {(d := b.i())}, {d}, {b.i()};"],
    "lop": lambda b: [f"lop3.b32 {(d := b.i())}, {d}, {b.i()}, {b.i()}, {b.rng.choice(('0x96', '0xe8', '0x6a'))};"],
    "shf": lambda b: [f"shf.l.wrap.b32 {(d := b.i())}, {d}, {b.i()}, {b.rng.randrange(1, 31)};"],
    "prmt": lambda b: [f"prmt.b32 {(d := b.i())}, {d}, {b.i()}, {b.rng.choice(('0x5410', '0x7632', '0x6240'))};"],
    "select": lambda b: [f"setp.lt.u32 %q, {b.i()}, {b.i()};", f"selp.b32 {(d := b.i())}, {d}, {b.i()}, %q;"],
    "wide": lambda b: [f"mad.wide.u32 %w{(d := b.rng.randrange(2))}, {b.i()}, {b.i()}, %w{d};"],
    "mufu": lambda b: [f"{b.rng.choice(('ex2', 'rcp', 'rsqrt', 'lg2'))}.approx.ftz.f32 {(d := b.f())}, {d};"],
    "pack": lambda b: [f"cvt.rn.bf16x2.f32 {b.h()}, {b.f()}, {b.f()};", f"xor.b32 {(d := b.i())}, {d}, {b.h()};"],
    "hfma": lambda b: [f"fma.rn.bf16x2 {(d := b.h())}, {b.h()}, {b.h()}, {d};"],
    "shfl": lambda b: [f"shfl.sync.bfly.b32 {(d := b.i())}, {d}, {b.rng.choice((1, 2, 4))}, 31, -1;"],
    "lds": _shared(4, False),
    "lds64": _shared(8, False),
    "lds128": _shared(16, False),
    "sts": _shared(4, True),
    "sts128": _shared(16, True),
    "ldsm": _matrix,
    "copy": lambda b: [f"cp.async.cg.shared.global [%by16+{16384 + b.place(16)}], [%from+{b.place(16)}], 16;"],
    "hmma": _multiply("m16n8k16.row.col.f32.bf16.bf16.f32", 4, "c", "f32"),
    "tf32": _multiply("m16n8k8.row.col.f32.tf32.tf32.f32", 4, "c", "f32"),
    "imma": _multiply("m16n8k32.row.col.s32.s8.s8.s32", 4, "d", "s32"),
}


def text(seed: int) -> Text:
    """The loop of a seed."""
    rng = random.Random(seed)
    warps, body = rng.choice((1, 1, 2, 4, 4, 4, 8, 8)), Body(rng)
    names = [*KINDS]
    kinds = rng.choices(names, [KINDS[name] for name in names], k=rng.randrange(1, 6))
    weights = [rng.randrange(1, 9) for _ in kinds]
    chosen = rng.choices(kinds, weights, k=rng.choice((16, 24, 32, 48, 64, 96, 128)))
    if rng.random() < 0.4:  # in groups, as compilers leave them
        chosen = sorted(chosen)
    meets = rng.random() < 0.35
    for kind in chosen:
        body.add(kind)
    if "copy" in chosen:
        body.lines += ["cp.async.commit_group;", f"cp.async.wait_group {rng.randrange(1, 3)};"]
    if meets:
        body.lines.append("bar.sync 0;")
    return Text(f"loop_{seed}", "\n".join(_kernel(f"loop_{seed}", warps, body.lines)) + "\n", warps)


def _kernel(name: str, warps: int, lines: list[str]) -> Iterator[str]:
    yield from (".version 8.0", ".target sm_90", ".address_size 64")
    yield f".visible .entry {name}(.param .u64 out, .param .u64 in, .param .u32 rounds) .reqntid {32 * warps}"
    yield "{"
    yield ".reg .pred %p, %q;\n.reg .b64 %out, %from, %mine, %t0, %t1, %w<2>;"
    yield f".reg .f32 %f<{FLOATS}>, %c<{4 * CHAINS}>;"
    yield f".reg .b32 %i<{INTEGERS}>, %h<{HALVES}>, %a<32>, %d<{4 * CHAINS}>;"
    yield ".reg .b32 %me, %n, %by4, %by8, %by16, %turn, %x;"
    yield f".shared .align 1024 .b8 tile[{SHARED + 8192}];"
    yield "ld.param.u64 %out, [out];\nld.param.u64 %from, [in];\nld.param.u32 %n, [rounds];\nmov.u32 %me, %tid.x;"
    yield "and.b32 %x, %me, 31;\nmov.u32 %by4, tile;\nmad.lo.u32 %by16, %x, 16, %by4;\nmad.lo.u32 %by8, %x, 8, %by4;"
    yield "mad.lo.u32 %by4, %x, 4, %by4;\nmul.wide.u32 %mine, %me, 16;\nadd.u64 %from, %from, %mine;"
    for pool, count in WORDS:
        yield from (f"mad.lo.u32 %{pool}{j}, %me, {2 * j + 3}, %n;" for j in range(count))
    for pool, count in SINGLES:
        yield from (f"cvt.rn.f32.u32 %{pool}{j}, %i{j % INTEGERS};" for j in range(count))
    yield "mov.u64 %w0, %out;\nmov.u64 %w1, %from;\nmov.u32 %turn, 16;"
    yield "bar.sync 0;\nmov.u64 %t0, %clock64;"
    yield 'LOOP:\n.pragma "nounroll";'
    yield from lines
    yield "add.u32 %by4, %by4, %turn;\nadd.u32 %by8, %by8, %turn;\nadd.u32 %by16, %by16, %turn;\nneg.s32 %turn, %turn;"
    yield "sub.u32 %n, %n, 1;\nsetp.ne.u32 %p, %n, 0;\n@%p bra LOOP;"
    yield "mov.u64 %t1, %clock64;"
    yield "shr.u32 %x, %me, 5;\nmul.wide.u32 %mine, %x, 16;\nadd.u64 %mine, %mine, %out;"
    yield "st.global.u64 [%mine], %t0;\nst.global.u64 [%mine+8], %t1;"
    yield "mov.b32 %x, %h0;"
    for pool, count in WORDS:
        yield from (f"xor.b32 %x, %x, %{pool}{j};" for j in range(count))
    for pool, count in SINGLES:
        yield from (f"mov.b32 %i0, %{pool}{j};\nxor.b32 %x, %x, %i0;" for j in range(count))
    yield from (f"cvt.u32.u64 %i0, %w{j};\nxor.b32 %x, %x, %i0;" for j in range(2))
    yield "mul.wide.u32 %mine, %me, 4;\nadd.u64 %mine, %mine, %out;\nst.global.u32 [%mine+1024], %x;"
    yield "ret;\n}"


def warpgroup(seed: int) -> Text:
    """A loop of wgmma of a seed: factors in shared memory, other work beside them."""
    rng = random.Random(seed)
    n, each, groups = rng.choice((64, 96, 128, 128, 192, 256)), rng.choice((1, 2, 4, 4)), rng.choice((1, 1, 2))
    n = min(n, 128) if groups == 2 else n
    body = Body(rng)
    kinds = rng.choices(("ffma", "lds", "iadd", "lop", "ldsm", "mufu", "sts"), k=2)
    for kind in rng.choices(kinds, k=rng.choice((0, 8, 16, 32))):
        body.add(kind)
    sums = ", ".join(f"%g{j}" for j in range(n // 2))
    lines = ["wgmma.fence.sync.aligned;"]
    for j in range(each):
        lines += [
            f"add.u64 %w0, %desc, {2 * j};\nadd.u64 %w1, %desc, {256 + 2 * j};",
            f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, %w0, %w1, 1, 1, 1, 0, 0;",
        ]
    lines += [
        "wgmma.commit_group.sync.aligned;",
        *body.lines,
        f"wgmma.wait_group.sync.aligned {rng.choice((0, 0, 1))};",
    ]
    name = f"warpgroup_{seed}"
    kernel = [
        line.replace(".target sm_90", ".target sm_90a")
        .replace("%t1, %w<2>;", f"%t1, %desc, %w<2>;\n.reg .f32 %g<{n // 2}>;")
        .replace(
            "mov.u32 %turn, 16;",
            "mov.u32 %turn, 16;\nmov.u32 %x, tile;\nshr.u32 %x, %x, 4;\ncvt.u64.u32 %desc, %x;\n"
            "or.b64 %desc, %desc, 0x4000004000010000;\n"
            + "\n".join(f"mov.f32 %g{j}, 0f00000000;" for j in range(n // 2)),
        )
        .replace(
            "mov.b32 %x, %h0;", "\n".join(["mov.b32 %x, %h0;", *(f"add.f32 %f0, %f0, %g{j};" for j in range(n // 2))])
        )
        for line in _kernel(name, 4 * groups, lines)
    ]
    return Text(name, "\n".join(kernel) + "\n", 4 * groups)
