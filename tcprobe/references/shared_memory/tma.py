"""Where a tensor map puts each byte: byte addresses in shared memory of a box (inner, rows), for each swizzle mode.

>>> import numpy as np
>>> mode = resolve("SWIZZLE_64B")
>>> mode(np.array([0, 0]), np.array([0, 2]), Box((32, 8), 16, 0)).tolist()
[0, 144]

Row y begins at base + y * pitch. Without a swizzle the pitch is the width of the box; with one it is the whole span of
the mode, even if the box is narrower. The mode swizzles absolute addresses. CUDA's driver API names the modes, PTX ISA
prints their patterns. Pitch, swizzle and what the driver refuses were measured on an H200 (driver 580), for elements of
1 to 8 bytes, boxes of 16 to 144 bytes and bases of 0, 128 and 896.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.layout.address import Pair
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import Swizzle, is_swizzle, swizzle_named

LEAST_ARCH = 90
MOST_EXTENT, INNER, ALIGNMENT = 256, 16, 128  # elements of a box's side; bytes
MOST_BYTES = 228 << 10  # of a box, and of the shared memory of an SM of sm_90
WIDTHS = (8, 16, 32, 64)
MODES = {"NONE": 0, "32B": 1, "64B": 2, "128B": 3}
ATOMS_ARCH = 100  # the first arch where a span of 128 bytes can have atoms above 16 bytes; sm_90's driver refuses them
# their swizzles of byte addresses: rows of the span exchange atoms (PTX ISA 9.1, section 5.5.5; CUDA driver API)
ATOMS = {
    "128B_ATOM_32B": (Swizzle(2, 5, 2),),
    "128B_ATOM_32B_FLIP_8B": (
        Swizzle(2, 5, 2),
        Swizzle(1, 3, 4),
    ),  # also swaps the 8-byte halves of 16 bytes in every other row
    "128B_ATOM_64B": (Swizzle(1, 6, 1),),
}


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
    """A swizzle mode: B bits of the numbers of a span's 16-byte chunks are XORed; or the swizzles `atoms`, in order."""

    name: str
    bits: int
    atoms: tuple[Swizzle, ...] = ()

    @property
    def swizzle(self) -> Swizzle:
        """The swizzle of byte addresses."""
        return Swizzle(self.bits, 4, 3)

    @property
    def span(self) -> int | None:
        """Bytes within which addresses change; None without a swizzle."""
        return 16 << self.bits if self.bits else None

    def __call__(self, inner: Ints, row: Ints, box: Box) -> Ints:
        """Byte addresses of elements; UsageError for a box that the driver refuses."""
        refused = self.why_not(box)
        if refused:
            raise UsageError(f"{self.name}: {refused}")
        address: Ints = box.base + row * (self.span or box.inner) + inner * (box.bits // 8)
        for swizzle in self.atoms or (self.swizzle,):
            address = swizzle(address)
        return address

    @property
    def least_arch(self) -> int:
        """The number of the first arch whose driver takes it."""
        return ATOMS_ARCH if self.atoms else LEAST_ARCH

    def stands_on(self, arch: str) -> str:
        """What is known of it on an arch, in words; "" if it was measured there."""
        if self.atoms:
            return (
                f"documented by PTX ISA and the CUDA driver API; nobody measured {arch}, and sm_90's driver refuses it"
            )
        return "" if arch == f"sm_{LEAST_ARCH}" else f"measured on sm_{LEAST_ARCH}; nobody measured {arch}"

    def why_not(self, box: Box) -> str:
        """Why the driver refuses such a box; "" if it does not."""
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
    """The mode that SWIZZLE_128B, in any spelling, or SWIZZLE_128B_ATOM_32B means; None for any other name."""
    plain = name.strip().removeprefix("CU_TENSOR_MAP_")
    bare = plain.removeprefix("SWIZZLE_") if plain.startswith("SWIZZLE_") else ""
    if bare in ATOMS:
        return Mode(plain, MODES["128B"], ATOMS[bare])
    named = swizzle_named(name) if is_swizzle(name) else None
    return Mode(str(named), named.swizzle.bits) if named and named.is_mode else None


def names() -> list[str]:
    """The modes of all archs with tensor maps."""
    return [f"SWIZZLE_{mode}" for mode in MODES]


def atom_names() -> list[str]:
    """The modes that only sm_100 and later have."""
    return [f"SWIZZLE_{mode}" for mode in ATOMS]
