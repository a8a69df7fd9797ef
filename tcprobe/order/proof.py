"""The proof: D of operands that show every rounding, compared with the order's, bit by bit.

Four kinds: numbers of like size; numbers of all sizes that the type has room for; products that cancel in pairs across
the whole of k, so that D is little more than what roundings left, which differs between any two orders; and partial
sums of very different sizes of which two and two cancel, so that it matters in which order they are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tcprobe.arithmetic.order import Additions, Node, Order, Types, as_range, children, postorder, products
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array, Ints
from tcprobe.order.evaluate import multiply
from tcprobe.order.memory import WHOLE, numpy_type

KINDS = ("random", "cancelling", "wide", "parts")
LEAST = 4096  # elements of a proof
ROWS = 16  # of A, at most
PAIRINGS = 4  # of parts that cancel
PIECE = 128  # products next to each other that cancel others
PIECES = 6  # of k, of a sum without parts
EXTREME = 0.7  # of parts, which are scaled as far as their type allows
STEPS = 12  # of a sum, shown where it differs
# exponents of wide numbers: the least and the largest
WIDE = {
    "bf16": (-14, 14),
    "f32": (-14, 14),
    "tf32": (-14, 14),
    "f64": (-40, 40),
    "f16": (-8, 3),
    "e4m3": (-6, 6),
    "e5m2": (-8, 6),
}
WIDE_INTO_F16 = (-7, 0)


class Operands(NamedTuple):
    """Rows of A (rows x k) and columns of B (k x columns), as numbers of their types."""

    kind: str
    a: Array
    b: Array

    @property
    def bits(self) -> tuple[Array, Array]:
        """As whole numbers of the same width."""
        return self.a.view(WHOLE[self.a.itemsize]), self.b.view(WHOLE[self.b.itemsize])


def segments(order: Order, seed: int) -> list[Ints]:
    """Products by the chain that sums them; of one chain at random, by neighbours."""
    chains = [each for each in postorder(order.sum) if not isinstance(each, Additions)]
    if len(chains) > 1:
        return [np.concatenate([np.array(as_range(part)) for part in each.ranges]) for each in chains]
    cuts = np.random.default_rng(seed).integers(0, order.k, min(order.k, PIECES))
    return [part for part in np.split(np.arange(order.k), np.unique(cuts)) if len(part)]


def of_parts(order: Order, size: tuple[int, int, int], seed: int, sums: bool = False) -> Operands:
    """The kind "parts": each chain has a size of its own, and every two chains cancel; which two, `seed` says."""
    rng, types = np.random.default_rng(seed), order.types
    rows, cols, k = size
    if types.a in ("s8", "u8"):
        return operands("parts", types, size, seed, sums)
    a, b = (np.zeros(shape, np.float64) for shape in ((rows, k), (k, cols)))
    found = segments(order, seed)
    mixed = [found[at] for at in rng.permutation(len(found))]
    for first, second in _pairs(mixed):
        both = min(len(first), len(second)) or len(first)
        left = _scaled(rng, types.a, types.d, (rows, both), (rows, 1))
        right = _scaled(rng, types.b, types.d, (both, cols), (1, cols))
        a[:, first[:both]], b[first[:both]] = left, right
        if len(second):
            a[:, second[:both]], b[second[:both]] = (-left if sums else left), -right
    a, b = (side.astype(numpy_type(kind)) for side, kind in zip((a, b), types, strict=False))
    return Operands("parts", a, np.ones_like(b) if sums else b)


def of_row(types: Types, k: int, columns: int, seed: int, sums: bool = False) -> Operands:
    """One row of A for all columns of B, its pieces of k cancelling two by two.

    In half of the columns product by product, of any size; in the others each pair of pieces has a size of its own, so
    that the row's bits show how partial sums are joined.
    """
    if types.a in ("s8", "u8"):
        return operands("row", types, (1, columns, k), seed, sums)
    rng, length = np.random.default_rng(seed), max(1, min(PIECE, k // 4))
    pieces = [np.arange(at, min(at + length, k)) for at in range(0, k, length)]
    mixed = [pieces[at] for at in rng.permutation(len(pieces))]
    a, b = np.zeros((1, k)), np.zeros((k, columns))
    least, most = _exponents(types.a, types.d)
    for first, second in _pairs(mixed):
        both = min(len(first), len(second)) or len(first)
        power = rng.choice([least, most]) if len(second) else least  # what is left is small
        left = _stored(types.a, np.ldexp(rng.standard_normal((1, both)), power))
        right = _scaled(rng, types.b, types.d, (both, columns), (both, columns))
        scaled = columns - columns // 2
        right[:, columns // 2 :] = _scaled(rng, types.b, types.d, (both, scaled), (1, scaled))
        a[:, first[:both]], b[first[:both]] = left, right
        if len(second):
            a[:, second[:both]], b[second[:both]] = (-left if sums else left), -right
    a, b = (side.astype(numpy_type(kind)) for side, kind in zip((a, b), types, strict=False))
    return Operands("row", a, np.ones_like(b) if sums else b)


def _pairs(parts: Sequence[Ints]) -> Iterator[tuple[Ints, Ints]]:
    """Two and two, but for the last one or two, which are alone: else all that is left might be zero."""
    paired = (len(parts) - 1) // 2 * 2
    yield from zip(parts[:paired:2], parts[1:paired:2], strict=True)
    yield from ((part, part[:0]) for part in parts[paired:])


def _scaled(rng: np.random.Generator, type_: str, d: str, shape: tuple[int, int], each: tuple[int, int]) -> Array:
    """Normally distributed, times a power of two for each row, each column, or all."""
    least, most = _exponents(type_, d)
    ends = rng.random(each) < EXTREME
    powers = np.where(ends, rng.choice([least, most], each), rng.integers(least, most + 1, each))
    return _stored(type_, np.ldexp(rng.standard_normal(shape), powers))


def _stored(type_: str, numbers: Array) -> Array:
    """Numbers rounded to a type."""
    made: Array = _within(type_, numbers).astype(numpy_type(type_)).astype(np.float64)
    return made


def operands(kind: str, types: Types, size: tuple[int, int, int], seed: int, sums: bool = False) -> Operands:
    """Of the other kinds, for (rows, columns, k); with `sums` B is ones."""
    rng = np.random.default_rng(seed)
    rows, cols, k = size
    if types.a in ("s8", "u8"):
        a, b = _whole(rng, types.a, (rows, k)), _whole(rng, types.b, (k, cols))
        return Operands(kind, a, np.ones_like(b) if sums else b)
    a, b = _numbers(rng, kind, types.a, types.d, (rows, k)), _numbers(rng, kind, types.b, types.d, (k, cols))
    if sums:
        b = np.ones_like(b)
    if kind == "cancelling":
        mixed = rng.permutation(k)
        half = k // 2
        first, second, rest = mixed[:half], mixed[half : 2 * half], mixed[2 * half :]
        a[:, second] = -a[:, first] if sums else a[:, first]
        if not sums:
            b[second] = -b[first]
        a[:, rest] = a[:, rest] * numpy_type(types.a).type(2.0**-4)
    return Operands(kind, a, b)


def _numbers(rng: np.random.Generator, kind: str, type_: str, d: str, shape: tuple[int, int]) -> Array:
    """Normally distributed, or times powers of two."""
    made: Array = rng.standard_normal(shape, np.float64 if type_ == "f64" else np.float32)
    if kind != "random":
        least, most = _exponents(type_, d)
        made = np.ldexp(made, rng.integers(least, most + 1, shape).astype(np.int32))
    return np.ascontiguousarray(_within(type_, made).astype(numpy_type(type_)))


def _exponents(type_: str, d: str) -> tuple[int, int]:
    """The least and the largest by which numbers of a type are scaled."""
    return WIDE_INTO_F16 if d == "f16" and type_ != "f64" else WIDE[type_]


def _within(type_: str, numbers: Array) -> Array:
    """Numbers no larger than e4m3's largest, which has no infinity."""
    return np.clip(numbers, -448, 448) if type_ == "e4m3" else numbers


