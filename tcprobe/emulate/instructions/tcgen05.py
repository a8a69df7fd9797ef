"""tcgen05: columns of tensor memory, fences, waits and commits.

Written from PTX ISA 9.1, section 9.7.16. Multiplies and copies of one thread take effect in order, at the latest when a
commit's mbarrier is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.instructions.barriers import found_at, offsets_of
from tcprobe.emulate.machine import WARP, Machine, Outcome, Part, Step, Wait, Where
from tcprobe.emulate.mbarriers import MBarrier
from tcprobe.emulate.operands import by_modifier, only
from tcprobe.emulate.ptx import Statement
from tcprobe.emulate.tensor_layout import CELL, COLUMNS
from tcprobe.emulate.tensor_memory import LEAST, MASK, TensorMemory, Work, tensor_memory

# columns


def _alloc(statement: Statement, machine: Machine) -> Step:
    only(statement, "sync", "aligned", "shared::cta", "b32")
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    count, pc = machine.reader(statement.operands[1], np.uint32), machine.pc
    memory = tensor_memory(machine)

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        counts = np.broadcast_to(count(where), threads.shape)
        at = np.broadcast_to(np.asarray(address(where)), threads.shape)
        waiting = np.zeros(threads.size, np.bool_)
        for first in range(0, threads.size, WARP):
            thread, wanted = int(threads[first]), int(counts[first])
            block = int(machine.block_of[thread])
            if wanted & wanted - 1 or not LEAST <= wanted <= COLUMNS:
                machine.find("bounds", thread, f"{wanted} columns: a power of two from {LEAST} to {COLUMNS} is needed")
                continue
            if block in memory.relinquished:
                machine.find("deadlock", thread, "columns are allocated after the permit was given back")
            column = memory.allocate(block, wanted, statement, thread)
            if column is None:
                waiting[first : first + WARP] = True
                continue
            word = np.array([[column]], np.uint32).view(np.uint8)
            machine.store(space, at[first : first + 1], word, slice(thread, thread + 1))
        if not waiting.any():
            return None

        def ready() -> bool:
            return any(_fits(memory, int(machine.block_of[t]), int(counts[0])) for t in threads[waiting])

        wait = Wait(ready, lambda: f"{int(counts[0])} columns of tensor memory, which others hold")
        parts = [Part(pc, machine.subset(where, waiting), wait)]
        if not waiting.all():
            parts.append(Part(pc + 1, machine.subset(where, ~waiting)))
        return Outcome(tuple(parts), pc + 1)

    return machine.together(run)


def _fits(memory: TensorMemory, block: int, columns: int) -> bool:
    taken = np.zeros(COLUMNS, np.bool_)
    for (other, first), (count, *_) in memory.allocated.items():
        if other == block:
            taken[first : first + count] = True
    return any(not taken[first : first + columns].any() for first in range(0, COLUMNS, columns))


def _dealloc(statement: Statement, machine: Machine) -> Step:
    only(statement, "sync", "aligned", "b32")
    address, count = (machine.reader(operand, np.uint32) for operand in statement.operands)
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        starts, counts = (np.broadcast_to(read(where), threads.shape) for read in (address, count))
        for first in range(0, threads.size, WARP):
            thread, block = int(threads[first]), int(machine.block_of[threads[first]])
            column, wanted = int(starts[first]) & MASK, int(counts[first])
            held = memory.allocated.get((block, column))
            if held is None or held[0] != wanted or int(starts[first]) >> 16:
                machine.find("bounds", thread, f"{wanted} columns from {column} on are no allocation of tensor memory")
                continue
            lane, inside = np.indices((128, wanted)).reshape(2, -1)
            offsets = memory.offsets(block, lane, column + inside)
            written = offsets[memory.space.writers(offsets, CELL)[:, 0] != 0]
            if written.size:
                memory.check(written, np.full(written.size, thread), writes=True, what="gives back")
            memory.free(block, column)

    return machine.together(run)


def _relinquish(statement: Statement, machine: Machine) -> Step:
    only(statement, "sync", "aligned")
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        memory.relinquished.update(machine.block_of[machine.threads[where]].tolist())

    return machine.together(run)


# order


def _fence_before(statement: Statement, machine: Machine) -> Step:
    memory = tensor_memory(machine)
    return memory.fence_before


def _fence_after(statement: Statement, machine: Machine) -> Step:
    memory = tensor_memory(machine)
    return memory.fence_after


def _wait(statement: Statement, machine: Machine) -> Step:
    memory, kind = tensor_memory(machine), statement.modifiers[0].removeprefix("wait::")
    return machine.together(lambda where: memory.wait(where, kind))


def _commit(statement: Statement, machine: Machine) -> Step:
    only(statement, "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "b64")
    space = space_of(statement)
    address = address_of(machine, statement.operands[0], space)
    mask = machine.reader(statement.operands[1], np.uint16) if "multicast::cluster" in statement.modifiers else None
    memory = tensor_memory(machine)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        at = np.broadcast_to(np.asarray(address(where)), threads.shape)
        masks = np.broadcast_to(mask(where), threads.shape) if mask else None
        for number, thread in enumerate(threads):
            own = threads[number : number + 1]
            (offset,) = offsets_of(machine, space, at[number : number + 1], own)
            places = [int(offset)]
            if masks is not None:
                first = int(machine.block_of[thread]) // machine.shape.ranks * machine.shape.ranks
                inside = int(offset) % machine.shared_bytes
                ranks = [rank for rank in range(16) if int(masks[number]) >> rank & 1]
                if any(rank >= machine.shape.ranks for rank in ranks):
                    machine.find("bounds", int(thread), "the mask names blocks that the cluster lacks")
                places = [
                    (first + rank) * machine.shared_bytes + inside for rank in ranks if rank < machine.shape.ranks
                ]
            found = [barrier for place in places if (barrier := found_at(machine, place, int(thread))) is not None]
            _issue_commit(machine, memory, statement, int(thread), found)

    return run


def _issue_commit(
    machine: Machine, memory: TensorMemory, statement: Statement, thread: int, barriers: list[MBarrier]
) -> None:
    pipe, flights = memory.pipe(thread), machine.flights
    works, known = list(pipe.works), memory.known(pipe, thread)

    def arrive() -> None:
        flights.complete(work)
        for barrier in barriers:
            batch = Flight(statement, lambda: None, landed=True, key=barrier.phase, parts=list(works))
            flights.open.append(batch)
            barrier.flights.append(batch)
            if barrier.pending < 1:
                machine.find("deadlock", thread, "it arrives at an mbarrier that awaits nobody", statement)
            else:
                barrier.arrive(1, known)

    work = Work(statement, lambda: None, self_landing=True, act=arrive)
    work.thread = thread
    memory.issue(pipe, work)


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "tcgen05": by_modifier(
        {
            "alloc": _alloc,
            "dealloc": _dealloc,
            "relinquish_alloc_permit": _relinquish,
            "fence::before_thread_sync": _fence_before,
            "fence::after_thread_sync": _fence_after,
            "wait::ld": _wait,
            "wait::st": _wait,
            "commit": _commit,
        }
    )
}
