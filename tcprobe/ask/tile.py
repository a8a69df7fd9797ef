"""A tile in shared memory: its lines, the pitch between them, and the padding or swizzle that spreads them over banks.

>>> from tcprobe.ask.tile import parse_shared, parse_tile
>>> tile = parse_tile("64x32", "f16", "row")
>>> shared = parse_shared("sw:2,4,3")
>>> tile.lines, tile.line_bytes, str(shared), int(shared.offset(tile, 2, 16))
(64, 64, 'Sw<2,4,3>', 128)
>>> parse_shared("SWIZZLE_128B") == parse_shared("128") == parse_shared("boxes:128")
True

One coordinate is contiguous, so that memory holds *lines*: rows of a row-major tile, columns of a column-major one.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import DTYPES
from tcprobe.isa.shared_memory import MOST_SHARED
from tcprobe.isa.tensor_map import SPANS
from tcprobe.layout.arrays import Offset
from tcprobe.layout.swizzle import SPELLINGS, Swizzle, is_swizzle, sizes_written, swizzle_named

UNTYPED = (8, 16, 32, 64)
MOST_PADDING = 1 << 16
MOST_SWIZZLE = 20  # B, M and S of a swizzle
MOST_SIDE = 10**6  # elements
BOX_START = 128  # bytes: a box of a tensor map begins at a multiple
# TMA's modes, of the absolute byte address
TMA: dict[str, tuple[int, int, int]] = {
    "SWIZZLE_NONE": (0, 4, 3),
    "SWIZZLE_32B": (1, 4, 3),
    "SWIZZLE_64B": (2, 4, 3),
    "SWIZZLE_128B": (3, 4, 3),
}

BMS = tuple[int, int, int]
NONE: BMS = (0, 4, 3)


def swizzle_offset(offset: Offset, bms: BMS) -> Offset:
    """The image of a byte offset, or of an array of them, under Swizzle<B, M, S>."""
    return Swizzle(*bms)(offset)


def name(bms: BMS) -> str:
    """As CuTe prints it."""
    return Swizzle(*bms).name


@dataclass(frozen=True)
class Tile:
    """`rows` x `cols` elements of `bits` bits in the fragment's own coordinates; `contiguous` is "row" or "col"."""

    rows: int
    cols: int
    type: str
    bits: int
    contiguous: str

    def __post_init__(self) -> None:
        if self.length * self.bits % 8:
            raise UsageError(f"a line of {self.length} elements of {self.bits} bits is not whole bytes.")
        if self.lines * self.line_bytes > MOST_SHARED:
            size = f"{self.lines * self.line_bytes} bytes"
            raise UsageError(f"a tile of {size}; the largest shared memory has {MOST_SHARED}.")

    @property
    def lines(self) -> int:
        """Lines of memory."""
        return self.rows if self.contiguous == "row" else self.cols

    @property
    def length(self) -> int:
        """Elements of a line."""
        return self.cols if self.contiguous == "row" else self.rows

    @property
    def line_bytes(self) -> int:
        """Bytes of a line without padding."""
        return self.length * self.bits // 8


