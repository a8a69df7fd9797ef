"""Swizzles against CuTe and bit by bit, the ways to write them; and maps of shape and stride, there and back."""

import hashlib
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from address_layouts import modes, swizzles, table
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.fit.affine import Affine, Modes, fit_affine
from tcprobe.fit.swizzle import fit_address
from tcprobe.layout.swizzle import Swizzle, swizzle_named

DATA = Path(__file__).parent / "data" / "shared_memory"
IMAGES = json.loads((DATA / "swizzles.json").read_text())["tables"]["B,M,S"]


def parse(text):
    return swizzle_named(text).swizzle


# --- swizzles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("three", IMAGES)
def test_images_are_those_of_cute(three):
    images = parse(three)(np.arange(2048))
    assert hashlib.sha256(images.astype("<i4").tobytes()).hexdigest()[:16] == IMAGES[three]


def test_definition_bit_by_bit():
    """Bit M + j of the image is that bit XOR bit M + S + j; with S < 0 bit M + |S| + j is XORed with bit M + j."""
    for bits, base, shift in product(range(4), range(3), range(-4, 5)):
        if abs(shift) < bits:
            continue
        one = Swizzle(bits, base, shift)
        for offset in range(512):
            expected = offset
            for j in range(bits):
                source = base + j + max(shift, 0)
                expected ^= (offset >> source & 1) << (source - shift)
            assert one(offset) == expected


@given(swizzles(), st.integers(0, 1 << 40))
def test_a_swizzle_undoes_itself(one, offset):
    assert one(one(offset)) == offset


@given(swizzles(), st.sampled_from([8, 16, 32, 64]), st.integers(0, 1 << 20))
def test_bytes_and_elements(one, bits, offset):
    assert one.in_bytes(bits)(offset * (bits // 8)) == one(offset) * (bits // 8)
    assert one.in_bytes(bits).in_elements(bits) == one


def test_sub_byte_elements():
    assert Swizzle(2, 5, 3).in_bytes(4) == Swizzle(2, 4, 3)
    assert Swizzle(1, 0, 3).in_bytes(4) is None
    assert Swizzle(3, 4, 3).in_elements(4) == Swizzle(3, 5, 3)
    assert Swizzle(3, 0, 3).in_elements(16) is None


@pytest.mark.parametrize("text", ["3,4,3", "Sw<3,4,3>", "Swizzle<3, 4, 3>", " 3 , 4 , 3 "])
def test_ways_to_write_a_swizzle(text):
    assert parse(text) == Swizzle(3, 4, 3)
    assert parse(text).name == "Sw<3,4,3>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3,4",
        "3,4,2",
        "-1,4,3",
        "3,-4,3",
        "3,4,3,1",
        "Sw<3,4,3",
        "3,4,3>",
        "a,b,c",
        "3,4,99",
        "9999,0,9999",
        "3,4,-2",
        "٣,4,3",
    ],
)
def test_what_is_no_swizzle_is_refused(text):
    with pytest.raises(UsageError):
        parse(text)


# --- shape:stride ---------------------------------------------------------------------------------------------------


@given(modes(), modes(), st.integers(0, 1000), st.data())
def test_affine_maps_come_back(first, second, base, data):
    """Of a part of the map, too: what is found gives the same offsets there."""
    extent = tuple(int(np.prod(one.sizes)) for one in (first, second))
    low = [data.draw(st.integers(0, size - 1)) for size in extent]
    high = [data.draw(st.integers(start, size - 1)) for start, size in zip(low, extent, strict=True)]
    a, b = (axis.ravel() for axis in np.indices([h - s + 1 for s, h in zip(low, high, strict=True)]))
    a, b = a + low[0], b + low[1]
    found = fit_affine(a, b, Affine(first, second, base)(a, b), (high[0] + 1, high[1] + 1))
    assert found is not None
    assert np.array_equal(found(a, b), Affine(first, second, base)(a, b))
    for one, size in zip((found.first, found.second), high, strict=True):
        assert np.prod(one.sizes) > size
        assert len(one.sizes) <= 3 or low != [0, 0]


def test_modes_merge_where_they_can():
    found = fit_address(table((8, 12), lambda a, b: a * 12 + b % 4 + b // 4 * 4 + 3))
    assert (found.affine.first, found.affine.second, found.affine.base) == (Modes((8,), (12,)), Modes((12,), (1,)), 3)


def test_strides_may_be_negative_or_zero():
    found = fit_address(table((4, 6), lambda a, b: 40 - a * 8 + 0 * b))
    assert (found.affine.first.to_json(), found.affine.second.to_json()) == ((4, -8), (6, 0))
