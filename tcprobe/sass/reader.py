"""The operands of a kernel's instructions: what their lanes hold, by what registers hold.

`lanes` says what is kept of a value. Parameters and indices of blocks are not known, but alike in a warp.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tcprobe.sass import lanes
from tcprobe.sass.decode import Operand
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes, constant
from tcprobe.sass.registers import BASE, bits_of, guard_bit
from tcprobe.sass.state import Held, held_in, unset
from tcprobe.sass.threads import threads

SIZES = ((100, 0x360), (70, 0x0))  # where constant bank 0 has the size of a block, from which arch on


class Reader:
    """Reads operands of a kernel's instructions."""

    def __init__(self, kernel: Kernel) -> None:
        self.threads = threads(kernel)
        sizes = sizes_at(kernel.arch)
        self._sizes = {sizes + 4 * j: size for j, size in enumerate(self.threads.size)}

    def read(self, operand: Operand, held: Held) -> Lanes:
        """What an operand holds, with its sign."""
        if operand.kind == "number":
            return constant(operand.value)
        if operand.kind == "constant":
            return self.in_constant_bank(operand, held)
        if operand.kind not in BASE:
            return lanes.unless_alike("a value that is not followed", *self.inputs(operand.mask, held))
        value = held_in(operand.kind, operand.first, held).value
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

    def in_constant_bank(self, operand: Operand, held: Held) -> Lanes:
        """What is at a place of a constant bank."""
        place = operand.parameter
        if place in self._sizes and not operand.sign:
            return self._sizes[place]
        return lanes.unless_alike("a constant that lanes index", *self.inputs(operand.mask, held))

    def inputs(self, mask: int, held: Held) -> Iterator[Lanes]:
        """What the registers of a set hold."""
        for bit in bits_of(mask):
            yield (held.get(bit) or unset(bit)).value

    def address(self, operand: Operand, held: Held) -> Lanes:
        """The sum in square brackets, its low 32 bits."""
        terms = tuple((held_in(term.kind, term.first, held).value, term.shift) for term in operand.terms)
        return _address(terms, operand.offset)

    def condition(self, guard: str, held: Held) -> Lanes:
        """Whether a guard is true."""
        if not guard:
            return constant(1)
        if guard == "never":
            return constant(0)
        bit = guard_bit(guard)
        value = (held.get(bit) or unset(bit)).value
        return lanes.inverse(value) if guard[0] == "!" else value

    def taken(self, branch: Instruction, held: Held) -> Lanes:
        """The condition of a branch."""
        taken = self.condition(branch.guard, held)
        for operand in branch.operands[:-1]:
            if operand.kind in ("P", "UP"):
                taken = lanes.bitwise(lanes.AND_AB, taken, self.read(operand, held), constant(0))
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
