"""The multiplies of a warp from registers: mma.sync, mma.sp and their block-scaled forms, as rows of mma.csv.

>>> from tcprobe.isa.fragment import Shape
>>> from tcprobe.isa.arch import Target
>>> row = MultiplyRow(Shape(16, 8, 16), ("f32", "f16", "f16", "f32"), ("row", "col"), Target("sm_80", "7.0"))
>>> [(o.name, o.role.value, o.registers) for o in row.operands()]
[('d', 'result', 4), ('a', 'factor', 4), ('b', 'factor', 2), ('c', 'accumulator', 4)]

A line stands for its layouts x pairs of A and B types (`ab`) x types of D and C (`dc`), the last counting fastest.

Of sparse forms A is m x k/2: what is stored of it. `selectors` is how many values the sparsity selector has (PTX ISA
9.1, section 9.7.14.6.1): four where one lane of a quad holds the metadata, two where a pair does, one where all do.

A `scale` of NX is that of scale_vec::NX. Of each row of A, and of each column of B, the elements along k are cut into N
blocks of equal length; a block has one scale, so A's are m x N and B's N x n. A lane's register of scales has four
bytes. Two immediates choose: of every four lanes thread-id names the pair that gives A's scales, or the one that gives
B's; byte-id names the first byte.

The operands of a row that contradicts itself are a RowError. Source of the rules: PTX ISA 9.1, section 9.7.14.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Literal, NamedTuple

from tcprobe import facts
from tcprobe.errors import RowError
from tcprobe.isa.arch import WARP, Target, read_target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape, read_shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.inventory import Forms, one_by_one
from tcprobe.isa.operand import Operand, Place, Role, registers_for

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
    if multiply_row.products not in (1, 4) or (
        multiply_row.products == 4 and (multiply_row.shape, multiply_row.types[1]) != ((8, 8, 4), "f16")
    ):
        raise RowError(f"{multiply_row.shape}: {multiply_row.products} products; only mma.m8n8k4 of f16 has four.")


SCALE_BYTES = 4  # of a lane's register
THREAD_IDS = {"scale_a": (0, 1), "scale_b": (0, 1, 2, 3)}  # pairs, and lanes, of four
BIT_OPS = facts.optional(facts.one_of("xor", "and"))
LAYOUTS, TYPES = facts.pairs_of(facts.one_of("row", "col")), facts.pairs_of(dtype)
Pairs = tuple[tuple[str, str], ...]


class MmaRow(NamedTuple):
    """A line of mma.csv: `scale` is the N of scale_vec::NX and the type of scales; `selectors` None of dense forms."""

    form: str
    shape: Shape
    layouts: Pairs
    ab: Pairs
    dc: Pairs
    kind: str | None
    scale: tuple[int, str] | None
    bit_op: Literal["xor", "and"] | None
    products: int
    selectors: int | None
    target: Target
    source: str

    def name(self, layouts: tuple[str, str], types: OperandTypes) -> str:
        """As PTX writes the form with these layouts of A and B, and these types of D, A, B and C."""
        kind = f".kind::{self.kind}" if self.kind else ""
        blocks = f".block_scale.scale_vec::{self.scale[0]}X" if self.scale else ""
        end = f".{self.scale[1]}" if self.scale else f".{self.bit_op}.popc" if self.bit_op else ""
        return f"{self.form}.sync.aligned.{self.shape}.{'.'.join(layouts)}{kind}{blocks}.{'.'.join(types)}{end}"

    def instruction(self, layouts: tuple[str, str], types: OperandTypes) -> Instruction:
        """The same with its operands: of a sparse form also e and the selector, of a scaled one the scales."""
        multiply = MultiplyRow(self.shape, types, layouts, self.target, self.bit_op, self.kind, products=self.products)
        operands = sparse_operands(multiply, self.selectors) if self.selectors else multiply.operands()
        if self.scale:
            vector, kind = self.scale
            sizes = {"scale_a": (self.shape.m, vector), "scale_b": (vector, self.shape.n)}
            operands += tuple(_scale(name, kind, vector, size) for name, size in sizes.items())
        return Instruction(
            self.form.partition("::")[0] + (".block_scale" if self.scale else ""),
            self.name(layouts, types),
            self.shape,
            operands,
            self.target,
            products=self.products,
            bit_op=self.bit_op,
            kind=self.kind,
        )


def forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    """Every form by its PTX name, and what makes it."""
    for row in facts.read(
        __file__,
        "mma.csv",
        MmaRow,
        form=facts.one_of("mma", "mma.sp", "mma.sp::ordered_metadata"),
        shape=read_shape,
        layouts=LAYOUTS,
        ab=TYPES,
        dc=TYPES,
        kind=facts.optional(facts.one_of(*KINDS)),
        scale=facts.optional(_read_scale),
        bit_op=BIT_OPS,
        products=facts.number,
        selectors=facts.optional(facts.number),
        target=read_target,
    ):
        for layouts, (a, b), (d, c) in product(row.layouts, row.ab, row.dc):
            form = (layouts, (d, a, b, c))
            yield row.name(*form), partial(row.instruction, *form)


def _read_scale(cell: str) -> tuple[int, str]:
    vector, dot, kind = cell.partition("X.")
    if vector not in ("1", "2", "4") or not dot:
        raise ValueError("is not a number of scales and their type, such as 2X.ue8m0")
    return int(vector), dtype(kind).name


def sparse_operands(multiply_row: MultiplyRow, count: int) -> tuple[Operand, ...]:
    """d, a, b, c as of the dense multiply, but A stored; e and the selector."""
    d, a, b, c = multiply_row.operands()
    stored = multiply_row.shape.k // 2
    return (d, _stored(a, stored), b, c, *_metadata(a, stored, count))


@cache  # many rows have the same ones
def _stored(operand: Operand, cols: int) -> Operand:
    return replace(operand, cols=cols, registers=registers_for(operand.rows * cols, operand.slot_bits, WARP))


@cache
def _metadata(operand: Operand, cols: int, count: int) -> tuple[Operand, Operand]:
    bits, span = 4 if operand.type == "tf32" else 2, 2 if dtype(operand.type).bits == operand.slot_bits == 4 else 1
    selectors = tuple(range(count))
    e = Operand("e", Role.METADATA, f"b{bits}", operand.rows, cols, bits, 1, selectors=selectors, span=span)
    return e, selector(selectors)


@cache
def selector(selectors: tuple[int, ...]) -> Operand:
    """The immediate that says whose metadata count."""
    return Operand("selector", Role.SELECTOR, "s32", 1, 1, 32, 0, place=Place.IMMEDIATE, selectors=selectors)


@cache  # many types have the same
def _scale(name: str, kind: str, vector: int, size: tuple[int, int]) -> Operand:
    """A register of bytes; the bytes of one block row lie next to each other, so byte-id is a multiple of `vector`."""
    picks = (("byte_id", tuple(range(0, SCALE_BYTES, vector))), ("thread_id", THREAD_IDS[name]))
    selectors = tuple(range(len(picks[0][1]) * len(picks[1][1])))
    return Operand(name, Role.SCALE, kind, *size, 8, 1, selectors=selectors, picks=picks)


INSTRUCTIONS = Forms(
    ("mma", "mma.sp", "mma.block_scale", "mma.sp.block_scale"), ("mma.m", "mma.sp.", "mma.sp::"), one_by_one(forms)
)
