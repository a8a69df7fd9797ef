"""What a tensor-core opcode computes when code is run: the product of its operands, by the opcode's layouts.

Integers are exact. Floats must be whole numbers that all types hold exactly, so rounding does not matter. The sign of a
zero result is not known: half of the warps get +0, the others -0. The opcode's name says what it multiplies; the tables
that anchor it say which element each register holds. An opcode without tables is refused.

A multiply's own code is run on random whole numbers: is D the product that given layouts predict? A multiply is linear
in A, in B and in C. If its code forms another sum of products than the layouts predict, the two differ in some D slot
by a nonzero polynomial of degree 2. For numbers drawn from a set of s it vanishes with a probability of at most 2 / s,
or 3 / 4 if s is 2 (Schwartz and Zippel). So over all `trials` a wrong layout passes with a probability below 1e-15,
however similar the two are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.opcodes import of_kind
from tcprobe.isa.operand import INPUTS
from tcprobe.layout.arrays import Array, Bytes, Ints
from tcprobe.layout.structure import elements, holder
from tcprobe.layout.table import Table, Tables
from tcprobe.probes.slots import FLOATS, decode, encode
from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import Form, Operand, UnreadError
from tcprobe.sass.emulation import EMULATION, whole
from tcprobe.sass.machine import ZERO, Image, Machine
from tcprobe.sass.opcodes import Handler, must
from tcprobe.sass.tensor import BASES, form, name

Layouts = Mapping[str, Tables]  # tables of a, b, c, d by opcode
_HOLDERS: dict[tuple[str, tuple[int, int]], Ints] = {}  # by layout id and size


class Types(NamedTuple):
    """What an opcode multiplies and adds; `bits` is AND or XOR if it counts bits."""

    a: str
    b: str
    d: str
    bits: str = ""


def types(opcode: str) -> Types:
    """The types from an opcode's name; UnreadError if its arithmetic is not modelled."""
    match = re.fullmatch(
        r"(HMMA)\.\d+\.(F16|F32)|(IMMA)\.\d+\.([SU][48])\.([SU][48])\.ROW\.COL"
        r"|(BMMA)\.\d+\.(AND|XOR)\.POPC\.ROW\.COL|(DMMA)\.[\dx]+",
        opcode,
    )
    if not match:
        raise UnreadError(f"what {opcode} computes is not modelled")
    if match[1]:
        return Types("f16", "f16", match[2].lower())
    if match[3]:
        return Types(match[4].lower(), match[5].lower(), "s32")
    return Types("b1", "b1", "s32", match[7]) if match[6] else Types("f64", "f64", "f64")


def is_tensor(step: Form) -> bool:
    """Whether a line is a tensor-core instruction."""
    return step.mnemonic in of_kind("multiply")


def opcode_of(step: Form) -> str:
    """The full name of a tensor-core instruction; UnreadError if its operands are not modelled."""
    if len(step.operands) < 4 or any(str(o) not in ("!PT", "!UPT") for o in step.operands[4:]):
        raise UnreadError(f"{step.opcode} with these operands is not modelled")
    return name(step.opcode, step.operands[1], step.operands[2])


def computing(layouts: Layouts, mnemonic: str) -> Handler:
    """The function of an opcode; `mnemonic` lacks the operands' .ROW and .COL. It refuses opcodes without a layout."""

    def multiply(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand, *rest: Operand) -> None:
        must(all(str(o) in ("!PT", "!UPT") for o in rest), f"{mnemonic} with these operands is not modelled")
        opcode = name(mnemonic, a, b)
        if opcode not in layouts:
            raise UnreadError(f"no layout of {opcode} is known")
        must(bool(m.active.all()) and d.view == "R" and c.view == "R", f"{opcode} in this form is not modelled")
        product(m, opcode, layouts[opcode], (d, a, b, c))

    return multiply


def product(m: Machine, opcode: str, tables: Tables, operands: Sequence[Operand]) -> None:
    """D = A x B + C in the registers of all warps."""
    shape, kinds = form(opcode), types(opcode)
    d, a, b, c = operands
    left = _matrix(m, a, _Layout(shape.a, kinds.a, tables["a"], (shape.m, shape.k)))
    right = _matrix(m, b, _Layout(shape.b, kinds.b, tables["b"], (shape.k, shape.n)))
    total = left @ right
    if kinds.bits == "XOR":  # popc(a ^ b) = a + b - 2ab
        total = left.sum(axis=2)[:, :, None] + right.sum(axis=1)[:, None, :] - 2 * total
    if c.encoded != ZERO:
        must("c" in tables, f"no layout of C of {opcode} is known")
        total = total + _matrix(m, c, _Layout(shape.c, kinds.d, tables["c"], (shape.m, shape.n)))
    if kinds.d in FLOATS:
        total = whole(total, FLOATS[kinds.d])
        total[1::2][total[1::2] == 0] = -0.0
    row, col, _ = elements(tables["d"])
    raw = encode(total[:, row, col], kinds.d, dtype(kinds.d).bits)
    for j, word in enumerate(np.ascontiguousarray(raw).view(np.uint32).reshape(m.lanes, shape.d).T):
        m.set("R", d.encoded + j, np.ascontiguousarray(word))


class _Layout(NamedTuple):
    """How registers hold a matrix: words of a thread, type of an element, table, rows and columns."""

    words: int
    kind: str
    table: Table
    size: tuple[int, int]


