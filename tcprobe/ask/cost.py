"""What instructions cost: the measured numbers, in words and as JSON, and what others state beside them.

A name of one is whole, shortened, a pattern, an opcode, or words in any order.

>>> from tcprobe.store.choose import default
>>> try:
...     found = costs(["mma.m16n8k16.row.col.f32.f16.f16.f32"], "sm_90", default())
... except UsageError as error:
...     print(str(error).split(" in ")[0])
... else:
...     print("no cost of 'mma.m16n8k16.row.col.f32.f16.f16.f32' is measured on sm_90")
no cost of 'mma.m16n8k16.row.col.f32.f16.f16.f32' is measured on sm_90
"""

import fnmatch
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import click
import msgspec

from tcprobe.ask import cost_words
from tcprobe.ask import prices as opcode_prices
from tcprobe.ask.confidence import UNMEASURED, Confidence, ConfidenceAnswer, SaidRuns, Status, in_finding
from tcprobe.ask.prices import Price, PriceAnswer, SaidModes
from tcprobe.errors import NoMajorityError, UsageError
from tcprobe.isa import arch, inventory, names
from tcprobe.isa.instruction import IMPLIED, Instruction
from tcprobe.isa.names import search
from tcprobe.isa.names.words import read
from tcprobe.isa.shared_memory import accesses, exchanges_and_copies
from tcprobe.question import terminal
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, plain
from tcprobe.question.arguments import arch_name, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.shared import FullOption, JsonOption, OneArch, OnlyOption, ResultsOption, SvgOption
from tcprobe.references.cost import Row, peak_row, rows_about
from tcprobe.references.cost import rows as stated_costs
from tcprobe.store.choose import layers
from tcprobe.store.finding import how, source_words
from tcprobe.store.kinds.cost import (
    FULL_LOAD,
    Body,
    ByLayout,
    Clock,
    Flight,
    Overlap,
    Passes,
    Point,
    Trip,
    bounded,
    peak,
)
from tcprobe.store.kinds.prices import CONSTANTS
from tcprobe.text import Described, Whole, quoted
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.isa.arch import Target
    from tcprobe.store.choose import Layers
    from tcprobe.store.finding import Finding, Sourced


AGREES = 0.05  # relative


class OverlapAnswer(Answer):
    """Cycles for one of each in every warp, `alone` and `together`; `hidden` is how much of the shorter is hidden."""

    with_: str
    alone: list[float]
    together: float
    warps: int
    hidden: float


class BoundByPeak(Answer):
    """Where more was measured than the arch can do, by what a loop may be off: its peak, which bounds all numbers here,
    and what was measured, both in multiply-adds per cycle of an SM.
    """

    peak: int
    measured: float


