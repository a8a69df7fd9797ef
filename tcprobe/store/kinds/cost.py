"""What an instruction costs, one finding for each: cycles from operand to result, and between two of them.

Every number is the difference of two loop counts over the copies in the loop, whose machine code was read: `opcodes`
are what one copy becomes, `others` what else stands in the loop, a copy; `spread` is how far the median of a number's
runs is from the run nearest to it, at most. Of a multiply `latency` is by operand; those `at_most` are bounds: moves
stand in the chain, or C joins last by an ordinary addition. Of a move it is one number, from address to data. `curve`
has cycles per SM needs for one of them with so many warps and chains; `interval` is its least point. Of a warpgroup
multiply `interval` and `round_trip` are lists by where A is, warpgroups and how many are in flight; `forms` the same by
swizzle and major. Of a bulk copy `round_trip` is by bytes. `refused` says of a loop why it gave no number. `random`
compares random inputs with zeros. `passes` is what bank conflicts make of an interval. `mhz` is the clock by which
cycles went by, `clocks` what it settles at where all SMs run the form. `modes` has, by a number's name (`numbers`), all
values that it took where its own runs, or surveys of one device, fall into several.

What is stored is what was measured. The ends of a loop are off by what is in flight there: a number may be TOLERANCE
better than the arch's peak, and what counts of it is the peak (`bounded`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec

from tcprobe.errors import DataError
from tcprobe.isa import inventory
from tcprobe.isa.arch import Target, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.shared_memory import accesses, exchanges_and_copies
from tcprobe.layout.descriptor import SWIZZLES
from tcprobe.store.finding import Finding, how
from tcprobe.store.kinds import SwizzleBytes

METHODS = ("live",)
WITHIN = 0.05  # of one another are the cycles of two devices that agree
WHAT = "times every instruction: latency by operand, interval, and what overlaps"
MOST_SPREAD = 0.1  # above this the device is shared, or not steady
TOLERANCE = 0.01  # of a number against another: two loop counts differ by whole rounds, and begin unlike each other
ROUNDED = 0.1  # of multiply-adds per cycle, which have one digit after the point
Cycles = Annotated[float, msgspec.Meta(gt=0, le=1e7)]
PerCopy = Annotated[float, msgspec.Meta(gt=0, le=1e5)]  # instructions of the loop for each copy of what is timed
MHz = Annotated[float, msgspec.Meta(gt=0, le=1e5)]
Warps = Annotated[int, msgspec.Meta(ge=1, le=64)]  # of an SM, or warpgroups of it
AtOnce = Annotated[int, msgspec.Meta(ge=1, le=1024)]  # independent of one another: chains, or multiplies in flight
CopiedBytes = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
PassCount = Annotated[int, msgspec.Meta(ge=1, le=1024)]  # of the banks
CostPlace = Literal["shared", "registers"]
Held = Literal["registers", "shared", "tensor"]  # where A of a multiply is
Data = Literal["zeros", "random"]
Modes = dict[str, Annotated[list[Cycles], msgspec.Meta(min_length=2, max_length=8)]]  # by a number's name
_SIZED = re.compile(r"\.m[0-9]{1,3}n(?P<n>[0-9]{1,3})k[0-9]{1,3}\.")  # of a form of tcgen05
FULL_LOAD = "full-load"  # what the subject of a finding on the clock begins with


class Base(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What all parts of a body have in common."""


class Point(Base):
    """Cycles an SM needs for one, with so many warps and independent chains in each."""

    cycles: Cycles
    warps: Warps
    chains: AtOnce = 1


class Flight(Base):
    """Cycles an SM needs for one warpgroup multiply."""

    cycles: Cycles
    a: Held
    warpgroups: Warps
    in_flight: AtOnce


class ByLayout(Base):
    """The interval of a warpgroup multiply by how its factors lie in shared memory."""

    cycles: Cycles
    a: CostPlace
    swizzle: SwizzleBytes
    major: Literal["k", "mn"]


class Trip(Base):
    """Cycles from issue to the end of waiting: of `in_flight` warpgroup multiplies, or of a copy of `bytes`."""

    cycles: Cycles
    bytes: CopiedBytes | None = None
    a: Held | None = None
    warpgroups: Warps | None = None
    in_flight: AtOnce | None = None


class Passes(Base):
    """Cycles an SM needs for one access whose addresses take so many passes of the banks."""

    passes: PassCount
    cycles: Cycles


class Overlap(Base):
    """Cycles for one of each in every warp, `alone` and `together`; `hidden` is how much of the shorter is hidden."""

    alone: Annotated[list[Cycles], msgspec.Meta(min_length=2, max_length=2)]
    together: Cycles
    warps: Warps

    @property
    def hidden(self) -> float:
        """1 where the longer of the two is all that counts, 0 where they add up."""
        return max(0.0, min(1.0, (sum(self.alone) - self.together) / min(self.alone)))


class Clock(Base):
    """The clock while all SMs run one form with such factors, and the cycles per SM needs for one meanwhile."""

    data: Data
    mhz: MHz
    cycles: Cycles


