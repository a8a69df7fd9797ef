"""Prices of opcodes: what the machine instructions of a kernel's loop cost, one by one, in words and as values.

>>> from tcprobe.store.choose import default
>>> found = prices("sm_90", default())
>>> price_of("FFMA.FTZ", found) is price_of("FFMA", found)
True
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.store.choose import Layers
from tcprobe.store.finding import Sourced, how, source_words
from tcprobe.store.kinds.cost import Modes, Point, in_modes
from tcprobe.store.kinds.prices import CONSTANTS, REGISTERS, Body, covering
from tcprobe.text import Described
from tcprobe.values import Json

KIND = "prices"


SaidModes = Annotated[
    Modes,
    Meta(
        description="Of numbers that repeats of one kind of GPU found apart, by name: all values, the first is the one "
        "that counts."
    ),
]


class PriceLatency(Answer):
    """Cycles by operand, null where no chain of it can be written."""

    a: float | None
    b: float | None
    c: float | None


class PriceInterval(Answer):
    """Cycles of an SM for one, with so many warps and independent chains in each."""

    cycles: float
    warps: int
    chains: int


class PriceAnswer(Answer):
    """What an opcode of a main loop costs, in cycles, one object per line: latency by operand, null where no chain of
    it can be written; the interval of an SM, of BAR.SYNC that of one barrier of so many warps; the pipe that it needs.
    """

    id: str
    arch: str
    latency: PriceLatency
    interval: Annotated[PriceInterval | None, Meta(description="Null of a constant of the SM, which is no opcode.")]
    one_warp: float | None
    pipe: str
    evidence: str
    modes: SaidModes | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class Price(Described):
    """What an opcode costs on an arch, in cycles; `id` names the experiment, `body.covers` the opcodes it holds for.

    `latency` is by operand, None where no chain of it can be written; `interval` is of an SM at its best, so a
    sub-partition needs four times as long where all four are at work; `one_warp` is between two of one warp; `pipe`
    is the one that both need.
    """

    id: str
    arch: str
    latency: Mapping[str, float | None]
    interval: Point | None
    one_warp: float | None
    pipe: str
    evidence: str
    body: Body = field(repr=False)

    @property
    def in_words(self) -> Iterator[str]:
        """Its pipe, latency, interval, and what it rests on."""
        return words(self)

    def to_json(self) -> Json:
        answer = PriceAnswer.of(
            self,
            interval=self.interval and PriceInterval.of(self.interval),
            modes=self.body.modes or UNSET,
        )
        return plain(answer)


def words(price: Price, full: bool = False) -> Iterator[str]:
    """Lines on an opcode; with `full` every number."""
    body = price.body
    yield f"{price.id} on {price.arch}: {', '.join(body.opcodes)}, pipe {price.pipe}"
    bounds = "at most " if body.at_most else ""
    known = ", ".join(f"{name.upper()} {cycles:g}" for name, cycles in price.latency.items() if cycles)
    if known:
        yield f"  latency to the result, from {bounds}{known} cycles"
    if price.interval:
        yield f"  one every {price.interval.cycles:g} cycles per SM, with {_shape(price.interval)}"
    if price.one_warp:
        yield f"  one every {price.one_warp:g} cycles in one warp"
    if body.modes:
        yield f"  {in_modes(body.modes)}"
    for axis, points in body.by.items():
        yield f"  cycles by {axis}: " + ", ".join(f"{point.at}: {point.cycles:g}" for point in points)
    if full:
        yield from (f"  {line}" for line in _everything(body))
    runs = f"; the median of the runs and the nearest run differ by at most {body.spread:.1%}" if full else ""
    yield f"  {price.evidence}{runs}"


def _shape(point: Point) -> str:
    """Warps and chains, in words."""
    counts = ((point.warps, "warp"), (point.chains, "chain"))
    return " of ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts)


def _everything(body: Body) -> Iterator[str]:
    """Reads of registers, the curve, what was timed beside it, and what was refused."""
    for row in body.reads:
        even, odd = row.banks
        yield f"one every {row.cycles:g} cycles per SM where one reads {even:g} even and {odd:g} odd registers"
    for point in body.curve:
        yield f"one every {point.cycles:g} cycles per SM, with {_shape(point)}"
    for other, pair in body.beside.items():
        own, theirs = pair.alone
        yield f"with {other}: {pair.together:g} cycles for both, {own:g} and {theirs:g} alone, in {pair.warps} warps"
    for variant, why in body.refused.items():
        yield f"no number: {variant}: {why.partition(': ')[2]}"


def prices(name: str, layers: Layers) -> dict[str, Price]:
    """All prices that are measured on an arch, by id; empty where there is none. Contradicted ones are left out."""
    return {id_: _price(sourced) for id_, sourced in layers.findings(KIND, name).items() if not sourced.rivals}


def price_of(opcode: str, found: Mapping[str, Price]) -> Price | None:
    """The price that covers an opcode as nvdisasm prints it, such as `LDS.U.128`; None where there is none.

    Of several that cover it the one with the longest pattern.
    """
    id_ = covering(opcode, {id_: price.body for id_, price in found.items()})
    return None if id_ is None else found[id_]


def price_of_ptx(instruction: str, found: Mapping[str, Price]) -> Price | None:
    """The price of what PTX such as `cvt.rn.f16x2.f32` becomes, as it was timed; None where that text was not."""
    from tcprobe.probes.prices import opcodes

    timed = (row.id for row in opcodes().values() if row.ptx.startswith(f"{instruction} ") and not row.others)
    return next((found[id_] for id_ in timed if id_ in found), None)


def named(pattern: str, found: Mapping[str, Price]) -> list[Price]:
    """The prices that a name of an opcode means: an id, an opcode that one covers, or a pattern of ids; else none."""
    opcode = pattern if pattern in CONSTANTS else pattern.upper()
    if opcode in found:
        return [found[opcode]]
    covered = price_of(opcode, found)
    if covered:
        return [covered]
    return [price for id_, price in found.items() if fnmatch.fnmatchcase(id_, opcode)]


def table(every: Iterable[Price]) -> list[str]:
    """A line an opcode, with its latencies, its interval in an SM and in one warp, and its pipe; 80 columns."""
    heads = ("opcode", "A", "B", "C", "SM", "one warp", "pipe")
    rows: list[Sequence[str]] = [heads]
    for price in every:
        latency = [_number(price.latency.get(name)) for name in REGISTERS]
        cycles = _number(price.interval.cycles if price.interval else None)
        rows.append((price.id, *latency, cycles, _number(price.one_warp), price.pipe))
    return [f"{a:<20}{b:>8}{c:>8}{d:>8}{e:>9}{f:>10}  {g}" for a, b, c, d, e, f, g in rows]


def _number(cycles: float | None) -> str:
    return "" if cycles is None else f"{cycles:.4g}"


def _price(sourced: Sourced) -> Price:
    finding = sourced.finding
    body, evidence = finding.body, f"{how(finding)} ({source_words(sourced.source)})"
    latency: dict[str, float | None] = {operand: body.latency.get(operand) for operand in REGISTERS}
    return Price(finding.subject, finding.arch, latency, body.interval, body.one_warp, body.pipe, evidence, body)