class CostAnswer(Answer, kw_only=True):
    """What an instruction costs, in cycles of an SM, one object per line."""

    id: str
    arch: str
    latency: dict[str, float] | float | None
    interval: Point | list[Flight] | None
    one_warp: float | None
    curve: list[Point]
    macs_per_cycle: float | None
    opcodes: dict[str, float]
    round_trip: list[Trip]
    emulated: bool | None
    at_most: list[str]
    spread: float | None
    evidence: str
    status: Annotated[
        Status,
        Meta(
            description="`published`: nobody measured it there, and `stated` has what others state; `contradicted`: "
            "devices disagree, no majority decides, and `runs` has what each found. Then no number is given."
        ),
    ]
    confidence: ConfidenceAnswer
    forms: list[ByLayout] | UnsetType = UNSET
    passes: list[Passes] | UnsetType = UNSET
    random: float | UnsetType = UNSET
    mhz: float | UnsetType = UNSET
    clocks: (
        Annotated[
            list[Clock],
            Meta(
                description="Where all SMs run the form: the clock it settles at, and cycles an SM needs for one, with "
                "zeros and with random numbers."
            ),
        ]
        | UnsetType
    ) = UNSET
    modes: SaidModes | UnsetType = UNSET
    refused: dict[str, str] | UnsetType = UNSET
    bound_by_peak: BoundByPeak | UnsetType = UNSET
    overlap: OverlapAnswer | UnsetType = UNSET
    stated: list[Row]
    runs: SaidRuns | UnsetType = UNSET
    share: float | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class InstructionCost(Described):
    """The cost of an instruction on an arch: measured; or without numbers, only stated by others, or contradicted.

    `sourced` is the finding that counts, with those that disagree with it; None where nothing was measured.
    """

    id: str
    arch: str
    body: Body
    evidence: str
    status: Literal["measured", "published", "contradicted"] = "measured"
    sourced: "Sourced | None" = None

    @property
    def picture(self) -> str | None:
        """Cycles by warps and chains, as SVG; None where no curve was measured."""
        from tcprobe.ask.figures import curve_svg

        return curve_svg(self.body.curve, f"{self.id} on {self.arch}") if self.body.curve else None

    @property
    def row(self) -> Instruction | None:
        """The instruction, None where it is a move that is not a row."""
        return inventory.instructions().get(self.id)

    @property
    def in_words(self) -> Iterator[str]:
        """Its opcodes, latency, throughput and round trips, what others state, and what it rests on."""
        return cost_words.words(self)

    def to_json(self, partner: str | None = None) -> Json:
        """Plain data; with a partner what their overlap is."""
        return plain(self.answer(partner))

    def answer(self, partner: str | None = None, share: float | UnsetType = UNSET) -> CostAnswer:
        """What `--json` prints: with a partner what their overlap is, in a table the `share` of the peak."""
        known = self.status == "measured"
        body = msgspec.to_builtins(self.body)
        points = [point for point in (body.get("interval"), *body.get("curve", [])) if isinstance(point, dict)]
        for point in points if isinstance(self.body.latency, dict) else []:
            point.setdefault("chains", 1)
        optional = ("forms", "passes", "random", "mhz", "clocks", "modes", "refused")
        return CostAnswer.of(
            self.body,
            id=self.id,
            arch=self.arch,
            interval=body.get("interval"),
            curve=body.get("curve", []),
            emulated=self.body.emulated if known else None,
            spread=self.body.spread if known else None,
            evidence=self.evidence,
            status=self.status,
            confidence=self.confidence.answer,
            **{name: body[name] for name in optional if name in body},
            bound_by_peak=BoundByPeak(*self.above) if self.above else UNSET,
            overlap=overlap_answer(partner, self.overlap(partner)) if partner else UNSET,
            stated=self.stated,
            runs=self.sourced.runs(_values) if self.sourced and self.sourced.otherwise else UNSET,
            share=share,
        )

    @property
    def above(self) -> tuple[int, float] | None:
        """The arch's peak and what was measured, in multiply-adds per cycle of an SM, where the peak bounds it."""
        if self.sourced is None or not self.body.macs_per_cycle:
            return None
        finding = self.sourced.finding
        most, measured = peak(finding), finding.body.macs_per_cycle
        return (most, measured) if most and measured > most else None

    @property
    def stated(self) -> list[Row]:
        """What others state of it, on any arch; where nothing is measured with the peak of its arch."""
        most = peak_row(self.row, self.arch) if self.status == "published" else None
        return [*rows_about(self.id), *([most] if most else [])]

    @property
    def confidence(self) -> Confidence:
        """In the numbers: counted over all runs, and what is stated of the same numbers on the arch."""
        if self.sourced is None:
            return UNMEASURED
        agreeing = [pair.agrees for pair in stated_numbers([self])]
        return in_finding(self.sourced, sum(agreeing), len(agreeing) - sum(agreeing))

    def overlap(self, partner: str) -> Overlap:
        """How much of both is hidden; UsageError where they were not timed together."""
        partners = [name for name in self.body.overlap if partner == name or search.shortens(partner, name)]
        if self.status == "contradicted" and self.sourced:
            self.sourced.settled  # noqa: B018  # raises
        if len(partners) != 1:
            timed = ", ".join(self.body.overlap) or "nothing"
            raise UsageError(f"{self.id} was not timed with {quoted(partner)} on {self.arch}, but with {timed}.")
        return self.body.overlap[partners[0]]


def overlap_answer(partner: str, overlap: Overlap) -> OverlapAnswer:
    """What `--json` prints of it."""
    return OverlapAnswer.of(overlap, with_=partner, hidden=round(overlap.hidden, 3))


