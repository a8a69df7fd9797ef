"""One function per opcode of the probes' machine code, under every name (opcode with modifiers) it answers to.

A function takes the machine and the operands as nvdisasm prints them. It models exactly the forms that it accepts
and raises UnreadError for all others. `gpu` tests run every one of them against real hardware.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARP
from tcprobe.sass.decode import Address, Argument, UnreadError
from tcprobe.sass.machine import TRUE, ZERO, Machine

Function = Callable[..., None]
OPCODES: dict[str, Function] = {}


def named(*names: str) -> Callable[[Function], Function]:
    """Register a function under opcode names."""

    def register(function: Function) -> Function:
        OPCODES.update(dict.fromkeys(names, function))
        return function

    return register


def _must(condition: bool, words: str) -> None:
    if not condition:
        raise UnreadError(words)


def _wide(value: NDArray[np.uint32]) -> NDArray[np.uint64]:
    return value.astype(np.uint64)


def _is_zero(operand: Argument) -> bool:
    return operand.kind in ("R", "UR") and operand.index == ZERO and not operand.negative


# moves


@named("MOV", "UMOV")
def mov(m: Machine, d: Argument, a: Argument) -> None:
    """d = a; unknown if a is a constant that is no parameter (the stack pointer, for one)."""
    if a.kind == "constant" and not m.is_parameter(a.index, 4):
        m.forget(d, 1)
    else:
        m.write(d, m.read(a))


@named("IMAD.MOV.U32")
def imad_mov(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d = c; a and b are RZ."""
    _must(_is_zero(a) and _is_zero(b), "IMAD.MOV.U32 of a product is not modelled")
    mov(m, d, c)


