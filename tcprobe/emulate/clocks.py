"""What each thread knows of what others have done: vector clocks, which barriers, releases and acquires join.

A tag names an access: who did it (a thread of the cluster, or an engine that works beside the threads), when by its own
clock, and, of a strong access, its scope. A thread may touch a byte after another did if it knows that clock: through a
barrier, an mbarrier's phase, or a release that it acquired.

What is known has *views*, each a clock of every thread and engine: KNOWN; PROXY, the part with a fence of the async
proxy on its way; and, where a kernel needs them (`Views`), what was heard of in no order of memory (`.relaxed`),
what stands behind a fence of a scope, so that a strong write publishes it, and what strong reads observed that a fence
of a scope makes known (with its part behind proxy fences).

>>> import numpy as np
>>> clocks = Clocks(threads=4, cluster=4)
>>> tag = clocks.tags(np.array([1]))
>>> clocks.ordered(np.array([2]), tag).tolist()
[False]
>>> clocks.join(np.array([1, 2])); clocks.ordered(np.array([2]), tag).tolist()
[True]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tags = NDArray[np.int64]
Where = Any  # which threads: a slice, or their numbers
Clocked: TypeAlias = NDArray[np.int32]  # (views, entities)
Known: TypeAlias = Mapping[int, Clocked]  # what somebody knows, by the serial of a cluster; never changed
ENTITY_BITS, SCOPE_BITS, CLOCK_BITS = 15, 2, 24
ENTITY, SCOPE, CLOCK = (1 << ENTITY_BITS) - 1, (1 << SCOPE_BITS) - 1, (1 << CLOCK_BITS) - 1
CLOCK_AT = ENTITY_BITS + SCOPE_BITS
SERIAL_AT = CLOCK_AT + CLOCK_BITS
WEAK, CTA, CLUSTER, GPU = range(4)  # scopes of strong accesses; of one device .sys is .gpu
KNOWN, PROXY = 0, 1
NOTHING: Known = {}
MOST_KEPT = 1000  # results of fences that are remembered


class Views(NamedTuple):
    """Which views a kernel needs: `heard` beside KNOWN; by scope of its fences `behind`, and `observed` (two views)."""

    heard: int = KNOWN
    behind: Mapping[int, int] = {}
    observed: Mapping[int, int] = {}
    many: int = 2

    @classmethod
    def of(cls, scopes: Iterable[int], relaxed: bool) -> Views:
        """For fences of these scopes, and with `.relaxed` barriers or without."""
        ordered = sorted(set(scopes))
        first = 2 + relaxed
        behind = {scope: first + 3 * n for n, scope in enumerate(ordered)}
        observed = {scope: view + 1 for scope, view in behind.items()}
        return cls(2 if relaxed else KNOWN, behind, observed, first + 3 * len(ordered))

    def without_fences(self, known: Known) -> Known:
        """What is known without what stands behind fences, or will."""
        if not self.behind:
            return known
        first = min(self.behind.values())
        made = {serial: clocks.copy() for serial, clocks in known.items()}
        for clocks in made.values():
            clocks[first:] = 0
        return made


def joined(*every: Known) -> Known:
    """What all know together; one of them where that knows all."""
    return reduce(_joined, every, NOTHING)


def _joined(one: Known, other: Known) -> Known:
    if one is other or not other:
        return one
    few, many = sorted((one, other), key=len)
    made = dict(many)
    changed = False
    for serial, clocks in few.items():
        had = many.get(serial)
        if had is not clocks:
            made[serial] = clocks if had is None else _most(had, clocks)
            changed |= made[serial] is not had
    return made if changed else many


def _most(one: Clocked, other: Clocked) -> Clocked:
    """The larger of each, of arrays of which one may know fewer engines; one of them where it is that."""
    short, long = (one, other) if one.shape[1] < other.shape[1] else (other, one)
    part = long[:, : short.shape[1]]
    most = np.maximum(part, short)
    if (most == part).all():
        return long
    made = long.copy()
    made[:, : short.shape[1]] = most
    return made


def within(known: Known, view: int) -> Known:
    """The part of what is known that a view has, too."""
    return {serial: np.minimum(clocks, clocks[view]) for serial, clocks in known.items()}


class Clocks:
    """Of `threads` threads in clusters of `cluster`; an entity is a thread's number in its cluster, or an engine."""

    def __init__(self, threads: int, cluster: int, views: Views | None = None) -> None:
        self.cluster = cluster
        self.views = views or Views()
        self.engines = 0
        self.threads = np.arange(threads)
        self.own = self.threads % cluster
        self.serial = np.zeros(threads, np.int64)
        self.state = np.zeros((self.views.many, threads, cluster + 32), np.int32)
        self.abroad = np.full(threads, NOTHING, object)  # of other clusters, what each thread knows
        self.travels = False  # whether any thread knows anything of them
        self._time = np.zeros(cluster + 32, np.int64)
        self._fenced: dict[tuple[int, int, bool, bool], tuple[Known, Known]] = {}
        self.restart(self.serial)

    @property
    def known(self) -> NDArray[np.int32]:
        """(threads, entities) What each thread knows."""
        made: NDArray[np.int32] = self.state[KNOWN]
        return made

    @property
    def heard(self) -> NDArray[np.int32]:
        """What each thread knows or has heard of."""
        made: NDArray[np.int32] = self.state[self.views.heard]
        return made

    def restart(self, serials: NDArray[np.int64]) -> None:
        """New blocks: nobody knows anything, and the tags of earlier blocks are those of strangers."""
        self.serial = serials
        self.state[:] = 0
        for view in {KNOWN, self.views.heard}:
            self.state[view, self.threads, self.own] = 1
        self.abroad[:] = [NOTHING] * self.threads.size
        self.travels = False
        self._fenced.clear()

    def engine(self) -> int:
        """A new entity that works beside the threads."""
        number = self.cluster + self.engines
        self.engines += 1
        if number >= self.state.shape[2]:
            self.state = np.pad(self.state, ((0, 0), (0, 0), (0, self.state.shape[2])))
            self._time = np.pad(self._time, (0, self._time.size))
        return number

    def engine_tag(self, engine: int, serial: int) -> int:
        """The tag of an engine's next access; whoever waits for it learns `clock_of` it."""
        self._time[engine] += 1
        return serial << SERIAL_AT | int(self._time[engine]) << CLOCK_AT | engine

    def tags(self, threads: NDArray[np.intp], scope: int = WEAK) -> Tags:
        """The tags of what threads do now; `scope` of a strong access."""
        own = self.own[threads]
        clock = self.known[threads, own].astype(np.int64)
        return self.serial[threads] << SERIAL_AT | clock << CLOCK_AT | scope << ENTITY_BITS | own

    def ordered(self, threads: NDArray[np.intp], tags: Tags, view: int = KNOWN) -> NDArray[np.bool_]:
        """Whether each thread knows the tags (of its row), in a view of what it knows."""
        known = self.state[view]
        shape = (-1,) + (1,) * (tags.ndim - 1)
        rows = threads.reshape(shape)
        entity, clock = tags & ENTITY, tags >> CLOCK_AT & CLOCK
        entity[entity >= known.shape[1]] = 0
        right: NDArray[np.bool_] = known[rows, entity] >= clock
        serial = tags >> SERIAL_AT
        strange = (serial != self.serial[rows]) & (serial != 0)
        if strange.any():
            right &= ~strange
            if self.travels:
                for known_abroad, lanes in self._by_abroad(threads):
                    for number in np.unique(serial[lanes][strange[lanes]]):
                        if (there := known_abroad.get(int(number))) is not None:
                            met = strange & (serial == number) & lanes.reshape(shape)
                            at = np.minimum(entity[met], there.shape[1] - 1)
                            right[met] = (there[view, at] >= clock[met]) & (entity[met] < there.shape[1])
        return right

    def _by_abroad(self, threads: NDArray[np.intp]) -> list[tuple[Known, NDArray[np.bool_]]]:
        """What threads know of other clusters, and whose it is."""
        held = self.abroad[threads]
        same = {id(known): known for known in held}
        if len(same) == 1:
            return [(held[0], np.ones(held.size, np.bool_))]
        numbers = np.array([id(known) for known in held])
        return [(known, numbers == number) for number, known in same.items()]

    def _set_abroad(self, threads: NDArray[np.intp], known: Known) -> None:
        self.travels = True
        for thread in threads:  # NumPy takes no mapping for many at once
            self.abroad[thread] = known

    def _together_abroad(self, threads: NDArray[np.intp]) -> Known:
        return joined(*{id(known): known for known in self.abroad[threads]}.values())

    def tick(self, where: Where) -> None:
        """What threads do from here on is not part of what they released."""
        threads = self.threads[where]
        own = self.own[threads]
        self.known[threads, own] += 1
        if self.views.heard != KNOWN:
            self.heard[threads, own] = self.known[threads, own]

    def join(self, threads: Where) -> None:
        """A barrier: each of the threads knows what any of them knew."""
        self.state[:, threads] = self.state[:, threads].max(axis=1, keepdims=True)
        if self.travels:
            numbers = self.threads[threads]
            self._set_abroad(numbers, self._together_abroad(numbers))
        self.tick(threads)

    def join_warps(self, threads: NDArray[np.intp]) -> None:
        """bar.warp.sync of whole warps."""
        if self.travels:
            for first in range(0, threads.size, 32):
                self.join(threads[first : first + 32])
            return
        for state in self.state:
            rows = state[threads].reshape(-1, 32, state.shape[1])
            state[threads] = np.repeat(rows.max(axis=1), 32, axis=0)
        self.tick(threads)

    def release(self, threads: Where) -> Known:
        """What the threads, of one cluster, know together, for others to acquire."""
        numbers = self.threads[threads]
        known = {int(self.serial[numbers[0]]): self.state[:, threads].max(axis=1)}
        made = {**self._together_abroad(numbers), **known} if self.travels else known
        self.tick(threads)
        return made

    def acquire(self, threads: Where, known: Known) -> None:
        """The threads, of one cluster, learn what was released."""
        numbers = self.threads[threads]
        own = int(self.serial[numbers[0]])
        if (here := known.get(own)) is not None:
            width = here.shape[1]
            self.state[:, threads, :width] = np.maximum(self.state[:, threads, :width], here[:, None])
        if len(known) > (here is not None):
            for had, lanes in self._by_abroad(numbers):
                self._set_abroad(numbers[lanes], joined(had, known))

    def whisper(self, threads: Where) -> Known:
        """As `release`, of a `.relaxed` arrival: that they came, and what stands behind a fence."""
        made = {}
        for serial, clocks in self.release(threads).items():
            fenced = [np.minimum(clocks, clocks[view]) for view in self.views.behind.values()]
            made[serial] = kept = reduce(np.maximum, fenced, np.zeros_like(clocks))
            kept[self.views.heard] = clocks[self.views.heard]
        return made

    def hear(self, threads: Where, known: Known) -> None:
        """As `acquire`, of a `.relaxed` wait: that others came, and what a fence makes known."""
        for scope in self.views.observed:
            self.observe(threads, known, scope)
        here = known[int(self.serial[self.threads[threads][0]])]
        width = here.shape[1]
        self.heard[threads, :width] = np.maximum(self.heard[threads, :width], here[self.views.heard])

    def observe(self, threads: Where, known: Known, scope: int) -> None:
        """Strong reads without an acquire: a fence of that scope makes it known."""
        view, seen = self.views.observed[scope], {}
        for serial, clocks in known.items():
            seen[serial] = made = np.zeros_like(clocks)
            made[view], made[view + 1] = clocks[KNOWN], clocks[PROXY]
        self.acquire(threads, seen)

    def fence(self, where: Where, scope: int, acquires: bool, releases: bool) -> None:
        """fence: what strong reads observed is known, and strong writes from here on publish what is known."""
        self.state[:, where] = self._behind(self.state[:, where], scope, acquires, releases)
        if self.travels:
            threads = self.threads[where]
            for known, lanes in self._by_abroad(threads):
                key = (id(known), scope, acquires, releases)
                if key not in self._fenced:
                    made = {s: self._behind(clocks, scope, acquires, releases) for s, clocks in known.items()}
                    same = all(np.array_equal(made[serial], clocks) for serial, clocks in known.items())
                    if len(self._fenced) > MOST_KEPT:
                        self._fenced.clear()
                    self._fenced[key] = (known, known if same else made)
                self._set_abroad(threads[lanes], self._fenced[key][1])
        self.tick(where)

    def _behind(self, state: Any, scope: int, acquires: bool, releases: bool) -> Any:
        """Views after a fence."""
        made = state.copy()
        if acquires:
            seen = self.views.observed[scope]
            made[KNOWN] = np.maximum(made[KNOWN], made[seen])
            made[PROXY] = np.maximum(made[PROXY], made[seen + 1])
            made[self.views.heard] = np.maximum(made[self.views.heard], made[KNOWN])
        if releases:
            for least, view in self.views.behind.items():
                if least <= scope:
                    made[view] = made[KNOWN]
        return made

    def hear_of(self, threads: Where, engine: int, clock: int) -> None:
        """The threads have waited for an engine's access, without an acquire."""
        self.heard[threads, engine] = np.maximum(self.heard[threads, engine], clock)

    def learn(self, threads: Where, engine: int, clock: int) -> None:
        """The threads have waited for an engine's access."""
        for view in {KNOWN, PROXY, self.views.heard}:
            known = self.state[view]
            known[threads, engine] = np.maximum(known[threads, engine], clock)

    def fence_proxy(self, threads: Where) -> None:
        """fence.proxy.async: all that the threads know may be seen by the async proxy, too."""
        self.state[PROXY, threads] = self.state[KNOWN, threads]
        if self.travels:
            numbers = self.threads[threads]
            for known, lanes in self._by_abroad(numbers):
                made = {}
                for serial, clocks in known.items():
                    made[serial] = fenced = clocks.copy()
                    fenced[PROXY] = fenced[KNOWN]
                self._set_abroad(numbers[lanes], made)
        self.tick(threads)


def clock_of(tag: int) -> int:
    """When by its own clock."""
    return tag >> CLOCK_AT & CLOCK
