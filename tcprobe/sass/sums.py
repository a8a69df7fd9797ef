"""What an address of global memory is a sum of: parameters, indices of threads and blocks, and a number.

Followed are the low 32 bits through moves, additions, shifts and multiplies by numbers, as long as every way that leads
to an instruction brings the same sum. What loops change, or what is loaded, is no such sum.

>>> from tcprobe.sass.sums import Sum
>>> Sum(16, {"c[0x0][0x210]": 1, "SR_TID.X": 4}).less(Sum(0, {"c[0x0][0x210]": 1}))
Sum(number=16, terms={'SR_TID.X': 4})
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tcprobe.sass.decode import Form, Operand, Term
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.meaning import MEANINGS, Domain
from tcprobe.sass.registers import BASE


class Sum(NamedTuple):
    """A number and multiples of what stays the same while a thread runs: constants and special registers by name.

    Of numbers that are the same modulo 2^32, `plus` has the one from -2^31 on.
    """

    number: int = 0
    terms: Mapping[str, int] = {}

    def plus(self, other: "Sum", times: int = 1) -> "Sum":
        """The sum of both, the other one a multiple."""
        terms = {
            name: _low(self.terms.get(name, 0) + times * other.terms.get(name, 0))
            for name in (*self.terms, *other.terms)
        }
        return Sum(_low(self.number + times * other.number), {name: count for name, count in terms.items() if count})

    def less(self, other: "Sum") -> "Sum":
        """The difference."""
        return self.plus(other, -1)


def _low(number: int) -> int:
    """The low 32 bits, signed."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


Registers = Mapping[int, Sum]  # by their bit in `sass.registers`


def sums(kernel: Kernel, wanted: Sequence[int]) -> dict[int, Sum | None]:
    """By number of an instruction, the sum that its address of global memory is; None where it is none."""
    start: Registers = {}
    every = at_each(kernel, forward(kernel, start, _step, _joined, _counts), _step, _counts)
    return {i.number: _address(i, registers) for i, registers in every if i.number in wanted}


def _joined(one: Registers, other: Registers) -> Registers:
    return {bit: value for bit, value in one.items() if other.get(bit) == value}


def _counts(form: Form) -> bool:
    return form.writes != 0


def _step(registers: Registers, instruction: Instruction) -> Registers:
    form = instruction.form
    to = form.operands[0]
    meaning = MEANINGS.get(form.mnemonic) if to.kind in ("R", "UR") and to.first >= 0 else None
    made = meaning(SUMS, form, registers).get(0) if meaning else None
    kept = {bit: value for bit, value in registers.items() if not form.writes >> bit & 1}
    if made is not None:
        bit = BASE[to.kind] + to.first
        kept[bit] = made  # also under a guard: there is a way on which it holds
    return kept


def _no_sum(*_: Any, **__: Any) -> None:
    """Of what is no sum of its inputs, or not known to be one."""


class _Sums(Domain["Sum | None"]):
    """Operations that keep a sum one."""

    shift_right = bitwise = choose = exactly = carry = nonzero = reciprocal = staticmethod(_no_sum)
    of_lane = of_the_warp = staticmethod(_no_sum)

    def read(self, operand: Operand, registers: Registers) -> Sum | None:
        """What an operand is a sum of."""
        if operand.kind == "number":
            return Sum(operand.value)
        if operand.kind == "constant":
            return Sum(0, {str(operand): 1}) if operand.parameter is not None and not operand.sign else None
        if operand.kind not in ("R", "UR"):
            return None
        value = _register(operand, registers)
        if value is None or operand.sign == "~" or operand.absolute:
            return None
        return Sum().less(value) if operand.sign else value

    def constant(self, number: int) -> Sum | None:
        """A number."""
        return Sum(number)

    def add(self, a: Sum | None, b: Sum | None) -> Sum | None:
        """a + b."""
        return None if a is None or b is None else a.plus(b)

    def multiply(self, a: Sum | None, b: Sum | None) -> Sum | None:
        """a * b, where one of them is a number."""
        if a is None or b is None or (a.terms and b.terms):
            return None
        return Sum().plus(a, b.number) if a.terms else Sum().plus(b, a.number)

    def shift_left(self, a: Sum | None, count: int) -> Sum | None:
        """A multiple."""
        return self.multiply(a, Sum(1 << count if count < 32 else 0))

    def word(self, operand: Operand, number: int, registers: Registers) -> Sum | None:
        """The low word alone is a sum."""
        return None if number else self.read(operand, registers)

    def uniform(self, value: Sum | None) -> Sum | None:
        """What all lanes have."""
        return value

    def special(self, name: str, form: Form) -> Sum | None:
        """A special register that stays the same while a thread runs."""
        return Sum(0, {name: 1}) if name.startswith(_STAY) else None


SUMS = _Sums()
_STAY = ("SR_TID", "SR_LANEID", "SR_CTAID", "SR_NCTAID", "SR_NTID", "SR_Cga")


def _register(register: Operand | Term, registers: Registers) -> Sum | None:
    return Sum() if register.first < 0 else registers.get(BASE[register.kind] + register.first)


def _address(instruction: Instruction, registers: Registers) -> Sum | None:
    """The last address that an instruction names: of a bulk copy its source, of a store all that it has."""
    operand = [o for o in instruction.operands if o.kind == "address"][-1]
    total = Sum(operand.offset)
    for term in operand.terms:
        value = _register(term, registers)
        if value is None:
            return None
        total = total.plus(value, 1 << term.shift)
    return total
