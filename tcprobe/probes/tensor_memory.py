"""Kernels with one tcgen05 instruction each, to see what the compiler makes of it.

They are assembled, never launched: they neither allocate tensor memory nor describe matrices. If a name has several
spellings, the first is taken: the least number of repetitions, no optional qualifier, one CTA.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.arrays import Bytes
from tcprobe.probes import ptx
from tcprobe.probes.ptx import EmulatedCore, Kernel, Launch

_BRACES = re.compile(r"\{([^{}]*)\}")
MULTIPLY = {"d": "[%taddr]", "a": "%adesc", "b": "%bdesc", "e": "[%meta]", "scale_a": "[%sa]", "scale_b": "[%sb]"}
BLOCK, SINCE = ".block32", "8.8"  # the name of scales of 32 elements on all targets; the first PTX version with it
# by prefix of the id; {half}: columns from the first access of 16x32bx2 to the second, which begins where it ends
MOVES = {
    "tcgen05.ld.red.16x32bx2": "{d}, %redval0, [%taddr], {half}",
    "tcgen05.ld.red.": "{d}, %redval0, [%taddr]",
    "tcgen05.ld.16x32bx2": "{d}, [%taddr], {half}",
    "tcgen05.ld.": "{d}, [%taddr]",
    "tcgen05.st.16x32bx2": "[%taddr], {half}, {a}",
    "tcgen05.st.": "[%taddr], {a}",
    "tcgen05.cp.": "[%taddr], %adesc",
    "tcgen05.shift.": "[%taddr]",
}


@dataclass(frozen=True)
class Assembled:
    """The op of a kernel that is only assembled."""

    from_code: bool = False

    def emulate(self, launch: Launch, tables: EmulatedCore) -> Bytes:
        """Raises ProbeError: there is nothing to run."""
        raise ProbeError(f"{launch.kernel.name} is for the compiler, not to be run.")


def kernel(instruction: Instruction, least: bool = False) -> Kernel:
    """The instruction between loads of its registers and stores of its results.

    With `least`, scales are named as the least target and PTX version allow; targets of a family do not know these
    names.
    """
    results = instruction.of_role(Role.RESULT)
    body = [
        "mov.u32 %taddr, %ldm; mov.u32 %idesc, %x; mov.u32 %meta, %y; mov.u32 %sa, %z; mov.u32 %sb, %nx;",
        "mov.u64 %adesc, %in; mov.u64 %bdesc, %out; setp.ne.u32 %p, %x, 0;",
        *(line for f in instruction.given for line in ptx.load("in", f.operand, f)),
        instruction_text(instruction),
        *(line for f in results for line in ptx.store("out", f.operand, f)),
    ]
    registers = [".reg .b32 %taddr, %idesc, %meta, %sa, %sb;", ".reg .b64 %adesc, %bdesc;", ".reg .pred %p;"]
    registers += [ptx.declare(f.operand, f) for f in instruction.fragments]
    name = ptx.identifier(f"tensor_memory.{instruction.id}")
    text = ptx.entry(name, ["in", "out"], registers, body)
    if least and BLOCK in text and instruction.named_apart:
        vector = str(instruction.stated["scales"][0]).split()[1]
        return Kernel(name, Assembled(), text.replace(BLOCK, f".scale_vec::{vector}"), instruction.target)
    target = instruction.target.at_least(SINCE) if BLOCK in text else instruction.target
    return Kernel(name, Assembled(), text, target)


def instruction_text(instruction: Instruction) -> str:
    """PTX of the instruction, with the registers that `kernel` declares."""
    return f"{instruction_name(instruction)} {operands(instruction)};"


def operands(instruction: Instruction) -> str:
    """What follows the instruction's name."""
    if instruction.multiplies:
        words = {o.name: MULTIPLY[o.name] for o in instruction.operands}
        scales = [words.pop(o) for o in ("scale_a", "scale_b") if o in words]
        return ", ".join([*words.values(), "%idesc", *scales, "%p"])
    pattern = next(words for start, words in MOVES.items() if instruction.id.startswith(start))
    half = instruction.shape.n // 2  # PTX ISA, section 9.7.16.2.3.1: immHalfSplitoff
    return pattern.format(half=half, **{f.operand: ptx.braces(f.operand, f) for f in instruction.fragments})


def instruction_name(instruction: Instruction) -> str:
    """The name with its braces filled: the first of several choices, nothing for optional parts."""
    name = instruction.name.replace("{num}", str(instruction.stated.get("num", ("",))[0]))
    name = name.replace("{.scale_vectorsize}", BLOCK)
    while (match := _BRACES.search(name)) is not None:
        first = "" if match[1].startswith(".") else match[1].split("|")[0]
        name = name[: match.start()] + first + name[match.end() :]
    return re.sub(r"\|[^.|]+", "", name)
