"""Matrix moves: ldmatrix, stmatrix and movmatrix, PTX ISA 9.1, sections 9.7.14.5.15 to 17, as rows of moves.csv.

A line stands for its numbers of matrices, each with and without .trans where PTX allows both. In shared memory every
row of a matrix is `row_bytes` long and has an address of its own; several matrices count their rows on. With .trans the
matrix in memory is the transpose of the one that the shape names; rows and cols are those in memory.
"""

from functools import cache
from itertools import product
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import WARP, Target, read_target
from tcprobe.isa.dtypes import DType, dtype
from tcprobe.isa.fragment import Shape, read_shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.inventory import Forms, all_at_once
from tcprobe.isa.operand import Operand, Place, Role, registers_for

ROW_BYTES = 16  # also of b6x16_p32 and b4x16_p64, whose rows end with 32 and 64 bits of padding; but s4 has none
# operands in PTX's order, and where the matrix in memory stands: it is what is read, or what is written
SPELLED = {"ldmatrix": ("d", "memory", "address"), "stmatrix": ("memory", "address", "a"), "movmatrix": ("d", "a")}


class MoveRow(NamedTuple):
    """A line of moves.csv: `types` as PTX writes them, an element's type as `kept` in memory and `held` in registers.

    `trans` says whether there are forms with .trans, without, or both; movmatrix has no numbers of matrices.
    """

    family: str
    shape: Shape
    numbers: tuple[int, ...]
    trans: tuple[str, ...]
    types: str
    kept: DType
    held: DType
    target: Target
    source: str


@cache
def rows() -> tuple[MoveRow, ...]:
    """The lines of moves.csv."""
    return facts.read(
        __file__,
        "moves.csv",
        MoveRow,
        family=facts.one_of(*SPELLED),
        shape=read_shape,
        numbers=facts.numbers,
        trans=facts.words_of(facts.one_of("plain", "trans")),
        kept=dtype,
        held=dtype,
        target=read_target,
    )


def _instructions() -> list[Instruction]:
    return [
        _instruction(row, trans, number) for row in rows() for trans, number in product(row.trans, row.numbers or (1,))
    ]


def _instruction(move: MoveRow, trans: str, number: int) -> Instruction:
    qualifiers = [
        f"x{number}" if move.numbers else "",
        "trans" if trans == "trans" else "",
        "shared" if move.numbers else "",
    ]
    name = ".".join([move.family, "sync.aligned", str(move.shape), *filter(None, qualifiers), move.types])
    rows, cols = move.shape[:2] if trans == "plain" else reversed(move.shape[:2])
    operands = {operand.name: operand for operand in _operands(move, rows * number, cols)}
    spelled = tuple(operands[operand] for operand in SPELLED[move.family])
    return Instruction(move.family, name, move.shape, spelled, move.target)


def _operands(move: MoveRow, rows: int, cols: int) -> tuple[Operand, ...]:
    """The matrices in registers and in memory, and the address that a lane gives."""
    kept, held = move.kept, move.held
    registers = registers_for(rows * cols, held.bits, WARP)
    source = Role.RESULT if move.family == "stmatrix" else Role.SOURCE
    return (
        Operand("d", Role.RESULT, held.name, rows, cols, held.bits, registers),
        Operand("a", Role.SOURCE, held.name, rows, cols, held.bits, registers),
        Operand("memory", source, kept.name, rows, cols, kept.bits, 0, place=Place.SHARED),
        Operand("address", Role.ADDRESS, "u32", rows, 1, 32, 1),
    )


def row_bytes(instruction: Instruction) -> int:
    """Bytes of a row in shared memory, which its address is a multiple of."""
    memory = next(operand for operand in instruction.operands if operand.place is Place.SHARED)
    return memory.cols * memory.slot_bits // 8 if memory.type == "s4" else ROW_BYTES


INSTRUCTIONS = Forms(tuple(SPELLED), tuple(f"{family}." for family in SPELLED), all_at_once(_instructions))
