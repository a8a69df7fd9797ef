"""Who collides with whom: each phase of one access, its passes, and the lanes that meet in a bank.

>>> from tcprobe.ask.bank_collisions import phases
>>> from tcprobe.ask.bank_patterns import check_pattern
>>> from tcprobe.layout.banks import designed_rules
>>> from tcprobe.isa.shared_memory import access
>>> row = access("st.shared.b64")
>>> first, second = phases(check_pattern(row, [16 * (lane % 16) for lane in range(32)]), designed_rules()[row.name])
>>> first.passes, [str(c) for c in first.collisions][:1]
(2, ['banks 0-1: lanes 0 | 8'])
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcprobe.layout.banks import LINE, WORD, BankRule, Judge, agree, as_array
from tcprobe.layout.runs import ranges

if TYPE_CHECKING:
    from tcprobe.ask.bank_patterns import LaneAddress, Pattern

MOST_PARTIES = 8  # that are printed
MOST_COLLISIONS = 4  # lines of a phase


@dataclass(frozen=True)
class Collision:
    """`parties` of lanes meet in `banks` of shared memory, or of the source of cp.async; a party is served together."""

    memory: str
    banks: tuple[int, ...]
    parties: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        prefix = "" if self.memory == "shared" else f"{self.memory} "
        parties = list(map(range_text, self.parties))
        if len(parties) > MOST_PARTIES:
            parties[MOST_PARTIES - 1 : -1] = ["..."]
        return f"{prefix}{numbers('bank', self.banks)}: lanes {' | '.join(parties)}"

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"memory": self.memory, "banks": self.banks, "lanes": self.parties}


@dataclass(frozen=True)
class Phase:
    """`lanes` that are served together in `passes` passes; `collisions`, those of most parties first."""

    lanes: tuple[int, ...]
    passes: int
    collisions: tuple[Collision, ...]

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"wavefronts": self.passes, "lanes": self.lanes, "collisions": [c.to_json() for c in self.collisions]}


def collision_lines(phases: Sequence[Phase]) -> Iterator[str]:
    """Each phase with its wavefronts, and the first of the banks in which its lanes meet."""
    for number, phase in enumerate(phases):
        yield f"  phase {number}, {numbers('lane', phase.lanes)}: {phase.passes} wavefronts"
        yield from (f"    {collision}" for collision in phase.collisions[:MOST_COLLISIONS])
        if len(phase.collisions) > MOST_COLLISIONS:
            yield f"    and in {len(phase.collisions) - MOST_COLLISIONS} more places"


def phases(pattern: Pattern, rule: BankRule) -> list[Phase]:
    """The phases of one access, as `banks.Judge` counts them."""
    joins = bool(agree(as_array([pattern.address]))[0])
    size = min(rule.joined if joins else rule.phase, pattern.row.lanes)
    return [_phase(pattern, rule, range(first, first + size)) for first in range(0, pattern.row.lanes, size)]


def _phase(pattern: Pattern, rule: BankRule, phase_lanes: range) -> Phase:
    sides = [("shared", _active(pattern.address, phase_lanes)), ("source", _active(pattern.source or (), phase_lanes))]
    judge, active = Judge(pattern.row, rule), sides[0][1]
    collisions = [c for memory, addresses in sides for c in _collisions(judge, memory, addresses)]
    if rule.passes == "order":
        passes = _chain(active, collisions)
    else:
        passes = max((len(c.parties) for c in collisions), default=min(1, len(active)))
    return Phase(tuple(phase_lanes), passes, tuple(sorted(collisions, key=lambda c: -len(c.parties))))


def _active(lane_addresses: Sequence[LaneAddress], phase_lanes: range) -> dict[int, int]:
    """Addresses by lane, of those lanes that have one."""
    return {lane: address for lane, address in enumerate(lane_addresses) if lane in phase_lanes and address is not None}


def _collisions(judge: Judge, space: str, by_lane: Mapping[int, int]) -> list[Collision]:
    """Every set of banks that several parties need: lanes with one unit of banks, parted by their word."""
    unit = max(WORD, judge.row.bytes)
    needed: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, address in by_lane.items():
        needed[address % LINE // WORD][address // unit if judge.rule.passes == "words" else lane].append(lane)
    return [
        Collision(space, tuple(range(bank, bank + unit // WORD)), tuple(map(tuple, parties.values())))
        for bank, parties in sorted(needed.items())
        if len(parties) > 1
    ]


def _chain(active: Iterable[int], collisions: Iterable[Collision]) -> int:
    """The longest chain of lanes that each wait for one before it."""
    waits: dict[int, set[int]] = {lane: set() for lane in active}
    for collision in collisions:
        queue = [lane for party in collision.parties for lane in party]
        for place, lane in enumerate(queue):
            waits[lane].update(queue[:place])
    depth: dict[int, int] = {}
    for lane in sorted(waits):
        depth[lane] = 1 + max((depth[earlier] for earlier in waits[lane]), default=0)
    return max(depth.values(), default=0)


def range_text(ascending: Sequence[int]) -> str:
    """Ascending numbers with runs as ranges: 0-3,8."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges(ascending))


def numbers(noun: str, values: Sequence[int]) -> str:
    """ "bank 3", "banks 0-3"."""
    return f"{noun}{'s' if len(values) > 1 else ''} {range_text(values)}"
