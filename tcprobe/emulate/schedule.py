"""Which threads run when. Threads at one statement run as one front; fronts part at branches and meet again.

Threads that reach the place where those from which they parted will come, wait for them, unless nothing else can run.
`late` runs fronts in turn and lets work in flight land only when somebody waits for it; `early` lets it land at once;
`random` chooses by a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from tcprobe.emulate.asynchronous import Flights
from tcprobe.emulate.machine import END, WARP, Front, Join, Machine, Outcome, Step, Wait, Where, as_slice

SLICE = 4096  # instructions until another front may run
POLLS = 4096  # rounds in which nothing came that somebody polls for
SCHEDULES = ("late", "early", "random")


class Scheduler:
    """Runs the blocks of a machine to their end."""

    def __init__(self, machine: Machine, steps: list[Step], flights: Flights, most: int, seed: int | None) -> None:
        self.machine, self.steps, self.flights, self.most = machine, steps, flights, most
        self.random = None if seed is None else Random(seed)
        self.fronts: list[Front] = []
        self.watch: Callable[[int, Where], None] | None = None  # called before each statement
        self._parted = 0
        self._polls = 0

    def run(self) -> bool:
        """Whether all threads of the blocks came to their end or to a deadlock before the instructions were spent."""
        machine = self.machine
        self.fronts, self._polls = [self._front(0, as_slice(np.flatnonzero(machine.live)))], 0
        with np.errstate(all="ignore"):
            while self.fronts:
                front = self._pick()
                if front is None:
                    self._deadlock()
                    return True
                if not self._advance(front):
                    return False
            self.flights.end()
        return True

    def _front(self, pc: int, where: Where, like: Front | None = None) -> Front:
        machine = self.machine
        warps = np.unique(machine.threads[where] // WARP).size
        return Front(pc, where, like.joins if like else (), like.calls if like else (), warps=warps)

    def _pick(self) -> Front | None:
        """The next front that can run; None if all wait for ever."""
        while True:
            self._unpark()
            self._gather()
            ready = [front for front in self.fronts if not front.parked and (front.wait is None or front.wait.ready())]
            if self.random and self.flights.waiting and self.random.random() < 0.3:
                self.flights.land(self.random)
            if ready:
                front = self.random.choice(ready) if self.random else ready[0]
                if front.wait is not None:
                    front.pc += not front.wait.again
                    front.wait = None
                return self._merged(front)
            if self.flights.land(self.random):
                continue
            parked = [front for front in self.fronts if front.parked]
            if not parked:
                return None
            for front in parked:
                front.parked, front.joins = False, front.joins[:-1]

    def _merged(self, front: Front) -> Front:
        """The front with all others that can run at its statement."""
        same = [
            other
            for other in self.fronts
            if other is not front
            and other.pc == front.pc
            and other.wait is None
            and not other.parked
            and (other.calls, other.joins) == (front.calls, front.joins)
        ]
        return self._union([front, *same]) if same else front

    def _union(self, fronts: list[Front]) -> Front:
        first = fronts[0]
        threads = np.sort(np.concatenate([self.machine.threads[front.where] for front in fronts]))
        merged = self._front(first.pc, as_slice(threads), first)
        for front in fronts:
            merged.joins = merged.joins if len(merged.joins) <= len(front.joins) else front.joins
            self.fronts.remove(front)
        self.fronts.append(merged)
        return merged

    def _unpark(self) -> None:
        """Threads go on together once no other is on its way to where they meet."""
        for join in {front.joins[-1] for front in self.fronts if front.parked}:
            there = [front for front in self.fronts if front.parked and front.joins[-1] == join]
            coming = any(join in front.joins for front in self.fronts if front not in there)
            if not coming:
                merged = self._union(there) if len(there) > 1 else there[0]
                merged.joins = merged.joins[:-1]
                merged.parked = bool(merged.joins) and merged.joins[-1].pc == merged.pc

    def _gather(self) -> None:
        """Threads of one warp that wait for each other at one statement become one front."""
        waiting: dict[tuple[int, tuple[int, ...]], list[Front]] = {}
        for front in self.fronts:
            if front.wait is not None and front.wait.together:
                waiting.setdefault((front.pc, front.calls), []).append(front)
        for fronts in waiting.values():
            apart = self.machine.incomplete
            if len(fronts) > 1:
                self._union(fronts)
            elif apart(fronts[0].where) is None:
                fronts[0].wait = None

    def _advance(self, front: Front) -> bool:
        """Let a front have its turn, and go on as it says; False if no instructions are left."""
        outcome = self._run(front)
        if isinstance(outcome, Outcome):
            self._part(front, outcome)
        elif front.pc == END:
            self.machine.live[front.where] = False
            self.fronts.remove(front)
        else:
            if front.joins and front.pc == front.joins[-1].pc:
                front.parked = True
            self._turn(front)
        if not isinstance(outcome, Outcome) or not outcome.later:
            self._polls = 0
        return self.most > 0

    def _run(self, front: Front) -> int | Outcome | None:
        """Run a front until it parts, waits, ends, or others have their turn: what its last statement says."""
        machine, steps, where, pc = self.machine, self.steps, front.where, front.pc
        machine.front = front
        join = front.joins[-1].pc if front.joins else END
        most = min(
            SLICE if self.random is None else self.random.randrange(1, 200), self.most // max(front.warps, 1) + 1
        )
        number, outcome = 0, None
        watch = self.watch
        for number in range(1, most + 1):  # noqa: B007
            machine.pc = pc
            if watch is not None:
                watch(pc, where)
            outcome = steps[pc](where)
            if outcome is None:
                pc += 1
            elif type(outcome) is int:
                pc = outcome
                if pc == END:
                    break
            else:
                break
            if pc == join:
                break
        self.most -= number * front.warps
        machine.report.instructions += number * front.warps
        front.pc = pc
        return outcome

    def _turn(self, front: Front) -> None:
        """The others have their turn first."""
        self.fronts.remove(front)
        self.fronts.append(front)
        if all(f.parked or f.wait is not None or f is front for f in self.fronts):
            for other in self.fronts:  # it may poll for what the parked ones do
                if other.parked and other is not front and not front.parked:
                    other.parked, other.joins = False, other.joins[:-1]

    def _part(self, front: Front, outcome: Outcome) -> None:
        """Threads go different ways."""
        self.fronts.remove(front)
        joins = front.joins
        going = [part for part in outcome.parts if part.pc != END]
        if outcome.join != END and len(going) > 1:
            self._parted += 1
            joins = (*joins, Join(outcome.join, self._parted))
        for part in outcome.parts:
            if part.pc == END:
                self.machine.live[part.where] = False
                continue
            made = self._front(part.pc, part.where, front)
            made.joins, made.wait = joins, part.wait
            made.parked = bool(joins) and part.pc == joins[-1].pc and part.wait is None
            self.fronts.append(made)
        if outcome.later:
            self._polls += 1
            if self._polls > 2 * len(self.fronts):
                self.flights.land(self.random)
            if self._polls > POLLS:
                for made in self.fronts[-len(outcome.parts) :]:
                    made.wait = Wait(lambda: False, lambda: "what it polls for, which never comes")

    def _deadlock(self) -> None:
        """Findings for all that wait."""
        machine = self.machine
        for front in self.fronts:
            threads = machine.threads[front.where]
            machine.pc = front.pc
            many = f"{threads.size} threads" if threads.size > 1 else "it"
            assert front.wait is not None
            machine.find("deadlock", int(threads[0]), f"{many} wait for {front.wait.words()}")
