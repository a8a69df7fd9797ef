"""Data of cp.async that are read before they are there.

Followed is what may be the case on some way from the kernel's begin: copies were issued, so many groups of them
committed, and no wait has ended any. What is read from shared memory then is there only if something else wrote it.
A loop that commits and does not wait may commit any number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
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
    """What may be the case while no wait has ended a group, each with the fewest groups that were committed since the
    kernel's begin, else None: no copy was issued yet (`fresh`); copies were (`waiting`), `issued` the last of them.
    `other`: something else wrote shared memory.
    """

    fresh: int | None = 0
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


def step(filling: frozenset[int], copies: Copies, instruction: Instruction) -> Copies:
    """What may be the case after an instruction; `filling` has the commits of loops that do not wait."""
    stem = instruction.stem
    if stem == "LDGSTS" and instruction.guard != "never":
        fresh = copies.fresh if instruction.guard else None
        return Copies(fresh, fewest(copies.fresh, copies.waiting), instruction.number, copies.other)
    if stem in OTHER_WRITERS:
        return copies._replace(other=True)
    if stem == "LDGDEPBAR":
        more = MOST_GROUPS if instruction.number in filling else 1
        return copies._replace(fresh=_committed(copies.fresh, more), waiting=_committed(copies.waiting, more))
    if not instruction.guard and (stem == "DEPBAR" or instruction.opcode.startswith("SYNCS.PHASECHK")):
        # a wait for an mbarrier may be the one at which copies arrive
        left = next((operand.value for operand in instruction.operands if operand.kind == "number"), 0)
        left = left if stem == "DEPBAR" else -1
        return copies._replace(fresh=_not_ended(copies.fresh, left), waiting=_not_ended(copies.waiting, left))
    return copies


def commits_of_loops(kernel: Kernel) -> frozenset[int]:
    """The commits in loops that have no wait."""
    found = set[int]()
    for loop in kernel.loops:
        inside = [
            kernel.instructions[number]
            for block in loop
            for number in range(kernel.blocks[block].first, kernel.blocks[block].end)
        ]
        if not any(i.stem == "DEPBAR" or i.opcode.startswith("SYNCS.PHASECHK") for i in inside):
            found |= {i.number for i in inside if i.stem == "LDGDEPBAR"}
    return frozenset(found)


def _committed(groups: int | None, more: int) -> int | None:
    return None if groups is None else min(groups + more, MOST_GROUPS)


def _not_ended(groups: int | None, left: int) -> int | None:
    """The groups, if a wait for at most `left` of them ends none."""
    return groups if groups is not None and groups <= left else None


def fewest(one: int | None, other: int | None) -> int | None:
    """The smaller of those that there are."""
    return min((each for each in (one, other) if each is not None), default=None)


def joined(one: Copies, other: Copies) -> Copies:
    """What may be the case on either way."""
    return Copies(
        fewest(one.fresh, other.fresh),
        fewest(one.waiting, other.waiting),
        max(one.issued, other.issued),
        one.other or other.other,
    )


def check(kernel: Kernel) -> Iterator[Finding]:
    """The first read on each way that comes before any wait has ended a copy."""
    if "LDGSTS" not in kernel.stems:
        return
    follow = partial(step, commits_of_loops(kernel))
    for instruction, copies in at_each(kernel, forward(kernel, Copies(), follow, joined), follow):
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
