"""Swizzle<B, M, S> as CuTe defines it: B bits of an offset are XORed into B other bits, S places away.

>>> Swizzle(2, 0, 3)(9), Swizzle(2, 0, 3).name
(8, 'Sw<2,0,3>')
>>> Swizzle(2, 3, 3).in_bytes(16)
Swizzle(bits=2, base=4, shift=3)

With S > 0 the bits Y = M + S .. M + S + B - 1 change the bits Z = M .. M + B - 1; with S < 0 the low bits M .. M + B -
1 change the bits |S| places above them. |S| is at least B, so Y and Z do not overlap, and a swizzle is its own inverse.
Source: include/cute/swizzle.hpp of CUTLASS.

Swizzles, sizes and element types have one spelling in all commands:

>>> swizzle_named("SWIZZLE_128B"), swizzle_named("128") == swizzle_named("128B"), str(swizzle_named("none"))
(SwizzleName(swizzle=Swizzle(bits=3, base=4, shift=3), is_mode=True), True, 'SWIZZLE_NONE')
>>> str(swizzle_named("Swizzle<2,4,3>")), swizzle_named("2,4,3").span
('sw:2,4,3', 64)
>>> sizes_written("128x64") == sizes_written("128,64"), type_named("FLOAT16")
(True, 'f16')

A *mode* is a swizzle of tensor maps and of wgmma's descriptors: of bytes within rows of its span. `B,M,S` is any
swizzle. Both are of byte offsets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa import dtypes
from tcprobe.isa.tensor_map import SPANS, SWIZZLES

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


SPELLINGS = "none, 32, 64, 128 (as 128B or SWIZZLE_128B too) or B,M,S (as sw:3,4,3 or Swizzle<3,4,3> too)"
MOST_SIDES, MOST_TEXT = 5, 200
_SIDE = re.compile(r"[0-9]{1,13}")
_MODE = re.compile(r"(?:(?:CU_TENSOR_MAP_)?SWIZZLE_)?(?:(?P<none>NONE)|(?P<span>32|64|128)B?)", re.IGNORECASE)
_THREE = re.compile(
    r"(?:sw:|(?P<open>(?:cute::)?sw(?:izzle)?<))?"
    r"\s*(?P<b>[0-9]{1,3})\s*,\s*(?P<m>[0-9]{1,3})\s*,\s*(?P<s>-?[0-9]{1,3})\s*(?P<close>>)?",
    re.IGNORECASE | re.ASCII,
)


class SwizzleName(NamedTuple):
    """A swizzle of byte offsets; `is_mode`: it was named as a mode, which means boxes of a tensor map."""

    swizzle: Swizzle
    is_mode: bool

    def __str__(self) -> str:
        """The canonical spelling."""
        if self.is_mode:
            return f"SWIZZLE_{f'{self.span}B' if self.span else 'NONE'}"
        return f"sw:{','.join(map(str, self.swizzle.to_json()))}"

    @property
    def span(self) -> int:
        """Bytes of a row of the mode's pattern, 0 without a swizzle; UsageError if no mode does the same."""
        bits, *rest = self.swizzle.to_json()
        if bits and (bits not in SPANS or rest != [4, 3]):
            raise UsageError(
                f"{self}: tensor maps and descriptors have none, sw:1,4,3 (32 bytes), sw:2,4,3 (64) and "
                "sw:3,4,3 (128) only."
            )
        return SPANS.get(bits, 0)


def is_swizzle(text: str) -> bool:
    """Whether a text is written like a swizzle, even if no swizzle has its numbers."""
    return bool(_MODE.fullmatch(text.strip()) or _b_m_s(text))


def swizzle_named(text: str) -> SwizzleName:
    """The swizzle that a text names; UsageError if it is not one of `SPELLINGS`."""
    if match := _MODE.fullmatch(text.strip()):
        bits = next((b for b, span in SPANS.items() if str(span) == match["span"]), 0)
        return SwizzleName(Swizzle(bits, 4, 3), is_mode=True)
    if numbers := _b_m_s(text):
        return SwizzleName(Swizzle(*numbers), is_mode=False)
    raise UsageError(f"{text.strip()[:40]!r} is not a swizzle; there are {SPELLINGS}.")


def _b_m_s(text: str) -> tuple[int, int, int] | None:
    match = _THREE.fullmatch(text.strip())
    if not match or bool(match["open"]) != bool(match["close"]):
        return None
    return int(match["b"]), int(match["m"]), int(match["s"])


def sizes_written(text: str, most: int = MOST_SIDES) -> tuple[int, ...]:
    """Up to `most` numbers (exactly two if that is two), separated by x or commas: 128x64, 128,64; else UsageError."""
    parts = [part.strip() for part in re.split(r"[x,]", text[:MOST_TEXT], flags=re.IGNORECASE)]
    if len(parts) > most or (most == 2 != len(parts)) or not all(_SIDE.fullmatch(part) for part in parts):
        raise UsageError(f"{text[:40]!r} is not {'two' if most == 2 else f'one to {most}'} numbers such as 128x64.")
    return tuple(map(int, parts))


def map_tile(text: str, name: str = "tile") -> tuple[int, ...]:
    """Sides of a tile that a tensor map copies, outer sides first as everywhere: 64, 128x64, 2x128x64; else UsageError.

    Or those of the matrix that it is `of`. Commas are how the driver's sides are written, inner first, so that they are
    refused here.

    >>> map_tile("128x64")
    (128, 64)
    """
    if "," in text:
        turned = "x".join(map(str, reversed(sizes_written(text))))
        same = f"its one box is `box` {text[:40]}" if name == "tile" else f"or `dims` {text[:40]}"
        raise UsageError(
            f"`{name}` {text[:40]!r}: it is written as ROWSxCOLS, or outer sides before them (2x128x64). What the "
            f"driver calls {text[:40]}, inner side first, is `{name}` {turned}; {same}."
        )
    return sizes_written(text)


def map_mode(text: str) -> str:
    """The driver's name of a tensor map's mode without SWIZZLE_, as isa.tensor_map has it; UsageError if it is none.

    >>> map_mode("128"), map_mode("CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B"), map_mode("sw:1,4,3")
    ('128B', '128B_ATOM_32B', '32B')
    """
    bare = text.strip().upper().removeprefix("CU_TENSOR_MAP_").removeprefix("SWIZZLE_")
    if bare in SWIZZLES:
        return bare
    span = swizzle_named(text).span
    return f"{span}B" if span else "NONE"


def type_named(text: str) -> str:
    """PTX's name of an element type that `text` names in another way; any other text in lower case.

    UsageError for a name of two types.
    """
    name = dtypes.ptx_name(text)
    if "|" in name:
        raise UsageError(f"type {text.strip()} is {name.replace('|', ' or ')}: choose one.")
    return name
