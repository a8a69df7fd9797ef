"""A tile in shared memory: its lines, the pitch between them, and the padding or swizzle that spreads them over banks.

>>> tile = parse_tile("64x32", "f16", "row")
>>> shared = parse_shared("sw:2,4,3")
>>> tile.lines, tile.line_bytes, str(shared), int(shared.offset(tile, 2, 16))
(64, 64, 'Sw<2,4,3>', 128)
>>> parse_shared("SWIZZLE_128B") == parse_shared("128") == parse_shared("boxes:128")
True

One coordinate is contiguous, so that memory holds *lines*: rows of a row-major tile, columns of a column-major one.

How an access walks a tile in shared memory: which addresses its lanes give, instruction by instruction.

An access either walks the slots of a fragment, of which whole copies cover the tile:

- `ld.shared.b64` moves 64 bits of registers of each lane at a time, whose elements must lie side by side;
- `ldmatrix.x4` moves four registers, each of which must be an 8 x 8 matrix of b16 in memory, as lines or transposed;
  which of the two makes no difference to the banks;

and without a fragment, all 8 x 8 matrices of b16 that the tile is, one below the other: each is a phase of its own, so
that the order changes no cost;

or sweeps the tile in pieces of its own width: lane after lane along a line and on in the next one (`@rows`), or one
line for each lane, and then the next piece of all lines (`@cols`). `cp.async.N` always sweeps along lines, and costs
what `st.shared` of that width costs. The last instruction of a sweep may have idle lanes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.isa.dtypes import DTYPES
from tcprobe.isa.operand import WHOLE
from tcprobe.isa.shared_memory import MATRIX_ROWS, MOST_SHARED, SharedAccess, access
from tcprobe.isa.tensor_map import SPANS
from tcprobe.layout.arrays import Ints, Offset
from tcprobe.layout.banks import IDLE
from tcprobe.layout.swizzle import SPELLINGS, Swizzle, is_swizzle, sizes_written, swizzle_named
from tcprobe.question.answers import Meta
from tcprobe.store.cell import Cell, require_warps

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


BlockBytes = Annotated[
    int | None, Meta(description="bytes of the blocks that lines are cut into; null where they are whole")
]


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


def placed_tile(tile: Tile, shared: Shared) -> dict[str, Any]:
    """How answers call a tile and its place in shared memory."""
    return {
        "tile": (tile.rows, tile.cols),
        "type": tile.type,
        "shared": str(shared),
        "pitch": shared.pitch(tile),
        "block": shared.block or None,
        "bytes": shared.bytes(tile),
    }


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
        raise UsageError(f"`tile` {text[:20]!r} is not ROWSxCOLS such as 64x32.")
    return Tile(rows, cols, type_, bits or bits_of(type_), contiguous)


def bits_of(type_: str) -> int:
    """Bits that an element takes in memory: 8 for the types of 6 and 7 bits, which lie in bytes."""
    bits_by_type = {d.name: 8 if d.bits in (6, 7) else d.bits for d in DTYPES} | {f"b{n}": n for n in UNTYPED}
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


@dataclass(frozen=True)
class TileAccess:
    """`instruction` walks the "slots" of a fragment or sweeps along "rows" or "cols", and costs what `row` costs."""

    name: str
    instruction: SharedAccess
    row: SharedAccess
    order: str


class Walk(NamedTuple):
    """Line and byte in the line of each lane's address, IDLE without one; shape (instructions, 32)."""

    access: TileAccess
    line: Ints
    byte: Ints


class Places(NamedTuple):
    """Line of memory and place in it of every slot, IDLE where it is unused."""

    line: Ints
    place: Ints


class Slots(NamedTuple):
    """Row and column of each slot of a fragment, -1 where unused; shape (threads, elements). Extent of the fragment.

    Copies of it cover a tile in the order of their rows and columns, "row" or "col" being the `outer` of the two.
    """

    name: str
    row: Ints
    col: Ints
    extent: tuple[int, int]
    bits: int
    outer: str = "row"


def parse_access(text: str) -> TileAccess:
    """OP, OP@rows, OP@cols or cp.async.N; UsageError."""
    name, separator, order = text.partition("@")
    if order not in ("rows", "cols") and separator:
        raise UsageError(f"`access` {text[:40]!r}: after @ write rows or cols.")
    if match := re.fullmatch(r"cp\.async\.(?:ca\.|cg\.)?(4|8|16)", name):
        if order == "cols":
            raise UsageError(f"`access` {text}: cp.async sweeps along lines, so it takes only @rows.")
        return TileAccess(text, access(f"cp.async.ca.{match[1]}"), access(f"st.shared.b{8 * int(match[1])}"), "rows")
    return TileAccess(text, access(name), access(name), order or "slots")


