"""What instructions cost and what multiplies compute: for the page of each instruction, and as tables to sort."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.ask import cost as costs_of
from tcprobe.ask import cost_words
from tcprobe.ask.cost import InstructionCost, archs, number_of
from tcprobe.ask.numerics import find
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import INPUTS
from tcprobe.pages.numbers import NUMERICS, PARAMETER_HEADS, parameters
from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts, for_every_n
from tcprobe.pages.site.markup import Links, ListPart, View, cells, filled, list_page
from tcprobe.store.kinds.cost import Point
from tcprobe.text import Whole
from tcprobe.values import Json

COST_PAGE, WMMA_PAGE, NUMERICS_PAGE = "cost.html", "cost-wmma.html", "numerics.html"
SHOWN_N = (8, 16, 32, 64, 128, 256)
PLACES = {"shared": "in shared memory", "registers": "in registers"}
HEADS = ("Instruction", "From A", "From B", "From C", "One warp", "SM", "Warps x chains", "Multiply-adds per cycle")
WIDE, HIGH = 320, 120  # of a curve
CONDITIONS = (
    "Cycles of an SM: the difference of two loop counts, and the machine code of the loop was read. One block has its "
    "SM for itself, other SMs may be busy, inputs are zeros, and the clock's mode is unknown. A latency runs "
    "from one operand to D; an interval is the time between two of the same form, in one warp or on the whole SM."
)
ARITHMETIC = (
    "Products a sum: how many one sum adds. Each term is cut toward zero to a multiple of 2^(top - F), where top is "
    "the "
    "largest exponent of all terms, and the result is rounded once. Forms that differ in m, n and layout are one row."
)


class Curve(NamedTuple):
    """Cycles by warps as a line: its points as SVG has them, and as words."""

    line: str
    points: Sequence[tuple[float, float, str]]
    most: str


def numbers(facts: Facts, instruction: Instruction) -> Json:
    """What an instruction's page says of cost and arithmetic, an arch at a time; where nobody measured, that."""
    costs = [*_costs(facts, instruction)]
    arithmetic = [*_arithmetic(facts, instruction)] if instruction.multiplies else []
    return {
        "costs": costs,
        "timed": " ".join(entry["arch"] for entry in costs),
        "arithmetic": arithmetic,
        "computed": " ".join(entry["arch"] for entry in arithmetic),
        "multiplies": instruction.multiplies,
    }


def _costs(facts: Facts, instruction: Instruction) -> Iterator[Json]:
    for arch in archs(facts.layers):
        cost = costs_of.find_cost(instruction.id, arch, facts.layers)
        if cost:
            said = list(cost_words.words(cost))[1:]
            lines = [line.strip() for line in said if not isinstance(line, Whole) and not line.endswith(":")]
            table = (
                [line for line in said if isinstance(line, Whole) or line.endswith(":")] if not cost.body.curve else []
            )
            by_n = _by_n(facts, instruction, arch) if instruction.threads == WARPGROUP else []
            page = addresses.device(cost.evidence.removeprefix("live on ").partition(", CUDA")[0])  # that was timed
            yield {
                "arch": arch,
                "lines": [line.replace(" by --full", "") for line in lines],
                "table": "\n".join(table),
                "by_n": by_n,
                "curve": _curve(cost.body.curve),
                "maker": page if page in facts.made_by else "",
            }


def _by_n(facts: Facts, instruction: Instruction, arch: str) -> list[list[str]]:
    """(N, interval with A shared, with A in registers) for every N that was timed."""
    lines = []
    for other in _every_n(instruction):
        if cost := costs_of.find_cost(other.id, arch, facts.layers):
            each = [number_of(cost.body, f"{place} interval") for place in PLACES]
            lines.append([str(other.shape.n), *("-" if interval is None else f"{interval:g}" for interval in each)])
    return lines


def _every_n(instruction: Instruction) -> list[Instruction]:
    name = for_every_n(instruction.id, instruction.shape)
    alike = (other for other in inventory.executed_by(WARPGROUP) if for_every_n(other.id, other.shape) == name)
    return sorted(alike, key=lambda other: other.shape.n)


def _curve(points: Sequence[Point]) -> Curve | None:
    """The best of all chains for each count of warps."""
    best: dict[int, float] = {}
    for point in points:
        best[point.warps] = min(best.get(point.warps, point.cycles), point.cycles)
    if len(best) < 2:
        return None
    top, counts = max(best.values()), sorted(best)
    step = (WIDE - 60) / (len(counts) - 1)
    points_drawn = [
        (40 + step * n, 10 + (HIGH - 30) * (1 - best[count] / top), f"{count} warps: {best[count]:g} cycles")
        for n, count in enumerate(counts)
    ]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y, _ in points_drawn)
    return Curve(line, [(round(x), round(y), words) for x, y, words in points_drawn], f"{top:g}")


def _arithmetic(facts: Facts, instruction: Instruction) -> Iterator[Json]:
    for arch in facts.archs:
        if facts.layers.findings(NUMERICS, arch):
            numerics = find(instruction, arch_row(arch), facts.layers)
            if numerics and numerics.sourced:
                yield {"arch": arch, "lines": list(numerics.facts)}


def number_pages(facts: Facts) -> list[View]:
    """The tables of cost and of arithmetic, as far as somebody measured."""
    # those of wmma, which are many: a form for each layout of A and B
    parts = []
    for arch in archs(facts.layers):
        measured = [cost for cost in costs_of.costs([], arch, facts.layers) if _is_wmma(cost)]
        rows = [_multiply(facts, cost) for cost in measured]
        parts += [ListPart(arch, arch, f"{arch}, {measured[0].evidence}.", HEADS, rows, sorts=True)] if rows else []
    tables = [
        (COST_PAGE, "What instructions cost", CONDITIONS, _cost_parts(facts)),
        (WMMA_PAGE, "What wmma costs", CONDITIONS, parts),
        (NUMERICS_PAGE, "What multiplies compute", ARITHMETIC, _numeric_parts(facts)),
    ]
    return [
        list_page(page, title, f"{title}, as measured", [words], parts) for page, title, words, parts in tables if parts
    ]


