"""cp.async: pieces of 4, 8 or 16 bytes from global to shared memory, in flight until their group is waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.instructions.barriers import found_at, offsets_of
from tcprobe.emulate.machine import Machine, State, Step, Where
from tcprobe.emulate.mbarriers import MBarrier
from tcprobe.emulate.ptx import Immediate, Operand, Register, Statement

HINTS = ("L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")


class Copies(State):
    """How many groups each thread has committed; copies in flight with their threads and the groups of these."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.groups = np.zeros(machine.count, np.int64)
        self.open: list[tuple[Flight, Any, Any]] = []

    def restart(self) -> None:
        """Nothing is in flight."""
        self.groups[:] = 0
        self.open.clear()


def _async(statement: Statement, machine: Machine) -> Step | None:
    words = statement.modifiers
    if words[0] != "async" or "bulk" in words:
        return None
    if "mbarrier" in words:
        return _arrive(statement, machine)
    if "commit_group" in words:
        return _commit(machine)
    if "wait_group" in words or "wait_all" in words:
        return _wait(statement, machine)
    return _copy(statement, machine)


def _commit(machine: Machine) -> Step:
    groups = machine.state(Copies).groups

    def run(where: Where) -> None:
        groups[where] += 1

    return run


def _copy(statement: Statement, machine: Machine) -> Step:
    """4, 8 or 16 bytes a thread; of fewer, or none where a predicate says so, the rest becomes zeros."""
    words = statement.modifiers
    statement.only("async", "ca", "cg", "shared", "shared::cta", "global", *HINTS)
    to, of, count, *more = statement.operands
    if not isinstance(count, Immediate) or count.value not in (4, 8, 16) or ("cg" in words and count.value != 16):
        raise statement.refused()
    if "L2::cache_hint" in words:
        more = more[:-1]
    size = count.value
    target, source = address_of(machine, to, "shared"), address_of(machine, of, "global")
    taken_by, groups = _taken(machine, size, *more), machine.state(Copies).groups

    def run(where: Where) -> None:
        threads, taken = machine.threads[where], taken_by(where)
        origin = np.broadcast_to(np.asarray(source(where)), threads.shape).copy()
        for memory, offsets, lanes in machine.reach("shared", target(where), size, threads):
            _issue(machine, statement, memory, offsets, threads[lanes], origin[lanes], taken[lanes], size, groups)

    return run


def _taken(machine: Machine, size: int, *given: Operand) -> Callable[[Where], Any]:
    """How many bytes each thread takes: all, as many as the operand says, or none where it is a true predicate."""
    if not given:
        return lambda where: np.full(machine.threads[where].size, size)
    if isinstance(given[0], Register) and given[0].type == "pred":
        ignored = machine.reader(given[0], np.bool_)
        return lambda where: np.where(np.broadcast_to(ignored(where), machine.threads[where].shape), 0, size)
    count = machine.reader(given[0], np.uint32)
    return lambda where: np.minimum(np.broadcast_to(count(where), machine.threads[where].shape).astype(np.int64), size)


def _issue(
    machine: Machine,
    statement: Statement,
    memory: Any,
    offsets: Any,
    threads: Any,
    origin: Any,
    taken: Any,
    size: int,
    groups: Any,
) -> None:
    machine.check_write(memory, offsets, np.zeros((threads.size, size), np.uint8), threads)
    tags = machine.clocks.tags(threads)

    def effect() -> None:
        data = np.zeros((threads.size, size), np.uint8)
        whole = taken == size
        if whole.any():
            data[whole] = machine.load("global", origin[whole], size, threads[whole])
        for lane in np.flatnonzero((taken > 0) & ~whole):
            place = origin[lane] + np.arange(taken[lane])
            data[lane, : taken[lane]] = machine.load("global", place, 1, np.full(taken[lane], threads[lane]))[:, 0]
        memory.scatter(offsets, data)
        memory.write_states(offsets, size)
        memory.copied_by(offsets, size, tags)

    places = (offsets[:, None] + np.arange(size)).reshape(-1)
    flight = Flight(statement, effect, writes=[(memory, places)], key=(memory, offsets, size))
    machine.state(Copies).open.append((flight, threads, groups[threads].copy()))
    machine.flights.issue(flight)