def slots_of(cell: Cell) -> Slots:
    """The slots of a fragment; UsageError where it holds no matrix, several products, or is not of whole warps."""
    table, fragment = cell.table, cell.fragment
    if fragment.role not in WHOLE:
        raise UsageError(f"{fragment.id} holds no elements of a matrix: its role is {fragment.role.value}.")
    if "product" in table.outputs:
        raise UsageError(f"{fragment.id} holds {fragment.products} products in a warp; a tile is one matrix.")
    require_warps(cell)
    row, col = (
        np.array([-1 if v is None else v for v in table.values[name]], np.int64).reshape(table.threads, -1)
        for name in ("row", "col")
    )
    return Slots(fragment.id, row, col, (fragment.rows, fragment.cols), fragment.slot_bits)


def walk(tile_access: TileAccess, tile: Tile, slots: Slots | None) -> Walk:
    """Every instruction of an access over the tile; UsageError says why an access cannot be."""
    if tile_access.order != "slots":
        return Walk(tile_access, *_sweep(tile_access, tile))
    name = tile_access.name
    if slots is None and tile_access.row.is_matrix:
        if tile.lines % MATRIX_ROWS:
            raise UsageError(f"{name}: {tile.lines} lines do not make whole matrices of {MATRIX_ROWS} rows.")
        return Walk(tile_access, *_sweep(replace(tile_access, order="cols"), tile))
    if slots is None:
        raise UsageError(f"{name} follows a fragment's slots: give a FRAGMENT, or use {name}@rows or @cols.")
    pieces = _matrices if tile_access.row.is_matrix else _pieces
    return Walk(tile_access, *pieces(tile_access, tile, _copies(slots, tile)))


def _in_elements(tile: Tile, shared: Shared, least: int) -> str:
    """What a swizzle of element numbers, as CuTe writes it, is in bytes, if that keeps the access whole."""
    b, m, s = shared.swizzle
    base = m + tile.bits.bit_length() - 4
    return (
        f", where swizzles count bytes: Swizzle<{b},{m},{s}> of elements is sw:{b},{base},{s}" if base >= least else ""
    )


def addresses(walked: Walk, tile: Tile, shared: Shared) -> Ints:
    """The byte address of each lane, relative to the tile; UsageError where one would be torn or misaligned."""
    width = walked.access.row.bytes
    shared.check(tile)
    b, m, _ = shared.swizzle
    if b and width > 1 << m:
        least = width.bit_length() - 1
        raise UsageError(
            f"{shared} splits the {width} bytes of {walked.access.name}; M must be at least {least} here"
            f"{_in_elements(tile, shared, least)}."
        )
    if shared.bytes(tile) > MOST_SHARED:
        raise UsageError(f"{shared.bytes(tile)} bytes with {shared}; the largest shared memory has {MOST_SHARED}.")
    offsets: Ints = np.where(walked.line == IDLE, IDLE, shared.offset(tile, walked.line, walked.byte))
    if (offsets[offsets != IDLE] % width).any():
        pitch = f"lines are {shared.pitch(tile)} bytes apart"
        raise UsageError(f"{walked.access.name} needs multiples of {width} bytes; {pitch}, {shared}.")
    return offsets


def _sweep(tile_access: TileAccess, tile: Tile) -> tuple[Ints, Ints]:
    """Line and byte of the pieces of a tile in order, some lanes of the last instruction idle."""
    width, lanes = tile_access.row.bytes, tile_access.row.lanes
    per_line, rest = divmod(tile.line_bytes, width)
    if rest:
        raise UsageError(
            f"{tile_access.name}: a line of {tile.line_bytes} bytes is not a whole number of {width}-byte pieces."
        )
    count = tile.lines * per_line
    if tile_access.row.is_matrix and count % lanes:
        raise UsageError(f"{tile_access.name}: the tile's {count} rows of {width} bytes are not a multiple of {lanes}.")
    number = np.arange(count)
    line, piece = np.divmod(number, per_line) if tile_access.order == "rows" else np.divmod(number, tile.lines)[::-1]
    return _by_instruction(line, lanes), _by_instruction(piece * width, lanes)


