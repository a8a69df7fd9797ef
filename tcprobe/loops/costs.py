"""What each opcode of a loop needs of an SM: a pipe, for how many cycles, and when its result is there.

Measured prices come first, of multiplies (kind `cost`), then of the other opcodes (kind `prices`; of requests of shared
memory these come first); what nobody measured is stated in `isa/opcodes.csv`, whose lines name their sources: also the
latency of an opcode of which only the interval is measured. An opcode that none of them has is refused by its name.

A finding's interval is of an SM at its best, so a scheduler's pipe is busy four times as long: in whole cycles, as a
clock has them (UIADD3's 0.562 are 2 cycles). So are latencies; one that is a
bound counts whole. A request of shared memory holds a scheduler's queue as long as the narrowest does; what its width
adds are wavefronts, which `work` counts. What `simulate` has rules of its own for, and what memory behind L1 decides,
has no price here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tcprobe.ask import prices as published
from tcprobe.errors import DataError
from tcprobe.isa import opcodes
from tcprobe.loops.roles import Copies, Ring
from tcprobe.sass.kernel import Instruction
from tcprobe.store.choose import Layers
from tcprobe.store.finding import how
from tcprobe.store.kinds.cost import Body, Point, bounded, in_modes

BYTES_A_CYCLE = 120.0  # from L2 to one SM
PARTITIONS = 4  # schedulers of an SM, each with pipes of its own
PIPES = ("issue", "fma", "fmaheavy", "alu", "xu", "fp64", "uniform", "adu", "cbu", "lsu", "tensor", "shared", "l2")
SAME = {"fp16": "fmaheavy"}  # HADD2.F32 adds its cycles to IMAD's: 4.0 and 4.0 of an SM take 8.0 together
COPY = "cp.async.bulk.tensor.2d.shared.global"
REQUEST = 4.0  # cycles of a scheduler's queue for one


class UnpricedError(DataError):
    """An opcode whose price nobody has measured or stated."""


class Price(NamedTuple):
    """What an opcode needs: a pipe of its scheduler for `cycles`; its result `latency` cycles after its issue.

    `modes` says in words which of these numbers were found to be several.
    """

    pipe: str
    cycles: float
    latency: float
    evidence: str
    modes: str = ""


STATED = ("sm_90",)  # the archs that prices of isa/opcodes.csv hold for


@dataclass
class Prices:
    """The prices of an arch: `measured` of multiplies and moves by opcode, `published` of others by experiment."""

    arch: str
    measured: Mapping[str, Price]
    published: Mapping[str, published.Price]
    trips: Sequence[tuple[int, float]] = ()  # bytes of a tensor map's copy, and cycles until it has landed
    _known: dict[str, Price] = field(default_factory=dict)

    def of(self, instruction: Instruction) -> Price:
        """The price of an instruction; UnpricedError with the opcode where there is none."""
        name = _name(instruction)
        found = self._known.get(name) or self._find(name)
        if found is None:
            raise UnpricedError(f"no price of {instruction.opcode} is known on {self.arch}")
        return self._known.setdefault(name, found)

    def copies(self, rings: tuple[Ring, ...]) -> Copies:
        """How rings are filled; the latency is that of no bytes, by a line through the least and the most measured."""
        if not self.trips:
            return Copies()
        (few, least), (many, most) = self.trips[0], self.trips[-1]
        return Copies(rings, least - few * (most - least) / (many - few), BYTES_A_CYCLE)

    def copied(self, opcode: str, least: int) -> int:
        """Wavefronts of shared memory that a copy to it takes without conflicts: its interval, else `least`."""
        priced = published.price_of(_plain(opcode), self.published)
        return round(priced.interval.cycles) if priced and priced.interval else least

    def _find(self, opcode: str) -> Price | None:
        own = self.measured.get(opcode) or self.measured.get(_plain(opcode))
        priced = published.price_of(opcode, self.published)
        other = _of_scheduler(opcode, priced) if priced else None
        requests = opcodes.opcode(opcode).modelled == "request"  # whose prices are of lanes with a place each
        best = (other or own) if requests else (own or other)
        stated = self._stated(opcode)
        if best is None or best.latency:
            return best or stated
        return best._replace(latency=stated.latency if stated else best.cycles)

    def _stated(self, opcode: str) -> Price | None:
        row = opcodes.stated(opcode) if self.arch in STATED else None
        return row and Price(row.pipe, row.cycles or 0, row.latency or row.cycles or 0, row.source)


def _name(instruction: Instruction) -> str:
    """What its price goes by: its opcode; a load of a parameter, whose place the code names, is one of its own."""
    place = instruction.operands[-1] if instruction.mnemonic == "LDC" else None
    parameter = place is not None and place.bank is not None and not place.terms
    return f"parameter {instruction.opcode}" if parameter else instruction.opcode


def _plain(opcode: str) -> str:
    """An opcode without what does not change its price: caching of L2 and its prefetches, zero fill."""
    return ".".join(part for part in opcode.split(".") if part not in ("LTC128B", "LTC64B", "LTC256B", "ZFILL", "U"))


def priced(arch: str, layers: Layers) -> bool:
    """Whether opcodes of an arch have measured prices, and what has none is stated."""
    return arch in STATED and bool(published.prices(arch, layers))


def prices(arch: str, layers: Layers) -> Prices:
    """What is known of an arch."""
    found: dict[str, Price] = {}
    for sourced in layers.findings("cost", arch).values():
        body = bounded(sourced.finding)
        if len(body.opcodes) == 1 and not sourced.rivals and set(body.opcodes.values()) == {1.0}:
            opcode = next(iter(body.opcodes))
            for name, price in _measured(opcode, body, how(sourced.finding)):
                found.setdefault(name, price._replace(modes=_modes(opcode, body.modes)))
    copy = layers.findings("cost", arch).get(COPY)
    trips = [(trip.bytes or 0, trip.cycles) for trip in bounded(copy.finding).round_trip] if copy else []
    return Prices(arch, found, published.prices(arch, layers), trips)


def _of_scheduler(opcode: str, priced: published.Price) -> Price | None:
    """What a measured price is to a scheduler; None where none of its pipes alone decides it."""
    modelled, pipe = opcodes.opcode(opcode).modelled, SAME.get(priced.pipe, priced.pipe)
    modes = _modes(priced.id, priced.body.modes)
    latency = round(max((cycles for cycles in priced.latency.values() if cycles), default=0))
    if pipe == "lsu" and modelled == "request":
        return Price(pipe, REQUEST, latency, priced.evidence, modes)
    if pipe not in PIPES or pipe in ("lsu", "issue") or modelled == "ruled" or priced.interval is None:
        return None
    cycles = round(PARTITIONS * priced.interval.cycles)
    return Price(pipe, cycles, latency, priced.evidence, modes)


def _modes(name: str, modes: Mapping[str, Sequence[float]]) -> str:
    """What a schedule takes of a price, where it has several modes; "" where it has none."""
    used = {number: values for number, values in modes.items() if number.startswith(("latency", "interval"))}
    return f"{name} is {in_modes(used)}" if used else ""


def _measured(opcode: str, body: Body, evidence: str) -> Iterator[tuple[str, Price]]:
    """The prices of an opcode by name; those of a warpgroup's multiply with A in registers have "RA" behind them."""
    mnemonic = opcode.partition(".")[0]
    latency = max(body.latency.values(), default=0.0) if isinstance(body.latency, dict) else body.latency
    if isinstance(body.interval, Point) and mnemonic.endswith("MMA"):
        yield opcode, Price("tensor", round(PARTITIONS * body.interval.cycles), latency or 0.0, evidence)
    elif isinstance(body.interval, list) and mnemonic.endswith("GMMA"):
        for a, suffix in (("shared", ""), ("registers", ".RA")):
            flights = [flight for flight in body.interval if flight.a == a]
            if flights:
                cycles = min(flight.cycles for flight in flights)
                yield opcode + suffix, Price("tensor", cycles, _round_trip(body, a, cycles), evidence)
    elif opcodes.opcode(opcode).modelled == "request":
        yield opcode, Price("lsu", REQUEST, latency or REQUEST, evidence)


def _round_trip(body: Body, a: str, cycles: float) -> float:
    """Cycles from the issue of one multiply of a warpgroup to the end of the wait for it."""
    trips = [trip.cycles for trip in body.round_trip if trip.a == a and trip.in_flight == 1]
    return min(trips, default=cycles)
