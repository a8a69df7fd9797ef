"""The cost of an instruction in words: what a reader does with it first, every number by `full`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from tcprobe.isa import arch
from tcprobe.references.cost import PEAK
from tcprobe.store.kinds.cost import TOLERANCE, Body, ByLayout, Flight, Point, Trip, in_modes
from tcprobe.text import Whole, any_of

if TYPE_CHECKING:
    from tcprobe.ask.cost import InstructionCost, Line
    from tcprobe.isa.instruction import Instruction
    from tcprobe.references.cost import Row

ALIKE = 0.02  # relative: cycles that a reader need not tell apart
REACHED = 0.05  # relative, above the least: as good as the best
FEW = 2  # opcodes that are all named
MOST_ROWS = 4  # of a curve, where the last has nothing new
WIDEST = 78  # columns of a table, which is never folded
Cells = dict[tuple[str | None, int | None, int | None], float]  # cycles by A's place, warpgroups, how many in flight
USUAL_TYPES = ("bf16", "f16", "e4m3", "e5m2", "s8", "u8", "tf32", "f64")  # in the order in which people ask


def words(cost: "InstructionCost", partner: str | None = None, full: bool = False) -> Iterator[str]:
    """Lines on one instruction."""
    if cost.status != "measured":
        if partner:
            cost.overlap(partner)  # which says why there is none
        yield f"{cost.id} on {cost.arch}: {'not measured' if cost.sourced is None else 'contradicted, so no numbers'}"
        near = by_nearness(cost)
        shown = near if full else [row for row in near if _apart(row, cost) < FAR]
        yield from (
            f"  stated{f' for {cost.arch}' if row.arch == cost.arch else ''}: {row.words}{_at_least(row, cost)}"
            for row in shown
        )
        if len(near) > len(shown):
            yield f"  stated of other archs: {len(near) - len(shown)} more by --full"
        yield f"  {cost.evidence}"
        return
    body = cost.body
    counts = body.opcodes if full or len(body.opcodes) <= FEW else {o: n for o, n in body.opcodes.items() if "MMA" in o}
    told = [f"{opcode} x {n:g}" if n != 1 else opcode for opcode, n in counts.items()]
    more = len(body.opcodes) - len(told)
    opcodes = ", ".join(told) + (f" and {more} other opcodes" if more else "")
    yield f"{cost.id} on {cost.arch}: {'emulated, ' if body.emulated else ''}{opcodes}"
    yield from (f"  {line}" for line in (_everything(cost) if full else _summary(cost)))
    if partner:
        overlap = cost.overlap(partner)
        yield (
            f"  with {partner}: {overlap.together:g} cycles for both, {overlap.alone[0]:g} and {overlap.alone[1]:g} "
            f"alone, in {overlap.warps} warps: {overlap.hidden:.0%} of the shorter is hidden"
        )
    if full:
        yield from (f"  stated: {row.words}" for row in by_nearness(cost))
    elif cost.stated:
        here = sorted(cost.stated, key=lambda row: (_apart(row, cost), len(row.brief)))
        yield f"  stated: {here[0].brief}; {f'{len(here) - 1} more' if len(here) > 1 else 'source'} by --full"
    if cost.sourced and cost.sourced.otherwise:
        yield f"  {cost.sourced.contradiction}"
    runs = f"; the median of the runs and the nearest run differ by at most {body.spread:.1%}" if full else ""
    yield f"  {cost.evidence}{runs}"


FAR = 2  # neither the arch nor its generation


def by_nearness(cost: "InstructionCost") -> "list[Row]":
    """What is stated: of this arch, then of its generation, then of others."""
    return sorted(cost.stated, key=lambda row: _apart(row, cost))


def _at_least(row: "Row", cost: "InstructionCost") -> str:
    """What a peak means for one instruction."""
    return f": at least {cost.row.triples / row.value:g} cycles each" if row.term == PEAK and cost.row else ""


def _apart(row: "Row", cost: "InstructionCost") -> int:
    here, there = (arch.arch(name).generation.partition(" ")[0] for name in (cost.arch, row.arch))
    return 0 if row.arch == cost.arch else 1 if here == there else FAR


def in_brief(cost: "InstructionCost") -> str:
    """The cost on one line of other commands."""
    if cost.status != "measured":
        return cost.status
    latency = cost.body.latency
    longest = max(latency.values()) if isinstance(latency, dict) and latency else latency
    cycles = _least(cost.body)
    parts = [f"latency {longest:g}" if longest else "", f"one every {cycles:g} cycles per SM" if cycles else ""]
    return ", ".join(part for part in parts if part) or "timed"


def _least(body: Body) -> float | None:
    """The least cycles of an SM for one."""
    points = body.interval if isinstance(body.interval, list) else [body.interval] if body.interval else []
    return min((point.cycles for point in points), default=None)


# what a reader needs first


def _summary(cost: "InstructionCost") -> Iterator[str]:
    body = cost.body
    yield from _latency(cost)
    yield from _throughput(cost)
    yield from _bounded(cost)
    if body.curve:
        yield from _curve(body.curve)
    if isinstance(body.interval, list):
        yield from _in_flight(body)
        yield from _by_layout(body.forms)
    elif body.round_trip:
        trips = {f"{trip.bytes:g}": trip.cycles for trip in body.round_trip}
        yield from _columns("cycles to the end of the wait, by bytes", trips)
    if len(body.passes) > 1:
        yield from _columns("cycles, by passes of the banks", {f"{p.passes}": p.cycles for p in body.passes[1:]})
    yield from _clocks(body)
    yield from _modes(body)
    yield from _advice(body)
    if body.refused:
        yield f"no number of {any_of(list(body.refused))} (--full)"


def _latency(cost: "InstructionCost") -> Iterator[str]:
    body = cost.body
    if isinstance(body.latency, dict):
        each = {
            operand.upper(): f"{'at most ' if operand in body.at_most else ''}{cycles:g}"
            for operand, cycles in sorted(body.latency.items())
        }
        if len(set(each.values())) == 1:
            yield f"latency {next(iter(each.values()))} cycles, from {any_of(list(each), 'or')} to D"
        else:
            yield f"latency to D: {', '.join(f'{name} {cycles}' for name, cycles in each.items())} cycles"
    elif body.latency is not None:
        yield f"latency {body.latency:g} cycles, from address to data"


def _throughput(cost: "InstructionCost") -> Iterator[str]:
    least, rate = _least(cost.body), cost.body.macs_per_cycle
    if least:
        held = _registers(cost.row)
        yield f"throughput: one every {least:g} cycles per SM{f'; {held}' if held else ''}"
    if rate:
        most = arch.arch(cost.arch).peak(cost.row.type("a")) if cost.row else None
        yield f"{rate:g} multiply-adds per cycle per SM{f', {rate / most:.0%} of the peak' if most else ''}"


def _registers(row: "Instruction | None") -> str:
    """What a multiply takes of a thread's registers."""
    if row is None or not row.multiplies or not row.fragments:
        return ""
    held = {one.name.upper(): one.registers for one in row.fragments}
    if held.get("C") == held.get("D"):
        held = {name: count for name, count in held.items() if name not in ("C", "D")} | {"C/D": held["D"]}
    return f"registers {', '.join(f'{name} {count}' for name, count in held.items())}"


