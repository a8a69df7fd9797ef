"""Which rule of banks holds on an arch, and what it rests on: measured there, measured elsewhere, or only designed.

A measured rule is a finding of kind `banks` for each access. An arch without all of them gets those of sm_90, and is
marked.

Addresses of warps as programs and people give them, checked: lines of JSON, a file of 32 numbers, an expression.

What is refused, because no such access exists: an address that is not a multiple of the access's bytes, one outside the
228 KiB of the largest shared memory, an idle lane of ldmatrix or stmatrix. What their further lanes give (8 to 31 of
.x1, 16 to 31 of .x2) does not count and may be anything. All lanes may be idle: such an access costs nothing.

Who collides with whom: each phase of one access, its passes, and the lanes that meet in a bank.

>>> from tcprobe.layout.banks import designed_rules
>>> from tcprobe.isa.shared_memory import access
>>> row = access("st.shared.b64")
>>> first, second = phases(check_pattern(row, [16 * (lane % 16) for lane in range(32)]), designed_rules()[row.name])
>>> first.passes, [str(c) for c in first.collisions][:1]
(2, ['banks 0-1: lanes 0 | 8'])
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tcprobe.ask.confidence import UNMEASURED, Confidence, ConfidenceAnswer, in_rules
from tcprobe.ask.figures import bank_map, bank_map_svg
from tcprobe.errors import DataError, TcprobeError, UsageError
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.shared_memory import MOST_SHARED, SharedAccess, access, accesses
from tcprobe.layout.banks import LINE, WORD, BankRule, Cost, Judge, SourceTags, agree, as_array, designed_rules
from tcprobe.layout.expression import values
from tcprobe.layout.table import ranges
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.store.choose import Layers, layers_of
from tcprobe.store.finding import Sourced
from tcprobe.store.kinds.banks import words
from tcprobe.store.results import Results
from tcprobe.system import files
from tcprobe.values import Json

KIND, MEASURED = "banks", "sm_90"  # the arch whose rule the others borrow


class BankRuleAnswer(Answer):
    """The rule of an arch, and of which one it was asked."""

    arch: str
    asked: str
    measured: bool
    words: str
    confidence: ConfidenceAnswer


class CollisionAnswer(Answer):
    """Parties of lanes that meet in banks; a party is served together."""

    memory: str
    banks: tuple[int, ...]
    lanes: tuple[tuple[int, ...], ...]


class PhaseAnswer(Answer):
    """Lanes that are served together, in so many wavefronts, and those that collide."""

    wavefronts: int
    lanes: tuple[int, ...]
    collisions: list[CollisionAnswer]


class PatternAnswer(Answer):
    """A line of banks --patterns, or banks --address."""

    wavefronts: int
    beats: int
    cycles: int
    ideal: int
    phases: list[int | PhaseAnswer]
    lookups: int | UnsetType = UNSET
    timed: int | UnsetType = UNSET
    rule: BankRuleAnswer | UnsetType = UNSET


class AllRules(Answer):
    """The rule of every access that an arch has."""

    rule: BankRuleAnswer
    accesses: dict[str, BankRule]


@dataclass(frozen=True)
class BankRules:
    """The rules by access that answer for arch `for_arch`; they are `arch`'s. `measured`: how, if it is published.

    `tags` of the sources of accesses that look them up. `layers`: the findings that were asked, None for none.
    `contradicted`: what devices found of accesses of which no majority says which rule is right.
    """

    for_arch: str
    arch: str
    rules: Mapping[str, BankRule]
    measured: str | None
    tags: Mapping[str, SourceTags] = field(default_factory=dict)
    layers: Layers | None = field(default=None, repr=False, compare=False)
    contradicted: Mapping[str, Sourced] = field(default_factory=dict, repr=False, compare=False)

    def rule(self, access: SharedAccess) -> BankRule:
        """Of one access; UsageError where the arch does not have it, and where no rule is known of it.

        NoMajorityError where as many devices found one rule as another.
        """
        access.check_on(arch(self.for_arch))
        if access.name not in self.rules:
            raise UsageError(f"{access.name}: how its lanes collide in banks is not measured.")
        if access.name in self.contradicted:
            return self.contradicted[access.name].settled.body.rule  # type: ignore[no-any-return]  # raises
        return self.rules[access.name]

    def judge(self, access: SharedAccess) -> Judge:
        """Of one access; UsageError as `rule`."""
        return Judge(access, self.rule(access))

    @property
    def evidence(self) -> str:
        """What the rules rest on, in words."""
        if self.measured and self.for_arch == self.arch:
            return f"measured on {self.arch}, {self.measured}"
        words = f"{self.arch}'s, measured {self.measured}" if self.measured else f"{self.arch}'s by design"
        return f"{words}; no measurement of {self.for_arch} is published"

    @property
    def confidence(self) -> Confidence:
        """In the rules, of the arch that was asked; the design that they are held against is a reference."""
        if self.layers is None or self.measured is None or self.for_arch != self.arch:
            return UNMEASURED
        findings = list(self.layers.findings(KIND, self.arch).values())
        alike = sum(rule == designed_rules().get(name) for name, rule in self.rules.items())
        return in_rules(findings, alike, len(self.rules))

    @property
    def answer(self) -> BankRuleAnswer:
        """What `--json` prints of it."""
        measured = self.measured is not None and self.for_arch == self.arch
        return BankRuleAnswer(self.arch, self.for_arch, measured, self.evidence, self.confidence.answer)

    def to_json(self) -> dict[str, object]:
        return plain(self.answer)


def rules_for(name: str | None, results: Results | Layers) -> BankRules:
    """The rules for arch `name`, sm_90 without one; UsageError for an unknown arch, DataError for a damaged file."""
    arch_name, layers = arch(name or MEASURED).name, layers_of(results)
    for source in dict.fromkeys((arch_name, MEASURED)):
        saved = layers.findings(KIND, source)
        findings = {n: sourced.finding for n, sourced in saved.items()}
        if findings.keys() == {row.name for row in accesses().values() if row.target.on(arch(source))}:
            rules = {n: finding.body.rule for n, finding in findings.items()}
            tags = {n: finding.body.tags for n, finding in findings.items() if finding.body.tags}
            rivals = {n: sourced for n, sourced in saved.items() if sourced.rivals}
            made = "; ".join(
                (words(list(findings.values())), *(o.contradiction for o in saved.values() if o.otherwise))
            )
            return BankRules(arch_name, source, rules, made, tags, layers, rivals)
    return BankRules(arch_name, MEASURED, designed_rules(), None, layers=layers)


MOST_BYTES = 256 << 20  # of a file of patterns
MOST_LANES_BYTES = 1 << 16  # of a file of 32 addresses
ENDS = {"address": MOST_SHARED, "source": 1 << 62}  # of memory
LaneAddress = int | None
LaneAddresses = Sequence[LaneAddress]


class Pattern(NamedTuple):
    """One access: 32 addresses, None for idle lanes, also of cp.async's sources; and the arch whose rule counts."""

    row: SharedAccess
    address: LaneAddresses
    source: LaneAddresses | None = None
    arch: str | None = None


