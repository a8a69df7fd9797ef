"""Instructions that a whole warp executes, where only some of its lanes do.

Followed are the lanes that may be at an instruction (`addresses`): by what of a branch or a guard follows from the
number of the thread. Where lanes part by what is not known, whether it differs between them decides. A guard that is
known decides by itself, wherever the instruction is. Lanes that have ended take no part: those of an exit before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.graph import reached
from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Bools
from tcprobe.sass.addresses import WHOLE_WARP, DivergentBranch, Present, divergent_branches, exits, present
from tcprobe.sass.kernel import Instruction, Kernel

NAME = "partial-warp"
SEVERITY: Severity = "error"
SAYS = "an instruction that a whole warp executes is reached by some of its lanes"
FIX = "move it out of the condition, or make the condition the same for all lanes of a warp"
EVIDENCE = (
    "PTX ISA, mma, ldmatrix, stmatrix and wgmma with .aligned: all threads of the warp execute the same instruction; "
    "under a condition only where all of them evaluate it alike. Otherwise the behaviour is undefined.",
    "Measured on an H200 (docs/checks_h200.json): ldmatrix.x4 by the lower half of each warp, all 4,325,376 "
    "words of those lanes wrong; by whole warps 0.",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each instruction that some lanes of a warp reach alone; one note for each branch in doubt."""
    if kernel.mnemonics.isdisjoint(WHOLE_WARP) or not kernel.blocks:
        return
    ways = Ways(divergent_branches(kernel), tuple((known, behind(kernel, i)) for i, known in exits(kernel)))
    said = set[str]()
    for number, lanes in sorted(present(kernel).items()):
        instruction, block = kernel.instructions[number], kernel.block_of[number]
        lacking = first_lacking(kernel, ways, instruction, lanes)
        alone = [lane for lane in lacking if lane is not None]
        if alone and len(alone) == len(lacking):
            text = f"{instruction.opcode} is executed by some lanes of a warp alone; {FIX}"
            yield Finding(NAME, SEVERITY, instruction.address, text, {"lane": alone[0]})
            continue
        what, reason = "shape", f"whether a block is so wide that whole warps execute {instruction.opcode}"
        if not alone:
            what, reason, ways = in_doubt(instruction, ways, block, lanes)
        if reason and what not in said:
            said |= {what} if what else set()
            yield undecided(NAME, instruction, reason)


class Ways(NamedTuple):
    """The branches on which lanes of a warp part, and the exits at which some may end: which do, and what is behind."""

    divergent_branches: tuple[DivergentBranch, ...]
    exits: tuple[tuple[Bools | None, frozenset[int]], ...]


def first_lacking(kernel: Kernel, ways: Ways, instruction: Instruction, lanes: Present) -> list[int | None]:
    """As `first_alone`, of an instruction: by all that is known, or by a branch, an exit, its guard."""
    block = kernel.block_of[instruction.number]
    around = [each for each in ways.divergent_branches if block in each.region]
    found = first_alone(lanes.active, lanes) if lanes.sure else by_known(kernel, around, block, lanes)
    ended = [known for known, after in ways.exits if known is not None and instruction.number in after]
    others = [~known for known in ended] + ([lanes.guarded] if lanes.guarded is not None else [])
    return found or next((alone for each in others if (alone := first_alone(each, lanes))), [])


def in_doubt(instruction: Instruction, ways: Ways, block: int, lanes: Present) -> tuple[str, str, Ways]:
    """(what is said once, why it is not known whether a whole warp executes an instruction, "" if it is, what is left
    to say)."""
    if lanes.guarded is None:
        reason = f"whether lanes of a warp differ on the guard of {instruction.opcode}, on what they load"
        return instruction.guard, reason, ways
    if lanes.sure:
        return "", "", ways
    unknown = [each for each in ways.divergent_branches if block in each.region and each.known is None]
    if unknown:
        reason = f"whether lanes of a warp differ on the branch before {instruction.opcode}, on what they load"
        return (
            "",
            reason,
            ways._replace(divergent_branches=tuple(each for each in ways.divergent_branches if each not in unknown)),
        )
    ended = [after for known, after in ways.exits if known is None and instruction.number in after]
    reason = f"whether some lanes of a warp end at an EXIT before {instruction.opcode}, on what is not known"
    left = tuple((known, after) for known, after in ways.exits if known is not None or after not in ended)
    return "", reason if ended else "", ways._replace(exits=left)


def behind(kernel: Kernel, start: Instruction) -> frozenset[int]:
    """The instructions that are reached from one."""
    own = kernel.block_of[start.number]
    blocks = reached([block.after for block in kernel.blocks], kernel.blocks[own].after)
    return frozenset(
        number
        for number, block in kernel.block_of.items()
        if block in blocks or (block == own and number > start.number)
    )


def first_alone(active: Bools, lanes: Present) -> list[int | None]:
    """By shape of the block the first lane that is missing from a warp of which others are there, None where all or
    none are; empty if it is None of every shape."""
    active, there = np.broadcast_arrays(active, lanes.there)
    return list(_first_alone(active.tobytes(), there.tobytes(), lanes.shapes))


@lru_cache(maxsize=1 << 8)
def _first_alone(active: bytes, there: bytes, shapes: tuple[int, ...]) -> tuple[int | None, ...]:
    found = dict[int, int | None].fromkeys(shapes)
    rows, threads = (np.frombuffer(lanes, np.bool_).reshape(-1, WARP) for lanes in (active, there))
    for row, of, shape in zip(rows, threads, shapes, strict=True):
        if found[shape] is None and (row & of).any() and (of & ~row).any():
            found[shape] = int(np.flatnonzero(of & ~row)[0])
    return () if all(lane is None for lane in found.values()) else tuple(found.values())


def by_known(kernel: Kernel, around: list[DivergentBranch], block: int, lanes: Present) -> list[int | None]:
    """As `first_alone`, by the branches around it that are known: of each the lanes of the one way that leads
    there."""
    for divergent in around:
        if divergent.known is not None and divergent.branch.mnemonic == "BRA":
            through, to = kernel.blocks[kernel.block_of[divergent.branch.number]].after
            ways = [leads(kernel, way, block, divergent.region) for way in (through, to)]
            if ways.count(True) == 1:
                found = first_alone(divergent.known if ways[1] else ~divergent.known, lanes)
                if found:
                    return found
    return []


def leads(kernel: Kernel, start: int, block: int, region: frozenset[int]) -> bool:
    """Whether a block is reached from another inside a region."""
    outside = set(range(len(kernel.blocks))) - region - {block}
    return block in reached([one.after for one in kernel.blocks], [start], outside)


_LOAD = """.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 out) .maxntid 128 {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %d<4>;
  .shared .align 16 .b8 tile[2048];
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;
  st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};
  bar.sync 0;
  and.b32 %r3, %r0, 31; setp.ge.u32 %p, <part>, 16;
  @%p bra DONE;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];
  cvt.u64.u32 %d1, %r1; add.u64 %d2, %d0, %d1; st.global.v4.u32 [%d2], {%r4, %r5, %r6, %r7};
DONE:
  ret;
}"""
FAILS = _LOAD.replace("<part>", "%r3")
PASSES = _LOAD.replace("<part>, 16", "%r0, 64")
