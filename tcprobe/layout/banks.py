"""The cost of one access of a warp to shared memory, by the rule measured on the hardware.

Shared memory has 32 banks of 4 bytes. In one pass each bank delivers one word, to any number of lanes. The lanes of an
access form *phases*, which are served one after the other. A phase takes as many passes (wavefronts) as its fullest
bank has distinct words; lanes with equal words share a pass, idle lanes need nothing, and a phase of idle lanes needs
no pass. cycles = max(P, B): P is the number of passes of all phases, B the number of beats of 128 bytes, one for each
phase. Loads and stores of 64 and 128 bits also spend a beat on a phase of idle lanes, unless all 32 lanes are idle;
other accesses do not.

- 8 to 32 bits: the 32 lanes are one phase. 64 bits: halves of 16 lanes. 128 bits, ldmatrix, stmatrix: octets of 8.
- Neighbours *join*: a 64-bit load is one phase, and a 128-bit load two, if over the whole warp every lane has the
  address of lane i ^ 1, or every lane that of lane i ^ 2. A lane whose partner is idle agrees with it.
- Atomics: equal words do not share a pass, so a phase takes as many passes as its fullest bank has lanes.
- cp.async.ca: phases of 32, 16, 8 lanes (4, 8, 16 bytes). Lanes are served in order; a lane waits for every earlier one
  of its phase that needs its bank in shared memory, or the bank of its source (bits 2 to 6 of the global address).

>>> from tcprobe.layout.banks import judge
>>> cost = judge("ld.shared.b64", [64 * (lane % 16) for lane in range(32)])
>>> cost.phases, cost.wavefronts, cost.beats, cost.cycles, cost.ideal
([8, 8], 16, 2, 16, 2)

Source: experiments on an H200 (sm_90), which `tcprobe.probes.banks` repeats; `bank_rules` says what is
published for which arch.

What cp.async.ca waits for besides banks: its source lines are looked up in banks of tags, one line per bank and
cycle.

>>> import numpy as np
>>> tags, lanes = SourceTags((0x1A80, 0x2D00)), np.arange(32)
>>> to, sources = np.array([4 * lanes] * 2), np.array([128 * lanes, 4 * lanes])
>>> found = lookups(tags, sources)
>>> found.tolist(), access_cycles(np.array([1, 1]), found, is_spread(to)).tolist()
([8, 1], [9, 2])

A line has 128 bytes. Each bit of the number of its tag bank is a parity of address bits. Lookups are the most distinct
lines that fall into one bank. An access takes as many cycles as its passes, but at least one more than its lookups; two
more if its destinations are spread (over more than ROWS rows of 128 bytes, in several blocks of 2 KB), or if it has one
lookup and more than one pass. Source: an H200; `tcprobe run --family banks` repeats the measurement.

An address map drawn by banks (32 of 4 bytes), as coloured text and as SVG.

>>> from tcprobe.layout.swizzle import Swizzle
>>> first, second = np.indices((4, 16))
>>> picture = Picture.of(Swizzle(2, 3, 3)(first * 64 + second), 16)
>>> [picture.label(*cell) for cell in ((0, 0), (0, 1), (1, 0), (1, 1))]
['0-3', '4-7', '4-7', '0-3']

Columns are the coordinate along which offsets are consecutive, if there is one; lines are the other. A cell combines up
to 16 bytes of consecutive elements. Its label is its banks, its colour that of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from functools import cache
from html import escape
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.shared_memory import SharedAccess, access, accesses
from tcprobe.layout.arrays import Bools, Ints
from tcprobe.text import Described
from tcprobe.values import Json

BANKS = 32
WORD = 4  # bytes
LINE = BANKS * WORD
IDLE = -1  # in place of an address
ABSENT = -1  # in place of the passes of a phase that joined another


@dataclass(frozen=True)
class BankRule:
    """How an access is served: lanes of a `phase`, and lanes of one where neighbours join (`joined`).

    `passes` of a phase: the most distinct "words" or the most "lanes" in a bank, or the longest chain of lanes that
    wait in "order". `idle`: whether beats of phases without an active lane count.
    """

    phase: int
    joined: int
    passes: Literal["words", "lanes", "order"] = "words"
    idle: bool = False


@dataclass(frozen=True, repr=False)
class Cost(Described):
    """The passes of each phase in order, and the beats."""

    phases: list[int]
    beats: int

    @property
    def in_words(self) -> Iterator[str]:
        """On one line."""
        words = f"{self.wavefronts} wavefronts, {self.beats} beats, {self.cycles} cycles"
        yield f"{words}; {self.ideal} if no lanes collided"

    @property
    def wavefronts(self) -> int:
        """Passes of all phases."""
        return sum(self.phases)

    @property
    def cycles(self) -> int:
        """Cycles of the access."""
        return max(self.wavefronts, self.beats)

    @property
    def ideal(self) -> int:
        """Phases with an active lane: the passes if no lanes conflict."""
        return sum(passes > 0 for passes in self.phases)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "wavefronts": self.wavefronts,
            "beats": self.beats,
            "cycles": self.cycles,
            "ideal": self.ideal,
            "phases": self.phases,
        }


@cache
def designed_rules() -> MappingProxyType[str, BankRule]:
    """The rule of every access, as the module's docstring states it."""
    return MappingProxyType({row.name: _rule(row) for row in accesses().values()})


