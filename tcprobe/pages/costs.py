"""The page of what instructions cost: a table for each arch and kind of instruction, from findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.ask.cost import InstructionCost, archs, beside, costs, number_of
from tcprobe.isa.operand import INPUTS
from tcprobe.pages.tables import MADE, fitting, grid
from tcprobe.store.choose import Layers, alone
from tcprobe.store.kinds.cost import FULL_LOAD, Body, Point
from tcprobe.store.results import Results
from tcprobe.text import markdown

HEADS = ("instruction", "latency A, B, C", "one warp", "an SM", "warps x chains", "multiply-adds per cycle")
GROUP_HEADS = ("instruction", "interval, A shared", "A in registers", "round trip, A shared", "multiply-adds per cycle")
MOVE_HEADS = ("instruction", "latency", "one warp", "an SM", "warps", "2, 4, 8 passes")
COPY_HEADS = ("instruction", "round trip")
CLOCK_HEADS = ("all SMs at work", "MHz, zeros", "MHz, random", "random over zeros", "cycles, zeros", "cycles, random")


def there(results: Results) -> bool:
    """Whether there is anything to show."""
    return bool(archs(alone(results)))


def page(results: Results) -> Iterator[str]:
    """A section an arch."""
    layers = alone(results)
    yield from (MADE, "# What instructions cost", "")
    yield "Cycles of an SM, measured by `tcprobe run --family cost`: the difference of two loop counts, with the code"
    yield "of the loop read. One block has its SM for itself, other SMs may be busy, inputs are zeros, and the"
    yield "clock's mode is unknown. `tcprobe cost INSTRUCTION` has the whole curve, what others state, and evidence."
    for name in archs(layers):
        yield from ("", f"## {name}", "", markdown(costs([], name, layers)[0].evidence))
        yield from _tables(name, layers)


def _tables(name: str, layers: Layers) -> Iterator[str]:
    measured = costs([], name, layers)
    multiplies = [cost for cost in measured if isinstance(cost.body.latency, dict)]
    groups = [cost for cost in measured if isinstance(cost.body.interval, list)]
    moves = [cost for cost in measured if isinstance(cost.body.interval, Point) and cost not in multiplies]
    copies = [cost for cost in measured if cost.body.round_trip and cost.body.interval is None]
    loads = [cost for cost in measured if cost.body.clocks]
    for heads, lines in (
        (HEADS, map(_multiply, multiplies)),
        (GROUP_HEADS, map(_group, groups)),
        (MOVE_HEADS, map(_move, moves)),
        (COPY_HEADS, map(_copy, copies)),
        (CLOCK_HEADS, map(_clocks, loads)),
    ):
        rows = list(lines)
        if rows:
            yield from ("", *grid(heads, rows))
    pairs = beside(measured)
    if pairs:
        comparisons = [
            (
                p.id,
                str(p.row.number),
                f"{p.measured:g}",
                f"{p.row.comparable:g}",
                p.row.source,
                "agrees" if p.agrees else f"differs: {p.why}",
            )
            for p in pairs
        ]
        yield from ("", *grid(("instruction", "number", "measured", "stated", "by", ""), comparisons))


def _multiply(cost: InstructionCost) -> Sequence[str]:
    body = cost.body
    latency = body.latency if isinstance(body.latency, dict) else {}
    each = [("at most " if o in body.at_most else "") + f"{latency[o]:g}" if o in latency else "-" for o in INPUTS]
    point = body.interval
    best = (f"{point.cycles:g}", f"{point.warps} x {point.chains}") if isinstance(point, Point) else ("", "")
    name = f"`{cost.id}`" + (", emulated" if body.emulated else "")
    return name, ", ".join(each), _number(body.one_warp), *best, _number(body.macs_per_cycle)


def _group(cost: InstructionCost) -> Sequence[str]:
    body = cost.body
    trip = next((t.cycles for t in body.round_trip if (t.a, t.warpgroups, t.in_flight) == ("shared", 1, 1)), None)
    sides = (_number(number_of(body, f"{place} interval")) for place in ("shared", "registers"))
    return f"`{cost.id}`", *sides, _number(trip), _number(body.macs_per_cycle)


def _move(cost: InstructionCost) -> Sequence[str]:
    body, point = cost.body, cost.body.interval
    best = (f"{point.cycles:g}", str(point.warps)) if isinstance(point, Point) else ("", "")
    latency = body.latency if isinstance(body.latency, float) else None
    passes = ", ".join(f"{run.cycles:g}" for run in body.passes[1:])
    return f"`{cost.id}`", _number(latency), _number(body.one_warp), *best, passes or "-"


def _copy(cost: InstructionCost) -> Sequence[str]:
    return f"`{cost.id}`", _trips(cost.body)


def _clocks(cost: InstructionCost) -> Sequence[str]:
    zeros, random = (next(clock for clock in cost.body.clocks if clock.data == data) for data in ("zeros", "random"))
    name, share = cost.id.removeprefix(f"{FULL_LOAD}."), f"{random.mhz / zeros.mhz:.0%}"
    return f"`{name}`", f"{zeros.mhz:g}", f"{random.mhz:g}", share, f"{zeros.cycles:g}", f"{random.cycles:g}"


def _trips(body: Body) -> str:
    return fitting([f"{trip.bytes} bytes {trip.cycles:g}" for trip in body.round_trip])


def _number(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:g}"