@named("S2R")
def s2r(m: Machine, d: Argument, a: Argument) -> None:
    """d = special register."""
    lane = np.arange(m.lanes) % WARP
    known = {"SR_TID.X": lane, "SR_LANEID": lane, "SR_CTAID.X": np.arange(m.lanes) // WARP}
    _must(str(a) in known, f"special register {a} is not modelled")
    m.write(d, known[str(a)])


@named("HFMA2", "HFMA2.MMA")
def hfma2(m: Machine, d: Argument, a: Argument, b: Argument, high: Argument, low: Argument) -> None:
    """d = two halves a * b + (high, low); only with a = -RZ, b = RZ, as ptxas moves constants, and (high, low) = 0."""
    _must(str(a) == "-RZ" and str(b) == "RZ", "HFMA2 is modelled for moving constants only")
    _must(str(high) == "0" and str(low) == "0", "HFMA2 is modelled for the constant zero only")
    m.write(d, np.zeros(m.lanes, np.uint32))


def _load_constant(words: int) -> Function:
    def load(m: Machine, d: Argument, a: Argument) -> None:
        """Words of constant bank 0; what is no parameter is unknown."""
        _must(a.kind == "constant" and not a.negative, f"operand {a} is no constant")
        _must(d.kind in ("R", "UR") and d.index % words == 0, f"{d} is no group of {words} registers")
        if not m.is_parameter(a.index, 4 * words):
            m.forget(d, words)
            return
        for word in range(words):
            m.set(d.kind, d.index + word, np.full(m.lanes, m.constant(a.index + 4 * word), np.uint32))

    return load


for _stem in ("LDC", "ULDC", "LDCU"):
    OPCODES[_stem] = _load_constant(1)
    OPCODES[f"{_stem}.64"] = _load_constant(2)
OPCODES["LDCU.128"] = _load_constant(4)


# integer arithmetic


@named("IMAD", "IMAD.IADD", "IMAD.U32", "UIMAD")
def imad(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d = low 32 bits of a * b + c."""
    m.write(d, m.read(a) * m.read(b) + m.read(c))


@named("IMAD.SHL.U32")
def imad_shl(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d = a * b, b a power of two, c RZ: a shift to the left."""
    _must(b.kind == "immediate" and b.index.bit_count() == 1 and _is_zero(c), "IMAD.SHL that is no shift")
    imad(m, d, a, b, c)


@named("IMAD.X")
def imad_x(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument, carry: Argument) -> None:
    """d = low 32 bits of a * b + c + carry."""
    m.write(d, m.read(a) * m.read(b) + m.read(c) + _carries(m, carry).astype(np.uint32))


@named("IMAD.WIDE.U32", "UIMAD.WIDE.U32")
def imad_wide_u32(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d (64 bits) = a * b + c (64 bits), unsigned."""
    m.write(d, _wide(m.read(a)) * _wide(m.read(b)) + m.read64(c), words=2)


@named("IMAD.WIDE")
def imad_wide(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d (64 bits) = a * b + c (64 bits), a and b signed."""
    product = m.read(a).view(np.int32).astype(np.int64) * m.read(b).view(np.int32).astype(np.int64)
    m.write(d, product.view(np.uint64) + m.read64(c), words=2)


@named("IMAD.HI.U32")
def imad_hi_u32(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d = high 32 bits of a * b, unsigned; only with c = RZ."""
    _must(_is_zero(c), "IMAD.HI.U32 is modelled without an addend only")
    m.write(d, _wide(m.read(a)) * _wide(m.read(b)) >> np.uint64(32))


@named("IADD3")
def iadd3(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = a + b + c. With predicates in front of a: their carries out.

    Two carries out may both be set; which of them is does not show in the sum, so they count only together.
    """
    carries, terms = _split(rest)
    _must(
        (len(terms) == 3 and len(carries) in (0, 2)) or len(carries) == 1, "IADD3 with these operands is not modelled"
    )
    total = sum((_wide(m.read(t)) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, total & np.uint64(0xFFFFFFFF))
    used = [p for p in carries if p.index != TRUE]
    _must(not used or not any(t.negative for t in terms), "carries of a difference are not modelled")
    _must(len(used) != 1 or any(_is_zero(t) for t in terms), "one carry of three terms is not modelled")
    over = total >> np.uint64(32)
    for number, predicate in enumerate(used, 1):
        m.decide(predicate, over >= number)
    if len(used) == 2:
        first, second = used[0].index, used[1].index
        m.pairs |= {first: second, second: first}


@named("IADD3.X")
def iadd3_x(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = a + b + c + carries in (the two predicates at the end); carries out are discarded."""
    carries, terms = _split(rest[:-2])
    _must(len(terms) == 3 and all(p.index == TRUE for p in carries), "IADD3.X with these operands is not modelled")
    _must(not any(t.negative for t in terms), "IADD3.X of a difference is not modelled")
    total = sum((_wide(m.read(t)) for t in terms), np.zeros(m.lanes, np.uint64))
    m.write(d, (total + _carries(m, *rest[-2:])) & np.uint64(0xFFFFFFFF))


def _split(operands: tuple[Argument, ...]) -> tuple[list[Argument], list[Argument]]:
    """Predicates in front, and the rest."""
    count = next((j for j, o in enumerate(operands) if o.kind not in ("P", "UP")), len(operands))
    return list(operands[:count]), list(operands[count:])


def _carries(m: Machine, *predicates: Argument) -> NDArray[np.uint64]:
    """The sum of carry predicates; one of a pair without the other is refused."""
    indices = {p.index for p in predicates if p.index != TRUE}
    for index in indices:
        _must(m.pairs.get(index, index) in indices, f"P{index} is one of two carries that count only together")
    total = np.zeros(m.lanes, np.uint64)
    for predicate in predicates:
        total = total + m.test(predicate)
    return total


@named("IADD.64")
def iadd_64(m: Machine, d: Argument, a: Argument, b: Argument) -> None:
    """d = a + b, 64 bits each."""
    m.write(d, m.read64(a) + m.read64(b), words=2)


@named("LEA")
def lea(m: Machine, d: Argument, *rest: Argument) -> None:
    """d = (a << shift) + b; with a predicate in front of a: the carry out."""
    carries, terms = _split(rest)
    _must(len(terms) == 3 and len(carries) < 2, "LEA with these operands is not modelled")
    a, b, shift = terms
    _must(not a.negative and not b.negative, "LEA of a difference is not modelled")
    total = (_wide(m.read(a)) << _wide(m.read(shift)) & np.uint64(0xFFFFFFFF)) + _wide(m.read(b))
    _must(_small(shift), "LEA with this shift is not modelled")
    m.write(d, total & np.uint64(0xFFFFFFFF))
    for predicate in carries:
        m.decide(predicate, total >> np.uint64(32) != 0)


@named("LEA.HI.X")
def lea_hi_x(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument, shift: Argument, carry: Argument) -> None:
    """d = high 32 bits of ((c:a) << shift) + b + carry."""
    _must(_small(shift) and not any(o.negative for o in (a, b, c)), "LEA.HI.X in this form is not modelled")
    both = (_wide(m.read(c)) << np.uint64(32) | _wide(m.read(a))) << _wide(m.read(shift))
    m.write(d, ((both >> np.uint64(32)) + _wide(m.read(b)) + _carries(m, carry)) & np.uint64(0xFFFFFFFF))


def _small(shift: Argument) -> bool:
    return shift.kind == "immediate" and shift.index < 32


# bits


@named("LOP3.LUT")
def lop3(m: Machine, *operands: Argument) -> None:
    """Bit by bit, d = bit (a, b, c) of the table; a predicate in front: d != 0. The one at the end must be !PT."""
    found, rest = _split(operands)
    _must(len(rest) == 6 and len(found) < 2, "LOP3.LUT with these operands is not modelled")
    d, a, b, c, table, p = rest
    _must(table.kind == "immediate" and str(p) == "!PT", "LOP3.LUT in this form is not modelled")
    inputs = [m.read(o) for o in (a, b, c)]
    total = np.zeros(m.lanes, np.uint32)
    for row in range(8):
        if table.index >> row & 1:
            total |= np.bitwise_and.reduce([x if row >> 2 - j & 1 else ~x for j, x in enumerate(inputs)])
    m.write(d, total)
    for predicate in found:
        m.decide(predicate, total != 0)


@named("SEL")
def sel(m: Machine, d: Argument, a: Argument, b: Argument, p: Argument) -> None:
    """d = a where the predicate holds, else b."""
    m.write(d, np.where(m.test(p), m.read(a), m.read(b)))


@named("SHF.R.U32.HI", "USHF.R.U32.HI")
def shift_right(m: Machine, d: Argument, a: Argument, shift: Argument, c: Argument) -> None:
    """d = c >> shift; only with a = RZ."""
    _must(_is_zero(a) and _small(shift), "a funnel shift of two registers is not modelled")
    m.write(d, m.read(c) >> m.read(shift))


@named("SHF.L.U32", "USHF.L.U32")
def shift_left(m: Machine, d: Argument, a: Argument, shift: Argument, c: Argument) -> None:
    """d = a << shift; only with c = RZ."""
    _must(_is_zero(c) and _small(shift), "a funnel shift of two registers is not modelled")
    m.write(d, m.read(a) << m.read(shift))


@named("PRMT")
def prmt(m: Machine, d: Argument, a: Argument, selector: Argument, c: Argument) -> None:
    """Each byte of d is one of the eight bytes of (c:a) that a nibble of the selector names."""
    _must(selector.kind == "immediate" and selector.index < 1 << 16, "PRMT by a register is not modelled")
    both = _wide(m.read(c)) << np.uint64(32) | _wide(m.read(a))
    total = np.zeros(m.lanes, np.uint64)
    for byte in range(4):
        nibble = selector.index >> 4 * byte & 15
        _must(nibble < 8, "PRMT that repeats a sign is not modelled")
        total |= (both >> np.uint64(8 * nibble) & np.uint64(255)) << np.uint64(8 * byte)
    m.write(d, total)


@named("MOVM.16.MT88")
def movm(m: Machine, d: Argument, a: Argument) -> None:
    """Transpose of an 8 x 8 matrix of 16-bit elements: lane l holds row l / 4, columns 2 (l % 4) and the next."""
    _must(bool(m.active.all()), "MOVM with inactive lanes is not modelled")
    halves = np.ascontiguousarray(m.read(a)).view(np.uint16).reshape(-1, 8, 8)
    turned = np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1).view(np.uint32)
    m.write(d, turned)


# memory


def _load(size: int) -> Function:
    def load(m: Machine, d: Argument, a: Argument) -> None:
        """Bytes from memory, zero-extended to 32 bits or over several registers."""
        raw = m.load(_memory(m, a), size)
        words = max(1, size // 4)
        _must(d.kind == "R" and d.index % words == 0, f"{d} is no group of {words} registers")
        padded = np.zeros((m.lanes, 4 * words), np.uint8)
        padded[:, :size] = raw
        for word, value in enumerate(padded.view(np.uint32).T):
            if d.index != ZERO:
                m.set("R", d.index + word, value)

    return load


def _store(size: int) -> Function:
    def store(m: Machine, a: Argument, d: Argument) -> None:
        """The low bytes of one register, or several registers, to memory."""
        words = max(1, size // 4)
        _must(d.kind == "R" and not d.negative and d.index % words == 0, f"{d} is no group of {words} registers")
        values = [
            m.read(Argument("R", ZERO if d.index == ZERO else d.index + w, "", f"R{d.index + w}")) for w in range(words)
        ]
        raw = np.ascontiguousarray(np.stack(values, axis=1)).view(np.uint8)
        m.store(_memory(m, a), raw[:, :size])

    return store


def _memory(m: Machine, a: Argument) -> NDArray[np.uint64]:
    if isinstance(a, Address) and a.descriptor is not None:
        _must(a.wide, "an address of 32 bits is not modelled")
    return m.address(a)


for _size, _modifier in ((1, ".U8"), (2, ".U16"), (4, ""), (8, ".64"), (16, ".128")):
    for _scope in ("", ".SYS"):
        OPCODES[f"LDG.E{_modifier}{_scope}"] = _load(_size)
        OPCODES[f"STG.E{_modifier}{_scope}"] = _store(_size)


# control


@named("ISETP.NE.U32.AND")
def isetp_ne(m: Machine, p: Argument, q: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """p = (a != b) and c; q must be PT."""
    _must(str(q) == "PT", "ISETP with a second result is not modelled")
    m.decide(p, (m.read(a) != m.read(b)) & m.test(c))


@named("BRA")
def bra(m: Machine, target: Argument) -> None:
    """Continue at the target, all lanes together."""
    _must(target.kind == "immediate" and bool(m.active.all()), "a branch on which lanes disagree")
    m.next = target.index


@named("EXIT")
def exit_(m: Machine) -> None:
    """End, all lanes together."""
    _must(bool(m.active.all()), "lanes end at different times")
    m.next = None


@named("NOP")
def nop(m: Machine) -> None:
    """Nothing."""


@named("BMOV.32", "BMOV.32.CLEAR")
def bmov(m: Machine, d: Argument, a: Argument) -> None:
    """Barrier registers, which nothing here reads."""
    _must(d.kind == "B" and a.kind in ("B", "immediate"), "BMOV to or from a data register is not modelled")
