"""A multiply as a CUDA device function: D += A B over the registers of its fragments.

>>> from tcprobe.code.multiply import function
>>> from tcprobe.isa.names import resolve
>>> print(function(resolve("mma.m16n8k8.row.col.f32.f16.f16.f32").instruction))
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
"""

from __future__ import annotations

from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import MULTIPLIED

WORDS = {"f32": ("float", "f"), "s32": ("int", "r")}


def word(fragment: Fragment) -> tuple[str, str]:
    """The C type of a register, and its letter in inline PTX."""
    return WORDS.get(fragment.type, ("unsigned", "r"))


def function(instruction: Instruction) -> str:
    """`multiply`(d, a, b) of a multiply of registers."""
    a, b, d = (instruction.fragment(name) for name in MULTIPLIED)
    kind, letter = word(d)
    registers = [
        registers_in_braces(0, d.registers),
        registers_in_braces(d.registers, a.registers),
        registers_in_braces(d.registers + a.registers, b.registers),
    ]
    outputs = ", ".join(f'"+{letter}"(d[{j}])' for j in range(d.registers))
    inputs = ", ".join(
        f'"r"({name}[{j}])' for name, fragment in (("a", a), ("b", b)) for j in range(fragment.registers)
    )
    return "\n".join(
        (
            f"__device__ inline void multiply({kind} (&d)[{d.registers}], const unsigned (&a)[{a.registers}], "
            f"const unsigned (&b)[{b.registers}]) {{",
            f'  asm volatile("{instruction.name} {", ".join(registers)}, {registers[0]};"',
            f"               : {outputs}",
            f"               : {inputs});",
            "}",
        )
    )


def described_function(instruction: Instruction, turned: tuple[bool, bool]) -> str:
    """`multiply`(d, a, b, more) of a wgmma with both factors behind descriptors; without `more` D is overwritten.

    `turned` says of A and B whether m or n is contiguous.
    """
    d = instruction.fragment("d")
    kind, letter = word(d)
    count = d.registers
    outputs = ", ".join(f'"+{letter}"(d[{j}])' for j in range(count))
    return "\n".join(
        (
            f"__device__ inline void multiply({kind} (&d)[{count}], unsigned long long a, unsigned long long b, "
            "int more) {",
            '  asm volatile("{.reg .pred p; setp.ne.b32 p, %' + str(count + 2) + ', 0;"',
            f'               "{instruction.name} {registers_in_braces(0, count)}, %{count}, %{count + 1}, '
            f'p{_modifiers(instruction, turned)};}}"',
            f"               : {outputs}",
            '               : "l"(a), "l"(b), "r"(more));',
            "}",
        )
    )


def _modifiers(instruction: Instruction, turned: tuple[bool, bool]) -> str:
    """Of signs, which floats have, and of what is contiguous, which types of 16 bits have."""
    signs = "" if instruction.type("d") == "s32" else ", 1, 1"
    return signs + (f", {int(turned[0])}, {int(turned[1])}" if instruction.described[0].held.slot_bits == 16 else "")


def registers_in_braces(start: int, count: int) -> str:
    """Operands of inline PTX in braces."""
    return "{" + ", ".join(f"%{start + j}" for j in range(count)) + "}"
