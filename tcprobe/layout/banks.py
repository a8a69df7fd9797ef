"""The cost of one access of a warp to shared memory, by the rule measured on the hardware.

Shared memory has 32 banks of 4 bytes. In one pass each bank delivers one word, to any number of lanes. The lanes of an
access form *phases*, which are served one after the other. A phase takes as many passes (wavefronts) as its fullest
bank has distinct words; lanes with equal words share a pass, idle lanes need nothing, and a phase of idle lanes needs
no pass. cycles = max(P, B): P is the number of passes of all phases, B the number of beats of 128 bytes, one for each
phase. Loads and stores of 64 and 128 bits also spend a beat on a phase of idle lanes, unless all 32 lanes are idle;
other accesses do not.

- 8 to 32 bits: the 32 lanes are one phase. 64 bits: halves of 16 lanes. 128 bits, ldmatrix, stmatrix: octets of 8.
- Neighbours *join*: a 64-bit load is one phase, and a 128-bit load two, if over the whole warp every lane has the
  address of lane i ^ 1, or every lane that of lane i ^ 2. A lane whose partner is idle agrees with it.
- Atomics: equal words do not share a pass, so a phase takes as many passes as its fullest bank has lanes.
- cp.async.ca: phases of 32, 16, 8 lanes (4, 8, 16 bytes). Lanes are served in order; a lane waits for every earlier one
  of its phase that needs its bank in shared memory, or the bank of its source (bits 2 to 6 of the global address).

>>> from tcprobe.layout.banks import judge
>>> cost = judge("ld.shared.b64", [64 * (lane % 16) for lane in range(32)])
>>> cost.phases, cost.wavefronts, cost.beats, cost.cycles, cost.ideal
([8, 8], 16, 2, 16, 2)

Source: experiments on an H200 (sm_90), which `tcprobe.probes.banks` repeats; `bank_rules` says what is
published for which arch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess, access, accesses
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.text import Described

BANKS = 32
WORD = 4  # bytes
LINE = BANKS * WORD
IDLE = -1  # in place of an address
ABSENT = -1  # in place of the passes of a phase that joined another


@dataclass(frozen=True)
class BankRule:
    """How an access is served: lanes of a `phase`, and lanes of one where neighbours join (`joined`).

    `passes` of a phase: the most distinct "words" or the most "lanes" in a bank, or the longest chain of lanes that
    wait in "order". `idle`: whether beats of phases without an active lane count.
    """

    phase: int
    joined: int
    passes: Literal["words", "lanes", "order"] = "words"
    idle: bool = False


@dataclass(frozen=True, repr=False)
class Cost(Described):
    """The passes of each phase in order, and the beats."""

    phases: list[int]
    beats: int

    @property
    def in_words(self) -> Iterator[str]:
        """On one line."""
        words = f"{self.wavefronts} wavefronts, {self.beats} beats, {self.cycles} cycles"
        yield f"{words}; {self.ideal} if no lanes collided"

    @property
    def wavefronts(self) -> int:
        """Passes of all phases."""
        return sum(self.phases)

    @property
    def cycles(self) -> int:
        """Cycles of the access."""
        return max(self.wavefronts, self.beats)

    @property
    def ideal(self) -> int:
        """Phases with an active lane: the passes if no lanes conflict."""
        return sum(passes > 0 for passes in self.phases)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "wavefronts": self.wavefronts,
            "beats": self.beats,
            "cycles": self.cycles,
            "ideal": self.ideal,
            "phases": self.phases,
        }


@cache
def designed_rules() -> MappingProxyType[str, BankRule]:
    """The rule of every access, as the module's docstring states it."""
    return MappingProxyType({row.name: _rule(row) for row in accesses().values()})


