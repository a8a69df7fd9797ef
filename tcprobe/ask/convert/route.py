"""The plan of a conversion: registers renamed where lanes have what they need, else movmatrix, else few shuffles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from tcprobe.ask.convert.casts import Cast
from tcprobe.ask.convert.plan import LANES, Movmatrix, Pack, Permute, Plan, PlanOp, Select, Shuffle, transpose_sources
from tcprobe.ask.convert.schedule import degree, rounds
from tcprobe.ask.convert.units import Tiling, Unit, UnitPlace, UnmovableError

RouteKey = tuple[int, int]  # (tile, register) of the target
UnitPlaces = tuple[UnitPlace | None, ...]


def route(tiling: Tiling, cast: Cast, movmatrix: bool) -> Plan:
    """The plan, with movmatrix if the arch has it; UnmovableError where the source lacks a unit of the target."""
    units = max(1, 32 // cast.bits)
    needed_words = _needed_words(tiling, units)
    lane_places = _places_by_lane(tiling, needed_words)
    maker = _Maker(units)
    outputs: dict[RouteKey, int] = {}
    rest: dict[RouteKey, list[tuple[Unit, ...]]] = {}
    for key, lanes in needed_words.items():
        own = _in_place(tiling, key, lanes) or [
            tuple(places.get(unit) for unit in word) for word, places in zip(lanes, lane_places, strict=True)
        ]
        if all(None not in places for places in own):
            outputs[key] = maker.pack_by_lane(own)
        elif movmatrix and units == 2 and (sent := _before_transposing(lanes, lane_places)):
            outputs[key] = maker.transpose(maker.pack_by_lane(sent))
        else:
            rest[key] = lanes
    exchange = _Exchange(tiling, rest, lane_places, maker)
    outputs |= exchange.outputs()
    return Plan(units, tuple(maker.ops), {key: outputs[key] for key in needed_words}, exchange.fewest)


def _needed_words(tiling: Tiling, units: int) -> dict[RouteKey, list[tuple[Unit, ...]]]:
    """By target register: what every lane's word must hold."""
    fragment = tiling.target.fragment
    return {
        (tile, register): [
            tuple(tiling.needed_unit(lane, (tile, register * units + unit)) for unit in range(units))
            for lane in range(LANES)
        ]
        for tile in range(tiling.target_tiles)
        for register in range(fragment.registers)
    }


def _places_by_lane(
    tiling: Tiling, needed_words: Mapping[RouteKey, Sequence[tuple[Unit, ...]]]
) -> list[dict[Unit, UnitPlace]]:
    """By lane: the units that it holds, and where first."""
    missing = {unit for lanes in needed_words.values() for units in lanes for unit in units} - set(tiling.holders)
    if missing:
        raise UnmovableError(
            f"the {tiling.group} elements of a target byte, {list(min(missing))}, are in different bytes of the source"
        )
    by_lane: list[dict[Unit, UnitPlace]] = [{} for _ in range(LANES)]
    for unit, holders in tiling.holders.items():
        for lane, place in holders:
            by_lane[lane].setdefault(unit, place)
    return by_lane


def _in_place(tiling: Tiling, route_key: RouteKey, lane_units: Sequence[tuple[Unit, ...]]) -> list[UnitPlaces] | None:
    """The places of a target register where all lanes hold its units just there, which of copies moves nothing."""
    tile, register = route_key
    same = [(tile, register * len(lane_units[0]) + place) for place in range(len(lane_units[0]))]
    slots = [(lane, *pair) for lane, units in enumerate(lane_units) for pair in zip(same, units, strict=True)]
    there = all((lane, place) in tiling.holders[unit] for lane, place, unit in slots)
    return [tuple(same)] * LANES if there else None


def _before_transposing(
    lane_units: Sequence[tuple[Unit, ...]], lane_places: Sequence[Mapping[Unit, UnitPlace]]
) -> list[UnitPlaces] | None:
    """What every lane must hand to movmatrix to get `lane_units`; None where it does not hold that."""
    needed: list[list[Unit | None]] = [[None, None] for _ in range(LANES)]
    for lane, units in enumerate(lane_units):
        for unit, (source, half) in zip(units, transpose_sources(lane), strict=True):
            needed[source][half] = unit
    handed = [tuple(lane_places[lane].get(u) for u in units if u is not None) for lane, units in enumerate(needed)]
    return handed if all(None not in places for places in handed) else None


@dataclass
class _Maker:
    """Collects operations; equal ones are made once."""

    units: int
    ops: list[PlanOp] = field(default_factory=list)
    _words: dict[Hashable, int] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """Number of the next new word."""
        return len(self.ops)

    def add(self, op: PlanOp) -> int:
        """Add the operation that makes the next word."""
        assert op.word == self.next
        self.ops.append(op)
        return op.word

    def transpose(self, sent: int) -> int:
        """The word through movmatrix."""
        return self.add(Movmatrix(self.next, sent))

    def pack(self, places: UnitPlaces) -> int:
        """The word of a lane's own units."""
        if places not in self._words:
            self._words[places] = self.add(Pack(self.next, places))
        return self._words[places]

    def find_pack(self, places: UnitPlaces) -> tuple[int, UnitPlaces]:
        """A word that has these units already, and what it holds; a new one if there is none."""
        needed = {place for place in places if place is not None}
        candidates = ((op.word, op.places) for op in self.ops if isinstance(op, Pack) and needed <= set(op.places))
        return next(candidates, None) or (self.pack(places), places)

    def pack_by_lane(self, lane_places: Sequence[UnitPlaces]) -> int:
        """A word of own units that differ from lane to lane."""
        return self.choose([self.pack(places) for places in lane_places])

    def choose(self, lane_words: Sequence[int]) -> int:
        """The word that each lane names."""
        (first, _), *others = Counter(lane_words).most_common()
        for word, _ in others:
            mask = sum(1 << lane for lane in range(LANES) if lane_words[lane] == word)
            key = ("select", mask, word, first)
            if key not in self._words:
                self._words[key] = self.add(Select(self.next, mask, word, first))
            first = self._words[key]
        return first


