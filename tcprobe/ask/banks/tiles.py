"""What the accesses of a tile cost together, with the tile's layout in shared memory.

>>> from tcprobe.ask.banks.accesses import parse_access, walk
>>> from tcprobe.ask.banks.patterns import rules_for
>>> from tcprobe.ask.banks.accesses import Shared, parse_tile
>>> from tcprobe.store.results import published
>>> tile, rules = parse_tile("32x32", "f32", "row"), rules_for(None, published())
>>> walks = [walk(parse_access(text), tile, None) for text in ("st.shared.b32@rows", "ld.shared.b32@cols")]
>>> [[cost(walked, tile, shared, rules).wavefronts for walked in walks] for shared in (Shared(), Shared(4))]
[[32, 1024], [32, 32]]

The smallest swizzle and the smallest padding with which all accesses of a tile together cost least.

>>> from tcprobe.ask.banks.accesses import parse_tile
>>> tile = parse_tile("32x32", "f32", "row")
>>> walks = [walk(parse_access(text), tile, None) for text in ("st.shared.b32@rows", "ld.shared.b32@cols")]
>>> swizzle, padding = propose(tile, walks, rules_for(None, published()))
>>> swizzle.best.swizzle, padding.best.padding, swizzle.wavefronts, padding.wavefronts
((5, 2, 5), 4, [32, 32], [32, 32])

Every swizzle that matters is tried. Banks are bits 2 to 6 of an address, so a swizzle matters where it changes these:
M + B <= 7; and where its source bits can be set: M + S + B <= bits of an offset. A negative S would move bank bits onto
bank bits, which renames banks and parts no lanes. M is at least what keeps the widest access in one piece. Paddings
beyond 127 bytes repeat those before.

Instructions whose lanes' addresses differ in the same way cost the same: a swizzle is linear over GF(2), so XORing all
addresses with one number XORs the results with one, which renames banks and words; with padding, adding a multiple of
4 turns the banks round. So only one instruction of each kind is judged.

All accesses of a tile together: what they cost where it lies, and what would cost least.

>>> tile = parse_tile("32x32", "f32", "row")
>>> walks = [walk(parse_access(text), tile, None) for text in ("cp.async.4", "ld.shared.b32@cols")]
>>> found = answer(tile, Shared(), walks, rules_for(None, published()), proposes=True).to_json()
>>> found["wavefronts"], found["ideal"], found["swizzle"]["swizzle"], found["padding"]["bytes"]
([32, 1024], [32, 32], [5, 2, 5], 4)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcprobe.ask.banks.accesses import (
    BMS,
    NONE,
    TMA,
    BlockBytes,
    Shared,
    Tile,
    Walk,
    addresses,
    name,
    placed_tile,
    swizzle_offset,
)
from tcprobe.ask.banks.patterns import (
    BankRuleAnswer,
    BankRules,
    Phase,
    PhaseAnswer,
    check_pattern,
    collision_lines,
    phases,
)
from tcprobe.ask.figures import bank_map_svg
from tcprobe.ask.plan_cost import CyclesAnswer, MeasuredCosts, PlanCycles, accesses_cost, cycle_lines
from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import MOST_SHARED
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE, LINE, WORD, Judge
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.text import Described, Whole, columns
from tcprobe.values import Json

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class TileCost:
    """Over the tile: instructions, wavefronts with their beats, and `ideal`: one for each phase before any joins.

    `worst` is the number of the first instruction that costs most, `phases` are its.
    """

    access: str
    instructions: int
    wavefronts: int
    ideal: int
    worst: int
    phases: list[Phase]


def cost(walked: Walk, tile: Tile, shared: Shared, rules: BankRules) -> TileCost:
    """The cost of one access; UsageError if the tile's layout does not allow it, or the arch lacks it."""
    rules.rule(walked.access.instruction)  # checks that the arch has it
    judge, offsets = rules.judge(walked.access.row), addresses(walked, tile, shared)
    each = judge.cycles(offsets)
    worst = int(each.argmax())
    pattern = check_pattern(judge.row, [None if a == IDLE else a for a in offsets[worst].tolist()])
    return TileCost(
        walked.access.name, len(offsets), int(each.sum()), ideal(judge, offsets), worst, phases(pattern, judge.rule)
    )


