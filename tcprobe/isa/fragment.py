"""Fragment: an operand that lives in registers, as the threads of a warp or warpgroup hold it together."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tcprobe.errors import RowError
from tcprobe.isa.arch import Target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import WHOLE, Operand, Role

BYTE = 8
PADDED_FOUR = "b4x16_p64"  # of ldmatrix: rows of 16 elements of 4 bits, and 64 bits of padding
PADDED_SIX = "b6x16_p32"  # of 6 bits, and 32 bits of padding


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


@dataclass(frozen=True, kw_only=True)
class Fragment(Operand):
    """An operand in registers, as `threads` hold it: A is m x k, B is k x n, C and D are m x n.

    `instruction` is the PTX form that defines it; `experiment` the id of the measurement that yields its table.
    `shared` says that several multiplies take it (a wmma fragment); `products` how many independent products a warp
    holds (m8n8k4: 4).
    """

    id: str
    experiment: str
    instruction: str
    family: str
    shape: Shape
    target: Target
    threads: int = 32
    products: int = 1
    shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role in WHOLE:
            check_copies((self.id,), self.slots, self.rows * self.cols * self.products)

    @property
    def operand(self) -> str:
        """Name of the operand: a, b, c, d, ..."""
        return self.name

    @property
    def depth(self) -> str | None:
        """Which of its coordinates a product sums over: "col" of A (m x k), "row" of B (k x n), None of others."""
        return {"a": "col", "b": "row"}.get(self.name) if self.role is Role.FACTOR else None

    @property
    def label(self) -> str:
        """What its elements are called, as A of A[3][1]; empty of a layout that nobody says to be of an operand."""
        return self.operand.upper()

    @property
    def container(self) -> str | None:
        """Where in its byte an element of 4 or 6 bits is, and who has it elsewhere; None if it fills its slot.

        Source: PTX ISA, section 9.7.14.5.10 (e2m1 two bits up, e2m3 and e3m2 at the low end); CUTLASS,
        mma_traits_sm120.hpp, fp4_shift_A, which shifts what ldmatrix loaded of e2m1, and nothing of 6 bits.
        """
        if PADDED_FOUR in self.id and self.role is not Role.ADDRESS:
            return "4 bits are the low ones of a byte; mma has e2m1 two higher: shift left by 2"
        if PADDED_SIX in self.id and self.role is not Role.ADDRESS:
            return "6 bits are the low ones of a byte, bits 0 to 5, as mma has e2m3 and e3m2"
        if self.role not in WHOLE or self.slot_bits != BYTE or (kind := dtype(self.type)).bits == BYTE:
            return None
        first = kind.container_shift
        of_ldmatrix = f"; ldmatrix {PADDED_FOUR} leaves it two lower: shift left by 2" if first else ""
        return f"{self.type} is in bits {first} to {first + kind.bits - 1} of a byte{of_ldmatrix}"

    @cached_property
    def slots(self) -> int:
        """Slots of all threads."""
        return self.threads * self.elements

    @property
    def copies(self) -> int:
        """How often each element is held if every slot is used; 1 where slots may stay unused by design."""
        return self.slots // (self.rows * self.cols * self.products) if self.role in WHOLE else 1


def check_copies(names: tuple[str, ...], held: int, needed: int) -> None:
    """RowError unless `held` slots hold `needed` elements one, two or four times each."""
    if held % needed or held // needed not in (1, 2, 4):
        raise RowError(f"{', '.join(names)}: {held} slots cannot hold {needed} elements one, two or four times each.")
