"""Fragment: an operand that lives in registers, as the threads of a warp or warpgroup hold it together."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.errors import RowError
from tcprobe.isa.arch import Target
from tcprobe.isa.operand import WHOLE, Operand, Role

BYTE = 8
PADDED_FOUR = "b4x16_p64"  # of ldmatrix: rows of 16 elements of 4 bits, and 64 bits of padding


class Shape(NamedTuple):
    """m x n x k of one product: A is m x k, B is k x n, C and D are m x n; k is 0 where a matrix is only moved."""

    m: int
    n: int
    k: int = 0

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}" + (f"k{self.k}" if self.k else "")


def read_shape(cell: str) -> Shape:
    """The shape that PTX writes m16n8k16; ValueError for anything else."""
    if (sizes := re.fullmatch(r"m([0-9]{1,3})n([0-9]{1,3})(?:k([0-9]{1,3}))?", cell)) is None:
        raise ValueError("is not a shape such as m16n8k16 or m8n8")
    return Shape(*(int(size) for size in sizes.groups() if size))


@dataclass(frozen=True)
class Fragment:
    """`instruction` is the PTX form that defines it; `experiment` the id of the measurement that yields its table.

    `shared` says that several multiplies take it (a wmma fragment); `products` how many independent products a warp
    holds (m8n8k4: 4).
    """

    id: str
    experiment: str
    instruction: str
    family: str
    shape: Shape
    held: Operand
    target: Target
    threads: int = 32
    products: int = 1
    shared: bool = False

    def __post_init__(self) -> None:
        if self.held.role in WHOLE:
            check_copies((self.id,), self.slots, self.rows * self.cols * self.products)

    @property
    def operand(self) -> str:
        """Name of the operand: a, b, c, d, ..."""
        return self.held.name

    @property
    def role(self) -> Role:
        """What the operand is for."""
        return self.held.role

    @property
    def layout(self) -> str | None:
        """The row/col qualifier of a factor, None for others."""
        return self.held.layout

    @property
    def depth(self) -> str | None:
        """Which of its coordinates a product sums over: "col" of A (m x k), "row" of B (k x n), None of others."""
        return {"a": "col", "b": "row"}.get(self.operand) if self.role is Role.FACTOR else None

    @property
    def type(self) -> str:
        """PTX's element type."""
        return self.held.type

    @property
    def slot_bits(self) -> int:
        """Width of one element's place in a register."""
        return self.held.slot_bits

    @property
    def container(self) -> str | None:
        """Where in its byte an element of 4 bits is, and who has it elsewhere; None if it fills its slot.

        Source: PTX ISA, section 9.7.14.5.10 (e2m1); CUTLASS, mma_traits_sm120.hpp, fp4_shift_A, which shifts what
        ldmatrix loaded. 6-bit types are the low bits of a byte everywhere.
        """
        if PADDED_FOUR in self.id and self.role is not Role.ADDRESS:
            return "4 bits are the low ones of a byte; mma has e2m1 two higher: shift left by 2"
        if self.type == "e2m1" and self.slot_bits == BYTE:
            return f"e2m1 is in bits 2 to 5 of a byte; ldmatrix {PADDED_FOUR} leaves it two lower: shift left by 2"
        return None

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return self.held.registers

    @property
    def register_bits(self) -> int:
        """64 for f64, else 32."""
        return self.held.register_bits

    @property
    def rows(self) -> int:
        """Rows of the matrix: m for A, C and D, k for B."""
        return self.held.rows

    @property
    def cols(self) -> int:
        """Columns of the matrix: k for A, n for B, C and D."""
        return self.held.cols

    @property
    def elements(self) -> int:
        """Slots per thread."""
        return self.held.elements

    @property
    def slots(self) -> int:
        """Slots of all threads."""
        return self.threads * self.elements

    @property
    def selectors(self) -> tuple[int, ...]:
        """The documented values of the selector, if a selector says which lanes are read."""
        return self.held.selectors

    @property
    def span(self) -> int:
        """Columns next to each other that a slot speaks for."""
        return self.held.span

    @property
    def copies(self) -> int:
        """How often each element is held if every slot is used; 1 where slots may stay unused by design."""
        return self.slots // (self.rows * self.cols * self.products) if self.held.role in WHOLE else 1

    @property
    def one(self) -> int:
        """The bit pattern of the number one in a slot."""
        return self.held.one

    def place(self, i: int) -> tuple[int, int]:
        """(register, lowest bit) of element i of a thread; 0 <= i < elements."""
        return self.held.where(i)


def check_copies(names: tuple[str, ...], held: int, needed: int) -> None:
    """RowError unless `held` slots hold `needed` elements one, two or four times each."""
    if held % needed or held // needed not in (1, 2, 4):
        raise RowError(f"{', '.join(names)}: {held} slots cannot hold {needed} elements one, two or four times each.")