def _curve(points: Sequence[Point]) -> Iterator[str]:
    """Cycles of an SM for one, a line for each number of warps that makes a difference."""
    least = min(point.cycles for point in points)
    chains = sorted({point.chains for point in points})
    rows: dict[str, dict[int, float]] = {}
    for warps in sorted({point.warps for point in points}):
        row = {point.chains: point.cycles for point in points if point.warps == warps}
        last = next(reversed(rows), None)
        same = last is not None and all(_alike(row[n], rows[last].get(n, row[n])) for n in row)
        if last is not None and same:
            rows = {**{name: cells for name, cells in rows.items() if name != last}, f"{last}, {warps}": rows[last]}
        else:
            rows[str(warps)] = row
    if len(rows) > MOST_ROWS and max(next(reversed(rows.values())).values()) <= least * (1 + REACHED):
        rows.popitem()
    best = f"(* within {REACHED:.0%} of the best)"
    if chains == [1]:
        yield from _columns(
            f"cycles per SM for one, by warps {best}", {name: row[1] for name, row in rows.items()}, least
        )
        return
    yield f"cycles per SM for one, by warps and chains in each {best}:"
    yield Whole(f"{'warps':>10}" + "".join(f"{n:>9}" for n in chains))
    for name, row in rows.items():
        cells = (_cell(row[n], least) if n in row else f"{'-':>8} " for n in chains)
        yield Whole(f"{name:>10}{''.join(cells)}".rstrip())