def ideal(judge: Judge, offsets: Ints) -> int:
    """The least that addresses can cost: one wavefront for each phase in which some lane is active."""
    row = judge.row
    lanes = offsets[:, : row.lanes].reshape(len(offsets), -1, min(judge.rule.phase, row.lanes))
    return int(np.count_nonzero((lanes != IDLE).any(axis=2)))


BANK_BITS = 7  # of an address: 128 bytes of all banks
BOX = 256  # the most elements of a side of a TMA box (CUDA driver API, cuTensorMapEncodeTiled)
ALIGNED = 16


class ProposalAnswer(Answer):
    """What it costs, by access; `smaller` has the least total of each smaller size."""

    wavefronts: list[int]
    extra_bytes: int
    alignment: int
    smaller: Mapping[int, int]
    tried: int
    code: str


class SwizzleProposal(ProposalAnswer, before=True):
    """The smallest swizzle that costs so little; `tma` is the mode with the same offsets, `others` cost as little."""

    swizzle: tuple[int, int, int]
    names: list[str]
    tma: str | None
    others: list[tuple[int, int, int]]


class PaddingProposal(ProposalAnswer, before=True):
    """The least padding that costs so little."""

    bytes: int


@dataclass(frozen=True, repr=False)
class Proposal(Described):
    """`best`, a "swizzle" or a "padding", costs `wavefronts`, by access.

    `others` cost as little and are no larger; `smaller` holds the least total of each smaller size (B, or bytes of
    padding), `tried` how many there were of all sizes. `tma` is the mode that gives the same offsets, if one does.
    """

    kind: str
    tile: Tile
    best: Shared
    wavefronts: list[int]
    others: list[Shared]
    smaller: Mapping[int, int]
    tried: int
    tma: str | None

    @property
    def in_words(self) -> Iterator[str]:
        """The smallest of its kind, what it costs, that no smaller one does, and the code."""
        swizzles = self.kind == "swizzle"
        size = str(self.best) if swizzles else f"{self.best.padding} bytes per line"
        mode = f"; as TMA's {self.tma}" if self.tma and swizzles else ""
        each = " + ".join(map(str, self.wavefronts))
        yield f"smallest {self.kind}: {size}, {each} wavefronts, {self.extra} more bytes{mode}"
        least = ", ".join(f"{total} with {'B = ' * swizzles}{size}" for size, total in self.smaller.items())
        yield f"  {f'smaller ones cost at least {least}; ' if least else ''}{self.tried} tried"
        yield from (Whole(f"  {line}") for line in offset_code(self).splitlines())

    @property
    def extra(self) -> int:
        """Bytes that it takes more than the plain tile."""
        return self.best.bytes(self.tile) - Shared().bytes(self.tile)

    @property
    def alignment(self) -> int:
        """Alignment of the tile's start: moving it by a multiple of this does not change what a swizzle of the address
        does.
        """
        b, m, s = self.best.swizzle
        return max(ALIGNED, 1 << m + s + b) if b else ALIGNED

    @property
    def answer(self) -> SwizzleProposal | PaddingProposal:
        """What `--json` prints of it."""
        more = {"extra_bytes": self.extra, "code": offset_code(self)}
        if self.kind == "padding":
            return PaddingProposal.of(self, bytes=self.best.padding, **more)
        names = [name(self.best.swizzle), *([self.tma] if self.tma else [])]
        others = [other.swizzle for other in self.others]
        return SwizzleProposal.of(self, swizzle=self.best.swizzle, names=names, others=others, **more)

    def to_json(self) -> dict[str, object]:
        return plain(self.answer)


class Kinds(NamedTuple):
    """One instruction of each kind of an access, as lines and bytes in them, and how many there are of each."""

    judge: Judge
    line: Ints
    byte: Ints
    times: Ints


def propose(tile: Tile, walks: Sequence[Walk], rules: BankRules) -> tuple[Proposal, Proposal]:
    """(swizzle, padding) for all accesses together; UsageError where an access cannot be on the plain tile."""
    plain = [addresses(walked, tile, Shared()) for walked in walks]
    widest = max(walked.access.row.bytes for walked in walks)
    by = [rules.judge(walked.access.row) for walked in walks]
    swizzling = [
        _kinds(j, (np.zeros_like(offsets), _from_first(offsets)), offsets != IDLE)
        for j, offsets in zip(by, plain, strict=True)
    ]
    padding = [_kinds(j, (_low(w.line), _low(w.byte)), w.line != IDLE) for j, w in zip(by, walks, strict=True)]
    return (
        _best("swizzle", tile, [Shared(swizzle=s) for s in swizzles(tile, widest)], swizzling),
        _best("padding", tile, [Shared(p) for p in paddings(tile, widest)], padding),
    )