def costs(patterns: Sequence[str], name: str | None, layers: "Layers") -> list[InstructionCost]:
    """The costs that names, patterns or opcodes mean on an arch, by default the newest with any; UsageError if none.

    Of what nobody measured there, but others state, what they state.
    """
    measured = (row.name for row in reversed(arch.ARCHS) if layers.has_findings(KIND, row.name))
    place = arch.arch(name).name if name else next(measured, None)
    if place is None:
        raise UsageError(f"no cost is measured in {layers.words}.", "no cost")
    named = [_named(pattern, place, layers) for pattern in patterns]
    if patterns and all(named):
        return [_cost(sourced) for found in named for sourced in found]
    saved = layers.findings(KIND, place)
    everything = list(saved) or stated_on(place, layers)
    ids = [id_ for pattern in patterns for id_ in subjects(pattern, place, saved, layers)] if patterns else everything
    if not ids:
        raise UsageError(f"no cost is measured on {place} in {layers.words}, and none is stated.", "no cost")
    return [_cost(saved[id_]) if id_ in saved else _stated(id_, place) for id_ in dict.fromkeys(ids)]


def _named(pattern: str, place: str, layers: "Layers") -> "list[Sourced]":
    """What a whole name, or words, mean among measured costs, without reading all; empty if that is needed."""
    meaning = names.resolve(pattern)
    if " " not in pattern:
        exact = layers.finding(KIND, place, search.as_id(meaning.name))
        return [exact] if exact else []
    found = ((row.id, layers.finding(KIND, place, row.id)) for row in meaning.instructions)
    return [sourced for _, sourced in sorted((id_, one) for id_, one in found if one)]


def find_cost(id_: str, name: str, layers: "Layers") -> InstructionCost | None:
    """The cost of one instruction, None where it is not measured."""

    sourced = layers.finding(KIND, name, id_)
    return _cost(sourced) if sourced else None


def _cost(sourced: "Sourced") -> InstructionCost:
    finding = sourced.finding
    if sourced.rivals:
        return InstructionCost(finding.subject, finding.arch, NOTHING, sourced.contradiction, "contradicted", sourced)
    evidence = f"{how(finding)} ({source_words(sourced.source)})"
    return InstructionCost(finding.subject, finding.arch, bounded(finding), evidence, "measured", sourced)


NOTHING = Body(opcodes={}, spread=0.0)  # where there are no numbers


def _stated(id_: str, name: str) -> InstructionCost:
    """What others state of an instruction that nobody measured on an arch."""
    row = inventory.instructions().get(id_)
    most = peak_row(row, name)
    rows = [stated for stated in (*rows_about(id_), most) if stated and stated.arch == name]
    sources = "; ".join(dict.fromkeys(stated.source for stated in rows))
    devices = " and ".join(dict.fromkeys(stated.device for stated in rows))
    return InstructionCost(id_, name, NOTHING, f"published for {devices}, not measured: {sources}", "published")


def _values(finding: "Finding") -> Json:
    """What a run found, as the answer's numbers are called."""
    body = msgspec.to_builtins(finding.body)
    named = ("latency", "interval", "one_warp", "macs_per_cycle", "opcodes", "round_trip")
    return {name: body[name] for name in named if name in body}


# what others state of the same numbers


class StatedAnswer(Answer):
    """A measured cost beside what somebody states, one object per line."""

    id: str
    arch: str
    number: str
    measured: float
    stated: float
    agrees: bool
    source: str
    device: str
    condition: str


class StatedNumber(NamedTuple):
    """What somebody states beside what was measured, both in the same unit."""

    row: Row
    id: str
    measured: float

    @property
    def agrees(self) -> bool:
        """Whether they differ by no more than AGREES."""
        return abs(self.measured / self.row.comparable - 1) <= AGREES

    @property
    def why(self) -> str:
        """What may explain a difference."""
        return self.row.condition or "the source does not say under which conditions"

    def to_json(self) -> Json:
        return plain(
            StatedAnswer.of(
                self.row, id=self.id, measured=self.measured, stated=self.row.comparable, agrees=self.agrees
            )
        )


def stated_numbers(instruction_costs: Sequence[InstructionCost]) -> list[StatedNumber]:
    """All that is stated of measured numbers on the same arch."""
    pairs = (
        (row, cost, number_of(cost.body, row.number))
        for cost in instruction_costs
        for row in rows_about(cost.id)
        if row.arch == cost.arch and row.number
    )
    return [StatedNumber(row, cost.id, value) for row, cost, value in pairs if value is not None]


