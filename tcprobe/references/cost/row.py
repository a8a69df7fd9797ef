"""One number that a source states."""

from __future__ import annotations

from typing import Literal, NamedTuple

CostNumber = Literal[
    "latency c",
    "latency",
    "interval",
    "one_warp",
    "macs_per_cycle",
    "shared interval",
    "registers interval",
    "round_trip",
]


class Row(NamedTuple):
    """`value` as the source states it, in `unit`. `number` is what to compare it with; `factor` converts it to that
    unit.
    """

    source: str
    forms: str
    arch: str
    device: str
    term: str
    value: float
    unit: str = "cycles"
    number: CostNumber | None = None
    condition: str = ""
    factor: float = 1.0

    @property
    def comparable(self) -> float:
        """The value in the unit of what it is compared with."""
        return self.value * self.factor

    @property
    def words(self) -> str:
        """The row on one line."""
        condition = f"; {self.condition}" if self.condition else ""
        return f"{self.device}: {self.term} {self.value:g} {self.unit} ({self.source}{condition})"
