"""Accesses of shared memory whose lanes meet in banks, by the rule that was measured (`layout.banks`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcprobe.check import published
from tcprobe.check.counting import Counting, costly
from tcprobe.check.rule import Finding, Severity
from tcprobe.sass.addresses import SHARED
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.requests import conflicts

NAME = "bank-conflicts"
SEVERITY: Severity = "warning"
SAYS = "lanes of a warp meet in banks of shared memory, so that an access takes more wavefronts than its width needs"
FIX = "pad the rows or swizzle the addresses: tcprobe banks and tcprobe swizzle show how"
EVIDENCE = (
    "The rule of wavefronts is measured on an H200 for ld, st, ldmatrix, stmatrix, atomics and cp.async.ca; `tcprobe "
    "run --family banks` repeats it. Destinations of cp.async.cg are judged by the rule of cp.async.ca.",
    "On sm_90 shared memory passes one wavefront a cycle (`tcprobe cost LDS`), so a plan's cycles are its wavefronts "
    "(docs/cost.md, 130 of 130 plans within 0.6 %). Archs without prices have wavefronts alone.",
    "Addresses follow from the machine code: what is not known of them is the same in all lanes of a warp, "
    "which turns or exchanges banks and leaves the wavefronts as they are.",
)


NARROWEST = {"LDS": "LDS", "STS": "STS", "LDSM": "LDSM.16.M88", "STSM": "STSM.16.M88"}  # accesses of one wavefront


def check(kernel: Kernel) -> Iterator[Finding]:
    """A warning for each access whose worst warp takes more wavefronts than beats; a note where that is not known."""
    return costly(kernel, Counting(NAME, "wavefronts", SHARED, conflicts, _words, _cycles))


def _cycles(arch: str, mnemonic: str) -> float | None:
    """Cycles of an SM for a wavefront: for one access that takes one."""
    return published.interval(arch, NARROWEST[mnemonic]) if mnemonic in NARROWEST else None


def _words(opcode: str, numbers: Mapping[str, int | float], lanes: str) -> str:
    """What to say of an access."""
    warps = "" if numbers["typical"] == numbers["wavefronts"] else f" in the worst warp, {numbers['typical']} in most"
    more, unit = numbers["wavefronts"] - numbers["least"], "wavefront"
    if "cycles" in numbers:
        more, unit = numbers["cycles"], "cycle"
    often = "once a round of its loop" if numbers["a_round"] else "outside loops"
    return (
        f"{opcode} takes {numbers['wavefronts']} wavefronts{warps} where {numbers['least']} would do{lanes}: "
        f"{more:g} {unit}{'s' * (more > 1)} more for each warp, {often}; {FIX}"
    )


FAILS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry column(.param .u64 out) .reqntid 32 {
.reg .b32 t, a, x; .reg .b64 p;
.shared .align 16 .b8 tile[4096];
ld.param.u64 p, [out];
mov.u32 t, %tid.x;
mov.u32 a, tile;
mad.lo.u32 a, t, 128, a;   // a row is 128 bytes: all lanes in one bank
st.shared.b32 [a], t;
bar.warp.sync -1;
ld.shared.b32 x, [a+64];
st.global.b32 [p], x;
ret;
}
"""
PASSES = FAILS.replace("128, a;   // a row is 128 bytes: all lanes in one bank", "132, a;").replace("4096", "4352")
