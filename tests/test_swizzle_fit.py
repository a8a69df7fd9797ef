"""Fits of one swizzle, of coordinates, and of several: found, proven on every cell, refused where there is none."""

import numpy as np
import pytest
from address_layouts import brute_force, modes, strides, swizzles, table
from hypothesis import assume, given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.fit import swizzle
from tcprobe.fit.affine import Affine, CoordinateSwizzle, Modes, fit_affine
from tcprobe.fit.swizzle import fit_address, is_proven, offset_bits
from tcprobe.layout.address import AddressMap
from tcprobe.layout.swizzle import Swizzle


@examples(50)
@given(st.data())
def test_all_fits_of_small_tables_are_those_of_brute_force(data):
    first, second = data.draw(modes()), data.draw(modes())
    extent = tuple(min(int(np.prod(one.sizes)), 12) for one in (first, second))
    one = data.draw(st.one_of(st.just(Swizzle(0, 0, 0)), swizzles(negative=False)))
    address = table(extent, lambda a, b: one(Affine(first, second, data.draw(st.integers(0, 40)))(a, b)))
    plain, able = brute_force(address.grid.tolist())
    found = fit_address(address)
    assert is_proven(found, address)
    if plain:
        assert (found.kind, found.swizzle, found.others) == ("affine", None, ())
    else:
        assert found.kind == "swizzle"
        assert [found.swizzle, *found.others] == [Swizzle(*three) for three in able]


@examples(100)
@given(swizzles(), modes(), modes(), st.integers(0, 500), st.data())
def test_swizzled_maps_come_back(one, first, second, base, data):
    """Also of parts: a layout of a kind no later than the one it was made of, proven on every cell."""
    extent = [int(np.prod(axis.sizes)) for axis in (first, second)]
    low = [data.draw(st.integers(0, size - 1)) for size in extent]
    a, b = (axis.ravel() for axis in np.indices([size - start for size, start in zip(extent, low, strict=True)]))
    a, b = a + low[0], b + low[1]
    address = AddressMap.of(a, b, one(Affine(first, second, base)(a, b)))
    found = fit_address(address)
    assert found is not None
    assert is_proven(found, address)
    assert found.kind in ("affine", "swizzle")
    if found.swizzle and found.swizzle.shift * one.shift > 0:
        assert found.swizzle.bits <= one.bits


def test_worked_example():
    """Sw<2,0,3> on 4 x 8: bits 3 and 4 of the offset go into bits 0 and 1; a third bit is never set."""
    found = fit_address(table((4, 8), lambda a, b: a * 8 + (b ^ a)))
    assert (found.kind, found.swizzle, found.others) == ("swizzle", Swizzle(2, 0, 3), (Swizzle(3, 0, 3),))
    assert (found.affine.first.to_json(), found.affine.second.to_json()) == ((4, 8), (8, 1))


def test_more_than_five_bits_are_found_but_not_listed():
    found = fit_address(table((64, 64), lambda a, b: a * 64 + (a ^ b)))
    assert (found.swizzle, found.others) == (Swizzle(6, 0, 6), ())


def test_low_bits_into_high_ones():
    found = fit_address(table((64, 64), lambda a, b: (a ^ (b >> 3 & 3) << 2) * 64 + b))
    assert (found.kind, found.swizzle) == ("swizzle", Swizzle(2, 3, -5))


def test_a_single_element():
    found = fit_address(AddressMap.of([3], [4], [77]))
    assert (found.kind, found.cells) == ("affine", 1)


# --- coordinate swizzles --------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("pitch", [96, 192, 40])
@pytest.mark.parametrize("which", ["first", "second"])
def test_where_no_swizzle_of_the_offset_exists(pitch, which):
    made = CoordinateSwizzle(which, 2, 3, 1)
    extent = (32, 40) if which == "first" else (40, 32)
    steps = (1, pitch) if which == "first" else (pitch, 1)

    def offset(a, b):
        a, b = made(a, b)
        return a * steps[0] + b * steps[1]

    address = table(extent, offset)
    assert brute_force(address.grid.tolist(), most=2) == (False, [])
    found = fit_address(address)
    assert (found.kind, found.coordinate, found.swizzle, found.others) == ("coordinate", made, None, ())


@examples(100)
@given(st.sampled_from(["first", "second"]), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.data())
def test_coordinate_swizzles_come_back(which, bits, base, shift, data):
    """At odd pitches, where the XORed coordinate may leave its extent, and for parts that do not begin at 0."""
    made, pitch = CoordinateSwizzle(which, bits, base, shift), data.draw(st.sampled_from([33, 48, 96, 120]))
    a, b = (axis.ravel() + data.draw(st.integers(0, 3)) for axis in np.indices((24, 20)))
    first, second = made(a, b)
    address = AddressMap.of(a, b, first + second * pitch)
    found = fit_address(address)
    assert found is not None
    assert is_proven(found, address)
    assert found.kind in ("affine", "swizzle", "coordinate")
    if found.coordinate:
        assert found.coordinate.bits <= bits


# --- several swizzles -----------------------------------------------------------------------------------------------


def fewest_swizzles(address):
    """How many swizzles leave shape:stride when undone: all sequences, shortest first."""
    bits = offset_bits(address)
    every = [
        Swizzle(b, m, s * sign)
        for b in range(1, bits)
        for m in range(bits)
        for s in range(b, bits - m)
        for sign in (1, -1)
    ]
    level, seen = [address.offsets], {address.offsets.tobytes()}
    for count in range(4):
        if any(fit_affine(address.first, address.second, offsets, address.extent) for offsets in level):
            return count
        after = (one(offsets) for offsets in level for one in every)
        level = [image for image in after if not (image.tobytes() in seen or seen.add(image.tobytes()))]
    return None


