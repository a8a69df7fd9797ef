"""What the results of an instruction depend on: the values of its registers, and what else its text says, its shape."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import NamedTuple

from tcprobe.isa.opcodes import opcode
from tcprobe.sass.decode import Form, Operand
from tcprobe.sass.registers import BASE, bits_of, guard_bit

_count = count(1)


class Dependence(NamedTuple):
    """The registers that results depend on: in order of operands (of 64 bits, both), with its guard's; and what
    it leaves as it was where that is false, and the guard's again.

    `shape` numbers what is left of its text without their numbers, so that the results of one shape follow from values;
    where it is `placed`, from the threads, too: special registers may differ between them by where they are.
    """

    shape: int
    placed: bool
    reads: tuple[int, ...]
    kept: tuple[int, ...]
    writes: tuple[int, ...]


@lru_cache(maxsize=1 << 14)
def dependence(form: Form) -> Dependence:
    """What an instruction's results depend on."""
    operands, outputs, guard = form.operands, form.outputs, form.guard
    reads, covered, writes = list[int](), 0, tuple(bits_of(form.writes))
    kept: tuple[int, ...] = ()
    texts: list[object] = [form.opcode, outputs, guard.rstrip("0123456789")]
    if guard:
        reads.append(guard_bit(guard))
        covered, kept = 1 << reads[0], (reads[0], *writes)
    for number, operand in enumerate(operands):
        shape, bits = _abstract(operand)
        texts.append(shape)
        if number >= outputs:
            reads += bits
            covered |= operand.mask
        elif len(writes) > 1 and operand.first >= 0 and operand.kind in BASE:
            texts.append(writes.index(BASE[operand.kind] + operand.first))  # which result is whose
    if form.reads & ~covered:
        reads += bits_of(form.reads & ~covered)
    if len(reads) > 1:  # the reason that is given is that of the first register
        order = sorted(set(reads))
        texts += [order.index(bit) for bit in reads]
    placed = opcode(form.mnemonic).kind == "special register" or any(operand.kind == "constant" for operand in operands)
    return Dependence(numbered(tuple(texts)), placed, tuple(reads), kept, writes)


@lru_cache(maxsize=1 << 13)
def _abstract(operand: Operand) -> tuple[Operand, tuple[int, ...]]:
    """An operand without the numbers of its registers, and the bits of these."""
    bits = tuple(bits_of(operand.mask | (operand.mask << 1 if operand.kind in ("R", "UR") else 0)))

    def placed(kind: str, first: int) -> int:
        return bits.index(BASE[kind] + first) if first >= 0 else first

    terms = tuple(term._replace(first=placed(term.kind, term.first)) for term in operand.terms)
    chosen = None if operand.descriptor is None else placed("UR", operand.descriptor)
    text = "" if operand.kind in BASE or terms or chosen is not None else operand.text
    first = min(operand.first, 0)
    return operand._replace(text=text, first=first, mask=0, reuse=False, terms=terms, descriptor=chosen), bits


@lru_cache(maxsize=1 << 15)
def numbered(_: tuple[object, ...]) -> int:
    """A number for equal values, and no other."""
    return next(_count)