def _cost_parts(facts: Facts) -> list[ListPart]:
    parts = []
    for arch in archs(facts.layers):
        measured = {cost.id: cost for cost in costs_of.costs([], arch, facts.layers)}
        plain = [cost for cost in measured.values() if isinstance(cost.body.latency, dict) and not _is_wmma(cost)]
        multiplies = [_multiply(facts, cost) for cost in plain]
        on_moves = (cost for cost in measured.values() if not isinstance(cost.body.latency, dict))
        moves = [_move(facts, cost) for cost in on_moves if isinstance(cost.body.interval, Point)]
        copies = [
            cells(cost.id, ", ".join(f"{trip.bytes} bytes {trip.cycles:g}" for trip in cost.body.round_trip))
            for cost in measured.values()
            if cost.body.interval is None and cost.body.round_trip
        ]
        by_n = ["Instruction", "A", *(f"N = {n}" for n in SHOWN_N)]
        move_heads, copy_heads = ["Instruction", "Latency", "One warp", "SM"], ["Instruction", "Cycles by bytes"]
        evidence = next(iter(measured.values())).evidence
        parts += [
            ListPart(
                f"{arch}: multiplies of a warp", f"{arch}-warp", f"{arch}, {evidence}.", HEADS, multiplies, sorts=True
            ),
            ListPart(
                f"{arch}: multiplies of a warpgroup, by N",
                f"{arch}-warpgroup",
                "Cycles between two of them.",
                by_n,
                [*_groups(facts, measured)],
                sorts=True,
            ),
            ListPart(f"{arch}: moves", f"{arch}-moves", "", move_heads, moves, sorts=True),
            ListPart(f"{arch}: bulk copies", f"{arch}-copies", "From issue to the end of waiting.", copy_heads, copies),
        ]
    return filled(parts)


def _is_wmma(cost: InstructionCost) -> bool:
    return cost.row is not None and cost.row.family == "wmma"


def _instruction_link(facts: Facts, id_: str) -> Links:
    row = inventory.instructions().get(id_)
    name = facts.name(row) if row and all(f.id in facts.by_fragment for f in row.fragments) else id_
    return [(id_, addresses.instruction(name) if name in facts.instructions else "")]


def _number(figure: float | None) -> Links:
    return [("-" if figure is None else f"{figure:g}", "")]


def _multiply(facts: Facts, cost: InstructionCost) -> list[Links]:
    body = cost.body
    latency = body.latency if isinstance(body.latency, dict) else {}
    each = [
        [(f"{latency[o]:g}" + (" at most" if o in body.at_most else "") if o in latency else "-", "")] for o in INPUTS
    ]
    point = body.interval if isinstance(body.interval, Point) else None
    best = (_number(point.cycles), [(f"{point.warps} x {point.chains}", "")]) if point else ([("-", "")], [("-", "")])
    name = [*_instruction_link(facts, cost.id), *([("emulated", "")] if body.emulated else [])]
    return [name, *each, _number(body.one_warp), *best, _number(body.macs_per_cycle)]


def _groups(facts: Facts, timed: dict[str, InstructionCost]) -> Iterator[list[Links]]:
    smallest = [row for row in inventory.executed_by(WARPGROUP) if row.shape.n == SHOWN_N[0]]
    for row in smallest:
        by_n = {other.shape.n: timed.get(other.id) for other in _every_n(row)}
        for place, words in PLACES.items():
            each = [number_of(cost.body, f"{place} interval") if cost else None for cost in map(by_n.get, SHOWN_N)]
            if any(value is not None for value in each):
                name = for_every_n(row.id, row.shape)
                page = addresses.instruction(name) if name in facts.instructions else ""
                yield [[(name, page)], [(words, "")], *map(_number, each)]


def _move(facts: Facts, cost: InstructionCost) -> list[Links]:
    body = cost.body
    cycles = body.interval.cycles if isinstance(body.interval, Point) else None
    latency = body.latency if isinstance(body.latency, float) else None
    return [_instruction_link(facts, cost.id), _number(latency), _number(body.one_warp), _number(cycles)]


def _numeric_parts(facts: Facts) -> list[ListPart]:
    parts = []
    for arch in facts.archs:
        findings = [sourced.finding for sourced in facts.layers.findings(NUMERICS, arch).values()]
        floats, whole, unfit = list[list[Links]](), list[list[Links]](), list[list[Links]]()
        for finding in findings:
            body, form = finding.body, _instruction_link(facts, finding.subject)
            wrong = f"{body.wrong} of {body.random}"
            if body.floats:
                floats.append([form, *cells(*parameters(body.floats), wrong)])
            if body.integers:
                whole.append([form, *cells(body.integers.overflow, body.integers.satfinite or "-", wrong)])
            if body.unfit:
                unfit.append([form, *cells(body.unfit)])
        exact, heads = "Sums are exact.", ["Form", "Beyond 32 bits", "With .satfinite", "Wrong of cases"]
        parts += [
            ListPart(f"{arch}: floats", f"{arch}-floats", "", PARAMETER_HEADS[:-1], floats, sorts=True),
            ListPart(f"{arch}: integers", f"{arch}-integers", exact, heads, whole, sorts=True),
            ListPart(f"{arch}: no model", f"{arch}-unfit", "", ["Form", "Why"], unfit),
        ]
    return filled(parts)