@examples(40)
@given(st.lists(swizzles(), min_size=2, max_size=2))
def test_as_few_swizzles_as_possible(both):
    """On 4 x 8 elements, against all sequences."""
    both = [Swizzle(min(one.bits, 2), min(one.base, 1), max(-3, min(3, one.shift))) for one in both]
    address = table((4, 8), lambda a, b: both[1](both[0](a * 8 + b)))
    found = fit_address(address)
    assert is_proven(found, address)
    if found.kind == "coordinate":
        assume(False)
    assert len(found.swizzles) == fewest_swizzles(address)


@pytest.mark.parametrize(
    "chain",
    [
        (Swizzle(2, 3, 4), Swizzle(1, 1, 7)),
        (Swizzle(2, 2, 4), Swizzle(2, 3, 6)),
        (Swizzle(2, 3, 4), Swizzle(1, 0, -5)),
        (Swizzle(2, 2, 4), Swizzle(2, 3, 6), Swizzle(1, 0, 7)),
    ],
)
def test_chains_come_back(chain):
    def offset(a, b):
        offsets = a * 64 + b
        for one in chain:
            offsets = one(offsets)
        return offsets

    address = table((64, 64), offset)
    found = fit_address(address)
    assert found.kind == "xor"
    assert len(found.swizzles) == len(chain)
    assert is_proven(found, address)
    assert found.fewest
    assert found.swizzle is None


def test_a_long_chain_is_split_but_said_not_to_be_the_shortest():
    chain = (
        Swizzle(1, 5, -3),
        Swizzle(1, 0, 7),
        Swizzle(2, 3, 6),
        Swizzle(2, 2, 4),
        Swizzle(1, 1, 9),
        Swizzle(1, 0, 2),
    )

    def offset(a, b):
        offsets = a * 64 + b
        for one in chain:
            offsets = one(offsets)
        return offsets

    address = table((64, 64), offset)
    found = fit_address(address)
    assert found.kind == "xor"
    assert is_proven(found, address)
    assert not found.fewest


# --- nothing is claimed that does not hold --------------------------------------------------------------------------


@examples(60)
@given(st.data())
def test_a_spoiled_cell_is_never_passed_over(data):
    one = Swizzle(3, 3, 3)
    grid = one(np.arange(512).reshape(8, 64))
    a, b = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 63))
    grid[a, b] = data.draw(st.integers(0, 1023).filter(lambda value: value != grid[a, b]))
    address = table(grid.shape, lambda first, second: grid[first, second])
    found = fit_address(address)
    assert found is None or is_proven(found, address)


@pytest.mark.parametrize(
    "function", [lambda a, b: a * b, lambda a, b: (a * a + b) % 97, lambda a, b: (a & b) * 3 + a * 64]
)
def test_what_has_no_layout_gets_none(function):
    assert fit_address(table((16, 16), function)) is None


def test_maps_that_are_not_whole():
    """A cut corner, single holes, and a missing row: what is there decides."""
    full = table((16, 32), lambda a, b: Swizzle(2, 3, 3)(a * 32 + b))
    for gone in (full.offsets > 470, full.offsets % 37 == 5, full.first == 6, full.second < 3):
        left = AddressMap.of(full.first[~gone], full.second[~gone], full.offsets[~gone], (full.low, full.high))
        found = fit_address(left)
        assert (found.kind, found.swizzle) == ("swizzle", Swizzle(2, 3, 3))
        assert is_proven(found, full)


# --- what is not a layout --------------------------------------------------------------------------------------------


def no_layouts():
    """Maps of one row, one column, and sums of such, that look like a layout for a while and are none."""
    rng = np.random.default_rng(7)
    for count, top in ((64, 20), (64, 39)):
        offsets, number = rng.integers(0, 1 << top, count), np.arange(count)
        paired = offsets >> 3 << 3
        paired[1::2] = paired[::2] + 1
        for values in (offsets, paired):
            yield AddressMap.of(0 * number, number, values)
            yield AddressMap.of(number, 0 * number, values)
            yield AddressMap.of(0 * number, number + 1, values)
        both = np.concatenate([offsets, offsets + (1 << top)])
        yield AddressMap.of(np.repeat([0, 1], count), np.tile(number, 2), both)


@pytest.mark.full
def test_what_is_no_layout_is_given_up_after_so_many_tries(monkeypatch, sample):
    """Whatever the offsets are: the maps that are computed in full are counted."""
    tried = []
    whole_fit = swizzle.fit_affine
    monkeypatch.setattr(swizzle, "fit_affine", lambda *given: tried.append(1) or whole_fit(*given))
    for address in sample(no_layouts(), 3):
        tried.clear()
        assert fit_address(address) is None
        assert len(tried) <= 6 * swizzle.MOST_TRIES
        assert len(tried) * address.cells <= 6 * max(swizzle.MOST_WORK, swizzle.LEAST_TRIES * address.cells)


@given(st.integers(2, 90), st.lists(strides, min_size=1, max_size=2), swizzles(negative=False))
def test_a_row_that_has_a_layout_is_found(size, steps, one):
    """The quick condition on beginnings rejects none."""
    layout = Modes((4,) * (len(steps) - 1) + (size,), tuple(step * (n + 1) for n, step in enumerate(steps)))
    number = np.arange(size)
    for address in (
        AddressMap.of(0 * number, number, one(layout(number))),
        AddressMap.of(number, 0 * number, one(layout(number))),
    ):
        found = fit_address(address)
        assert found is not None
        assert is_proven(found, address)
