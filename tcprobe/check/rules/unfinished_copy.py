"""Data of cp.async that are read before they are there.

Followed is what may be the case on some way from the kernel's begin: copies were issued, so many groups of them
committed, and no wait has ended any. What is read from shared memory then is there only if something else wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tcprobe.check.flow import at_each, forward
from tcprobe.check.program import Instruction, Kernel
from tcprobe.check.rule import Finding, Severity

NAME = "unfinished-copy"
SEVERITY: Severity = "error"
SAYS = "data of cp.async are read from shared memory before the wait that ends the copy"
MEND = "cp.async.wait_group of few enough groups, then a barrier, before the data are read"
EVIDENCE = (
    "PTX ISA, cp.async: the copy is complete for the executing thread when cp.async.wait_group or wait_all has waited "
    "for its group; for other threads, once they synchronise with it behind that.",
)
OTHER_WRITERS = ("STS", "STSM", "ATOMS", "UTMALDG", "UBLKCP", "STAS", "UTCCP")
MOST_GROUPS = 32


class Copies(NamedTuple):
    """What may be the case: no copy was issued yet (`fresh`); copies were and none has ended, with the fewest groups
    that were committed in that case (`waiting`), and the number of the last copy (`issued`). `other`: something else
    wrote shared memory.
    """

    fresh: bool = True
    waiting: int | None = None
    issued: int = -1
    other: bool = False


def reads_shared(instruction: Instruction) -> bool:
    """Whether it reads shared memory."""
    if instruction.guard == "never":
        return False
    if instruction.stem in ("LDS", "LDSM"):
        return True
    return instruction.stem.endswith("GMMA") and any(o.text.startswith("gdesc[UR") for o in instruction.operands)


def step(copies: Copies, instruction: Instruction) -> Copies:
    """What may be the case after an instruction."""
    stem = instruction.stem
    if stem == "LDGSTS" and instruction.guard != "never":
        waiting = 0 if copies.fresh else copies.waiting
        return Copies(copies.fresh and bool(instruction.guard), waiting, instruction.number, copies.other)
    if stem in OTHER_WRITERS:
        return copies._replace(other=True)
    if copies.waiting is None:
        return copies
    if stem == "LDGDEPBAR":
        return copies._replace(waiting=min(copies.waiting + 1, MOST_GROUPS))
    if ends_some(instruction, copies.waiting):
        return copies._replace(waiting=None)
    return copies


def ends_some(instruction: Instruction, committed: int) -> bool:
    """Whether a wait ends at least one of the groups; that for an mbarrier does where copies arrive at it."""
    if instruction.guard:
        return False
    if instruction.opcode.startswith("SYNCS.PHASECHK"):
        return True
    if not instruction.opcode.startswith("DEPBAR"):
        return False
    left = next((operand.value for operand in instruction.operands if operand.kind == "number"), 0)
    return committed > left


def joined(one: Copies, other: Copies) -> Copies:
    """What may be the case on either way."""
    waits = [each for each in (one, other) if each.waiting is not None]
    fewest = min(waits, key=lambda each: (each.waiting or 0, each.issued)) if waits else one
    issued = max(each.issued for each in (one, other))
    return Copies(one.fresh or other.fresh, fewest.waiting, issued, one.other or other.other)


def check(kernel: Kernel) -> Iterator[Finding]:
    """The first read on each way that comes before any wait has ended a copy."""
    if "LDGSTS" not in kernel.stems:
        return
    for instruction, copies in at_each(kernel, forward(kernel, Copies(), step, joined), step):
        if copies.waiting is not None and reads_shared(instruction) and not copies.other:
            copy = kernel.instructions[copies.issued]
            text = (
                f"{instruction.opcode} reads shared memory on a way where no wait has ended a copy of {copy.opcode}; "
                f"{MEND}"
            )
            yield Finding(NAME, SEVERITY, instruction.address, text, {"copy": copy.address})


_COPY = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out) .maxntid 128 {
  .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[2048];
  ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; cvt.u64.u32 %d2, %r1; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
  mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
  cp.async.cg.shared.global [%r3], [%d0], 16;
  cp.async.commit_group;
  <wait>bar.sync 0;
  xor.b32 %r1, %r1, 2032; add.u32 %r3, %r2, %r1;
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
  st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7};
  ret;
}"""
FAILS = _COPY.replace("<wait>", "")
PASSES = _COPY.replace("<wait>", "cp.async.wait_group 0; ")
