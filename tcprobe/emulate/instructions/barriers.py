"""bar, barrier, barrier.cluster and mbarrier: what threads wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.clocks import KNOWN, NOTHING, Known, joined
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
    """A numbered barrier of a block, or the barrier of a cluster; `line`: where its `expected` threads were stated."""

    expected: int = 0
    line: int = 0
    round: int = 0
    came: int = 0
    known: Known = field(default_factory=dict)  # what those released that have come
    waiting: list[Any] = field(default_factory=list)  # threads that learn what all knew
    votes: list[Bools] = field(default_factory=list)
    joined: Known = field(default_factory=dict)  # of the round that is over


class Barriers(State):
    """The barriers of blocks, by block and number, and of clusters; the round that each thread waits for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.of_blocks: dict[int, Barrier] = {}
        self.of_clusters: dict[int, Barrier] = {}
        self.rounds = np.zeros(machine.count, np.int64)
        self.ones, self.voters = (np.zeros(machine.count, np.int64) for _ in range(2))  # of the last bar.red
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


def _arrive(
    machine: Machine, where: Where, of: tuple[Any, Any], waits: bool, pc: int, votes: Bools | None = None
) -> Outcome | None:
    """Threads come to barriers; those whose barrier is not complete wait."""
    number, count = of
    threads = machine.threads[where]
    numbers = np.broadcast_to(number(where), threads.shape).astype(np.int64)
    counts = np.broadcast_to(count(where), threads.shape).astype(np.int64) if count else None
    if (numbers >= MOST_BARRIERS).any():
        first = int(np.argmax(numbers >= MOST_BARRIERS))
        machine.find("barrier", int(threads[first]), f"barrier {numbers[first]}: there are 0 to {MOST_BARRIERS - 1}")
    keys = machine.block_of[threads] * MOST_BARRIERS + numbers % MOST_BARRIERS
    parts: list[Part] = []
    released = np.zeros(threads.size, np.bool_)
    for key in np.unique(keys):
        of_key = keys == key
        barrier = machine.state(Barriers).of_blocks.setdefault(int(key), Barrier())
        expected = machine.threads_of_block if counts is None else int(counts[of_key][0])
        _expect(machine, barrier, expected, int(key) % MOST_BARRIERS, int(threads[of_key][0]))
        for chosen in _rounds(machine, barrier, of_key, threads):
            own = threads[chosen]
            now = barrier.round
            barrier.came += own.size + _lanes_that_ended(machine, own)
            barrier.known = joined(barrier.known, machine.clocks.release(own))
            if votes is not None:
                barrier.votes.append(votes[chosen])
            if waits:
                barrier.waiting.append(own)
            if _complete(machine, barrier, int(own[0]), counts is None, now) or not waits:
                released |= chosen
            else:
                wait = _wait_for(machine, barrier, int(key) % MOST_BARRIERS, int(own[0]), counts is None)
                parts.append(Part(pc, machine.subset(where, chosen), wait))
    if not parts:
        return None
    if released.any():
        parts.append(Part(pc + 1, machine.subset(where, released)))
    return Outcome(tuple(parts), pc + 1)


def _expect(machine: Machine, barrier: Barrier, expected: int, number: int, thread: int) -> None:
    """The count of a round is that of who comes first; findings for another one, and for parts of warps."""
    line = machine.statements[machine.pc].line
    if expected % WARP:
        machine.find("barrier", thread, f"barrier {number} for {expected} threads, which are no whole warps")
    if barrier.came and expected != barrier.expected:
        machine.find(
            "barrier",
            thread,
            f"comes to barrier {number} for {expected} threads; in line {barrier.line} it is for {barrier.expected}",
        )
    if not barrier.came:
        barrier.expected, barrier.line = expected, line


def _rounds(machine: Machine, barrier: Barrier, chosen: Bools, threads: Any) -> list[Bools]:
    """Threads that come at once, parted where they are more than the barrier still awaits: warp after warp."""
    if barrier.came + np.count_nonzero(chosen) <= barrier.expected:
        return [chosen]
    warps = threads // WARP
    return [chosen & (warps == warp) for warp in np.unique(warps[chosen])]


