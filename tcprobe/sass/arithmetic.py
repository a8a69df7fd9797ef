"""Opcodes that compute: integers, bits and predicates. `registry` has the rules for their functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcprobe.sass.decode import Argument
from tcprobe.sass.machine import TRUE, U32, U64, Machine
from tcprobe.sass.registry import Input, computes, is_zero, must, opcode, wide

# integer arithmetic


@computes("IMAD", "IMAD.U32", "UIMAD")
def imad(a: Input, b: Input, c: Input) -> U32:
    """Low 32 bits of a * b + c."""
    return a.read("-") * b.read("-") + c.read("-")


@computes("IMAD.IADD")
def imad_iadd(a: Input, b: Input, c: Input) -> U32:
    """a * b + c with b = 1: a sum."""
    must(b.operand.kind == "immediate" and b.operand.index == 1, "IMAD.IADD that is not a sum")
    return imad(a, b, c)


@computes("IMAD.SHL.U32")
def imad_shl(a: Input, b: Input, c: Input) -> U32:
    """a * b with b a power of two and c = RZ: a left shift."""
    power = b.operand.kind == "immediate" and b.operand.index.bit_count() == 1
    must(power and is_zero(c.operand), "IMAD.SHL that is not a shift")
    return imad(a, b, c)


@opcode("IMAD.X")
def imad_x(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument, carry: Argument) -> None:
    """d = low 32 bits of a * b + c + carry."""
    m.write(d, m.read(a) * m.read(b) + m.read(c) + m.carries([carry]).astype(np.uint32))


@computes("IMAD.WIDE.U32", "UIMAD.WIDE.U32", words=2)
def imad_wide_u32(a: Input, b: Input, c: Input) -> U64:
    """a * b + c (64 bits), unsigned. Widening makes a negated factor ambiguous; it is refused."""
    return wide(a.read()) * wide(b.read()) + c.read64()


@computes("IMAD.WIDE", words=2)
def imad_wide(a: Input, b: Input, c: Input) -> U64:
    """a * b + c (64 bits), a and b signed; a negated factor is refused."""
    product = a.read().view(np.int32).astype(np.int64) * b.read().view(np.int32).astype(np.int64)
    return product.view(np.uint64) + c.read64()


@computes("IMAD.HI.U32")
def imad_hi_u32(a: Input, b: Input, c: Input) -> U64:
    """High 32 bits of a * b, unsigned; c must be RZ."""
    must(is_zero(c.operand), "IMAD.HI.U32 is modelled without an addend only")
    return wide(a.read()) * wide(b.read()) >> np.uint64(32)


@computes("IADD", "VIADD")
def iadd(a: Input, b: Input) -> U32:
    """a + b. Only ptxas 13.1 and later emit IADD, for sm_120 and sm_121; VIADD is what sm_90 to sm_110 have."""
    return a.read("-") + b.read("-")


@opcode("IADD3")
def iadd3(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = a + b + c; predicates in front of a get the carries out, two of which count only together."""
    carries, terms = _split(rest)
    must(len(terms) == 3 and len(carries) <= 2, "IADD3 with these operands is not modelled")
    total = sum((wide(m.read(t, "-")) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, total & np.uint64(0xFFFFFFFF))
    used = [p for p in carries if p.index != TRUE]
    must(not used or not any(t.negative for t in terms), "carries of a difference are not modelled")
    must(len(used) != 1 or any(is_zero(t) for t in terms), "one carry of three terms is not modelled")
    if len(used) == 2:
        m.pair(used[0], used[1], total >> np.uint64(32))
    elif used:
        m.decide(used[0], total >> np.uint64(32) != 0)


@opcode("IADD3.X")
def iadd3_x(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = a + b + c + carries in (the last two predicates); carries out must be discarded."""
    carries, terms = _split(rest[:-2])
    must(len(terms) == 3 and all(p.index == TRUE for p in carries), "IADD3.X with these operands is not modelled")
    total = sum((wide(m.read(t)) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, (total + m.carries(rest[-2:])) & np.uint64(0xFFFFFFFF))


def _split(operands: Sequence[Argument]) -> tuple[list[Argument], list[Argument]]:
    """(the predicates in front, the rest)."""
    count = next((j for j, o in enumerate(operands) if o.kind not in ("P", "UP")), len(operands))
    return list(operands[:count]), list(operands[count:])


@computes("IADD.64", words=2)
def iadd_64(a: Input, b: Input) -> U64:
    """a + b, 64 bits each."""
    return a.read64() + b.read64()


@opcode("LEA")
def lea(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = (a << shift) + b. A predicate in front of a gets the carry out."""
    carries, terms = _split(rest)
    must(len(terms) == 3 and len(carries) < 2, "LEA with these operands is not modelled")
    a, b, shift = terms
    total = (wide(m.read(a)) << wide(m.read(shift)) & np.uint64(0xFFFFFFFF)) + wide(m.read(b))
    must(_small(shift), "LEA with this shift is not modelled")
    m.write(d, total & np.uint64(0xFFFFFFFF))
    for predicate in carries:
        m.decide(predicate, total >> np.uint64(32) != 0)


@opcode("LEA.HI.X")
def lea_hi_x(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument, shift: Argument, carry: Argument) -> None:
    """d = high 32 bits of ((c:a) << shift) + b + carry."""
    must(_small(shift), "LEA.HI.X with this shift is not modelled")
    both = (wide(m.read(c)) << np.uint64(32) | wide(m.read(a))) << wide(m.read(shift))
    m.write(d, ((both >> np.uint64(32)) + wide(m.read(b)) + m.carries([carry])) & np.uint64(0xFFFFFFFF))


def _small(shift: Argument) -> bool:
    return shift.kind == "immediate" and shift.index < 32


# bits and predicates


@opcode("LOP3.LUT")
def lop3(m: Machine, *operands: Argument) -> None:
    """Each bit of d is that of the table at bits (a, b, c). A predicate in front gets d != 0; the last must be !PT."""
    predicates, others = _split(operands)
    must(len(others) == 6 and len(predicates) < 2, "LOP3.LUT with these operands is not modelled")
    d, a, b, c, table, p = others
    must(table.kind == "immediate" and str(p) == "!PT", "LOP3.LUT in this form is not modelled")
    inputs = [m.read(o) for o in (a, b, c)]
    total = np.zeros(m.lanes, np.uint32)
    for row in range(8):
        if table.index >> row & 1:
            total |= np.bitwise_and.reduce([x if row >> 2 - j & 1 else ~x for j, x in enumerate(inputs)])
    m.write(d, total)
    for predicate in predicates:
        m.decide(predicate, total != 0)


@computes("SEL")
def sel(a: Input, b: Input, p: Input) -> U32:
    """a if the predicate holds, else b."""
    return np.where(p.test(), a.read(), b.read())


@computes("SHF.R.U32.HI", "USHF.R.U32.HI")
def shift_right(a: Input, shift: Input, c: Input) -> U32:
    """c >> shift; a must be RZ."""
    must(is_zero(a.operand) and _small(shift.operand), "a funnel shift of two registers is not modelled")
    return c.read() >> shift.read()


@computes("SHF.L.U32", "USHF.L.U32")
def shift_left(a: Input, shift: Input, c: Input) -> U32:
    """a << shift; c must be RZ."""
    must(is_zero(c.operand) and _small(shift.operand), "a funnel shift of two registers is not modelled")
    return a.read() << shift.read()


@computes("PRMT")
def prmt(a: Input, selector: Input, c: Input) -> U64:
    """Each nibble of the selector picks one of the eight bytes of (c:a)."""
    nibbles = selector.operand.index
    must(selector.operand.kind == "immediate" and nibbles < 1 << 16, "PRMT by a register is not modelled")
    both = wide(c.read()) << np.uint64(32) | wide(a.read())
    total = np.zeros_like(both)
    for byte in range(4):
        nibble = nibbles >> 4 * byte & 15
        must(nibble < 8, "PRMT that repeats a sign is not modelled")
        total |= (both >> np.uint64(8 * nibble) & np.uint64(255)) << np.uint64(8 * byte)
    return total


@opcode("ISETP.NE.U32.AND")
def isetp_ne(m: Machine, p: Argument, q: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """p = (a != b) and c; q must be PT."""
    must(str(q) == "PT", "ISETP with a second result is not modelled")
    m.decide(p, (m.read(a) != m.read(b)) & m.test(c))


@opcode("MOVM.16.MT88")
def movm(m: Machine, d: Argument, a: Argument) -> None:
    """Transpose of an 8 x 8 matrix of 16-bit elements; lane l holds row l / 4, columns 2 (l % 4) and the next."""
    must(bool(m.active.all()), "MOVM with inactive lanes is not modelled")
    halves = np.ascontiguousarray(m.read(a)).view(np.uint16).reshape(-1, 8, 8)
    turned = np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1).view(np.uint32)
    m.write(d, turned)