def _whole(rng: np.random.Generator, type_: str, shape: tuple[int, int]) -> Array:
    limits = np.iinfo(numpy_type(type_))
    return rng.integers(limits.min, limits.max, shape, dtype=numpy_type(type_), endpoint=True)


class Difference(NamedTuple):
    """An element of D that the order does not give: both values, and its sum step by step."""

    kind: str
    row: int
    col: int
    called: float
    computed: float
    steps: tuple[str, ...] = ()


class Sample(NamedTuple):
    """Operands and the D that a call gave, as numbers of its type."""

    given: Operands
    d: Array

    def part(self, rows: int, cols: int) -> Sample:
        """The first rows and columns."""
        kind, a, b = self.given
        return Sample(Operands(kind, a[:rows], b[:, :cols]), self.d[:rows, :cols])


def differing(order: Order, sample: Sample) -> Array:
    """Which elements of D differ from the order's, bit by bit; any NaN is as any other."""
    wanted = multiply(order, sample.given.a, sample.given.b)
    size = wanted.itemsize
    same = wanted.view(WHOLE[size]) == np.ascontiguousarray(sample.d).view(WHOLE[size])
    if dtype(order.types.d).bits < 64 and order.types.d != "s32":
        same |= np.isnan(wanted.astype(np.float32)) & np.isnan(sample.d.astype(np.float32))
    different: Array = ~same
    return different


