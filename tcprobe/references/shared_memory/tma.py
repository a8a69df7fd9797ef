"""What a tensor map puts where: byte addresses in shared memory of a box (inner, rows), for each swizzle mode.

>>> import numpy as np
>>> mode = resolve("SWIZZLE_64B")
>>> mode(np.array([0, 0]), np.array([0, 2]), Box((32, 8), 16, 0)).tolist()
[0, 144]

Row y begins at base + y * pitch, the pitch being the box's own width without a swizzle and the whole span of the mode
with one, however narrow the box; the mode then swizzles absolute addresses. CUDA's driver API names the modes, PTX ISA
prints their patterns. Pitch, swizzle and what the driver refuses were measured on an H200 (driver 580), for elements of
1 to 8 bytes, boxes of 16 to 144 bytes and bases of 0, 128 and 896.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.layout import spelling
from tcprobe.layout.address import Integers, Pair
from tcprobe.layout.swizzle import Swizzle

LEAST_ARCH = 90
MOST_EXTENT, INNER, ALIGNMENT = 256, 16, 128  # elements of a box's side; bytes
MOST_BYTES = 228 << 10  # of a box, and of the shared memory of an SM of sm_90
WIDTHS = (8, 16, 32, 64)
MODES = {"NONE": 0, "32B": 1, "64B": 2, "128B": 3}


class Box(NamedTuple):
    """A box of `extent` = (inner, rows) elements of `bits`, at byte address `base` of shared memory."""

    extent: Pair
    bits: int
    base: int

    @property
    def inner(self) -> int:
        """Bytes of a row."""
        return self.extent[0] * self.bits // 8


class Mode(NamedTuple):
    """A swizzle mode: B bits of the 16-byte chunks of a span are XORed."""

    name: str
    bits: int

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle of byte addresses."""
        return Swizzle(self.bits, 4, 3)

    @property
    def span(self) -> int | None:
        """Bytes within which addresses change; None without a swizzle."""
        return 16 << self.bits if self.bits else None

    def __call__(self, inner: Integers, row: Integers, box: Box) -> Integers:
        """Byte addresses of the first byte of elements; UsageError for a box that the driver refuses."""
        refused = self.why_not(box)
        if refused:
            raise UsageError(f"{self.name}: {refused}")
        address: Integers = self.swizzle(box.base + row * (self.span or box.inner) + inner * (box.bits // 8))
        return address

    def why_not(self, box: Box) -> str:
        """Why there is no such box, "" if there is."""
        size = box.inner * box.extent[1]
        end = box.base + (self.span or box.inner) * box.extent[1]
        reasons = {
            f"elements of {box.bits} bits; tensor maps have {', '.join(map(str, WIDTHS))}.": box.bits not in WIDTHS,
            f"a box of {box.extent[0]} x {box.extent[1]}; sides are 1 to {MOST_EXTENT}.": not all(
                1 <= side <= MOST_EXTENT for side in box.extent
            ),
            f"{box.inner} bytes a row; it must be a multiple of {INNER}.": box.inner % INNER > 0,
            f"{box.inner} bytes a row; the mode's span is {self.span}.": box.inner > (self.span or box.inner),
            f"a box of {size} bytes; the driver takes {MOST_BYTES} at most.": size > MOST_BYTES,
            f"base {box.base}; it must be a multiple of {ALIGNMENT} from 0 on.": box.base % ALIGNMENT > 0
            or box.base < 0,
            f"ends at {end}; shared memory ends at {MOST_BYTES}.": end > MOST_BYTES,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


def resolve(name: str) -> Mode | None:
    """The mode that SWIZZLE_128B, or another spelling of it, means; None for any other name."""
    named = spelling.swizzle(name) if spelling.is_swizzle(name) else None
    return Mode(str(named), named.swizzle.bits) if named and named.is_mode else None


def names() -> list[str]:
    """All modes."""
    return [f"SWIZZLE_{mode}" for mode in MODES]
