"""What is published of an arch's machine instructions, for rules: the forms behind opcodes, and their rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal, NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.sass.lowering import Lowering
from tcprobe.store.choose import Layers, layers
from tcprobe.store.kinds import cost, prices

_CALL = re.compile(
    r"^\s*(?:@!?%?\w+\s+)?((?:w?mma|wgmma|tcgen05\.mma)\.[\w.:]{1,200})", re.MULTILINE
)  # a multiply in PTX
_HEAD = re.compile(r"\.(?:entry|func)\s+(?:\([^()]{0,2000}\)\s*)?([\w$%]{1,1000})")


class Share(NamedTuple):
    """Multiply-adds a cycle of an opcode's best form, and what its arch can do with that type of A, with sources."""

    macs: float
    most: float
    source: str


@cache
def _layers() -> Layers:
    return layers(None, False)


def row_of(name: str) -> Arch | None:
    """The arch of a name, None where it is not known."""
    return next((row for row in ARCHS if row.name == name), None)


@cache
def lowerings(arch: str) -> Mapping[str, Lowering]:
    """What each multiply becomes on an arch, by id."""
    found: dict[str, Lowering] = {}
    for body, _ in _layers().lowerings(arch):
        for id_, saved in body["instructions"].items():
            if id_ in inventory.instructions():
                found.setdefault(id_, Lowering(**saved))
    return found


@cache
def forms(arch: str, opcode: str) -> tuple[Instruction, ...]:
    """The native multiplies that become an opcode."""
    rows = inventory.instructions()
    found = ((rows[id_], lowering) for id_, lowering in lowerings(arch).items() if opcode in lowering.opcodes)
    return tuple(row for row, lowering in found if row.multiplies and lowering.native(row))


@cache
def share(arch: str, opcode: str) -> Share | None:
    """What an opcode's best form does of what the arch states; None where one of the two is not known."""
    row = row_of(arch)
    best: Share | None = None
    for form in forms(arch, opcode):
        most = row.peak(form.type("a")) if row else None
        macs = getattr(_costs(arch).get(form.id), "macs_per_cycle", None)
        if row and macs and most and (best is None or macs / most > best.macs / best.most):
            best = Share(macs, most, f"measured on the {arch}; peak: {row.peaks_source}")
    return best


@cache
def _prices(arch: str) -> Mapping[str, prices.Body]:
    """The measured prices of an arch's opcodes."""
    found = _layers().findings("prices", arch) if row_of(arch) else {}
    return {id_: sourced.finding.body for id_, sourced in found.items() if not sourced.rivals}


@cache
def interval(arch: str, opcode: str) -> float | None:
    """Cycles of an SM for one opcode, at its best; None where nobody measured it on the arch."""
    id_ = prices.covering(opcode, _prices(arch))
    point = None if id_ is None else _prices(arch)[id_].interval
    return None if point is None else point.cycles


@cache
def multiply_cycles(arch: str, id_: str) -> float | None:
    """Cycles of an SM for one multiply, at its best; None where nobody measured it on the arch."""
    body = _costs(arch).get(id_)
    return body.interval.cycles if body and isinstance(body.interval, cost.Point) else None


@cache
def waiting(arch: str, opcode: str, a: Literal["shared", "registers"]) -> float | None:
    """What a multiply of one warpgroup takes longer waited for alone than in a row of them; None if not measured."""
    for body in (body for body in _costs(arch).values() if body.opcodes == {opcode: 1.0}):
        flights = body.interval if isinstance(body.interval, list) else []
        row = [flight.cycles for flight in flights if (flight.a, flight.warpgroups) == (a, 1)]
        trips = [trip.cycles for trip in body.round_trip if (trip.a, trip.warpgroups, trip.in_flight) == (a, 1, 1)]
        if row and trips:
            return round(min(trips) - min(row), 1)
    return None


@cache
def _costs(arch: str) -> Mapping[str, cost.Body]:
    """The measured costs of an arch's instructions of PTX."""
    found = _layers().findings("cost", arch) if row_of(arch) else {}
    return {id_: cost.bounded(sourced.finding) for id_, sourced in found.items() if not sourced.rivals}


@cache
def _ids() -> Mapping[str, str]:
    return {row.name: row.id for row in inventory.instructions().values()}


@cache
def calls(ptx: str) -> Mapping[str, tuple[str, ...]]:
    """The multiplies in each function of a PTX text, by id, in the order of the text."""
    heads = list(_HEAD.finditer(ptx))
    ends = [head.start() for head in heads[1:]] + [len(ptx)]
    found = {}
    for head, end in zip(heads, ends, strict=True):
        names = dict.fromkeys(_CALL.findall(ptx, head.end(), end))
        found[head[1]] = tuple(_ids()[name] for name in names if name in _ids())
    return found
