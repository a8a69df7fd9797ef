"""PTX that loads the inputs of a warpgroup multiply: descriptors, metadata, A in registers, B in shared memory."""

from __future__ import annotations

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.instruction import Instruction


def descriptors(coded_matrix: str, other_matrix: str, offset: str) -> list[str]:
    """Load two descriptors; their start addresses count from the coded matrix, and from the other one."""
    return [
        f"ld.global.v2.b64 {{{coded_matrix}, {other_matrix}}}, [%desc+{offset}];",
        *(
            line
            for name, where in ((coded_matrix, "%base"), (other_matrix, "%there"))
            for line in (f"shr.u32 %t, {where}, 4;", "cvt.u64.u32 %low, %t;", f"add.u64 {name}, {name}, %low;")
        ),
    ]


def metadata(image: str) -> list[str]:
    """Load the register of metadata from an image."""
    return [
        f"mov.u32 %image, {image};",
        f"mad.lo.u32 %image, %image, {WARPGROUP}, %lane;",
        "mad.wide.u32 %e, %image, 4, %e;",
        "ld.global.b32 %meta, [%e];",
    ]


def one_slot(instruction: Instruction) -> list[str]:
    """Set A in registers: the slot with the block's number is one, all others are zero."""
    a = instruction.fragment("a")
    each = 32 // a.slot_bits
    return [
        f"div.u32 %t, %x, {a.elements};",
        f"rem.u32 %i, %x, {a.elements};",
        f"rem.u32 %at, %i, {each};",
        f"mul.lo.u32 %at, %at, {a.slot_bits};",
        f"mov.b32 %w, {a.one:#x};",
        "shl.b32 %w, %w, %at;",
        f"div.u32 %i, %i, {each};",
        "setp.eq.u32 %q, %t, %lane;",
        *(line for r in range(4) for line in (f"setp.eq.and.u32 %p, %i, {r}, %q;", f"selp.b32 %a{r}, %w, 0, %p;")),
    ]


def a_image(image: str) -> list[str]:
    """Load A's registers from an image."""
    return [
        f"mad.lo.u32 %image, {image}, {WARPGROUP}, %lane;",
        "mad.wide.u32 %other, %image, 16, %other;",
        "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%other];",
    ]


def b_image(instruction: Instruction, image: str, size: str) -> list[str]:
    """Copy B to shared memory, where it stays as it is."""
    return [
        f"mov.u32 %size, {size};",
        f"mad.wide.u32 %other, {image}, %size, %other;",
        *copy_to_shared("%other", "%there", "%size", "OTHER"),
    ]


def copy_to_shared(source: str, target: str, size: str, begin: str, end: str = "") -> list[str]:
    """All threads copy `size` bytes, a multiple of 16, into shared memory; `begin` and `end` label the loop."""
    end = end or f"{begin}_DONE"
    return [
        "mul.lo.u32 %at, %lane, 16;",
        f"{begin}:",
        f"setp.ge.u32 %p, %at, {size};",
        f"@%p bra {end};",
        "cvt.u64.u32 %low, %at;",
        f"add.u64 %place, {source}, %low;",
        "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%place];",
        f"add.u32 %to, {target}, %at;",
        "st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};",
        f"add.u32 %at, %at, {16 * WARPGROUP};",
        f"bra {begin};",
        f"{end}:",
    ]
