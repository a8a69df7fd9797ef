"""A conversion as a list of operations on words, which can be run (on the names of units) and printed as CUDA.

A word is what a register holds: `units` units, the lowest first. Every operation is the same for all lanes of a warp;
what differs from lane to lane is in masks, source lanes and selectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcprobe.ask.convert.casts import Cast
from tcprobe.ask.convert.units import Tiling, Unit, UnitPlace

LANES = 32
UnitWord = tuple[Unit | None, ...]  # what one lane's word holds


@dataclass(frozen=True)
class Pack:
    """word = the lane's own units at `places`, converted; None: anything."""

    word: int
    places: tuple[UnitPlace | None, ...]

    @property
    def pairs(self) -> list[tuple[UnitPlace | None, UnitPlace | None]]:
        """Places two by two: what one conversion of a pair takes."""
        return list(zip(self.places[::2], self.places[1::2], strict=True))

    def cost(self, cast: Cast) -> Mapping[str, int]:
        """cvt instructions, or prmt where units come from several registers or out of order."""
        if cast.name == "bits":
            return {"prmt": joins(self.places)}
        if cast.single:
            return {"cvt": 1}
        if cast.unit:
            count = len([place for place in self.places if place is not None])
            return {"cvt": count, "prmt": count - 1}
        used = [pair for pair in self.pairs if pair != (None, None)]
        gather = sum(joins(pair) for pair in used) if cast.source == "unsigned" else 0
        chained = cast.source == "int"
        return {"cvt": len(used), "prmt": gather + (0 if chained else len(used) - 1)}

    def run(self, lane_words: Sequence[dict[int, UnitWord]], own: Sequence[Mapping[UnitPlace, Unit]]) -> None:
        """Apply it to the names of units, lane by lane."""
        for words, units in zip(lane_words, own, strict=True):
            words[self.word] = tuple(None if place is None else units.get(place) for place in self.places)


@dataclass(frozen=True)
class Select:
    """word = `yes` in the lanes of `mask`, else `no`."""

    word: int
    mask: int
    yes: int
    no: int

    def cost(self, _cast: Cast) -> Mapping[str, int]:
        """One select."""
        return {"select": 1}

    def run(self, lane_words: Sequence[dict[int, UnitWord]], _own: object) -> None:
        """Apply it to the names of units, lane by lane."""
        for lane, words in enumerate(lane_words):
            words[self.word] = words[self.yes if self.mask >> lane & 1 else self.no]


@dataclass(frozen=True)
class Shuffle:
    """word = `sent` of lane lanes[lane] (shfl.sync.idx)."""

    word: int
    sent: int
    lanes: tuple[int, ...]

    def cost(self, cast: Cast) -> Mapping[str, int]:
        """One shuffle, two of 64 bits."""
        return {"shuffle": 2 if cast.bits == 64 else 1}

    def run(self, lane_words: Sequence[dict[int, UnitWord]], _own: object) -> None:
        """Apply it to the names of units, lane by lane."""
        sent = [words[self.sent] for words in lane_words]
        for words, lane in zip(lane_words, self.lanes, strict=True):
            words[self.word] = sent[lane]


@dataclass(frozen=True)
class Movmatrix:
    """word = the transpose of an 8 x 8 matrix of 16-bit units, row l / 4 of which is in lanes 4 (l / 4) to + 3."""

    word: int
    sent: int

    def cost(self, _cast: Cast) -> Mapping[str, int]:
        """One movmatrix."""
        return {"movmatrix": 1}

    def run(self, lane_words: Sequence[dict[int, UnitWord]], _own: object) -> None:
        """Apply it to the names of units, lane by lane."""
        sent = [words[self.sent] for words in lane_words]
        for lane, words in enumerate(lane_words):
            words[self.word] = tuple(sent[source][half] for source, half in transpose_sources(lane))


@dataclass(frozen=True)
class Permute:
    """word = units of (high:low) that selectors[lane] numbers (prmt)."""

    word: int
    low: int
    high: int
    selectors: tuple[tuple[int, ...], ...]

    def cost(self, _cast: Cast) -> Mapping[str, int]:
        """One prmt, and a select for every further selector."""
        return {"prmt": 1, "select": len(set(self.selectors)) - 1}

    def run(self, lane_words: Sequence[dict[int, UnitWord]], _own: object) -> None:
        """Apply it to the names of units, lane by lane."""
        for words, selector in zip(lane_words, self.selectors, strict=True):
            both = (*words[self.low], *words[self.high])
            words[self.word] = tuple(both[unit] for unit in selector)


PlanOp = Pack | Select | Shuffle | Movmatrix | Permute


@dataclass(frozen=True)
class Plan:
    """`ops` in order; outputs[(tile, register)] is the word that becomes that register of the target.

    `fewest`: no scheme that moves words between lanes needs fewer shuffles.
    """

    units: int
    ops: tuple[PlanOp, ...]
    outputs: Mapping[tuple[int, int], int]
    fewest: bool

    @property
    def identity(self) -> bool:
        """Whether every register of the target is the source register of the same tile and number."""
        packs = {op.word: op.places for op in self.ops if isinstance(op, Pack)}
        return all(
            packs.get(word) == tuple((tile, register * self.units + unit) for unit in range(self.units))
            for (tile, register), word in self.outputs.items()
        )


def run(plan: Plan, tiling: Tiling) -> list[dict[tuple[int, int], UnitWord]]:
    """What every lane's target registers hold after the plan, by (tile, register)."""
    own: list[dict[UnitPlace, Unit]] = [{} for _ in range(LANES)]
    for unit, holders in tiling.holders.items():
        for lane, place in holders:
            own[lane][place] = unit
    lane_words: list[dict[int, UnitWord]] = [{} for _ in range(LANES)]
    for op in plan.ops:
        op.run(lane_words, own)
    return [{key: words[word] for key, word in plan.outputs.items()} for words in lane_words]


def joins(places: Sequence[UnitPlace | None]) -> int:
    """How many prmt put units of packed source registers together; 0 where they are one register already."""
    size = len(places)
    registers = {(tile, i // size) for tile, i in (p for p in places if p)}
    in_order = all(p is None or p[1] % size == unit for unit, p in enumerate(places))
    return 0 if in_order and len(registers) == 1 else max(1, len(registers) - 1)


def transpose_sources(lane: int) -> list[tuple[int, int]]:
    """(lane, half) that movmatrix.trans puts into the two halves of a lane's word."""
    return [(4 * (2 * (lane & 3) + half) + lane // 8, lane // 4 & 1) for half in (0, 1)]
