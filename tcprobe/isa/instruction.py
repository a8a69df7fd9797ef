"""Instruction and Fragment: few declared fields, everything else computed from them and cross-checked.

>>> from tcprobe.isa.instruction import Instruction, Shape
>>> row = Instruction("mma", Shape(16, 8, 16), ("f32", "f16", "f16", "f32"), ("row", "col"), "sm_80", "7.0")
>>> row.name
'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32'
>>> [(f.operand, f.rows, f.cols, f.registers, f.elements) for f in row.fragments]
[('a', 16, 16, 4, 8), ('b', 16, 8, 2, 4), ('c', 16, 8, 4, 4), ('d', 16, 8, 4, 4)]

A row that contradicts itself raises RowError. Source of the rules: PTX ISA 9.1, section 9.7.14.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, NamedTuple

from tcprobe.errors import RowError
from tcprobe.isa import arch
from tcprobe.isa.dtypes import dtype

THREADS = 32
OPERANDS = ("a", "b", "c", "d")

# accumulator types that go with a type of A and B (PTX ISA 9.7.14.2, table of data types)
ACCUMULATORS = {
    "f64": {"f64"},
    "tf32": {"f32"},
    "bf16": {"f32"},
    **{name: {"f16", "f32"} for name in ("f16", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1")},
    **{name: {"s32"} for name in ("s8", "u8", "s4", "u4", "b1")},
}
# types of A and B that may be mixed in one instruction
MIXABLE = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
NARROW_FLOATS = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"}


class Shape(NamedTuple):
    """m x n x k of one product: A is m x k, B is k x n, C and D are m x n."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    def of(self, operand: str) -> tuple[int, int]:
        """(rows, cols) of operand "a", "b", "c" or "d"."""
        if operand == "a":
            return self.m, self.k
        return (self.k, self.n) if operand == "b" else (self.m, self.n)


@cache
def version(text: str) -> tuple[int, int]:
    """A PTX ISA version "8.7" as (8, 7); RowError if it is not one."""
    if not re.fullmatch(r"\d+\.\d+", text):
        raise RowError(f"{text!r} is not a PTX ISA version such as 7.0.")
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Target:
    """Least PTX target and PTX ISA version, and the family target that a later version added, if any."""

    name: str
    ptx: str
    family: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        for name, ptx in self.options:
            if not arch.is_target(name):
                raise RowError(f"{name!r} is not a PTX target of a GPU with tensor cores.")
            least = arch.arch(name.rstrip("af")).ptx
            if version(ptx) < version(least):
                raise RowError(f"PTX {ptx} does not know {name}, which came with PTX {least}.")

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """All (target, PTX version) pairs under which the form is allowed."""
        return ((self.name, self.ptx), *((self.family,) if self.family else ()))

    def at_least(self, ptx: str) -> Target:
        """The same target with a PTX version not below `ptx`."""
        family = self.family and (self.family[0], max(self.family[1], ptx, key=version))
        return Target(self.name, max(self.ptx, ptx, key=version), family)

    def on(self, device: arch.Arch) -> tuple[str, str] | None:
        """The (target, PTX version) to compile with for `device`, None where the form is not allowed."""
        return next((option for option in self.options if arch.runs(device, option[0])), None)


