"""Which registers a tensor-core instruction multiplies: runs a multiply's code on registers that hold their own names.

Every 32-bit word of A, B and C holds a tag (operand, number of the word, lane). Before a tensor-core opcode the code
only moves words, so the tags at the opcode show which words it multiplies. Its results get tags too; where these are
stored shows which words of D they are. Code that computes A or B (an emulated form) is refused. C and D may be
converted from or to another type; such words are marked.

HMMA.884 (Volta; Turing for mma.m8n8k4) is a sequence STEP0, STEP1, ... that takes A and B once and makes D in parts: it
counts as one instruction. Each quad pair of the warp (lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3) has its own
product (PTX ISA 9.1, section 9.7.14.5.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction, tensor_opcodes
from tcprobe.isa.operand import FACTORS
from tcprobe.probes import ptx
from tcprobe.probes.multiply import Multiply
from tcprobe.probes.ptx import Kernel
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.machine import ZERO, Image, Machine
from tcprobe.sass.opcodes import OPCODES

BASES = (0x7F12_3456_0000, 0x7E98_7654_0000, 0x7D0F_1E2D_0000, 0x7C55_AA33_0000)
RESULT = 4  # tag of a word that a tensor-core instruction made; 1, 2, 3 are a, b, c
CONVERTED = np.uint32(0xFF000000)  # the result of any conversion
CONVERSIONS = ("F2F.F16.F32", "F2FP.PACK_AB", "F2FP.F16.PACK_AB", "F2FP.F16.F32.PACK_AB", "HADD2.F32")
# all names that are modelled; another modifier makes another instruction
NARROW = "E[2-5]M[1-3]"
KNOWN = re.compile(
    r"HMMA\.(884\.F(16\.F16|32\.F(16|32))|(1688|16816)\.F(16|32(\.BF16)?)|168[48]\.F32\.TF32)"
    r"|IMMA\.(8816|16816|16832)\.[SU]8\.[SU]8|IMMA\.(8832|16832|16864)\.[SU]4\.[SU]4"
    r"|BMMA\.(88128|168128|168256)\.(AND|XOR)\.POPC|DMMA\.(884|8x8x4|16x8x(4|8|16))"
    rf"|QMMA\.168(16|32)\.F(16|32)\.{NARROW}\.{NARROW}"
)
BITS = {"HMMA": 16, "BMMA": 1, "DMMA": 64, "QMMA": 8}


@dataclass(frozen=True)
class Word:
    """Where a word comes from: operand "a", "b" or "c" and its number; or "d" and step * 256 + number."""

    operand: str
    number: int


@dataclass(frozen=True)
class Step:
    """One tensor-core instruction: opcode, and the words that it multiplies and adds; None for a converted word."""

    opcode: str
    a: tuple[Word, ...]
    b: tuple[Word, ...]
    c: tuple[Word | None, ...]


@dataclass(frozen=True)
class Traced:
    """All steps of a multiply in order, and the result that is stored in every word of D.

    `stored` is None if the results are converted, and so not followed to D.
    """

    steps: tuple[Step, ...]
    stored: tuple[Word, ...] | None


@dataclass(frozen=True)
class Form:
    """A tensor-core opcode: shape of one product, registers per thread, and products per warp."""

    m: int
    n: int
    k: int
    a: int
    b: int
    c: int
    d: int
    products: int = 1

    @property
    def parts(self) -> int:
        """How many STEPs make up the instruction; each makes two words of D."""
        return self.d // 2 if self.products > 1 else 1

    def product(self, lane: int) -> int:
        """The product that the lane takes part in."""
        return lane >> 2 & 3 if self.products > 1 else 0


@cache
def form(opcode: str) -> Form:
    """The form from an opcode's name: HMMA.16816.F32 is m16n8k16 of 16-bit types with 32-bit results."""
    if not KNOWN.fullmatch(re.sub(r"\.(ROW|COL)", "", opcode)):
        raise UnreadError(f"opcode {opcode} is not modelled")
    name, digits, *rest = opcode.split(".")
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)|(16|8)(8)(\d+)", digits)
    assert match
    m, n, k = (int(g) for g in match.groups() if g)
    bits = 32 if "TF32" in rest else BITS.get(name) or int(re.search(r"[SU](\d)", opcode)[1])  # type: ignore[index]
    d = 64 if name == "DMMA" else 16 if rest and rest[0] == "F16" else 32
    products, c = (4, 16 if rest[1] == "F16" else 32) if (name, digits) == ("HMMA", "884") else (1, d)
    words = [size * products // 1024 for size in (m * k * bits, k * n * bits, m * n * c, m * n * d)]
    return Form(m, n, k, words[0], words[1], words[2], words[3], products)


def computes(opcode: str, instruction: Instruction, turned: bool) -> bool:
    """Whether the opcode multiplies the types of A and B, `turned` of B and A, and with their .ROW and .COL, if any."""
    a, b = (instruction.type(operand).upper() for operand in (reversed(FACTORS) if turned else FACTORS))
    row, col = ((factor.layout or "").upper() for factor in instruction.factors)
    patterns = {
        "F16": rf"HMMA\.(884(\.F\d+)+\.{row}\.{col}|\d+\.F\d+)",
        "BF16": r"HMMA\.\d+\.F32\.BF16",
        "TF32": r"HMMA\.\d+\.F32\.TF32",
        "F64": r"DMMA\.[\dx]+",
        "B1": rf"BMMA\.\d+\.{(instruction.bit_op or '').upper()}\.POPC\.ROW\.COL",
    }
    other = rf"IMMA\.\d+\.{a}\.{b}\.ROW\.COL|QMMA\.\d+\.F\d+\.{a}\.{b}"
    return re.fullmatch(patterns.get(a, other), opcode) is not None


def name(opcode: str, a: Operand, b: Operand) -> str:
    """The instruction's full name: without the step, with the order of A and B if operands have one."""
    return re.sub(r"\.STEP\d", "", opcode) + "".join(re.findall(r"\.(?:ROW|COL)", a.view + b.view))


def kernel(instruction: Instruction) -> Kernel:
    """Load A, B and C, multiply, store D: one warp, raw registers."""
    fragments = {f.operand: f for f in instruction.fragments}
    operands = ", ".join(ptx.braces(f.operand, f) for f in instruction.spelled)
    body = [
        *(line for f in instruction.given for p in f.operand for line in (*ptx.point(p, "%x", f), *ptx.load(p, p, f))),
        f"{instruction.name} {operands};",
        *ptx.point("d", "%x", fragments["d"]),
        *ptx.store("d", "d", fragments["d"]),
    ]
    name = f"trace_{ptx.identifier(instruction.id)}"
    text = ptx.entry(name, list(fragments), [ptx.declare(p, f) for p, f in fragments.items()], body)
    return Kernel(name, Multiply(instruction), text, instruction.target)


def trace(code: Code, instruction: Instruction) -> Traced:
    """Run the code of `kernel(instruction)` on tags; UnreadError if a word is computed, not moved."""
    words = [ptx.thread_bytes(f) // 4 for f in instruction.fragments]
    tags = [_tags(number, count) for number, count in enumerate(words[:3], 1)]
    images = [Image(base, d.view(np.uint8).reshape(-1)) for base, d in zip(BASES, tags, strict=False)]
    output = np.zeros((WARP, words[3]), np.uint32)
    images.append(Image(BASES[3], output.view(np.uint8).reshape(-1)))
    parameters = b"".join(base.to_bytes(8, "little") for base in BASES) + bytes(4)
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    machine = Machine(1, images, parameters, code.parameter_base)
    steps: list[Step] = []
    names = tensor_opcodes(code.opcodes)
    opcodes = OPCODES | {name: _multiply(name, steps) for name in names} | dict.fromkeys(CONVERSIONS, _convert)
    stored = None
    try:
        machine.run(code.instructions, code.start, opcodes)
        stored = [_word(output[:, j]) for j in range(words[3])]
    except UnreadError:  # after the last tensor-core instruction, results may be converted
        if sum(form(step.opcode).parts for step in steps) < len(names):
            raise
    if not steps:
        raise UnreadError("no tensor-core instruction is executed")
    shapes = [form(step.opcode) for step in steps]
    if any(len(step.c) != shape.d and (step.c or shape.parts > 1) for step, shape in zip(steps, shapes, strict=True)):
        raise UnreadError("a tensor-core instruction lacks a step")
    return Traced(tuple(steps), tuple(stored) if stored and None not in stored else None)  # type: ignore[arg-type]


def _tags(operand_number: int, count: int, first: int = 0) -> np.ndarray:
    lanes = np.arange(WARP, dtype=np.uint32)[:, None]
    return np.ascontiguousarray(operand_number << 24 | np.arange(first, first + count, dtype=np.uint32) << 8 | lanes)


def _word(tags: np.ndarray) -> Word | None:
    """The word that all lanes hold, each its own; None if it was converted."""
    first = int(tags[0])
    if (tags == CONVERTED).all():
        return None
    if first & 0xFF or not np.array_equal(tags, first + np.arange(WARP, dtype=np.uint32)):
        raise UnreadError("a word is computed or comes from another lane")
    operand = {1: "a", 2: "b", 3: "c"}.get(first >> 24, "d")
    if not 1 <= first >> 24 < RESULT + 64:
        raise UnreadError("a word is computed, not moved")
    step = (first >> 24) - RESULT if operand == "d" else 0
    return Word(operand, step * 256 + (first >> 8 & 0xFFFF))


def _moved_word(tags: np.ndarray) -> Word:
    word = _word(tags)
    if word is None:
        raise UnreadError("a word of A or B is converted")
    return word


def _convert(m: Machine, d: Operand, *_: Operand) -> None:
    """A conversion of one word or two halves, from any type to any."""
    m.write(d, np.full(m.lanes, CONVERTED))


def _multiply(opcode: str, multiplies: list[Step]) -> Callable[..., None]:
    part = int(match[1]) if (match := re.search(r"\.STEP(\d)", opcode)) else 0

    def multiply(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand, *rest: Operand) -> None:
        whole = name(opcode, a, b)
        shape = form(whole)
        if any(o.kind != "R" for o in (d, a, b, c)) or any(str(o) not in ("!PT", "!UPT") for o in rest):
            raise UnreadError(f"{opcode} with these operands is not modelled")
        size = shape.d // shape.parts
        left, right = (
            tuple(_moved_word(m.word("R", operand.encoded + j)) for j in range(count))
            for operand, count in ((a, shape.a), (b, shape.b))
        )
        added = tuple(_word(m.word("R", c.encoded + j)) for j in range(size)) if c.encoded != ZERO else ()
        if part:
            _continue(multiplies, Step(whole, left, right, added), part)
        else:
            multiplies.append(Step(whole, left, right, added))
        for j, tags in enumerate(_tags(RESULT + len(multiplies) - 1, size, part * size).T):
            m.set("R", d.encoded + j, tags)

    return multiply


def _continue(multiplies: list[Step], step: Step, part: int) -> None:
    """Add STEP `part` to its instruction."""
    last = multiplies[-1] if multiplies else None
    if last is None or (last.opcode, last.a, last.b, len(last.c)) != (step.opcode, step.a, step.b, 2 * part):
        raise UnreadError(f"STEP{part} of {step.opcode} does not continue the one before")
    shape, shared = form(step.opcode), step.c == last.c[-2:]
    if shape.c < shape.d and shared != bool(part % 2):  # each word of an f16 C serves two multiplies
        raise UnreadError(f"STEP{part} of {step.opcode} adds C in another order")
    multiplies[-1] = Step(step.opcode, step.a, step.b, last.c + step.c)
