"""How swizzles, sizes and element types are written: one spelling for all commands.

>>> swizzle("SWIZZLE_128B"), swizzle("128") == swizzle("128B"), str(swizzle("none"))
(SwizzleName(swizzle=Swizzle(bits=3, base=4, shift=3), is_mode=True), True, 'SWIZZLE_NONE')
>>> str(swizzle("Swizzle<2,4,3>")), swizzle("2,4,3").span
('sw:2,4,3', 64)
>>> sides("128x64") == sides("128,64"), element_type("FLOAT16")
(True, 'f16')

A *mode* is a swizzle of tensor maps and of wgmma's descriptors: of bytes within rows of its span. `B,M,S` is any
swizzle. Both are of byte offsets.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa import dtypes
from tcprobe.isa.tensor_map import SPANS, SWIZZLES
from tcprobe.layout.swizzle import Swizzle

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
    return bool(_MODE.fullmatch(text.strip()) or _three(text))


def swizzle(text: str) -> SwizzleName:
    """The swizzle that a text names; UsageError if it is not one of `SPELLINGS`."""
    if match := _MODE.fullmatch(text.strip()):
        bits = next((b for b, span in SPANS.items() if str(span) == match["span"]), 0)
        return SwizzleName(Swizzle(bits, 4, 3), is_mode=True)
    if numbers := _three(text):
        return SwizzleName(Swizzle(*numbers), is_mode=False)
    raise UsageError(f"{text.strip()[:40]!r} is not a swizzle; there are {SPELLINGS}.")


def _three(text: str) -> tuple[int, int, int] | None:
    match = _THREE.fullmatch(text.strip())
    if not match or bool(match["open"]) != bool(match["close"]):
        return None
    return int(match["b"]), int(match["m"]), int(match["s"])


def sides(text: str, most: int = MOST_SIDES) -> tuple[int, ...]:
    """Up to `most` numbers (exactly two if that is two), separated by x or commas: 128x64, 128,64; else UsageError."""
    parts = [part.strip() for part in re.split(r"[x,]", text[:MOST_TEXT], flags=re.IGNORECASE)]
    if len(parts) > most or (most == 2 != len(parts)) or not all(_SIDE.fullmatch(part) for part in parts):
        raise UsageError(f"{text[:40]!r} is not {'two' if most == 2 else f'one to {most}'} numbers such as 128x64.")
    return tuple(map(int, parts))


def map_tile(text: str) -> tuple[int, ...]:
    """Sides of a tile that a tensor map copies, outer sides first as everywhere: 64, 128x64, 2x128x64; else UsageError.

    Commas are how the driver's sides are written, inner first, so that they are refused here.

    >>> map_tile("128x64")
    (128, 64)
    """
    if "," in text:
        turned = "x".join(map(str, reversed(sides(text))))
        raise UsageError(
            f"`tile` {text[:40]!r}: a tile is written as ROWSxCOLS, or outer sides before them (2x128x64). What the "
            f"driver calls {text[:40]}, inner side first, is `tile` {turned}; its one box is `box` {text[:40]}."
        )
    return sides(text)


def map_mode(text: str) -> str:
    """The driver's name of a tensor map's mode without SWIZZLE_, as isa.tensor_map has it; UsageError if it is none.

    >>> map_mode("128"), map_mode("CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B"), map_mode("sw:1,4,3")
    ('128B', '128B_ATOM_32B', '32B')
    """
    bare = text.strip().upper().removeprefix("CU_TENSOR_MAP_").removeprefix("SWIZZLE_")
    if bare in SWIZZLES:
        return bare
    span = swizzle(text).span
    return f"{span}B" if span else "NONE"


def element_type(text: str) -> str:
    """PTX's name of an element type that `text` names in another way; any other text in lower case.

    UsageError for a name of two types.
    """
    name = dtypes.ptx_name(text)
    if "|" in name:
        raise UsageError(f"type {text.strip()} is {name.replace('|', ' or ')}: choose one.")
    return name