def number_of(body: Body, number: str | None) -> float | None:
    """A number of a body by its name in references."""
    if number in ("shared interval", "registers interval") and isinstance(body.interval, list):
        place = number.split(" ")[0]
        return min((f.cycles for f in body.interval if f.a == place and f.warpgroups == 1), default=None)
    if number == "latency c" and isinstance(body.latency, dict):
        return body.latency.get("c")
    if number == "interval" and isinstance(body.interval, Point):
        return body.interval.cycles
    value = getattr(body, number or "", None)
    return value if isinstance(value, float | int) else None


class Line(NamedTuple):
    """A form in the table of products."""

    cost: InstructionCost
    share: float

    @property
    def words(self) -> str:
        """The form on one line."""
        cost, native = self.cost, "emulated" if self.cost.body.emulated else "native"
        return (
            f"{cost.id:<56}{cost_words.in_brief(cost):<44}{cost.body.macs_per_cycle:>8g} {self.share:>5.0%}  {native}"
        )


def table(instruction_costs: Sequence[InstructionCost]) -> list[Line]:
    """Multiplies by multiply-adds a cycle, with their share of the best form of that type on the arch."""
    rows = [(cost, cost.row, cost.body.macs_per_cycle) for cost in instruction_costs]
    best: dict[str, float] = {}
    for _, row, macs in rows:
        if row and macs:
            best[row.type("a")] = max(best.get(row.type("a"), 0.0), macs)
    lines = [Line(cost, macs / best[row.type("a")]) for cost, row, macs in rows if row and macs]
    return sorted(lines, key=lambda line: (line.cost.row.type("a") if line.cost.row else "", -line.share, line.cost.id))


# which measured costs a name means: a shortened one, a pattern, an opcode, words in any order
KIND = "cost"


def archs(layers: "Layers") -> list[str]:
    """Archs with costs, ascending."""
    return [row.name for row in arch.ARCHS if layers.has_findings(KIND, row.name)]


def subjects(pattern: str, place: str, costs: "dict[str, Sourced]", layers: "Layers") -> list[str]:
    """Subjects, measured, else stated, that a name, a pattern, words or an opcode mean; UsageError where none is."""
    if not search.as_id(pattern).startswith(FULL_LOAD):  # clocks under load are of the same instructions
        costs = {id_: sourced for id_, sourced in costs.items() if not id_.startswith(FULL_LOAD)}
    ids = _by_name(pattern, costs) or _by_opcode(pattern, costs) or _by_words(pattern, costs)
    if not ids:
        stated = stated_on(place, layers)
        ids = _by_name(pattern, stated) or _by_words(pattern, stated)
    if not ids:
        raise _no_cost(pattern, place, layers)
    return ids


def stated_on(place: str, layers: "Layers") -> list[str]:
    """What the arch has and of which others state a cost there; nothing where only a folder is asked."""
    if not layers.with_published:
        return []
    device, rows = arch.arch(place), inventory.instructions()
    targets = {**exchanges_and_copies(), **{name: access.target for name, access in accesses().items()}}
    targets |= {id_: row.target for id_, row in rows.items()}
    patterns = [row.forms for row in stated_costs() if row.arch == place]
    return [
        id_
        for id_, target in targets.items()
        if target.on(device)
        and (peak_row(rows.get(id_), place) or any(fnmatch.fnmatchcase(id_, pattern) for pattern in patterns))
    ]


def _by_name(pattern: str, ids: Iterable[str]) -> list[str]:
    """Subjects by their name, a shortened one or a pattern."""
    name, subjects_ = search.as_id(pattern), list(ids)
    return [name] if name in subjects_ else search.matching(name, subjects_)


def _by_opcode(opcode: str, costs: "dict[str, Sourced]") -> list[str]:
    """Subjects that become an opcode, or one that begins so: HMMA.16816.F32, or HMMA."""
    mnemonic = opcode.upper()
    exact = [id_ for id_, sourced in costs.items() if mnemonic in sourced.finding.body.opcodes]
    return exact or [
        id_ for id_, sourced in costs.items() if any(o.startswith(f"{mnemonic}.") for o in sourced.finding.body.opcodes)
    ]


