"""Release and acquire patterns (PTX ISA 9.1, 8.7 to 8.9): what strong writes publish, and who learns it.

A strong write publishes at its place what its thread knows, if it releases, and what stands behind a fence. An atomic
read-modify-write hands on what was published before (observation order); any other write replaces it, unless the thread
itself released there. A strong read observes what is published, if it and the last write are morally strong: either's
scope has the other's thread; it learns, or lets a fence learn, what was released in a scope that has the reader, if the
scope of the acquire has who released it.

A fence that a thread knows of through a barrier counts as if it were its own. For fence.sc the model says so (the
fences' order cannot be otherwise); for the others it asks for a fence in the thread that writes or reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tcprobe.emulate.clocks import CLUSTER, CTA, GPU, KNOWN, Known, Views, joined, within
from tcprobe.emulate.machine import Machine, State, Where
from tcprobe.emulate.ptx import Module, Statement
from tcprobe.layout.arrays import Bools

STRONG_WORDS = ("volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
ACQUIRE, RELEASE = ("acquire", "acq_rel", "sc"), ("release", "acq_rel", "sc")
FENCES = ("fence", "membar")
BARRIERS = ("barrier", "mbarrier")


def scope_of(statement: Statement) -> int:
    """Of a strong access, fence or read-modify-write; where none is named, the device."""
    words = statement.modifiers
    return CTA if "cta" in words else CLUSTER if "cluster" in words else GPU


def orders_memory(statement: Statement) -> bool:
    """Whether it is a fence that orders memory: not of proxies, nor of the initialisation of mbarriers."""
    return statement.opcode in FENCES and not {"proxy", "mbarrier_init"} & set(statement.modifiers)


def views_of(module: Module) -> Views:
    """What the clocks of a module's kernels have to tell apart."""
    statements = [s for function in module.functions.values() for s in function.statements]
    relaxed = any(s.opcode in BARRIERS and "relaxed" in s.modifiers for s in statements)
    return Views.of((scope_of(s) for s in statements if orders_memory(s)), relaxed)


class Place(NamedTuple):
    """Where a thread is: its cluster's serial and its block."""

    cluster: int
    block: int

    def within(self, scope: int) -> int:
        """The number of what a scope around the thread is."""
        return {CTA: self.block, CLUSTER: self.cluster, GPU: 0}[scope]

    def meets(self, other: Place, scope: int) -> bool:
        """Whether a scope around it has another thread, too."""
        return self.within(scope) == other.within(scope)


Released: TypeAlias = Mapping[tuple[int, int], Known]  # by scope, and what it is of; never changed


@dataclass
class Published:
    """What is published at an address: by scope, and who is within it, what was released; the last write's place."""

    place: Place
    scope: int
    version: int = 0
    released: Released = field(default_factory=dict)

    def add(self, place: Place, scope: int, known: Known) -> None:
        """A release in a scope."""
        new = {(each, place.within(each)): known for each in range(CTA, scope + 1)}
        self.released = _merged(self.released, new)


def _merged(one: Released, other: Released) -> Released:
    """Both."""
    return {**one, **{key: joined(one.get(key, {}), known) for key, known in other.items()}}


def _heard(released: Released, place: Place, scope: int) -> Known:
    """What an acquire of that scope learns."""
    return joined(*(released.get((each, place.within(each)), {}) for each in range(CTA, scope + 1)))


