"""Operand: one argument of an instruction, with what it is for (role) and where it lives (place).

>>> from tcprobe.isa.operand import Operand, Role
>>> e = Operand("e", Role.METADATA, "b2", 16, 8, slot_bits=2, registers=1, selectors=(0, 1, 2, 3))
>>> e.place.value, e.elements, e.where(5)
('registers', 16, (0, 10))
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from math import prod

from tcprobe.errors import RowError
from tcprobe.isa.dtypes import dtype


class Role(Enum):
    """What an operand is for."""

    FACTOR = "factor"
    ACCUMULATOR = "accumulator"
    RESULT = "result"
    SOURCE = "source"
    METADATA = "metadata"
    SCALE = "scale"
    SELECTOR = "selector"
    DESCRIPTOR = "descriptor"
    ADDRESS = "address"


class Place(Enum):
    """Where an operand lives."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    TENSOR_MEMORY = "tensor memory"
    IMMEDIATE = "immediate"


# names of a multiply's operands, in PTX's order
FACTORS = ("a", "b")
INPUTS = (*FACTORS, "c")
MULTIPLIED = (*FACTORS, "d")  # whose slots meet in the structure tensor
ACCUMULATORS = ("c", "d")
MATRICES = (*FACTORS, *ACCUMULATORS)
WRITTEN = ("d", *INPUTS)  # as PTX writes operands and types
SPARSE_INPUTS = (*INPUTS, "e")
OF_WARPGROUP = ("a", "d")  # those of wgmma that may be in registers
# operands of which every slot holds an element of a matrix, each element equally often
WHOLE = (Role.FACTOR, Role.ACCUMULATOR, Role.RESULT, Role.SOURCE)
SELECTED = (Role.METADATA, Role.SCALE, Role.SELECTOR)  # what documented values of a selector belong to


@dataclass(frozen=True)
class Operand:
    """`rows` x `cols` elements of PTX's `type`, each in a slot of `slot_bits` bits of a thread's `registers`.

    For metadata a slot is an index field, for scales a byte, for an address a lane's pointer to one of `rows` rows.
    `registers` is 0 where the operand is in no register. `layout` is the row/col qualifier of a factor, None where PTX
    has none. `selectors` are the documented values of a selector, and of the operand that it selects from: that has a
    table for each of them. `span` is how many columns next to each other a slot speaks for, the first of them standing
    for all. `picks` are the immediates of which a selector's number is made, in PTX's order, the last counting fastest;
    a selector that is an immediate itself has none. `majors` says which of k and m (or n) may be contiguous, of a
    factor in shared memory behind a descriptor. RowError where that contradicts itself.
    """

    name: str
    role: Role
    type: str
    rows: int
    cols: int
    slot_bits: int
    registers: int
    layout: str | None = None
    place: Place = Place.REGISTERS
    selectors: tuple[int, ...] = ()
    span: int = 1
    picks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    majors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        laid_out = self.role is Role.FACTOR and self.place is Place.REGISTERS
        if self.layout not in (("row", "col", None) if laid_out else (None,)):
            raise RowError(f"operand {self.name}: {self.role.value} cannot have layout {self.layout!r}.")
        if dtype(self.type).bits > self.slot_bits:
            raise RowError(f"operand {self.name}: {self.type} does not fit a slot of {self.slot_bits} bits.")
        if (self.registers > 0) != (self.place is Place.REGISTERS):
            raise RowError(f"operand {self.name}: {self.registers} registers, in {self.place.value}.")
        if self.majors and (self.role is not Role.FACTOR or self.place is not Place.SHARED):
            raise RowError(f"operand {self.name}: {self.role.value} in {self.place.value} with majors {self.majors}.")
        selected = self.role in SELECTED and self.place in (Place.REGISTERS, Place.IMMEDIATE)
        if bool(self.selectors) != selected or self.selectors != tuple(range(len(self.selectors))):
            raise RowError(f"operand {self.name}: {self.role.value} cannot have selectors {self.selectors}.")
        if self.picks and prod(len(values) for _, values in self.picks) != len(self.selectors):
            raise RowError(f"operand {self.name}: {self.picks} are not {len(self.selectors)} selectors.")
        if self.span < 1 or self.cols % self.span:
            raise RowError(f"operand {self.name}: {self.cols} columns are not spoken for {self.span} at a time.")

    @property
    def register_bits(self) -> int:
        """64 for f64, else 32."""
        return max(32, self.slot_bits)

    @cached_property
    def whole(self) -> bool:
        """Whether it is in registers, and every slot holds an element of a matrix, each element equally often."""
        return self.place is Place.REGISTERS and self.role in WHOLE

    @cached_property
    def elements(self) -> int:
        """Slots per thread."""
        return self.registers * self.register_bits // self.slot_bits

    @property
    def one(self) -> int:
        """The bit pattern of the number one in a slot."""
        return dtype(self.type).one_in(self.slot_bits)

    def picked(self, selector: int) -> dict[str, int]:
        """The immediates that a selector's number stands for; {"selector": it} where it is an immediate itself."""
        if not self.picks:
            return {"selector": selector}
        immediates: dict[str, int] = {}
        for name, values in reversed(self.picks):
            selector, which = divmod(selector, len(values))
            immediates[name] = values[which]
        return dict(reversed(immediates.items()))

    def where(self, i: int) -> tuple[int, int]:
        """(register, lowest bit) of element i of a thread; 0 <= i < elements."""
        return divmod(i * self.slot_bits, self.register_bits)


@cache
def registers_for(slots: int, slot_bits: int, threads: int) -> int:
    """Registers per thread that `slots` slots of a whole fragment fill; RowError where they fill no whole number."""
    count, rest = divmod(slots * slot_bits, threads * max(32, slot_bits))
    if rest or not count:
        raise RowError(f"{slots} slots of {slot_bits} bits fill no whole registers of {threads} threads.")
    return count