Ref = tuple[int, int]  # (word, unit in it)


class _Exchange:
    """Words sent between lanes so that all target registers in `rest` can be put together."""

    def __init__(
        self,
        tiling: Tiling,
        rest: Mapping[RouteKey, Sequence[tuple[Unit, ...]]],
        lane_places: list[dict[Unit, UnitPlace]],
        maker: _Maker,
    ) -> None:
        self._rest, self._lane_places, self._maker = rest, lane_places, maker
        needs = self._needs(tiling)
        self._sent: list[tuple[tuple[int, int], tuple[Unit, ...]]] = [
            (pair, tuple(units[start : start + maker.units]))
            for pair, units in needs.items()
            for start in range(0, len(units), maker.units)
        ]
        edges = [pair for pair, _ in self._sent]
        self._round, self._rounds = rounds(edges), degree(edges)
        foreign = Counter(to for (_, to), units in needs.items() for _ in units)
        least = max((-(-count // maker.units) for count in foreign.values()), default=0)
        moved = [unit for units in needs.values() for unit in units]
        unique = len(set(moved)) == len(moved) and all(len(tiling.holders[unit]) == 1 for unit in moved)
        self.fewest = unique or self._rounds == least  # no choice of senders, or as few as the words a lane needs

    def _needs(self, tiling: Tiling) -> dict[tuple[int, int], list[Unit]]:
        """(from, to) -> units, for all that a lane does not hold itself; from the nearest lane that does."""
        needs: dict[tuple[int, int], list[Unit]] = {}
        for lane in range(LANES):
            units = dict.fromkeys(
                u for lanes in self._rest.values() for u in lanes[lane] if u not in self._lane_places[lane]
            )
            for unit in units:
                source = min((h for h, _ in tiling.holders[unit]), key=lambda h: (h // 4 != lane // 4, h ^ lane))
                needs.setdefault((source, lane), []).append(unit)
        return dict(sorted(needs.items()))

    def outputs(self) -> dict[RouteKey, int]:
        """Shuffle, and put the registers together."""
        arrived: list[dict[Unit, Ref]] = [{} for _ in range(LANES)]
        for number in range(self._rounds):
            word = self._shuffle(number)
            for ((_, to), units), round_ in zip(self._sent, self._round, strict=True):
                if round_ == number:
                    arrived[to] |= {unit: (word, place) for place, unit in enumerate(units)}
        return {key: self._assemble(lanes, arrived) for key, lanes in self._rest.items()}

    def _shuffle(self, number: int) -> int:
        """One round: what every lane sends, and from where it receives."""
        sends: list[UnitPlaces | None] = [None] * LANES
        receives = list(range(LANES))
        for ((source, to), units), round_ in zip(self._sent, self._round, strict=True):
            if round_ == number:
                places = [self._lane_places[source][unit] for unit in units]
                sends[source] = (*places, *[None] * (self._maker.units - len(places)))
                receives[to] = source
        usual = Counter(places for places in sends if places is not None).most_common(1)[0][0]
        sent = self._maker.pack_by_lane([places or usual for places in sends])
        return self._maker.add(Shuffle(self._maker.next, sent, tuple(receives)))

    def _assemble(self, lane_units: Sequence[tuple[Unit, ...]], arrived: Sequence[Mapping[Unit, Ref]]) -> int:
        """A target register from own units and received words."""
        refs = [self._refs(lane, units, arrived[lane]) for lane, units in enumerate(lane_units)]
        words = [list(dict.fromkeys(word for word, _ in lane)) for lane in refs]
        current = self._maker.choose([lane[0] for lane in words])
        indices = [{(lane[0], unit): unit for unit in range(self._maker.units)} for lane in words]
        for step in range(1, max(2, *map(len, words))):
            nexts = [lane[min(step, len(lane) - 1)] for lane in words]
            current, indices = self._join(refs, current, nexts, indices)
        return current

    def _refs(self, lane: int, units: Sequence[Unit], arrived: Mapping[Unit, Ref]) -> list[Ref]:
        """Where a lane finds the units of a target register: in own words, or in received ones."""
        own = tuple(self._lane_places[lane].get(unit) for unit in units)
        word, places = self._maker.find_pack(own) if any(place is not None for place in own) else (-1, ())
        return [
            arrived[unit] if place is None else (word, places.index(place))
            for unit, place in zip(units, own, strict=True)
        ]

    def _join(
        self, refs: Sequence[Sequence[Ref]], current: int, nexts: Sequence[int], indices: Sequence[Mapping[Ref, int]]
    ) -> tuple[int, list[dict[Ref, int]]]:
        """Permute the word so far with the next one, each unit that is there to its final place."""
        size, selectors, now = self._maker.units, [], []
        for lane, lane_refs in enumerate(refs):
            there = dict(indices[lane]) | {
                (nexts[lane], u): size + u for u in range(size) if (nexts[lane], u) not in indices[lane]
            }
            selectors.append(tuple(there.get(ref, place) for place, ref in enumerate(lane_refs)))
            now.append({ref: place for place, ref in enumerate(lane_refs) if ref in there})
        if all(selector == tuple(range(size)) for selector in selectors):
            return current, now
        high = self._maker.choose(nexts)
        return self._maker.add(Permute(self._maker.next, current, high, tuple(selectors))), now
