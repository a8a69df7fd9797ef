"""Accesses of global memory that touch more sectors than their bytes fill."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.check.addresses import GLOBAL, reaches
from tcprobe.check.program import Kernel
from tcprobe.check.requests import ROWS, SECTOR, UndecidedError, loop_of, sectors
from tcprobe.check.rule import Finding, Severity, undecided

NAME = "sectors"
SEVERITY: Severity = "warning"
SAYS = "a warp's request of global memory touches more sectors of 32 bytes than its bytes fill"
MEND = "let neighbouring lanes take neighbouring bytes: tcprobe load shows which"
EVIDENCE = (
    "CUDA C++ Best Practices Guide, Coalesced Access to Global Memory: the accesses of a warp coalesce into as many "
    "32-byte transactions as are necessary to service them.",
    "Counted is from the base that takes the fewest sectors, so what is found holds wherever a buffer begins. Lines "
    "that a later request finds in a cache are not seen.",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """A warning for each access with more sectors than it needs; a note where that is not known."""
    if not GLOBAL & kernel.stems:
        return
    for reach in reaches(kernel):
        instruction = reach.instruction
        if instruction.stem not in GLOBAL:
            continue
        try:
            request = sectors(reach)
        except UndecidedError as error:
            yield undecided(NAME, instruction, f"{error}, of {instruction.opcode}")
            continue
        if request is None or request.worst <= request.least:
            continue
        numbers = {
            "sectors": request.worst,
            "least": request.least,
            "typical": request.typical,
            "lanes": request.lanes,
            "a_round": int(loop_of(kernel, instruction) is not None),
        }
        lanes = "" if reach.sure else ", if all lanes take part that may"
        lanes += ROWS if request.assumed else ""
        text = (
            f"{instruction.opcode} touches {request.worst} sectors where {request.least} would hold its bytes{lanes}: "
            f"{(request.worst - request.least) * SECTOR} bytes more are moved; {MEND}"
        )
        yield Finding(NAME, SEVERITY, instruction.address, text, numbers)


FAILS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry strided(.param .u64 in, .param .u64 out) .reqntid 128 {
.reg .b32 t, x; .reg .b64 p, q;
ld.param.u64 p, [in];
ld.param.u64 q, [out];
mov.u32 t, %tid.x;
mad.wide.u32 p, t, 32, p;   // each lane has a sector of its own, and takes 4 bytes of it
mad.wide.u32 q, t, 4, q;
ld.global.b32 x, [p];
st.global.b32 [q], x;
ret;
}
"""
PASSES = FAILS.replace("t, 32, p;   // each lane has a sector of its own, and takes 4 bytes of it", "t, 4, p;")