def _wait(statement: Statement, machine: Machine) -> Step:
    every = "wait_all" in statement.modifiers
    operand = statement.operands[0] if statement.operands else Immediate(0)
    assert isinstance(operand, Immediate)
    groups, flights = machine.state(Copies).groups, machine.flights

    def run(where: Where) -> None:
        waits = np.zeros(machine.count, np.bool_)
        waits[where] = True
        kept = []
        for flight, threads, numbers in machine.state(Copies).open:
            done = waits[threads] & (every | (numbers < groups[threads] - operand.value))
            if done.all():
                flights.complete(flight)
            elif done.any():
                kept += _split(machine, flight, threads, numbers, done)
            else:
                kept.append((flight, threads, numbers))
            if done.any():  # written, for others, when the thread has waited
                memory, offsets, size = flight.key
                memory.copied_by(offsets[done], size, machine.clocks.tags(threads[done]))
        machine.state(Copies).open[:] = kept
        if every:
            groups[where] += 1

    return run


def _split(machine: Machine, flight: Flight, threads: Any, numbers: Any, done: Any) -> list[tuple[Flight, Any, Any]]:
    """Some of the threads have waited: the copies of the others stay in flight."""
    (memory, places) = flight.writes[0]
    rows = places.reshape(threads.size, -1)
    flights = machine.flights
    before = memory.bytes[rows[~done]].copy(), memory.state[rows[~done]].copy()
    landed = flight.landed
    flights.complete(flight)

    def effect() -> None:
        memory.bytes[rows[~done]] = after

    after = memory.bytes[rows[~done]].copy()
    if not landed:
        memory.bytes[rows[~done]] = before[0]
    key = (memory, flight.key[1][~done], flight.key[2])
    rest = Flight(flight.statement, effect, writes=[(memory, rows[~done].reshape(-1))], key=key)
    rest.landed = landed
    for space, at in rest.writes:
        np.add.at(space.incoming, at, 1)
        space.flights += 1
    flights.open.append(rest)
    return [(rest, threads[~done], numbers[~done])]


def _arrive(statement: Statement, machine: Machine) -> Step:
    """cp.async.mbarrier.arrive: the barrier's arrival once all earlier copies of the thread have landed."""
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    counted = "noinc" in statement.modifiers

    def run(where: Where) -> None:
        threads = machine.threads[where]
        offsets = offsets_of(machine, space, address(where), threads)
        mine = np.zeros(machine.count, np.bool_)
        mine[where] = True
        copies = [entry for entry in machine.state(Copies).open if mine[entry[1]].any()]
        for offset in np.unique(offsets):
            own = threads[offsets == offset]
            barrier = found_at(machine, int(offset), int(own[0]))
            if barrier is None:
                continue
            if not counted:
                barrier.pending += own.size
            _later(machine, statement, barrier, own, copies)

    return run


def _later(
    machine: Machine, statement: Statement, barrier: MBarrier, own: Any, copies: list[tuple[Flight, Any, Any]]
) -> None:
    flights = machine.flights
    known = machine.clocks.release(own)

    def effect() -> None:
        kept = []
        for entry in machine.state(Copies).open:
            done = np.isin(entry[1], own)
            if any(entry[0] is copy[0] for copy in copies) and done.all():
                flights.complete(entry[0])
            elif any(entry[0] is copy[0] for copy in copies) and done.any():
                kept += _split(machine, *entry, done)
            else:
                kept.append(entry)
        machine.state(Copies).open[:] = kept
        flights.complete(flight)
        barrier.arrive(own.size, known)

    flight = Flight(statement, effect, self_landing=True)
    flights.issue(flight)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {"cp": _async}
