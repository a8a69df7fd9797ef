"""Three pages of numbers, from findings: what instructions and opcodes cost, and what multiplies compute.

A table for each arch and kind of instruction; forms of the same arithmetic share a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tcprobe.arithmetic.parameters import BEFORE, Arithmetic, subject
from tcprobe.ask.cost import InstructionCost, archs, costs, number_of, stated_numbers
from tcprobe.ask.prices import Price, prices
from tcprobe.isa import inventory
from tcprobe.isa.operand import INPUTS, MATRICES
from tcprobe.pages.tables import code, fitting, page
from tcprobe.references.numerics import published_row
from tcprobe.store.choose import Layers, alone
from tcprobe.store.finding import Finding
from tcprobe.store.kinds.cost import FULL_LOAD, Point
from tcprobe.store.kinds.numerics import words
from tcprobe.store.results import Results
from tcprobe.text import markdown

HEADS = ("instruction", "latency A, B, C", "one warp", "an SM", "warps x chains", "multiply-adds per cycle")
GROUP_HEADS = ("instruction", "interval, A shared", "A in registers", "round trip, A shared", "multiply-adds per cycle")
MOVE_HEADS = ("instruction", "latency", "one warp", "an SM", "warps", "2, 4, 8 passes")
COPY_HEADS = ("instruction", "round trip")
CLOCK_HEADS = ("all SMs at work", "MHz, zeros", "MHz, random", "random over zeros", "cycles, zeros", "cycles, random")


def has_costs(results: Results) -> bool:
    """Whether there is anything to show."""
    return bool(archs(alone(results)))


def costs_page(results: Results) -> list[str]:
    """A section an arch."""
    layers = alone(results)
    evidence = ((name, markdown(costs([], name, layers)[0].evidence)) for name in archs(layers))
    return page("costs.md", archs=[(name, words, list(_cost_tables(name, layers))) for name, words in evidence])


def _cost_tables(name: str, layers: Layers) -> Iterator[tuple[Sequence[str], list[Sequence[str]]]]:
    """(heads, rows) of each table."""
    measured = costs([], name, layers)
    multiplies = [cost for cost in measured if isinstance(cost.body.latency, dict)]
    groups = [cost for cost in measured if isinstance(cost.body.interval, list)]
    moves = [cost for cost in measured if isinstance(cost.body.interval, Point) and cost not in multiplies]
    copies = [cost for cost in measured if cost.body.round_trip and cost.body.interval is None]
    loads = [cost for cost in measured if cost.body.clocks]
    comparisons = [
        (
            p.id,
            str(p.row.number),
            f"{p.measured:g}",
            f"{p.row.comparable:g}",
            p.row.source,
            "agrees" if p.agrees else f"differs: {p.why}",
        )
        for p in stated_numbers(measured)
    ]
    tables: tuple[tuple[Sequence[str], Iterable[Sequence[str]]], ...] = (
        (HEADS, map(_multiply_row, multiplies)),
        (GROUP_HEADS, map(_group_row, groups)),
        (MOVE_HEADS, map(_move_row, moves)),
        (COPY_HEADS, map(_copy_row, copies)),
        (CLOCK_HEADS, map(_clocks, loads)),
        (("instruction", "number", "measured", "stated", "by", ""), comparisons),
    )
    yield from ((heads, rows) for heads, lines in tables if (rows := list(lines)))


def _multiply_row(cost: InstructionCost) -> Sequence[str]:
    body = cost.body
    latency = body.latency if isinstance(body.latency, dict) else {}
    each = [("at most " if o in body.at_most else "") + f"{latency[o]:g}" if o in latency else "-" for o in INPUTS]
    point = body.interval
    best = (f"{point.cycles:g}", f"{point.warps} x {point.chains}") if isinstance(point, Point) else ("", "")
    name = f"`{cost.id}`" + (", emulated" if body.emulated else "")
    return name, ", ".join(each), _number_cell(body.one_warp), *best, _number_cell(body.macs_per_cycle)


def _group_row(cost: InstructionCost) -> Sequence[str]:
    body = cost.body
    trip = next((t.cycles for t in body.round_trip if (t.a, t.warpgroups, t.in_flight) == ("shared", 1, 1)), None)
    sides = (_number_cell(number_of(body, f"{place} interval")) for place in ("shared", "registers"))
    return f"`{cost.id}`", *sides, _number_cell(trip), _number_cell(body.macs_per_cycle)


def _move_row(cost: InstructionCost) -> Sequence[str]:
    body, point = cost.body, cost.body.interval
    best = (f"{point.cycles:g}", str(point.warps)) if isinstance(point, Point) else ("", "")
    latency = body.latency if isinstance(body.latency, float) else None
    passes = ", ".join(f"{run.cycles:g}" for run in body.passes[1:])
    return f"`{cost.id}`", _number_cell(latency), _number_cell(body.one_warp), *best, passes or "-"


def _copy_row(cost: InstructionCost) -> Sequence[str]:
    return f"`{cost.id}`", fitting([f"{trip.bytes} bytes {trip.cycles:g}" for trip in cost.body.round_trip])


def _clocks(cost: InstructionCost) -> Sequence[str]:
    zeros, random = (next(clock for clock in cost.body.clocks if clock.data == data) for data in ("zeros", "random"))
    name, share = cost.id.removeprefix(f"{FULL_LOAD}."), f"{random.mhz / zeros.mhz:.0%}"
    return f"`{name}`", f"{zeros.mhz:g}", f"{random.mhz:g}", share, f"{zeros.cycles:g}", f"{random.cycles:g}"


def _number_cell(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:g}"


PRICE_HEADS = ("opcode", "covers", "latency A, B, C", "one warp", "an SM", "warps x chains", "pipe")


def prices_page(results: Results) -> list[str]:
    """A section an arch: a row an opcode, then the constants of an SM."""
    layers, sections = alone(results), []
    for name in results.archs():
        found = prices(name, layers)
        rows = [_price_row(price) for price in found.values() if price.interval]
        constants = [
            f"`{price.id}`, cycles by {axis}: " + ", ".join(f"{point.at}: {point.cycles:g}" for point in points)
            for price in found.values()
            for axis, points in price.body.by.items()
        ]
        if rows:
            sections.append((name, markdown(next(iter(found.values())).evidence), rows, constants))
    return page("prices.md", archs=sections, PRICE_HEADS=PRICE_HEADS)


def _price_row(price: Price) -> Sequence[str]:
    each = [_number_cell(cycles) for cycles in price.latency.values()]
    latency = ("at most " if price.body.at_most else "") + ", ".join(each)
    point = price.interval
    best = (f"{point.cycles:g}", f"{point.warps} x {point.chains}") if point else ("", "")
    covers = fitting(code(price.body.covers), 60)
    return f"`{price.id}`", covers, latency, _number_cell(price.one_warp), *best, price.pipe


NUMERICS = "numerics"
PARAMETER_HEADS = ("form", "products a sum", "F", "result", "C", "wrong of cases", "published")
END_HEADS = ("form", "least exponent", "NaN", "beyond the largest", "all -0", "subnormals", "otherwise")
INTEGER_HEADS = ("form of integers", "beyond 32 bits", "with .satfinite", "cases", "wrong")


def numerics_page(results: Results) -> list[str]:
    """A section an arch: floats by parameters, then integers."""
    layers, sections = alone(results), []
    for name in results.archs():
        findings = _in_order([sourced.finding for sourced in layers.findings(NUMERICS, name).values()])
        if findings:
            floats = [finding for finding in findings if finding.body.floats]
            unfit = [
                f"- {code([f.subject])[0]} has no model: {markdown(f.body.unfit)}" for f in findings if f.body.unfit
            ]
            rows = [_parameter_row(f) for f in floats], [_end_row(f) for f in floats]
            integers = [_integer_row(f) for f in findings if f.body.integers]
            sections.append((name, markdown(words(findings)), *rows, unfit, integers))
    heads = {"PARAMETER_HEADS": PARAMETER_HEADS, "END_HEADS": END_HEADS, "INTEGER_HEADS": INTEGER_HEADS}
    return page("numerics.md", archs=sections, **heads)


def _parameter_row(finding: Finding) -> list[str]:
    body = finding.body
    cases = f"{body.wrong} of {body.random}"
    return [*code([finding.subject]), *parameters(body.floats), cases, _published_words(finding)]


def _end_row(finding: Finding) -> list[str]:
    """What becomes of terms and sums at the ends of the formats."""
    rule = finding.body.floats
    floor = "" if rule.exponent_floor is None else str(rule.exponent_floor)
    ends = (floor, rule.nan or "several", rule.overflow or "", "-0" if rule.negative_zero else "+0")
    return [*code([finding.subject]), *ends, _subnormals(rule), _otherwise(rule)]


def _integer_row(finding: Finding) -> list[str]:
    rule, body = finding.body.integers, finding.body
    return [*code([finding.subject]), rule.overflow, rule.satfinite or "", str(body.random), str(body.wrong)]


def _subnormals(arithmetic: Arithmetic) -> str:
    """The operands whose subnormals count, and those whose do not."""
    handling = {name: getattr(arithmetic.subnormals, name) for name in MATRICES}
    count, lost = ("".join(name for name, value in handling.items() if value is kept) for kept in (True, False))
    return " ".join(filter(None, (count.upper(), f"not {lost.upper()}" if lost else "")))


def _otherwise(arithmetic: Arithmetic) -> str:
    """Operands that are not read as they are stored, and sums that are not of D's type."""
    unread = f"low {arithmetic.unread_bits} bits of A, B unread" if arithmetic.unread_bits else ""
    normal = f"{', '.join(arithmetic.normalized).upper()} normalized" if arithmetic.normalized else ""
    through = f"sums are f32, {arithmetic.through_f32}" if arithmetic.through_f32 else ""
    first = f"{arithmetic.summed_first} products summed first" if arithmetic.summed_first > 1 else ""
    return "; ".join(filter(None, (unread, normal, through, first)))