def check_pattern(access: SharedAccess, address_array: object, source: object = None) -> Pattern:
    """A checked pattern; UsageError says which lane's address cannot be."""
    counted = [*_lanes(address_array, "address")[: access.lanes], *[None] * (WARP - access.lanes)]
    _check(access, counted, "address")
    if access.is_matrix and None in counted[: access.lanes]:
        raise UsageError(
            f"address: lane {counted.index(None)} has none; {access.name} needs one of {access.lanes} lanes."
        )
    return Pattern(access, counted, None if source is None else _source(access, counted, _lanes(source, "source")))


def _source(access: SharedAccess, counted: LaneAddresses, source_addresses: LaneAddresses) -> LaneAddresses:
    """The sources of the lanes that copy."""
    if not access.has_source:
        raise UsageError(f"source: {access.name} reads no global memory; only cp.async has a source.")
    used = [None if to is None else from_ for to, from_ in zip(counted, source_addresses, strict=True)]
    _check(access, used, "source")
    if used.count(None) != counted.count(None):
        raise UsageError("source: every lane with an address needs a source too.")
    return used


def _lanes(array: object, what: str) -> LaneAddresses:
    """`array`, if it is 32 whole numbers or None."""
    if not isinstance(array, list | tuple) or len(array) != WARP:
        raise UsageError(f"{what}: {WARP} numbers or null are needed, one for each lane.")
    if not set(map(type, array)) <= {int, type(None)}:
        lane, wrong = next((i, v) for i, v in enumerate(array) if type(v) not in (int, type(None)))
        raise UsageError(f"{what}: lane {lane} has {str(wrong)[:40]!r}; whole numbers or null are needed.")
    return array