def swizzles(tile: Tile, widest: int) -> Iterator[BMS]:
    """Every swizzle that matters to the banks, none first, then those of smaller B; `widest` in bytes."""
    bits = (tile.lines * tile.line_bytes - 1).bit_length()
    yield NONE
    for b in range(1, BANK_BITS + 1):
        for m in range(widest.bit_length() - 1, BANK_BITS - b + 1):
            for s in range(b, bits - m - b + 1):
                yield b, m, s


def paddings(tile: Tile, widest: int) -> Iterator[int]:
    """Every padding in bytes that keeps lines aligned to the widest access and the tile within shared memory."""
    for padding in range(0, LINE, widest):
        if not padding or tile.lines * (tile.line_bytes + padding) <= MOST_SHARED:
            yield padding


def same_mode(tile: Tile, shared: Shared) -> str | None:
    """The TMA mode that gives the same offsets over the whole tile in one box.

    A box has at most 256 elements on a side; its inner side is whole 16 bytes, with a swizzle at most its span.
    """
    if max(tile.rows, tile.cols) > BOX or tile.line_bytes % ALIGNED or shared.padding:
        return None
    offsets = np.arange(0, tile.lines * tile.line_bytes, ALIGNED)
    ours = swizzle_offset(offsets, shared.swizzle)
    for mode, swizzle in TMA.items():
        fits = not swizzle[0] or tile.line_bytes == ALIGNED << swizzle[0]  # rows are the span apart
        if fits and np.array_equal(ours, swizzle_offset(offsets, swizzle)):
            return mode
    return None


def offset_code(proposal: Proposal) -> str:
    """A CUDA function of row and column."""
    tile, (b, m, s) = proposal.tile, proposal.best.swizzle
    line, place = ("row", "col") if tile.contiguous == "row" else ("col", "row")
    element = f"{place} * {tile.bits // 8}" if tile.bits % 8 == 0 else f"{place} * {tile.bits} / 8"
    mask = (1 << b) - 1 << m
    spread = f"linear ^ (linear >> {s} & {mask:#x})" if b else "linear"
    return (
        f"// {proposal.best}: the byte offset of an element from the tile's start, a multiple of {proposal.alignment}\n"
        "__host__ __device__ constexpr int offset(int row, int col) {\n"
        f"  const int linear = {line} * {proposal.best.pitch(tile)} + {element};\n"
        f"  return {spread};\n"
        "}\n"
    )


def _best(kind: str, tile: Tile, placements: Sequence[Shared], kinds: Sequence[Kinds]) -> Proposal:
    """The option of the least total, then of the smallest size: B, or bytes of padding."""
    wavefronts = []
    for option in placements:
        offsets = [(k, np.where(k.line == IDLE, IDLE, option.offset(tile, k.line, k.byte))) for k in kinds]
        wavefronts.append([int(k.judge.cycles(addresses_) @ k.times) for k, addresses_ in offsets])
    ranks = [(sum(each), max(o.swizzle[0], o.padding)) for each, o in zip(wavefronts, placements, strict=True)]
    least = min(ranks)
    index = ranks.index(least)
    others = [o for j, o in enumerate(placements) if j != index and ranks[j] == least]
    sizes = sorted({size for _, size in ranks if size < least[1]})
    smaller = {size: min(total for total, other in ranks if other == size) for size in sizes}
    mode = same_mode(tile, placements[index])
    return Proposal(kind, tile, placements[index], wavefronts[index], others, smaller, len(placements), mode)


def _kinds(judge: Judge, line_and_byte: tuple[Ints, Ints], active: Ints) -> Kinds:
    """Equal instructions counted together; `line_and_byte`: line and byte of each lane."""
    both = np.hstack([np.where(active, values, IDLE) for values in line_and_byte])
    distinct, times = np.unique(both, axis=0, return_counts=True)
    return Kinds(judge, distinct[:, :WARP], distinct[:, WARP:], times)


def _from_first(addresses_: Ints) -> Ints:
    """Addresses XORed with the first active lane's."""
    first = np.take_along_axis(addresses_, (addresses_ != IDLE).argmax(axis=1)[:, None], axis=1)
    return addresses_ ^ first


