"""CuTe's shared-memory atoms for wgmma and tcgen05: offsets of elements (m or n, k), in elements.

>>> import numpy as np
>>> atom = resolve("Layout_K_SW128_Atom<half_t>")
>>> atom.shape, atom(np.array([0, 1, 8]), np.array([0, 0, 0]), (16, 64)).tolist()
((8, 64), [0, 72, 512])

An atom is a swizzle of byte addresses over 8 runs (4 for SW128_32B) of 16, 32, 64 or 128 bytes along its major
coordinate. A larger tile is that of tile_to_shape: atoms side by side along the first coordinate, then along the
second. Source: include/cute/atom/mma_traits_sm90_gmma.hpp and mma_traits_sm100.hpp of CUTLASS 4.2.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.layout.address import Pair
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import Swizzle

_NAME = re.compile(r"Layout_(MN|K)_(INTER|SW32|SW64|SW128|SW128_32B)_Atom(?:<([A-Za-z0-9_]+)>)?")
SPANS = {  # swizzle of bytes, bytes of a run, runs
    "INTER": (Swizzle(0, 4, 3), 16, 8),
    "SW32": (Swizzle(1, 4, 3), 32, 8),
    "SW64": (Swizzle(2, 4, 3), 64, 8),
    "SW128": (Swizzle(3, 4, 3), 128, 8),
    "SW128_32B": (Swizzle(2, 5, 2), 128, 4),
}
TYPES = {
    "half_t": 16,
    "bfloat16_t": 16,
    "float": 32,
    "tfloat32_t": 32,
    "double": 64,
    "float_e4m3_t": 8,
    "float_e5m2_t": 8,
    "int8_t": 8,
    "uint8_t": 8,
    "int16_t": 16,
    "uint16_t": 16,
    "int32_t": 32,
    "uint32_t": 32,
    "int4_t": 4,
    "uint4_t": 4,
    "int64_t": 64,
    "uint64_t": 64,
    "uint1b_t": 1,
    "float_e2m1_t": 4,
}
NAMED = {
    4: "int4_t",
    8: "uint8_t",
    16: "half_t",
    32: "float",
    64: "double",
}  # a type of each width, to write names with


class CuteAtom(NamedTuple):
    """An atom for elements of `bits`: `swizzle` of offsets in elements, runs of `shape` along coordinate `major`."""

    name: str
    bits: int
    swizzle: Swizzle
    shape: Pair
    major: int

    def __call__(self, first: Ints, second: Ints, extent: Pair) -> Ints:
        """Offsets, in elements, of a tile of `extent`; UsageError unless that is a whole number of atoms."""
        wide, high = self.shape
        if extent[0] % wide or extent[1] % high:
            raise UsageError(f"{self.name} is {wide} x {high} elements; {extent[0]} x {extent[1]} is not whole atoms.")
        block = first // wide + second // high * (extent[0] // wide)
        inside = (first % wide, second % high)
        run, line = inside[self.major], inside[1 - self.major]
        offset: Ints = self.swizzle(block * wide * high + line * self.shape[self.major] + run)
        return offset


def resolve(name: str, bits: int | None = None) -> CuteAtom | None:
    """The atom that a name such as Layout_K_SW64_Atom<half_t> means; None if it is not such a name.

    UsageError if neither <T> nor `bits` gives the width of elements, if they differ, or if the width exceeds what the
    atom swizzles as one piece.
    """
    text = re.sub(r"\s|(?:cute|GMMA|UMMA|SM90|SM100)::", "", name)
    match = _NAME.fullmatch(text)
    if not match or (match[1] == "K" and match[2] == "SW128_32B"):
        return None
    if match[3] and match[3] not in TYPES:
        raise UsageError(f"{name}: {match[3]!r} is not a type of known width; known are {', '.join(TYPES)}.")
    wide = TYPES[match[3]] if match[3] else bits
    if wide is None or bits not in (None, wide):
        raise UsageError(f"{name}: `bits` gives the width of an element" + (f", here {wide}." if wide else "."))
    swizzle, span, runs = SPANS[match[2]]
    own = swizzle.in_elements(wide)
    if own is None or span * 8 % wide:
        raise UsageError(f"{name}: elements of {wide} bits are too wide for what it swizzles.")
    run = span * 8 // wide
    return CuteAtom(text, wide, own, (runs, run) if match[1] == "K" else (run, runs), 1 if match[1] == "K" else 0)


def names() -> list[str]:
    """All names, with their template parameter."""
    every = [f"Layout_{major}_{span}_Atom<T>" for span in SPANS for major in ("K", "MN")]
    return [name for name in every if name != "Layout_K_SW128_32B_Atom<T>"]
