"""What lanes hold, as operations of `check.lanes` derive it, holds every value that the same operations compute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.layout.arrays import Words
from tcprobe.sass import lanes
from tcprobe.sass.lanes import ALL, Lanes
from tests.sampling import examples

WARPS = 2
SHAPE = (WARPS, 32)
TID = np.arange(64, dtype=np.uint32).reshape(SHAPE)


class Both(NamedTuple):
    """A value as it is described, and one that it may be."""

    described: Lanes
    real: Words


def holds(value: Lanes, real: Words) -> bool:
    """Whether a description has room for real values."""
    known = np.broadcast_to(value.known, SHAPE)
    return all(_row_holds(value, *rows) for rows in zip(known, real, strict=True))


def _row_holds(value: Lanes, known: Words, real: Words) -> bool:
    """Of a warp: without steps one exclusive or explains all lanes; with steps one sum, for some choice of flips."""
    if not value.add_unknown:
        apart = (known ^ real) & np.uint32(~value.unknown & ALL)
        return bool((apart == apart[0]).all()) and not int(apart[0]) & ~value.xor_unknown
    sure = (value.unknown & -value.unknown) - 1 if value.unknown else ALL
    flips = [1 << bit for bit in range(32) if value.xor_unknown >> bit & 1]
    sums = [0]
    for bit in flips[:9]:
        sums += [total | bit for total in sums]
    apart = (real - (known ^ np.array(sums, np.uint32)[:, None])) & np.uint32(sure)
    fits = (apart == apart[:, :1]).all(axis=1) & (apart[:, 0] & np.uint32(~value.add_unknown & sure) == 0)
    return bool(fits.any()) or len(flips) > 9


CONSTANTS = st.one_of(
    st.integers(0, 31).map(lambda n: 1 << n), st.integers(0, 1024), st.sampled_from([ALL, 0x7F, 0xFF80, -16 & ALL])
)


@st.composite
def leaves(draw: st.DrawFn) -> Both:
    kind = draw(st.sampled_from(["lane", "lane", "constant", "base", "flip", "loaded"]))
    if kind == "lane":
        return Both(lanes.made(TID), TID)
    if kind == "constant":
        value = draw(CONSTANTS)
        return Both(lanes.constant(value), np.full(SHAPE, value, np.uint32))
    mask = draw(st.sampled_from([ALL, 0xFFFFFF80, 0xFFFFE000, 0x60, 0x6000, 0x20, 0x400]))
    numbers = draw(st.lists(st.integers(0, ALL), min_size=2, max_size=2))
    if kind == "loaded":
        real = np.random.default_rng(numbers[0]).integers(0, ALL, SHAPE, np.uint32) & np.uint32(mask)
        return Both(lanes.unknown("loaded", mask), real)
    real = np.broadcast_to(np.array(numbers, np.uint32)[:, None] & np.uint32(mask), SHAPE)
    return Both(lanes.made(np.zeros((1, 1), np.uint32), 0, mask), real)


def _choice(draw: st.DrawFn, a: Both, b: Both, how: str) -> Both:
    """One of two values: the same one in all lanes, or each lane its own."""
    if how == "join":
        return Both(lanes.join(a.described, b.described), a.real if draw(st.booleans()) else b.real)
    where = np.random.default_rng(draw(st.integers(0, 12))).integers(0, 2, SHAPE).astype(bool)
    where = np.broadcast_to(where[:, :1], SHAPE) if draw(st.booleans()) else where
    chosen = lanes.select(where, *(x.described for x in (a, b))) if how == "select" else lanes.mixed(a[0], b[0])
    return Both(chosen, np.where(where, a.real, b.real))


OF_ONE: dict[str, tuple[Callable[[Lanes, int], Lanes], Callable[[Words, int], Words]]] = {
    "negative": (lambda a, _: lanes.negative(a), lambda a, _: np.uint32(0) - a),
    "left": (lanes.shift_left, lambda a, n: a << np.uint32(n)),
    "right": (lanes.shift_right, lambda a, n: a >> np.uint32(n)),
    "signed": (
        lambda a, n: lanes.shift_right(a, n, signed=True),
        lambda a, n: (a.view(np.int32) >> np.int32(n)).view(np.uint32),
    ),
}
OF_TWO: dict[str, tuple[Callable[[Lanes, Lanes], Lanes], Callable[[Words, Words], Words]]] = {
    "add": (lanes.add, operator.add),
    "times": (lanes.multiply, operator.mul),
    "xor": (lambda a, b: lanes.bitwise(lanes.XOR_AB, a, b, lanes.constant(0)), operator.xor),
    "and": (lambda a, b: lanes.bitwise(lanes.AND_AB, a, b, lanes.constant(0)), operator.and_),
}


def _apply(draw: st.DrawFn, values: list[Both]) -> Both:
    a, b, c = (draw(st.sampled_from(values)) for _ in range(3))
    kind = draw(st.sampled_from([*OF_ONE, *OF_TWO, "add", "xor", "lop3", "select", "join", "mixed"]))
    if kind in OF_ONE:
        describe, compute = OF_ONE[kind]
        n = draw(st.integers(0, 12))
        return Both(describe(a.described, n), compute(a.real, n))
    if kind in OF_TWO:
        return Both(OF_TWO[kind][0](a.described, b.described), OF_TWO[kind][1](a.real, b.real))
    if kind == "lop3":
        table = draw(st.integers(0, 255))
        return Both(lanes.bitwise(table, a[0], b[0], c[0]), table_of(table, a.real, b.real, c.real))
    return _choice(draw, a, b, kind)


def table_of(table: int, a: Words, b: Words, c: Words) -> Words:
    """LOP3 bit by bit."""
    total = np.zeros_like(a)
    for bit in range(32):
        row = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        total |= (np.uint32(table) >> row & 1) << np.uint32(bit)
    return total


@given(st.data())
@examples(1500)
def test_a_description_holds_what_is_computed(data: st.DataObject) -> None:
    values = data.draw(st.lists(leaves(), min_size=2, max_size=4))
    for _ in range(data.draw(st.integers(1, 7))):
        values.append(_apply(data.draw, values))
        assert holds(*values[-1])


@given(st.data())
@examples(1500)
def test_bits_of_a_sum_beside_those_that_are_not_known(data: st.DataObject) -> None:
    """As the halves of 64 bits are joined: low bits of a value that is not known, above them a sum with another."""
    low, high = data.draw(leaves()), data.draw(leaves())
    other, count = data.draw(leaves()), data.draw(st.integers(1, 31))
    high = Both(lanes.add(high.described, other.described), high.real + other.real)
    parts = lanes.shift_right(low.described, 32 - count), lanes.shift_left(high.described, count)
    real = low.real >> np.uint32(32 - count) | high.real << np.uint32(count)
    assert holds(lanes.bitwise(lanes.OR_AB, *parts, lanes.constant(0)), real)