def _check(access: SharedAccess, counted: LaneAddresses, what: str) -> None:
    """UsageError unless all are multiples of the access's bytes, from 0 to below the end of what memory there is."""
    step, end = access.bytes, ENDS[what]
    for lane, value in enumerate(counted):
        if value is not None and (value % step or not 0 <= value < end):
            why = f"not a multiple of {step}" if value % step else f"outside 0 to {end - 1}"
            raise UsageError(f"{what}: lane {lane} has {_short(value)}, which is {why}.")


def _short(value: int) -> str:
    return str(value) if value.bit_length() < 80 else f"a number of {value.bit_length()} bits"


def lanes_of(text: str) -> list[LaneAddress]:
    """32 addresses from an expression in `lane`, or from @FILE: numbers and null, commas or spaces between."""
    if not text.startswith("@"):
        return list(values(text))
    words = re.sub(r"[\[\],]", " ", files.read_text(text[1:], MOST_LANES_BYTES)).split()
    wrong = [word for word in words if not re.fullmatch(r"null|[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}", word)]
    if wrong or len(words) != WARP:
        why = f"{wrong[0][:40]!r} is not a number" if wrong else f"{len(words)} numbers"
        raise DataError(f"{text[1:]}: {why}; it needs {WARP} numbers or null, one for each lane.")
    return [None if word == "null" else int(word, 16 if word[:2] in ("0x", "0X") else 10) for word in words]


def read_patterns(path: Path) -> list[Pattern]:
    """The patterns of a file of JSON lines, blank lines aside; DataError names the first bad line.

    A line has op, address and maybe source and arch; further keys are the writer's own.
    """
    patterns = []
    for number, line in enumerate(files.read_text(path, MOST_BYTES).split("\n"), 1):
        if line.strip():
            try:
                patterns.append(_pattern(line))
            except TcprobeError as error:
                raise DataError(f"{path}, line {number}: {error}") from None
    return patterns


def _pattern(line: str) -> Pattern:
    try:
        record = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON ({str(error)[:80]}).") from None
    if not isinstance(record, dict) or not isinstance(record.get("op"), str):
        raise UsageError('each line needs an object with "op" and "address".')
    row, name = access(record["op"]), record.get("arch")
    if name is not None:
        name = arch(str(name)[:20]).name
        row.check_on(arch(name))
    return check_pattern(row, record.get("address"), record.get("source"))._replace(arch=name)


def _once(pairs: list[tuple[str, object]]) -> Json:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key appears twice")
    return members


