"""Branches, calls, ends, and what has no effect here: hints, prefetches, clocks that sleep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.device_runtime import RUNTIME, values
from tcprobe.emulate.machine import END, Machine, Outcome, Part, Step, Where
from tcprobe.emulate.ptx import Immediate, Named, Register, Statement, Vector
from tcprobe.errors import UsageError

MOST_CALLS = 64  # in each other


def _branch(statement: Statement, machine: Machine) -> Step:
    if statement.opcode == "brx":
        return _indexed(statement, machine)
    target = machine.label(statement.operands[0])
    return lambda where: target


def _indexed(statement: Statement, machine: Machine) -> Step:
    index, targets = statement.operands[0], statement.operands[1]
    assert isinstance(targets, Named)
    function = next(f for f in machine.code.functions.values() if targets.name in f.targets)
    start = machine.code.starts[function.name]
    places = np.array(
        [
            start + next(at for name, at in function.labels.items() if label in (name, name.partition("@")[0]))
            for label in function.targets[targets.name]
        ]
    )
    read, join = machine.reader(index, np.uint32), machine.code.joins.get(machine.pc, END)

    def run(where: Where) -> int | Outcome:
        chosen = places[np.broadcast_to(read(where), machine.threads[where].shape)]
        ways = np.unique(chosen)
        if ways.size == 1:
            return int(ways[0])
        return Outcome(tuple(Part(int(way), machine.subset(where, chosen == way)) for way in ways), join)

    return run


def _end(statement: Statement, machine: Machine) -> Step:
    """ret, exit."""
    returns = statement.opcode == "ret"

    def run(where: Where) -> int | Outcome:
        front = machine.front
        if returns and front.calls:
            at = front.calls[-1]
            if machine.threads[where].size == machine.threads[front.where].size:
                front.calls = front.calls[:-1]
                return at
            raise statement.refused("where only some of a warp's threads return from a function")
        return Outcome((Part(END, where),))

    return run


def _trap(statement: Statement, machine: Machine) -> Step:
    def run(where: Where) -> Outcome:
        thread = int(machine.threads[where][0])
        machine.find("deadlock", thread, "the kernel traps: it goes no further")
        return Outcome((Part(END, where),))

    return run


def _call(statement: Statement, machine: Machine) -> Step:
    """A call of a function whose text is there; parameters are copied."""
    operands = list(statement.operands)
    results: tuple[Any, ...] = ()
    if isinstance(operands[0], Vector):
        results = operands.pop(0).items  # type: ignore[union-attr]
    target = operands.pop(0)
    given: tuple[Any, ...] = operands[0].items if operands and isinstance(operands[0], Vector) else ()
    if not isinstance(target, Named):
        raise statement.refused("by address")
    function = machine.code.functions.get(target.name)
    after = machine.pc + 1
    if function is None and target.name in RUNTIME:
        return _called(target.name, given, results, machine)
    if function is None:

        def refuse(where: Where) -> None:
            raise UsageError(f"line {statement.line}: {target.name[:60]} is called, whose text is not there.")

        return refuse
    start = machine.code.starts[function.name]

    # what a function returns is read under the caller's name
    for result, formal in zip(results, function.returned, strict=True):
        machine.code.aliases[result.name] = formal.name

    def run(where: Where) -> int:
        front = machine.front
        if len(front.calls) >= MOST_CALLS:
            raise UsageError(f"line {statement.line}: more than {MOST_CALLS} calls in each other.")
        for source, formal in zip(given, function.parameters, strict=True):
            _copy(machine, source, formal.name, formal.size, where)
        front.calls = (*front.calls, after)
        return start

    return run


def _called(name: str, given: tuple[Any, ...], results: tuple[Any, ...], machine: Machine) -> Step:
    """A call of a function that CUDA's runtime has, thread by thread; what it returns is 0."""

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        parameters = [machine.parameters[each.name] for each in given]
        goes_on = np.array([RUNTIME[name](machine, int(t), values(parameters, int(t))) for t in threads], np.bool_)
        for result in results:
            machine.parameters.setdefault(result.name, np.zeros((machine.count, 4), np.uint8))[where] = 0
        if goes_on.all():
            return None
        parts = (Part(machine.pc + 1, machine.subset(where, goes_on)), Part(END, machine.subset(where, ~goes_on)))
        return Outcome(parts if goes_on.any() else parts[1:])

    return run


def _copy(machine: Machine, source: Any, formal: str, size: int, where: Where) -> None:
    target = machine.parameters.setdefault(formal, np.zeros((machine.count, max(size, 1)), np.uint8))
    if isinstance(source, Named):
        target[where] = machine.parameters[source.name][where][:, :size]
    elif isinstance(source, Register):
        bits = machine.register(source)[where]
        target[where] = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, bits.dtype.itemsize)[:, :size]
    elif isinstance(source, Immediate):
        target[where] = np.frombuffer((source.value & (1 << 8 * size) - 1).to_bytes(size, "little"), np.uint8)


def _nothing(statement: Statement, machine: Machine) -> Step:
    del statement, machine
    return lambda where: None


def _policy(statement: Statement, machine: Machine) -> Step:
    """createpolicy: a hint, whose bits nobody reads."""
    write = machine.writer(statement.operands[0], np.uint64)
    return lambda where: write(where, np.uint64(0))


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "bra": _branch,
    "brx": _branch,
    "ret": _end,
    "exit": _end,
    "trap": _trap,
    "call": _call,
    "createpolicy": _policy,
    **dict.fromkeys(
        (
            "prefetch",
            "prefetchu",
            "discard",
            "applypriority",
            "nanosleep",
            "pmevent",
            "brkpt",
            "setmaxnreg",
            "griddepcontrol",
        ),
        _nothing,
    ),
}
