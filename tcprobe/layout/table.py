"""Tables, and what they are maps of: axes and spaces of named inputs.

An axis has any size. Points are tuples of inputs, numbered with the first axis slowest.

>>> from tcprobe.layout.table import Axis, Space
>>> space = Space((Axis("thread", 128), Axis("i", 12)))
>>> space.points, space.number(thread=2, i=3), space.point(27)
(1536, 27, {'thread': 2, 'i': 3})

A Table is a measured map from named inputs to named outputs; for a fragment, from slots (lane, i) to matrix elements.

An element can have several holders (copies), and a slot can be unused (None).

>>> from tcprobe.layout.table import slot_table
>>> t = slot_table(2, 2, {"row": (0, 0, 1, None), "col": (0, 1, 0, None)})
>>> t.at(lane=0, i=1), t.at(lane=1, i=1), t.holders(row=1, col=0)
({'row': 0, 'col': 1}, None, [(1, 0)])

Other maps have the same type, for example an address map: byte address -> row and col. Numbers, and places in tensor
memory, are also written as runs:

>>> ranges([0, 1, 2, 3, 8])
[(0, 3), (8, 8)]
>>> held = [(0, col, 0, 5, 32 * col) for col in range(8)]
>>> cell_runs(held)
(CellRun(row=0, col=0, length=8, cta=0, lane=5, bit=0, step=32),)
>>> places_of_runs(cell_runs(held)) == held
True
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from tcprobe.errors import DataError, UsageError
from tcprobe.system.digest import sha256
from tcprobe.values import Json

MOST_POINTS = 1 << 20


class Axis(NamedTuple):
    """A named input with values 0 to size - 1."""

    name: str
    size: int

    @property
    def bits(self) -> int:
        """Bits that the values need; 0 if there is only one."""
        return (self.size - 1).bit_length()

    def check(self, value: object) -> int:
        """The value; UsageError if the axis does not have it."""
        if type(value) is not int or not 0 <= value < self.size:
            raise UsageError(f"{self.name} {value!r} is not a number from 0 to {self.size - 1}.")
        return value


@dataclass(frozen=True)
class Space:
    """All tuples of values of some axes, numbered from 0; the last axis varies fastest."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        for axis in self.axes:
            if type(axis.size) is not int or axis.size < 1:
                raise DataError(f"axis {axis.name} has size {axis.size!r}; a size is a whole number of at least 1.")
        if len({axis.name for axis in self.axes}) < len(self.axes) or not self.axes:
            raise DataError(f"axes {', '.join(axis.name for axis in self.axes) or 'none'}: each needs its own name.")
        if self.points > MOST_POINTS:
            sizes = " x ".join(str(axis.size) for axis in self.axes)
            raise DataError(f"{sizes} points; at most {MOST_POINTS} are held.")

    @cached_property
    def points(self) -> int:
        """The number of tuples."""
        return prod(self.sizes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes, in order."""
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(axis.name for axis in self.axes)

    def number(self, *values: int, **point: int) -> int:
        """The number of a point, whose values are given in the order of the axes or by name.

        UsageError if an axis is missing, unknown, given twice, or does not have the value.
        """
        named = [*zip(self.names, values, strict=False), *point.items()]
        if sorted(name for name, _ in named) != sorted(self.names) or len(named) != len(values) + len(point):
            names = ", ".join(name for name, _ in named) or "nothing"
            raise UsageError(f"a point is given by {', '.join(self.names)}, not by {names}.")
        point = dict(named)
        total = 0
        for axis in self.axes:
            total = total * axis.size + axis.check(point[axis.name])
        return total

    def values(self, number: int) -> tuple[int, ...]:
        """The values of point `number`, in the order of the axes."""
        reversed_values = []
        for axis in reversed(self.axes):
            number, value = divmod(number, axis.size)
            reversed_values.append(value)
        return tuple(reversed(reversed_values))

    def point(self, number: int) -> dict[str, int]:
        """The values of point `number` by name."""
        return dict(zip(self.names, self.values(number), strict=True))

    def all(self) -> Iterator[tuple[int, ...]]:
        """Every point, in the order of numbers."""
        return map(self.values, range(self.points))


def slots(threads: int, elements: int) -> Space:
    """The slots of a fragment: lane (the number of a thread in its warp or warpgroup) x i."""
    return Space((Axis("lane", threads), Axis("i", elements)))


OUTPUTS = ("row", "col", "product", "k", "group", "address", "offset")
MOST_VALUE = 1 << 20
MOST_SLOTS = 1 << 16
SLOT_OUTPUTS = ("row", "col", "product")  # possible outputs of a fragment's table
Values = tuple[int, ...]
Element = tuple[int, ...]  # its coordinates: (row, col), with the product where there are several


@dataclass(frozen=True, repr=False)
class Table:
    """`values[output][point]` is a number from 0 to MOST_VALUE - 1; None in all outputs if the point is unused."""

    space: Space
    values: Mapping[str, tuple[int | None, ...]]

    def __post_init__(self) -> None:
        if not self.values or not set(self.values) <= set(OUTPUTS):
            raise DataError(f"a table with outputs {sorted(self.values)}; known are {', '.join(OUTPUTS)}.")
        for name, column in self.values.items():
            if len(column) != self.points:
                raise DataError(f"output {name} has {len(column)} values instead of {self.points}.")
            said = set(column) - {None}
            if said and not (min(said) >= 0 and max(said) < MOST_VALUE):  # type: ignore[type-var, operator]
                raise DataError(f"output {name} has a value outside 0 to {MOST_VALUE - 1}.")
        holes = any(None in column for column in self.values.values())
        if holes and len({tuple(v is None for v in column) for column in self.values.values()}) > 1:
            raise DataError("a slot is used in one output and unused in another.")

    def __repr__(self) -> str:
        size = " x ".join(f"{axis.size} {axis.name}" for axis in self.space.axes)
        return f"<Table of {size} to {', '.join(self.outputs)}, layout {self.id}>"

    @property
    def points(self) -> int:
        """The number of points; for a fragment threads x elements."""
        return self.space.points

    @property
    def threads(self) -> int:
        """The number of threads that hold a fragment together."""
        return self.space.axes[0].size

    @property
    def elements(self) -> int:
        """Slots of a thread, for a fragment."""
        return self.points // self.threads

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in their fixed order."""
        return tuple(name for name in OUTPUTS if name in self.values)

    @cached_property
    def cells(self) -> tuple[Values | None, ...]:
        """By point, the values of all outputs in the order of `outputs`; None if it is unused."""
        columns = [self.values[name] for name in self.outputs]
        joined: Iterator[tuple[Any, ...]] = zip(*columns, strict=True)
        if None not in columns[0]:
            return tuple(joined)
        return tuple(None if cell[0] is None else cell for cell in joined)

    def at(self, *values: int, **point: int) -> dict[str, int] | None:
        """The outputs of a point, given by name or in the order of the inputs; None if it is unused.

        UsageError if an input is missing, unknown, or out of range.
        """
        cell = self.cells[self.space.number(*values, **point)]
        return None if cell is None else dict(zip(self.outputs, cell, strict=True))

    @cached_property
    def inverse(self) -> dict[Values, list[int]]:
        """The numbers of all points of each element, ascending."""
        holders: dict[Values, list[int]] = {}
        for number, cell in enumerate(self.cells):
            if cell is not None:
                holders.setdefault(cell, []).append(number)
        return holders

    @cached_property
    def held(self) -> Counter[Values]:
        """The number of holders of each element that has any."""
        return Counter(cell for cell in self.cells if cell is not None)

    @cached_property
    def copies(self) -> frozenset[int]:
        """The numbers of holders that elements have: {1} if each has one."""
        return frozenset(self.held.values())

    def holders(self, **element: int) -> list[tuple[int, ...]]:
        """Every point of an element, which is given by output names; for a fragment (lane, i).

        UsageError if an output is missing, unknown, or larger than any in the table.
        """
        number = Space(tuple(Axis(name, self.extent[name]) for name in self.outputs))
        number.number(**element)
        key = tuple(element[name] for name in self.outputs)
        return [self.space.values(point) for point in self.inverse.get(key, [])]

    @cached_property
    def extent(self) -> dict[str, int]:
        """One more than the largest value of each output."""
        return {name: 1 + max((v for v in self.values[name] if v is not None), default=-1) for name in self.outputs}

    @cached_property
    def id(self) -> str:
        """The name of the layout, 12 hex digits: equal for all fragments and archs with the same map."""
        return sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:12]

    def selection(self, selector: int) -> Table:
        """The table for one value of a selector, by lane and i; UsageError if there is no such value."""
        first, *rest = self.space.axes
        if first.check(selector) not in self._selections:
            start = selector * (size := self.points // first.size)
            values = {name: v[start : start + size] for name, v in self.values.items()}
            self._selections[selector] = Table(Space(tuple(rest)), values)
        return self._selections[selector]

    @cached_property
    def _selections(self) -> dict[int, Table]:
        return {}

    def with_values(self, values: Mapping[str, tuple[int | None, ...]]) -> Table:
        """A table with other values on the same inputs."""
        return Table(self.space, values)

    def to_json(self) -> Json:
        """Plain data. Slots: threads, elements, a list by lane and output; other maps: inputs, a list by output."""
        if self.space == slots(self.threads, self.elements):
            starts = range(0, self.points, self.elements)
            rows = {name: [list(self.values[name][s : s + self.elements]) for s in starts] for name in self.outputs}
            return {"threads": self.threads, "elements": self.elements, **rows}
        inputs = [[axis.name, axis.size] for axis in self.space.axes]
        return {"inputs": inputs, **{name: list(self.values[name]) for name in self.outputs}}

    @classmethod
    def from_json(cls, data: object) -> Table:
        """The inverse of `to_json`; DataError if anything is missing or has the wrong type."""
        if not isinstance(data, dict):
            raise DataError("a layout is an object with threads, elements, row and col.")
        if "inputs" in data:
            if not isinstance(data["inputs"], list) or not all(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int
                for pair in data["inputs"]
            ):
                raise DataError("inputs must be a list of [name, size].")
            space = Space(tuple(Axis(*pair) for pair in data["inputs"]))
            return cls(space, {name: _column(name, data[name]) for name in data if name != "inputs"})
        names = set(data) - {"threads", "elements"}
        if not {"threads", "elements", "row"} <= set(data) or not names <= set(SLOT_OUTPUTS):
            raise DataError("a layout needs threads, elements, row and col, and may have product.")
        threads, elements = data["threads"], data["elements"]
        if not all(type(n) is int and 0 < n <= 1 << 12 for n in (threads, elements)):
            raise DataError("threads and elements must be numbers from 1 to 4096.")
        columns = {name: _column(name, _joined(name, data[name], elements)) for name in names}
        return slot_table(threads, elements, columns)


Tables = Mapping[str, Table]  # by operand


def slot_table(threads: int, elements: int, values: Mapping[str, tuple[int | None, ...]]) -> Table:
    """The table of a fragment: slot number = lane * elements + i.

    DataError unless threads is a power of two and there are at most MOST_SLOTS slots.
    """
    if threads < 1 or threads & (threads - 1) or elements < 1:
        raise DataError(f"a table of {threads} threads x {elements} elements; threads must be a power of two.")
    if threads * elements > MOST_SLOTS:
        raise DataError(f"a table of {threads} threads x {elements} elements; at most {MOST_SLOTS} slots.")
    return Table(slots(threads, elements), values)


def selected(tables: Sequence[Table]) -> Table:
    """One table from those for values 0, 1, ... of a selector; the selector is its first input."""
    space = Space((Axis("selector", len(tables)), *tables[0].space.axes))
    return Table(space, {n: tuple(v for table in tables for v in table.values[n]) for n in tables[0].outputs})


def _joined(name: str, by_lane: object, elements: int) -> list[object]:
    if not isinstance(by_lane, list) or not all(isinstance(lane, list) and len(lane) == elements for lane in by_lane):
        raise DataError(f"{name} must be a list of lanes of {elements} values each.")
    return [value for lane in by_lane for value in lane]


def _column(name: str, by_slot: object) -> tuple[int | None, ...]:
    if not isinstance(by_slot, list) or not all(value is None or type(value) is int for value in by_slot):
        raise DataError(f"{name} holds something that is neither a number nor null.")
    return tuple(by_slot)


class StructureHash(NamedTuple):
    """The structure tensor of a multiply: number of triples, and the hash of all (a, b, d) slot numbers.

    The hash is the SHA-256 of the triples, sorted by a, then d, each as three little-endian 32-bit numbers. `anchor` is
    the hash of all tables, for what the triples leave open (`layout.structure`); None in results of earlier versions.
    """

    triples: int
    sha256: str
    anchor: str | None = None


# Runs of whole numbers, and of the elements of a matrix in tensor memory: consecutive elements of a row in one lane.
# Bits count from bit 0 of the column at the operand's address: bit 40 is bit 8 of the next column. Runs can express
# any places, at worst with a run for each.
def ranges(ascending: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for number in ascending:
        starts = not runs or number != runs[-1][1] + 1
        runs[len(runs) - (not starts) :] = [(number if starts else runs[-1][0], number)]
    return runs


ElementPlace = tuple[int, int, int, int, int]  # row, col, CTA, lane, bit


class CellRun(NamedTuple):
    """Elements [row][col] to [row][col + length - 1] in a lane of a CTA: the first at `bit`, then every `step` bits."""

    row: int
    col: int
    length: int
    cta: int
    lane: int
    bit: int
    step: int


def cell_runs(element_places: Iterable[ElementPlace]) -> tuple[CellRun, ...]:
    """The places of all elements as runs, sorted; an element may have several places."""
    closed: list[CellRun] = []
    open_runs: dict[tuple[int, int, int], list[CellRun]] = {}  # by row, CTA and lane: runs that may be continued
    for row, col, cta, lane, bit in sorted(set(element_places)):
        mine = open_runs.setdefault((row, cta, lane), [])
        for index, run in enumerate(mine):
            step = bit - run.bit if run.length == 1 else run.step
            if run.col + run.length == col and step >= 0 and run.bit + run.length * step == bit:
                mine[index] = run._replace(length=run.length + 1, step=step)
                break
        else:
            closed += [run for run in mine if run.col + run.length < col]
            mine[:] = [run for run in mine if run.col + run.length >= col]
            mine.append(CellRun(row, col, 1, cta, lane, bit, 0))
    return tuple(sorted([*closed, *(run for mine in open_runs.values() for run in mine)]))


def places_of_runs(element_runs: Sequence[CellRun]) -> list[ElementPlace]:
    """The inverse of `cell_runs`: every place of every element, sorted."""
    return sorted(
        (run.row, run.col + j, run.cta, run.lane, run.bit + j * run.step)
        for run in element_runs
        for j in range(run.length)
    )