def parameters(arithmetic: Arithmetic) -> list[str]:
    """Products a sum, F, the result and what C is, as the page has them."""
    sizes = [len(group) for group in arithmetic.groups]
    exact = arithmetic.fraction_bits is None
    single = f"1, in f32: {' + '.join(map(str, sizes))}" if arithmetic.c == BEFORE else "1, fused"
    groups = single if exact else str(sizes[0]) if len(sizes) == 1 else " + ".join(map(str, sizes))
    result = f"{arithmetic.result_bits} bits, {arithmetic.rounding}"
    return [groups, "" if exact else str(arithmetic.fraction_bits), result, arithmetic.c]


def _published_words(finding: Finding) -> str:
    """What others say of the chip: products and F, where they speak of such an instruction."""
    row = inventory.instructions()[finding.subject]
    published = published_row(row, finding.arch)
    if published is None or row.family not in published.families:
        return ""
    return " ".join(
        f"{name} {value}" for name, value in (("K", published.products), ("F", published.fraction_bits)) if value
    )


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    """In the order of the inventory."""
    rows = [row for row in inventory.instructions().values() if row.multiplies and not row.unprobed]
    order = {subject(row): number for number, row in enumerate(rows)}
    return sorted(findings, key=lambda finding: order.get(finding.subject, len(order)))
