"""What an address of global memory is a sum of: parameters, indices of threads and blocks, and a number.

Followed are the low 32 bits through moves, additions, shifts and multiplies by numbers, as long as every way that leads
to an instruction brings the same sum. What loops change, or what is loaded, is no such sum.

>>> from tcprobe.sass.sums import Sum
>>> Sum(16, {"c[0x0][0x210]": 1, "SR_TID.X": 4}).less(Sum(0, {"c[0x0][0x210]": 1}))
Sum(number=16, terms={'SR_TID.X': 4})
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tcprobe.sass.decode import Form, Operand, Term
from tcprobe.sass.flow import at_each, forward
from tcprobe.sass.kernel import Instruction, Kernel
from tcprobe.sass.registers import BASE


class Sum(NamedTuple):
    """A number and multiples of what stays the same while a thread runs: constants and special registers by name."""

    number: int = 0
    terms: Mapping[str, int] = {}

    def plus(self, other: "Sum", times: int = 1) -> "Sum":
        """The sum of both, the other one a multiple."""
        terms = {
            name: self.terms.get(name, 0) + times * other.terms.get(name, 0) for name in (*self.terms, *other.terms)
        }
        return Sum(self.number + times * other.number, {name: count for name, count in terms.items() if count})

    def less(self, other: "Sum") -> "Sum":
        """The difference."""
        return self.plus(other, -1)


Held = Mapping[int, Sum]  # by bit of a register, see `registers`


def sums(kernel: Kernel, wanted: Sequence[int]) -> dict[int, Sum | None]:
    """By number of an instruction, the sum that its address of global memory is; None where it is none."""
    start: Held = {}
    every = at_each(kernel, forward(kernel, start, _step, _joined), _step)
    return {i.number: _address(i, held) for i, held in every if i.number in wanted}


def _joined(one: Held, other: Held) -> Held:
    return {bit: held for bit, held in one.items() if other.get(bit) == held}


def _step(held: Held, instruction: Instruction) -> Held:
    form = instruction.form
    if not form.writes:
        return held
    to = form.operands[0]
    made = _made(form, held) if to.kind in ("R", "UR") and to.first >= 0 else None
    kept = {bit: value for bit, value in held.items() if not form.writes >> bit & 1}
    if made is not None:
        bit = BASE[to.kind] + to.first
        kept[bit] = made  # also under a guard: there is a way on which it holds
    return kept


def _made(form: Form, held: Held) -> Sum | None:
    """What an instruction writes into its first register."""
    sources = [o for o in form.operands[form.outputs :] if o.kind not in ("P", "UP")]
    if form.mnemonic in ("S2R", "S2UR"):
        return Sum(0, {sources[0].text: 1})
    if form.mnemonic in ("LDC", "ULDC", "MOV", "UMOV", "R2UR", "CS2R") and len(sources) == 1:
        return _read(sources[0], held)
    values = [value for source in sources if (value := _read(source, held)) is not None]
    if len(values) < len(sources) or form.has("X") or form.has("HI"):
        return None
    if form.mnemonic in ("IADD3", "UIADD3", "IADD", "VIADD", "UIADD"):
        return _total(values)
    if form.mnemonic in ("LEA", "ULEA") and len(values) == 3 and not values[2].terms:
        return values[1].plus(values[0], 1 << values[2].number)
    return _product(values) if form.mnemonic in ("IMAD", "UIMAD") and len(values) == 3 else None


def _total(values: Sequence[Sum]) -> Sum:
    total = Sum()
    for value in values:
        total = total.plus(value)
    return total


def _product(values: Sequence[Sum]) -> Sum | None:
    """a b + c, where a or b is a number."""
    a, b, c = values
    if b.terms:
        a, b = b, a
    return None if b.terms else c.plus(a, b.number)


def _read(operand: Operand, held: Held) -> Sum | None:
    if operand.kind == "number":
        return Sum(operand.value)
    if operand.kind == "constant":
        return Sum(0, {str(operand): 1}) if operand.parameter is not None and not operand.sign else None
    if operand.kind not in ("R", "UR"):
        return None
    value = _held(operand, held)
    if value is None or operand.sign == "~" or operand.absolute:
        return None
    return Sum().less(value) if operand.sign else value


def _held(register: Operand | Term, held: Held) -> Sum | None:
    return Sum() if register.first < 0 else held.get(BASE[register.kind] + register.first)


def _address(instruction: Instruction, held: Held) -> Sum | None:
    """The last address that an instruction names: of a bulk copy its source, of a store all that it has."""
    operand = [o for o in instruction.operands if o.kind == "address"][-1]
    total = Sum(operand.offset)
    for term in operand.terms:
        value = _held(term, held)
        if value is None:
            return None
        total = total.plus(value, 1 << term.shift)
    return total
