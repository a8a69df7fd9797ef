"""Layout: the map from slots to elements as GF(2)-linear bases, one image per bit of lane and of i.

>>> from tcprobe.fit.layout import fit_layout
>>> from tcprobe.table import Table
>>> t = Table(2, 4, {"row": (0, 0, 1, 1, 2, 2, 3, 3), "col": (0, 1, 0, 1, 0, 1, 0, 1)})
>>> layout = fit_layout(t)
>>> layout.bases["i"], layout.bases["lane"]
(({'row': 0, 'col': 1}, {'row': 1, 'col': 0}), ({'row': 2, 'col': 0},))
>>> layout.holders({"row": 3, "col": 1})
[(1, 3)]

Element (lane, i) is the XOR of the bases of the bits set in lane and i, and of `offset`. The number of
elements need not be a power of two, and slots may be unused: the map is asked for on the points that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.fit import gf2
from tcprobe.table import Table

FIELD = 20  # bits of each output in a packed element; values are below 2**16
MASK = (1 << FIELD) - 1
FIRST = 3  # contradicting slots that are shown


class Contradiction(NamedTuple):
    """A slot that no linear map fits: what the map through the slots before it says, and what is there."""

    lane: int
    i: int
    expected: dict[str, int]
    found: dict[str, int]

    def __str__(self) -> str:
        return f"lane {self.lane} i {self.i}: linear {self.expected}, measured {self.found}"


@dataclass(frozen=True)
class NotLinear:
    """Why a table has no linear map: the first slots that contradict it, of how many."""

    first: tuple[Contradiction, ...]
    count: int

    def __str__(self) -> str:
        return f"{self.count} slots contradict: " + "; ".join(map(str, self.first))


@dataclass(frozen=True)
class Layout:
    """`images` of the bits of i (low first), then of lane, packed; `offset` is element (0, 0), packed."""

    threads: int
    elements: int
    outputs: tuple[str, ...]
    images: tuple[int, ...]
    offset: int = 0

    @property
    def i_bits(self) -> int:
        """Bits that i needs."""
        return (self.elements - 1).bit_length()

    @cached_property
    def bases(self) -> dict[str, tuple[dict[str, int], ...]]:
        """Images by input: bases["lane"][b] is the change that bit b of lane makes, by output."""
        unpacked = tuple(unpack(image, self.outputs) for image in self.images)
        return {"i": unpacked[: self.i_bits], "lane": unpacked[self.i_bits :]}

    def at(self, lane: int, i: int) -> dict[str, int]:
        """The element of slot (lane, i); UsageError where there is no such slot."""
        for name, number, size in (("lane", lane, self.threads), ("i", i, self.elements)):
            if not 0 <= number < size:
                raise UsageError(f"{name} {number} is outside 0 to {size - 1}.")
        point, value = lane << self.i_bits | i, self.offset
        for bit, image in enumerate(self.images):
            value ^= image if point >> bit & 1 else 0
        return unpack(value, self.outputs)

    def holders(self, element: Mapping[str, int]) -> list[tuple[int, int]]:
        """Every (lane, i) of the domain that the map sends to `element`, ascending."""
        points = gf2.preimages(self.images, pack(element, self.outputs) ^ self.offset)
        slots = ((point >> self.i_bits, point & (1 << self.i_bits) - 1) for point in points)
        return [(lane, i) for lane, i in slots if i < self.elements]

    def packed(self) -> list[int]:
        """All elements in slot order, packed."""
        values = [value ^ self.offset for value in gf2.span(self.images)] if self.offset else gf2.span(self.images)
        if self.elements == 1 << self.i_bits:
            return values
        return [values[lane << self.i_bits | i] for lane in range(self.threads) for i in range(self.elements)]


def fit_layout(table: Table) -> Layout | NotLinear:
    """The linear layout of a table, proven over every slot, or the first slots that contradict it."""
    values = pack_table(table)
    layout = _through(table, values)
    fitted = layout.packed()
    if fitted == values:
        return layout
    wrong = [slot for slot, value in enumerate(values) if value is not None and value != fitted[slot]]
    if not wrong:
        return layout
    return NotLinear(tuple(_contradiction(table, slot, fitted[slot]) for slot in wrong[:FIRST]), len(wrong))


def _contradiction(table: Table, slot: int, fitted: int) -> Contradiction:
    lane, i = divmod(slot, table.elements)
    return Contradiction(lane, i, unpack(fitted, table.outputs), table.at(lane, i) or {})


def _through(table: Table, values: list[int | None]) -> Layout:
    """The affine map through as many independent slots as there are, those at powers of two first."""
    i_bits, lane_bits = (table.elements - 1).bit_length(), table.threads.bit_length() - 1
    bits = i_bits + lane_bits
    units = [lane * table.elements + i for lane, i in _units(table)]
    points: list[tuple[int, int]] = []
    pivots: dict[int, int] = {}
    for slot in chain(units, range(table.slots)):
        value = values[slot]
        if value is None:
            continue
        lane, i = divmod(slot, table.elements)
        vector = lane << i_bits | i | 1 << bits  # the top bit carries the offset
        if _independent(pivots, vector):
            points.append((vector, value))
            if len(points) == bits + 1:
                break
    images = gf2.solve(points, bits + 1) or (0,) * (bits + 1)
    return Layout(table.threads, table.elements, table.outputs, images[:bits], images[bits])


def _units(table: Table) -> list[tuple[int, int]]:
    lanes = [(1 << bit, 0) for bit in range(table.threads.bit_length() - 1)]
    return [(0, 0), *((0, 1 << bit) for bit in range((table.elements - 1).bit_length())), *lanes]


def _independent(pivots: dict[int, int], vector: int) -> bool:
    while vector:
        high = vector.bit_length() - 1
        if high not in pivots:
            pivots[high] = vector
            return True
        vector ^= pivots[high]
    return False


def pack_table(table: Table) -> list[int | None]:
    """Every slot's element as one number, None where unused."""
    columns = [table.values[name] for name in table.outputs]
    if all(None not in column for column in columns[:1]):
        packed: list[int | None] = list(columns[0])
        for shift, column in enumerate(columns[1:], 1):
            packed = [p | v << FIELD * shift for p, v in zip(packed, column, strict=True)]  # type: ignore[operator]
        return packed
    return [
        None if cell is None else pack(dict(zip(table.outputs, cell, strict=True)), table.outputs)
        for cell in table.cells
    ]


def pack(element: Mapping[str, int], outputs: tuple[str, ...]) -> int:
    """An element as one number, FIELD bits an output."""
    return sum(element[name] << FIELD * shift for shift, name in enumerate(outputs))


def unpack(value: int, outputs: tuple[str, ...]) -> dict[str, int]:
    """The inverse of `pack`."""
    return {name: value >> FIELD * shift & MASK for shift, name in enumerate(outputs)}
