"""How often each product is in an element of D: once, or the call has no order.

Units are multiplied by 1 and -1 at random: where each product is added once, D is their exact sum. A lost or a double
product changes that sum in one of two such columns, so a few calls show it in every element, however large k is. Which
product it was, halves of k say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tcprobe.layout.arrays import Array, Floats, Ints
from tcprobe.order.bench import Bench
from tcprobe.order.memory import numpy_type, patterns

PATTERNS = 15  # repeated over D; odd, since every second line may be aligned otherwise
CERTAIN = 48  # sums of random signs, of which each shows what is lost with a probability of a half
FIRST, MORE = 4, 24  # calls that ask all elements: before anything was seen, and after
WIDEST = 256  # lines that are asked at once
BRANCHES = 8  # spans of a line that are asked at once, about
ROUNDS = 64  # of halves: of what differs in a round, half is found
KINDS = 16  # of elements, which lack different products, that are told apart
FOLDED = {"bf16": 64, "f16": 512}  # so far from zero sums are kept, that D and sums rounded to its type are exact


Ranges: TypeAlias = tuple[tuple[int, int], ...]


class Shown(NamedTuple):
    """A[row][k] is `a`, B[k][col] is `b` (None of a reduction), all else is zero: D[row][col] is `d`, not `right`."""

    row: int
    col: int
    k: int
    a: float
    b: float | None
    d: float
    right: float


class Terms(NamedTuple):
    """Products that are in no sum, and those that are in two or more, as half-open ranges of k.

    It is so in `elements` elements of D, which lie in `rows` and `cols` (the first and the last of each).
    """

    lost: Ranges
    double: Ranges
    elements: int
    rows: tuple[int, int]
    cols: tuple[int, int]
    shown: Shown


class Lacking(NamedTuple):
    """What elements of D lack or have twice, by elements; `others` are wrong in another way."""

    parts: tuple[Terms, ...]
    others: int

    @property
    def lost(self) -> list[list[int]]:
        """Ranges of products that some element lacks."""
        return together(part.lost for part in self.parts)

    @property
    def double(self) -> list[list[int]]:
        """Ranges of products that some element has twice or more."""
        return together(part.double for part in self.parts)


class _Line(NamedTuple):
    """Elements next to each other: `length` columns from `col` on in a row, or rows in a column."""

    row: int
    col: int
    length: int


class Units:
    """Asks for sums of units: in columns of B where D has more columns than rows, else in rows of A."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.call, self.rng = bench, bench.call, np.random.default_rng(seed)
        self.depth = bench.shape.k
        self.by_columns = not self.call.sums and bench.width >= bench.shape.m
        self.kind, self.side = self.call.types[::-1] if self.by_columns else self.call.types
        self.signed = self.kind != "u8"

    def lacking(self, everywhere: bool) -> Lacking | None:
        """What is lost or double; None where nothing is, or D is no sum of its products times whole numbers.

        `everywhere`: ask every element, as where they are not alike, or nobody knows.
        """
        once = np.ones(self.depth, np.int64)
        if not (wrong := self._wrong(once, max(self._calls, MORE * everywhere))).any():
            return None
        wrong |= self._wrong(once, MORE)
        made: list[Terms] = []
        while wrong.any() and len(made) < KINDS:
            row, col = map(int, np.argwhere(wrong)[0])
            counts, same = self._explained(wrong, row, col)
            if counts is None or (counts == counts[0]).all():
                break
            made.append(self._named(counts, same, row, col))
            wrong &= ~same
        return Lacking(tuple(made), int(wrong.sum())) if made else None

    @property
    def _calls(self) -> int:
        """So many that elements which are alike see enough signs."""
        own = self.bench.width if self.by_columns else self.bench.shape.m
        return max(FIRST, -(-CERTAIN // min(own, PATTERNS)))

    def signs(self, number: int) -> Ints:
        """Lines of 1 and -1, at random: 1 and 0 of what has no sign. Their sums are folded back to stay small."""
        if not self.signed:
            return self.rng.integers(0, 2, (number, self.depth))
        steps = 2 * self.rng.integers(0, 2, (number, self.depth)) - 1
        most = FOLDED.get(self.bench.d_kind)
        if most is None:
            return steps
        walk = np.cumsum(steps, axis=1)
        folded = np.abs((walk + most) % (4 * most) - 2 * most) - most
        return np.diff(folded, axis=1, prepend=0)

    def _run(self, lines: Ints) -> Any:
        """D of lines that are repeated over it, as whole numbers on the device."""
        own = patterns(self.kind, lines)
        side = None if self.call.sums else patterns(self.side, np.ones((1, self.depth)))
        if self.by_columns:
            assert side is not None
            self.bench.fill(side, own.T)
        else:
            self.bench.fill(own, None if side is None else side.T)
        return self.bench.run()

    def _numbers(self, d: Any) -> Floats:
        """Elements of D."""
        bits = np.ascontiguousarray(self.call.memory.get(d))
        made: Floats = bits.view(numpy_type(self.bench.d_kind)).astype(np.float64)
        return made

    def _given(self, sums: Ints) -> Floats:
        """Exact sums as D's type has them."""
        made: Floats = sums.astype(numpy_type(self.bench.d_kind)).astype(np.float64)
        return made

    def _wrong(self, counts: Ints, calls: int) -> Array:
        """Elements of D that are not, each time, the sum of products that are added so often."""
        m, width = self.bench.shape.m, self.bench.width
        own = np.arange(width if self.by_columns else m) % PATTERNS
        made = np.zeros((m, width), bool)
        for _ in range(calls):
            lines = self.signs(PATTERNS)
            wanted = self._given(lines @ counts)[own]
            wanted = wanted[None, :] if self.by_columns else wanted[:, None]
            d = self._run(lines)
            bits = self.call.memory.put(patterns(self.bench.d_kind, wanted))
            if bool((d != bits).any()):  # zeros of both signs are one number
                made |= self._numbers(d) != wanted
        return made

    def _explained(self, wrong: Array, row: int, col: int) -> tuple[Ints | None, Array]:
        """How often each product is in an element, and which of the wrong ones are like it.

        Neighbours are asked at once, as if they were alike; where they are not, the element alone.
        """
        beside = wrong[row, col:] if self.by_columns else wrong[row:, col]
        for count in dict.fromkeys((len(beside) if beside.all() else int(np.argmin(beside)), 1)):
            counts = self._counts(_Line(row, col, min(count, WIDEST)))
            if counts is not None:
                same = wrong & ~self._wrong(counts, MORE)
                if same[row, col]:
                    return counts, same
        return None, wrong

    def _counts(self, at: _Line) -> Ints | None:
        """How often each product is added in a line; None where halves contradict each other."""
        if self._asked(np.zeros((1, self.depth), np.int64), at).any():
            return None
        counts, seen = np.ones(self.depth, np.int64), np.zeros(self.depth, bool)
        for _ in range(ROUNDS):
            lines = self.signs(CERTAIN)
            sums, d = lines @ counts, self._asked(lines, at)
            wrong = d != self._given(sums)
            if not wrong.any():
                return counts
            known = sums != 0
            if not seen.any() and known.any() and (d[known] * sums[known][0] == sums[known] * d[known][0]).all():
                return None  # a multiple of the whole: alpha
            found = self._halved(lines[wrong][: max(1, at.length // BRANCHES)], counts, at)
            if found is None or seen[found[0]].any() or (found[1] < 0).any() or (found[1] % 1).any():
                return None
            counts[found[0]], seen[found[0]] = found[1], True
        return None

    def _halved(self, lines: Ints, counts: Ints, at: _Line) -> tuple[Ints, Floats] | None:
        """Products that are added otherwise than `counts` says, and how often: what differs differs in a half."""
        line = np.arange(len(lines))
        start, stop = np.zeros(len(lines), np.int64), np.full(len(lines), self.depth)
        before = np.concatenate([np.zeros((len(lines), 1), np.int64), np.cumsum(lines * counts, axis=1)], axis=1)
        singles: list[tuple[Ints, Floats]] = []
        while len(line):
            d = np.concatenate(list(self._spans(lines, line, start, stop, at)))
            wrong = d != self._given(before[line, stop] - before[line, start])
            line, start, stop, d = line[wrong], start[wrong], stop[wrong], d[wrong]
            single = stop - start == 1
            singles.append((start[single], (d * lines[line, start])[single]))
            line, start, stop = line[~single], start[~single], stop[~single]
            middle = (start + stop) // 2
            line, start, stop = np.tile(line, 2), np.append(start, middle), np.append(middle, stop)
        places, made = (np.concatenate(each) for each in zip(*singles, strict=True))
        return (places, made) if np.isfinite(made).all() else None

    def _spans(self, lines: Ints, line: Ints, start: Ints, stop: Ints, at: _Line) -> Iterator[Floats]:
        """D of parts of lines of units."""
        k = np.arange(self.depth)
        for first in range(0, len(line), WIDEST):
            some = slice(first, first + WIDEST)
            inside = (k >= start[some, None]) & (k < stop[some, None])
            yield self._asked(np.where(inside, lines[line[some]], 0), at)

    def _asked(self, lines: Ints, at: _Line) -> Floats:
        """An element of D for each line, wherever in `at`."""
        made = []
        first = at.col if self.by_columns else at.row
        for begin in range(0, len(lines), at.length):
            some = lines[begin : begin + at.length]
            d = self._run(np.roll(some, first % len(some), axis=0))
            elements = d[at.row, at.col :] if self.by_columns else d[at.row :, at.col]
            made.append(self._numbers(elements[: len(some)]))
        return np.concatenate(made)

    def _named(self, counts: Ints, same: Array, row: int, col: int) -> Terms:
        """Ranges of products, where it is so, and one product that shows it."""
        k = int(np.argmax(counts != 1))
        line = np.zeros((1, self.depth), np.int64)
        line[0, k] = 1
        d = float(self._asked(line, _Line(row, col, 1))[0])
        shown = Shown(row, col, k, 1.0, None if self.call.sums else 1.0, d, 1.0)
        spans = [np.nonzero(same.any(axis=axis))[0] for axis in (1, 0)]
        rows, cols = ((int(span[0]), int(span[-1])) for span in spans)
        return Terms(_ranges(counts == 0), _ranges(counts > 1), int(same.sum()), rows, cols, shown)


def _ranges(chosen: Array) -> Ranges:
    """Half-open ranges of what is chosen."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return tuple((int(start), int(stop)) for start, stop in edges.reshape(-1, 2))


def together(parts: Iterable[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Ranges that may overlap, as ranges that do not."""
    made: list[list[int]] = []
    for start, stop in sorted(tuple(each) for ranges in parts for each in ranges):
        if made and start <= made[-1][1]:
            made[-1][1] = max(made[-1][1], stop)
        else:
            made.append([start, stop])
    return made