def first_difference(order: Order, sample: Sample, different: Array) -> Difference:
    """The first one, with its sum."""
    row, col = (int(each[0]) for each in np.nonzero(different))
    a, b = sample.given.a[row : row + 1], sample.given.b[:, col : col + 1]
    computed = float(multiply(order, a, b)[0, 0])
    return Difference(sample.given.kind, row, col, float(sample.d[row, col]), computed, tuple(steps(order, a, b)))


def steps(order: Order, a: Array, b: Array) -> Iterator[str]:
    """A line for each of the outermost sums, and what it is of one row and column: other products are zero."""
    wide = order.types._replace(d={"s32": "s32", "f64": "f64"}.get(order.types.d, "f32"))
    whole = replace(order, types=wide)
    for node in _outermost(order.sum):
        of_node = np.zeros(order.k, bool)
        for part in products(node):
            of_node[part.start : part.stop : part.step] = True
        value = float(multiply(whole, np.where(of_node, a, a.dtype.type(0)), b)[0, 0])
        yield f"{int(of_node.sum())} products, from {_first(node)} on: {value!r}"


def _outermost(root: Node) -> list[Node]:
    """Up to STEPS sums, each after those that it takes in."""
    found, waiting = [root], [root]
    while waiting and len(found) < STEPS:
        inner = children(waiting.pop(0))
        found += inner
        waiting += [each for each in inner if isinstance(each, Additions) or children(each)]
    return found[:STEPS][::-1]


def _first(node: Node) -> int:
    return next(iter(products(node)))[0]


def in_16_bits(order: Order, sample: Sample) -> bool:
    """Whether D is that of the order with every joined sum rounded to D's type before it is added."""
    if not isinstance(order.sum, Additions) or order.types.d not in ("f16", "bf16"):
        return False
    whole = replace(order, types=order.types._replace(d="f32"))
    kind, total = numpy_type(order.types.d), None
    for term in order.sum.terms:
        of_term = np.zeros(order.k, bool)
        for part in map(as_range, (r for node in [term] for r in _ranges(node))):
            of_term[part.start : part.stop : part.step] = True
        a = np.where(of_term[None, :], sample.given.a, sample.given.a.dtype.type(0))
        value = multiply(whole, a, sample.given.b).astype(kind).astype(np.float32)
        total = value if total is None else total + value
    assert total is not None
    return bool((total.astype(kind).view(np.int16) == np.ascontiguousarray(sample.d).view(np.int16)).all())


def _ranges(node: Node) -> Iterator[tuple[int, int, int]]:
    for part in products(node):
        yield part.start, part.stop, part.step
