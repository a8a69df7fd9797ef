"""Waits for multiplies of a warpgroup that could still run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from tcprobe.check import published
from tcprobe.check.rule import Finding, Severity
from tcprobe.check.rules import wgmma_operands as groups
from tcprobe.check.rules import wgmma_shared
from tcprobe.graph import reached
from tcprobe.sass.decode import decode
from tcprobe.sass.kernel import Instruction, Kernel

NAME = "serialised"
SEVERITY: Severity = "warning"
SAYS = "each wgmma is waited for alone before the next one begins, or a wait ends groups whose results nothing asks for"
FIX = "commit several multiplies as one group, and leave groups running: wait_group N with N > 0"
EVIDENCE = (
    "On an H200 a wgmma m64n128k16 that is waited for alone takes its round trip; four in a group overlap (`tcprobe "
    "cost wgmma.m64n128k16.f32.f16.f16 --json`: interval and round_trip).",
    "PTX ISA, wgmma.wait_group: N groups or fewer may be pending; accumulators of one shape may follow each other "
    "without a wait.",
    "ptxas itself serialises (warning C7510) where accumulators are touched between multiplies.",
)
MOVES = ("MOV", "IMAD", "WARPSYNC", "NOP")
# what lets others overwrite the shared memory that a multiply reads, or orders it before that
RELEASES = ("BAR", "SYNCS", "STS", "STSM", "LDGSTS", "UTMALDG", "UBLKCP", "ARRIVES", "UCGABAR_ARV", "EXIT", "UTMASTG")


class Wait(NamedTuple):
    """A wait, the multiplies that it ends, by number, and how many groups it leaves."""

    instruction: Instruction
    ended: tuple[int, ...]
    left: int


def check(kernel: Kernel) -> Iterator[Finding]:
    """A finding for each wait that need not be, or need not be so strong."""
    multiplies = {i.number: groups.multiply(i) for i in kernel.instructions if i.mnemonic.endswith("GMMA")}
    if not multiplies:
        return
    for wait in waits(kernel):
        asked = _asked(kernel, wait, multiplies)
        if asked is None:
            continue
        count = len(wait.ended)
        alone = count == 1
        if "result" in asked or not _goes_on(kernel, wait):
            continue
        if not alone and "release" in asked and not _as_well_weaker(kernel, wait):
            continue
        opcode = kernel.instructions[wait.ended[0]].opcode
        what = (
            f"{opcode} is waited for alone" if alone else f"{count} multiplies are waited for whose results come later"
        )
        numbers: dict[str, int | float] = {"multiplies": count, "left": wait.left}
        place: Literal["registers", "shared"] = "registers" if multiplies[wait.ended[0]].a else "shared"
        longer, taken = published.waiting(kernel.arch, opcode, place), ""
        if longer is not None and alone and not wait.left:
            numbers["cycles"] = longer
            taken = f", {longer:g} cycles later than in a row"
        text = f"{what}, and the next multiply begins when no other runs{taken}; {FIX}"
        if wait.left:
            text = f"{what}, and {wait.left} group{'s' * (wait.left > 1)} are left running where more could; {FIX}"
        yield Finding(NAME, SEVERITY, wait.instruction.address, text, numbers)


def waits(kernel: Kernel) -> Iterator[Wait]:
    """The waits that end a multiply."""
    for instruction, running in groups.running_at(kernel):
        left = groups.groups_left(instruction)
        if left is not None:
            ended = tuple(sorted(number for number, since in running.items() if since > left))
            if ended:
                yield Wait(instruction, ended, left)


def _asked(kernel: Kernel, wait: Wait, multiplies: Mapping[int, groups.Multiply]) -> set[str] | None:
    """What the code behind a wait, up to the next one, needs it for: "result", "release"; None if it ends nothing."""
    a = d = 0
    for number in wait.ended:
        a, d = a | multiplies[number].a, d | multiplies[number].d
    found: set[str] = set()
    waits = {i.number for i in kernel.instructions if i.form.opcode == groups.WAIT}
    later = reached(kernel.successors, kernel.successors.get(wait.instruction.number, ()), waits)
    for _, form, mnemonic in (kernel.instructions[number] for number in later - multiplies.keys()):
        if mnemonic in RELEASES:
            found.add("release")
        if (form.writes & (a | d) or form.reads & groups.REGISTERS & d) and mnemonic not in MOVES:
            found.add("result")
    return found


def _as_well_weaker(kernel: Kernel, wait: Wait) -> bool:
    """Whether the wait might leave one more group: neither registers nor shared memory are touched too early then.

    Of what another role does behind a barrier that is not an mbarrier nothing is known.
    """
    if any(i.opcode.startswith(("BAR.ARV", "UCGABAR_ARV")) for i in kernel.instructions):
        return False
    instructions = list(kernel.instructions)
    text = f"WARPGROUP.DEPBAR.LE gsb0, {wait.left + 1:#x}"
    instructions[wait.instruction.number] = wait.instruction._replace(form=decode(text))
    weaker = replace(kernel, instructions=instructions, unfollowed=[])
    return not any(True for _ in groups.check(weaker)) and wgmma_shared.untouched(weaker)


def _goes_on(kernel: Kernel, wait: Wait) -> bool:
    """Whether a multiply comes after the wait."""
    later = reached(kernel.successors, kernel.successors.get(wait.instruction.number, ()))
    return any(kernel.instructions[number].mnemonic.endswith("GMMA") for number in later)


_D = ", ".join(f"f{j}" for j in range(32))
_MULTIPLY = f"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{{{_D}}}}}, da, db, 1, 1, 1, 0, 0;"
_COMMIT, _WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
_LOOP = f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry steps(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 rounds) .reqntid 128 {{{{
.reg .b32 i, n, t; .reg .b64 p, da, db; .reg .f32 f<32>; .reg .pred q;
ld.param.u64 p, [out];
ld.param.u64 da, [a];
ld.param.u64 db, [b];
ld.param.u32 n, [rounds];
mov.u32 t, %tid.x;
mad.wide.u32 p, t, 128, p;
{" ".join(f"mov.f32 f{j}, 0f00000000;" for j in range(32))}
mov.u32 i, 0;
more:
wgmma.fence.sync.aligned;
{{step}}
add.u32 i, i, 1;
setp.lt.u32 q, i, n;
@q bra more;
{_WAIT}
{" ".join(f"st.global.f32 [p+{4 * j}], f{j};" for j in range(32))}
ret;
}}}}
"""
FAILS = _LOOP.format(step=" ".join([_MULTIPLY.format(), _COMMIT, _WAIT]))
PASSES = _LOOP.format(step=" ".join([_MULTIPLY.format()] * 4 + [_COMMIT]))