def _rule(access: SharedAccess) -> BankRule:
    phase = min(WARP, LINE // access.bytes)
    joins = access.name.startswith("ld.shared") and phase < WARP
    passes = "order" if access.has_source else "lanes" if access.name.startswith(("atom", "red")) else "words"
    idle = phase < WARP and access.name.startswith(("ld.shared", "st.shared"))
    return BankRule(phase, 2 * phase if joins else phase, passes, idle)  # type: ignore[arg-type]


def judge(name: str, addresses: Sequence[int | None], sources: Sequence[int | None] | None = None) -> Cost:
    """The cost of one access: 32 byte addresses in shared memory, None for idle lanes; for cp.async also of `sources`.

    Without sources only destinations can conflict. Addresses are not checked here; `bank_patterns` does that.
    """
    row = access(name)
    by = Judge(row, designed_rules()[row.name])
    return by.costs(as_array([addresses]), None if sources is None else as_array([sources]))[0]


def as_array(lane_rows: Sequence[Sequence[int | None]]) -> Ints:
    """Addresses of several patterns, IDLE for None; shape (patterns, 32)."""
    return np.array([[IDLE if a is None else a for a in row] for row in lane_rows], np.int64).reshape(-1, WARP)


class Judge(NamedTuple):
    """An access and its rule; `addresses` and `sources` are (patterns, 32), IDLE for idle lanes."""

    row: SharedAccess
    rule: BankRule

    def costs(self, addresses: Ints, sources: Ints | None = None) -> list[Cost]:
        """The cost of each pattern."""
        by_phase = self.passes(addresses, sources)
        rows = zip(by_phase.tolist(), beats(self.rule, by_phase).tolist(), strict=True)
        return [Cost([n for n in phases if n != ABSENT], count) for phases, count in rows]

    def cycles(self, addresses: Ints, sources: Ints | None = None) -> Ints:
        """max(P, B) of each pattern, shape (patterns,)."""
        by_phase = self.passes(addresses, sources)
        total: Ints = np.maximum(by_phase.clip(0).sum(axis=1), beats(self.rule, by_phase))
        return total

    def passes(self, addresses: Ints, sources: Ints | None = None) -> Ints:
        """Passes of each phase, (patterns, phases); ABSENT in place of phases that joined others."""
        sides = [side for side in (addresses, sources) if side is not None]
        by_phase = self._passes(self.rule.phase, sides)
        if self.rule.joined > self.rule.phase:
            joins = agree(addresses)
            joined = self._passes(self.rule.joined, [side[joins] for side in sides])
            by_phase[joins] = ABSENT
            by_phase[joins, : joined.shape[1]] = joined
        return by_phase

    def _passes(self, phase: int, memories: Sequence[Ints]) -> Ints:
        """Passes of each phase of `phase` lanes, (patterns, phases); `memories`: addresses, and sources if given."""
        width = min(phase, self.row.lanes)
        count = self.row.lanes // width
        needs = [_units(self.row, a[:, : self.row.lanes].reshape(len(a) * count, width)) for a in memories]
        if self.rule.passes == "order":
            most = _longest_chain(self.row, needs)
        else:
            most = _fullest(self.row, needs[0], self.rule.passes == "words")
        return most.reshape(len(memories[0]), count)


def beats(rule: BankRule, by_phase: Ints) -> Ints:
    """B of each pattern, from the passes of its phases."""
    counted = (by_phase != ABSENT) & (by_phase > 0).any(axis=1, keepdims=True) if rule.idle else by_phase > 0
    count: Ints = counted.sum(axis=1)
    return count


def agree(addresses: Ints) -> Bools:
    """Whether, over the whole warp, lanes i and i ^ 1, or i and i ^ 2, have one address, or one of them is idle."""
    lanes = np.arange(WARP)
    pairs = [(addresses, addresses[:, lanes ^ step]) for step in (1, 2)]
    same = [((a == b) | (a == IDLE) | (b == IDLE)).all(axis=1) for a, b in pairs]
    either: Bools = same[0] | same[1]
    return either


def _units(access: SharedAccess, lanes: Ints) -> Ints:
    """The words that lanes need; if a lane needs several, aligned pairs or quads of words. IDLE stays."""
    return lanes // max(WORD, access.bytes)


def _banks(access: SharedAccess) -> int:
    """How many units the banks hold side by side."""
    return LINE // max(WORD, access.bytes)


def _fullest(access: SharedAccess, units: Ints, distinct: bool) -> Ints:
    """The most (distinct) units in the same banks, for each row of units."""
    if distinct:
        units = np.sort(units, axis=1)
        units[:, 1:][units[:, 1:] == units[:, :-1]] = IDLE
    banks = _banks(access)
    bins = np.arange(len(units))[:, None] * banks + units % banks
    counts = np.bincount(bins[units != IDLE], minlength=banks * len(units))
    most: Ints = counts.reshape(-1, banks).max(axis=1)
    return most


def _longest_chain(access: SharedAccess, needs: Sequence[Ints]) -> Ints:
    """The longest chain of lanes that wait for each other; `needs`: units in shared memory, and of the sources."""
    banks = _banks(access)
    free = np.zeros(
        (len(needs), len(needs[0]), banks), np.int64
    )  # the number of passes after which a unit's banks are free
    for lane in range(needs[0].shape[1]):
        (on,) = np.nonzero(needs[0][:, lane] != IDLE)
        places = [(j, on, need[on, lane] % banks) for j, need in enumerate(needs)]
        after = 1 + np.max([free[place] for place in places], axis=0)
        for place in places:
            free[place] = after
    longest: Ints = free[0].max(axis=1)
    return longest
