"""Registers that a loop keeps in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.check import published
from tcprobe.check.rule import Finding, Severity
from tcprobe.sass.frame import LOCAL, offset
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.requests import loop_of, width

NAME = "spills"
SEVERITY: Severity = "warning"
SAYS = "a loop loads from or stores to the stack, where registers are kept that do not fit"
FIX = "allow more registers (.maxnreg, launch bounds), or keep fewer values alive: smaller tiles, fewer accumulators"
EVIDENCE = (
    "PTX ISA, .local: each thread's own memory; ptxas -v counts spill stores and spill loads in it.",
    "Local memory is memory: it passes the same queue as global loads, and lies in L1 at best.",
    "Counted is what stands in a loop at an address on the stack (R1 and a constant). Arrays that threads "
    "index lie in local memory too and look the same where the index is constant.",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each innermost loop that reaches for the stack, at the first instruction that does."""
    if not kernel.mnemonics.intersection(LOCAL):
        return
    by_loop: dict[frozenset[int], list[Instruction]] = {}
    for instruction in kernel.instructions:
        if instruction.mnemonic in LOCAL and instruction.guard != "never" and offset(instruction.form) is not None:
            loop = loop_of(kernel, instruction)
            if loop is not None:
                by_loop.setdefault(loop, []).append(instruction)
    for found in sorted(by_loop.values(), key=lambda each: each[0].number):
        loads = sum(instruction.mnemonic == "LDL" for instruction in found)
        places = {place for i in found for place in range(offset(i.form) or 0, (offset(i.form) or 0) + width(i.form))}
        numbers: dict[str, int | float] = {
            "loads": loads,
            "stores": len(found) - loads,
            "registers": -(-len(places) // 4),
            "bytes": sum(width(instruction.form) for instruction in found),
        }
        each = [published.interval(kernel.arch, instruction.opcode) for instruction in found]
        priced = [cycles for cycles in each if cycles is not None]
        taken = ""
        if len(priced) == len(each):
            numbers["cycles"] = round(sum(priced), 1)
            taken = f" and {numbers['cycles']:g} cycles of an SM for each warp"
        text = (
            f"{numbers['registers']} registers are on the stack in a loop: {numbers['loads']} loads and "
            f"{numbers['stores']} stores of local memory, {numbers['bytes']} bytes for each thread{taken} a round; "
            f"{FIX}"
        )
        yield Finding(NAME, SEVERITY, found[0].address, text, numbers)


_LIVE = 24
FAILS = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry crowded(.param .u64 out, .param .u32 rounds) .maxnreg 24 .reqntid 128 {{
.reg .b32 i, n, t, v<{_LIVE}>; .reg .b64 p; .reg .pred q;
ld.param.u64 p, [out];
ld.param.u32 n, [rounds];
mov.u32 t, %tid.x;
{" ".join(f"mad.lo.u32 v{j}, t, {2 * j + 3}, {j};" for j in range(_LIVE))}
mov.u32 i, 0;
more:
{" ".join(f"mad.lo.u32 v{j}, v{j}, v{(j + 7) % _LIVE}, v{(j + 1) % _LIVE};" for j in range(_LIVE))}
add.u32 i, i, 1;
setp.lt.u32 q, i, n;
@q bra more;
{" ".join(f"st.global.b32 [p+{4 * j}], v{j};" for j in range(_LIVE))}
ret;
}}
"""
PASSES = FAILS.replace(" .maxnreg 24", "")
