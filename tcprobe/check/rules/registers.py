"""Counts of registers at which one block fewer fits an SM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import NamedTuple

from tcprobe import facts
from tcprobe.check.rule import Finding, Severity
from tcprobe.isa.arch import ARCHS, WARP
from tcprobe.sass.kernel import Kernel

NAME = "registers"
SEVERITY: Severity = "warning"
SAYS = "with a few registers fewer in each thread, one block more would fit an SM"
FIX = "ask for that many by .maxnreg or launch bounds and compare, or leave it where one block an SM is enough"
EVIDENCE = (
    "CUDA programming guide, technical specifications by compute capability: 65,536 registers of an SM, its most "
    "blocks and threads (check/rules/registers.csv), its shared memory (isa/archs.csv).",
    "Registers are given to warps by 256: a thread's count is rounded up to 8 (CUDA occupancy calculator).",
    "Looked at are kernels whose file states the threads of a block, where at most three blocks fit an SM; shared "
    "memory that a launch adds is not seen.",
)
FILE = 65536  # registers of an SM
UNIT = 8  # registers of a thread
MOST_BLOCKS = 3  # with which one block more is a third more, or better
RESERVED, LEAST_RESERVING = (
    1024,
    80,
)  # bytes of shared memory that the system takes of each block, and from which arch on
ARCH_NUMBERS = {row.name: row for row in ARCHS}


class Limits(NamedTuple):
    """The threads and blocks that an SM of an arch holds at most."""

    arch: str
    threads: int
    blocks: int
    source: str


@cache
def limits() -> dict[str, Limits]:
    """By arch; of an arch that is not here nobody states them."""
    rows = facts.read(__file__, "registers.csv", Limits, threads=int, blocks=int)
    return {row.arch: row for row in rows}


def blocks(limit: Limits, threads: int, registers: int, shared: int) -> int:
    """How many blocks fit an SM."""
    warps = -(-threads // WARP)
    by_registers = FILE // (-(-registers // UNIT) * UNIT * WARP * warps)
    reserved = RESERVED if ARCH_NUMBERS[limit.arch].number >= LEAST_RESERVING else 0
    by_shared = ((ARCH_NUMBERS[limit.arch].shared_kib << 10) + reserved) // max(shared + reserved, 1)
    return min(limit.blocks, limit.threads // (warps * WARP), by_registers, by_shared)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for a kernel that is one unit of registers above a count with which another block fits."""
    code, limit = kernel.code, limits().get(kernel.arch)
    threads = prod(code.threads) if code.threads else code.most_threads
    if limit is None or not threads or not code.registers or code.parameters is None:
        return
    now = blocks(limit, threads, code.registers, code.shared)
    fewer = (-(-code.registers // UNIT) - 1) * UNIT
    then = blocks(limit, threads, fewer, code.shared) if fewer else now
    if MOST_BLOCKS >= now > 0 and then > now:
        numbers = {"registers": code.registers, "blocks": now, "fewer": fewer, "then": then, "threads": threads}
        text = (
            f"{code.registers} registers: {now} block{'s' * (now > 1)} of {threads} threads fit an SM, with {fewer} "
            f"registers {then} would; {FIX}"
        )
        yield Finding(NAME, SEVERITY, 0, text, numbers)


_TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry wide(.param .u64 out, .param .u32 rounds) .reqntid 256 .maxnreg {most} {{
.reg .b32 i, n, t, v<{live}>; .reg .b64 p; .reg .pred q;
ld.param.u64 p, [out];
ld.param.u32 n, [rounds];
mov.u32 t, %tid.x;
{made}
mov.u32 i, 0;
more:
{mixed}
add.u32 i, i, 1;
setp.lt.u32 q, i, n;
@q bra more;
{stored}
ret;
}}
"""


def _example(most: int) -> str:
    """A loop that keeps 80 values alive, each of which every round needs, in so many registers at most."""
    live = 80
    made = " ".join(f"mad.lo.u32 v{j}, t, {2 * j + 3}, {j};" for j in range(live))
    mixed = " ".join(f"mad.lo.u32 v{j}, v{j}, v{(j + 7) % live}, v{(j + 1) % live};" for j in range(live))
    stored = " ".join(f"st.global.b32 [p+{4 * j}], v{j};" for j in range(live))
    return _TEXT.format(live=live, made=made, mixed=mixed, stored=stored, most=most)


FAILS, PASSES = _example(88), _example(128)