@dataclass(frozen=True)
class Fragment:
    """One operand of an instruction as the threads of a warp hold it.

    `instruction` is the PTX form that defines it; `experiment` the id of the measurement that yields its
    table; `layout` the row/col qualifier of A and B, None for accumulators; `slot_bits` the width of one
    element's place in a register; `products` how many independent products a warp holds (m8n8k4: 4).
    """

    id: str
    experiment: str
    instruction: str
    family: str
    shape: Shape
    operand: str
    layout: str | None
    type: str
    slot_bits: int
    registers: int
    target: Target
    products: int = 1

    def __post_init__(self) -> None:
        if self.operand not in OPERANDS:
            raise RowError(f"{self.id}: operand {self.operand!r} is none of a, b, c, d.")
        if self.layout not in (("row", "col") if self.operand in "ab" else (None,)):
            raise RowError(f"{self.id}: operand {self.operand} cannot have layout {self.layout!r}.")
        if dtype(self.type).bits > self.slot_bits:
            raise RowError(f"{self.id}: {self.type} does not fit a slot of {self.slot_bits} bits.")
        _check_copies(self.id, THREADS * self.elements, self.rows * self.cols * self.products)

    @property
    def threads(self) -> int:
        """Threads that hold the fragment together."""
        return THREADS

    @property
    def rows(self) -> int:
        """Rows of the matrix: m for A, C and D, k for B."""
        return self.shape.of(self.operand)[0]

    @property
    def cols(self) -> int:
        """Columns of the matrix: k for A, n for B, C and D."""
        return self.shape.of(self.operand)[1]

    @property
    def register_bits(self) -> int:
        """64 for f64, else 32."""
        return max(32, self.slot_bits)

    @property
    def elements(self) -> int:
        """Slots per thread."""
        return self.registers * self.register_bits // self.slot_bits

    @property
    def copies(self) -> int:
        """How often each element must be held if every slot is used."""
        return THREADS * self.elements // (self.rows * self.cols * self.products)

    @property
    def one(self) -> int:
        """The bit pattern of the number one in a slot."""
        return dtype(self.type).one_in(self.slot_bits)

    def place(self, i: int) -> tuple[int, int]:
        """(register, lowest bit) of element i of a thread; 0 <= i < elements."""
        return divmod(i * self.slot_bits, self.register_bits)


