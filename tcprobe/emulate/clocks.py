"""What each thread knows of what others have done: vector clocks, which barriers join.

A tag names an access: who did it (a thread of the cluster, or an engine that works beside the threads), and when by its
own clock. A thread may touch a byte after another did if it knows that clock: through a barrier, an mbarrier's phase,
or a release that it acquired. `fenced` is the part of that knowledge with a fence of the async proxy on its way.

>>> import numpy as np
>>> clocks = Clocks(threads=4, cluster=4)
>>> tag = clocks.tags(np.array([1]))
>>> clocks.ordered(np.array([2]), tag).tolist()
[False]
>>> clocks.join(np.array([1, 2])); clocks.ordered(np.array([2]), tag).tolist()
[True]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Tags = NDArray[np.int64]
Where = Any  # which threads: a slice, or their numbers
ENTITY_BITS, CLOCK_BITS = 16, 24
STRONG = 1 << 15  # in the entity: an access that may meet others of its kind
ENTITY, CLOCK = STRONG - 1, (1 << CLOCK_BITS) - 1
SERIAL = ENTITY_BITS + CLOCK_BITS


class Known(NamedTuple):
    """What somebody knew at a release: of clocks, and of those with a proxy fence."""

    clocks: NDArray[np.int32]
    fenced: NDArray[np.int32]

    def joined(self, other: Known) -> Known:
        """Both."""
        return Known(_most(self.clocks, other.clocks), _most(self.fenced, other.fenced))


def _most(one: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.int32]:
    """The larger of each, of arrays of which one may know fewer engines."""
    short, long = sorted((one, other), key=len)
    made = long.copy()
    made[: short.size] = np.maximum(made[: short.size], short)
    return made


class Clocks:
    """Of `threads` threads in clusters of `cluster`; an entity is a thread's number in its cluster, or an engine."""

    def __init__(self, threads: int, cluster: int) -> None:
        self.cluster = cluster
        self.engines = 0
        self.threads = np.arange(threads)
        self.own = self.threads % cluster
        self.serial = np.zeros(threads, np.int64)
        self.known = np.zeros((threads, cluster + 32), np.int32)
        self.fenced = np.zeros_like(self.known)
        self.heard = np.zeros_like(self.known)  # without an acquire, too; tcgen05.fence alone makes something of it
        self.met: set[tuple[int, int]] = set()  # (of a cluster, of another whose releases it acquired)
        self._time = np.zeros(cluster + 32, np.int64)
        self.restart(self.serial)

    def restart(self, serials: NDArray[np.int64]) -> None:
        """New blocks: nobody knows anything, and the tags of earlier blocks are those of strangers."""
        self.serial = serials
        self.known[:] = 0
        self.fenced[:] = 0
        self.heard[:] = 0
        self.known[self.threads, self.own] = 1
        self.fenced[self.threads, self.own] = 0

    def engine(self) -> int:
        """A new entity that works beside the threads."""
        number = self.cluster + self.engines
        self.engines += 1
        if number >= self.known.shape[1]:
            self.known = np.pad(self.known, ((0, 0), (0, self.known.shape[1])))
            self.fenced = np.pad(self.fenced, ((0, 0), (0, self.fenced.shape[1])))
            self.heard = np.pad(self.heard, ((0, 0), (0, self.heard.shape[1])))
            self._time = np.pad(self._time, (0, self._time.size))
        return number

    def engine_tag(self, engine: int, serial: int) -> int:
        """The tag of an engine's next access; whoever waits for it learns `clock_of`."""
        self._time[engine] += 1
        return serial << SERIAL | int(self._time[engine]) << ENTITY_BITS | engine

    def tags(self, threads: NDArray[np.intp]) -> Tags:
        """The tags of what threads do now."""
        own = self.own[threads]
        clock = self.known[threads, own].astype(np.int64)
        return self.serial[threads] << SERIAL | clock << ENTITY_BITS | own

    def ordered(self, threads: NDArray[np.intp], tags: Tags, fenced: bool = False) -> NDArray[np.bool_]:
        """Whether each thread knows the tags (of its row); `fenced`: with a proxy fence on the way."""
        known = self.fenced if fenced else self.known
        shape = (-1,) + (1,) * (tags.ndim - 1)
        rows = threads.reshape(shape)
        entity = tags & ENTITY
        entity[entity >= known.shape[1]] = 0
        right: NDArray[np.bool_] = known[rows, entity] >= (tags >> ENTITY_BITS & CLOCK)
        serial = tags >> SERIAL
        strange = (serial != self.serial[rows]) & (serial != 0)
        if strange.any():
            right &= ~strange
            pairs = {
                (int(a), int(b))
                for a, b in zip(
                    *(np.broadcast_arrays(self.serial[rows], serial)[n][strange] for n in (0, 1)), strict=True
                )
            } & self.met
            for own, other in pairs:
                right |= strange & (self.serial[rows] == own) & (serial == other)
        return right

    def tick(self, where: Where) -> None:
        """What threads do from here on is not part of what they released."""
        threads = self.threads[where]
        self.known[threads, self.own[threads]] += 1

    def join(self, threads: Where) -> None:
        """A barrier: each of the threads knows what any of them knew."""
        self.known[threads] = self.known[threads].max(axis=0)
        self.fenced[threads] = self.fenced[threads].max(axis=0)
        self.tick(threads)

    def join_warps(self, threads: NDArray[np.intp]) -> None:
        """bar.warp.sync of whole warps."""
        for state in (self.known, self.fenced):
            rows = state[threads].reshape(-1, 32, state.shape[1])
            state[threads] = np.repeat(rows.max(axis=1), 32, axis=0)
        self.tick(threads)

    def release(self, threads: Where) -> Known:
        """What the threads know together, for others to acquire."""
        known = Known(self.known[threads].max(axis=0), self.fenced[threads].max(axis=0))
        self.tick(threads)
        return known

    def acquire(self, threads: Where, known: Known) -> None:
        """The threads learn what was released."""
        width = known.clocks.size
        self.known[threads, :width] = np.maximum(self.known[threads, :width], known.clocks)
        self.fenced[threads, :width] = np.maximum(self.fenced[threads, :width], known.fenced)

    def hear(self, threads: Where, known: Known) -> None:
        """The threads have waited for those who know it, without what makes them know it."""
        width = known.clocks.size
        self.heard[threads, :width] = np.maximum(self.heard[threads, :width], known.clocks)

    def hear_of(self, threads: Where, engine: int, clock: int) -> None:
        """The threads have waited for an engine's access, without an acquire."""
        self.heard[threads, engine] = np.maximum(self.heard[threads, engine], clock)

    def learn(self, threads: Where, engine: int, clock: int) -> None:
        """The threads have waited for an engine's access."""
        self.known[threads, engine] = np.maximum(self.known[threads, engine], clock)
        self.fenced[threads, engine] = np.maximum(self.fenced[threads, engine], clock)

    def fence_proxy(self, threads: Where) -> None:
        """fence.proxy.async: all that the threads know may be seen by the async proxy, too."""
        self.fenced[threads] = self.known[threads]
        self.tick(threads)

    def nothing(self) -> Known:
        """Known by nobody."""
        return Known(np.zeros(self.known.shape[1], np.int32), np.zeros(self.known.shape[1], np.int32))