def _cell(cycles: float, least: float) -> str:
    return f"{cycles:>8.4g}{'*' if cycles <= least * (1 + REACHED) else ' '}"


def _columns(title: str, cells: Mapping[str, float], least: float = 0.0) -> Iterator[str]:
    """A table of two rows, in as many pieces as a terminal needs; equal neighbours are one column."""
    merged: list[tuple[str, float]] = []
    for key, cycles in cells.items():
        if merged and _alike(cycles, merged[-1][1]):
            first = merged[-1][0].partition(" to ")[0]
            merged[-1] = (f"{first} to {key}", merged[-1][1])
        else:
            merged.append((key, cycles))
    texts = [(key, f"{cycles:.4g}{'*' if cycles <= least * (1 + REACHED) else ''}") for key, cycles in merged]
    yield f"{title}:"
    pieces: list[list[tuple[str, str]]] = [[]]
    for text in texts:
        if sum(max(map(len, one)) + 2 for one in (*pieces[-1], text)) > WIDEST - 4:
            pieces.append([])
        pieces[-1].append(text)
    for piece in pieces:
        for row in zip(*piece, strict=True):
            cells_there = (f"{text:>{max(map(len, one)) + 2}}" for text, one in zip(row, piece, strict=True))
            yield Whole(f"  {''.join(cells_there)}")


def _in_flight(body: Body) -> Iterator[str]:
    """Of warpgroup multiplies what differs by where A is, by warpgroups and by how many are in flight."""
    flights = body.interval if isinstance(body.interval, list) else []
    by_flight: Cells = {(one.a, one.warpgroups, one.in_flight): one.cycles for one in flights}
    by_trip: Cells = {(one.a, one.warpgroups, one.in_flight): one.cycles for one in body.round_trip}
    equal = all(_alike(one, min(by_flight.values())) for one in by_flight.values())
    parts: list[tuple[str, Cells]] = []
    parts += [] if equal else [("cycles for one", by_flight)]
    parts += [("cycles to the end of the wait", by_trip)] if by_trip else []
    if equal:
        yield "the same wherever A is and however many are in flight"
    if not parts:
        return
    columns = [(cells, n) for _, cells in parts for n in sorted({key[2] or 0 for key in cells})]
    yield f"{' and '.join(title for title, _ in parts)}, by multiplies in flight:"
    yield Whole(f"  {'A in':<10}{'groups':>6}{''.join(f'{n:>8}' for _, n in columns)}")
    for a, groups in dict.fromkeys(key[:2] for _, cells in parts for key in cells):
        found = (f"{cells[a, groups, n]:.4g}" if (a, groups, n) in cells else "-" for cells, n in columns)
        yield Whole(f"  {a or '':<10}{groups or 0:>6}{''.join(f'{cell:>8}' for cell in found)}")


def _by_layout(forms: Sequence[ByLayout]) -> Iterator[str]:
    """Cycles by what tells them apart."""
    some, groups = _told_apart(forms)
    by_cycles: dict[str, list[str]] = {}
    for name, cycles in groups.items() if set(some) - {"a"} else ():
        by_cycles.setdefault(f"{min(cycles):.4g}", []).append(name)
    if by_cycles:
        each = (f"{cycles} cycles with {any_of(names, 'or')}" for cycles, names in by_cycles.items())
        yield f"one every {'; '.join(each)}"