def _by_words(text: str, ids: Iterable[str]) -> list[str]:
    """Subjects by words in any order: of rows as in every command, of other moves by the parts of their names."""
    rows = {row.id for row in names.resolve(text).instructions}
    reading = read(text)
    if not reading.words and not IMPLIED.isdisjoint(search.as_id(text).split(".")):
        return []  # a dotted name in another order than PTX's
    return [id_ for id_ in ids if id_ in rows] or [id_ for id_ in ids if reading.fits(id_.split("."), _omissions(id_))]


def _omissions(id_: str) -> list[str]:
    """What people leave out of parts of a name: 128 of ld.shared.b128, f16 of kind::f16."""
    parts = id_.split(".")
    sizes = [part[1:] for part in parts if part[0] == "b" and part[1:].isdigit()]
    return sizes + [part.rpartition("::")[2] for part in parts if "::" in part]


def _no_cost(pattern: str, place: str, layers: "Layers") -> UsageError:
    """Why there is no cost: nobody ran its loops, which may be of another GPU; or there are none."""
    from tcprobe.probes import dialogues

    nowhere = f"no cost of {quoted(pattern)} is measured on {place} in {layers.words}"
    others = {name: layers.findings(KIND, name) for name in archs(layers) if name != place}
    if there := [name for name, theirs in others.items() if _by_name(pattern, theirs) or _by_opcode(pattern, theirs)]:
        return UsageError(f"{nowhere}; it is on {', '.join(there)}.", "no cost")
    loops = dialogues(KIND)
    begun = [id_ for id_ in loops if id_.startswith(f"{search.as_id(pattern)}.")]
    loop_ids = _by_name(pattern, loops) or begun or _by_words(pattern, loops)
    if not loop_ids:
        return UsageError(
            f"tcprobe has no cost loop for {quoted(pattern)}. It times multiplies, matrix moves, loads and stores of "
            "shared memory, cp.async, bulk and tensor copies, and shfl. Name one of these, or an opcode."
        )
    why = _not_run_words({id_: loops[id_].target for id_ in loop_ids}, [arch.arch(name) for name in archs(layers)])
    return UsageError(f"{nowhere}{why}.", "no cost")


def _not_run_words(targets: "Mapping[str, Target]", devices: Sequence[arch.Arch]) -> str:
    """Which loops nobody ran, since no arch with costs runs their target; "" if there are none."""
    left = [id_ for id_, target in targets.items() if not any(map(target.on, devices))]
    if not left:
        return ""
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return f"; its timing loops assemble for {targets[left[0]].name}, but were never run: {left[0]}{more}"


# the question


def all_prices(name: str | None, layers: "Layers") -> list[Price]:
    """All prices on an arch, by default the newest with any; UsageError if there is none."""
    places = [name] if name else [row.name for row in reversed(arch.ARCHS)]
    every = next((list(found.values()) for place in places if (found := opcode_prices.prices(place, layers))), [])
    if not every:
        where = f" on {name}" if name else ""
        raise UsageError(f"no price of an opcode is measured{where} in {layers.words}.", "no price")
    return every


def opcode_prices_of(patterns: Sequence[str], name: str | None, layers: "Layers") -> list[Price]:
    """The prices that opcodes mean on an arch, by default the newest with any; empty where a pattern means none.

    Multiplies are instructions, with costs of their own. UsageError for an opcode whose price is measured elsewhere.
    """
    priced = {row.name: known for row in arch.ARCHS if (known := opcode_prices.prices(row.name, layers))}
    place = name or next(reversed(priced), "")
    found: dict[str, Price] = {}
    for pattern in (word for words in patterns for word in words.split()):
        opcode = pattern in CONSTANTS or (pattern.isupper() and "MMA" not in pattern.replace("HFMA2.MMA", ""))
        named = opcode_prices.named(pattern, priced.get(place, {})) if opcode else []
        others = [other for other, known in priced.items() if other != place and opcode_prices.named(pattern, known)]
        if opcode and not named and others:
            nowhere = f"no price of {quoted(pattern)} is measured on {place} in {layers.words}"
            raise UsageError(f"{nowhere}; it is on {', '.join(others)}.", "no price")
        if not named:
            return []
        found |= {price.id: price for price in named}
    return list(found.values())


