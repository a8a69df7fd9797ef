"""Work in flight: copies and multiplies that take effect some time between their issue and what waits for them.

Bytes that a flight will write or still reads are poisoned for everybody else until somebody has waited for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.emulate.memory import Space
from tcprobe.emulate.ptx import Statement


@dataclass(eq=False)
class Flight:
    """`effect` moves the data; `landed` once it has. `reads` and `writes` are bytes of a memory.

    `self_landing`: it may land without anybody who waits for it, as a copy that an mbarrier counts.
    """

    statement: Statement
    effect: Callable[[], None]
    reads: list[tuple[Space, NDArray[np.intp]]] = field(default_factory=list)
    writes: list[tuple[Space, NDArray[np.intp]]] = field(default_factory=list)
    self_landing: bool = False
    landed: bool = False
    key: Any = None
    parts: list[Flight] = field(default_factory=list)  # that are waited for with it
    thread: int = 0
    after: Flight | None = None  # which lands first


class Flights:
    """All of them, oldest first; `early`: they land when they are issued."""

    def __init__(self, early: bool = False, random: Random | None = None) -> None:
        self.early, self.random = early, random
        self.open: list[Flight] = []
        self.at_end: list[Callable[[list[Flight]], None]] = []

    @property
    def waiting(self) -> bool:
        """Whether any may land by itself."""
        return any(flight.self_landing and not flight.landed for flight in self.open)

    def issue(self, flight: Flight) -> Flight:
        """It has taken off: its bytes are poisoned."""
        for space, at in flight.writes:
            space.incoming[at] += 1
            space.flights += 1
        for space, at in flight.reads:
            space.outgoing[at] += 1
            space.flights += 1
        self.open.append(flight)
        if self.early or (self.random is not None and self.random.random() < 0.5):
            self._land(flight)
        return flight

    def land(self, random: Random | None = None) -> bool:
        """Let the oldest that may land by itself, or one by chance, take effect; False if there is none."""
        ready = [flight for flight in self.open if flight.self_landing and not flight.landed]
        if not ready:
            return False
        self._land(random.choice(ready) if random else ready[0])
        return True

    def _land(self, flight: Flight) -> None:
        before = [flight]
        while (earlier := before[-1].after) is not None and not earlier.landed:
            before.append(earlier)
        for each in reversed(before):
            if not each.landed:
                each.landed, each.after = True, None
                each.effect()

    def complete(self, flight: Flight) -> None:
        """Somebody has waited for it: it takes effect if it has not, and its bytes are everybody's again."""
        self._land(flight)
        if flight not in self.open:
            return
        self.open.remove(flight)
        for space, at in flight.writes:
            space.incoming[at] -= 1
            space.flights -= 1
        for space, at in flight.reads:
            space.outgoing[at] -= 1
            space.flights -= 1
        for part in flight.parts:
            self.complete(part)

    def end(self) -> None:
        """All blocks have come to their end: whoever keeps work in flight finds what is left."""
        left = [flight for flight in self.open if flight.self_landing and (flight.reads or not flight.landed)]
        for check in self.at_end:
            check(left)
        for flight in left:
            self._land(flight)
        self.open.clear()