@dataclass(frozen=True, repr=False)
class PatternCost(Cost):
    """What a pattern costs, by which rules."""

    pattern: Pattern
    rules: BankRules

    @property
    def source_lookups(self) -> dict[str, int]:
        """Lookups of its sources' lines, and the cycles with them, of an access that has both tags and sources."""
        from tcprobe.layout.banks import pattern_cost

        tags = self.rules.tags.get(self.pattern.row.name)
        if tags is None or self.pattern.source is None:
            return {}
        lookups, cycles = pattern_cost(tags, self.pattern.address, self.pattern.source, self.wavefronts)
        return {"lookups": lookups, "timed": cycles}

    @property
    def answer_words(self) -> Iterator[str]:
        """What it costs, who collides with whom, and by which rule."""
        row, more = self.pattern.row, self.source_lookups
        waits = f"; {more['timed']} cycles with {more['lookups']} lookups of the source's lines" if more else ""
        yield f"{row.name}: {self}{waits}"
        yield from collision_lines(phases(self.pattern, self.rules.rule(row)))
        yield f"rule: {self.rules.evidence}"
        yield f"confidence: {self.rules.confidence}"

    @property
    def picture(self) -> str:
        """The banks in which lanes collide, as SVG."""
        return bank_map_svg(phases(self.pattern, self.rules.rule(self.pattern.row)), f"{self.pattern.row.name}: {self}")

    def answer_json(self, explains: bool) -> Json:
        """As JSON; the rule is named where it is not that of the arch asked for."""
        found = phases(self.pattern, self.rules.rule(self.pattern.row)) if explains else ()
        answer = PatternAnswer.of(
            self,
            phases=[phase.answer for phase in found] if explains else self.phases,
            **(self.source_lookups if explains else {}),
            rule=UNSET if self.rules.for_arch == self.rules.arch else self.rules.answer,
        )
        return plain(answer)


def costs_of(warp_patterns: Sequence[Pattern], rules: Callable[[str | None], BankRules]) -> list[PatternCost]:
    """The cost of each pattern in order."""
    judged = zip(warp_patterns, judge_patterns(warp_patterns, rules), strict=True)
    return [PatternCost(cost.phases, cost.beats, pattern, by) for pattern, (cost, by) in judged]


def judge_patterns(
    warp_patterns: Iterable[Pattern], rules: Callable[[str | None], BankRules]
) -> list[tuple[Cost, BankRules]]:
    """The cost of each pattern in order, with the rules that say so; patterns of one access are judged together."""
    alike: dict[tuple[str | None, SharedAccess, bool], list[tuple[int, Pattern]]] = defaultdict(list)
    for place, pattern in enumerate(warp_patterns):
        alike[pattern.arch, pattern.row, pattern.source is None].append((place, pattern))
    by_place: dict[int, tuple[Cost, BankRules]] = {}
    for (name, row, sourceless), group in alike.items():
        by = rules(name)
        sources = None if sourceless else as_array([p.source or () for _, p in group])
        answers = by.judge(row).costs(as_array([p.address for _, p in group]), sources)
        by_place |= {place: (cost, by) for (place, _), cost in zip(group, answers, strict=True)}
    return [by_place[place] for place in sorted(by_place)]


MOST_PARTIES = 8  # that are printed
MOST_COLLISIONS = 4  # lines of a phase


@dataclass(frozen=True)
class Collision:
    """`parties` of lanes meet in `banks` of shared memory, or of the source of cp.async; a party is served together."""

    memory: str
    banks: tuple[int, ...]
    parties: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        prefix = "" if self.memory == "shared" else f"{self.memory} "
        parties = list(map(range_text, self.parties))
        if len(parties) > MOST_PARTIES:
            parties[MOST_PARTIES - 1 : -1] = ["..."]
        return f"{prefix}{numbers('bank', self.banks)}: lanes {' | '.join(parties)}"

    def to_json(self) -> dict[str, object]:
        return plain(self.answer)

    @property
    def answer(self) -> CollisionAnswer:
        """What `--json` prints of it."""
        return CollisionAnswer.of(self, lanes=self.parties)