class Patterns(State):
    """By memory and offset what is published there, which of global memory stays for the next blocks."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.at: dict[tuple[str, int], Published] = {}
        # what a thread released there: its later strong writes publish that, too
        self.own: dict[tuple[str, int], dict[tuple[int, int], dict[int, Known]]] = {}
        self.seen: dict[tuple[int, str, int], Released] = {}  # what was released where a thread read, for an acquire
        self.polled: dict[tuple[tuple[str, int], int, bool], tuple[int, Bools]] = {}  # by whom, of which version
        self.versions = 0

    def restart(self) -> None:
        """None of the threads has done anything."""
        self.at = {key: published for key, published in self.at.items() if key[0] == "global"}
        self.own.clear()
        self.seen.clear()
        self.polled.clear()

    def place(self, thread: int) -> Place:
        """Of a thread."""
        block = int(self.machine.block_of[thread]) % self.machine.shape.ranks
        serial = int(self.machine.clocks.serial[thread])
        return Place(serial, serial * self.machine.shape.ranks + block)

    def write(self, key: tuple[str, int], thread: int, scope: int, releases: bool, again: bool) -> None:
        """A thread's strong write; `again`: by a read-modify-write, which hands on what was there."""
        place, old = self.place(thread), self.at.get(key)
        made = self._released(thread, scope, releases)
        own = self.own.setdefault(key, {}).get((place.cluster, thread), {})
        goes_on = old is not None and again and place.meets(old.place, min(scope, old.scope))
        if not made and (old is None or (goes_on and (old.place, old.scope) == (place, scope))):
            return
        self.versions += 1
        published = Published(place, scope, self.versions)
        if goes_on and old is not None:
            published.released = old.released
        made = {**own, **made}
        if releases:
            self.own[key][place.cluster, thread] = made
        for each, known in made.items():
            published.add(place, each, known)
        self.at[key] = published

    def _released(self, thread: int, scope: int, releases: bool) -> dict[int, Known]:
        """By scope what a thread's strong write releases."""
        clocks = self.machine.clocks
        if not releases and not clocks.views.behind:
            return {}
        every = clocks.release(slice(thread, thread + 1))
        made = {least: within(every, view) for least, view in clocks.views.behind.items()}
        made |= {scope: every} if releases else {}
        return {
            least: clocks.views.without_fences(known)
            for least, known in made.items()
            if any(clocked[KNOWN].any() for clocked in known.values())
        }

    def read(self, key: tuple[str, int], threads: Any, scope: int, acquires: bool) -> None:
        """Strong reads of threads; those that have read the same so before learn nothing new."""
        published = self.at.get(key)
        if published is None:
            return
        way = key, scope, acquires
        version, polled = self.polled.get(way, (-1, None))
        if polled is None or version != published.version:
            polled = np.zeros(self.machine.count, np.bool_)
            self.polled[way] = published.version, polled
        alike: dict[tuple[Place, int], list[int]] = {}
        for thread in threads[~polled[threads]].tolist():
            alike.setdefault((self.place(thread), id(self.seen.get((thread, *key)))), []).append(thread)
        for (place, _), every in alike.items():
            self._learn(published, key, place, np.array(every), (scope, acquires))
        polled[threads] = True

    def _learn(
        self, published: Published, key: tuple[str, int], place: Place, own: Any, order: tuple[int, bool]
    ) -> None:
        """Threads of one place that saw the same before."""
        (scope, acquires), released = order, self.seen.get((int(own[0]), *key), {})
        if place.meets(published.place, min(scope, published.scope)):
            released = _merged(released, published.released) if released else published.released
            self.seen |= {(int(thread), *key): released for thread in own}
        clocks = self.machine.clocks
        for least in clocks.views.observed:
            if known := _heard(released, place, least):
                clocks.observe(own, known, least)
        if acquires and (known := _heard(released, place, scope)):
            clocks.acquire(own, known)


def publish(machine: Machine, reached: Any, where: Where, scope: int, releases: bool) -> None:
    """Strong writes other than read-modify-writes, which are done, at what `Machine.reach` found."""
    patterns, threads = machine.state(Patterns), machine.threads[where]
    if not (releases or machine.clocks.views.behind or patterns.at):
        return
    for memory, offsets, lanes in reached:
        for thread, offset in zip(threads[lanes].tolist(), offsets.tolist(), strict=True):
            patterns.write((memory.name, offset), thread, scope, releases, again=False)


def observe(machine: Machine, reached: Any, where: Where, scope: int, acquires: bool) -> None:
    """Strong reads."""
    patterns, threads = machine.state(Patterns), machine.threads[where]
    if not patterns.at:
        return
    for memory, offsets, lanes in reached:
        for offset in np.unique(offsets).tolist():
            patterns.read((memory.name, offset), threads[lanes][offsets == offset], scope, acquires)


def modify(
    machine: Machine, memory: str, offsets: Any, threads: Any, scope: int, order: tuple[bool, bool, bool]
) -> None:
    """Atomic read-modify-writes, one after another; `order`: whether they read (red does not), acquire, release."""
    reads, acquires, releases = order
    patterns = machine.state(Patterns)
    if not (releases or machine.clocks.views.behind or patterns.at):
        return
    for thread, offset in zip(threads.tolist(), offsets.tolist(), strict=True):
        key = memory, offset
        if reads:
            patterns.read(key, np.array([thread]), scope, acquires)
        if releases or machine.clocks.views.behind or key in patterns.at:
            patterns.write(key, thread, scope, releases, again=True)
