"""What lanes hold, as operations of `check.lanes` derive it, holds every value that the same operations compute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.check import lanes
from tcprobe.check.lanes import ALL, Lanes
from tcprobe.layout.arrays import Words
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
    """Of a warp: without steps one exclusive or must explain all lanes; with steps, one sum for some choice of flips."""
    if not value.steps:
        apart = (known ^ real) & np.uint32(~value.lost & ALL)
        return bool((apart == apart[0]).all()) and not int(apart[0]) & ~value.flips
    sure = (value.lost & -value.lost) - 1 if value.lost else ALL
    flips = [1 << bit for bit in range(32) if value.flips >> bit & 1]
    sums = [0]
    for bit in flips[:9]:
        sums += [total | bit for total in sums]
    apart = (real - (known ^ np.array(sums, np.uint32)[:, None])) & np.uint32(sure)
    fits = (apart == apart[:, :1]).all(axis=1) & (apart[:, 0] & np.uint32(~value.steps & sure) == 0)
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
        return Both(lanes.lost("loaded", mask), real)
    real = np.broadcast_to(np.array(numbers, np.uint32)[:, None] & np.uint32(mask), SHAPE)
    return Both(lanes.made(np.zeros((1, 1), np.uint32), 0, mask), real)


def _apply(draw: st.DrawFn, values: list[Both]) -> Both:
    a, b, c = (draw(st.sampled_from(values)) for _ in range(3))
    kind = draw(
        st.sampled_from(
            [
                "add",
                "add",
                "xor",
                "lop3",
                "and",
                "left",
                "right",
                "signed",
                "times",
                "negative",
                "select",
                "join",
                "mixed",
            ]
        )
    )
    n = draw(st.integers(0, 12))
    if kind == "add":
        return Both(lanes.add(a[0], b[0]), a.real + b.real)
    if kind == "times":
        return Both(lanes.multiply(a[0], b[0]), a.real * b.real)
    if kind == "negative":
        return Both(lanes.negative(a[0]), np.uint32(0) - a.real)
    if kind == "left":
        return Both(lanes.shift_left(a[0], n), a.real << np.uint32(n))
    if kind == "right":
        return Both(lanes.shift_right(a[0], n), a.real >> np.uint32(n))
    if kind == "signed":
        return Both(lanes.shift_right(a[0], n, signed=True), (a.real.view(np.int32) >> np.int32(n)).view(np.uint32))
    if kind == "join":
        first = draw(st.booleans())
        return Both(lanes.join(a[0], b[0]), a.real if first else b.real)
    if kind in ("select", "mixed"):
        where = np.random.default_rng(n).integers(0, 2, SHAPE).astype(bool)
        where = np.broadcast_to(where[:, :1], SHAPE) if draw(st.booleans()) else where
        chosen = lanes.select(where, a[0], b[0]) if kind == "select" else lanes.mixed(a[0], b[0])
        return Both(chosen, np.where(where, a.real, b.real))
    if kind == "lop3":
        table = draw(st.integers(0, 255))
        return Both(lanes.bitwise(table, a[0], b[0], c[0]), table_of(table, a.real, b.real, c.real))
    table = lanes.XOR_AB if kind == "xor" else lanes.AND_AB
    both: Callable[[Words, Words], Words] = operator.xor if kind == "xor" else operator.and_
    return Both(lanes.bitwise(table, a[0], b[0], lanes.constant(0)), both(a.real, b.real))


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