@dataclass(frozen=True)
class Phase:
    """`lanes` that are served together in `passes` passes; `collisions`, those of most parties first."""

    lanes: tuple[int, ...]
    passes: int
    collisions: tuple[Collision, ...]

    def to_json(self) -> dict[str, object]:
        return plain(self.answer)

    @property
    def answer(self) -> PhaseAnswer:
        """What `--json` prints of it."""
        return PhaseAnswer(self.passes, self.lanes, [each.answer for each in self.collisions])


def collision_lines(phases: Sequence[Phase]) -> Iterator[str]:
    """Each phase with its wavefronts, the first of the banks in which its lanes meet, and a map of all banks."""
    for number, phase in enumerate(phases):
        yield f"  phase {number}, {numbers('lane', phase.lanes)}: {phase.passes} wavefronts"
        yield from (f"    {collision}" for collision in phase.collisions[:MOST_COLLISIONS])
        if len(phase.collisions) > MOST_COLLISIONS:
            yield f"    and in {len(phase.collisions) - MOST_COLLISIONS} more places"
    yield from bank_map(phases)


def phases(pattern: Pattern, rule: BankRule) -> list[Phase]:
    """The phases of one access, as `banks.Judge` counts them."""
    joins = bool(agree(as_array([pattern.address]))[0])
    size = min(rule.joined if joins else rule.phase, pattern.row.lanes)
    return [_phase(pattern, rule, range(first, first + size)) for first in range(0, pattern.row.lanes, size)]


def _phase(pattern: Pattern, rule: BankRule, phase_lanes: range) -> Phase:
    sides = [("shared", _active(pattern.address, phase_lanes)), ("source", _active(pattern.source or (), phase_lanes))]
    judge, active = Judge(pattern.row, rule), sides[0][1]
    collisions = [c for memory, addresses in sides for c in _collisions(judge, memory, addresses)]
    if rule.passes == "order":
        passes = _chain(active, collisions)
    else:
        passes = max((len(c.parties) for c in collisions), default=min(1, len(active)))
    return Phase(tuple(phase_lanes), passes, tuple(sorted(collisions, key=lambda c: -len(c.parties))))


def _active(lane_addresses: Sequence[LaneAddress], phase_lanes: range) -> dict[int, int]:
    """Addresses by lane, of those lanes that have one."""
    return {lane: address for lane, address in enumerate(lane_addresses) if lane in phase_lanes and address is not None}


def _collisions(judge: Judge, space: str, by_lane: Mapping[int, int]) -> list[Collision]:
    """Every set of banks that several parties need: lanes with one unit of banks, parted by their word."""
    unit = max(WORD, judge.row.bytes)
    needed: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, address in by_lane.items():
        needed[address % LINE // WORD][address // unit if judge.rule.passes == "words" else lane].append(lane)
    return [
        Collision(space, tuple(range(bank, bank + unit // WORD)), tuple(map(tuple, parties.values())))
        for bank, parties in sorted(needed.items())
        if len(parties) > 1
    ]


def _chain(active: Iterable[int], collisions: Iterable[Collision]) -> int:
    """The longest chain of lanes that each wait for one before it."""
    waits: dict[int, set[int]] = {lane: set() for lane in active}
    for collision in collisions:
        queue = [lane for party in collision.parties for lane in party]
        for place, lane in enumerate(queue):
            waits[lane].update(queue[:place])
    depth: dict[int, int] = {}
    for lane in sorted(waits):
        depth[lane] = 1 + max((depth[earlier] for earlier in waits[lane]), default=0)
    return max(depth.values(), default=0)


def range_text(ascending: Sequence[int]) -> str:
    """Ascending numbers with runs as ranges: 0-3,8."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges(ascending))


def numbers(noun: str, values: Sequence[int]) -> str:
    """ "bank 3", "banks 0-3"."""
    return f"{noun}{'s' if len(values) > 1 else ''} {range_text(values)}"
