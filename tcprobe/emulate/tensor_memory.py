"""Tensor memory: 128 lanes x 512 columns a CTA, what is allocated, what is in flight, who knows of whose accesses.

What a thread, or the pipe behind its multiplies and copies, has done there is known to another thread once that has
learned of it by a barrier or an mbarrier. By the patterns of PTX ISA 9.1, section 9.7.16.6.4, it must have executed
tcgen05.fence::after_thread_sync since, and of loads and stores the thread that did them fence::before_thread_sync
before; by section 9.7.16.6.3 the standard mechanisms of synchronization apply as well, and kernels of CUTLASS and
Triton rest on that. So in a kernel without any of these fences it is a note that they are missing; in one that has
some, a place that lacks one is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.clocks import CLOCK, CLOCK_AT, ENTITY, KNOWN, PROXY, Known, clock_of
from tcprobe.emulate.machine import WARP, Outcome, State, Step
from tcprobe.emulate.memory import OUTSIDE, UNWRITTEN, Space
from tcprobe.emulate.tensor_layout import CELL, COLUMNS, LANES
from tcprobe.emulate.unwritten import registers_of
from tcprobe.layout.arrays import Bools, Bytes, Ints

if TYPE_CHECKING:
    from tcprobe.emulate.machine import Machine, Where
    from tcprobe.emulate.ptx import Statement

Words = NDArray[np.uint32]
SIZE = LANES * COLUMNS * CELL  # bytes of a CTA
LEAST = 32  # columns of an allocation, a power of two
MASK = (1 << 16) - 1  # of an address: the column; the lane is above
FENCE = "tcgen05.fence"
PIECE = 16  # bytes of shared memory that a swizzle keeps together


def every_byte(offsets: Ints, size: int = CELL) -> Ints:
    """The bytes of pieces of memory."""
    return (offsets[:, None] + np.arange(size)).reshape(-1)


@dataclass(eq=False)
class Work(Flight):
    """A multiply or copy of a pipe; `act` moves the data, once all before it in the pipe have."""

    act: Callable[[], None] = lambda: None
    done: bool = False


@dataclass(eq=False)
class Pipe:
    """Multiplies and copies that one thread has issued, in order; `engine` is who does them."""

    engine: int
    works: list[Work] = field(default_factory=list)  # of which nobody has learned yet that they are done
    clock: int = 0

    def land(self, last: Work) -> None:
        """All up to one take effect, in the order in which they were issued."""
        for work in list(self.works):
            if not work.done:
                work.done = work.landed = True
                work.act()
            if work is last:
                return


class TensorMemory(State):
    """Of all blocks of a machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.space = Space("tensor", machine.blocks * SIZE)
        self.allocated: dict[tuple[int, int], tuple[int, Statement, int]] = {}  # (block, column): columns, by whom
        self.relinquished: set[int] = set()
        self.pipes: dict[int, Pipe] = {}
        self.after = np.zeros_like(machine.clocks.known)  # what each thread knew at its last fence::after
        self.before = np.zeros(machine.count, np.int64)  # its own clock at its last fence::before
        self.loads: list[tuple[Flight, int]] = []  # loads and stores in flight, by their warp
        self.loaded = False
        self.unfenced = False  # whether it was noted that a tcgen05.fence is missing
        self.awaited: dict[str, Ints] = {}  # registers of loads: how many in flight will write them, by thread
        machine.flights.at_end.append(self.end)

    # columns

    def allocate(self, block: int, columns: int, statement: Statement, thread: int) -> int | None:
        """The first column of that many; None while there are none.

        From the end on, so that nobody takes column 0 for granted.
        """
        taken = np.zeros(COLUMNS, np.bool_)
        for (other, first), (count, *_) in self.allocated.items():
            if other == block:
                taken[first : first + count] = True
        for first in range(COLUMNS - columns, -1, -columns):
            if not taken[first : first + columns].any():
                self.allocated[block, first] = (columns, statement, thread)
                self._columns(block, first, columns)[:] = UNWRITTEN
                return first
        return None

    def free(self, block: int, first: int) -> None:
        """Its columns are nobody's."""
        count, *_ = self.allocated.pop((block, first))
        self._columns(block, first, count)[:] = OUTSIDE

    def _columns(self, block: int, first: int, count: int) -> Bytes:
        states = self.space.state[: self.machine.blocks * SIZE].reshape(-1, LANES, COLUMNS * CELL)
        return states[block, :, first * CELL : (first + count) * CELL]

    def offsets(self, block: int | Ints, lane: Ints, column: Ints) -> Ints:
        """Where cells are; -1 for lanes and columns that there are not."""
        inside = (lane >= 0) & (lane < LANES) & (column >= 0) & (column < COLUMNS)
        return np.where(inside, block * SIZE + (lane * COLUMNS + column) * CELL, -1)

    def there(self, offsets: Ints, thread: int, what: str) -> Bools:
        """Which cells are allocated; a finding where some are not."""
        right: Bools = offsets >= 0
        right &= (self.space.states(np.where(right, offsets, 0), CELL) != OUTSIDE).all(axis=1)
        if not right.all():
            self.machine.find("bounds", thread, f"{what} is in columns of tensor memory that are not allocated")
        return right

    # order

    @cached_property
    def fences(self) -> bool:
        """Whether the kernel orders its accesses by tcgen05.fence."""
        return any(statement.name.startswith(FENCE) for statement in self.machine.statements)

    def fence_before(self, where: Where) -> None:
        """tcgen05.fence::before_thread_sync."""
        threads = self.machine.threads[where]
        self.before[threads] = self.machine.clocks.known[threads, self.machine.clocks.own[threads]]
        self.machine.clocks.tick(where)

    def fence_after(self, where: Where) -> None:
        """tcgen05.fence::after_thread_sync."""
        known = self.machine.clocks.heard
        if self.after.shape != known.shape:
            self.after = np.pad(self.after, ((0, 0), (0, known.shape[1] - self.after.shape[1])))
        self.after[where] = known[where]

    def unordered(self, tags: Ints, threads: Ints, engine: int) -> tuple[Bools, Bools]:
        """Accesses of which a thread, or the pipe `engine`, must not take for granted that they are done; those, too,
        that barriers order, but no tcgen05.fence.
        """
        touched: Bools = tags != 0
        if not touched.any():
            return touched, touched
        clocks = self.machine.clocks
        entity, clock = tags & ENTITY, tags >> CLOCK_AT & CLOCK
        rows = np.broadcast_to(threads.reshape((-1,) + (1,) * (tags.ndim - 1)), tags.shape)
        by_thread = entity < clocks.cluster
        own = (entity == engine) | by_thread & (entity == clocks.own[rows])
        met = self._knows(clocks.known, rows, entity) >= clock
        fenced = self._knows(self.after, rows, entity) >= clock
        cluster = rows // clocks.cluster * clocks.cluster
        fenced &= ~by_thread | (self.before[np.where(by_thread, cluster + entity, 0)] >= clock)
        unknown = touched & ~own & ~fenced
        return np.asarray(unknown & ~met), np.asarray(unknown)

    def _knows(self, known: NDArray[np.int32], rows: Ints, entity: Ints) -> Ints:
        """Which clock of an entity each thread knows."""
        width = known.shape[1]
        return np.where(entity < width, known[rows, np.minimum(entity, width - 1)], 0)

    def check(self, offsets: Ints, threads: Ints, writes: bool, engine: int = -1, what: str = "") -> None:
        """Findings for cells that others are still at; a pipe's own work runs in order."""
        machine, space = self.machine, self.space
        tags = space.writers(offsets, CELL)[:, 0]
        wrong, unfenced = self.unordered(tags, threads, engine)
        if not wrong.any() and writes and self.loaded:
            readers = [self.unordered(one, threads, engine) for one in space.readers_of(offsets, CELL)[:, :, 0]]
            wrong = np.logical_or.reduce([one for one, _ in readers])
            unfenced = np.logical_or.reduce([unfenced, *(one for _, one in readers)])
        if self.fences:
            wrong = unfenced
        elif unfenced.any() and not (wrong.any() or self.unfenced):
            self.unfenced, line = True, machine.statements[machine.pc].line
            machine.report.note(
                f"line {line} {what} tensor memory after others, ordered by barriers, by no "
                f"{FENCE}: the patterns of PTX ISA 9.1 have one (9.7.16.6.4), its text lets barriers do (9.7.16.6.3)"
            )
        if wrong.any():
            first = int(np.argmax(wrong))
            machine.find(
                "race",
                int(threads[first]),
                f"{what} tensor memory at lane {offsets[first] % SIZE // (COLUMNS * CELL)}, column "
                f"{offsets[first] // CELL % COLUMNS}, where others were before: a wait or a tcgen05.fence is missing",
            )
        if space.flights:
            busy = space.in_flight(offsets, CELL, writes)
            if engine >= 0:
                busy &= (tags & ENTITY) != engine
            if busy.any():
                thread = int(threads[int(np.argmax(busy))])
                machine.find("in-flight", thread, f"{what} tensor memory that work in flight reads or writes")

    def read(self, offsets: Ints, thread: int, what: str, statement: Statement) -> Words:
        """Words of cells; a finding for those that nobody wrote."""
        if (self.space.states(offsets, CELL) == UNWRITTEN).any():
            self.machine.find("uninitialised", thread, f"{what} that nobody wrote", statement)
        return self.space.gather(offsets, CELL).view(np.uint32)[:, 0]

    def write(self, offsets: Ints, words: Words) -> None:
        """Words of cells."""
        self.space.write_states(offsets, CELL)
        self.space.scatter(offsets, np.ascontiguousarray(words, np.uint32).view(np.uint8).reshape(-1, CELL))

    # pipes

    def pipe(self, thread: int) -> Pipe:
        """What a thread's multiplies and copies go through."""
        if thread not in self.pipes:
            self.pipes[thread] = Pipe(self.machine.clocks.engine())
        return self.pipes[thread]

    def known(self, pipe: Pipe, thread: int) -> Known:
        """That all of a pipe is done, and the copies that its thread had waited for; not what threads did."""
        clocks = self.machine.clocks
        known = clocks.state[:, thread].copy()
        known[:, : clocks.cluster] = 0
        known[[KNOWN, PROXY, clocks.views.heard], pipe.engine] = pipe.clock
        return {int(clocks.serial[thread]): known}

    def issue(self, pipe: Pipe, work: Work) -> None:
        """A multiply or copy takes off behind those before it."""
        flights = self.machine.flights
        pipe.works = [one for one in pipe.works if one in flights.open]
        pipe.works.append(work)
        work.effect = lambda: pipe.land(work)
        flights.issue(work)

    def wait(self, where: Where, kind: str) -> None:
        """tcgen05.wait: loads or stores of these threads' warps are done."""
        warps = set((self.machine.threads[where] // WARP).tolist())
        kept = []
        for flight, warp in self.loads:
            if warp in warps and flight.statement.modifiers[0] == kind:
                self.machine.flights.complete(flight)
                for name in flight.key or ():
                    self.awaited[name][warp * WARP : (warp + 1) * WARP] -= 1
            else:
                kept.append((flight, warp))
        self.loads = kept

    def compiled(self) -> None:
        """Instructions that name a register of a load find it in flight."""
        steps = self.machine.code.steps
        for pc, statement in enumerate(self.machine.statements):
            names = {name for operand in statement.operands for name in registers_of(operand)} & set(self.awaited)
            if names:
                steps[pc] = self._looking(steps[pc], sorted(names))

    def _looking(self, step: Step, names: list[str]) -> Step:
        def run(where: Where) -> int | Outcome | None:
            if self.loads:
                for name in names:
                    busy = self.awaited[name][where] > 0
                    if busy.any():
                        thread = int(self.machine.threads[where][int(np.argmax(busy))])
                        self.machine.find("in-flight", thread, "touches a register that a load in flight writes")
                        break
            return step(where)

        return run

    def end(self, left: list[Flight]) -> None:
        """Blocks have come to their end: what is still allocated is lost."""
        del left
        for (block, first), (count, statement, thread) in self.allocated.items():
            text = f"{count} columns of tensor memory from {first} on are not given back"
            self.machine.find("leak", thread, text, statement)
            del block
        for flight, warp in self.loads:
            text = "nobody waits for it before the threads end"
            self.machine.find("in-flight", warp * WARP, text, flight.statement)
        self.restart()

    def restart(self) -> None:
        """New blocks."""
        self.allocated.clear()
        self.relinquished.clear()
        self.loads.clear()
        for counts in self.awaited.values():
            counts[:] = 0
        self.pipes.clear()
        self.loaded = False
        self.after[:] = 0
        self.before[:] = 0
        for array in (
            self.space.state,
            self.space.writer,
            self.space.readers,
            self.space.incoming,
            self.space.outgoing,
        ):
            array[...] = 0
        self.space.flights = 0


def tensor_memory(machine: Machine) -> TensorMemory:
    """The machine's."""
    return machine.state(TensorMemory)


class Issuer:
    """A thread that issues a multiply or a copy: the blocks of its CTA group, and what is checked on its behalf."""

    def __init__(self, machine: Machine, statement: Statement, thread: int) -> None:
        self.machine, self.statement, self.thread = machine, statement, thread
        self.memory = tensor_memory(machine)
        self.pipe = self.memory.pipe(thread)

    @property
    def blocks(self) -> list[int]:
        """Those of the CTA group."""
        block = int(self.machine.block_of[self.thread])
        if "cta_group::1" in self.statement.modifiers:
            return [block]
        if "cta_group::2" not in self.statement.modifiers:
            raise self.statement.refused("without .cta_group")
        if self.machine.shape.ranks % 2:
            self.machine.find("bounds", self.thread, "a group of two CTAs needs a cluster of an even number of blocks")
            return [block]
        return [block - block % 2, block - block % 2 + 1]

    def shared(self, block: int, addresses: Ints, what: str) -> Ints | None:
        """Offsets of pieces in a block's shared memory, checked as reads of the async proxy; None outside."""
        machine = self.machine
        flat = addresses.reshape(-1) & (1 << 18) - 1
        inside = flat < machine.shared_bytes
        offsets = np.where(inside, block * machine.shared_bytes + flat, 0)
        states = machine.shared.states(offsets, PIECE)
        if not inside.all() or (states == OUTSIDE).any():
            machine.find("bounds", self.thread, f"{what} is outside the shared memory of the block")
            return None
        if (states == UNWRITTEN).any():
            machine.find("uninitialised", self.thread, f"{what} was written by nobody")
        unique = np.unique(offsets)
        machine.check_read(machine.shared, unique, PIECE, np.full(unique.size, self.thread), fenced=True)
        return offsets

    def check(self, cells: Ints, does: str) -> None:
        """What the pipe does to cells: in order with its own work, of which a copy after a multiply is noted."""
        memory, machine = self.memory, self.machine
        threads = np.full(cells.size, self.thread)
        memory.check(cells, threads, writes=does == "writes", engine=self.pipe.engine, what=does)
        if does == "reads" or not memory.space.flights or "cp" not in self.statement.modifiers:
            return
        multiplies = [work for work in self.pipe.works if not work.done and "mma" in work.statement.modifiers]
        if any(np.isin(cells, at).any() for work in multiplies for _, at in work.reads[1:]):
            machine.report.note(
                f"line {self.statement.line}: a copy overwrites what a multiply in flight reads; PTX does not list the "
                "two as pipelined (ISA 9.1, section 9.7.16.6.2); they are taken in order"
            )

    def issue(self, act: Callable[[], None], shared: Ints, reads: list[Ints], writes: Ints) -> None:
        """The work takes off: it reads pieces of shared memory and cells, and writes cells."""
        machine, space = self.machine, self.memory.space
        tag = machine.clocks.engine_tag(self.pipe.engine, int(machine.clocks.serial[self.thread]))
        self.pipe.clock = clock_of(tag)
        space.set_writers(writes, CELL, np.full(writes.size, tag))
        pieces = np.unique(shared)
        slots = np.full(pieces.size, self.thread // WARP)
        machine.shared.add_readers(slots, pieces, PIECE, np.full(pieces.size, tag))
        read = [(machine.shared, every_byte(pieces, PIECE)), *((space, every_byte(cells)) for cells in reads)]
        work = Work(self.statement, lambda: None, read, [(space, every_byte(writes))], act=act)
        self.memory.issue(self.pipe, work)
