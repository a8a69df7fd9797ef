"""Counts of registers at which one block fewer fits an SM."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tcprobe.check.rule import Finding, Severity
from tcprobe.isa.arch import BY_NAME, WARP
from tcprobe.isa.occupancy import REGISTER_UNIT, Block, held, least
from tcprobe.sass.kernel import Kernel

NAME = "registers"
SEVERITY: Severity = "warning"
SAYS = "with a few registers fewer in each thread, one block more would fit an SM"
FIX = "ask for that many by .maxnreg or launch bounds and compare, or leave it where one block an SM is enough"
EVIDENCE = (
    "cuda_occupancy.h of CUDA 13.5 and the CUDA programming guide, technical specifications by compute capability: an "
    "SM's most blocks, threads, shared memory and barriers (isa/occupancy.csv), and its 65,536 registers.",
    "Registers are given to warps by 256: a thread's count is rounded up to 8; a warp's are in one of four "
    "sub-partitions (cuda_occupancy.h).",
    "Looked at are kernels whose file states the threads of a block, where at most three blocks fit an SM; shared "
    "memory that a launch adds is not seen.",
)
UNIT = REGISTER_UNIT // WARP  # registers of a thread
MOST_BLOCKS = 3  # with which one block more is a third more, or better


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for a kernel that is one unit of registers above a count with which another block fits.

    Nothing is said of archs for which nobody states how many threads an SM has.
    """
    code, arch = kernel.code, BY_NAME.get(kernel.arch)
    threads = prod(code.threads) if code.threads else code.most_threads
    if arch is None or not threads or not code.registers or code.parameters is None:
        return
    fits = held(arch.number, block := Block(threads, code.registers, code.shared, code.barriers))
    if fits["threads"] is None:
        return
    now, fewer = least(fits), (-(-code.registers // UNIT) - 1) * UNIT
    then = least(held(arch.number, block._replace(registers=fewer))) if fewer else now
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
