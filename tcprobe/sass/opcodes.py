"""All opcodes in the probes' machine code, by name (with modifiers): one function for each.

A function takes the machine and the operands as nvdisasm prints them. One that only computes takes inputs and returns
the output. A function models exactly the forms that it accepts, and raises UnreadError for all others. Tests marked
`gpu` run all of them against hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARP
from tcprobe.layout.arrays import Array, Bools, Words
from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.machine import TRUE, U32, U64, ZERO, Machine

Handler = Callable[..., None]
Computation = Callable[..., Array]
OPCODES: dict[str, Handler] = {}


def opcode(*names: str, into: dict[str, Handler] = OPCODES) -> Callable[[Handler], Handler]:
    """Register a function under opcode names."""

    def register(function: Handler) -> Handler:
        into.update(dict.fromkeys(names, function))
        return function

    return register


class Input(NamedTuple):
    """An input operand of an opcode, and the machine on which it is read."""

    machine: Machine
    operand: Operand

    def read(self, sign: str = "") -> U32:
        """As `Machine.read`."""
        return self.machine.read(self.operand, sign)

    def read64(self) -> U64:
        """As `Machine.read64`."""
        return self.machine.read64(self.operand)

    def test(self) -> Bools:
        """As `Machine.test`."""
        return self.machine.test(self.operand)


def computes(*names: str, words: int = 1, into: dict[str, Handler] = OPCODES) -> Callable[[Computation], Computation]:
    """Register a function of `Input`s under opcode names; its result is written to the first operand."""

    def register(computation: Computation) -> Computation:
        @opcode(*names, into=into)
        def run(m: Machine, d: Operand, *sources: Operand) -> None:
            m.write(d, computation(*[Input(m, source) for source in sources]), words)

        return computation

    return register


def must(condition: bool, words: str) -> None:
    """Raise UnreadError with `words` unless the condition holds."""
    if not condition:
        raise UnreadError(words)


def wide(words: Words) -> NDArray[np.uint64]:
    """The same numbers in 64 bits."""
    return words.astype(np.uint64)


def is_zero(operand: Operand) -> bool:
    """Whether it is RZ or URZ."""
    return operand.view in ("R", "UR") and operand.first < 0 and not operand.sign


# integer arithmetic


@computes("IMAD", "IMAD.U32", "UIMAD")
def imad(a: Input, b: Input, c: Input) -> U32:
    """Low 32 bits of a * b + c."""
    return a.read("-") * b.read("-") + c.read("-")


@computes("IMAD.IADD")
def imad_iadd(a: Input, b: Input, c: Input) -> U32:
    """a * b + c with b = 1: a sum."""
    must(b.operand.kind == "number" and b.operand.value == 1, "IMAD.IADD that is not a sum")
    return imad(a, b, c)


@computes("IMAD.SHL.U32")
def imad_shl(a: Input, b: Input, c: Input) -> U32:
    """a * b with b a power of two and c = RZ: a left shift."""
    power = b.operand.kind == "number" and b.operand.word.bit_count() == 1
    must(power and is_zero(c.operand), "IMAD.SHL that is not a shift")
    return imad(a, b, c)


@opcode("IMAD.X")
def imad_x(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand, carry: Operand) -> None:
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
def iadd3(m: Machine, d: Operand, *rest: Operand) -> None:
    """d = a + b + c; predicates in front of a get the carries out, two of which count only together."""
    carries, terms = _split(rest)
    must(len(terms) == 3 and len(carries) <= 2, "IADD3 with these operands is not modelled")
    total = sum((wide(m.read(t, "-")) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, total & np.uint64(0xFFFFFFFF))
    used = [p for p in carries if p.encoded != TRUE]
    must(not used or not any(t.sign for t in terms if t.kind != "number"), "carries of a difference are not modelled")
    must(len(used) != 1 or any(is_zero(t) for t in terms), "one carry of three terms is not modelled")
    if len(used) == 2:
        m.pair(used[0], used[1], total >> np.uint64(32))
    elif used:
        m.decide(used[0], total >> np.uint64(32) != 0)


@opcode("IADD3.X")
def iadd3_x(m: Machine, d: Operand, *rest: Operand) -> None:
    """d = a + b + c + carries in (the last two predicates); carries out must be discarded."""
    carries, terms = _split(rest[:-2])
    must(len(terms) == 3 and all(p.encoded == TRUE for p in carries), "IADD3.X with these operands is not modelled")
    total = sum((wide(m.read(t)) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, (total + m.carries(rest[-2:])) & np.uint64(0xFFFFFFFF))


def _split(operands: Sequence[Operand]) -> tuple[list[Operand], list[Operand]]:
    """(the predicates in front, the rest)."""
    count = next((j for j, o in enumerate(operands) if o.view not in ("P", "UP")), len(operands))
    return list(operands[:count]), list(operands[count:])


@computes("IADD.64", words=2)
def iadd_64(a: Input, b: Input) -> U64:
    """a + b, 64 bits each."""
    return a.read64() + b.read64()


@opcode("LEA")
def lea(m: Machine, d: Operand, *rest: Operand) -> None:
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
def lea_hi_x(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand, shift: Operand, carry: Operand) -> None:
    """d = high 32 bits of ((c:a) << shift) + b + carry."""
    must(_small(shift), "LEA.HI.X with this shift is not modelled")
    both = (wide(m.read(c)) << np.uint64(32) | wide(m.read(a))) << wide(m.read(shift))
    m.write(d, ((both >> np.uint64(32)) + wide(m.read(b)) + m.carries([carry])) & np.uint64(0xFFFFFFFF))


def _small(shift: Operand) -> bool:
    return shift.kind == "number" and shift.word < 32


# bits and predicates


@opcode("LOP3.LUT")
def lop3(m: Machine, *operands: Operand) -> None:
    """Each bit of d is that of the table at bits (a, b, c). A predicate in front gets d != 0; the last must be !PT."""
    predicates, others = _split(operands)
    must(len(others) == 6 and len(predicates) < 2, "LOP3.LUT with these operands is not modelled")
    d, a, b, c, table, p = others
    must(table.kind == "number" and str(p) == "!PT", "LOP3.LUT in this form is not modelled")
    inputs = [m.read(o) for o in (a, b, c)]
    total = np.zeros(m.lanes, np.uint32)
    for row in range(8):
        if table.word >> row & 1:
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
    nibbles = selector.operand.word
    must(selector.operand.kind == "number" and nibbles < 1 << 16, "PRMT by a register is not modelled")
    both = wide(c.read()) << np.uint64(32) | wide(a.read())
    total = np.zeros_like(both)
    for byte in range(4):
        nibble = nibbles >> 4 * byte & 15
        must(nibble < 8, "PRMT that repeats a sign is not modelled")
        total |= (both >> np.uint64(8 * nibble) & np.uint64(255)) << np.uint64(8 * byte)
    return total


@opcode("ISETP.NE.U32.AND")
def isetp_ne(m: Machine, p: Operand, q: Operand, a: Operand, b: Operand, c: Operand) -> None:
    """p = (a != b) and c; q must be PT."""
    must(str(q) == "PT", "ISETP with a second result is not modelled")
    m.decide(p, (m.read(a) != m.read(b)) & m.test(c))


@opcode("MOVM.16.MT88")
def movm(m: Machine, d: Operand, a: Operand) -> None:
    """Transpose of an 8 x 8 matrix of 16-bit elements; lane l holds row l / 4, columns 2 (l % 4) and the next."""
    must(bool(m.active.all()), "MOVM with inactive lanes is not modelled")
    halves = np.ascontiguousarray(m.read(a)).view(np.uint16).reshape(-1, 8, 8)
    turned = np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1).view(np.uint32)
    m.write(d, turned)


# moves


@opcode("MOV", "UMOV")
def mov(m: Machine, d: Operand, a: Operand) -> None:
    """d = a; d is unknown if a is a constant that is not a parameter, such as the stack pointer."""
    if a.kind == "constant" and not m.is_parameter(a.offset, 4):
        m.forget(d, 1)
    else:
        m.write(d, m.read(a))


@opcode("IMAD.MOV.U32")
def imad_mov(m: Machine, d: Operand, a: Operand, b: Operand, c: Operand) -> None:
    """d = c; a and b must be RZ."""
    must(is_zero(a) and is_zero(b), "IMAD.MOV.U32 of a product is not modelled")
    mov(m, d, c)


@opcode("S2R")
def s2r(m: Machine, d: Operand, a: Operand) -> None:
    """d = special register."""
    lane = np.arange(m.lanes) % WARP
    by_name = {"SR_TID.X": lane, "SR_LANEID": lane, "SR_CTAID.X": np.arange(m.lanes) // WARP}
    must(str(a) in by_name, f"special register {a} is not modelled")
    m.write(d, by_name[str(a)])


@opcode("HFMA2", "HFMA2.MMA")
def hfma2(m: Machine, d: Operand, a: Operand, b: Operand, high: Operand, low: Operand) -> None:
    """d = a * b + (high, low), two halves; a must be -RZ and b RZ, as when ptxas moves constants."""
    must(str(a) == "-RZ" and str(b) == "RZ", "HFMA2 is modelled for moving constants only")
    m.write(d, np.full(m.lanes, _half(high) << 16 | _half(low), np.uint32))


def _half(constant: Operand) -> int:
    """The 16 bits of a constant that nvdisasm prints exactly; refused: NaN, and -0, since the sum may give 0."""
    try:
        number = float(str(constant))
    except ValueError:
        number = np.nan
    exact = float(np.float16(number)) == number and not (number == 0 and str(constant)[:1] == "-")
    must(exact, f"HFMA2 of the constant {constant} is not modelled")
    return int(np.float16(number).view(np.uint16))


def _load_constant(words: int) -> Handler:
    def load(m: Machine, d: Operand, a: Operand) -> None:
        """Words of constant bank 0; what is not a parameter is unknown."""
        must(a.kind == "constant" and not a.sign, f"operand {a} is not a constant")
        must(d.view in ("R", "UR") and d.encoded % words == 0, f"{d} is not a group of {words} registers")
        if not m.is_parameter(a.offset, 4 * words):
            m.forget(d, words)
            return
        for word in range(words):
            m.set(d.kind, d.encoded + word, np.full(m.lanes, m.constant(a.offset + 4 * word), np.uint32))

    return load


for _stem in ("LDC", "ULDC", "LDCU"):
    OPCODES[_stem] = _load_constant(1)
    OPCODES[f"{_stem}.64"] = _load_constant(2)
OPCODES["LDCU.128"] = _load_constant(4)


# memory


def _load(size: int) -> Handler:
    def load(m: Machine, d: Operand, a: Operand) -> None:
        """Bytes from memory, zero-extended to 32 bits or over several registers."""
        raw = m.load(_memory(m, a), size)
        words = max(1, size // 4)
        must(d.view == "R" and d.encoded % words == 0, f"{d} is not a group of {words} registers")
        padded = np.zeros((m.lanes, 4 * words), np.uint8)
        padded[:, :size] = raw
        for word, value in enumerate(padded.view(np.uint32).T):
            if d.encoded != ZERO:
                m.set("R", d.encoded + word, value)

    return load


def _store(size: int) -> Handler:
    def store(m: Machine, a: Operand, d: Operand) -> None:
        """The low bytes of one register, or several registers, to memory."""
        words = max(1, size // 4)
        must(d.view == "R" and not d.sign and d.encoded % words == 0, f"{d} is not a group of {words} registers")
        values = [m.word("R", d.encoded if d.first < 0 else d.encoded + w) for w in range(words)]
        raw = np.ascontiguousarray(np.stack(values, axis=1)).view(np.uint8)
        m.store(_memory(m, a), raw[:, :size])

    return store


def _memory(m: Machine, a: Operand) -> NDArray[np.uint64]:
    if a.descriptor is not None:
        must(a.terms[0].wide, "an address of 32 bits is not modelled")
    return m.address(a)


for _size, _modifier in ((1, ".U8"), (2, ".U16"), (4, ""), (8, ".64"), (16, ".128")):
    for _scope in ("", ".SYS"):
        OPCODES[f"LDG.E{_modifier}{_scope}"] = _load(_size)
        OPCODES[f"STG.E{_modifier}{_scope}"] = _store(_size)


# control


@opcode("BRA")
def bra(m: Machine, target: Operand) -> None:
    """Continue at the target, all lanes together; backward branches are refused."""
    must(target.kind == "number" and bool(m.active.all()), "a branch on which lanes disagree")
    must(m.next is not None and target.word >= m.next, "a branch backwards is not modelled")
    m.next = target.word


@opcode("EXIT")
def exit_(m: Machine) -> None:
    """End, all lanes together."""
    must(bool(m.active.all()), "lanes end at different times")
    m.next = None


@opcode("NOP")
def nop(m: Machine) -> None:
    """No operation."""


@opcode("BMOV.32", "BMOV.32.CLEAR")
def bmov(m: Machine, d: Operand, a: Operand) -> None:
    """Moves barrier registers, which nothing here reads."""
    must(d.view == "B" and a.view in ("B", "number"), "BMOV to or from a data register is not modelled")
