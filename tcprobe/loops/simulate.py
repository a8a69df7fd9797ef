"""A model of one SM: four schedulers that issue what control bits, barriers, pipes, ports and queues let them.

It follows stall counts and barriers, not registers: the compiler has put the latency of every instruction there. Time
is kept as numbers, not by counting cycles: each resource knows when it is free, each warp when its next instruction may
be issued. Which of several warps goes first, and how far apart they begin, is not documented: `runs` tries several.

What the constants are from: 167 micro-loops on an H200, the loops of `benchmarks/loops.py` with training seeds, those
of its first hold-out, and those of `benchmarks/ablations.py`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from tcprobe.loops.costs import BYTES_A_CYCLE, PARTITIONS, PIPES
from tcprobe.loops.loop import LoopError
from tcprobe.loops.roles import LANDED, Copies, Ring
from tcprobe.loops.work import (
    ARRIVE,
    BARRIER,
    COMMIT,
    COPY,
    FREES,
    GROUP,
    GROUP_WAIT,
    LANDS,
    MEMORY,
    PLAIN,
    WAIT,
    Work,
)

TAKEN = 9  # cycles from a taken branch to what follows
MEET, MEETS = 12, 2  # cycles of a barrier, and more of them for each warp
DRAIN = 43  # cycles from the last product of a warpgroup's multiply to the end of the wait for it
SWITCH = 4  # cycles between multiplies of floats and of integers
QUEUE = 4  # requests of shared memory that a scheduler keeps before it stalls
SLACK = 2  # cycles that a bank of registers may be behind
BACKLOG = 16  # cycles that the pipe of special functions may be behind
CACHED, UNCACHED, MISS = 2048, 3072, 2.23  # instructions; cycles of each that is not cached
WARM = 2  # rounds before those that count, of one stage
FEWEST, MOST = 3, 16  # rounds that count
ISSUES = 8_000  # of a run, all warps together
KEPT = 8  # groups and copies of a warp whose ends are known
NEVER = float("inf")
TRIED = 20  # more cycles of a wait for a copy than of another request
REFILL = 40  # cycles from the last warp that frees a stage to the copy that fills it again
GATED = {PIPES.index("xu"), PIPES.index("adu")}
ISSUE, FMA, HEAVY, XU, LSU, TENSOR = (PIPES.index(name) for name in ("issue", "fma", "fmaheavy", "xu", "lsu", "tensor"))


class Issue(NamedTuple):
    """A step of a warp and the cycle it was issued in."""

    warp: int
    step: int
    cycle: float


class Order(NamedTuple):
    """Whether a scheduler prefers its youngest warp, and how far apart warps begin: `skew` cycles at most."""

    youngest: bool
    skew: int
    seed: int


ORDERS = (
    Order(False, 0, 0),
    Order(True, 0, 0),
    Order(False, 16, 1),
    Order(True, 16, 2),
    Order(False, 64, 3),
    Order(True, 64, 4),
)


def cycles(
    rounds: Sequence[Sequence[Work]],
    orders: Sequence[Order] = ORDERS,
    beside: Sequence[Sequence[Work]] = (),
    copies: Copies = LANDED,
) -> list[float]:
    """What a round takes in each order; `rounds` has the work of each warp, `beside` that of warps in other loops.

    Where schedulers have different numbers of warps, it is what those take that need longest: the block ends with them.
    """
    return [_Sm(rounds, order, beside, copies).run(None) for order in orders]


def busy(rounds: Sequence[Sequence[Work]]) -> dict[str, float]:
    """How long each pipe of the busiest scheduler works in a round; "shared", "l2": memory of the SM, behind it."""
    found = dict.fromkeys(PIPES, 0.0)
    for quarter in (rounds[j::PARTITIONS] for j in range(PARTITIONS)):
        own = dict.fromkeys(PIPES, 0.0)
        for work in (work for works in quarter for work in works):
            own["issue"] += 1
            if work.pipe != ISSUE:
                own[PIPES[work.pipe]] += max(work.cycles, work.issue_cycles)
        found = {pipe: max(cycles, own[pipe]) for pipe, cycles in found.items()}
    found["shared"] = sum(work.wavefronts for works in rounds for work in works)
    found["l2"] = sum(work.bytes for works in rounds for work in works) / BYTES_A_CYCLE
    return {pipe: round(cycles, 1) for pipe, cycles in found.items() if cycles}


def trace(
    rounds: Sequence[Sequence[Work]], beside: Sequence[Sequence[Work]] = (), copies: Copies = LANDED
) -> list[Issue]:
    """What is issued in a round of all warps, in order of cycles."""
    issues: list[Issue] = []
    _Sm(rounds, ORDERS[0], beside, copies).run(issues)
    return issues


class _Warp:
    """Where a warp stands: its next step, when it may be issued, and when each of its barriers opens."""

    __slots__ = (
        "commits",
        "copied",
        "gate",
        "groups",
        "number",
        "opens",
        "ready",
        "rings",
        "round",
        "step",
        "waited",
        "work",
        "works",
    )

    def __init__(self, number: int, works: Sequence[Work], start: float, rings: Sequence[_Ring]) -> None:
        self.number, self.works, self.rings = number, works, rings
        self.waited = [0] * len(rings)  # stages of each ring that it has waited for
        self.step, self.round, self.ready, self.work = 0, 0, start, works[0]
        self.opens = [0.0] * 6
        self.commits: list[list[float]] = [[], [], [], [], [], []]
        self.copied = self.gate = 0.0
        self.groups: list[float] = []

    def advance(self) -> None:
        """Go to the next step."""
        self.step += 1
        if self.step == len(self.works):
            self.step, self.round = 0, self.round + 1
            self.groups = self.groups[-KEPT:]
            self.commits = [ends[-KEPT:] for ends in self.commits]
        self.work = self.works[self.step]

    def earliest(self, own: _Scheduler) -> float:
        """The first cycle in which its next instruction may be issued."""
        cycle, work = self.ready, self.work
        for barrier in work.waits:
            cycle = max(cycle, self.opens[barrier])
        even, odd = work.ports
        if even and own.even - SLACK > cycle:
            cycle = own.even - SLACK
        if odd and own.odd - SLACK > cycle:
            cycle = own.odd - SLACK
        if work.kind == PLAIN:
            if work.pipe in GATED or work.taken:
                cycle = max(cycle, self.gate)
            if work.pipe == FMA:
                return max(cycle, min(own.free[FMA], own.free[HEAVY]))
            return max(cycle, own.free[work.pipe] - (BACKLOG if work.pipe == XU else 0))
        return max(cycle, self._awaited(own, work))

    def _awaited(self, own: _Scheduler, work: Work) -> float:
        """When what it waits for is there: a barrier, a place in the queue, copies or multiplies before it."""
        kind, after = work.kind, 0.0
        if kind in (MEMORY, COPY):
            after = max(self.gate, own.queue[-QUEUE] if len(own.queue) >= QUEUE else 0)
        elif kind in (BARRIER, ARRIVE, FREES):
            after = self.gate
        elif kind == LANDS:
            known = not self.rings or self.waited[work.barrier] < len(self.rings[work.barrier].landed)
            after = self.gate if known else NEVER
        elif kind == GROUP:
            after = max(self.gate, own.free[TENSOR] - work.cycles)
        elif kind in (WAIT, GROUP_WAIT):
            done = self.commits[work.barrier] if kind == WAIT else self.groups
            after = done[-1 - work.limit] if len(done) > work.limit else 0
        return after


class _Scheduler:
    """A quarter of an SM: when its pipes, register banks and queue are free. The first pipe, "fma", is half of it."""

    __slots__ = ("back", "even", "free", "last", "multiplied", "odd", "queue", "slot", "turn", "warps")

    def __init__(self, warps: Sequence[_Warp], youngest: bool) -> None:
        self.slot, self.last, self.multiplied = 0.0, -1, ""
        self.free = [0.0] * len(PIPES)
        self.even = self.odd = self.back = self.turn = 0.0
        self.queue: list[float] = []
        self.warps = list(reversed(warps)) if youngest else list(warps)

    def next(self) -> tuple[float, _Warp]:
        """The cycle in which it issues next, and of which warp: the one of the last cycle if it can."""
        if len(self.warps) == 1:
            return max(self.warps[0].earliest(self), self.slot), self.warps[0]
        found = [warp.earliest(self) for warp in self.warps]
        cycle = max(min(found), self.slot)
        able = [warp for when, warp in zip(found, self.warps, strict=True) if when <= cycle]
        return cycle, next((warp for warp in able if warp.number == self.last), able[0])


class _Server:
    """What does one thing a cycle, for whoever comes first: cycles that are taken are 1."""

    def __init__(self) -> None:
        self.taken = bytearray(1 << 12)
        self.rest = 0.0  # parts of cycles

    def book(self, begin: float, cycles: float) -> tuple[int, int]:
        """Take so many cycles from one on; the first of them, and the one behind the last."""
        self.rest += cycles
        count = max(1, int(self.rest))
        self.rest = max(self.rest - count, 0.0)
        first = at = self._free(int(begin))
        self.taken[first] = 1
        for _ in range(count - 1):
            at = self._free(at + 1)
            self.taken[at] = 1
        return first, at + 1

    def _free(self, begin: int) -> int:
        """The first cycle from one on that nothing has taken."""
        while (at := self.taken.find(0, begin)) < 0:
            self.taken.extend(bytes(max(len(self.taken), begin)))
        return at


class _Ring:
    """Stages that copies fill: when each has landed, one behind the other; `freed`: by warp, how many it has freed."""

    def __init__(self, ring: Ring, freeing: Sequence[int]) -> None:
        self.bytes, self.landed = ring.bytes, [0.0] * ring.stages
        self.freed = dict.fromkeys(freeing, 0)
        self.last: dict[int, float] = {}  # by number of a stage, when it was freed last

    def free(self, warp: int, late: int, cycle: float) -> float | None:
        """A warp frees a stage; when the last of all has."""
        stage = self.freed[warp] - late
        self.freed[warp] += 1
        self.last[stage] = max(self.last.get(stage, 0.0), cycle)
        done = stage >= 0 and all(count - late > stage for count in self.freed.values())
        return self.last.pop(stage) if done else None


class _Sm:
    def __init__(
        self,
        rounds: Sequence[Sequence[Work]],
        order: Order,
        beside: Sequence[Sequence[Work]] = (),
        copies: Copies = LANDED,
    ) -> None:
        rng, every = random.Random(order.seed), (*rounds, *beside)
        frees = [{work.barrier for work in works if work.kind == FREES} for works in every]
        self.rings = [
            _Ring(ring, [warp for warp, freed in enumerate(frees) if number in freed])
            for number, ring in enumerate(copies.rings)
        ]
        self.warps = [
            _Warp(w, works, float(rng.randrange(order.skew)) if order.skew else 0.0, self.rings)
            for w, works in enumerate(every)
        ]
        quarters = [self.warps[j::PARTITIONS] for j in range(min(PARTITIONS, len(every)))]
        self.schedulers = [_Scheduler(warps, order.youngest) for warps in quarters]
        counts = sorted(set(map(len, quarters)))
        own = [[warp for quarter in quarters if len(quarter) == count for warp in quarter] for count in counts]
        self.alike = [kept for warps in own if (kept := [warp for warp in warps if warp.number < len(rounds)])]
        self.shared, self.l2 = _Server(), _Server()
        self.copies, self.filled = copies, 0.0
        self.meeting = 0.0
        self.met: dict[int, list[_Warp | None]] = {}
        self.begun: set[int] = set()  # barriers at which warps had arrived before the loop
        length = max(map(len, every))
        self.counted = max(FEWEST, min(MOST, ISSUES // (length * len(every))))
        # stages that had landed are used up, then as many are looked at as come together
        stages = max((ring.stages for ring in copies.rings), default=1)
        self.warm, self.counted = WARM * stages, self.counted + -self.counted % stages
        self.miss = MISS * min(1.0, max(0, length - CACHED) / (UNCACHED - CACHED))

    def run(self, issues: list[Issue] | None) -> float:
        """Cycles of a round: go through those that warm up, then those that count; issues of one go to a list."""
        places = range(len(self.schedulers))
        coming = [scheduler.next() for scheduler in self.schedulers]
        begun, done, traced = 0.0, [0.0], self.warm * len(self.warps)
        rounds, goal = 0, self.warm * len(self.warps)
        while True:
            place = min(places, key=[cycle for cycle, _ in coming].__getitem__)
            cycle, warp = coming[place]
            if cycle == NEVER:
                self._begin()
                coming = [each.next() for each in self.schedulers]
                continue
            if issues is not None and traced <= rounds < traced + len(self.warps):
                issues.append(Issue(warp.number, warp.step, cycle))
            scheduler = self.schedulers[place]
            if self._issue(scheduler, warp, cycle):
                coming = [each.next() for each in self.schedulers]
            else:
                coming[place] = scheduler.next()
            if warp.step == 0:
                rounds += 1
                scheduler.queue = scheduler.queue[-QUEUE:]
                if rounds == goal and not begun:
                    begun, done, goal = cycle, self._progress(), rounds + self.counted * len(self.warps)
                elif rounds >= goal:
                    gained = [now - before for now, before in zip(self._progress(), done, strict=True)]
                    if not min(gained):
                        raise LoopError("some of its warps do many rounds while others do none")
                    each = [len(warps) / own for warps, own in zip(self.alike, gained, strict=True)]
                    return (cycle - begun) * max(each)

    def _progress(self) -> list[float]:
        """Rounds of the warps that are alike, with parts of those that are not over."""
        return [sum(warp.round + warp.step / len(warp.works) for warp in warps) for warps in self.alike]

    def _issue(self, own: _Scheduler, warp: _Warp, cycle: float) -> bool:
        """Issue a warp's next instruction; whether that lets warps of others go on."""
        work, met = warp.work, False
        own.slot, own.last = cycle + 1, warp.number
        warp.ready = cycle + (max(work.stall, TAKEN) if work.taken else work.stall) + self.miss
        _read(own, work, cycle)
        kind = work.kind
        if kind == PLAIN:
            done = released = _use(own, work, cycle)
        elif kind in (MEMORY, COPY):
            done, released = self._request(own, warp, work, cycle)
        else:
            done = released = max(warp.copied, cycle + 1) if kind == COMMIT else cycle + work.latency
            if kind in (BARRIER, ARRIVE):
                met = self._meet(warp, work, cycle)
            elif kind == GROUP:
                _multiply(own, warp, work, cycle)
            elif kind == LANDS and self.rings:
                done = max(done + TRIED, self.rings[work.barrier].landed[warp.waited[work.barrier]])
                warp.waited[work.barrier] += 1
            elif kind == FREES and self.rings:
                met = self._free(warp, work, cycle)
        if work.write >= 0:
            warp.opens[work.write] = max(warp.opens[work.write], done)
            warp.commits[work.write].append(done)
        if work.read >= 0:
            warp.opens[work.read] = max(warp.opens[work.read], released)
        warp.advance()
        return met

    def _request(self, own: _Scheduler, warp: _Warp, work: Work, cycle: float) -> tuple[float, float]:
        """Queue a request; when its data are there, and when its registers are read."""
        start = max(cycle, own.free[LSU])
        if not work.writeback:
            start = max(start, own.turn)
        if work.pipe != LSU:  # constants pass a pipe of their own, too
            start = max(start, own.free[work.pipe])
            own.free[work.pipe] = start + work.cycles
        own.free[LSU] = start + work.issue_cycles
        if not work.wavefronts:
            own.queue.append(start)
            return max(start, own.turn) + work.latency, start + work.read_release
        begin = max(start, own.turn)
        first, end = self.shared.book(begin, work.wavefronts)
        own.turn = end - (work.wavefronts - 1)
        own.queue.append(first)
        done = max(end - work.wavefronts, begin) + work.latency
        if work.writeback:
            own.back = done = max(done, own.back + work.writeback)
        if work.bytes:
            done = max(done, self.l2.book(first, work.bytes / BYTES_A_CYCLE)[1] + work.latency)
        if work.kind == COPY:
            warp.copied = max(warp.copied, done)
        return done, start + work.read_release

    def _meet(self, warp: _Warp, work: Work, cycle: float) -> bool:
        """Arrive at a barrier of the block; whether all have."""
        self.meeting = max(self.meeting, cycle) + MEETS
        there = self.met.setdefault(work.barrier, [])
        there.append(warp if work.kind == BARRIER else None)
        if work.kind == BARRIER:
            warp.gate = NEVER
        if len(there) < (work.limit or len(self.warps)):
            return False
        self._open(work.barrier)
        return True

    def _open(self, barrier: int) -> None:
        """Let those go on that wait at a barrier."""
        for each in self.met[barrier]:
            if each is not None:
                each.gate = self.meeting + MEET
        self.met[barrier].clear()

    def _begin(self) -> None:
        """Nobody goes on: at the first barrier that warps wait at, others had arrived before the loop."""
        waiting = (number for number, there in self.met.items() if any(there) and number not in self.begun)
        barrier = min(waiting, default=None)
        if barrier is None:
            raise LoopError("its warps wait at a barrier to which others do not come")
        self.begun.add(barrier)
        self._open(barrier)

    def _free(self, warp: _Warp, work: Work, cycle: float) -> bool:
        """Free a stage of a ring; whether it is filled again."""
        ring = self.rings[work.barrier]
        freed = ring.free(warp.number, work.limit, cycle)
        if freed is not None:
            begun = max(freed + REFILL + self.copies.latency, self.filled)
            self.filled = begun + ring.bytes / self.copies.bytes_a_cycle
            ring.landed.append(self.filled)
        return freed is not None