def _rule(access: SharedAccess) -> BankRule:
    phase = min(WARP, LINE // access.bytes)
    joins = access.name.startswith("ld.shared") and phase < WARP
    passes = "order" if access.has_source else "lanes" if access.name.startswith(("atom", "red")) else "words"
    idle = phase < WARP and access.name.startswith(("ld.shared", "st.shared"))
    return BankRule(phase, 2 * phase if joins else phase, passes, idle)  # type: ignore[arg-type]


def judge(name: str, addresses: Sequence[int | None], sources: Sequence[int | None] | None = None) -> Cost:
    """The cost of one access: 32 byte addresses in shared memory, None for idle lanes; for cp.async also of `sources`.

    Without sources only destinations can conflict. Addresses are not checked here; `bank_patterns` does that.
    """
    row = access(name)
    by = Judge(row, designed_rules()[row.name])
    return by.costs(as_array([addresses]), None if sources is None else as_array([sources]))[0]


def as_array(lane_rows: Sequence[Sequence[int | None]]) -> Ints:
    """Addresses of several patterns, IDLE for None; shape (patterns, 32)."""
    return np.array([[IDLE if a is None else a for a in row] for row in lane_rows], np.int64).reshape(-1, WARP)


class Judge(NamedTuple):
    """An access and its rule; `addresses` and `sources` are (patterns, 32), IDLE for idle lanes."""

    row: SharedAccess
    rule: BankRule

    def costs(self, addresses: Ints, sources: Ints | None = None) -> list[Cost]:
        """The cost of each pattern."""
        by_phase = self.passes(addresses, sources)
        rows = zip(by_phase.tolist(), beats(self.rule, by_phase).tolist(), strict=True)
        return [Cost([n for n in phases if n != ABSENT], count) for phases, count in rows]

    def cycles(self, addresses: Ints, sources: Ints | None = None) -> Ints:
        """max(P, B) of each pattern, shape (patterns,)."""
        by_phase = self.passes(addresses, sources)
        total: Ints = np.maximum(by_phase.clip(0).sum(axis=1), beats(self.rule, by_phase))
        return total

    def passes(self, addresses: Ints, sources: Ints | None = None) -> Ints:
        """Passes of each phase, (patterns, phases); ABSENT in place of phases that joined others."""
        sides = [side for side in (addresses, sources) if side is not None]
        by_phase = self._passes(self.rule.phase, sides)
        if self.rule.joined > self.rule.phase:
            joins = agree(addresses)
            joined = self._passes(self.rule.joined, [side[joins] for side in sides])
            by_phase[joins] = ABSENT
            by_phase[joins, : joined.shape[1]] = joined
        return by_phase

    def _passes(self, phase: int, memories: Sequence[Ints]) -> Ints:
        """Passes of each phase of `phase` lanes, (patterns, phases); `memories`: addresses, and sources if given."""
        width = min(phase, self.row.lanes)
        count = self.row.lanes // width
        needs = [a[:, : self.row.lanes].reshape(len(a) * count, width) // max(WORD, self.row.bytes) for a in memories]
        if self.rule.passes == "order":
            most = _longest_chain(self.row, needs)
        else:
            most = _fullest(self.row, needs[0], self.rule.passes == "words")
        return most.reshape(len(memories[0]), count)


def beats(rule: BankRule, by_phase: Ints) -> Ints:
    """B of each pattern, from the passes of its phases."""
    counted = (by_phase != ABSENT) & (by_phase > 0).any(axis=1, keepdims=True) if rule.idle else by_phase > 0
    count: Ints = counted.sum(axis=1)
    return count


def agree(addresses: Ints) -> Bools:
    """Whether, over the whole warp, lanes i and i ^ 1, or i and i ^ 2, have one address, or one of them is idle."""
    lanes = np.arange(WARP)
    pairs = [(addresses, addresses[:, lanes ^ step]) for step in (1, 2)]
    same = [((a == b) | (a == IDLE) | (b == IDLE)).all(axis=1) for a, b in pairs]
    either: Bools = same[0] | same[1]
    return either


def _banks(access: SharedAccess) -> int:
    """How many units the banks hold side by side."""
    return LINE // max(WORD, access.bytes)


def _fullest(access: SharedAccess, units: Ints, distinct: bool) -> Ints:
    """The most (distinct) units in the same banks, for each row of units."""
    if distinct:
        units = np.sort(units, axis=1)
        units[:, 1:][units[:, 1:] == units[:, :-1]] = IDLE
    banks = _banks(access)
    bins = np.arange(len(units))[:, None] * banks + units % banks
    counts = np.bincount(bins[units != IDLE], minlength=banks * len(units))
    most: Ints = counts.reshape(-1, banks).max(axis=1)
    return most


def _longest_chain(access: SharedAccess, needs: Sequence[Ints]) -> Ints:
    """The longest chain of lanes that wait for each other; `needs`: units in shared memory, and of the sources."""
    banks = _banks(access)
    free = np.zeros(
        (len(needs), len(needs[0]), banks), np.int64
    )  # the number of passes after which a unit's banks are free
    for lane in range(needs[0].shape[1]):
        (on,) = np.nonzero(needs[0][:, lane] != IDLE)
        places = [(j, on, need[on, lane] % banks) for j, need in enumerate(needs)]
        after = 1 + np.max([free[place] for place in places], axis=0)
        for place in places:
            free[place] = after
    longest: Ints = free[0].max(axis=1)
    return longest


MOST_MASKS, MOST_BITS = 4, 62
LEAST = 2  # cycles of an access with one pass and one lookup
ROWS, BLOCK = 4, 2048  # rows, and bytes, within which destinations are not spread


@dataclass(frozen=True)
class SourceTags:
    """For each bit of a bank's number, a mask: the bit is the parity of the address bits under it."""

    masks: tuple[int, ...]

    def to_json(self) -> Json:
        """Plain data."""
        return {"masks": list(self.masks)}

    def bank(self, addresses: Ints) -> Ints:
        """The tag bank of each address's line."""
        banks = np.zeros_like(addresses)
        for number, mask in enumerate(self.masks):
            folded = addresses & mask  # the parity of these bits
            for shift in (32, 16, 8, 4, 2, 1):
                folded ^= folded >> shift
            banks |= (folded & 1) << number
        return banks


def from_json(data: Json) -> SourceTags:
    """The inverse of `to_json`; ValueError for data that it cannot return."""
    masks = tuple(data["masks"])
    whole = all(type(m) is int and 0 < m < 1 << MOST_BITS and not m % LINE for m in masks)
    if not whole or not 0 < len(masks) <= MOST_MASKS:
        raise ValueError(f"{len(masks)} masks of addresses of lines")
    return SourceTags(masks)


def lookups(tags: SourceTags, sources: Ints) -> Ints:
    """The most distinct lines in one bank, by pattern; `sources` are (patterns, 32), IDLE for idle lanes."""
    lines = np.sort(np.where(sources == IDLE, IDLE, sources // LINE), axis=1)
    fresh = lines != IDLE
    fresh[:, 1:] &= lines[:, 1:] != lines[:, :-1]
    banks = tags.bank(np.where(fresh, lines, 0) * LINE)
    counts = [(fresh & (banks == bank)).sum(axis=1) for bank in range(1 << len(tags.masks))]
    return np.asarray(np.max(counts, axis=0), np.int64)


def is_spread(addresses: Ints) -> Bools:
    """By pattern, whether destinations are in many rows of several blocks; IDLE for idle lanes."""
    return np.asarray((_distinct(addresses, LINE) > ROWS) & (_distinct(addresses, BLOCK) > 1))


def _distinct(addresses: Ints, size: int) -> Ints:
    """By pattern, how many pieces of `size` bytes its addresses are in."""
    pieces = np.sort(np.where(addresses == IDLE, IDLE, addresses // size), axis=1)
    fresh = pieces != IDLE
    fresh[:, 1:] &= pieces[:, 1:] != pieces[:, :-1]
    return np.asarray(fresh.sum(axis=1), np.int64)


def access_cycles(passes: Ints, looked_up: Ints, spread: Bools) -> Ints:
    """Cycles of patterns from passes and lookups; 0 if no lane copies."""
    least = looked_up + 1 + (spread | ((passes > 1) & (looked_up == 1)))
    return np.asarray(np.where(passes == 0, 0, np.maximum(passes, least)), np.int64)


def pattern_cost(
    tags: SourceTags, addresses: Sequence[int | None], sources: Sequence[int | None], passes: int
) -> tuple[int, int]:
    """(lookups, cycles) of one pattern of 32 destinations and 32 sources."""
    looked_up = lookups(tags, as_array([sources]))
    return int(looked_up[0]), int(access_cycles(np.array([passes]), looked_up, is_spread(as_array([addresses])))[0])


def tags_from_pairs(gaps: Sequence[int], together: Bools) -> SourceTags | None:
    """The tags, from which pairs of lines, `gaps` apart, fall into one bank; None if no parities explain it.

    Steps are single bits, and pairs of them.
    """
    # a number of each single bit, by whether steps stay in a bank. Bits that cancel each other get the same number;
    # the others get 1, 2, 3, ..., with as few banks as possible
    same = dict(zip(gaps, together.tolist(), strict=True))
    numbers: dict[int, int] = {}
    for bit in (step for step in same if step.bit_count() == 1):
        alike = next((numbers[other] for other in numbers if same[bit | other]), None)
        numbers[bit] = 0 if same[bit] else alike or 1 + max(numbers.values(), default=0)
    width = max(numbers.values(), default=0).bit_length()
    tags = SourceTags(tuple(sum(bit for bit in numbers if numbers[bit] >> n & 1) for n in range(width)))
    agrees = together.any() and 0 < width <= MOST_MASKS and np.array_equal(tags.bank(np.array(gaps)) == 0, together)
    return tags if agrees else None


BANK_BITS, VECTOR_BITS = 8 * WORD, 128
WIDE, HIGH, MARGIN = 34, 18, 40  # px
Colour = tuple[int, int, int]


class Picture(NamedTuple):
    """Bit offsets by [line, column], `run` elements per column; `axes` names the coordinates of lines and columns."""

    offsets: Ints
    run: int
    bits: int
    axes: tuple[str, str]

    @classmethod
    def of(cls, offsets: Ints, bits: int) -> Picture:
        """The picture of offsets[first, second], in elements of `bits`; -1 means no offset."""
        runs = (_run(offsets.T, bits), _run(offsets, bits))
        turned = runs[0] > runs[1]
        grid, axes = (offsets.T, ("second", "first")) if turned else (offsets, ("first", "second"))
        run = max(runs)
        return cls(np.where(grid < 0, -1, grid * bits)[:, ::run], run, bits, axes)

    def bank(self, line: int, column: int) -> int | None:
        """The first bank of a cell; None without an offset."""
        offset = int(self.offsets[line, column])
        return None if offset < 0 else offset // BANK_BITS % BANKS

    def label(self, line: int, column: int) -> str:
        """The banks of a cell, as 7 or 4-7."""
        bank = self.bank(line, column)
        if bank is None:
            return ""
        last = (int(self.offsets[line, column]) + self.run * self.bits - 1) // BANK_BITS % BANKS
        return str(bank) if bank == last else f"{bank}-{last}"

    def head(self, column: int) -> str:
        """The coordinates of a column."""
        start = column * self.run
        return str(start) if self.run == 1 else f"{start}.."


def _run(offsets: Ints, bits: int) -> int:
    """How many columns (a power of two, at most 16 bytes) are consecutive from an aligned start, on every line."""
    run = 1
    while run * 2 * bits <= VECTOR_BITS and offsets.shape[1] % (run * 2) == 0:
        groups = offsets.reshape(len(offsets), -1, run * 2)
        if (groups != groups[:, :, :1] + np.arange(run * 2)).any() or (groups[:, :, 0] % (run * 2)).any():
            break
        run *= 2
    return run


def colour_of(bank: int) -> Colour:
    """A light colour for each bank: neighbouring banks differ little, opposite ones most."""
    red, green, blue = (round(255 * part) for part in hls_to_rgb(bank / BANKS, 0.82, 0.75))
    return red, green, blue


def picture_lines(picture: Picture, width: int) -> Iterator[list[tuple[str, Colour | None]]]:
    """Coloured pieces of text, line by line, in blocks of columns that fit `width` characters."""
    count, columns = picture.offsets.shape
    margin = len(str(count - 1)) + 1
    labels = [[picture.label(line, column) for column in range(columns)] for line in range(count)]
    heads = [picture.head(column) for column in range(columns)]
    wide = 1 + max(len(text) for row in (*labels, heads) for text in row)
    per_block = max(1, (width - margin) // wide)
    for start in range(0, columns, per_block):
        block = range(start, min(start + per_block, columns))
        yield [(" " * margin + "".join(heads[column].rjust(wide) for column in block), None)]
        for line in range(count):
            banks = [(column, picture.bank(line, column)) for column in block]
            cells = [(labels[line][c].rjust(wide), None if bank is None else colour_of(bank)) for c, bank in banks]
            yield [(str(line).rjust(margin), None), *cells]


def svg_of_picture(picture: Picture, title: str) -> str:
    """An SVG of the whole picture."""
    count, columns = picture.offsets.shape
    width, height = max(MARGIN + columns * WIDE + 8, 7 * len(title) + 16), HIGH * (count + 2) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        "<style>text{font:10px monospace;fill:#000;text-anchor:middle}rect{stroke:#555;stroke-width:.5}</style>",
        '<rect width="100%" height="100%" fill="#fff" stroke="none"/>',
        f'<text x="8" y="13" style="text-anchor:start;font-weight:bold">{escape(title)}</text>',
        *(_svg_text(MARGIN + (c + 0.5) * WIDE, 2 * HIGH - 4, picture.head(c)) for c in range(columns)),
    ]
    for line in range(count):
        top = HIGH * (line + 2)
        parts.append(_svg_text(MARGIN / 2, top + 13, str(line)))
        for column in range(columns):
            bank = picture.bank(line, column)
            fill = "none" if bank is None else "#{:02x}{:02x}{:02x}".format(*colour_of(bank))
            left = MARGIN + column * WIDE
            parts.append(f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="{fill}"/>')
            parts.append(_svg_text(left + WIDE / 2, top + 13, picture.label(line, column)))
    return "\n".join([*parts, "</svg>", ""])


def _svg_text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{escape(text)}</text>'
