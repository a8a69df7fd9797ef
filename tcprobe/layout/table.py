"""Table: the measured map from slots (lane, i) to matrix elements.

A slot is a place in a fragment; slot number = lane * elements + i. An element can have several holders
(copies), a slot can be unused (None).

>>> from tcprobe.layout.table import Table
>>> t = Table(2, 2, {"row": (0, 0, 1, None), "col": (0, 1, 0, None)})
>>> t.at(0, 1), t.at(1, 1), t.holders(row=1, col=0)
({'row': 0, 'col': 1}, None, [(1, 0)])

Outputs are named (row, col; product where a warp holds several), so that other maps fit the same type.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tcprobe.errors import DataError, UsageError

OUTPUTS = ("row", "col", "product")
MOST_VALUE = 1 << 16
MOST_SLOTS = 1 << 16


@dataclass(frozen=True)
class Table:
    """`values[output][slot]` is a number from 0 to 65535, or None in every output where the slot is unused.

    `threads` is a power of two, and there are at most MOST_SLOTS slots; DataError where anything of that is not so.
    """

    threads: int
    elements: int
    values: Mapping[str, tuple[int | None, ...]]

    def __post_init__(self) -> None:
        if self.threads < 1 or self.threads & (self.threads - 1) or self.elements < 1:
            raise DataError(
                f"a table of {self.threads} threads x {self.elements} elements; threads must be a power of two."
            )
        if self.slots > MOST_SLOTS:
            raise DataError(
                f"a table of {self.threads} threads x {self.elements} elements; at most {MOST_SLOTS} slots."
            )
        if not self.values or not set(self.values) <= set(OUTPUTS):
            raise DataError(f"a table with outputs {sorted(self.values)}; known are {', '.join(OUTPUTS)}.")
        for name, column in self.values.items():
            if len(column) != self.slots:
                raise DataError(f"output {name} has {len(column)} slots instead of {self.slots}.")
            if any(v is not None and not 0 <= v < MOST_VALUE for v in column):
                raise DataError(f"output {name} has a value outside 0 to {MOST_VALUE - 1}.")
        if len({tuple(v is None for v in column) for column in self.values.values()}) > 1:
            raise DataError("a slot is used in one output and unused in another.")

    @property
    def slots(self) -> int:
        """threads x elements."""
        return self.threads * self.elements

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs in their fixed order."""
        return tuple(name for name in OUTPUTS if name in self.values)

    @cached_property
    def cells(self) -> tuple[tuple[int, ...] | None, ...]:
        """Per slot the values of all outputs, in the order of `outputs`; None where unused."""
        joined = zip(*(self.values[name] for name in self.outputs), strict=True)
        return tuple(None if cell[0] is None else cell for cell in joined)

    def at(self, lane: int, i: int) -> dict[str, int] | None:
        """The element that slot (lane, i) holds, by output name; None if the slot is unused.

        UsageError unless lane is from 0 to threads - 1 and i from 0 to elements - 1.
        """
        lane, i = inside("lane", lane, self.threads), inside("i", i, self.elements)
        cell = self.cells[lane * self.elements + i]
        return None if cell is None else dict(zip(self.outputs, cell, strict=True))

    @cached_property
    def inverse(self) -> dict[tuple[int, ...], list[int]]:
        """All slots that hold each element, ascending."""
        found: dict[tuple[int, ...], list[int]] = {}
        for slot, cell in enumerate(self.cells):
            if cell is not None:
                found.setdefault(cell, []).append(slot)
        return found

    @cached_property
    def copies(self) -> frozenset[int]:
        """How many holders elements have: {1} where each has one."""
        return frozenset(map(len, self.inverse.values()))

    def holders(self, **element: int) -> list[tuple[int, int]]:
        """Every (lane, i) that holds the element, given as row=, col= (and product= where there are several).

        UsageError unless exactly the outputs are named, each from 0 to its extent - 1.
        """
        if set(element) != set(self.outputs):
            raise UsageError(
                f"an element is given by {', '.join(self.outputs)}, not by {', '.join(element) or 'nothing'}."
            )
        key = tuple(inside(name, element[name], self.extent[name]) for name in self.outputs)
        return [divmod(slot, self.elements) for slot in self.inverse.get(key, [])]

    @cached_property
    def extent(self) -> dict[str, int]:
        """One more than the largest value of each output."""
        return {name: 1 + max((v for v in self.values[name] if v is not None), default=-1) for name in self.outputs}

    @cached_property
    def id(self) -> str:
        """Name of the layout: the same for every fragment and arch with the same map (12 hex digits)."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, object]:
        """Plain data: one list per lane and output."""
        lanes = range(0, self.slots, self.elements)
        rows = {name: [list(self.values[name][s : s + self.elements]) for s in lanes] for name in self.outputs}
        return {"threads": self.threads, "elements": self.elements, **rows}

    @classmethod
    def from_json(cls, data: object) -> Table:
        """The inverse of `to_json`; DataError where anything is missing or of the wrong kind."""
        needed = {"threads", "elements", "row", "col"}
        if not isinstance(data, dict) or set(data) - {"product"} != needed:
            raise DataError("a layout needs threads, elements, row and col, and may have product.")
        threads, elements = data["threads"], data["elements"]
        if not all(type(n) is int and 0 < n <= 1 << 12 for n in (threads, elements)):
            raise DataError("threads and elements must be numbers from 1 to 4096.")
        columns = {name: _column(name, data[name], elements) for name in OUTPUTS if name in data}
        return cls(threads, elements, columns)


def inside(name: str, value: int, size: int) -> int:
    """`value` as an int; UsageError with the name and the value unless it is a whole number from 0 to size - 1."""
    try:
        found = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = -1
    if not 0 <= found < size:
        raise UsageError(f"{name} {value!r} is not a number from 0 to {size - 1}.")
    return found


def _column(name: str, rows: object, elements: int) -> tuple[int | None, ...]:
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == elements for row in rows):
        raise DataError(f"{name} must be a list of lanes of {elements} values each.")
    values = [value for row in rows for value in row]
    if not all(value is None or type(value) is int for value in values):
        raise DataError(f"{name} holds something that is neither a number nor null.")
    return tuple(values)
