"""MultiplyRow: a dense warp-level multiply by its declared fields; everything else is computed and cross-checked.

>>> from tcprobe.isa.multiply import MultiplyRow
>>> from tcprobe.isa.fragment import Shape
>>> from tcprobe.isa.target import Target
>>> row = MultiplyRow(Shape(16, 8, 16), ("f32", "f16", "f16", "f32"), ("row", "col"), Target("sm_80", "7.0"))
>>> [(o.name, o.role.value, o.registers) for o in row.operands()]
[('d', 'result', 4), ('a', 'factor', 4), ('b', 'factor', 2), ('c', 'accumulator', 4)]

The operands of a row that contradicts itself are a RowError. Source of the rules: PTX ISA 9.1, section 9.7.14.
"""

from functools import cache
from typing import Literal, NamedTuple

from tcprobe.errors import RowError
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape
from tcprobe.isa.operand import Operand, Role, registers_for
from tcprobe.isa.target import Target

ROLES = {"d": Role.RESULT, "a": Role.FACTOR, "b": Role.FACTOR, "c": Role.ACCUMULATOR}  # in PTX's order
# accumulator types that go with a type of A and B (PTX ISA 9.7.14.2, table of data types)
ACCUMULATORS = {
    "f64": {"f64"},
    "tf32": {"f32"},
    "bf16": {"f32"},
    **{name: {"f16", "f32"} for name in ("f16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")},
    **{name: {"s32"} for name in ("s8", "u8", "s4", "u4", "b1")},
}
# types of A and B that may be mixed in one mma instruction
MIXABLE = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
NARROW_FLOATS = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"}
# by kind the bits of a slot of A and B, and the types that go with it (PTX ISA 9.7.14.5.10 and 9.7.14.3)
KINDS: dict[str, tuple[int, set[str]]] = {
    "f8f6f4": (8, NARROW_FLOATS),
    "mxf8f6f4": (8, NARROW_FLOATS),
    "mxf4": (4, {"e2m1"}),
    "mxf4nvf4": (4, {"e2m1"}),
}
OperandTypes = tuple[str, str, str, str]  # of d, a, b, c


class MultiplyRow(NamedTuple):
    """`types` in PTX's order (d, a, b, c), `layouts` of (A, B).

    `registers_ab` overrides the register counts of A and B where PTX states more than the elements need (wmma .f16
    holds copies, PTX ISA 9.7.14.4.1). `mixable` are the groups of types that A and B may have together.
    """

    shape: Shape
    types: OperandTypes
    layouts: tuple[str, str]
    target: Target
    bit_op: Literal["xor", "and"] | None = None
    kind: str | None = None
    registers_ab: tuple[int, int] | None = None
    products: int = 1
    mixable: tuple[frozenset[str] | set[str], ...] = MIXABLE

    def operands(self) -> tuple[Operand, ...]:
        """d, a, b and c with the registers that they take; RowError where the row contradicts itself."""
        _check(self)
        (m, n, k), (d, a, b, c) = self.shape, self.types
        of_a, of_b = self.layouts
        registers_a, registers_b = self.registers_ab or (None, None)
        slot = KINDS[self.kind][0] if self.kind else None
        return (
            _operand("d", d, (m, n), self.products),
            _operand("a", a, (m, k), self.products, (of_a, slot, registers_a)),
            _operand("b", b, (k, n), self.products, (of_b, slot, registers_b)),
            _operand("c", c, (m, n), self.products),
        )


@cache  # many rows have the same ones
def _operand(
    name: str,
    kind: str,
    size: tuple[int, int],
    products: int,
    said: tuple[str | None, int | None, int | None] = (None, None, None),
) -> Operand:
    """`said` are layout, bits of a slot and registers, where the row says them."""
    (rows, cols), (layout, slot, registers) = size, said
    slot = slot or dtype(kind).bits
    registers = registers or registers_for(rows * cols * products, slot, WARP)
    return Operand(name, ROLES[name], kind, rows, cols, slot, registers, layout)


def _check(multiply_row: MultiplyRow) -> None:
    if not set(multiply_row.layouts) <= {"row", "col"} or len(multiply_row.layouts) != 2:
        raise RowError(f"{multiply_row.shape}: layouts {multiply_row.layouts}; A and B are each row or col.")
    _check_types(multiply_row)
    _check_products(multiply_row)


def _check_types(multiply_row: MultiplyRow) -> None:
    d, a, b, c = multiply_row.types
    for name in multiply_row.types:
        dtype(name)
    if a not in ACCUMULATORS or not {d, c} <= ACCUMULATORS[a]:
        raise RowError(f"{multiply_row.shape}: {a} cannot accumulate in d={d}, c={c}.")
    mixable = (NARROW_FLOATS,) if multiply_row.kind else multiply_row.mixable
    if a != b and not any({a, b} <= group for group in mixable):
        raise RowError(f"{multiply_row.shape}: A of {a} and B of {b} cannot be mixed.")
    if bool(multiply_row.bit_op) != (a == "b1"):
        raise RowError(f"{multiply_row.shape}: .b1 needs a bit operation and nothing else has one.")
    if multiply_row.kind and not {a, b} <= KINDS.get(multiply_row.kind, (8, set()))[1]:
        raise RowError(f"{multiply_row.shape}: kind {multiply_row.kind!r} does not fit {a}.")
    if not multiply_row.kind and {"e3m2", "e2m3", "e2m1"} & {a, b}:
        raise RowError(f"{multiply_row.shape}: {a} and {b} need a kind.")


def _check_products(multiply_row: MultiplyRow) -> None:
    if multiply_row.products not in (1, 4) or (
        multiply_row.products == 4 and (multiply_row.shape, multiply_row.types[1]) != ((8, 8, 4), "f16")
    ):
        raise RowError(f"{multiply_row.shape}: {multiply_row.products} products; only mma.m8n8k4 of f16 has four.")