def _matrix(m: Machine, operand: Operand, layout: _Layout) -> Array:
    """An operand of all warps as matrices (warps, rows, cols), in 64 bits."""
    words, kind, table, size = layout
    is_operand = operand.view in ("R", "R.ROW", "R.COL") and not operand.sign
    must(is_operand, f"{operand} is not an operand of a multiply")
    if operand.encoded == ZERO:
        return np.zeros((m.lanes // WARP, *size))
    raw = np.stack([m.word("R", operand.encoded + j) for j in range(words)], axis=1)
    numbers = decode(raw.view(np.uint8).reshape(m.lanes // WARP, -1), kind)
    values = whole(numbers, FLOATS[kind]) if kind in FLOATS else numbers.astype(np.float64)
    # the slot that holds each element of one matrix, row by row; UnreadError unless it is exactly one
    key = (table.id, size)
    if key not in _HOLDERS:
        if table.points != size[0] * size[1] or "product" in table.outputs:
            raise UnreadError("a layout that is not of one whole matrix is not modelled")
        _HOLDERS[key] = holder(table, (1, *size)).reshape(-1)
    return values[:, _HOLDERS[key]].reshape(-1, *size)


FACTOR = 4  # floats in A and B are from -FACTOR to FACTOR
ADDEND = (600, 1000)  # bounds of C's magnitude: f16 can hold D, and no D is zero


class Trials(NamedTuple):
    """Numbers by operand (a, b, c), (trials, slots), and the registers that hold them, (trials, bytes)."""

    numbers: Mapping[str, Ints]
    images: Mapping[str, Bytes]


def trials(instruction: Instruction, seed: int = 0) -> Trials:
    """Random numbers for a multiply, the same in every run; another `seed` gives others."""
    count = 128 if instruction.type("a") == "b1" else 32
    numbers = {f.operand: _numbers(f.operand, f.type, count, f.slots, seed) for f in instruction.given}
    return Trials(numbers, images(instruction, numbers))


def images(instruction: Instruction, numbers_by_operand: Mapping[str, Ints]) -> dict[str, Bytes]:
    """Registers that hold the numbers, by operand."""
    return {f.operand: encode(numbers_by_operand[f.operand], f.type, f.slot_bits) for f in instruction.given}


@cache
def _numbers(operand: str, kind: str, count: int, slots: int, seed: int) -> Ints:
    random = np.random.default_rng((ord(operand), count, slots, seed))
    if operand == "c":
        signs = random.choice([-1, 1], (count, slots))
        return np.asarray(random.integers(*ADDEND, (count, slots)) * signs, np.int64)
    bits, half = dtype(kind).bits, kind.startswith("s")
    least, most = (-FACTOR, FACTOR + 1) if dtype(kind).is_float else (-(1 << bits - 1) * half, 1 << bits - half)
    return random.integers(least, most, (count, slots))


def run_multiply(code: Code, instruction: Instruction, register_images: Mapping[str, Bytes], layouts: Layouts) -> Array:
    """D as the code of `tensor.kernel(instruction)` computes it from register images: (images, slots).

    `layouts` are those of its tensor-core opcodes. UnreadError if the code is not followed exactly.
    """
    if code.unread:
        raise UnreadError(next(iter(code.unread.values())))
    d, count = instruction.fragment("d"), len(register_images["a"])
    output = np.zeros((count, d.slots * d.slot_bits // 8), np.uint8)
    arrays = [*(register_images[operand] for operand in INPUTS), output]
    memory = [Image(base, image.reshape(-1)) for base, image in zip(BASES, arrays, strict=True)]
    parameters = b"".join(base.to_bytes(8, "little") for base in BASES) + bytes(4)
    if code.parameter_bytes != len(parameters):
        raise UnreadError(f"the cubin has {code.parameter_bytes} bytes of parameters, the kernel {len(parameters)}")
    mnemonics = {step.opcode for step in code.instructions.values() if is_tensor(step)}
    opcodes = EMULATION | {mnemonic: computing(layouts, mnemonic) for mnemonic in mnemonics}
    Machine(count, memory, parameters, code.parameter_base).run(code.instructions, code.start, opcodes)
    return decode(output, d.type)


def predicted_d(instruction: Instruction, numbers_by_operand: Mapping[str, Ints], tables: Tables) -> Ints:
    """D by the layouts of all four operands, (trials, slots); unused slots are zero."""
    a, b, c, d = (holder(tables[f.operand], (f.products, f.rows, f.cols)) for f in instruction.fragments)
    left, right = numbers_by_operand["a"][:, a].astype(np.float64), numbers_by_operand["b"][:, b].astype(np.float64)
    total = left @ right
    if instruction.bit_op == "xor":  # popc(a ^ b) = a + b - 2ab
        total = left.sum(axis=3)[..., None] + right.sum(axis=2)[:, :, None] - 2 * total
    products = np.zeros((len(total), instruction.fragment("d").slots), np.int64)
    products[:, d.reshape(-1)] = (total + numbers_by_operand["c"][:, c]).reshape(len(total), -1)
    return products


def misfit(fragment: Fragment, computed: Array, predicted: Ints) -> str | None:
    """The first D slot that differs from what the layouts predict, in words; None if there is none."""
    wrong = np.argwhere(computed != predicted)
    if not len(wrong):
        return None
    trial, slot = wrong[0]
    lane, i = divmod(int(slot), fragment.elements)
    return f"D lane {lane} i {i} is {computed[trial, slot]:g}, not {predicted[trial, slot]}"