def _lanes_that_ended(machine: Machine, own: Any) -> int:
    """A warp comes as a whole: lanes that are not there, or have ended, count with its first that lives."""
    warps = np.unique(own // WARP)
    live = machine.live.reshape(-1, WARP)[warps]
    with_first = np.isin(warps * WARP + live.argmax(axis=1), own)
    return int((~live).sum(axis=1)[with_first].sum())


def _complete(machine: Machine, barrier: Barrier, thread: int, whole: bool, now: int) -> bool:
    """Whether a round of a barrier is over; of a `whole` block, warps that have ended never come."""
    if barrier.round > now:
        return True
    first = thread // machine.threads_of_block * machine.threads_of_block
    live = machine.live[first : first + machine.threads_of_block].reshape(-1, WARP)
    ended = WARP * np.count_nonzero(~live.any(axis=1)) if whole else 0
    if barrier.came + ended >= barrier.expected:
        _open(machine, barrier)
    return barrier.round > now


def _wait_for(machine: Machine, barrier: Barrier, number: int, thread: int, whole: bool) -> Wait:
    """For the end of this round."""
    now = barrier.round
    return Wait(
        lambda: _complete(machine, barrier, thread, whole, now),
        lambda: f"barrier {number}: {barrier.came} of {barrier.expected} threads have come",
        again=False,
    )


def _open(machine: Machine, barrier: Barrier) -> None:
    held = machine.state(Barriers)
    votes = np.concatenate([np.zeros(0, np.bool_), *barrier.votes])
    for own in barrier.waiting:
        machine.clocks.acquire(own, barrier.known)
        held.ones[own], held.voters[own] = np.count_nonzero(votes), votes.size
    barrier.round, barrier.came, barrier.known = barrier.round + 1, 0, NOTHING
    barrier.waiting, barrier.votes = [], []


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
    held, pc = machine.state(Barriers), machine.pc
    arrived = np.zeros(machine.count, np.bool_)

    def run(where: Where) -> Outcome | None:
        threads = machine.threads[where]
        fresh = ~arrived[threads]
        if fresh.any():
            cast = np.broadcast_to(value(where), threads.shape) != inverted
            arrived[where] = True
            outcome = _arrive(machine, where, (numbers, counts), waits=True, pc=pc, votes=cast)
            if outcome is not None:
                return Outcome(
                    tuple(
                        p._replace(pc=pc, wait=p.wait._replace(again=True) if p.wait else None) for p in outcome.parts
                    )
                )
        ones = held.ones[threads]
        made = {"popc": ones, "or": ones > 0, "and": ones == held.voters[threads]}[name]
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
    release = machine.clocks.release if releases else machine.clocks.whisper

    def run(where: Where) -> None:
        threads = machine.threads[where]
        clusters = held.cluster_of(threads)
        for cluster in np.unique(clusters):
            own = threads[clusters == cluster]
            barrier = held.of_clusters.setdefault(int(cluster), Barrier())
            held.rounds[own] = barrier.round
            barrier.came += own.size
            barrier.known = joined(barrier.known, release(own))
            barrier.expected = machine.shape.ranks * machine.shape.threads
            first, size = int(cluster) * held.cluster_size, held.cluster_size
            ended = barrier.expected - int(machine.live[first : first + size].sum())
            if barrier.came + ended >= barrier.expected:
                barrier.joined, barrier.known = barrier.known, NOTHING
                barrier.round, barrier.came = barrier.round + 1, 0

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
            machine.clocks.acquire(threads[clusters == cluster], held.of_clusters[int(cluster)].joined)
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
        machine.visit(offsets, threads)
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
    known = machine.clocks.whisper if "relaxed" in words else machine.clocks.release

    def run(where: Where) -> None:
        threads = machine.threads[where]
        offsets = offsets_of(machine, space, address(where), threads)
        machine.visit(offsets, threads)
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
            barrier.arrive(arrivals, known(own))
        write(where, states)

    return run


def _reach_barrier(machine: Machine, barrier: MBarrier, threads: Any, offset: int) -> None:
    """The barrier's initialisation must be known to whoever uses it."""
    tags = machine.shared.writers(np.full(threads.size, offset), 8)
    clocks = machine.clocks
    unordered = ~clocks.ordered(threads, tags, clocks.views.heard if barrier.fenced else KNOWN) & (tags != 0)
    if unordered.any():
        machine.find_race(machine.shared, threads, unordered, tags, "uses an mbarrier in", "initialised")


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