def _told_apart(forms: Sequence[ByLayout]) -> tuple[tuple[str, ...], dict[str, list[float]]]:
    """The fewest of A's place, swizzle and major by which cycles differ, and the cycles by these."""
    told: dict[str, Callable[[ByLayout], str]] = {
        "a": lambda form: f"A in {_place(form.a)}",
        "swizzle": _swizzle,
        "major": lambda form: f"major {form.major}",
    }
    groups: dict[str, list[float]] = {}
    for some in (subset for size in range(4) for subset in combinations(told, size)):
        groups = {}
        for form in forms:
            groups.setdefault(", ".join(told[name](form) for name in some), []).append(form.cycles)
        if all(_alike(max(cycles), min(cycles)) for cycles in groups.values()):
            return some, groups
    return tuple(told), groups


def _advice(body: Body, full: bool = False) -> Iterator[str]:
    """What a kernel's author does with the numbers."""
    if isinstance(body.interval, list):
        least = _least(body) or 0
        enough = min(
            ((one.warpgroups, one.in_flight, one.a) for one in body.interval if one.cycles <= least * (1 + REACHED)),
        )
        groups = "1 warpgroup" if enough[0] == 1 else f"{enough[0]} warpgroups"
        layout = ", any swizzle or major" if body.forms and set(_told_apart(body.forms)[0]) <= {"a"} else ""
        yield f"{enough[1]} in flight in {groups} keep the tensor core busy{layout}"
    elif isinstance(body.latency, dict) and body.one_warp:
        alone = [point for point in body.curve if point.warps == 1]
        chains = min((p.chains for p in alone if p.cycles <= body.one_warp * (1 + REACHED)), default=0)
        best = body.interval
        fill = f"; {best.warps} warps of {best.chains} fill the SM" if isinstance(best, Point) else ""
        if chains:
            hide = f"{chains} independent multiplies per warp hide the latency"
            yield f"{hide if chains > 1 else 'chains in a warp gain nothing'}{fill}"
    if body.random:
        change = abs(body.random - 1)
        if change > TOLERANCE:
            yield f"random inputs take {body.random:.1%} of the cycles of zeros"
        elif full:
            yield "inputs do not matter: random ones take as long as zeros"


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= ALIKE * other


def _place(a: str) -> str:
    return "registers" if a == "registers" else f"{a} memory"


def _swizzle(form: ByLayout) -> str:
    return f"swizzle {form.swizzle}B" if form.swizzle else "no swizzle"


# every number


def _everything(cost: "InstructionCost") -> Iterator[str]:
    body = cost.body
    if isinstance(body.latency, dict):
        each = [
            f"{operand.upper()} {'at most ' if operand in body.at_most else ''}{cycles:g}"
            for operand, cycles in sorted(body.latency.items())
        ]
        yield f"latency to D, from {', '.join(each)} cycles"
    elif body.latency is not None:
        yield f"latency from address to data {body.latency:g} cycles"
    yield from _intervals(body)
    if held := _registers(cost.row):
        yield f"{held} of a thread"
    yield from _bounded(cost)
    for point in body.curve:
        yield f"one every {point.cycles:g} cycles per SM, with {point.warps} warps of {_chains(point.chains)}"
    for form in body.forms:
        yield f"one every {form.cycles:g} cycles, A in {form.a}, {_swizzle(form)}, major {form.major}"
    for timing in body.passes[1:]:
        yield f"one every {timing.cycles:g} cycles where banks take {timing.passes} passes"
    yield from _clocks(body)
    yield from _modes(body, full=True)
    yield from _advice(body, full=True)
    for variant, why in body.refused.items():
        yield f"no number: {variant}: {why.partition(': ')[2]}"


def _intervals(body: Body) -> Iterator[str]:
    if isinstance(body.interval, Point):
        best = body.interval
        yield f"one every {best.cycles:g} cycles per SM, with {best.warps} warps of {_chains(best.chains)}"
    for flight in body.interval if isinstance(body.interval, list) else []:
        yield f"one every {flight.cycles:g} cycles, {_flight(flight)}"
    if body.one_warp:
        yield f"one every {body.one_warp:g} cycles in one warp"
    if body.macs_per_cycle:
        yield f"{body.macs_per_cycle:g} multiply-adds per cycle per SM"
    for trip in body.round_trip:
        what = f"{trip.bytes} bytes" if trip.bytes else _flight(trip)
        yield f"from issue to the end of the wait {trip.cycles:g} cycles, {what}"