@dataclass(frozen=True)
class Shared:
    """How a tile lies in shared memory: `padding` bytes after each line, or a swizzle of the offset.

    Lines may be cut into blocks of `block` bytes: the first of every line, then the second of every line, and so on; so
    the boxes of a tensor map, and tiles of wgmma with k contiguous, lie in shared memory. A line may be shorter than a
    block, but no line is whole blocks and a part.
    """

    padding: int = 0
    swizzle: BMS = NONE
    block: int = 0

    def __str__(self) -> str:
        return (
            name(self.swizzle) if self.swizzle[0] else f"{self.padding} bytes of padding" if self.padding else "plain"
        )

    @property
    def spelling(self) -> str:
        """As --shared takes it."""
        if self.block:
            return f"boxes:{self.block}"
        if self.swizzle[0]:
            return f"sw:{','.join(map(str, self.swizzle))}"
        return f"pad:{self.padding}" if self.padding else "plain"

    def blocks(self, tile: Tile) -> int:
        """How many blocks a line is cut into."""
        return -(-tile.line_bytes // self.block) if self.block else 1

    def check(self, tile: Tile) -> None:
        """UsageError where boxes cannot hold the tile."""
        count = self.blocks(tile)
        if count > 1 and (tile.line_bytes % self.block or tile.lines * self.block % BOX_START):
            raise UsageError(
                f"{self.spelling}: {tile.lines} lines of {tile.line_bytes} bytes do not fill boxes of {self.block} "
                f"bytes per line that begin at multiples of {BOX_START}; sw:{','.join(map(str, self.swizzle))} is that "
                "swizzle of the tile in one piece."
            )

    def pitch(self, tile: Tile) -> int:
        """Bytes from one line to the next."""
        return self.block or tile.line_bytes + self.padding

    def words(self, tile: Tile) -> str:
        """How far lines, or the blocks that they are cut into, are apart."""
        count, apart = self.blocks(tile), f"{self.pitch(tile)} bytes apart"
        return f"{count} blocks of each line, those {apart}" if count > 1 else f"lines {apart}"

    def linear(self, tile: Tile, line: Offset, byte: Offset) -> Offset:
        """Where a byte of a line would be without a swizzle, from the tile's start; numbers or arrays of them."""
        if not self.block:
            return line * self.pitch(tile) + byte
        return byte // self.block * (tile.lines * self.block) + line * self.block + byte % self.block

    def offset(self, tile: Tile, line: Offset, byte: Offset) -> Offset:
        """Where a byte of a line is, from the tile's start; numbers or arrays of them."""
        return swizzle_offset(self.linear(tile, line, byte), self.swizzle)

    def bytes(self, tile: Tile) -> int:
        """What the tile takes: one more than the largest offset of its bytes, padding after the last line included."""
        linear = np.arange(tile.lines * (self.blocks(tile) * self.block or tile.line_bytes + self.padding))
        return 1 + int(swizzle_offset(linear, self.swizzle).max())


def box_placement(width: int) -> Shared:
    """Boxes of rows of the swizzle of that width; UsageError where there is none."""
    bits = next((bits for bits, span in SPANS.items() if span == width), None)
    if bits is None:
        raise UsageError(f"boxes:{width}: a swizzle has rows of 32, 64 or 128 bytes.")
    return Shared(swizzle=(bits, 4, 3), block=width)


def parse_tile(text: str, type_: str, contiguous: str, bits: int | None = None) -> Tile:
    """ROWSxCOLS of a PTX type, or of b8 to b64, whose elements take `bits` if that is not the type's; UsageError."""
    rows, cols = 0, 0
    with suppress(UsageError):
        rows, cols = sizes_written(text, 2)
    if not 0 < min(rows, cols) <= max(rows, cols) < MOST_SIDE:
        raise UsageError(f"`size` {text[:20]!r} is not ROWSxCOLS such as 64x32.")
    return Tile(rows, cols, type_, bits or bits_of(type_), contiguous)


def bits_of(type_: str) -> int:
    """Bits that an element takes in memory: 8 for the types of 6 bits, which lie in bytes."""
    bits_by_type = {d.name: 8 if d.bits == 6 else d.bits for d in DTYPES} | {f"b{n}": n for n in UNTYPED}
    if type_ not in bits_by_type:
        raise UsageError(f"unknown element type {type_[:20]!r}; known: {', '.join(bits_by_type)}.")
    return bits_by_type[type_]


def parse_shared(text: str) -> Shared:
    """plain, pad:BYTES, boxes:BYTES or a swizzle in any spelling; UsageError. A mode of tensor maps means its boxes."""
    if text == "plain":
        return Shared()
    if match := re.fullmatch(r"(pad|boxes):([0-9]{1,6})", text):
        if match[1] == "boxes":
            return box_placement(int(match[2]))
        if int(match[2]) > MOST_PADDING:
            raise UsageError(f"`placed` {text}: at most {MOST_PADDING} bytes of padding.")
        return Shared(int(match[2]))
    if not is_swizzle(text):
        raise UsageError(f"`placed` {text[:30]!r} is not plain, pad:BYTES, boxes:BYTES or a swizzle: {SPELLINGS}.")
    named = swizzle_named(text)
    b, m, s = named.swizzle.to_json()
    if max(b, m, abs(s)) > MOST_SWIZZLE:
        raise UsageError(f"`placed` {text}: B, M and S go up to {MOST_SWIZZLE}, and |S| is at least B, as in CuTe.")
    return box_placement(named.span) if named.is_mode and b else Shared(swizzle=(b, m, s))
