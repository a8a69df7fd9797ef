"""Registers that hold what nobody wrote: a finding only where something uses them.

Kernels load ahead of their last tile what they never multiply. So a load of unwritten bytes marks its registers, and
the instructions that name these registers look from then on; `mov` hands the mark on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tcprobe.emulate.machine import Machine, Outcome, State, Step, Where
from tcprobe.emulate.ptx import Address, Both, Negated, Operand, Register, Statement, Vector
from tcprobe.layout.arrays import Bools

WITHOUT_RESULT = ("st", "red", "bra", "bar", "barrier", "cp", "stmatrix", "fence", "ret", "exit", "tcgen05")


class Mark(NamedTuple):
    """The threads whose register is marked, and the load that did it."""

    threads: Bools
    statement: Statement


class Marks(State):
    """The marked registers by name; the statements that look, and those that name a register."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.of: dict[str, Mark] = {}
        self.looking: set[int] = set()

    @cached_property
    def uses(self) -> dict[str, list[int]]:
        """By register the statements that name it."""
        uses: dict[str, list[int]] = {}
        for pc, statement in enumerate(self.machine.statements):
            for each in {*(n for part in results_and_sources(statement) for n in part)}:
                uses.setdefault(each, []).append(pc)
        return uses

    def restart(self) -> None:
        """None is marked."""
        self.of.clear()


def registers_of(operand: Operand) -> Iterator[str]:
    """The names of all registers of an operand."""
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Negated):
        yield operand.register.name
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_of(item)
    elif isinstance(operand, Both):
        yield from registers_of(operand.first)
        yield from registers_of(operand.second)
    elif isinstance(operand, Address):
        if operand.base is not None:
            yield from registers_of(operand.base)
        for item in operand.more:
            yield from registers_of(item)


def results_and_sources(statement: Statement) -> tuple[list[str], list[str]]:
    """The registers that a statement sets, and those that it reads."""
    operands = statement.operands
    if statement.opcode in WITHOUT_RESULT or not operands or isinstance(operands[0], Address):
        return [], [name for operand in operands for name in registers_of(operand)]
    sources = [name for operand in operands[1:] for name in registers_of(operand)]
    return list(registers_of(operands[0])), sources


def mark(machine: Machine, operands: Sequence[Operand], lanes: Sequence[Bools | None], where: Where) -> None:
    """Registers that a load has just set: those of `lanes` (of the threads) hold unwritten bytes."""
    marks = machine.state(Marks).of
    statement = machine.statements[machine.pc]
    for operand, wrong in zip(operands, lanes, strict=True):
        for name in registers_of(operand):
            if wrong is not None and wrong.any():
                found = marks.setdefault(name, Mark(np.zeros(machine.count, np.bool_), statement))
                found.threads[where] = wrong
                marks[name] = found._replace(statement=statement)
                _watch(machine, name)


def _watch(machine: Machine, name: str) -> None:
    """The instructions that name a register look whether it is marked."""
    marks, steps = machine.state(Marks), machine.code.steps
    for pc in marks.uses.get(name, []):
        if pc not in marks.looking:
            marks.looking.add(pc)
            steps[pc] = _looking(machine, machine.statements[pc], steps[pc])


def _looking(machine: Machine, statement: Statement, step: Step) -> Step:
    results, sources = results_and_sources(statement)
    marks = machine.state(Marks).of
    guard = statement.guard

    def run(where: Where) -> int | Outcome | None:
        taking = machine.threads[where]
        if guard is not None:
            register, wanted = (guard.register, False) if isinstance(guard, Negated) else (guard, True)
            taking = taking[machine.register(register)[where] == wanted]
        found = [marks[name] for name in sources if name in marks and marks[name].threads[taking].any()]
        if found and statement.opcode != "mov":
            first = found[0]
            thread = int(taking[int(np.argmax(first.threads[taking]))])
            words = f"reads memory that nobody wrote, and line {statement.line} uses it"
            machine.find("uninitialised", thread, words, first.statement)
        outcome = step(where)
        for name in results:
            if name in marks:
                marks[name].threads[taking] = False
        if found and statement.opcode == "mov":
            for name in results:
                threads = np.zeros(machine.count, np.bool_)
                threads[taking] = found[0].threads[taking]
                old = marks.get(name)
                marks[name] = Mark(threads | old.threads if old else threads, found[0].statement)
                _watch(machine, name)
        return outcome

    return run