class Body(Base):
    """What was found of an instruction."""

    opcodes: dict[str, PerCopy]
    spread: Annotated[float, msgspec.Meta(ge=0)]
    emulated: bool = False
    others: dict[str, PerCopy] = {}
    latency: dict[str, Cycles] | Cycles | None = None
    at_most: list[str] = []
    interval: Point | list[Flight] | None = None
    one_warp: Cycles | None = None
    curve: list[Point] = []
    macs_per_cycle: Annotated[float, msgspec.Meta(gt=0, le=1e7)] | None = None
    round_trip: list[Trip] = []
    forms: list[ByLayout] = []
    passes: list[Passes] = []
    overlap: dict[str, Overlap] = {}
    random: Annotated[float, msgspec.Meta(gt=0, le=1e3)] | None = None
    mhz: MHz | None = None
    clocks: list[Clock] = []
    modes: Modes = {}
    refused: dict[str, str] = {}


def check(finding: Finding) -> None:
    """DataError for what the arch does not have, a number beyond its peak, runs that differ much, or points that
    contradict each other.
    """
    body, row = finding.body, inventory.instructions().get(finding.subject)
    _check_subject(finding)
    if not body.opcodes:
        raise DataError(f"{finding.subject}: no opcode of it was seen in the loop.")
    if not 0 <= body.spread <= MOST_SPREAD:
        raise DataError(
            f"{finding.subject}: the median run and the nearest to it differ by {body.spread:.0%}, more than "
            f"{MOST_SPREAD:.0%}: "
            "is the GPU used by others?"
        )
    check_modes(finding, numbers(body))
    if isinstance(body.interval, Point) and body.curve and body.interval not in body.curve:
        raise DataError(f"{finding.subject}: its interval is not a point of its curve.")
    if any(form.swizzle not in SWIZZLES for form in body.forms):
        raise DataError(f"{finding.subject}: swizzles are {', '.join(map(str, SWIZZLES))}.")
    _check_rate(finding)
    if row and row.multiplies:
        _check_peak(finding, row)


def check_modes(finding: Finding, measured: Mapping[str, float]) -> None:
    """The values of each number of several modes are apart, and what was measured is one of them."""
    for name, values in finding.body.modes.items():
        if measured.get(name) not in values:
            raise DataError(f"{finding.subject}: {name} is {measured.get(name)}, none of its modes {values}.")
        if not apart(values):
            raise DataError(f"{finding.subject}: {name} has modes within {WITHIN:.0%} of each other: {values}.")


def apart(values: Sequence[float]) -> bool:
    """Whether each of some cycles is further from all others than those that agree."""
    ordered = sorted(values)
    return all(high - low > WITHIN * high for low, high in pairwise(ordered))


def in_modes(modes: Mapping[str, Sequence[float]]) -> str:
    """Numbers of several modes in words; "" where there are none."""
    each = (f"{name} {' or '.join(f'{cycles:g}' for cycles in values)}" for name, values in modes.items())
    return f"in several modes, of which the first counts: {'; '.join(each)}" if modes else ""


def _check_subject(finding: Finding) -> None:
    """Only what the arch has is timed there; a multiply that is native becomes tensor-core instructions."""
    name, device = finding.subject.removeprefix(f"{FULL_LOAD}."), arch(finding.arch)
    if not any(target.on(device) for target in _targets(name)):
        raise DataError(f"{name} is not an instruction of {device.name} whose cost is measured.")
    row = inventory.instructions().get(name)
    if row and row.multiplies and not finding.body.emulated and not any("MMA" in one for one in finding.body.opcodes):
        raise DataError(f"{name}: not emulated, but no opcode of tensor cores was seen in the loop.")


@cache
def _targets(name: str) -> list[Target]:
    """Of what a name means: a form with its sizes and types at its end (tcgen05), or a move of no matrix."""
    rows, moves = inventory.instructions(), {**exchanges_and_copies(), **{n: a.target for n, a in accesses().items()}}
    if name in moves:
        return [moves[name]]
    if name in rows or not name.startswith("tcgen05."):
        return [rows[name].target] if name in rows else []
    form = _form_of(name)
    opcode = ".".join(name.split(".")[:2])
    return [form.target] if form else [row.target for one, row in rows.items() if one.startswith(f"{opcode}.")]


def _check_rate(finding: Finding) -> None:
    """Multiply-adds per cycle are the products of the form over its shortest interval."""
    rate, interval = finding.body.macs_per_cycle, finding.body.interval
    if rate is None:
        return
    shortest = min(
        (point.cycles for point in (interval if isinstance(interval, list) else [interval]) if point), default=0
    )
    made = products(finding.subject)
    if not made or not shortest or abs(rate - made / shortest) > ROUNDED:
        follows = f"{made / shortest:.1f} follow from {made} in {shortest:g}" if shortest else "it has no interval"
        raise DataError(f"{finding.subject}: {rate:g} multiply-adds per cycle, but {follows}.")


