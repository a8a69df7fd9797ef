"""A kernel's statements as steps: each instruction by the module that knows its opcode, guards, branches, labels.

A module of `emulate/instructions` has OPCODES: by opcode (`add`, `mma`) a function of a statement and the machine that
returns its step, or None where it does not know the form, which another module may. What none knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import MappingProxyType

import numpy as np

from tcprobe import plugins
from tcprobe.emulate.forms import TYPES, form_of, forms
from tcprobe.emulate.machine import END, Code, Machine, Outcome, Part, Step, Where
from tcprobe.emulate.ptx import Function, Named, Negated, Register, Statement
from tcprobe.graph import immediate_post_dominators

Compile = Callable[[Statement, Machine], Step | None]
INSTRUCTIONS = "tcprobe.emulate.instructions"


@cache
def compilers() -> MappingProxyType[str, tuple[Compile, ...]]:
    """Those of all modules, by opcode."""
    found: dict[str, tuple[Compile, ...]] = {}
    for module in plugins.discover(INSTRUCTIONS, ("OPCODES",)).values():
        for opcode, compile_ in module.OPCODES.items():
            found[opcode] = (*found.get(opcode, ()), compile_)
    return MappingProxyType(found)


def compile_function(function: Function, machine: Machine) -> None:
    """The machine's code: a function and those that it calls, which follow; UsageError as refused."""
    code = machine.code = Code()
    order = [function]
    for called in order:
        for name in _called(called):
            other = machine.module.functions.get(name)
            if other and other.defined and other not in order:
                order.append(other)
    for each in order:
        start = len(code.statements)
        code.starts[each.name], code.functions[each.name] = start, each
        for label, number in each.labels.items():
            code.labels[label] = start + number
        code.statements += each.statements
        code.statements.append(Statement(each.line, None, "ret", ()))
        code.joins.update(_joins(each, start))
    for pc, statement in enumerate(code.statements):
        machine.pc = pc
        code.steps.append(_step(statement, machine))
    for state in machine.states.values():
        state.compiled()


def _called(function: Function) -> list[str]:
    return [
        operand.name
        for statement in function.statements
        if statement.opcode == "call"
        for operand in statement.operands
        if isinstance(operand, Named)
    ]


def _step(statement: Statement, machine: Machine) -> Step:
    step: Step | None = None
    if statement.opcode in forms():
        _check_form(statement)
    try:
        for compile_ in compilers().get(statement.opcode, ()):
            if (step := compile_(statement, machine)) is not None:
                break
    except (AssertionError, AttributeError, IndexError, ValueError) as error:  # what a text's operands can lead to
        raise statement.refused("with these operands or modifiers") from error
    if step is None:
        raise statement.refused()
    return step if statement.guard is None else _guarded(step, statement.guard, machine)


def _check_form(statement: Statement) -> None:
    """Refuse a name that `forms.csv` does not have, and registers of another width: but cvt's may be wider."""
    form = form_of(statement.name, len(statement.operands))
    if form is None:
        raise statement.refused(f"with {len(statement.operands)} operands and these types and modifiers")
    for operand, kind in zip(statement.operands, form.operand_types(statement.name), strict=True):
        if not isinstance(operand, Register) or kind == "n":
            continue
        wrong = operand.bytes < TYPES[kind] if statement.opcode == "cvt" else operand.bytes != TYPES[kind]
        if wrong or (operand.type == "pred") != (kind == "pred"):
            raise statement.refused(f"with a register .{operand.type} as .{kind}")


def _guarded(step: Step, guard: Register | Negated, machine: Machine) -> Step:
    """A step that only the threads execute for which the guard holds."""
    register, wanted = (guard.register, False) if isinstance(guard, Negated) else (guard, True)
    values = machine.register(register)
    pc = machine.pc
    join = machine.code.joins.get(pc, END)

    def run(where: Where) -> int | Outcome | None:
        mask = values[where]
        taken = np.count_nonzero(mask)
        if taken == (mask.size if wanted else 0):
            return step(where)
        if taken == (0 if wanted else mask.size):
            return None
        if not wanted:
            mask = ~mask
        outcome = step(machine.subset(where, mask))
        if outcome is None:
            return None
        rest = Part(pc + 1, machine.subset(where, ~mask))
        if isinstance(outcome, int):
            return Outcome((Part(outcome, machine.subset(where, mask)), rest), join)
        return Outcome((*outcome.parts, rest), join if outcome.join == END else outcome.join, outcome.later)

    return run


def _joins(function: Function, start: int) -> dict[int, int]:
    """By statement that parts threads, the statement where they meet again."""
    statements = function.statements
    leaders = {0, *function.labels.values()}
    leaders |= {n + 1 for n, s in enumerate(statements) if s.opcode in ("bra", "brx", "ret", "exit", "trap") or s.guard}
    starts = sorted(n for n in leaders if n <= len(statements))
    number = {at: n for n, at in enumerate(starts)}
    follows: list[tuple[int, ...]] = []
    for n, at in enumerate(starts):
        last = (starts[n + 1] if n + 1 < len(starts) else len(statements)) - 1
        follows.append(_follows(function, last, number) if last >= at else ())
    nearest = immediate_post_dominators(follows)
    joins = {}
    for n, at in enumerate(starts):
        last = (starts[n + 1] if n + 1 < len(starts) else len(statements)) - 1
        if last >= at and nearest[n] >= 0:
            joins[start + last] = start + starts[nearest[n]]
    return joins


def _follows(function: Function, last: int, number: dict[int, int]) -> tuple[int, ...]:
    """The blocks after the one that ends with a statement."""
    statement = function.statements[last]
    found = []
    if statement.opcode in ("bra", "brx"):
        named = [o.name for o in statement.operands if isinstance(o, Named)]
        targets = [t for name in named for t in function.targets.get(name, (name,))]
        found = [number[at] for t in targets if (at := _place(function, t)) is not None]
    ends = statement.opcode in ("bra", "brx", "ret", "exit", "trap") and statement.guard is None
    if not ends and last + 1 in number:
        found.append(number[last + 1])
    return tuple(dict.fromkeys(found))


def _place(function: Function, label: str) -> int | None:
    if label in function.labels:
        return function.labels[label]
    return next((at for name, at in function.labels.items() if name.partition("@")[0] == label), None)