def _read(own: _Scheduler, work: Work, cycle: float) -> None:
    """Take the banks of registers: a multiply both at once, and others of its type follow it best.

    HFMA2.MMA shares the pipe of multiplies, and reads registers as arithmetic does.
    """
    even, odd = work.ports
    if work.pipe == TENSOR and not work.opcode.startswith("HFMA2"):
        own.even = own.odd = max(own.even, own.odd, cycle) + even
        if own.multiplied not in ("", work.opcode[:4]):
            own.free[TENSOR] = max(own.free[TENSOR], cycle) + SWITCH
        own.multiplied = work.opcode[:4]
        return
    if even:
        own.even = max(own.even, cycle) + even
    if odd:
        own.odd = max(own.odd, cycle) + odd


def _use(own: _Scheduler, work: Work, cycle: float) -> float:
    """Take a pipe; when the result is there."""
    pipe, cycles = work.pipe, work.cycles
    if pipe == FMA:  # either half of the lanes, which takes twice as long
        pipe, cycles = (FMA if own.free[FMA] <= own.free[HEAVY] else HEAVY), 2 * cycles
    start = max(own.free[pipe], cycle)
    own.free[pipe] = start + cycles
    return start + work.latency


def _multiply(own: _Scheduler, warp: _Warp, work: Work, cycle: float) -> None:
    """Queue a part of a warpgroup's multiply."""
    start = max(own.free[TENSOR], cycle)
    own.free[TENSOR] = start + work.cycles
    if work.limit:
        warp.groups.append(start + work.cycles + DRAIN)
