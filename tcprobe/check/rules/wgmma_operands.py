"""Registers of a wgmma that are touched while it runs.

Followed are the multiplies that run: of each how many groups were committed since it was issued, its own among them
(0: not committed yet). A wait for at most n groups ends those of more than n. Where ways meet, a multiply runs if it
does on one of them, and the fewest commits count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from tcprobe.check.rule import Finding, Severity
from tcprobe.sass.decode import Form
from tcprobe.sass.flow import Graph, at_each, forward
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.registers import UNIFORM
from tcprobe.sass.widths import group_shape

NAME = "wgmma-operands"
SEVERITY: Severity = "error"
SAYS = "a register of A or D of a wgmma is written, or one of D read, before the wait that ends its group"
FIX = "assemble with ptxas 13.3 or later; by hand: move what touches the register behind the wait"
EVIDENCE = (
    "PTX ISA, wgmma.mma_async: accessing the registers of D or A before wgmma.wait_group has waited for the group is "
    "undefined, except D as accumulator of a following wgmma of the same shape.",
    "Of 15 versions, ptxas 12.0.140 to 13.2.86 do it to legal PTX (docs/check.md); 13.3.73, 13.4.92, 13.5.37 do not.",
    "Measured on an H200, ptxas 13.0.88, eight blocks per SM (docs/checks_h200.json): m64n128k16 with A in "
    "registers, 1,932,814 to 2,499,393 of 8,650,752 elements wrong a launch; each of seven loops wrong in each "
    "of 20 launches; 0 with A loaded behind the wait.",
)
REGISTERS = (1 << UNIFORM) - 1
GROUP_END = "gsb0"
WAIT = "WARPGROUP.DEPBAR.LE"
MOST_GROUPS = 8  # pending that are told apart; PTX's wait_group names at most 7


class Multiply(NamedTuple):
    """The registers of a wgmma: A's, D's, and the shape by which accumulators follow each other."""

    a: int
    d: int
    shape: str


Running = Mapping[int, int]  # by number of a multiply's instruction, the commits since


def multiply(instruction: Instruction) -> Multiply:
    """What a GMMA instruction reads and writes."""
    operands = instruction.operands
    a = operands[1].mask & REGISTERS if len(operands) > 1 and operands[1].kind == "R" else 0
    return Multiply(a, instruction.writes & REGISTERS, group_shape(instruction.opcode))


def commits(instruction: Instruction) -> bool:
    """Whether a multiply is the last of its group."""
    return any(operand.text == GROUP_END for operand in instruction.operands)


def groups_left(instruction: Instruction) -> int | None:
    """How many groups may still run after a wait; None of another instruction."""
    if instruction.opcode != WAIT:
        return None
    return next((operand.value for operand in instruction.operands if operand.kind == "number"), 0)


@lru_cache(maxsize=1 << 14)
def counts(form: Form) -> bool:
    """Whether `step` looks at an instruction."""
    return form.mnemonic.endswith("GMMA") or form.opcode == WAIT


def step(running: Running, instruction: Instruction) -> Running:
    """The multiplies that run after an instruction."""
    if instruction.mnemonic.endswith("GMMA"):
        after = {**running, instruction.number: 0}
        if commits(instruction):
            after = {number: min(since + 1, MOST_GROUPS) for number, since in after.items()}
        return after if not instruction.guard else joined(running, after)
    left = groups_left(instruction)
    if left is None or not running or instruction.guard:
        return running
    return {number: since for number, since in running.items() if since <= left}


def joined(one: Running, other: Running) -> Running:
    """What runs on one way or the other."""
    return {n: min(one.get(n, MOST_GROUPS), other.get(n, MOST_GROUPS)) for n in one.keys() | other.keys()}


def running_at(kernel: Graph) -> Iterator[tuple[Instruction, Running]]:
    """Every instruction that may be reached, with the multiplies that run before it."""
    start: Running = {}
    return at_each(kernel, forward(kernel, start, step, joined, counts), step, counts)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each instruction that touches a register of a multiply that may still run."""
    multiplies = {i.number: multiply(i) for i in kernel.instructions if i.mnemonic.endswith("GMMA")}
    if not multiplies:
        return
    for instruction, running in running_at(kernel):
        hits = [(hit, number) for number in running if (hit := touched(instruction, multiplies, number))]
        if hits:
            hit, number = min(hits, key=lambda each: (lowest(each[0]), each[1]))
            yield finding(instruction, kernel.instructions[number], hit, multiplies[number])


def touched(instruction: Instruction, multiplies: Mapping[int, Multiply], number: int) -> int:
    """The registers of a running multiply that an instruction writes, or reads of D."""
    of = multiplies[number]
    own = multiplies.get(instruction.number)
    if own is None:
        return instruction.writes & (of.a | of.d) | instruction.reads & REGISTERS & of.d
    if own.shape == of.shape and own.d == of.d:  # D after D, of the same shape
        return own.a & of.d | own.d & of.a
    return own.d & (of.a | of.d) | own.a & of.d


def lowest(mask: int) -> int:
    """The lowest register of a set."""
    return (mask & -mask).bit_length() - 1


def finding(instruction: Instruction, reader: Instruction, hit: int, of: Multiply) -> Finding:
    """What to say of an instruction that touches `hit` of a multiply."""
    register = lowest(hit)
    does = "writes" if instruction.writes >> register & 1 else "reads"
    role = "A" if of.a >> register & 1 else "D"
    text = (
        f"{instruction.opcode} {does} R{register}, of {role} of {reader.opcode} before the wait that ends its group; "
        f"{FIX}"
    )
    return Finding(NAME, SEVERITY, instruction.address, text, {"register": register, "reader": reader.address})


_LOOP = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 b, .param .u64 out, .param .u32 steps) .maxntid 128 {
  .reg .pred %p; .reg .b32 %r<4>, %a<4>, %n<4>; .reg .b64 %d<4>; .reg .f32 %f<4>;
  .shared .align 16 .b8 tile[2048];
  ld.param.u64 %d0, [b]; ld.param.u64 %d1, [out]; ld.param.u32 %r0, [steps];
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
STEP:
  .pragma "nounroll";
  <before>ld.shared.v4.u32 {%n0, %n1, %n2, %n3}, [%r3];
  <behind>mov.b32 %a0, %n0; mov.b32 %a1, %n1; mov.b32 %a2, %n2; mov.b32 %a3, %n3;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%a0, %a1, %a2, %a3}, %d0, 1, 1, 1, 0;
  wgmma.commit_group.sync.aligned;
  sub.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra STEP;
  wgmma.wait_group.sync.aligned 0;
  cvt.u64.u32 %d2, %r2; add.u64 %d1, %d1, %d2; st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
_WAIT = "wgmma.wait_group.sync.aligned 0;\n  "
FAILS = _LOOP.replace("<before>", "").replace("<behind>", _WAIT)
PASSES = _LOOP.replace("<before>", _WAIT).replace("<behind>", "")
