"""The warpgroup multiplies wgmma and wgmma.sp of PTX ISA 9.1, section 9.7.15, as rows of wgmma.csv: each has every N.

A is in registers (operand a) or in shared memory (a_smem): PTX has one name for both. B is in shared memory always.
Of sparse forms A is m x k/2: what is stored of it. Only 16-bit types have operands with m or n contiguous (`majors`).
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from math import prod
from typing import Literal, NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import WARPGROUP, Target, read_target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.inventory import Forms, one_by_one
from tcprobe.isa.operand import Operand, Place, Role, registers_for
from tcprobe.isa.rows.mma import BIT_OPS, TYPES, Pairs, selector

M = 64
K_BYTES = 32  # of a dense row of A, and of what is stored of a sparse one


class WarpgroupRow(NamedTuple):
    """A line of wgmma.csv: types of D x pairs of A and B types x N; `selectors` None of dense forms."""

    form: str
    d: tuple[str, ...]
    ab: Pairs
    n: tuple[int, ...]
    bit_op: Literal["and"] | None
    selectors: int | None
    target: Target
    source: str

    def shape(self, a: str, n: int) -> Shape:
        """m64nNkK; K follows from the bytes of a row of A."""
        return Shape(M, n, K_BYTES * 8 // dtype(a).bits * (2 if self.selectors else 1))

    def name(self, d: str, a: str, b: str, n: int) -> str:
        """As PTX writes the form with these types and N."""
        bits = f".{self.bit_op}.popc" if self.bit_op else ""
        return f"{self.form}.sync.aligned.{self.shape(a, n)}.{d}.{a}.{b}{bits}"

    def instruction(self, d: str, a: str, b: str, n: int) -> Instruction:
        """The same with d, a in registers or in shared memory, b in shared memory; of a sparse form its metadata."""
        m, _, k = shape = self.shape(a, n)
        stored = k // 2 if self.selectors else k
        operands = (
            _held("d", Role.RESULT, d, (m, n)),
            _held("a", Role.FACTOR, a, (m, stored)),
            _shared("a_smem", a, (m, stored)),
            _shared("b_smem", b, (k, n)),
            *(_metadata(a, (m, stored), self.selectors) if self.selectors else ()),
        )
        return Instruction(
            "wgmma.sp" if self.selectors else "wgmma",
            self.name(d, a, b, n),
            shape,
            operands,
            self.target,
            threads=WARPGROUP,
            bit_op=self.bit_op,
        )


@cache
def rows() -> tuple[WarpgroupRow, ...]:
    """The lines of wgmma.csv."""
    return facts.read(
        __file__,
        "wgmma.csv",
        WarpgroupRow,
        form=facts.one_of("wgmma.mma_async", "wgmma.mma_async.sp"),
        d=facts.words_of(dtype),
        ab=TYPES,
        n=facts.numbers,
        bit_op=BIT_OPS,
        selectors=facts.optional(facts.number),
        target=read_target,
    )


def _forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    for row in rows():
        for d, (a, b), n in product(row.d, row.ab, row.n):
            yield row.name(d, a, b, n), partial(row.instruction, d, a, b, n)


def widths(a: str) -> tuple[int, ...]:
    """Every N of dense multiplies with A of a type."""
    return next(row.n for row in rows() if a in dict(row.ab))


@cache  # many forms have the same ones
def _held(name: str, role: Role, kind: str, size: tuple[int, int]) -> Operand:
    bits = dtype(kind).bits
    return Operand(name, role, kind, *size, bits, registers_for(prod(size), bits, WARPGROUP))


@cache
def _shared(name: str, kind: str, size: tuple[int, int]) -> Operand:
    bits = dtype(kind).bits
    majors = ("k", "mn") if bits == 16 else ("k",)
    return Operand(name, Role.FACTOR, kind, *size, bits, 0, place=Place.SHARED, majors=majors)


@cache
def _metadata(kind: str, size: tuple[int, int], count: int) -> tuple[Operand, Operand]:
    """The index fields of a register, and the selector that says whose registers count."""
    bits, selectors = 4 if kind == "tf32" else 2, tuple(range(count))
    return Operand("e", Role.METADATA, f"b{bits}", *size, bits, 1, selectors=selectors), selector(selectors)


INSTRUCTIONS = Forms(("wgmma", "wgmma.sp"), ("wgmma.",), one_by_one(_forms), WARPGROUP, opcode="wgmma")