def products(subject: str) -> int:
    """Multiply-adds that an SM does for one instruction; 0 where a name is no multiply.

    A multiply of tcgen05 has N in its name, and two SMs share one of cta_group::2.
    """
    row = inventory.instructions().get(subject)
    if row is not None:
        return row.triples if row.multiplies else 0
    sized = _SIZED.search(subject)
    form = _form_of(subject) if sized else None
    if form is None or not sized or not form.multiplies:
        return 0
    return form.shape.m * int(sized["n"]) * form.shape.k // (2 if "cta_group::2" in subject else 1)


def _form_of(name: str) -> Instruction | None:
    """The form of tcgen05 whose name begins one that has sizes and types at its end."""
    rows = inventory.instructions()
    form = max((one for one in rows if name.startswith(f"{one}.")), key=len, default=None)
    return rows[form] if form else None


def _check_peak(finding: Finding, instruction: Instruction) -> None:
    """No number above what the chip can do, as its maker states it, by more than a measurement may be off."""
    most = arch(finding.arch).peak(instruction.type("a"))
    for cycles in _intervals(finding.body):
        if most and instruction.triples / cycles > most * (1 + TOLERANCE):
            raise DataError(
                f"{finding.subject}: {instruction.triples / cycles:.0f} multiply-adds per cycle, more than the {most} "
                f"that {finding.arch} has of {instruction.type('a')}, and the {TOLERANCE:.0%} that it may be off."
            )


def peak(finding: Finding) -> int | None:
    """The most multiply-adds per cycle that an SM of its arch has of its type, None where nobody states it."""
    row = inventory.instructions().get(finding.subject.removeprefix(f"{FULL_LOAD}."))
    return arch(finding.arch).peak(row.type("a")) if row and row.multiplies else None


def bounded(finding: Finding) -> Body:
    """The numbers that count of a finding: none is better than the peak of its arch."""
    body: Body = finding.body
    if (most := peak(finding)) is None:
        return body
    least = products(finding.subject.removeprefix(f"{FULL_LOAD}.")) / most

    def slower(found: Any) -> Any:
        if isinstance(found, list):
            return [slower(one) for one in found]
        return found if found is None or found.cycles >= least else msgspec.structs.replace(found, cycles=least)

    raised = {name: slower(getattr(body, name)) for name in ("interval", "curve", "forms", "clocks")}
    rate = body.macs_per_cycle and min(body.macs_per_cycle, float(most))
    return msgspec.structs.replace(body, **raised, macs_per_cycle=rate)


def _intervals(body: Body) -> Iterator[float]:
    points = body.interval if isinstance(body.interval, list) else [body.interval] if body.interval else []
    yield from (point.cycles for point in (*points, *body.curve, *body.forms))


def essence(body: Body) -> object:
    """What stands in the loop, and every number of cycles by what it is of; clocks are a device's own."""
    fixed = {"opcodes": {opcode: f"{n:g}" for opcode, n in body.opcodes.items()}, "emulated": body.emulated}
    return {**fixed, **{part: float(cycles) for part, cycles in numbers(body).items()}}


def numbers(body: Body) -> dict[str, float]:
    """What is measured of an instruction, but for its curve, by name.

    Of copies the name has the SM's clock: L2 has its own, so cycles at another clock are another number.
    """
    latency = body.latency if isinstance(body.latency, dict) else {"": body.latency}
    one_each: dict[str, float | None] = {f"latency {operand}".strip(): cycles for operand, cycles in latency.items()}
    if isinstance(body.interval, Point):
        one_each["interval"] = body.interval.cycles
    one_each |= {"one_warp": body.one_warp, "macs_per_cycle": body.macs_per_cycle, "random": body.random}
    named: dict[str, Sequence[Flight | Trip | ByLayout | Passes]] = {}
    named |= {"interval": body.interval if isinstance(body.interval, list) else []}
    named |= {"round_trip": body.round_trip, "form": body.forms, "passes": body.passes}
    for name, points in named.items():
        for point in points:
            of = {key: value for key, value in msgspec.structs.asdict(point).items() if key != "cycles" and value}
            clock = f" at {body.mhz:.2g} MHz" if "bytes" in of and body.mhz else ""
            one_each[f"{name} {' '.join(f'{key} {value}' for key, value in of.items())}{clock}"] = point.cycles
    one_each |= {f"with {partner}": pair.together for partner, pair in body.overlap.items()}
    one_each |= {f"all SMs, {clock.data}": clock.cycles for clock in body.clocks}
    return {name: cycles for name, cycles in one_each.items() if cycles is not None}


def also(body: Body, other: Body) -> dict[str, list[float]]:
    """What a number may be besides, by name, for another device's to agree with it.

    It may be in another mode; and of a copy the cycles of L2 at the other's clock of the SMs.
    """
    found = {name: list(values) for name, values in body.modes.items()}
    for name, cycles in numbers(body).items():
        if name.endswith("MHz") and body.mhz and other.mhz:
            found.setdefault(name, []).append(cycles * other.mhz / body.mhz)
    return found


def words(findings: Sequence[Finding]) -> str:
    """What the costs of an arch rest on."""
    spread = max(f.body.spread for f in findings)
    runs = f"the median run of each number and the nearest to it differ by at most {spread:.1%}"
    return f"{how(findings[0])}: {len(findings)} instructions, {runs}"
