"""What the steps of a plan cost in cycles, from the measured costs of their instructions; and what is not measured.

>>> from tcprobe.store.choose import default
>>> found = accesses_cost("stmatrix.x4", 16, 64, MeasuredCosts("sm_90", default()))
>>> found.missing or (round(found.interval), found.latency)
(64, None)

    interval = wavefronts x cycles of one: what an SM needs where enough warps do the same

How many wavefronts an issue takes is what the rule of banks says; cycles of one are the measured interval over the
wavefronts of an access whose lanes do not collide. `benchmarks/paths.py --cycles` compares whole plans with the clock;
what a warp alone needs is not predicted: how many accesses it has in flight is its code's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.ask import cost, prices
from tcprobe.isa.shared_memory import access
from tcprobe.layout.banks import LINE
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.references.cost import rows_about
from tcprobe.store.choose import Layers
from tcprobe.store.kinds.cost import Point
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.banks.patterns import BankRules

SHOWN = 2  # of what others state, in words; the data has all
# what a warp's cp.async of so many bytes a lane is timed as
ASYNC = {"cp.async.4": "cp.async.ca.4", "cp.async.8": "cp.async.ca.8", "cp.async.16": "cp.async.cg.16"}


class MeasuredCosts(NamedTuple):
    """An arch, and the findings that are asked, None for none."""

    arch: str
    layers: Layers | None

    @classmethod
    def of(cls, rules: BankRules) -> MeasuredCosts:
        """Where rules of banks are asked for."""
        return cls(rules.for_arch, rules.layers)

    def cost(self, id_: str) -> cost.InstructionCost | None:
        """The cost of an instruction, None if it was not measured there."""
        return cost.find_cost(id_, self.arch, self.layers) if self.layers else None

    def without(self, name: str, id_: str) -> PlanCycles:
        """That a number of `id_`, which a plan calls `name`, is missing, and what others state of it."""
        measured = self.cost(id_)
        contradicted = ": devices disagree" if measured and measured.status == "contradicted" else ""
        rows = rows_about(id_) if measured is None and self.layers and self.layers.with_published else []
        stated = tuple(f"{name} on {self.arch}: {row.words}" for row in rows if row.arch == self.arch)
        return PlanCycles(missing=(f"{name} on {self.arch}{contradicted}",), stated=stated)


class CyclesAnswer(Answer):
    """Cycles from measured costs: an SM's where enough warps do the same, from address to data, a copy's round trip;
    null where there is no such number, and what is not measured, and what others state of that.
    """

    interval: float | None
    latency: float | None
    round_trip: float | None
    not_measured: tuple[str, ...]
    stated: tuple[str, ...] | UnsetType = UNSET


class PlanCycles(NamedTuple):
    """Cycles of a step: an SM's with enough warps, from the last address to its data, a copy's round trip.

    None where there is no such number; `missing` says what is not measured, `stated` what others state of it.
    """

    interval: float | None = None
    latency: float | None = None
    round_trip: float | None = None
    missing: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @property
    def answer(self) -> CyclesAnswer:
        """What `--json` prints of it."""
        return CyclesAnswer.of(self, not_measured=self.missing, stated=self.stated or UNSET)

    def to_json(self) -> Json:
        return plain(self.answer)

    def lacking(self, *what: str) -> PlanCycles:
        """The same, with more that is not measured."""
        return self._replace(missing=(*self.missing, *what))

    def __str__(self) -> str:
        parts = [
            f"{self.interval:.0f} cycles per SM" if self.interval is not None else "",
            f"{self.latency:.0f} from address to data" if self.latency is not None else "",
            f"{self.round_trip:.0f} cycles from issue to the end of the wait" if self.round_trip is not None else "",
            f"not measured: {', '.join(self.missing)}" if self.missing else "",
            self._stated(),
        ]
        return ", ".join(part for part in parts if part)

    def _stated(self) -> str:
        """What others state, or that there is more than a line holds."""
        if len(self.stated) > SHOWN:
            return f"{len(self.stated)} numbers of others by `tcprobe cost`"
        return f"stated of {'; '.join(self.stated)}" if self.stated else ""


def accesses_cost(name: str, issues: int, wavefronts: int | None, costs_on: MeasuredCosts) -> PlanCycles:
    """What so many issues of an access to shared memory cost, named as `tcprobe banks` or a path names it."""
    measured = costs_on.cost(measured_name(name))
    if measured is None or wavefronts is None or not isinstance(measured.body.interval, Point):
        return costs_on.without(name, measured_name(name))
    body, each = measured.body, free_wavefronts(name)
    if name.startswith("cp.async") and wavefronts > issues * each:
        return PlanCycles(missing=(f"what bank conflicts add to {name}",))
    latency = body.latency if isinstance(body.latency, float) else None
    return PlanCycles(round(wavefronts * measured.body.interval.cycles / each, 1), latency)


def measured_name(name: str) -> str:
    """The subject of the cost of an access: ldmatrix.x4 -> ldmatrix.m8n8.x4.shared.b16."""
    move, _, rest = name.partition(".")
    if move in ("ldmatrix", "stmatrix"):
        return f"{move}.m8n8.{rest}.shared.b16"
    return ASYNC.get(name, name)


def free_wavefronts(name: str) -> int:
    """Wavefronts of an issue whose lanes do not collide."""
    row = access(name.replace("cp.async.", "cp.async.ca.", 1) if name in ASYNC else name)
    return max(1, row.lanes * row.bytes // LINE)


def copy_cost(name: str, size: int, costs_on: MeasuredCosts) -> PlanCycles:
    """What one bulk copy of `size` bytes costs, with waiting."""
    measured = costs_on.cost(name)
    round_trips = {trip.bytes: trip.cycles for trip in measured.body.round_trip} if measured else {}
    if size not in round_trips:
        return costs_on.without(f"{name} of {size} bytes", name)
    return PlanCycles(round_trip=round_trips[size])


def moves_cost(id_: str, count: int, costs_on: MeasuredCosts) -> PlanCycles:
    """What so many independent moves between lanes cost, such as shfl.sync.idx.b32."""
    measured = costs_on.cost(id_)
    if measured is None or not isinstance(measured.body.interval, Point):
        return costs_on.without(id_, id_)
    body = measured.body
    latency = body.latency if isinstance(body.latency, float) else None
    return PlanCycles(round(count * measured.body.interval.cycles, 1), latency)


def instructions_cost(name: str, ptx: str, count: int, costs_on: MeasuredCosts) -> tuple[str, PlanCycles]:
    """The pipe of what an instruction of PTX becomes, and what so many cost; `name` is what a plan calls it."""
    found = prices.prices(costs_on.arch, costs_on.layers) if costs_on.layers else {}
    price = prices.price_of_ptx(ptx, found)
    if price is None or price.interval is None:
        return name, PlanCycles(missing=(name,))
    return price.pipe, PlanCycles(round(count * price.interval.cycles, 1))


def busiest(parts: Sequence[tuple[str, PlanCycles]]) -> PlanCycles:
    """What parts cost together: pipes work side by side, so the interval is that of the one that works longest."""
    by_pipe: dict[str, float] = {}
    for pipe, part in parts:
        by_pipe[pipe] = by_pipe.get(pipe, 0.0) + (part.interval or 0.0)
    whole = sum_cycles([part for _, part in parts])
    return whole._replace(interval=round(max(by_pipe.values(), default=0.0), 1) or None)


def sum_cycles(moves: Sequence[PlanCycles]) -> PlanCycles:
    """What parts cost together if none waits for another."""
    intervals = [part.interval for part in moves if part.interval is not None]
    whole = round(sum(intervals), 1) if intervals and len(intervals) == len(moves) else None
    missing, stated = (tuple(what for part in moves for what in getattr(part, n)) for n in ("missing", "stated"))
    return PlanCycles(whole, missing=missing, stated=stated)


def cycle_lines(cycles: Mapping[str, PlanCycles]) -> Iterator[str]:
    """Lines about those steps that have numbers, or lack them."""
    for name, step_cycles in cycles.items():
        if str(step_cycles):
            yield f"{name}: {step_cycles}"
