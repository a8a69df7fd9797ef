"""PTX of warpgroup multiplies: one matrix in shared memory runs through images; D is packed, or stored raw.

The *coded* matrix (B, or A behind a descriptor) is all ones; then it encodes each bit of its elements' numbers; then it
is all zeros. There are three kinds of kernel:

- registers: A is in registers, and the slot with the block's number alone is one. For every D slot that answers (FEW:
  of the first slots of each thread) a word with the D slot and the number of the element of B that it met. SHARED_A: A
  is coded, in shared memory, and the output is as for codes
- codes: the other matrix is fixed (A in registers, B in shared memory); for every D slot what it answered
- raw: one image of both, and all of D: products

If A is sparse, image y of the metadata is used. Shared memory has, from a base aligned to 1024: the coded matrix, the
other one, the answers. Start addresses in descriptors count from their own matrix. Every thread that writes shared
memory fences its writes towards the asynchronous proxy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.descriptor import PERIOD
from tcprobe.probes import ptx
from tcprobe.probes import wgmma_input_kernels as inputs
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.wgmma_op import (
    BAD,
    FEW_MEETINGS,
    FEW_SLOTS,
    IMAGES_SHIFT,
    SLOT_SHIFT,
    KernelKind,
    Warpgroup,
    behind,
)

POINTERS = ("coded", "other", "desc", "out")
ANSWER_BYTES = 4 * WARPGROUP
COUNT_BYTES = 16
FEW_BIT, SHARED_BIT = 30, 31


def other_bytes(instruction: Instruction) -> int:
    """Bytes of B in shared memory where it is fixed: packed without gaps."""
    b = behind(instruction, "b_smem").held
    return b.rows * b.cols * b.slot_bits // 8


def shared_bytes(instruction: Instruction, kind: KernelKind, image_bytes: int, few: bool = False) -> int:
    """Dynamic shared memory of a launch, in bytes."""
    slots = FEW_SLOTS if few else instruction.fragment("d").elements
    answers = 0 if kind == "raw" else _image(instruction, slots) + slots * ANSWER_BYTES
    other = image_bytes if kind == "raw" else other_bytes(instruction)
    return PERIOD + _whole_periods(image_bytes) + _whole_periods(other) + answers + COUNT_BYTES


@lru_cache(maxsize=16)  # launches of a form share a kernel
def kernel(
    instruction: Instruction,
    kind: KernelKind,
    coded: str = "b_smem",
    majors: tuple[str, str] = ("k", "k"),
    selector: int = 0,
) -> Kernel:
    """`coded` is the operand that is coded, "b_smem" or "a_smem"; `majors` are those of A and B."""
    major_suffix = "".join(f".{name}.mn" for name, major in zip(FACTORS, majors, strict=True) if major == "mn")
    selector_suffix = f".selector{selector}" if instruction.metadata else ""
    name = ptx.identifier(f"{kind}.{instruction.id}.{coded}{major_suffix}{selector_suffix}")
    memory = f".extern .shared .align 1024 .b8 {name}_memory[];\n"
    pointers = POINTERS[:3] + (("e",) if instruction.metadata else ()) + POINTERS[3:]
    op = Warpgroup(instruction, kind, coded, majors, selector)
    text = memory + ptx.entry(name, pointers, _registers(instruction), [*_layout(instruction, kind, name), *_body(op)])
    return Kernel(name, op, text, instruction.target)


def _registers(instruction: Instruction) -> list[str]:
    return [
        ptx.declare("d", instruction.fragment("d")),
        ".reg .b32 %a<4>, %v<4>, %w, %acc, %meta;",
        ".reg .u32 %base, %bytes, %size, %images, %there, %answers, %found, %count, %n, %s, %at, %own, %t, %i, %to;",
        ".reg .u32 %slots, %most;",
        ".reg .u64 %da, %db, %place, %low;",
        ".reg .pred %p, %q, %never, %few, %shared;",
    ]


def _body(warpgroup_op: Warpgroup) -> list[str]:
    instruction, by_descriptor, raw = (
        warpgroup_op.instruction,
        warpgroup_op.coded == "a_smem",
        warpgroup_op.kind == "raw",
    )
    image = "%x" if raw else "%y"
    both = {False: multiply(warpgroup_op, by_descriptor=False), True: multiply(warpgroup_op, by_descriptor=True)}
    if warpgroup_op.kind == "registers":
        brought = [
            *inputs.descriptors("%db", "%da", "0"),
            "@!%shared bra.uni HOT;",
            *inputs.descriptors("%da", "%db", "16"),
            *inputs.b_image(instruction, "%y", str(other_bytes(instruction))),
            "HOT:",
            *inputs.one_slot(instruction),
        ]
        work = ["@%shared bra.uni BEHIND;", *both[False], "bra.uni DONE;", "BEHIND:", *both[True], "DONE:"]
        output = ["@%shared bra.uni TELL;", *_meetings(instruction), "TELL:", *_codes(instruction)]
    else:
        size = "%bytes" if raw else str(other_bytes(instruction))
        other = inputs.b_image(instruction, image, size) if by_descriptor else inputs.a_image(image)
        pair = ("%da", "%db") if by_descriptor else ("%db", "%da")
        brought = ["mad.wide.u32 %desc, %x, 16, %desc;", *inputs.descriptors(*pair, "0"), *other]
        work, output = both[by_descriptor], _raw(instruction) if raw else _codes(instruction)
    return [
        *brought,
        *(inputs.metadata(image) if instruction.metadata else []),
        *([] if raw else _clear()),
        "mov.u32 %n, 0;",
        *(["mad.wide.u32 %coded, %x, %bytes, %coded;"] if raw else []),
        "setp.ne.u32 %never, %n, 0;",
        "NEXT:",
        *inputs.copy_to_shared("%coded", "%base", "%bytes", "CODED"),
        "fence.proxy.async;",
        "bar.sync 0;",
        *work,
        *([] if raw else _answers(instruction)),
        *(
            []
            if raw
            else [
                "add.u32 %n, %n, 1;",
                "cvt.u64.u32 %low, %bytes;",
                "add.u64 %coded, %coded, %low;",
                "setp.lt.u32 %p, %n, %images;",
                "@%p bra.uni NEXT;",
            ]
        ),
        *output,
    ]


def multiply(warpgroup_op: Warpgroup, by_descriptor: bool) -> list[str]:
    """D = A x B, waited for. Scales are one; 16-bit types have immediates that say whether A and B are transposed."""
    instruction = warpgroup_op.instruction
    a = "%da" if by_descriptor else "{%a0, %a1, %a2, %a3}"
    scales = [] if instruction.type("d") == "s32" else ["1", "1"]
    transposable = len(instruction.described[0].held.majors) > 1
    transposed = ["1" if major == "mn" else "0" for major in warpgroup_op.majors] if transposable else []
    sparse = ["%meta", str(warpgroup_op.selector)] if instruction.metadata else []
    operands = [a, "%db", *sparse, "%never", *scales, *(transposed if by_descriptor else transposed[1:])]
    return [
        "wgmma.fence.sync.aligned;",
        f"{instruction.name} {ptx.braces('d', instruction.fragment('d'))}, {', '.join(operands)};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]


def _image(instruction: Instruction, slots: int) -> int:
    """Bytes in shared memory of the registers of so many D slots of each thread."""
    return slots * instruction.fragment("d").slot_bits // 32 * ANSWER_BYTES


def _whole_periods(size: int) -> int:
    return -(-size // PERIOD) * PERIOD


def _layout(instruction: Instruction, kind: KernelKind, name: str) -> list[str]:
    """Take the leading dimension apart, and compute the addresses in shared memory."""
    other = "%there" if kind == "raw" else str(_whole_periods(other_bytes(instruction)))
    slots = instruction.fragment("d").elements
    return [
        f"mov.u32 %base, {name}_memory;",
        f"add.u32 %base, %base, {PERIOD - 1};",
        f"and.b32 %base, %base, -{PERIOD};",
        f"bfe.u32 %images, %ldm, {IMAGES_SHIFT}, {FEW_BIT - IMAGES_SHIFT};",
        f"and.b32 %bytes, %ldm, {(1 << IMAGES_SHIFT) - 1};",
        f"and.b32 %t, %ldm, {1 << FEW_BIT:#x};",
        "setp.ne.u32 %few, %t, 0;",
        f"and.b32 %t, %ldm, {1 << SHARED_BIT:#x};",
        "setp.ne.u32 %shared, %t, 0;",
        f"selp.u32 %slots, {FEW_SLOTS}, {slots}, %few;",
        f"selp.u32 %most, {FEW_MEETINGS}, {instruction.shape.n}, %few;",
        f"add.u32 %there, %bytes, {PERIOD - 1};",
        f"and.b32 %there, %there, -{PERIOD};",  # bytes of the coded matrix, rounded up; the base is added below
        f"add.u32 %answers, %there, {other};",
        "add.u32 %there, %there, %base;",
        "add.u32 %answers, %answers, %base;",
        "mad.lo.u32 %answers, %lane, 4, %answers;",
        f"selp.u32 %t, {_image(instruction, FEW_SLOTS)}, {_image(instruction, slots)}, %few;",
        "add.u32 %found, %answers, %t;",
    ]


def _clear() -> list[str]:
    return [
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        "mov.b32 %w, 0;",
        *_each("%slots", "CLEAR", ["st.shared.b32 [%at], %w;"]),
    ]


def _each(count: str, label: str, ptx_lines: Sequence[str]) -> list[str]:
    """`ptx_lines` for every slot of the thread; %at is the address of its answers."""
    return [
        f"{label}:",
        *ptx_lines,
        f"add.u32 %at, %at, {ANSWER_BYTES};",
        "add.u32 %s, %s, 1;",
        f"setp.lt.u32 %p, %s, {count};",
        f"@%p bra {label};",
    ]


def _answers(instruction: Instruction) -> list[str]:
    """Store D's registers to the thread's own words; then set a bit for each slot that is one, or the sign if it is
    odd.
    """
    d = instruction.fragment("d")
    kind = "f32" if d.type == "f32" else "b32"
    half = [
        "shr.u32 %t, %s, 1;",
        f"mad.lo.u32 %own, %t, {ANSWER_BYTES}, %answers;",
        "ld.shared.b32 %w, [%own];",
        "and.b32 %t, %s, 1;",
        "shl.b32 %t, %t, 4;",
        "shr.u32 %w, %w, %t;",
        "and.b32 %w, %w, 0xffff;",
    ]
    whole = [f"mad.lo.u32 %own, %s, {ANSWER_BYTES}, %answers;", "ld.shared.b32 %w, [%own];"]
    stored = [f"st.shared.{kind} [%answers+{r * ANSWER_BYTES}], %d{r};" for r in range(d.registers)]
    few = FEW_SLOTS * d.slot_bits // 32
    return [
        *stored[:few],
        "@%few bra.uni STORED;",
        *stored[few:],
        "STORED:",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            "%slots",
            "ANSWER",
            [
                *(half if d.slot_bits == 16 else whole),
                "ld.shared.b32 %acc, [%at];",
                f"setp.eq.u32 %q, %w, {d.one:#x};",
                "selp.b32 %v0, 1, 0, %q;",
                "shl.b32 %v0, %v0, %n;",
                "or.b32 %acc, %acc, %v0;",
                "setp.ne.u32 %p, %w, 0;",
                "selp.b32 %v0, 0x80000000, 0, %p;",
                "selp.b32 %v0, 0, %v0, %q;",
                "or.b32 %acc, %acc, %v0;",
                "st.shared.b32 [%at], %acc;",
            ],
        ),
        "bar.sync 0;",
    ]


def _meetings(instruction: Instruction) -> list[str]:
    """By block (y, x) a count, then for every D slot that answered a word: its number and what it encoded."""
    slots = instruction.fragment("d").elements
    return [
        f"mul.lo.u32 %t, %lane, 4; sub.u32 %count, %found, %t; mad.lo.u32 %count, %slots, {ANSWER_BYTES}, %count;",
        "mov.b32 %w, 0;",
        "setp.eq.u32 %p, %lane, 0;",
        "@%p st.shared.b32 [%count], %w;",
        "bar.sync 0;",
        "mad.lo.u32 %image, %y, %nx, %x;",
        "add.u32 %t, %most, 1;",
        "mul.lo.u32 %t, %t, 4;",
        "mad.wide.u32 %out, %image, %t, %out;",
        "sub.u32 %i, %images, 1;",
        "mov.b32 %v1, 1;",
        "shl.b32 %v1, %v1, %i;",
        "or.b32 %v1, %v1, 0x80000001;",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            "%slots",
            "MET",
            [
                "ld.shared.b32 %acc, [%at];",
                "setp.eq.u32 %p, %acc, 0;",
                "@%p bra MET_NOT;",
                "atom.shared.add.u32 %to, [%count], 1;",
                "setp.ge.u32 %p, %to, %most;",
                "@%p bra MET_NOT;",
                "and.b32 %v0, %acc, %v1;",
                "setp.ne.u32 %p, %v0, 1;",
                f"selp.b32 %w, {BAD:#x}, 0, %p;",
                "shr.u32 %acc, %acc, 1;",
                "and.b32 %acc, %acc, 0xffff;",
                "or.b32 %w, %w, %acc;",
                f"mad.lo.u32 %t, %lane, {slots}, %s;",
                f"shl.b32 %t, %t, {SLOT_SHIFT};",
                "or.b32 %w, %w, %t;",
                "mad.wide.u32 %place, %to, 4, %out;",
                "st.global.b32 [%place+4], %w;",
                "MET_NOT:",
            ],
        ),
        "bar.sync 0;",
        "setp.ne.u32 %p, %lane, 0;",
        "@%p ret;",
        "ld.shared.b32 %w, [%count];",
        "st.global.b32 [%out], %w;",
        "ret;",
    ]


def _codes(instruction: Instruction) -> list[str]:
    """By block (y, x) and slot, what the D slot answered."""
    slots = instruction.fragment("d").elements
    return [
        "mad.lo.u32 %image, %y, %nx, %x;",
        f"mad.lo.u32 %image, %image, {WARPGROUP}, %lane;",
        f"mad.wide.u32 %out, %image, {4 * slots}, %out;",
        "mov.u32 %s, 0;",
        "mov.u32 %at, %found;",
        *_each(
            str(slots),
            "SAY",
            ["ld.shared.b32 %acc, [%at];", "mad.wide.u32 %place, %s, 4, %out;", "st.global.b32 [%place], %acc;"],
        ),
    ]


def _raw(instruction: Instruction) -> list[str]:
    d = instruction.fragment("d")
    return [
        f"mad.lo.u32 %image, %x, {WARPGROUP}, %lane;",
        f"mad.wide.u32 %out, %image, {ptx.thread_bytes(d)}, %out;",
        *ptx.store("out", "d", d),
    ]
