"""Descriptors whose constants contradict the instruction that takes them.

The words of a descriptor are followed as far as they are constants (`addresses`); the start address need not be known.
Of a wgmma the bytes of every element follow from the other fields: where two elements of a factor have the same byte,
or the swizzle's pattern does not repeat where the descriptor says that the tile does, no tile lies so. An instruction
descriptor of tcgen05 is compared with the kinds that its opcode is of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tcprobe.check.rule import Finding, Severity, undecided
from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.layout.descriptor import Descriptor
from tcprobe.sass import lanes
from tcprobe.sass.addresses import descriptors
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes
from tcprobe.sass.shared_bytes import K_BYTES, LINES_A, SWIZZLE
from tcprobe.sass.widths import group_sizes

NAME = "descriptor"
SEVERITY: Severity = "error"
SAYS = "constants of a descriptor contradict the instruction that takes it"
FIX = "tcprobe descriptor --tile LINESxK --type TYPE prints the descriptor of a tile, --idesc that of a multiply"
EVIDENCE = (
    "PTX ISA, matrix descriptor of wgmma: LBO, SBO and swizzle lead to the bytes of each element; the formula is "
    "measured on an H200 for every mode (docs/wgmma.md).",
    "Measured on an H200 (docs/checks_h200.json): SWIZZLE_128B with SBO 512, 3,742,464 of 4,325,376 elements "
    "wrong; with SBO 1024 0.",
    "PTX ISA, instruction descriptor of tcgen05.mma: its fields and which of them each kind takes; documented, not "
    "measured.",
)
# kinds of tcgen05.mma that an opcode is of
KINDS = {
    "UTCHMMA": ("f16", "tf32"),
    "UTCQMMA": ("f8f6f4", "mxf8f6f4"),
    "UTCIMMA": ("i8",),
    "UTCOMMA": ("mxf4", "mxf4nvf4"),
}
NARROW = ("QGMMA", "IGMMA", "BGMMA")


def check(kernel: Kernel) -> Iterator[Finding]:
    """One finding for each multiply with such a descriptor."""
    if not any(mnemonic.endswith("GMMA") or mnemonic in KINDS for mnemonic in kernel.mnemonics):
        return
    for number, described in sorted(descriptors(kernel).items()):
        instruction = kernel.instructions[number]
        for operand, words in described.items():
            if operand.prefix == "idesc":
                yield from of_instruction(instruction, words)
            elif instruction.mnemonic.endswith("GMMA") and operand.first >= 0:
                yield from of_shared(instruction, words)


def of_shared(instruction: Instruction, words: Sequence[Lanes]) -> Iterator[Finding]:
    """What is wrong with the descriptors of A, where it is not in registers, and B."""
    for operand, (low, high) in (("a", words[:2]), ("b", words[2:4])):
        if operand == "a" and instruction.operands[1].kind == "R":
            continue
        sizes = group_sizes(instruction.opcode)
        lines = LINES_A if operand == "a" else sizes[1]
        transposed = any(f"tnsp{operand.upper()}" in each.part for each in instruction.operands)
        wrong = contradiction(low, high, lines, transposed, 2 if instruction.mnemonic == "HGMMA" else 1)
        if wrong is None:
            reason = f"the descriptor of {operand.upper()} of {instruction.opcode} is not a constant"
            yield undecided(NAME, instruction, reason)
        elif wrong:
            text = f"the descriptor of {operand.upper()} of {instruction.opcode}: {wrong}; {FIX}"
            yield Finding(NAME, SEVERITY, instruction.address, text)
            return


def contradiction(low: Lanes, high: Lanes, lines: int, transposed: bool, size: int) -> str | None:
    """What is wrong with a descriptor of a factor, "" where nothing is, None where its fields are not known.

    `size`: bytes of an element of 16 bits or less; where k is contiguous its size decides nothing.
    """
    sbo, code = field(high, 0, 14), field(high, 30, 2)
    if sbo is None or code is None:
        return None
    swizzle, sbo = SWIZZLE[code], sbo << 4
    lbo = field(low, 16, 14)
    if swizzle and sbo % (8 * swizzle):
        return f"SBO {sbo} is no multiple of the {8 * swizzle} bytes after which SWIZZLE_{swizzle}B repeats"
    if lbo is None and (transposed or not swizzle):
        return None
    laid = Descriptor((lbo or 0) << 4, sbo, swizzle)
    if transposed:
        line, k = np.arange(lines * size)[:, None], np.arange(K_BYTES // size)[None]
        places = laid.offset("mn", line, k)
    else:
        places = laid.offset("k", np.arange(lines)[:, None], np.arange(K_BYTES)[None])
    if len(np.unique(places)) < places.size:
        mode = f"SWIZZLE_{swizzle}B" if swizzle else "no swizzle"
        return f"with {mode}, LBO {laid.lbo} and SBO {sbo} two elements of the tile have the same byte"
    return ""


def field(word: Lanes, low: int, width: int) -> int | None:
    """Bits of a word, None where they are not known, or differ between warps or lanes."""
    bits = lanes.as_bits(word)
    mask = (1 << width) - 1 << low
    if bits is None or (bits.xor_unknown | bits.unknown | bits.add_unknown) & mask:
        return None
    values = {int(value) for value in np.unique(bits.known & np.uint32(mask))}
    return values.pop() >> low if len(values) == 1 else None


def of_instruction(instruction: Instruction, words: Sequence[Lanes]) -> Iterator[Finding]:
    """What is wrong with an instruction descriptor: what every kind of its opcode refuses."""
    kinds = KINDS.get(instruction.mnemonic, ())
    value = field(words[0], 0, 32) if words else None
    if value is None or not kinds:
        if kinds:
            yield undecided(NAME, instruction, f"the instruction descriptor of {instruction.opcode} is not a constant")
        return
    reasons = []
    for kind in kinds:
        try:
            refused = list(bit_fields.refusals(kind, bit_fields.read_instruction(kind, value).fields))
        except (UsageError, KeyError, TypeError):  # a field that the kind does not have
            refused = [f"{value:#x} is no descriptor of kind::{kind}"]
        if not refused:
            return
        reasons.append(refused[0])
    text = f"the instruction descriptor {value:#010x} of {instruction.opcode}: {reasons[0].rstrip('.')}; {FIX}"
    yield Finding(NAME, SEVERITY, instruction.address, text)


_MULTIPLY = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out) .maxntid 128 {
  .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .f32 %f<8>;
  .shared .align 1024 .b8 tile[8192];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
  st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0}; st.shared.v4.u32 [%r1+2048], {%r0, %r0, %r0, %r0};
  st.shared.v4.u32 [%r1+4096], {%r0, %r0, %r0, %r0}; st.shared.v4.u32 [%r1+6144], {%r0, %r0, %r0, %r0};
  fence.proxy.async.shared::cta; bar.sync 0;
  shr.u32 %r3, %r2, 4; cvt.u64.u32 %d0, %r3; or.b64 %d0, %d0, <bits>;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d0, 1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r0, 16; add.u64 %d1, %d1, %d2;
  st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};
  ret;
}"""
FAILS = _MULTIPLY.replace("<bits>", "0x4000002000010000")
PASSES = _MULTIPLY.replace("<bits>", "0x4000004000010000")
