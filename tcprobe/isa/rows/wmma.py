"""The wmma forms: shapes and types of PTX ISA 9.1, section 9.7.14.4, as rows.

A row stands for its shapes x types x layouts; Instruction computes registers and fragments from it.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple

from tcprobe.isa.instruction import Instruction, Shape

WIDE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
ANY = (("row", "row"), ("row", "col"), ("col", "row"), ("col", "col"))
ROW_COL = (("row", "col"),)


class Row(NamedTuple):
    """Shapes x `types` of A and B x accumulator types of D and of C x layouts of (A, B)."""

    shapes: tuple[tuple[int, int, int], ...]
    types: tuple[str, ...]
    accumulators: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]
    target: str
    ptx: str
    bit_op: Literal["xor", "and"] | None = None
    registers_ab: tuple[int, int] | None = None


ROWS = (
    Row(WIDE[:1], ("f16",), ("f16", "f32"), ANY, "sm_70", "6.0", registers_ab=(8, 8)),
    Row(WIDE[1:], ("f16",), ("f16", "f32"), ANY, "sm_70", "6.1", registers_ab=(8, 8)),
    Row(WIDE, ("bf16",), ("f32",), ANY, "sm_80", "7.0"),
    Row(WIDE, ("u8", "s8"), ("s32",), ANY, "sm_72", "6.3"),
    Row(((16, 16, 8),), ("tf32",), ("f32",), ANY, "sm_80", "7.0"),
    Row(((8, 8, 4),), ("f64",), ("f64",), ANY, "sm_80", "7.0"),
    Row(((8, 8, 32),), ("u4", "s4"), ("s32",), ROW_COL, "sm_75", "6.3"),
    Row(((8, 8, 128),), ("b1",), ("s32",), ROW_COL, "sm_75", "6.3", "xor"),
    Row(((8, 8, 128),), ("b1",), ("s32",), ROW_COL, "sm_80", "7.1", "and"),
)


def _instructions(row: Row) -> list[Instruction]:
    return [
        Instruction(
            "wmma", Shape(*shape), (d, ab, ab, c), layouts, row.target, row.ptx, row.bit_op,
            registers_ab=row.registers_ab,
        )
        for shape, ab, layouts in product(row.shapes, row.types, row.layouts)
        for d, c in product(row.accumulators, repeat=2)
    ]  # fmt: skip


INSTRUCTIONS = tuple(instruction for row in ROWS for instruction in _instructions(row))
