"""A family that no GPU has: 128 threads, 12 elements of D, stored columns chosen by metadata under two selectors."""

from tcprobe.isa.arch import WARPGROUP, Target
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.inventory import Forms, all_at_once
from tcprobe.isa.operand import Operand, Place, Role, registers_for

SHAPE = Shape(64, 24, 32)


def _operand(name, role, kind, rows, cols, bits, **more):
    return Operand(name, role, kind, rows, cols, bits, registers_for(rows * cols, bits, WARPGROUP), **more)


def _instruction(kind):
    m, n, k = SHAPE
    operands = (
        _operand("d", Role.RESULT, "f32", m, n, 32),
        _operand("a", Role.FACTOR, kind, m, k // 2, 16, layout="row"),
        _operand("b", Role.FACTOR, kind, k, n, 16, layout="col"),
        _operand("c", Role.ACCUMULATOR, "f32", m, n, 32),
        Operand("e", Role.METADATA, "b2", m, k // 2, 2, 1, selectors=(0, 1)),
        Operand("selector", Role.SELECTOR, "s32", 1, 1, 32, 0, place=Place.IMMEDIATE, selectors=(0, 1)),
    )
    name = f"drymma.sync.aligned.{SHAPE}.row.col.f32.{kind}.{kind}.f32"
    return Instruction("drymma", name, SHAPE, operands, Target("sm_90a", "8.0"), threads=WARPGROUP)


INSTRUCTIONS = Forms(
    ("drymma",), ("drymma.",), all_at_once(lambda: [_instruction("f16"), _instruction("bf16")]), WARPGROUP
)
