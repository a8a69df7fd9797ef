"""Opcodes in the probes' machine code that do more than compute, by name (with modifiers): one function for each.

A function takes the machine and the operands as nvdisasm prints them. It models exactly the forms that it accepts, and
raises UnreadError for all others. What all other opcodes compute is in `meaning`. Tests marked `gpu` run all of them
against hardware.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tcprobe.sass.decode import Operand, UnreadError
from tcprobe.sass.machine import ZERO, Machine

Handler = Callable[..., None]
OPCODES: dict[str, Handler] = {}


def opcode(*names: str, into: dict[str, Handler] = OPCODES) -> Callable[[Handler], Handler]:
    """Register a function under opcode names."""

    def register(function: Handler) -> Handler:
        into.update(dict.fromkeys(names, function))
        return function

    return register


def must(condition: bool, words: str) -> None:
    """Raise UnreadError with `words` unless the condition holds."""
    if not condition:
        raise UnreadError(words)


@opcode("MOVM.16.MT88")
def movm(m: Machine, d: Operand, a: Operand) -> None:
    """Transpose of an 8 x 8 matrix of 16-bit elements; lane l holds row l / 4, columns 2 (l % 4) and the next."""
    must(bool(m.active.all()), "MOVM with inactive lanes is not modelled")
    halves = np.ascontiguousarray(m.read(a)).view(np.uint16).reshape(-1, 8, 8)
    turned = np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1).view(np.uint32)
    m.write(d, turned)


# memory


def _load(size: int) -> Handler:
    def load(m: Machine, d: Operand, a: Operand) -> None:
        """Bytes from memory, zero-extended to 32 bits or over several registers."""
        raw = m.load(_memory(m, a), size)
        padded = np.zeros((m.lanes, max(4, size)), np.uint8)
        padded[:, :size] = raw
        m.write(d, *padded.view(np.uint32).T)

    return load


def _store(size: int) -> Handler:
    def store(m: Machine, a: Operand, d: Operand) -> None:
        """The low bytes of one register, or several registers, to memory."""
        words = max(1, size // 4)
        must(d.view == "R" and not d.sign and d.encoded % words == 0, f"{d} is not a group of {words} registers")
        values = [m.word("R", ZERO if d.first < 0 else d.first + w) for w in range(words)]
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
