"""Which registers a tensor-core instruction multiplies: a multiply's code run on registers that carry their own names.

Every 32-bit word of A, B and C holds a tag (operand, number of the word, lane). Up to a tensor-core opcode code only
moves words, so at the opcode the tags tell which words it multiplies; its results are tagged in turn, and where
they are stored tells which words of D they are. Code that computes on the way (an emulated form) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tcprobe.instruction import THREADS, Instruction
from tcprobe.probes import ptx
from tcprobe.probes.ptx import Kernel, Multiply
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.lowering import TENSOR
from tcprobe.sass.machine import ZERO, Image, Machine
from tcprobe.sass.opcodes import OPCODES

BASES = (0x7F12_3456_0000, 0x7E98_7654_0000, 0x7D0F_1E2D_0000, 0x7C55_AA33_0000)
RESULT = 4  # tag of a word that a tensor-core instruction made; 1, 2, 3 are a, b, c
BITS = {"HMMA": 16, "BMMA": 1, "DMMA": 64, "QMMA": 8}


@dataclass(frozen=True)
class Word:
    """Where a word comes from: operand "a", "b" or "c" and its number, or "d" and step * 256 + number."""

    operand: str
    number: int


@dataclass(frozen=True)
class Step:
    """One tensor-core instruction: its opcode and the words that it multiplies and adds."""

    opcode: str
    a: tuple[Word, ...]
    b: tuple[Word, ...]
    c: tuple[Word, ...]


@dataclass(frozen=True)
class Trace:
    """All steps of a multiply in order, and for every word of D the result that is stored there."""

    steps: tuple[Step, ...]
    stored: tuple[Word, ...]


@dataclass(frozen=True)
class Form:
    """Shape and registers per thread of a tensor-core opcode."""

    m: int
    n: int
    k: int
    a: int
    b: int
    d: int


def form(opcode: str) -> Form:
    """What the opcode's name says: HMMA.16816.F32 is m16n8k16 of 16-bit types with 32-bit results."""
    name, digits, *rest = opcode.split(".")
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)|(16|8)(8)(\d+)", digits)
    if name not in TENSOR or not match or "STEP" in opcode:
        raise UnreadError(f"opcode {opcode} is not modelled")
    m, n, k = (int(g) for g in match.groups() if g)
    bits = 32 if "TF32" in rest else BITS.get(name) or int(re.search(r"[SU](\d)", opcode)[1])  # type: ignore[index]
    result = 64 if name == "DMMA" else 16 if rest and rest[0] == "F16" else 32
    return Form(m, n, k, m * k * bits // 1024, k * n * bits // 1024, m * n * result // 1024)


def kernel(instruction: Instruction) -> Kernel:
    """Load A, B and C, multiply, store D: one warp, raw registers."""
    fragments = dict(zip("abcd", instruction.fragments, strict=True))
    operands = ", ".join(ptx.braces(p, fragments[p]) for p in "dabc")
    body = [
        *(line for p in "abc" for line in (*ptx.point(p, "%x", fragments[p]), *ptx.move("ld", p, p, fragments[p]))),
        f"{instruction.name} {operands};",
        *ptx.point("d", "%x", fragments["d"]),
        *ptx.move("st", "d", "d", fragments["d"]),
    ]
    name = f"trace_{ptx.identifier(instruction.id)}"
    text = ptx.entry(name, "abcd", [ptx.declare(p, fragments[p]) for p in "abcd"], body)
    return Kernel(name, Multiply(instruction), text, instruction.target.at_least(ptx.ALIGNED))


def trace(code: Code, instruction: Instruction) -> Trace:
    """Run the code of `kernel(instruction)` on tags. UnreadError where a word is computed, not moved."""
    words = [ptx.thread_bytes(f) // 4 for f in instruction.fragments]
    data = [_tags(number, count) for number, count in enumerate(words[:3], 1)]
    images = [Image(base, d.view(np.uint8).reshape(-1)) for base, d in zip(BASES, data, strict=False)]
    output = np.zeros((THREADS, words[3]), np.uint32)
    images.append(Image(BASES[3], output.view(np.uint8).reshape(-1)))
    parameters = b"".join(base.to_bytes(8, "little") for base in BASES) + bytes(4)
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    machine = Machine(1, images, parameters, code.parameter_base)
    steps: list[Step] = []
    names = {name for name in code.opcodes if name.split(".")[0] in TENSOR}
    machine.run(code.instructions, code.start, OPCODES | {name: _multiply(name, steps) for name in names})
    return Trace(tuple(steps), tuple(_word(output[:, j]) for j in range(words[3])))


def _tags(operand: int, count: int) -> np.ndarray:
    lanes = np.arange(THREADS, dtype=np.uint32)[:, None]
    return np.ascontiguousarray(operand << 24 | np.arange(count, dtype=np.uint32) << 8 | lanes)


def _word(values: np.ndarray) -> Word:
    """The word that all lanes hold, each its own."""
    first = int(values[0])
    if first & 0xFF or not np.array_equal(values, first + np.arange(THREADS, dtype=np.uint32)):
        raise UnreadError("a word is computed or comes from another lane")
    operand = {1: "a", 2: "b", 3: "c"}.get(first >> 24, "d")
    if not 1 <= first >> 24 < RESULT + 64:
        raise UnreadError("a word is computed, not moved")
    step = (first >> 24) - RESULT if operand == "d" else 0
    return Word(operand, step * 256 + (first >> 8 & 0xFFFF))


def _multiply(opcode: str, steps: list[Step]) -> Callable[..., None]:
    def multiply(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand, *rest: Operand) -> None:
        shape = form(opcode)
        if any(str(o) not in ("!PT", "!UPT") for o in rest):
            raise UnreadError(f"{opcode} with these operands is not modelled")
        words = [
            tuple(_word(m.word("R", operand.index + j)) for j in range(count))
            for operand, count in ((a, shape.a), (b, shape.b), (c, 0 if c.index == ZERO else shape.d))
        ]
        number = len(steps)
        steps.append(Step(opcode, *words))
        for j, tags in enumerate(_tags(RESULT + number, shape.d).T):
            m.set("R", d.index + j, tags)

    return multiply
