"""mbarriers: arrivals and bytes that are awaited, phases, and what is known to whoever waits for one.

>>> barrier = MBarrier(count=2, engine=0)
>>> barrier.expect(16); barrier.arrive(2)
>>> barrier.phase, barrier.pending, barrier.bytes
(0, 0, 16)
>>> barrier.complete_bytes(16)
>>> barrier.phase, barrier.pending
(1, 2)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tcprobe.emulate.asynchronous import Flight
from tcprobe.emulate.clocks import NOTHING, Known, joined
from tcprobe.emulate.machine import Machine, State, Where


@dataclass(eq=False)
class MBarrier:
    """`count` arrivals end a phase, once all `bytes` have come; `engine` is who copies that it counts write as."""

    count: int
    engine: int
    phase: int = 0
    pending: int = -1
    bytes: int = 0
    gathering: Known = field(default_factory=dict)  # what those released that have arrived in this phase
    known: Known = field(default_factory=dict)  # and in those before
    flights: list[Flight] = field(default_factory=list)  # whose bytes this phase counts
    initialiser: int = -1  # the thread, and whether fence.mbarrier_init followed
    fenced: bool = False
    clock: int = 0  # of the engine, of the last phase that is over
    next_clock: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    def arrive(self, count: int, known: Known = NOTHING) -> None:
        """Arrivals, and what those who arrive release."""
        self.gathering = joined(self.gathering, known)
        self.pending -= count
        self._end()

    def expect(self, count: int) -> None:
        """More bytes to come."""
        self.bytes += count

    def complete_bytes(self, count: int) -> None:
        """Bytes have come."""
        self.bytes -= count
        self._end()

    def _end(self) -> None:
        if self.pending > 0 or self.bytes != 0:
            return
        self.phase, self.pending = self.phase + 1, self.count
        self.known, self.gathering = joined(self.known, self.gathering), NOTHING
        self.clock = self.next_clock

    def over(self, parity: int) -> bool:
        """Whether the phase of that parity is over, the next one running."""
        return self.phase & 1 != parity & 1

    def learn(self, machine: Machine, where: Where, acquires: bool = True) -> None:
        """Threads have waited: they know what was done before the phase ended, or with `.relaxed` hear of it."""
        clocks = machine.clocks
        if self.known:
            (clocks.acquire if acquires else clocks.hear)(where, self.known)
        if self.clock:
            (clocks.learn if acquires else clocks.hear_of)(where, self.engine, self.clock)
        flights = machine.flights
        for flight in [flight for flight in self.flights if flight.landed and flight.key < self.phase]:
            flights.complete(flight)
            self.flights.remove(flight)

    @property
    def words(self) -> str:
        """What is still to come."""
        return f"phase {self.phase}: {self.pending} of {self.count} arrivals and {self.bytes} bytes are missing"


class MBarriers(State):
    """All of a machine, by offset in shared memory."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.at: dict[int, MBarrier] = {}

    def restart(self) -> None:
        """There are none."""
        self.at.clear()


def barriers(machine: Machine) -> dict[int, MBarrier]:
    """All of the machine's by offset in shared memory."""
    return machine.state(MBarriers).at
