"""Between the lanes of a warp: shuffles, votes, matches, sums, and who is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tcprobe.emulate.machine import WARP, Machine, Outcome, Step, Where
from tcprobe.emulate.operands import COMBINED, NUMPY, types
from tcprobe.emulate.ptx import Both, Negated, Sink, Statement


def with_mask(machine: Machine, mask: Any, step: Callable[[Where, Any], None]) -> Step:
    """A step of the lanes that a mask names: it waits for those that are elsewhere."""

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        named = np.broadcast_to(mask(where), threads.shape)
        if machine.incomplete(where) is not None:
            here = np.zeros(machine.count, np.bool_)
            here[threads] = True
            lanes = 1 << np.arange(WARP, dtype=np.int64)
            rows = threads // WARP
            absent = ((machine.live & ~here).reshape(-1, WARP) @ lanes)[rows]
            apart = (absent & named) != 0
            if apart.any():
                return machine.wait_together(where, apart)
        step(where, named)
        return None

    return run


def _rows(machine: Machine, where: Where, value: Any, kind: Any) -> tuple[Any, Any, Any]:
    """(warps, lanes) values with zeros where a lane is not there; and where each thread stands."""
    threads = machine.threads[where]
    warps, row = np.unique(threads // WARP, return_inverse=True)
    whole = np.zeros((warps.size, WARP), kind)
    lane = threads % WARP
    whole[row, lane] = value
    return whole, row, lane


def _shuffle(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    mode = next((w for w in words if w in ("up", "down", "bfly", "idx")), None)
    if "sync" not in words or mode is None or words[-1] != "b32":
        raise statement.refused()
    target, *sources = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, Sink())
    write, write_valid = machine.writer(first, np.uint32), machine.writer(second, np.bool_)
    value, by, clamp, mask = (machine.reader(o, np.uint32) for o in sources)

    def run(where: Where, named: Any) -> None:
        del named
        whole, row, lane = _rows(machine, where, value(where), np.uint32)
        b, c = (np.broadcast_to(n(where), lane.shape).astype(np.int64) for n in (by, clamp))
        segment, most = c >> 8 & 31, c & 31
        least = lane & segment
        top = least | most & ~segment
        b = b & 31
        if mode == "up":
            source, valid = lane - b, lane - b >= top
        elif mode == "down":
            source, valid = lane + b, lane + b <= top
        elif mode == "bfly":
            source, valid = lane ^ b, (lane ^ b) <= top
        else:
            source = least | b & ~segment
            valid = source <= top
        source = np.where(valid, source, lane)
        write(where, whole[row, source])
        write_valid(where, valid)

    return with_mask(machine, mask, run)


def _vote(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    mode = next((w for w in words if w in ("all", "any", "uni", "ballot")), None)
    if "sync" not in words or mode is None:
        raise statement.refused()
    target, source, member = statement.operands
    inverted = isinstance(source, Negated)
    value = machine.reader(source.register if isinstance(source, Negated) else source, np.bool_)
    mask = machine.reader(member, np.uint32)
    write = machine.writer(target, np.uint32 if mode == "ballot" else np.bool_)
    bits = 1 << np.arange(WARP, dtype=np.int64)

    def run(where: Where, named: Any) -> None:
        held = value(where)
        threads = machine.threads[where]
        votes, row, _ = _rows(machine, where, np.broadcast_to(~held if inverted else held, threads.shape), np.bool_)
        ballot = (votes @ bits)[row] & named
        there = (machine.live.reshape(-1, WARP) @ bits)[threads // WARP] & named
        made = {"ballot": ballot, "any": ballot != 0, "all": ballot == there, "uni": (ballot == 0) | (ballot == there)}[
            mode
        ]
        write(where, made.astype(np.uint32) if mode == "ballot" else made)

    return with_mask(machine, mask, run)


def _match(statement: Statement, machine: Machine) -> Step:
    """match.any and match.all."""
    words = statement.modifiers
    kind = NUMPY[types(statement)[-1]]
    target, source, member = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, Sink())
    write, write_valid = machine.writer(first, np.uint32), machine.writer(second, np.bool_)
    value, mask = machine.reader(source, kind), machine.reader(member, np.uint32)
    bits = 1 << np.arange(WARP, dtype=np.int64)

    def run(where: Where, named: Any) -> None:
        threads = machine.threads[where]
        whole, row, lane = _rows(machine, where, value(where), kind)
        there, _, _ = _rows(machine, where, np.ones(threads.size, np.bool_), np.bool_)
        same = (whole[row] == whole[row, lane][:, None]) & there[row]
        found = (same @ bits) & named
        if "all" in words:
            every = found == named
            write(where, np.where(every, named, 0).astype(np.uint32))
            write_valid(where, every)
        else:
            write(where, found.astype(np.uint32))

    return with_mask(machine, mask, run)


def _reduce(statement: Statement, machine: Machine) -> Step:
    """redux.sync of whole numbers, and min and max of f32 (PTX ISA, redux.sync)."""
    words = statement.modifiers
    name = next((w for w in words if w in COMBINED), None)
    of_floats = words[-1] == "f32"
    if "sync" not in words or name is None or (of_floats and name not in ("min", "max")):
        raise statement.refused()
    statement.only("sync", name, words[-1], *(("abs", "NaN") if of_floats else ()))
    kind = np.dtype(np.int32) if of_floats else NUMPY[words[-1]]
    write = machine.writer(statement.operands[0], np.uint32 if of_floats else kind)
    value, mask = machine.reader(statement.operands[1], kind), machine.reader(statement.operands[2], np.uint32)
    among = partial(_extreme, COMBINED[name], "abs" in words, "NaN" in words) if of_floats else None

    def run(where: Where, named: Any) -> None:
        threads = machine.threads[where]
        numbers = np.broadcast_to(value(where), threads.shape)
        made = np.zeros(threads.shape, kind)
        groups = (threads // WARP).astype(np.int64) << 32 | named
        for group in np.unique(groups):
            chosen = groups == group
            made[chosen] = among(numbers[chosen]) if among else COMBINED[name].reduce(numbers[chosen], dtype=kind)
        write(where, made.view(np.uint32) if of_floats else made)

    return with_mask(machine, mask, run)


def _extreme(combine: Any, absolute: bool, nan_counts: bool, bits: Any) -> Any:
    """The least or the largest of floats by their bits: -0 is below +0; a NaN counts with .NaN, or where all are."""
    bits = bits & 0x7FFFFFFF if absolute else bits
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    if nan.all() or (nan_counts and nan.any()):
        return 0x7FFFFFFF
    ordered = bits ^ (bits >> 31 & 0x7FFFFFFF)  # as whole numbers they stand in the floats' order
    found = combine.reduce(ordered[~nan])
    return found ^ (found >> 31 & 0x7FFFFFFF)


def _active(statement: Statement, machine: Machine) -> Step:
    """activemask: the lanes that run now."""
    write = machine.writer(statement.operands[0], np.uint32)
    bits = 1 << np.arange(WARP, dtype=np.int64)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        there, row, _ = _rows(machine, where, np.ones(threads.size, np.bool_), np.bool_)
        write(where, (there @ bits)[row].astype(np.uint32))

    return run


def _elect(statement: Statement, machine: Machine) -> Step:
    """elect.sync: the lowest lane of the mask."""
    target, member = statement.operands
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, Sink())
    write, write_chosen = machine.writer(first, np.uint32), machine.writer(second, np.bool_)
    mask = machine.reader(member, np.uint32)

    def run(where: Where, named: Any) -> None:
        threads = machine.threads[where]
        bits = 1 << np.arange(WARP, dtype=np.int64)
        there = (machine.live.reshape(-1, WARP) @ bits)[threads // WARP] & named
        lowest = np.log2(np.maximum(there & -there, 1)).astype(np.int64)
        write(where, lowest.astype(np.uint32))
        write_chosen(where, threads % WARP == lowest)

    return with_mask(machine, mask, run)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "activemask": _active,
    "elect": _elect,
}