@checked
def cost(
    name: Annotated[str | Sequence[str] | None, NameWords("[INSTRUCTION|OPCODE]...", "many", required=False)] = None,
    arch: OneArch = None,
    *,
    partner: Annotated[
        str | None, Option("--with", "Show how far the multiply and MOVE overlap: ldmatrix.x4, fma.rn.f32.", "MOVE")
    ] = None,
    as_table: Annotated[
        bool, Option("--table", "List multiplies by rate, with their share of the best of their type.")
    ] = False,
    as_opcodes: Annotated[
        bool, Option("--opcodes", "List the opcodes of main loops: latency by operand, interval, pipe.")
    ] = False,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> list[InstructionCost] | list[Price]:
    """Show what instructions cost: cycles from each operand to the result, between two of them, and round trips.

    Every number was measured, and the machine code of its loop was read; what papers and projects state stands beside
    it, and alone if nobody measured the arch. INSTRUCTION may be a shortened name, words, a pattern, or an opcode
    such as HMMA.16816.F32; other opcodes, such as FFMA, LDS.64 or 'MUFU.*', have a price in a main loop. Without one,
    --table or --arch shows all multiplies. --json prints one object per line.
    \f
    `InstructionCost.overlap` has the numbers of a `partner`, which is checked here, and `table` the shares.
    """
    patterns = [name] if isinstance(name, str) else list(name or ())
    if as_opcodes and (patterns or as_table or partner):
        raise UsageError("`as_opcodes` cannot be combined with an INSTRUCTION, `as_table` or `partner`.")
    if as_opcodes:
        return all_prices(arch_name(arch), layers(results, only))
    if not patterns and not as_table and arch is None:
        raise UsageError("give an INSTRUCTION or an opcode, `as_table` or `as_opcodes`.")
    if partner and as_table:
        raise UsageError("`partner` needs an INSTRUCTION and cannot be combined with `as_table`.")
    if partner and not patterns:
        raise UsageError("`partner` needs an INSTRUCTION.")
    if not as_table and not partner:
        priced = opcode_prices_of(patterns, arch_name(arch), layers(results, only))
        if priced:
            return priced
    as_table = as_table or not patterns
    found = costs(patterns, arch_name(arch), layers(results, only))
    rated = [line.cost for line in table(found)] if as_table else []
    return [*rated, *(one for one in found if not as_table or one.status != "measured")]


def _draw(found: Sequence[InstructionCost | Price], svg: Path) -> None:
    """Write the curve of the one instruction that is asked for; UsageError where there is none."""
    drawn = [one.picture for one in found if isinstance(one, InstructionCost) and one.picture]
    if len(found) != 1 or not drawn:
        raise UsageError("`svg` draws the curve of one instruction, measured by warps and chains.")
    from tcprobe.system import files

    files.write(svg, drawn[0].encode())


@command(
    cost,
    short="What an instruction costs: latency, throughput, overlap.",
    json={"": CostAnswer, "OPCODE": PriceAnswer},
)
def print_cost(
    found: list[InstructionCost] | list[Price],
    *,
    name: Sequence[str],
    partner: str | None,
    as_table: bool,
    as_opcodes: bool,
    full: FullOption = False,
    svg: SvgOption = None,
    as_json: JsonOption = False,
) -> None:
    """A table of the multiplies that were measured; of each other instruction or opcode its JSON or its words."""
    if svg:
        _draw(found, svg)
    if as_opcodes and not as_json:
        terminal.lines(map(Whole, opcode_prices.table([one for one in found if isinstance(one, Price)])))
        return
    if as_table or not (name or as_opcodes):
        lines = table([one for one in found if isinstance(one, InstructionCost)])
        if as_json:
            for line in lines:
                click.echo(json.dumps(plain(line.cost.answer(share=round(line.share, 3)))))
        elif lines:
            terminal.lines(line.words for line in lines) if full else terminal.lines(cost_words.rates(lines))
        found = [one for one in found if isinstance(one, InstructionCost) and one.status != "measured"]
    for one in found:
        if isinstance(one, Price):
            click.echo(json.dumps(one.to_json())) if as_json else terminal.lines(opcode_prices.words(one, full))
        else:
            click.echo(json.dumps(one.to_json(partner))) if as_json else terminal.lines(
                cost_words.words(one, partner, full)
            )
    if any(isinstance(one, InstructionCost) and one.status == "contradicted" for one in found):
        sys.exit(NoMajorityError.exit_code)
