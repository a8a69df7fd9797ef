"""What the steps of a plan cost in cycles, from what is measured of their instructions; what is not measured is said.

>>> from tcprobe.store.choose import default
>>> found = accesses_cost("stmatrix.x4", 16, 64, Place("sm_90", default()))
>>> found.missing or (round(found.sm), found.latency)
(64, None)

    sm        = wavefronts x cycles of one: what an SM needs where enough warps do the same
    one_warp  = the larger of that and issues x the interval in one warp, which has eight of them in flight

How many wavefronts an issue takes is what the rule of banks says; cycles of one are the measured interval over the
wavefronts of an access whose lanes do not collide.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tcprobe.ask import cost
from tcprobe.isa.shared_memory import SharedAccess, access
from tcprobe.layout.banks import BANKS, WORD
from tcprobe.store.choose import Layers
from tcprobe.store.kinds.cost import Point

WAVEFRONT = BANKS * WORD  # bytes


class Place(NamedTuple):
    """An arch, and the findings that are asked."""

    arch: str
    layers: Layers

    def cost(self, id_: str) -> cost.InstructionCost | None:
        """Of an instruction, None where it is not measured there."""
        return cost.of(id_, self.arch, self.layers)


class PlanCycles(NamedTuple):
    """Cycles of a step: an SM's with enough warps, one warp's, from the last address to its data, a copy's round trip.

    None where there is no such number; `missing` says what is not measured.
    """

    sm: float | None = None
    one_warp: float | None = None
    latency: float | None = None
    round_trip: float | None = None
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"sm": self.sm, "one_warp": self.one_warp, "latency": self.latency, "round_trip": self.round_trip,
                "not_measured": list(self.missing)}  # fmt: skip

    def lacking(self, *what: str) -> PlanCycles:
        """The same, something more of which is not measured."""
        return self._replace(missing=(*self.missing, *what))

    def __str__(self) -> str:
        parts = [
            f"{self.sm:g} cycles an SM" if self.sm is not None else "",
            f"{self.one_warp:g} in one warp" if self.one_warp is not None else "",
            f"{self.latency:g} from address to data" if self.latency is not None else "",
            f"{self.round_trip:g} cycles from issue to the end of waiting" if self.round_trip is not None else "",
            *(f"not measured: {what}" for what in self.missing),
        ]
        return ", ".join(part for part in parts if part)


def accesses_cost(name: str, issues: int, wavefronts: int, place: Place) -> PlanCycles:
    """Of so many issues of an access to shared memory, as `tcprobe banks` or a path names it."""
    found = place.cost(measured_name(name))
    if found is None or not isinstance(found.body.interval, Point):
        return PlanCycles(missing=(f"{name} on {place.arch}",))
    body, each = found.body, free_wavefronts(name)
    if name.startswith("cp.async") and wavefronts > issues * each:
        return PlanCycles(missing=(f"what bank conflicts add to {name}",))
    sm = wavefronts * found.body.interval.cycles / each
    one_warp = max(sm, issues * body.one_warp) if body.one_warp else None
    latency = body.latency if isinstance(body.latency, float) else None
    return PlanCycles(round(sm, 1), None if one_warp is None else round(one_warp, 1), latency)


def measured_name(name: str) -> str:
    """The subject of the cost of an access: ldmatrix.x4 -> ldmatrix.m8n8.x4.shared.b16."""
    move, _, rest = name.partition(".")
    if move in ("ldmatrix", "stmatrix"):
        return f"{move}.m8n8.{rest}.shared.b16"
    return {"cp.async.16": "cp.async.cg.16"}.get(name, name.replace("cp.async.", "cp.async.ca.", 1)
                                                 if name in ("cp.async.4", "cp.async.8") else name)  # fmt: skip


def free_wavefronts(name: str) -> int:
    """Wavefronts of an issue whose lanes do not collide."""
    row = _access(name)
    return max(1, row.lanes * row.bytes // WAVEFRONT)


def _access(name: str) -> SharedAccess:
    return access(name.replace("cp.async.", "cp.async.ca.", 1) if name.count(".") == 2 and "cp.async" in name else name)


def copy_cost(name: str, sizes: list[int], place: Place) -> PlanCycles:
    """Of bulk copies one after the other, each waited for; `sizes` in bytes."""
    found = place.cost(name)
    known = {trip.bytes: trip.cycles for trip in found.body.round_trip} if found else {}
    absent = sorted({size for size in sizes if size not in known})
    if absent:
        words = ", ".join(map(str, absent[:3]))
        return PlanCycles(missing=(f"{name} of {words} bytes on {place.arch}",))
    return PlanCycles(round_trip=round(sum(known[size] for size in sizes), 1))


def moves_cost(id_: str, count: int, place: Place) -> PlanCycles:
    """Of so many moves between lanes that do not wait for each other, such as shfl.sync.idx.b32."""
    found = place.cost(id_)
    if found is None or not isinstance(found.body.interval, Point):
        return PlanCycles(missing=(f"{id_} on {place.arch}",))
    body = found.body
    latency = body.latency if isinstance(body.latency, float) else None
    one_warp = None if body.one_warp is None else round(count * body.one_warp, 1)
    return PlanCycles(round(count * found.body.interval.cycles, 1), one_warp, latency)


def total(steps: list[PlanCycles]) -> PlanCycles:
    """Of steps one after the other; None where a step has no number."""

    def added(values: list[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return round(sum(present), 1) if len(present) == len(values) and values else None

    missing = tuple(dict.fromkeys(what for step in steps for what in step.missing))
    return PlanCycles(added([s.sm for s in steps]), added([s.one_warp for s in steps]), missing=missing)