def _chains(count: int) -> str:
    return "1 chain" if count == 1 else f"{count} chains"


def _bounded(cost: "InstructionCost") -> Iterator[str]:
    if cost.above:
        most, measured = cost.above
        off = f"{measured:g} were measured, and a loop may be off by {TOLERANCE:.0%}"
        yield f"bounded by the stated peak of {most}: {off}"


def _flight(flight: Flight | Trip) -> str:
    groups = "1 warpgroup" if flight.warpgroups == 1 else f"{flight.warpgroups} warpgroups"
    return f"A in {_place(flight.a or '')}, {groups}, {flight.in_flight} in flight"


def _modes(body: Body, full: bool = False) -> Iterator[str]:
    """The numbers of several modes; without `full` the first, and how many more there are."""
    shown = body.modes if full else dict(list(body.modes.items())[:1])
    if body.modes:
        more = len(body.modes) - len(shown)
        yield in_modes(shown) + (f"; {more} more by --full" if more else "")


def _clocks(body: Body) -> Iterator[str]:
    for clock in body.clocks:
        yield f"all SMs at work, {clock.data}: {clock.mhz:g} MHz, one every {clock.cycles:g} cycles per SM"
    if body.mhz and body.interval is None and body.round_trip:
        yield f"in cycles of an SM at {body.mhz:g} MHz; L2 has its own clock, so a slower SM counts fewer"


# the table of products


def rates(lines: Sequence["Line"]) -> Iterator[str]:
    """A line for each type of A and family: shapes, the best cycles and rate, its share of the best of the type."""
    groups: dict[tuple[str, str, bool], list[Line]] = {}
    for line in lines:
        if line.cost.row:
            key = (line.cost.row.type("a"), line.cost.row.family, line.cost.body.emulated)
            groups.setdefault(key, []).append(line)
    yield "per SM, the fastest of each type and family; its share of the best of the type:"
    yield Whole(f"{'A':<5}{'family':<9}{'shape':<17}{'forms':>5}{'cycles':>10}{'multiply-adds':>15}{'share':>6}")
    for (type_, family, emulated), alike in sorted(groups.items(), key=_first_asked):
        best = [line for line in alike if line.share >= max(other.share for other in alike) * (1 - ALIKE)]
        shape, cycles = _sizes([line.cost for line in best])
        rate = max(line.cost.body.macs_per_cycle or 0 for line in best)
        share = max(line.share for line in best)
        native = "  emulated" if emulated else ""
        yield Whole(f"{type_:<5}{family:<9}{shape:<17}{len(alike):>5}{cycles:>10}{rate:>15.6g}{share:>6.0%}{native}")


def _first_asked(group: tuple[tuple[str, str, bool], Sequence["Line"]]) -> tuple[int, str, bool, float]:
    (type_, _, emulated), lines = group
    usual = USUAL_TYPES.index(type_) if type_ in USUAL_TYPES else len(USUAL_TYPES)
    return usual, type_, emulated, -max(line.share for line in lines)


def _sizes(costs: Sequence["InstructionCost"]) -> tuple[str, str]:
    """The shapes of forms that are as fast, n as a range, and their cycles."""
    rows = sorted((one for one in costs if one.row), key=lambda one: one.row.shape.n if one.row else 0)
    shapes = [one.row.shape for one in rows if one.row]
    low, high = shapes[0], shapes[-1]
    cycles = [_least(one.body) or 0.0 for one in rows]
    one_shape = {(shape.m, shape.k) for shape in shapes} == {(low.m, low.k)} and low.n != high.n
    shape = f"m{low.m}n{low.n}..{high.n}k{low.k}" if one_shape else f"m{high.m}n{high.n}k{high.k}"
    return shape, f"{cycles[0]:.4g}..{cycles[-1]:.4g}" if one_shape else f"{cycles[-1]:.4g}"
