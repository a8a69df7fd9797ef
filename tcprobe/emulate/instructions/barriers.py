"""bar, barrier, barrier.cluster and mbarrier: what threads wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.clocks import Known
from tcprobe.emulate.instructions.accesses import address_of, space_of
from tcprobe.emulate.instructions.exchange import with_mask
from tcprobe.emulate.machine import WARP, Machine, Outcome, Part, State, Step, Wait, Where
from tcprobe.emulate.mbarriers import MBarrier, barriers
from tcprobe.emulate.memory import SHARED, WINDOW
from tcprobe.emulate.ptx import Address, Negated, Sink, Statement
from tcprobe.layout.arrays import Bools

MOST_BARRIERS = 16
MOST_COUNT = (1 << 20) - 1  # arrivals of an mbarrier


@dataclass(eq=False)
class Barrier:
    """A numbered barrier of a block, or the barrier of a cluster."""

    expected: int = 0
    round: int = 0
    came: int = 0
    known: list[Known] = field(default_factory=list)
    waiting: list[Any] = field(default_factory=list)  # threads that learn what all knew
    joined: Known | None = None  # of the round that is over

    def wait(self, number: int) -> Wait:
        """For the end of this round."""
        now = self.round
        return Wait(
            lambda: self.round > now,
            lambda: f"barrier {number}: {self.came} of {self.expected} threads have come",
            again=False,
        )


class Barriers(State):
    """The barriers of blocks, by block and number, and of clusters; the round that each thread waits for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.of_blocks: dict[int, Barrier] = {}
        self.of_clusters: dict[int, Barrier] = {}
        self.rounds = np.zeros(machine.count, np.int64)
        self.cluster_size = machine.shape.ranks * machine.threads_of_block

    def cluster_of(self, threads: Any) -> Any:
        """The clusters of threads."""
        return threads // self.cluster_size

    def passed(self, threads: Any) -> Any:
        """Whether the round of its cluster's barrier that each of the threads came to is over."""
        rounds = [self.of_clusters.setdefault(int(c), Barrier()).round for c in self.cluster_of(threads)]
        return np.array(rounds) > self.rounds[threads]

    def restart(self) -> None:
        """Nobody has come."""
        self.of_blocks.clear()
        self.of_clusters.clear()
        self.rounds[:] = 0


