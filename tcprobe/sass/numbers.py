"""Numbers in all lanes, a domain of `meaning`: what is not known there is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array, Words
from tcprobe.sass.decode import Form, Operand, UnreadError
from tcprobe.sass.lanes import ALL, looked_up
from tcprobe.sass.meaning import HIGH, MEANINGS, Domain

if TYPE_CHECKING:
    from tcprobe.sass.machine import Machine


class Unknown(NamedTuple):
    """A word of a constant that is not a parameter: it may be moved."""


class Carries(NamedTuple):
    """How many of two predicates are set in each lane; which ones is not known."""

    number: NDArray[np.uint64]


def _none(*_: object) -> None:
    """Of what is not followed."""


class Numbers(Domain[Any]):
    """Words of a machine's lanes, predicates as 0 and 1. UnreadError of a sign that is not a sum's, as of all else."""

    reciprocal = uniform = of_lane = of_the_warp = staticmethod(_none)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, operand: Operand, _: object = None) -> Words:
        """32 bits, or a predicate."""
        if operand.view in ("P", "UP"):
            return self._machine.test(operand).astype(np.uint32)
        return self._machine.read(operand)

    def term(self, operand: Operand, _: object = None) -> Words:
        """32 bits, which may be negated."""
        return self._machine.read(operand, "-")

    def word(self, operand: Operand, number: int, _: object = None) -> Words:
        """A word of a pair of registers, of parameters, or of a number whose sign bit is not in question."""
        if not number:
            return self._machine.read(operand)
        if operand.kind == "number" and operand.value >> 31 < 1:
            return self.constant(operand.value >> 32)
        return (self._machine.read64(operand) >> np.uint64(32)).astype(np.uint32)

    def moved(self, operand: Operand, number: int, _: object = None) -> Words | Unknown:
        """As `word`, or of a constant that is not a parameter."""
        if operand.kind != "constant":
            return self.word(operand, number)
        offset = operand.offset + 4 * number
        if not operand.sign and not self._machine.is_parameter(offset, 4):
            return Unknown()
        return self._machine.read(operand._replace(offset=offset))

    def carries(self, operands: Sequence[Operand], _: object = None) -> Sequence[Words]:
        """Their sum: two may count only together."""
        return [self._machine.carries(operands).astype(np.uint32)]

    def two_carries(self, count: Words) -> Carries:
        """Both together."""
        return Carries(count.astype(np.uint64))

    def special(self, name: str, form: Form) -> Words:
        """The special registers of lanes."""
        lane = np.arange(self._machine.lanes, dtype=np.uint32)
        by_name = {"SR_TID.X": lane % WARP, "SR_LANEID": lane % WARP, "SR_CTAID.X": lane // WARP, "SRZ": lane * 0}
        if name not in by_name:
            raise UnreadError(f"special register {name} is not modelled")
        return by_name[name].astype(np.uint32)

    def constant(self, number: int) -> Words:
        """The same number in all lanes."""
        return np.full(self._machine.lanes, number & ALL, np.uint32)

    def add(self, a: Words, b: Words) -> Words:
        """a + b."""
        return a + b

    def multiply(self, a: Words, b: Words) -> Words:
        """The low 32 bits of a * b."""
        return a * b

    def carry(self, *values: Words) -> Words:
        """How often the sum of all exceeds 32 bits."""
        total = sum((value.astype(np.uint64) for value in values), np.zeros(self._machine.lanes, np.uint64))
        return (total >> np.uint64(32)).astype(np.uint32)

    def shift_left(self, a: Words, count: int) -> Words:
        """a << count."""
        return a << np.uint32(count) if count < 32 else self.constant(0)

    def shift_right(self, a: Words, count: int, signed: bool = False) -> Words:
        """a >> count."""
        if signed:
            return (a.view(np.int32) >> np.int32(min(count, 31))).view(np.uint32)
        return a >> np.uint32(count) if count < 32 else self.constant(0)

    def bitwise(self, table: int, a: Words, b: Words, c: Words) -> Words:
        """Each bit by a table, as LOP3 does it."""
        return looked_up(table, (a, b, c))

    def choose(self, condition: Words, a: Words, b: Words) -> Words:
        """a where the condition is set, else b."""
        chosen: Words = np.where(condition & 1, a, b)
        return chosen

    def exactly(self, function: Callable[..., Array | None], *values: Words) -> Words | None:
        """A function of numbers."""
        found = function(*values)
        return None if found is None else found.astype(np.uint32)

    def nonzero(self, value: Words) -> Words:
        """Whether it is not 0."""
        truths: Words = (value != 0).astype(np.uint32)
        return truths


def compute(machine: Machine, form: Form) -> None:
    """Write what an instruction means; UnreadError unless it is known of all that it writes."""
    meaning = MEANINGS.get(form.mnemonic)
    if meaning is None:
        raise UnreadError(f"opcode {form.opcode} is not modelled")
    results = meaning(Numbers(machine), form, {})
    if not results:
        raise UnreadError(f"opcode {form.opcode} with these operands is not modelled")
    counted: list[tuple[Operand, Carries]] = []
    for j, operand in enumerate(form.operands[: form.outputs]):
        words: list[Any] = [results.get(j + HIGH * word) for word in range(operand.width)] if operand.first >= 0 else []
        if any(word is None for word in words):
            raise UnreadError(f"what {form.opcode} gives {operand} is not modelled")
        if words and isinstance(words[0], Carries):
            counted.append((operand, words[0]))
        elif words and operand.kind in ("P", "UP"):
            machine.decide(operand, words[0] & 1 != 0)
        elif words:
            machine.write(operand, *(None if isinstance(word, Unknown) else word for word in words))
    if len(counted) == 1:
        raise UnreadError("one carry of three terms is not modelled")
    if counted:
        (first, carries), (second, _) = counted
        machine.pair(first, second, carries.number)
