"""A debugger's view: what a thread reads and sets at a line, and where it stops, which elements its registers hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcprobe.emulate.machine import Machine, Where
from tcprobe.emulate.ptx import Address, Function, Negated, Operand, Register, Statement, Vector
from tcprobe.emulate.rounding import WORDS, widen
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.store.cell import find
from tcprobe.store.choose import default
from tcprobe.text import quoted

MOST_LINES = 10_000  # of a trace


class StoppedError(Exception):
    """The thread has come to the line where it stops."""


@dataclass
class Watch:
    """A line and a thread to trace, and a line and a thread to stop at; `lines` is what was seen."""

    trace: tuple[int, int] | None
    stop: tuple[int, int] | None
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, kernel: Function, trace: str | None, stop: str | None) -> Watch | None:
        """From what was typed; None without either. UsageError where no instruction is at or after the line."""
        if trace is None and stop is None:
            return None
        last = max((statement.line for statement in kernel.statements), default=0)
        made = cls(_place("trace", trace, last, need_thread=True), _place("break", stop, last))
        if made.stop:
            later = min(s.line for s in kernel.statements if s.line >= made.stop[0])
            made.stop = (later, made.stop[1])
        return made

    def see(self, machine: Machine, pc: int, where: Where) -> None:
        """Before a statement runs; StoppedError where it is the one to stop at."""
        statement = machine.statements[pc]
        for asked in (self.trace, self.stop):
            if asked is None or statement.line != asked[0]:
                continue
            thread = asked[1]
            if thread >= machine.count or thread not in machine.threads[where]:
                continue
            if asked is self.stop:
                self.lines += describe(machine, statement, thread)
                raise StoppedError
            if len(self.lines) < MOST_LINES:
                self.lines.append(f"{machine.report.instructions}: {in_words(machine, statement, thread)}")


def _place(option: str, text: str | None, last: int, need_thread: bool = False) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(",")
    if (
        len(parts) > 2
        or (need_thread and len(parts) != 2)
        or not all(p.strip().isdigit() and len(p) < 9 for p in parts)
    ):
        raise UsageError(f"`{option}` {quoted(text[:40])} is no line and thread, such as 120,0.")
    line, thread = int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    if not 1 <= line <= last:
        raise UsageError(f"`{option}` {line}: the kernel's last instruction is in line {last}.")
    return line, thread


def _registers(operand: Operand) -> Iterator[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Negated):
        yield operand.register
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
    elif isinstance(operand, Address) and isinstance(operand.base, Register):
        yield operand.base


def _value(machine: Machine, register: Register, thread: int) -> Any:
    return machine.register(register)[thread]


def _shown(machine: Machine, register: Register, thread: int) -> str:
    name, value = register.name.partition("@")[0], _value(machine, register, thread)
    if register.type == "pred":
        return f"{name} = {'true' if value else 'false'}"
    if np.ndim(value):
        return f"{name} = {' '.join(hex(int(word)) for word in value)}"
    number = f" ({float(widen(np.array([value]), register.type)[0]):g})" if register.type in WORDS else ""
    return f"{name} = {int(value):#x}{number}"


def in_words(machine: Machine, statement: Statement, thread: int) -> str:
    """An instruction with the values of its registers in a thread."""
    guard = statement.guard
    seen = dict.fromkeys(r for o in (*((guard,) if guard else ()), *statement.operands) for r in _registers(o))
    values = ", ".join(_shown(machine, register, thread) for register in list(seen)[:64])
    return f"line {statement.line}, thread {thread}: {statement.name}{': ' + values if values else ''}"


def describe(machine: Machine, statement: Statement, thread: int) -> Iterator[str]:
    """The same; of a multiply each register of a fragment with the elements that it holds."""
    yield in_words(machine, statement, thread)
    instruction = _multiply(statement)
    if instruction is None:
        return
    names = [operand.name for operand in instruction.operands]
    roles = {"d": 0, "a": 1, "b": 2, "c": 3}
    for name, number in roles.items():
        if name not in names or number >= len(statement.operands) or not isinstance(statement.operands[number], Vector):
            continue
        yield from _fragment(machine, instruction, name, statement.operands[number], thread)


def _multiply(statement: Statement) -> Instruction | None:
    if not statement.name.startswith(("mma.", "wgmma.mma_async")):
        return None
    name = ".".join(word for word in statement.name.split(".") if word != "satfinite")
    return answer_or_none(lambda: resolve(name).instruction)


def _fragment(machine: Machine, instruction: Instruction, name: str, operand: Operand, thread: int) -> Iterator[str]:
    """A line for each register of a fragment."""
    fragment = instruction.fragment(name)
    cell = find(fragment, machine.arch, default()) or find(fragment, None, default())
    if cell is None:
        return
    lane = thread % fragment.threads
    for number, register in enumerate(_registers(operand)):
        bits = int(_value(machine, register, thread))
        width = 8 * register.bytes
        held = []
        for within in range(width // fragment.slot_bits):
            slot = number * (width // fragment.slot_bits) + within
            element = cell.table.at(lane=lane, i=slot) if slot < fragment.elements else None
            value = bits >> within * fragment.slot_bits & (1 << fragment.slot_bits) - 1
            if element:
                place = f"{element['row']}, {element['col']}"
                place += f" of product {element['product']}" if "product" in element else ""
                held.append(f"{name.upper()}({place}) = {_number(fragment.type, value)}")
        yield f"  {register.name.partition('@')[0]}: {', '.join(held)}"


def _number(kind: str, bits: int) -> str:
    if kind[0] in "us" and kind[1:].isdigit():
        size = int(kind[1:])
        return str(bits - (1 << size) if kind[0] == "s" and bits >> size - 1 else bits)
    if kind.startswith("b") and kind[1:].isdigit():
        return hex(bits)
    word: Any = WORDS.get(kind, np.uint8)
    return f"{float(widen(np.array([bits], word), kind)[0]):g}"
