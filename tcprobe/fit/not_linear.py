"""Why a table has no linear map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tcprobe.layout.table import Table

FIRST = 3  # contradicting points that are kept


class Contradiction(NamedTuple):
    """A point that no linear map fits: what the map through the earlier points predicts, and what the table has."""

    point: dict[str, int]
    expected: dict[str, int]
    found: dict[str, int]

    def __str__(self) -> str:
        where = " ".join(f"{name} {value}" for name, value in self.point.items())
        return f"{where}: linear {self.expected}, measured {self.found}"


@dataclass(frozen=True)
class NotLinear:
    """Why a table has no linear map: the first points that contradict it, and how many do."""

    first: tuple[Contradiction, ...]
    count: int

    def __str__(self) -> str:
        return f"{self.count} slots contradict: " + "; ".join(map(str, self.first))


def because(table: Table, predicted_elements: Mapping[int, dict[str, int]], count: int) -> NotLinear:
    """What a table has at the first of `count` points where a linear map predicts another element."""
    first = []
    for number, element in predicted_elements.items():
        found = dict(zip(table.outputs, table.cells[number] or (), strict=False))
        first.append(Contradiction(table.space.point(number), element, found))
    return NotLinear(tuple(first), count)