def _by_instruction(values: Ints, active_lanes: int) -> Ints:
    """Values in order as `active_lanes` of each instruction's 32, the others IDLE."""
    rows = np.full((-(-len(values) // active_lanes), WARP), IDLE, np.int64)
    filled = np.full(len(rows) * active_lanes, IDLE, np.int64)
    filled[: len(values)] = values
    rows[:, :active_lanes] = filled.reshape(-1, active_lanes)
    return rows


def origins(slots: Slots, tile: Tile) -> Ints:
    """Row and column in the tile of the fragments that cover it, in order; shape (fragments, 2)."""
    if slots.bits != tile.bits:
        raise UsageError(f"{slots.name} has elements of {slots.bits} bits, the tile of {tile.type} {tile.bits}.")
    if tile.rows % slots.extent[0] or tile.cols % slots.extent[1]:
        extent = " x ".join(map(str, slots.extent))
        raise UsageError(
            f"{slots.name} is {extent}; a tile of {tile.rows} x {tile.cols} is not a whole number of them."
        )
    row, col = np.mgrid[0 : tile.rows : slots.extent[0], 0 : tile.cols : slots.extent[1]]
    if slots.outer == "col":
        row, col = row.T, col.T
    return np.stack([row.ravel(), col.ravel()], axis=1)


def _copies(slots: Slots, tile: Tile) -> Places:
    """Of every slot of the fragments that cover a tile; shape (warps, 32, elements)."""
    unused = slots.row == -1
    row, col = (
        np.where(unused, IDLE, origin[:, None, None] + values).reshape(-1, WARP, values.shape[1])
        for origin, values in zip(origins(slots, tile).T, (slots.row, slots.col), strict=True)
    )
    return Places(row, col) if tile.contiguous == "row" else Places(col, row)


def _pieces(tile_access: TileAccess, tile: Tile, slot_places: Places) -> tuple[Ints, Ints]:
    """Line and byte of the register pieces that each instruction moves, all lanes' first, then the next piece's."""
    count, elements = tile_access.row.bytes * 8 // tile.bits, slot_places.line.shape[2]
    if not count or elements % count:
        slots = f"{elements} elements of {tile.bits} bits per lane"
        raise UsageError(f"{tile_access.name} moves {8 * tile_access.row.bytes} bits, which do not divide {slots}.")
    shape = (len(slot_places.line), WARP, -1, count)
    line, place = (values.reshape(shape).swapaxes(1, 2).reshape(-1, WARP, count) for values in slot_places)
    wrong = (line != line[:, :, :1]) | ((line != IDLE) & (place != place[:, :, :1] + np.arange(count)))
    if wrong.any():
        lane = int(np.argwhere(wrong)[0][1])
        piece = f"the {count} elements of lane {lane}'s register piece"
        raise UsageError(f"{tile_access.name}: {piece} are not adjacent with {tile.contiguous}s contiguous.")
    return line[:, :, 0], place[:, :, 0] * tile.bits // 8


def _matrices(tile_access: TileAccess, tile: Tile, slot_places: Places) -> tuple[Ints, Ints]:
    """Line and byte of the rows of the matrices that each instruction moves, one register a matrix."""
    count = 32 // (tile.bits * tile_access.row.wider)
    if not count or slot_places.line.shape[2] % count:
        raise UsageError(f"{tile_access.name} moves registers of 32 bits, not elements of {tile.bits} bits.")
    line, place = registers = _by_register(slot_places, count)
    if not _turns(registers, count):
        raise UsageError(
            f"{tile_access.name}: with {tile.contiguous}s contiguous a register of this fragment is not an 8 x 8 "
            f"matrix of b16, whose rows are {tile_access.row.bytes} bytes in one piece."
        )
    if len(line) * MATRIX_ROWS % tile_access.row.lanes:
        raise UsageError(
            f"{tile_access.name}: the tile has {len(line)} matrices, which is not a multiple of "
            f"{tile_access.row.lanes // 8}."
        )
    lines = line[:, :1] + np.arange(MATRIX_ROWS)
    bytes_ = np.broadcast_to(place[:, :1] * tile.bits // 8, lines.shape)
    return _by_instruction(lines.ravel(), tile_access.row.lanes), _by_instruction(bytes_.ravel(), tile_access.row.lanes)


def matrix_ways(slots: Slots, tile: Tile, wider: int = 1) -> tuple[str, ...]:
    """How a fragment's registers lie in memory as 8 x 8 matrices of b16: as they are (""), or ".trans"; () as neither.

    Of elements that are `wider` times as large in registers. UsageError where the fragment does not cover the tile.
    """
    slot_places, count = _copies(slots, tile), 32 // (tile.bits * wider)
    whole = count and slot_places.line.shape[2] % count == 0
    return _turns(_by_register(slot_places, count), count) if whole else ()


def _by_register(slot_places: Places, count: int) -> Places:
    """Those of slots by register of `count` elements; shape (registers, 32 * count)."""
    shape = (len(slot_places.line), WARP, -1, count)
    line, place = (values.reshape(shape).swapaxes(1, 2).reshape(-1, WARP * count) for values in slot_places)
    return Places(line, place)


def _turns(slot_places: Places, count: int) -> tuple[str, ...]:
    lane, i = np.divmod(np.arange(WARP * count), count)
    ways = {"": (lane // 4, lane % 4 * count + i), ".trans": (lane % 4 * count + i, lane // 4)}
    if count != 2:  # .trans, of b16 alone
        del ways[".trans"]
    line, place = (values - values[:, :1] for values in slot_places)
    return tuple(way for way, to in ways.items() if (line == to[0]).all() and (place == to[1]).all())
