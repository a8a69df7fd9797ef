"""Accesses of global memory that touch more sectors than their bytes fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tcprobe.check.counting import Counting, costly
from tcprobe.check.rule import Finding, Severity
from tcprobe.sass.addresses import GLOBAL
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.requests import SECTOR, sectors

NAME = "sectors"
SEVERITY: Severity = "warning"
SAYS = "a warp's request of global memory touches more sectors of 32 bytes than its bytes fill"
FIX = "let neighbouring lanes take neighbouring bytes: tcprobe load shows which"
EVIDENCE = (
    "CUDA C++ Best Practices Guide, Coalesced Access to Global Memory: the accesses of a warp coalesce into as many "
    "32-byte transactions as are necessary to service them.",
    "Counted is from the base that takes the fewest sectors, so what is found holds wherever a buffer begins. Lines "
    "that a later request finds in a cache are not seen.",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """A warning for each access with more sectors than it needs; a note where that is not known."""
    return costly(kernel, Counting(NAME, "sectors", GLOBAL, sectors, _words))


def _words(opcode: str, numbers: Mapping[str, int | float], lanes: str) -> str:
    """What to say of an access."""
    touched, least = numbers["sectors"], numbers["least"]
    return (
        f"{opcode} touches {touched} sectors where {least} would hold its bytes{lanes}: "
        f"{(touched - least) * SECTOR} bytes more are moved; {FIX}"
    )


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
