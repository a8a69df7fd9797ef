"""A call over several sizes: where its order changes, and whether a row's bits do ("batch invariance").

The bits of one row, of operands whose sums nearly cancel, say which sizes have one order; the order is revealed at the
first size of each such span, and proven again at another one of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tcprobe.arithmetic.order import Types
from tcprobe.errors import UsageError
from tcprobe.order import proof
from tcprobe.order.bench import Bench, Shape
from tcprobe.order.calls import Call
from tcprobe.order.reveal import Revealed, Revealing, reveal_call

MOST_SIZES = 4096
MOST_DEPTHS = 64  # sizes of k, each of which has its own order
COLUMNS = 256  # of the fixed row, that are compared


class Sizes(NamedTuple):
    """Shapes that differ in one side, or one shape."""

    side: str
    shapes: tuple[Shape, ...]

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(self.shapes) > 1


class Span(NamedTuple):
    """Sizes next to each other whose row has the same bits, and the order that was found at the first."""

    sizes: tuple[int, ...]
    found: Revealed
    proven: tuple[int, ...]


class Batches(NamedTuple):
    """All spans; `changes`: whether the bits of a fixed row do between them, None of sizes of k, which it has to."""

    side: str
    spans: tuple[Span, ...]
    changes: bool | None


def sizes_of(text: str, sums: bool = False) -> Sizes:
    """What --shape says: `8x4096x4096`, `1..512x4096x4096`, `1,8,64x...`; of a reduction also m x k."""
    parts = text.lower().split("x")
    if sums and len(parts) == 2:
        parts = [parts[0], "1", parts[1]]
    if len(parts) != 3:
        raise UsageError(f"`shape` {text[:60]!r}: MxNxK is needed, such as 8x4096x4096 or 1..512x4096x4096.")
    sides = [_numbers(part, text) for part in parts]
    long = [name for name, side in zip("mnk", sides, strict=True) if len(side) > 1]
    if len(long) > 1:
        raise UsageError(f"`shape` {text[:60]!r}: one side may have several sizes, not {' and '.join(long)}.")
    made = [Shape(m, n, k) for m in sides[0] for n in sides[1] for k in sides[2]]
    side = long[0] if long else "m"
    if len(made) > (MOST_DEPTHS if side == "k" else MOST_SIZES):
        raise UsageError(f"`shape`: {len(made)} sizes; of k at most {MOST_DEPTHS}, of m or n {MOST_SIZES}.")
    return Sizes(side, tuple(made))


def _numbers(part: str, whole: str) -> list[int]:
    """Sizes of one side."""
    made: set[int] = set()
    for word in part.split(","):
        first, dots, last = word.partition("..")
        if not first.isdecimal() or (dots and not last.isdecimal()) or len(first) > 8 or len(last) > 8:
            raise UsageError(f"`shape` {whole[:60]!r}: {word[:20]!r} is no size; 8, 1,8,64 and 1..512 are.")
        start, stop = int(first), int(last or first)
        if not 1 <= start <= stop or stop - start > MOST_SIZES:
            raise UsageError(f"`shape` {whole[:60]!r}: {word[:20]!r} is no range of sizes from 1 on.")
        made.update(range(start, stop + 1))
    return sorted(made)


def batches(call: Call, asked: Sizes, seed: int = 1, beat: Callable[[str], None] | None = None) -> Batches:
    """Spans of sizes with one order each."""
    if asked.side == "k":
        spans = [Span((shape.k,), reveal_call(call, shape, seed, beat), ()) for shape in asked.shapes]
        return Batches("k", tuple(spans), None)
    at = "mn".index(asked.side)
    width = min(COLUMNS, *(shape.n for shape in asked.shapes))
    by_bits: dict[bytes, tuple[Shape, Revealed]] = {}
    spans = []
    for bits, shapes in _runs(call, asked.shapes, width, seed, beat):
        if bits not in by_bits:
            by_bits[bits] = shapes[0], reveal_call(call, shapes[0], seed, beat)
        first, found = by_bits[bits]
        others = [shape for shape in shapes if shape != first and found.order]
        again = random.Random(f"{seed} {shapes[0]}").sample(others, min(1, len(others)))
        found = _again(call, found, again, seed, beat)
        spans.append(Span(tuple(shape[at] for shape in shapes), found, tuple(shape[at] for shape in again)))
    return Batches(asked.side, tuple(spans), len(by_bits) > 1)


def _runs(
    call: Call, shapes: Sequence[Shape], width: int, seed: int, beat: Callable[[str], None] | None
) -> list[tuple[bytes, list[Shape]]]:
    """Shapes next to each other whose first row has the same bits."""
    runs: list[tuple[bytes, list[Shape]]] = []
    for shape in shapes:
        bits = _row(Bench(call, shape, beat), width, seed)
        if not runs or runs[-1][0] != bits:
            runs.append((bits, []))
        runs[-1][1].append(shape)
    return runs


def _row(bench: Bench, width: int, seed: int) -> bytes:
    """The bits of the first row of D, of several operands; all rows of A are this one."""
    made = []
    for given in row_operands(bench, width, seed):
        a, b = given.bits
        made.append(np.ascontiguousarray(bench.sampled(a, None if bench.call.sums else b)[:1, :width]).tobytes())
    return b"".join(made)


def row_operands(bench: Bench, width: int, seed: int) -> list[proof.Operands]:
    """One row of A, and columns of B with which its sums nearly cancel, several times."""
    kinds, k = Types(*bench.call.types, bench.d_kind or "f32"), bench.shape.k
    cancelling = proof.operands("cancelling", kinds, (1, width, k), seed, bench.call.sums)
    return [cancelling, *(proof.of_row(kinds, k, width, seed + more, bench.call.sums) for more in range(2))]


def _again(
    call: Call, found: Revealed, shapes: Sequence[Shape], seed: int, beat: Callable[[str], None] | None
) -> Revealed:
    """The same with the proof's elements at other sizes."""
    for shape in shapes if found.order else ():
        assert found.order
        here = Revealing(call, shape, seed + 1, beat)
        here.steady()
        here.bench.alike = here.places().alike
        for sample in here.samples(found.order):
            different = proof.differing(found.order, sample)
            count = int(different.sum())
            first = proof.first_difference(found.order, sample, different) if count and not found.difference else None
            found = replace(
                found,
                elements=found.elements + sample.d.size,
                different=found.different + count,
                difference=found.difference or first,
            )
            if beat:
                beat("proof")
    return found
