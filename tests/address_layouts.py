"""Maps of addresses by shape and stride and by swizzles, drawn at random, and all fits of small ones by brute force."""

import numpy as np
from hypothesis import strategies as st

from tcprobe.fit.affine import Modes
from tcprobe.layout.address import AddressMap
from tcprobe.layout.swizzle import Swizzle

sizes = st.lists(st.sampled_from([2, 3, 4, 5, 8]), min_size=1, max_size=3).map(tuple)
strides = st.one_of(st.integers(0, 9), st.sampled_from([16, 24, 32, 64, 72, 96, 128, 192, 256]))


@st.composite
def modes(draw):
    shape = draw(sizes)
    return Modes(shape, tuple(draw(strides) for _ in shape))


@st.composite
def swizzles(draw, negative=True):
    bits = draw(st.integers(1, 3))
    shift = draw(st.integers(bits, 6))
    return Swizzle(bits, draw(st.integers(0, 4)), -shift if negative and draw(st.booleans()) else shift)


def whole(layout, extent):
    first, second = (axis.ravel() for axis in np.indices(extent))
    return AddressMap.of(first, second, layout(first, second))


def table(extent, offset):
    return whole(offset, extent)


def is_modal(values):
    """Whether a sequence is a sum over the digits of its index: every size of the first mode is tried."""
    if len(values) < 3:
        return True
    for size in range(2, len(values) + 1):
        step = values[1] - values[0]
        if all(values[i] == values[i // size * size] + i % size * step for i in range(len(values))) and (
            size >= len(values) or is_modal(values[::size])
        ):
            return True
    return False


def brute_force(grid, most=5):
    """All [B, M, S] under which a grid of offsets is shape:stride + base, and whether it is so without one."""

    def affine(image):
        rows, columns = len(image), len(image[0])
        apart = all(image[a][b] - image[a][0] == image[0][b] - image[0][0] for a in range(rows) for b in range(columns))
        return apart and is_modal([row[0] for row in image]) and is_modal(image[0])

    bits = max(map(max, grid)).bit_length()
    able = [
        (b, m, s)
        for b in range(1, most + 1)
        for m in range(bits)
        for s in range(b, bits - m)
        if affine([[Swizzle(b, m, s)(offset) for offset in row] for row in grid])
    ]
    return affine(grid), able