@dataclass(frozen=True)
class Instruction:
    """One PTX multiply: `types` in PTX's order (d, a, b, c), `layouts` of (A, B).

    `registers_ab` overrides the register counts of A and B where PTX states more than the elements need
    (wmma .f16 holds copies, PTX ISA 9.7.14.4.1). `products` counts independent products per warp.
    """

    family: Literal["wmma", "mma"]
    shape: Shape
    types: tuple[str, str, str, str]
    layouts: tuple[str, str]
    least_target: str
    least_ptx: str
    bit_op: Literal["xor", "and"] | None = None
    kind: str | None = None
    family_target: tuple[str, str] | None = None
    registers_ab: tuple[int, int] | None = None
    products: int = 1

    def __post_init__(self) -> None:
        if self.family not in ("wmma", "mma"):
            raise RowError(f"unknown family {self.family!r}; known: wmma, mma.")
        if not set(self.layouts) <= {"row", "col"} or len(self.layouts) != 2:
            raise RowError(f"{self.family} {self.shape}: layouts {self.layouts}; A and B are each row or col.")
        _check_types(self)
        if self.products not in (1, 4) or (self.products == 4) != (self._is_first_mma):
            raise RowError(f"{self.name}: {self.products} products; only mma.m8n8k4 of f16 has four.")
        _ = self.target  # making it checks it
        for operand in OPERANDS:
            rows, cols = self.shape.of(operand)
            slot, registers = self.slot_bits(operand), self.registers(operand)
            _check_copies(self.name, THREADS * registers * max(32, slot) // slot, rows * cols * self.products)

    @property
    def _is_first_mma(self) -> bool:
        return self.family == "mma" and self.shape == (8, 8, 4) and self.types[1] == "f16"

    @cached_property
    def name(self) -> str:
        """As PTX writes it."""
        d, a, _, c = self.types
        bits = f".{self.bit_op}.popc" if self.bit_op else ""
        layouts = ".".join(self.layouts)
        if self.family == "wmma":
            types = f"{d}.{c}" if a == "f16" else ".".join(self.types)
            return f"wmma.mma{bits}.sync.aligned.{layouts}.{self.shape}.{types}"
        kind = f".kind::{self.kind}" if self.kind else ""
        return f"mma.sync.aligned.{self.shape}.{layouts}{kind}.{'.'.join(self.types)}{bits}"

    @cached_property
    def id(self) -> str:
        """`name` without the qualifiers that every form has."""
        return self.name.replace(".sync.aligned", "")

    @cached_property
    def target(self) -> Target:
        """Least target and PTX version."""
        return Target(self.least_target, self.least_ptx, self.family_target)

    def type(self, operand: str) -> str:
        """Element type of an operand."""
        return self.types["dabc".index(operand)]

    def slot_bits(self, operand: str) -> int:
        """Width of an element's slot: 8 for every A and B type of kind::f8f6f4."""
        return 8 if self.kind and operand in "ab" else dtype(self.type(operand)).bits

    def registers(self, operand: str) -> int:
        """Registers per thread that an operand takes."""
        if self.registers_ab and operand in "ab":
            return self.registers_ab["ab".index(operand)]
        rows, cols = self.shape.of(operand)
        slot = self.slot_bits(operand)
        count, rest = divmod(rows * cols * self.products * slot, THREADS * max(32, slot))
        if rest or not count:
            raise RowError(f"{self.name}: operand {operand} does not fill whole registers.")
        return count

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """The operands a, b, c, d."""
        return tuple(self._fragment(operand) for operand in OPERANDS)

    def _fragment(self, operand: str) -> Fragment:
        layout = self.layouts["ab".index(operand)] if operand in "ab" else None
        if self.family == "wmma":
            return _wmma_fragment(self.shape, operand, layout, self.type(operand), self.registers(operand), self.target)
        return Fragment(
            id=f"{self.id}.{operand}",
            experiment=self.id,
            instruction=self.name,
            family="mma",
            shape=self.shape,
            operand=operand,
            layout=layout,
            type=self.type(operand),
            slot_bits=self.slot_bits(operand),
            registers=self.registers(operand),
            target=self.target,
            products=self.products,
        )


@cache
def _wmma_fragment(  # noqa: PLR0913, PLR0917
    shape: Shape, operand: str, layout: str | None, kind: str, registers: int, target: Target
) -> Fragment:
    """A wmma fragment is shared by all multiplies; the load or store that defines it names it.

    C and D are one experiment: load.c and store.d, by row and by column, must give the same table.
    """
    form = f"{'store' if operand == 'd' else 'load'}.{operand}"
    qualified = f"{operand}.{layout}" if layout else operand
    return Fragment(
        id=f"wmma.{shape}.{qualified}.{kind}",
        experiment=f"wmma.{shape}.{qualified if layout else 'accumulator'}.{kind}",
        instruction=f"wmma.{form}.sync.aligned.{layout or 'row'}.{shape}.{kind}",
        family="wmma",
        shape=shape,
        operand=operand,
        layout=layout,
        type=kind,
        slot_bits=dtype(kind).bits,
        registers=registers,
        target=target,
    )


def _check_copies(name: str, held: int, needed: int) -> None:
    if held % needed or held // needed not in (1, 2, 4):
        raise RowError(f"{name}: {held} slots cannot hold {needed} elements one, two or four times each.")


def _check_types(row: Instruction) -> None:
    d, a, b, c = row.types
    for name in row.types:
        dtype(name)
    if a not in ACCUMULATORS or not {d, c} <= ACCUMULATORS[a]:
        raise RowError(f"{row.family} {row.shape}: {a} cannot accumulate in d={d}, c={c}.")
    mixable = (NARROW_FLOATS,) if row.kind else MIXABLE if row.family == "mma" else ()
    if a != b and not any({a, b} <= group for group in mixable):
        raise RowError(f"{row.family} {row.shape}: A of {a} and B of {b} cannot be mixed.")
    if bool(row.bit_op) != (a == "b1"):
        raise RowError(f"{row.family} {row.shape}: .b1 needs a bit operation and nothing else has one.")
    if row.kind not in (None, "f8f6f4") or (row.kind and a not in NARROW_FLOATS):
        raise RowError(f"{row.family} {row.shape}: kind {row.kind!r} does not go with {a}.")
    if not row.kind and {"e3m2", "e2m3", "e2m1"} & {a, b}:
        raise RowError(f"{row.family} {row.shape}: {a} and {b} need kind::f8f6f4.")
