"""Swizzle<B, M, S> as CuTe defines it: B bits of an offset are XORed into B other bits, S places away.

>>> Swizzle(2, 0, 3)(9), Swizzle(2, 0, 3).name
(8, 'Sw<2,0,3>')
>>> Swizzle(2, 3, 3).in_bytes(16)
Swizzle(bits=2, base=4, shift=3)

With S > 0 the bits Y = M + S .. M + S + B - 1 change the bits Z = M .. M + B - 1; with S < 0 the low bits M .. M + B -
1 change the bits |S| places above them. |S| is at least B, so Y and Z do not overlap, and a swizzle is its own inverse.
Source: include/cute/swizzle.hpp of CUTLASS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from tcprobe.layout.arrays import Offset

MOST_BIT = 62  # offsets are 64-bit integers


@dataclass(frozen=True, order=True)
class Swizzle:
    """B = `bits` >= 0, M = `base` >= 0, S = `shift` with |S| >= B; UsageError otherwise, or beyond 62 bits."""

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise UsageError(f"{self.name} is not a swizzle: B and M are at least 0, and |S| at least B.")
        if self.base + abs(self.shift) + self.bits > MOST_BIT:
            raise UsageError(f"{self.name} reaches beyond bit {MOST_BIT}.")

    @property
    def source(self) -> int:
        """The mask Y of the bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(0, self.shift))

    @property
    def changed(self) -> int:
        """The mask Z of the bits that are changed."""
        return ((1 << self.bits) - 1) << (self.base - min(0, self.shift))

    @property
    def name(self) -> str:
        """The name as CuTe prints it: Sw<B,M,S>."""
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    def __call__(self, offset: Offset) -> Offset:
        """The image of an offset: an integer of at least 0, or a NumPy array of these."""
        moved = offset & self.source
        return offset ^ (moved >> self.shift if self.shift >= 0 else moved << -self.shift)

    def in_bytes(self, element_bits: int) -> Swizzle | None:
        """The same swizzle of byte offsets, for elements of 2**n bits; None if it acts inside a byte."""
        base = self.base + element_bits.bit_length() - 4
        return Swizzle(self.bits, base, self.shift) if base >= 0 else None

    def in_elements(self, element_bits: int) -> Swizzle | None:
        """The inverse of `in_bytes`; None if it acts inside an element."""
        base = self.base - element_bits.bit_length() + 4
        return Swizzle(self.bits, base, self.shift) if base >= 0 else None

    def to_json(self) -> list[int]:
        """[B, M, S]."""
        return [self.bits, self.base, self.shift]
