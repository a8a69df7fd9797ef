"""The operands of a kernel's instructions: what their lanes hold, by what registers hold.

`lanes` says what is kept of a value. Parameters and indices of blocks are not known, but alike in a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array
from tcprobe.sass import lanes
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import CHOICE, UNKNOWN, Lanes, constant
from tcprobe.sass.meaning import Domain
from tcprobe.sass.registers import BASE, bits_of, guard_bit
from tcprobe.sass.state import Registers, read_register, unset
from tcprobe.sass.threads import threads

SIZES = ((100, 0x360), (70, 0x0))  # where constant bank 0 has the size of a block, from which arch on
TID = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z")
ALIKE = ("SR_CTAID", "SR_NCTAID", "SR_NTID", "SR_WARPID", "SR_VIRTID", "SR_SMEMSZ", "SR_SWINHI", "SR_Cga", "SR_SWINLO")
MOST_CLUSTER = 16  # blocks of a cluster


class Reader(Domain[Lanes]):
    """Lanes with unknown bits: reads operands of a kernel's instructions, and says what operations make of them."""

    constant = staticmethod(constant)
    add = staticmethod(lanes.add)
    multiply = staticmethod(lanes.multiply)
    shift_left = staticmethod(lanes.shift_left)
    shift_right = staticmethod(lanes.shift_right)
    bitwise = staticmethod(lanes.bitwise)
    choose = staticmethod(lanes.choose)
    carry = staticmethod(lanes.carry)

    def __init__(self, kernel: Kernel) -> None:
        self.threads = threads(kernel)
        sizes = sizes_at(kernel.arch)
        self._sizes = {sizes + 4 * j: size for j, size in enumerate(self.threads.size)}

    def read(self, operand: Operand, registers: Registers) -> Lanes:
        """What an operand holds, with its sign."""
        if operand.kind == "number":
            return constant(operand.value)
        if operand.kind == "constant":
            return self.in_constant_bank(operand, registers)
        if operand.kind not in BASE:
            return lanes.unless_alike("a value that is not followed", *self.inputs(operand.mask, registers))
        value = read_register(operand.kind, operand.first, registers).value
        if operand.absolute or operand.part:
            return lanes.unless_alike("a part of a register", value)
        match operand.sign:
            case "!":
                return lanes.inverse(value)
            case "-":
                return lanes.negative(value)
            case "~":
                return lanes.complement(value)
        return value

    def word(self, operand: Operand, number: int, registers: Registers) -> Lanes:
        """Of an operand of several words one; of a negative pair, one is carried above where the low word is 0."""
        if number == 0:
            return self.read(operand, registers)
        if operand.kind == "number":
            return constant(operand.value >> 32 * number)
        sign = operand.sign
        if operand.kind == "constant" and not sign and not operand.absolute:
            return self.in_constant_bank(operand._replace(offset=operand.offset + 4 * number), registers)
        if operand.kind not in ("R", "UR") or sign not in ("", "-") or operand.absolute:
            return lanes.unless_alike("a half of a value that is not followed", self.read(operand, registers))
        high = (
            read_register(operand.kind, operand.first + number, registers).value if operand.first >= 0 else constant(0)
        )
        if not sign or operand.first < 0:
            return high
        low = read_register(operand.kind, operand.first, registers).value
        negative = self.exactly(lambda a, b: ~b + (a == 0), low, high)
        return negative or lanes.unless_alike("the high half of a negative", low, high)

    def exactly(self, function: Callable[..., Array | None], *values: Lanes) -> Lanes | None:
        """A function of numbers; None unless all lanes of all values are known, or where the function says None."""
        found = function(*(value.known for value in values)) if all(value.exact for value in values) else None
        return None if found is None else lanes.made(found.astype(np.uint32))

    def nonzero(self, value: Lanes) -> Lanes | None:
        """Whether a value is not 0; None where that is not followed."""
        return self.exactly(lambda a: a != 0, value) or (CHOICE if value.uniform else None)

    def special(self, name: str, form: Form) -> Lanes | None:
        """A special register, as its lanes hold it, or all alike."""
        if name in TID:
            value = self.threads.tid[TID.index(name)]
            return value if form.mnemonic == "S2R" or value.uniform else UNKNOWN
        if name == "SR_LANEID":
            return lanes.made(np.arange(WARP, dtype=np.uint32)[None])
        if name == "SRZ":
            return constant(0)
        if name == "SR_CgaCtaId":
            return lanes.made(np.zeros((1, 1), np.uint32), 0, MOST_CLUSTER - 1)
        return UNKNOWN if name.startswith(ALIKE) else lanes.unknown(f"{name} is not followed")

    def reciprocal(self, value: Lanes) -> Lanes | None:
        """Not known to the last bit."""
        return None

    def uniform(self, value: Lanes) -> Lanes:
        """What a uniform register takes of the lanes."""
        return value if value.uniform else UNKNOWN

    def of_lane(self, value: Lanes, number: int | None, source: Lanes | None) -> Lanes | None:
        """The value that one lane has, or lanes that are not known."""
        if value.uniform:
            return value
        if number is not None and not value.unknown:
            return lanes.made(value.known[:, number : number + 1], value.xor_unknown, value.add_unknown)
        return UNKNOWN if source and source.uniform else lanes.unknown("shuffled")

    def of_the_warp(self, predicate: bool) -> Lanes | None:
        """Alike in all lanes, but not known."""
        return CHOICE if predicate else UNKNOWN

    def in_constant_bank(self, operand: Operand, registers: Registers) -> Lanes:
        """What is at a place of a constant bank."""
        place = operand.parameter
        if place in self._sizes and not operand.sign:
            return self._sizes[place]
        return lanes.unless_alike("a constant that lanes index", *self.inputs(operand.mask, registers))

    def inputs(self, mask: int, registers: Registers) -> Iterator[Lanes]:
        """What the registers of a set hold."""
        for bit in bits_of(mask):
            yield (registers.get(bit) or unset(bit)).value

    def address(self, operand: Operand, registers: Registers) -> Lanes:
        """The sum in square brackets, its low 32 bits."""
        terms = tuple((read_register(term.kind, term.first, registers).value, term.shift) for term in operand.terms)
        return _address(terms, operand.offset)

    def condition(self, guard: str, registers: Registers) -> Lanes:
        """Whether a guard is true."""
        if not guard:
            return constant(1)
        if guard == "never":
            return constant(0)
        bit = guard_bit(guard)
        value = (registers.get(bit) or unset(bit)).value
        return lanes.inverse(value) if guard[0] == "!" else value

    def taken(self, branch: Instruction, registers: Registers) -> Lanes:
        """The condition of a branch."""
        taken = self.condition(branch.guard, registers)
        for operand in branch.operands[:-1]:
            if operand.kind in ("P", "UP"):
                taken = lanes.bitwise(lanes.AND_AB, taken, self.read(operand, registers), constant(0))
        return taken


def sizes_at(arch: str) -> int:
    """Where constant bank 0 has the size of a block, then that of the grid: words of x, y, z."""
    number = int(arch.removeprefix("sm_"))
    return next(place for least, place in SIZES if number >= least)


@lru_cache(maxsize=1 << 13)
def _address(registers: tuple[tuple[Lanes, int], ...], offset: int) -> Lanes:
    """The sum of registers and a number."""
    total = constant(0)
    for value, scale in registers:
        total = lanes.add(total, lanes.shift_left(value, scale) if scale else value)
    return lanes.shared(lanes.add(total, constant(offset)) if offset else total)
