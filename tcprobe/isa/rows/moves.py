"""Matrix moves: ldmatrix, stmatrix and movmatrix, PTX ISA 9.1, sections 9.7.14.5.15 to 9.7.14.5.17, as rows.

A row stands for its numbers of matrices, each with and without .trans where PTX allows both. In shared memory every
row of a matrix is `row_bytes` long and has an address of its own; several matrices count their rows on. With .trans the
matrix in memory is the transpose of the one that the shape names; rows and cols are those in memory.
"""

from itertools import product
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.forms import Forms, together
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Place, Role, registers_for
from tcprobe.isa.target import SIGNED, Target

ROW_BYTES = 16  # also of b6x16_p32 and b4x16_p64, whose rows end with 32 and 64 bits of padding; but s4 has none
BLACKWELL = Target(
    "sm_100a",
    "8.6",
    (("sm_110a", "9.0"), ("sm_120a", "8.7"), ("sm_100f", "8.8"), ("sm_110f", "9.0"), ("sm_120f", "8.8")),
)
# operands in PTX's order, and where the matrix in memory stands: it is what is read, or what is written
SPELLED = {"ldmatrix": ("d", "memory", "address"), "stmatrix": ("memory", "address", "a")}


class MemoryRow(NamedTuple):
    """`types` as PTX writes them, and the `kept` type of an element in memory; `trans` says which of both there are.

    `held` is the type in registers.
    """

    family: str
    shape: tuple[int, int]
    numbers: tuple[int, ...]
    trans: tuple[bool, ...]
    types: str
    kept: str
    target: Target
    held: str = "b8"


ROWS = (
    MemoryRow("ldmatrix", (8, 8), (1, 2, 4), (False, True), "b16", "b16", Target("sm_75", "6.5"), "b16"),
    MemoryRow("ldmatrix", (16, 16), (1, 2), (True,), "b8", "b8", BLACKWELL),
    MemoryRow("ldmatrix", (16, 16), (1, 2), (True,), "b8x16.b6x16_p32", "b6", BLACKWELL),
    MemoryRow("ldmatrix", (16, 16), (1, 2), (True,), "b8x16.b4x16_p64", "b4", BLACKWELL),
    MemoryRow("ldmatrix", (8, 16), (1, 2, 4), (False,), "b8x16.b6x16_p32", "b6", BLACKWELL),
    MemoryRow("ldmatrix", (8, 16), (1, 2, 4), (False,), "b8x16.b4x16_p64", "b4", BLACKWELL),
    MemoryRow("ldmatrix", (8, 16), (1, 2, 4), (False,), "s8.s4", "s4", SIGNED, "s8"),
    MemoryRow("stmatrix", (8, 8), (1, 2, 4), (False, True), "b16", "b16", Target("sm_90", "7.8"), "b16"),
    MemoryRow("stmatrix", (16, 8), (1, 2, 4), (True,), "b8", "b8", BLACKWELL),
)


def _instructions(memory_row: MemoryRow) -> list[Instruction]:
    return [_instruction(memory_row, trans, number) for trans, number in product(memory_row.trans, memory_row.numbers)]


def _instruction(memory_row: MemoryRow, trans: bool, number: int) -> Instruction:
    shape = Shape(*memory_row.shape)
    turned = ".trans" if trans else ""
    name = f"{memory_row.family}.sync.aligned.{shape}.x{number}{turned}.shared.{memory_row.types}"
    rows, cols = (shape.n, shape.m) if trans else (shape.m, shape.n)
    operands = {operand.name: operand for operand in _operands(memory_row, rows * number, cols)}
    spelled = tuple(operands[operand] for operand in SPELLED[memory_row.family])
    return Instruction(memory_row.family, name, shape, spelled, memory_row.target)


def _operands(memory_row: MemoryRow, rows: int, cols: int) -> tuple[Operand, ...]:
    """The matrices in registers and in memory, and the address that a lane gives."""
    kept, held, loads = dtype(memory_row.kept), dtype(memory_row.held), memory_row.family == "ldmatrix"
    registers = registers_for(rows * cols, held.bits, WARP)
    source, result = (Role.SOURCE, Role.RESULT) if loads else (Role.RESULT, Role.SOURCE)
    return (
        Operand("d" if loads else "a", result, held.name, rows, cols, held.bits, registers),
        Operand("memory", source, kept.name, rows, cols, kept.bits, 0, place=Place.SHARED),
        Operand("address", Role.ADDRESS, "u32", rows, 1, 32, 1),
    )


def row_bytes(instruction: Instruction) -> int:
    """Bytes of a row in shared memory, which its address is a multiple of."""
    memory = next(operand for operand in instruction.operands if operand.place is Place.SHARED)
    return memory.cols * memory.slot_bits // 8 if memory.type == "s4" else ROW_BYTES


def _movmatrix() -> Instruction:
    d, a = (Operand(name, role, "b16", 8, 8, 16, 1) for name, role in (("d", Role.RESULT), ("a", Role.SOURCE)))
    return Instruction(
        "movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16", Shape(8, 8), (d, a), Target("sm_75", "7.8")
    )


INSTRUCTIONS = Forms(
    ("ldmatrix", "stmatrix", "movmatrix"),
    ("ldmatrix.", "stmatrix.", "movmatrix."),
    together(lambda: [*(instruction for row in ROWS for instruction in _instructions(row)), _movmatrix()]),
)
