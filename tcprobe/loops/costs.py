"""What each opcode of a loop needs of an SM: a pipe, for how many cycles, and when its result is there.

Measured prices come first (`cost` of multiplies and moves), then `opcodes.csv`, whose lines name their sources. An
opcode that neither has is refused by its name.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.check.program import Instruction
from tcprobe.errors import DataError
from tcprobe.store.choose import Layers
from tcprobe.store.finding import how
from tcprobe.store.kinds.cost import Body, Flight, Point

PARTITIONS = 4  # schedulers of an SM, each with pipes of its own
PIPES = ("issue", "fma", "fmaheavy", "alu", "xu", "uniform", "adu", "cbu", "lsu", "tensor", "shared", "l2")


class UnpricedError(DataError):
    """An opcode whose price nobody has measured or stated."""


class Price(NamedTuple):
    """What an opcode needs: a pipe of its scheduler for `cycles`; its result `latency` cycles after its issue."""

    pipe: str
    cycles: float
    latency: float
    evidence: str


class Row(NamedTuple):
    """A line of opcodes.csv: patterns of opcodes, the first line that fits counts."""

    opcodes: tuple[str, ...]
    pipe: str
    cycles: float
    latency: float | None
    source: str


@cache
def rows() -> tuple[Row, ...]:
    """What is stated of opcodes of sm_90."""
    return facts.read(
        __file__,
        "opcodes.csv",
        Row,
        opcodes=lambda cell: tuple(cell.split("|")),
        cycles=float,
        latency=facts.optional(float),
    )


STATED = ("sm_90",)  # the archs that opcodes.csv holds for


@dataclass
class Prices:
    """The prices of an arch; `measured` by opcode."""

    arch: str
    measured: Mapping[str, Price]

    def of(self, instruction: Instruction) -> Price:
        """The price of an instruction; UnpricedError with the opcode where there is none."""
        opcode = instruction.opcode
        found = self.measured.get(opcode) or self.measured.get(_plain(opcode)) or self._stated(opcode)
        if found is None:
            raise UnpricedError(f"no price of {opcode} is known on {self.arch}")
        return found

    def _stated(self, opcode: str) -> Price | None:
        for row in rows() if self.arch in STATED else ():
            if any(fnmatch.fnmatchcase(opcode, pattern) for pattern in row.opcodes):
                return Price(row.pipe, row.cycles, row.latency or row.cycles, row.source)
        return None


def _plain(opcode: str) -> str:
    """An opcode without what does not change its price: caching of L2 and its prefetches, zero fill."""
    return ".".join(part for part in opcode.split(".") if part not in ("LTC128B", "LTC64B", "LTC256B", "ZFILL", "U"))


def prices(arch: str, layers: Layers) -> Prices:
    """What is known of an arch."""
    found: dict[str, Price] = {}
    for sourced in layers.findings("cost", arch).values():
        body = sourced.finding.body
        if len(body.opcodes) == 1 and not sourced.rivals and set(body.opcodes.values()) == {1.0}:
            opcode = next(iter(body.opcodes))
            for name, price in _measured(opcode, body, how(sourced.finding)):
                found.setdefault(name, price)
    return Prices(arch, found)


def _measured(opcode: str, body: Body, evidence: str) -> Iterator[tuple[str, Price]]:
    """The prices of an opcode by name; those of a warpgroup's multiply with A in registers have "RA" behind them."""
    stem = opcode.partition(".")[0]
    latency = max(body.latency.values(), default=0.0) if isinstance(body.latency, dict) else body.latency
    if isinstance(body.interval, Point) and stem.endswith("MMA"):
        yield opcode, Price("tensor", round(PARTITIONS * body.interval.cycles), latency or 0.0, evidence)
    elif isinstance(body.interval, list) and stem.endswith("GMMA"):
        for a, suffix in (("shared", ""), ("registers", ".RA")):
            flights = [flight for flight in body.interval if flight.a == a]
            if flights:
                cycles = min(flight.cycles for flight in flights)
                yield opcode + suffix, Price("tensor", cycles, _round_trip(body, a, cycles), evidence)
    elif latency and stem in ("LDS", "LDSM", "SHFL", "MOVM"):
        yield opcode, Price("lsu", 4.0, latency, evidence)


def _round_trip(body: Body, a: str, cycles: float) -> float:
    """Cycles from the issue of one multiply of a warpgroup to the end of the wait for it."""
    trips = [trip.cycles for trip in body.round_trip if trip.a == a and trip.in_flight == 1]
    return min(trips, default=cycles)
