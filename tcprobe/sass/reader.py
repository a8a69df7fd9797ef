"""The operands of a kernel's instructions: what their lanes hold, by what registers hold.

`lanes` says what is kept of a value. Parameters and indices of blocks are not known, but alike in a warp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tcprobe.sass import lanes
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.lanes import Lanes, constant
from tcprobe.sass.registers import BASE, Operand, bits_of, guard_bit
from tcprobe.sass.state import Held, held_in, unset
from tcprobe.sass.threads import threads

SIZES = ((100, 0x360), (70, 0x0))  # where constant bank 0 has the size of a block, from which arch on
_CONSTANT = re.compile(r"-?c\[0x0\]\[(0x[0-9a-f]+)\]")
_PART = re.compile(r"(UR|R)([0-9]+|Z)((?:\.\w+)*)|([+-]{0,2}0x[0-9a-f]+)")
_SCALE = {"X4": 2, "X8": 3, "X16": 4}


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
        return lanes.inverse(value) if operand.negated else _signed_value(operand.text.replace(".reuse", ""), value)

    def in_constant_bank(self, operand: Operand, held: Held) -> Lanes:
        """What is at a place of a constant bank."""
        match = _CONSTANT.fullmatch(operand.text.replace(".reuse", ""))
        if match and operand.text[:1] != "-" and int(match[1], 16) in self._sizes:
            return self._sizes[int(match[1], 16)]
        return lanes.unless_alike("a constant that lanes index", *self.inputs(operand.mask, held))

    def inputs(self, mask: int, held: Held) -> Iterator[Lanes]:
        """What the registers of a set hold."""
        for bit in bits_of(mask):
            yield (held.get(bit) or unset(bit)).value

    def address(self, operand: Operand, held: Held) -> Lanes:
        """The sum in square brackets, its low 32 bits."""
        parts, offset = _parts(operand.text.rpartition("[")[2])
        return _address(tuple((held_in(kind, index, held).value, scale) for kind, index, scale in parts), offset)

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
def _parts(text: str) -> tuple[tuple[tuple[str, int, int], ...], int]:
    """The registers of an address, each with its scale, as a shift, and the sum of its numbers."""
    registers, offset = [], 0
    for part in _PART.finditer(text):
        if part[4]:
            offset += _signed(part[4])
        else:
            scale = next((_SCALE[s] for s in part[3].split(".") if s in _SCALE), 0)
            registers.append((part[1], int(part[2]) if part[2] != "Z" else -1, scale))
    return tuple(registers), offset


@lru_cache(maxsize=1 << 13)
def _address(registers: tuple[tuple[Lanes, int], ...], offset: int) -> Lanes:
    """The sum of registers and a number."""
    total = constant(0)
    for value, scale in registers:
        total = lanes.add(total, lanes.shift_left(value, scale) if scale else value)
    return lanes.shared(lanes.add(total, constant(offset)) if offset else total)


def _signed_value(text: str, value: Lanes) -> Lanes:
    """A register with its sign, as an operand's text has it."""
    if "|" in text or "." in text:
        return lanes.unless_alike("a part of a register", value)
    if text[:1] == "-":
        return lanes.negative(value)
    return lanes.complement(value) if text[:1] == "~" else value


def _signed(text: str) -> int:
    return (-1 if "-" in text else 1) * int(text.lstrip("+-"), 16)
