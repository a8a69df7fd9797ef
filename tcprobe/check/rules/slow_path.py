"""Warp multiplies on an arch whose tensor cores are fed faster by a warpgroup's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

from tcprobe.check import published
from tcprobe.check.rule import Finding, Severity
from tcprobe.isa import bit_fields, inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction as Form
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.requests import loop_of

NAME = "slow-path"
SEVERITY: Severity = "warning"
SAYS = "mma.sync where the arch has wgmma or tcgen05.mma of the type, which reach its peak"
FIX = "compile for sm_90a and use wgmma (sm_100a: tcgen05.mma); small problems may be as fast by mma.sync"
EVIDENCE = (
    "On an H200 mma.m16n8k16 of f16 does 1,355 of 2,048 multiply-adds a cycle of an SM, wgmma 2,048 (`tcprobe cost "
    "--table`, measured; the peak as NVIDIA states it).",
    "On sm_100 and its family nobody measured either here; NVIDIA's CUTLASS uses tcgen05 there.",
)
OF_WARPS = ("HMMA", "IMMA", "BMMA", "QMMA")
FASTER = {"tcgen05": "tcgen05.mma", "wgmma": "wgmma"}  # families, the fastest first


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for a kernel that multiplies by warps in a loop, and by no warpgroup."""
    faster = faster_family(kernel.arch)
    by_groups = any(
        name.endswith("GMMA") or (name.startswith("UTC") and name.endswith("MMA")) for name in kernel.mnemonics
    )
    if faster is None or by_groups or not kernel.mnemonics.intersection(OF_WARPS):
        return
    found = [
        i
        for i in kernel.instructions
        if i.mnemonic in OF_WARPS and i.guard != "never" and loop_of(kernel, i) is not None
    ]
    opcodes = Counter(i.opcode for i in found if _has_faster(kernel.arch, i.opcode, faster))
    if opcodes:
        opcode, count = opcodes.most_common(1)[0]
        first = next(i for i in found if i.opcode == opcode)
        yield _finding(kernel, first, count, faster)


@cache
def faster_family(arch: str) -> str | None:
    """The multiplies of warpgroups or of tensor memory that an arch has."""
    row, forms = arch_row(arch), inventory.instructions().values()
    there = {form.family for form in forms if form.multiplies and form.family in FASTER and form.target.on(row)}
    return next((family for family in FASTER if family in there), None)


@cache
def _has_faster(arch: str, opcode: str, family: str) -> bool:
    """Whether a form of the faster family takes the types of A that become this opcode."""
    types = {form.type("a") for form in published.forms(arch, opcode)}
    forms = (form for form in inventory.instructions().values() if form.multiplies and form.family == family)
    return any(not types.isdisjoint(_factors(form)) for form in forms)


def _factors(form: Form) -> set[object]:
    """The types that A of a form may have: of tcgen05 a descriptor says which of its kind's."""
    return {form.type("a"), *bit_fields.PLAIN.get(form.kind or "", ((), ()))[1]}


def _finding(kernel: Kernel, first: Instruction, count: int, faster: str) -> Finding:
    share = published.share(kernel.arch, first.opcode)
    numbers: dict[str, int | float] = {"multiplies": count}
    rate = f"no share of {kernel.arch}'s peak is measured or stated"
    if share:
        numbers |= {"share": round(share.macs / share.most, 3), "macs_per_cycle": share.macs, "peak": share.most}
        rate = f"at best {share.macs / share.most:.0%} of what an SM can do ({share.source})"
    text = f"{count} {first.opcode} in loops, {rate}, where the arch has {FASTER[faster]}; {FIX}"
    return Finding(NAME, SEVERITY, first.address, text, numbers)


_LOOP = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry multiply(.param .u64 out, .param .u32 rounds) .reqntid 32 {{
.reg .b32 i, n, r<6>; .reg .f32 f<4>; .reg .b64 p; .reg .pred q;
ld.param.u64 p, [out];
ld.param.u32 n, [rounds];
mov.u32 r0, %tid.x; mov.u32 r1, r0; mov.u32 r2, r0; mov.u32 r3, r0; mov.u32 r4, r0; mov.u32 r5, r0;
mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0;
mov.u32 i, 0;
more:
{step}
add.u32 i, i, 1;
setp.lt.u32 q, i, n;
@q bra more;
st.global.v4.f32 [p], {{f0, f1, f2, f3}};
ret;
}}
"""
FAILS = _LOOP.format(
    step="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0, f1, f2, f3}, {r0, r1, r2, r3}, {r4, r5}, "
    "{f0, f1, f2, f3};"
)
PASSES = FAILS.replace("sm_90", "sm_80")