def _low(values: Ints) -> Ints:
    """Values less the multiple of 4 that makes the least active one smaller than 4."""
    least = np.where(values == IDLE, np.iinfo(np.int64).max, values).min(axis=1, keepdims=True)
    low: Ints = values - least // WORD * WORD
    return low


class WorstAnswer(Answer):
    """The number of the first instruction that costs most, and its phases."""

    instruction: int
    phases: list[PhaseAnswer]


class BanksAnswer(Answer):
    """The bank conflicts of a tile's accesses."""

    fragment: str | None
    tile: tuple[int, int]
    type: str
    global_: str
    shared: str
    pitch: int
    block: BlockBytes
    bytes: int
    accesses: list[str]
    instructions: list[int]
    wavefronts: list[int]
    ideal: list[int]
    cycles: list[CyclesAnswer]
    rule: BankRuleAnswer
    worst: list[WorstAnswer] | UnsetType = UNSET
    swizzle: SwizzleProposal | UnsetType = UNSET
    padding: PaddingProposal | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class TileAnswer(Described):
    """`costs` by access, of `tile` placed as `shared` says; `proposals`: swizzle and padding, if asked for."""

    tile: Tile
    shared: Shared
    costs: list[TileCost]
    proposals: tuple[Proposal, ...]
    rules: BankRules
    fragment: str | None = None  # whose slots the accesses walk

    @property
    def cycles(self) -> dict[str, PlanCycles]:
        """What each access costs, by its name."""
        costs_on = MeasuredCosts.of(self.rules)
        return {
            c.access: accesses_cost(c.access.partition("@")[0], c.instructions, c.wavefronts, costs_on)
            for c in self.costs
        }

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, its accesses, who collides in the worst instruction of each, what would avoid it, the rule."""
        tile, shared = self.tile, self.shared
        cut = f"{shared.blocks(tile)} blocks of " if shared.blocks(tile) > 1 else ""
        place = f"{shared}, {cut}{shared.pitch(tile)} bytes per line, {shared.bytes(tile)} bytes"
        yield f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous; {place}"
        rows = [(c.access, str(c.instructions), str(c.wavefronts), str(c.ideal)) for c in self.costs]
        total = ("together", "", str(sum(c.wavefronts for c in self.costs)), str(sum(c.ideal for c in self.costs)))
        yield from columns([("access", "instructions", "wavefronts", "ideal"), *rows, total], 1)
        yield from (f"cycles, {line}" for line in cycle_lines(self.cycles))
        for access in self.costs:
            if access.wavefronts > access.ideal:
                yield f"{access.access}, instruction {access.worst}, one of the worst:"
                yield from collision_lines(access.phases)
        for proposal in self.proposals:
            yield from proposal.in_words
        yield f"rule: {self.rules.evidence}"
        yield f"confidence: {self.rules.confidence}"

    @property
    def picture(self) -> str:
        """Of the access with most wavefronts above the ideal a worst instruction: where lanes collide, as SVG."""
        worst = max(self.costs, key=lambda cost: cost.wavefronts - cost.ideal)
        return bank_map_svg(worst.phases, f"{worst.access}, instruction {worst.worst}: {worst.wavefronts} wavefronts")

    def to_json(self, explains: bool = False) -> Json:
        """Plain data; one entry for each access in every list. With `explains` the phases of the worst instructions."""
        costs = self.costs
        worst = [WorstAnswer(cost.worst, [phase.answer for phase in cost.phases]) for cost in costs]
        answer = BanksAnswer(
            self.fragment,
            **placed_tile(self.tile, self.shared),
            global_=self.tile.contiguous,
            accesses=[cost.access for cost in costs],
            instructions=[cost.instructions for cost in costs],
            wavefronts=[cost.wavefronts for cost in costs],
            ideal=[cost.ideal for cost in costs],
            cycles=[each.answer for each in self.cycles.values()],
            rule=self.rules.answer,
            worst=worst if explains else UNSET,
        )
        for proposal in self.proposals:
            setattr(answer, proposal.kind, proposal.answer)
        return plain(answer)


def answer(tile: Tile, shared: Shared, walks: Sequence[Walk], rules: BankRules, proposes: bool) -> TileAnswer:
    """The cost of every access; UsageError where one cannot be as the tile lies, or the arch does not have it."""
    costs = [cost(walked, tile, shared, rules) for walked in walks]
    return TileAnswer(tile, shared, costs, propose(tile, walks, rules) if proposes else (), rules)
