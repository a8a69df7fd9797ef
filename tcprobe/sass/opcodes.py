"""All opcodes in the probes' machine code: here those that move data or control, in `arithmetic` those that compute.

`registry` has the rules for their functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tcprobe.isa.arch import WARP
from tcprobe.sass import arithmetic  # noqa: F401 - registers its opcodes
from tcprobe.sass.decode import Address, Argument
from tcprobe.sass.machine import ZERO, Machine
from tcprobe.sass.registry import OPCODES, Handler, is_zero, must, opcode

__all__ = ["OPCODES"]

# moves


@opcode("MOV", "UMOV")
def mov(m: Machine, d: Argument, a: Argument) -> None:
    """d = a; d is unknown if a is a constant that is not a parameter, such as the stack pointer."""
    if a.kind == "constant" and not m.is_parameter(a.index, 4):
        m.forget(d, 1)
    else:
        m.write(d, m.read(a))


@opcode("IMAD.MOV.U32")
def imad_mov(m: Machine, d: Argument, a: Argument, b: Argument, c: Argument) -> None:
    """d = c; a and b must be RZ."""
    must(is_zero(a) and is_zero(b), "IMAD.MOV.U32 of a product is not modelled")
    mov(m, d, c)


@opcode("S2R")
def s2r(m: Machine, d: Argument, a: Argument) -> None:
    """d = special register."""
    lane = np.arange(m.lanes) % WARP
    by_name = {"SR_TID.X": lane, "SR_LANEID": lane, "SR_CTAID.X": np.arange(m.lanes) // WARP}
    must(str(a) in by_name, f"special register {a} is not modelled")
    m.write(d, by_name[str(a)])


@opcode("HFMA2", "HFMA2.MMA")
def hfma2(m: Machine, d: Argument, a: Argument, b: Argument, high: Argument, low: Argument) -> None:
    """d = a * b + (high, low), two halves; a must be -RZ and b RZ, as when ptxas moves constants."""
    must(str(a) == "-RZ" and str(b) == "RZ", "HFMA2 is modelled for moving constants only")
    m.write(d, np.full(m.lanes, _half(high) << 16 | _half(low), np.uint32))


def _half(constant: Argument) -> int:
    """The 16 bits of a constant that nvdisasm prints exactly; refused: NaN, and -0, since the sum may give 0."""
    try:
        number = float(str(constant))
    except ValueError:
        number = np.nan
    exact = float(np.float16(number)) == number and not (number == 0 and str(constant)[:1] == "-")
    must(exact, f"HFMA2 of the constant {constant} is not modelled")
    return int(np.float16(number).view(np.uint16))


def _load_constant(words: int) -> Handler:
    def load(m: Machine, d: Argument, a: Argument) -> None:
        """Words of constant bank 0; what is not a parameter is unknown."""
        must(a.kind == "constant" and not a.negative, f"operand {a} is not a constant")
        must(d.kind in ("R", "UR") and d.index % words == 0, f"{d} is not a group of {words} registers")
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


# memory


def _load(size: int) -> Handler:
    def load(m: Machine, d: Argument, a: Argument) -> None:
        """Bytes from memory, zero-extended to 32 bits or over several registers."""
        raw = m.load(_memory(m, a), size)
        words = max(1, size // 4)
        must(d.kind == "R" and d.index % words == 0, f"{d} is not a group of {words} registers")
        padded = np.zeros((m.lanes, 4 * words), np.uint8)
        padded[:, :size] = raw
        for word, value in enumerate(padded.view(np.uint32).T):
            if d.index != ZERO:
                m.set("R", d.index + word, value)

    return load


def _store(size: int) -> Handler:
    def store(m: Machine, a: Argument, d: Argument) -> None:
        """The low bytes of one register, or several registers, to memory."""
        words = max(1, size // 4)
        must(d.kind == "R" and not d.negative and d.index % words == 0, f"{d} is not a group of {words} registers")
        values = [
            m.read(Argument("R", ZERO if d.index == ZERO else d.index + w, "", f"R{d.index + w}")) for w in range(words)
        ]
        raw = np.ascontiguousarray(np.stack(values, axis=1)).view(np.uint8)
        m.store(_memory(m, a), raw[:, :size])

    return store


def _memory(m: Machine, a: Argument) -> NDArray[np.uint64]:
    if isinstance(a, Address) and a.descriptor is not None:
        must(a.wide, "an address of 32 bits is not modelled")
    return m.address(a)


for _size, _modifier in ((1, ".U8"), (2, ".U16"), (4, ""), (8, ".64"), (16, ".128")):
    for _scope in ("", ".SYS"):
        OPCODES[f"LDG.E{_modifier}{_scope}"] = _load(_size)
        OPCODES[f"STG.E{_modifier}{_scope}"] = _store(_size)


# control


@opcode("BRA")
def bra(m: Machine, target: Argument) -> None:
    """Continue at the target, all lanes together; backward branches are refused."""
    must(target.kind == "immediate" and bool(m.active.all()), "a branch on which lanes disagree")
    must(m.next is not None and target.index >= m.next, "a branch backwards is not modelled")
    m.next = target.index


@opcode("EXIT")
def exit_(m: Machine) -> None:
    """End, all lanes together."""
    must(bool(m.active.all()), "lanes end at different times")
    m.next = None


@opcode("NOP")
def nop(m: Machine) -> None:
    """No operation."""


@opcode("BMOV.32", "BMOV.32.CLEAR")
def bmov(m: Machine, d: Argument, a: Argument) -> None:
    """Moves barrier registers, which nothing here reads."""
    must(d.kind == "B" and a.kind in ("B", "immediate"), "BMOV to or from a data register is not modelled")