def _bar(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    if "cluster" in words:
        return _cluster(statement, machine)
    if "warp" in words:
        return _warp(statement, machine)
    if "red" in words:
        return _vote(statement, machine)
    if not {"sync", "arrive"} & set(words):
        raise statement.refused()
    number, count = _numbers(statement.operands, machine)
    arrives = "arrive" in words
    pc = machine.pc

    def run(where: Where) -> Outcome | None:
        return _arrive(machine, where, (number, count), waits=not arrives, pc=pc)

    step: Step = run
    return machine.together(step) if statement.opcode == "bar" or "aligned" in words else step


def _numbers(operands: Any, machine: Machine) -> tuple[Any, Any]:
    number = machine.reader(operands[0], np.uint32)
    count = machine.reader(operands[1], np.uint32) if len(operands) > 1 else None
    return number, count


def _arrive(machine: Machine, where: Where, of: tuple[Any, Any], waits: bool, pc: int) -> Outcome | None:
    """Threads come to barriers; those whose barrier is not complete wait."""
    number, count = of
    threads = machine.threads[where]
    numbers = np.broadcast_to(number(where), threads.shape).astype(np.int64)
    counts = np.broadcast_to(count(where), threads.shape) if count else None
    keys = machine.block_of[threads] * MOST_BARRIERS + numbers % MOST_BARRIERS
    table = machine.state(Barriers).of_blocks
    held: list[Part] = []
    released = np.zeros(threads.size, np.bool_)
    for key in np.unique(keys):
        chosen = keys == key
        own = threads[chosen]
        barrier = table.setdefault(int(key), Barrier())
        ended = 0 if counts is not None else _ended(machine, int(machine.block_of[own[0]]))
        barrier.expected = machine.shape.threads if counts is None else int(counts[chosen][0])
        barrier.came += own.size
        barrier.known.append(machine.clocks.release(own))
        if waits:
            barrier.waiting.append(own)
        wait = barrier.wait(int(key) % MOST_BARRIERS)
        if barrier.came + ended >= barrier.expected:
            _open(machine, barrier)
        if wait.ready() or not waits:
            released |= chosen
        else:
            held.append(Part(pc, machine.subset(where, chosen), wait))
    if not held:
        return None
    parts = held if not released.any() else [*held, Part(pc + 1, machine.subset(where, released))]
    return Outcome(tuple(parts), pc + 1)


def _ended(machine: Machine, block: int) -> int:
    """Threads of a block that never come, since they have ended."""
    first = block * machine.threads_of_block
    return machine.shape.threads - int(machine.live[first : first + machine.threads_of_block].sum())


def joined(every: Sequence[Known]) -> Known:
    """What all know together."""
    return reduce(Known.joined, every)


def _open(machine: Machine, barrier: Barrier) -> None:
    known = joined(barrier.known)
    for own in barrier.waiting:
        machine.clocks.acquire(own, known)
    barrier.round, barrier.came, barrier.known, barrier.waiting = barrier.round + 1, 0, [], []


def _vote(statement: Statement, machine: Machine) -> Step:
    """bar.red: popc, and, or of a predicate over all threads of the block."""
    words = statement.modifiers
    name = next(w for w in words if w in ("popc", "and", "or"))
    target, number, *rest = statement.operands
    source = rest[-1]
    inverted = isinstance(source, Negated)
    value = machine.reader(source.register if isinstance(source, Negated) else source, np.bool_)
    counts = machine.reader(rest[0], np.uint32) if len(rest) > 1 else None
    numbers = machine.reader(number, np.uint32)
    write = machine.writer(target, np.uint32 if name == "popc" else np.bool_)
    votes = np.zeros(machine.count, np.bool_)
    there = np.zeros(machine.count, np.bool_)
    pc = machine.pc
    arrived = np.zeros(machine.count, np.bool_)

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        fresh = ~arrived[threads]
        if fresh.any():
            held = value(where)
            votes[where], there[where], arrived[where] = ~held if inverted else held, True, True
            outcome = _arrive(machine, where, (numbers, counts), waits=True, pc=pc)
            if outcome is not None:
                return Outcome(
                    tuple(
                        p._replace(pc=pc, wait=p.wait._replace(again=True) if p.wait else None) for p in outcome.parts
                    )
                )
        rows = votes.reshape(machine.blocks, -1)
        ones = rows.sum(axis=1)
        every = there.reshape(machine.blocks, -1).sum(axis=1)
        made = {"popc": ones, "or": ones > 0, "and": ones == every}[name][machine.block_of[threads]]
        write(where, made.astype(np.uint32) if name == "popc" else made)
        arrived[where] = False
        return None

    return machine.together(run)


def _warp(statement: Statement, machine: Machine) -> Step:
    """bar.warp.sync."""
    mask = machine.reader(statement.operands[0], np.uint32)

    def run(where: Where, named: Any) -> None:
        threads = machine.threads[where]
        if threads.size % WARP == 0 and machine.incomplete(where) is None and (named == 0xFFFFFFFF).all():
            machine.clocks.join_warps(threads)
            return
        groups = (threads // WARP).astype(np.int64) << 32 | named
        for group in np.unique(groups):
            machine.clocks.join(threads[groups == group])

    return with_mask(machine, mask, run)


def _cluster(statement: Statement, machine: Machine) -> Step:
    """barrier.cluster.arrive and .wait."""
    words = statement.modifiers
    step = _arrive_in_cluster(machine, "relaxed" not in words) if "arrive" in words else _wait_for_cluster(machine)
    return machine.together(step) if "aligned" in words else step


def _arrive_in_cluster(machine: Machine, releases: bool) -> Step:
    held = machine.state(Barriers)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        clusters = held.cluster_of(threads)
        for cluster in np.unique(clusters):
            own = threads[clusters == cluster]
            barrier = held.of_clusters.setdefault(int(cluster), Barrier())
            held.rounds[own] = barrier.round
            barrier.came += own.size
            if releases:
                barrier.known.append(machine.clocks.release(own))
            barrier.expected = machine.shape.ranks * machine.shape.threads
            first, size = int(cluster) * held.cluster_size, held.cluster_size
            ended = barrier.expected - int(machine.live[first : first + size].sum())
            if barrier.came + ended >= barrier.expected:
                barrier.joined = joined(barrier.known or [machine.clocks.nothing()])
                barrier.round, barrier.came, barrier.known = barrier.round + 1, 0, []

    return run


def _wait_for_cluster(machine: Machine) -> Step:
    held, pc = machine.state(Barriers), machine.pc

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        clusters = held.cluster_of(threads)
        passed = held.passed(threads)
        if not passed.all():
            waiting = threads[~passed]
            barrier = held.of_clusters[int(clusters[~passed][0])]
            wait = Wait(
                lambda: bool(held.passed(waiting).all()),
                lambda: f"the barrier of the cluster: {barrier.came} of {barrier.expected} threads have come",
            )
            parts = [Part(pc, machine.subset(where, ~passed), wait)]
            if passed.any():
                parts.append(Part(pc, machine.subset(where, passed)))
            return Outcome(tuple(parts))
        for cluster in np.unique(clusters):
            known = held.of_clusters[int(cluster)].joined
            if known is not None:
                machine.clocks.acquire(threads[clusters == cluster], known)
        return None

    return run


# mbarriers


def offsets_of(machine: Machine, space: str, at: Any, threads: Any) -> Any:
    """Where in shared memory addresses lead, -1 with a finding where that is nowhere."""
    at = np.broadcast_to(np.asarray(at), threads.shape).astype(np.int64)
    inside = (at >= SHARED) & (at < SHARED + WINDOW)
    at = np.where(inside, at - SHARED, at) if space == "generic" else at
    offsets = machine.shared_offsets(at, threads)
    if (offsets < 0).any():
        machine.find(
            "bounds", int(threads[int(np.argmax(offsets < 0))]), "the mbarrier's address is outside shared memory"
        )
    if ((offsets >= 0) & (offsets % 8 != 0)).any():
        machine.find("misaligned", int(threads[0]), "the address of an mbarrier is no multiple of 8")
        offsets = offsets // 8 * 8
    return offsets


def found_at(machine: Machine, offset: int, thread: int) -> MBarrier | None:
    """The barrier at an offset; a finding where none was initialised."""
    barrier = barriers(machine).get(offset)
    if barrier is None and offset >= 0:
        machine.find("uninitialised", thread, "there is no initialised mbarrier at the address")
    return barrier


OPERATIONS = (
    *("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "parity"),
    *("pending_count", "noComplete"),
)
SCOPES = ("cta", "cluster", "release", "acquire", "relaxed", "shared", "shared::cta", "shared::cluster", "b64")


def _mbarrier(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    statement.only(*OPERATIONS, *SCOPES)
    if words[0] in ("test_wait", "try_wait"):
        return _wait(statement, machine)
    if words[0] == "init":
        return _init(statement, machine)
    if words[0] == "inval":
        return _each(machine, statement.operands[0], statement, lambda barrier, thread, n: None, remove=True)
    if words[0] in ("arrive", "arrive_drop"):
        return _arrive_at(statement, machine)
    if words[0] in ("expect_tx", "complete_tx"):
        count = machine.reader(statement.operands[1], np.uint32)
        expects = words[0] == "expect_tx"
        return _each(
            machine,
            statement.operands[0],
            statement,
            lambda barrier, thread, n: barrier.expect(n) if expects else barrier.complete_bytes(n),
            count=count,
        )
    raise statement.refused()


def _each(
    machine: Machine,
    place: Any,
    statement: Statement,
    act: Callable[[MBarrier, int, int], None],
    count: Any = None,
    remove: bool = False,
) -> Step:
    space = space_of(statement)
    address = address_of(machine, place, space)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        offsets = offsets_of(machine, space, address(where), threads)
        numbers = np.broadcast_to(count(where) if count else 0, threads.shape)
        for thread, offset, number in zip(threads, offsets, numbers, strict=True):
            if (barrier := found_at(machine, int(offset), int(thread))) is not None:
                act(barrier, int(thread), int(number))
                if remove:
                    del barriers(machine)[int(offset)]

    return run


def _init(statement: Statement, machine: Machine) -> Step:
    space = space_of(statement)
    address, count = address_of(machine, statement.operands[0], space), machine.reader(statement.operands[1], np.uint32)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        at = address(where)
        offsets = offsets_of(machine, space, at, threads)
        numbers = np.broadcast_to(count(where), threads.shape)
        machine.store(space, at, np.zeros((threads.size, 8), np.uint8), where)
        table = barriers(machine)
        for thread, offset, number in zip(threads, offsets, numbers, strict=True):
            if not 1 <= number <= MOST_COUNT:
                machine.find("bounds", int(thread), f"an mbarrier of {number} arrivals; 1 to {MOST_COUNT} are allowed")
            elif offset >= 0:
                table[int(offset)] = MBarrier(int(number), machine.clocks.engine(), initialiser=int(thread))

    return run


def _arrive_at(statement: Statement, machine: Machine) -> Step:
    words = statement.modifiers
    target, place, *rest = (
        statement.operands if not isinstance(statement.operands[0], Address) else (Sink(), *statement.operands)
    )
    space = space_of(statement)
    address = address_of(machine, place, space)
    number = machine.reader(rest[0], np.uint32) if rest else None
    expects, drops = "expect_tx" in words, words[0] == "arrive_drop"
    write = machine.writer(target, np.uint64)

    def run(where: Where) -> None:
        threads = machine.threads[where]
        offsets = offsets_of(machine, space, address(where), threads)
        numbers = np.broadcast_to(number(where) if number else 1, threads.shape)
        states = np.zeros(threads.size, np.uint64)
        for offset in np.unique(offsets):
            chosen = offsets == offset
            own = threads[chosen]
            barrier = found_at(machine, int(offset), int(own[0]))
            if barrier is None:
                continue
            _reach_barrier(machine, barrier, own, int(offset))
            states[chosen] = barrier.phase
            if expects:
                barrier.expect(int(numbers[chosen].sum()))
            arrivals = own.size if expects else int(numbers[chosen].sum())
            if drops:
                barrier.count -= arrivals
            if arrivals > barrier.pending:
                machine.find(
                    "deadlock",
                    int(own[0]),
                    f"{arrivals} arrivals at an mbarrier that awaits {barrier.pending} of {barrier.count}",
                )
                arrivals = barrier.pending
            barrier.arrive(arrivals, machine.clocks.release(own), "relaxed" not in words)
        write(where, states)

    return run


def _reach_barrier(machine: Machine, barrier: MBarrier, threads: Any, offset: int) -> None:
    """The barrier's initialisation must be known to whoever uses it."""
    tags = machine.shared.writers(np.full(threads.size, offset), 8)
    unordered = ~machine.clocks.ordered(threads, tags) & (tags != 0)
    if unordered.any():
        machine.find_race(machine.shared, threads, unordered, tags, "uses an mbarrier in", "initialised")
    del barrier


class Asked(NamedTuple):
    """A phase of an mbarrier that threads ask for: by its parity, or the phase of which they have the state."""

    barrier: MBarrier
    offset: int
    number: int
    parity: bool

    @property
    def over(self) -> bool:
        """Whether it is over."""
        return self.barrier.over(self.number) if self.parity else self.barrier.phase > self.number

    def words(self, machine: Machine) -> str:
        """What is waited for."""
        place = f"the mbarrier at {self.offset % machine.shared_bytes:#x} of shared memory"
        return f"{place}, parity {self.number}: {self.barrier.words}"


def _wait(statement: Statement, machine: Machine) -> Step:
    """test_wait polls; try_wait waits until the phase is over."""
    words = statement.modifiers
    target, place, state, *_ = statement.operands
    parity, tries, pc = "parity" in words, words[0] == "try_wait", machine.pc
    space = space_of(statement)
    address = address_of(machine, place, space)
    phase = machine.reader(state, np.uint32 if parity else np.uint64)
    write = machine.writer(target, np.bool_)
    acquires = "relaxed" not in words

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        offsets = offsets_of(machine, space, address(where), threads)
        over, missing = np.ones(threads.size, np.bool_), list[Asked]()
        for asked, chosen in _asked(machine, threads, offsets, np.broadcast_to(phase(where), threads.shape), parity):
            if not asked.over:
                over[chosen] = False
                missing.append(asked)
            else:
                asked.barrier.learn(machine, threads[chosen], acquires)
        write(where, over)
        if over.all():
            return None
        if not tries:
            return Outcome((Part(pc + 1, where),), later=True)
        wait = Wait(lambda: any(asked.over for asked in missing), lambda: missing[0].words(machine))
        parts = [Part(pc, machine.subset(where, ~over), wait)]
        if over.any():
            parts.append(Part(pc + 1, machine.subset(where, over)))
        return Outcome(tuple(parts), pc + 1)

    return run


def _asked(machine: Machine, threads: Any, offsets: Any, numbers: Any, parity: bool) -> Iterator[tuple[Asked, Bools]]:
    """Each phase that is asked for, with its threads; findings where there is no mbarrier."""
    pairs = offsets.astype(np.int64) << 32 | (numbers.astype(np.int64) & 0xFFFFFFFF)
    for pair in np.unique(pairs):
        chosen = pairs == pair
        own = threads[chosen]
        offset, number = int(pair) >> 32, int(pair) & 0xFFFFFFFF
        barrier = found_at(machine, offset, int(own[0]))
        if barrier is not None:
            _reach_barrier(machine, barrier, own, offset)
            yield Asked(barrier, offset, number, parity), chosen


OPCODES: Mapping[str, Callable[[Statement, Machine], Step | None]] = {
    "bar": _bar,
    "barrier": _bar,
    "mbarrier": _mbarrier,
}
