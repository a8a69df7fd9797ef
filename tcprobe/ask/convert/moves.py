"""What has to move between two fragments over one matrix, and the moves: words that all lanes of a warp make alike.

Both fragments are repeated as tiles; what moves as a unit is an element, or a byte of several. Of a warpgroup each warp
holds a band of rows. k is summed over, so both factors may have it in another order, one in which lanes exchange
nothing; where a scale belongs to a block of k, every k stays in its block.

A plan is a list of operations on words, which can be run (on the names of units) and printed as CUDA. A word is what a
register holds: units, the lowest first. What differs from lane to lane is in masks, source lanes and selectors.
Registers are renamed where lanes have what they need, else moved by movmatrix, else by few shuffles.

>>> from tcprobe.store.cell import load
>>> part = band(load("wgmma.m64n24k16.f32.f16.f16.d"))
>>> part.fragment.threads, part.fragment.rows, part.table.at(lane=5, i=2)
(32, 16, {'row': 9, 'col': 2})
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import lcm
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Element, slot_table

if TYPE_CHECKING:
    from tcprobe.ask.convert.code import Cast
    from tcprobe.store.cell import Cell

Unit = tuple[Element, ...]  # the elements of a unit, low bits first
UnitPlace = tuple[int, int]  # (tile, number of the unit): where a lane holds it


class UnmovableError(Exception):
    """The units that the target needs do not exist in the source."""


@dataclass(frozen=True)
class Tiling:
    """Both fragments, repeated row by row until they cover the same `rows` x `cols` matrix (that of the source).

    `order`, where there is one: for each place of k in the target which of the source goes there.
    """

    source: Cell
    target: Cell
    transpose: bool
    rows: int
    cols: int
    order: tuple[int, ...] = ()

    @property
    def k_axis(self) -> int:
        """Which index of an element of the source is k of the target: 0 the row, 1 the column."""
        return int((self.target.fragment.operand == "b") == self.transpose)

    @property
    def places(self) -> int:
        """Units that a lane holds of a target tile."""
        return self.target.table.elements // self.group

    @property
    def source_tiles(self) -> int:
        """How many source fragments there are."""
        return self.rows // self.source.fragment.rows * (self.cols // self.source.fragment.cols)

    @property
    def target_tiles(self) -> int:
        """How many target fragments there are."""
        return self.rows * self.cols // (self.target.fragment.rows * self.target.fragment.cols)

    @cached_property
    def group(self) -> int:
        """Elements of a unit: those of a byte, one where elements are bytes or larger."""
        return max(1, 8 // self.target.fragment.slot_bits)

    @cached_property
    def holders(self) -> dict[Unit, list[tuple[int, UnitPlace]]]:
        """(lane, place) of every unit of the source."""
        by_unit: dict[Unit, list[tuple[int, UnitPlace]]] = {}
        table, fragment = self.source.table, self.source.fragment
        across = self.cols // fragment.cols
        for tile in range(self.source_tiles):
            down, right = divmod(tile, across)
            for lane in range(table.threads):
                for i in range(0, table.elements, self.group):
                    cells = table.cells[lane * table.elements + i : lane * table.elements + i + self.group]
                    unit = tuple((c[0] + down * fragment.rows, c[1] + right * fragment.cols) for c in cells if c)
                    by_unit.setdefault(unit, []).append((lane, (tile, i // self.group)))
        return by_unit

    def needed_unit(self, lane: int, place: UnitPlace) -> Unit:
        """The unit that a place of the target needs, in the source's rows and columns."""
        tile, number = place
        fragment, table = self.target.fragment, self.target.table
        i = number * self.group
        size = self.rows if self.transpose else self.cols
        down, right = divmod(tile, size // fragment.cols)
        cells = table.cells[lane * table.elements + i : lane * table.elements + i + self.group]
        elements = [(c[0] + down * fragment.rows, c[1] + right * fragment.cols) for c in cells if c is not None]
        return tuple(self._reorder((col, row) if self.transpose else (row, col)) for row, col in elements)

    def _reorder(self, element: Element) -> Element:
        """The element of the source that goes where k is in order."""
        if not self.order:
            return element
        row, col = element
        return (self.order[row], col) if self.k_axis == 0 else (row, self.order[col])


def tiling(source: Cell, target: Cell, transpose: bool) -> Tiling:
    """The least matrix that whole fragments of both cover. UsageError where a warp holds several products."""
    for cell in (source, target):
        if cell.fragment.products > 1:
            raise UsageError(f"{cell.fragment.id} holds {cell.fragment.products} matrices, not one.")
    rows, cols = target.fragment.rows, target.fragment.cols
    rows, cols = (cols, rows) if transpose else (rows, cols)
    return Tiling(source, target, transpose, lcm(source.fragment.rows, rows), lcm(source.fragment.cols, cols))


def bands(source: Cell, target: Cell) -> tuple[Cell, Cell]:
    """What the first warp holds of both, as fragments of a warp; the cells themselves where they are such.

    UsageError unless every warp holds the same elements on both sides, in the same order.
    """
    owned = [_owned(cell) for cell in (source, target)]
    names = f"{source.fragment.id} and {target.fragment.id}"
    if len(owned[0]) != len(owned[1]):
        raise UsageError(
            f"{names}: {len(owned[0])} warps and {len(owned[1])}; they exchange through shared memory alone."
        )
    if len(owned[0]) == 1:
        return source, target
    for warp, (mine, theirs) in enumerate(zip(*owned, strict=True)):
        whole = all(
            held == tuple(range(size))
            for cell, each in ((source, mine), (target, theirs))
            for held, size in [(each[1], cell.fragment.cols)]
        )
        if mine[0] != theirs[0] or not (whole or mine[1] == theirs[1]):
            raise UsageError(f"{names}: warp {warp} holds other elements on either side: use shared memory.")
    return _packed(source), _packed(target)


def _owned(cell: Cell) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of each warp the rows and the columns in which it holds elements, ascending."""
    size = WARP * cell.table.elements
    parts = (cell.table.cells[first : first + size] for first in range(0, cell.table.points, size))
    return [(tuple(sorted({c[0] for c in part if c})), tuple(sorted({c[1] for c in part if c}))) for part in parts]


def _packed(cell: Cell) -> Cell:
    """What the first warp holds, without the rows and columns of which it holds nothing.

    UsageError unless every further warp holds its own so too.
    """
    fragment, table = cell.fragment, cell.table
    size, parts = WARP * table.elements, []
    for warp, (rows, cols) in enumerate(_owned(cell)):
        row, col = ({number: place for place, number in enumerate(numbers)} for numbers in (rows, cols))
        part = table.cells[warp * size : (warp + 1) * size]
        parts.append(([c and (row[c[0]], col[c[1]], *c[2:]) for c in part], len(rows), len(cols)))
        if parts[-1] != parts[0]:
            raise UsageError(f"{fragment.id}: warp {warp} does not hold its part as the first warp does.")
    first, height, width = parts[0]
    values: dict[str, tuple[int | None, ...]] = {
        name: tuple(c[place] if c else None for c in first) for place, name in enumerate(table.outputs)
    }
    packed = replace(fragment, threads=WARP, rows=height, cols=width)
    return replace(cell, fragment=packed, table=slot_table(WARP, table.elements, values))


def band(cell: Cell) -> Cell:
    """What the first warp holds, as a fragment of a warp; the cell itself where it is one.

    UsageError unless every further warp holds the same of the rows below.
    """
    fragment, table = cell.fragment, cell.table
    warps, size = fragment.threads // WARP, WARP * table.elements
    if warps == 1:
        return cell
    rows = fragment.rows // warps
    first = table.cells[:size]
    for warp in range(warps):
        part = table.cells[warp * size : (warp + 1) * size]
        if part != tuple(c and (c[0] + warp * rows, *c[1:]) for c in first):
            raise UsageError(f"{fragment.id}: warp {warp} does not hold the band of rows that it should.")
    values = {name: column[:size] for name, column in table.values.items()}
    band = replace(fragment, threads=WARP, rows=rows)
    return replace(cell, fragment=band, table=slot_table(WARP, table.elements, values))


Need = tuple[int, int]  # (lane, the index that is not k)


def k_order(tiling: Tiling) -> tuple[int, ...]:
    """For each place of k in the target which of the source goes there, so that every lane holds it already.

    UsageError where the target is not a factor, or no order does it.
    """
    fragment = tiling.target.fragment
    if fragment.role is not Role.FACTOR:
        raise UsageError(f"{fragment.id} has no k: `permute_k` needs a factor, A or B, as its target.")
    order = _match_places(_choices(tiling))
    if order is None:
        raise UsageError(
            f"no order of k avoids exchanges between lanes from {tiling.source.fragment.id} to {fragment.id}."
        )
    return order


def _choices(tiling: Tiling) -> list[tuple[int, ...]]:
    """For each place of k the indices of the source that every lane which needs it holds."""
    available: dict[int, set[Need]] = {}
    for unit, holders in tiling.holders.items():
        for element in unit:
            available.setdefault(element[tiling.k_axis], set()).update(
                (lane, element[1 - tiling.k_axis]) for lane, _ in holders
            )
    needed: dict[int, set[Need]] = {}
    table = tiling.target.table
    for tile, lane, place in product(range(tiling.target_tiles), range(table.threads), range(tiling.places)):
        for element in tiling.needed_unit(lane, (tile, place)):
            needed.setdefault(element[tiling.k_axis], set()).add((lane, element[1 - tiling.k_axis]))
    # how many k of the target have one scale; None without scales
    row = inventory.instructions().get(tiling.target.fragment.experiment)
    scales = [f.cols for f in row.of_role(Role.SCALE) if f.operand == "scale_a"] if row else []
    block = (row.shape.k // scales[0] if row and scales else None) or len(needed)
    return [
        tuple(k for k in sorted(needed) if k // block == place // block and needed[place] <= available[k])
        for place in sorted(needed)
    ]


def _match_places(choices: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Another index for each place, in ascending order among places with the same choice; None if there are too few."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, possible in enumerate(choices):
        groups.setdefault(tuple(sorted(possible)), []).append(place)
    matching = dict(pair for possible, places in groups.items() for pair in zip(places, possible, strict=False))
    order = [matching.get(place, -1) for place in range(len(choices))]
    return tuple(order) if sorted(order) == list(range(len(order))) else None


# Shuffle rounds: in one round a lane sends one word and receives one, so words are the edges of a bipartite graph. A
# bipartite multigraph of greatest degree n has an edge colouring of n colours (König 1916): n shuffles are enough, and
# fewer are not, since some lane sends or receives n words.
Edge = tuple[int, int]  # (sending lane, receiving lane)


def degree(edges: Sequence[Edge]) -> int:
    """The most words that a lane sends or receives: the fewest rounds."""
    sent, received = Counter(s for s, _ in edges), Counter(d for _, d in edges)
    return max([0, *sent.values(), *received.values()])


def rounds(edges: Sequence[Edge]) -> list[int]:
    """A round for every edge, `degree(edges)` rounds in all."""
    colouring = _Colouring(degree(edges))
    for source, target in edges:
        colouring.add(("s", source), ("d", target))
    return colouring.colours


Node = tuple[str, int]  # "s" or "d", and the lane


class _Colouring:
    """Edges coloured one after the other; where none of the colours is free at both ends, a path is recoloured."""

    def __init__(self, most: int) -> None:
        self.colours: list[int] = []
        self._most = most
        self._ends: list[tuple[Node, Node]] = []
        self._at: dict[Node, dict[int, int]] = {}  # colour -> edge

    def add(self, sender: Node, receiver: Node) -> None:
        """Colour one more edge."""
        left, right = self._at.setdefault(sender, {}), self._at.setdefault(receiver, {})
        free = [c for c in range(self._most) if c not in left]
        colour = next((c for c in free if c not in right), None)
        if colour is None:
            colour = free[0]
            self._swap(receiver, (colour, next(c for c in range(self._most) if c not in right)))
        left[colour] = right[colour] = len(self._ends)
        self._ends.append((sender, receiver))
        self.colours.append(colour)

    def _swap(self, start: Node, colours: tuple[int, int]) -> None:
        """Exchange a pair of colours along the path of edges that alternates between them from `start`."""
        first, second = colours
        path, node, colour = [], start, first
        while colour in self._at[node]:
            edge = self._at[node][colour]
            path.append(edge)
            source, target = self._ends[edge]
            node = source if node == target else target
            colour = second if colour == first else first
        for edge in path:
            for end in self._ends[edge]:
                del self._at[end][self.colours[edge]]
        for edge in path:
            self.colours[edge] = second if self.colours[edge] == first else first
            for end in self._ends[edge]:
                self._at[end][self.colours[edge]] = edge


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
            sends: list[UnitPlaces | None] = [None] * LANES
            receives = list(range(LANES))
            for ((source, to), units), round_ in zip(self._sent, self._round, strict=True):
                if round_ == number:
                    places = [self._lane_places[source][unit] for unit in units]
                    sends[source] = (*places, *[None] * (self._maker.units - len(places)))
                    receives[to] = source
            usual = Counter(places for places in sends if places is not None).most_common(1)[0][0]
            sent = self._maker.pack_by_lane([places or usual for places in sends])
            word = self._maker.add(Shuffle(self._maker.next, sent, tuple(receives)))
            for ((_, to), units), round_ in zip(self._sent, self._round, strict=True):
                if round_ == number:
                    arrived[to] |= {unit: (word, place) for place, unit in enumerate(units)}
        return {key: self._assemble(lanes, arrived) for key, lanes in self._rest.items()}

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
