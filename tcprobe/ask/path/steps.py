"""The steps of a path, simulated: which piece of which element is where in global memory, shared memory and registers.

>>> from tcprobe.ask.banks.accesses import parse_tile
>>> memory = Memory(parse_tile("2x8", "f16", "row"), 20, 64, 1, 2)
>>> memory.of_elements(np.array([1, 0]), np.array([3, 2])).tolist()
[[22, 23], [4, 5]]
>>> memory.read_global(np.array([20, 36]), 2).tolist()
[[16, 17], [-1, -1]]

A *unit* is a byte, or an element where that is less. Units are numbered line by line; NOTHING stands where there is
none: in the gaps between lines, and where nobody wrote.

A step moves pieces of a tile by lanes, by matrices or by boxes, and is proven by what it does in Memory, together with
the steps before and after it; so a new way of moving a tile is one more class with `kind`, `instruction`, `ptx`,
`wavefronts`, `ideal`, `evidence`, `issues` and `move`.

By lanes (cp.async, plain loads and stores) a warp goes along the lines of the tile, each lane a piece as wide as both
memories and the lines allow. A box's rows follow each other in shared memory, as far apart as it is wide, or as the
span of its swizzle mode; a tile whose lines lie otherwise takes a box for each line. What a mode does is
`references.shared_memory.tma`. What ldmatrix and stmatrix do is their own table on the arch, not assumed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tcprobe.ask.banks.accesses import Slots, Tile, TileAccess, addresses, matrix_ways, origins, parse_access, walk
from tcprobe.ask.banks.tiles import cost
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.names import resolve
from tcprobe.isa.shared_memory import SharedAccess
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE
from tcprobe.references.shared_memory import tma
from tcprobe.store.cell import Cell, cell
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.path.plan import PathRequest, TileRequest


NOTHING = -1


class Memory:
    """`ld` bytes from line to line in global memory, `shared` bytes, `fragments` of `elements` slots a lane."""

    def __init__(self, tile: Tile, ld: int, shared: int, fragments: int, elements: int) -> None:
        unit = min(8, tile.bits)
        self.tile, self.ld = tile, ld
        self.per_byte, self.per_element = 8 // unit, tile.bits // unit
        self.line_units = tile.line_bytes * self.per_byte
        self.shared = np.full(shared * self.per_byte, NOTHING, np.int64)
        self.registers = np.full((fragments, WARP, elements * self.per_element), NOTHING, np.int64)
        self.back = np.full(tile.lines * self.line_units, NOTHING, np.int64)
        self.strays = 0

    def of_elements(self, row: Ints, col: Ints) -> Ints:
        """The units of elements, NOTHING where the row is NOTHING; shape (..., units of an element)."""
        line, place = (row, col) if self.tile.contiguous == "row" else (col, row)
        number = (line * self.tile.length + place)[..., None] * self.per_element + np.arange(self.per_element)
        return np.where(row[..., None] == NOTHING, NOTHING, number)

    def read_global(self, addresses: Ints, count: int) -> Ints:
        """The units of `count` bytes from each address on, NOTHING outside the tile; shape (..., units)."""
        places = self._places(addresses, count)
        line, unit = np.divmod(places, self.ld * self.per_byte)
        inside = (places != IDLE) & (line < self.tile.lines) & (unit < self.line_units)
        return np.where(inside, line * self.line_units + unit, NOTHING)

    def write_global(self, addresses: Ints, units: Ints) -> None:
        """Put units of whole bytes back; `strays` counts those that would lie outside the tile."""
        places = self.read_global(addresses, units.shape[-1] // self.per_byte)
        inside = places != NOTHING
        self.back[places[inside]] = units[inside]
        self.strays += int((~inside & (addresses != IDLE)[..., None]).sum())

    def read_shared(self, addresses: Ints, count: int) -> Ints:
        """The units of `count` bytes from each address on, NOTHING for idle lanes; shape (..., units)."""
        places = self._places(addresses, count)
        return np.where(places == IDLE, NOTHING, self.shared[places])

    def write_shared(self, addresses: Ints, units: Ints) -> None:
        """Put units of whole bytes at byte addresses; idle lanes write nothing."""
        places = self._places(addresses, units.shape[-1] // self.per_byte)
        self.shared[places[places != IDLE]] = units[places != IDLE]

    def read_registers(self, first_slots: tuple[Ints, Ints], count: int) -> Ints:
        """`count` units of every lane from slots on: fragments, the first slot of each; shape (..., 32, units)."""
        return self.registers[self._held(first_slots, count)]

    def write_registers(self, first_slots: tuple[Ints, Ints], units: Ints) -> None:
        """Put units of shape (..., 32, units) into fragments, from the slots given on."""
        self.registers[self._held(first_slots, units.shape[-1])] = units

    def _held(self, first_slots: tuple[Ints, Ints], count: int) -> tuple[Ints, Ints, Ints]:
        fragments, start = first_slots
        units = start[..., None, None] * self.per_element + np.arange(count)
        return fragments[..., None, None], np.arange(WARP)[:, None], units

    def _places(self, addresses: Ints, count: int) -> Ints:
        places = addresses[..., None] * self.per_byte + np.arange(count * self.per_byte)
        return np.where(addresses[..., None] == IDLE, IDLE, places)


GLOBAL_TO_SHARED, SHARED_TO_REGISTERS = "global->shared", "shared->registers"
REGISTERS_TO_SHARED, SHARED_TO_GLOBAL = "registers->shared", "shared->global"


class PathStep(Protocol):
    """One step; `ptx` are its instructions in full, `wavefronts` None where no rule counts them."""

    @property
    def kind(self) -> str:
        """From where to where: one of the four above."""

    @property
    def instruction(self) -> str:
        """The instruction that reaches shared memory, as `tcprobe banks` names it."""

    @property
    def ptx(self) -> tuple[str, ...]:
        """The instructions in PTX, in order."""

    @property
    def wavefronts(self) -> int | None:
        """In shared memory over the whole tile, beats included."""

    @property
    def ideal(self) -> int | None:
        """What they would be if no lanes collided."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the step rests on."""

    def issues(self) -> list[Json]:
        """Plain data: every issue of a warp in order."""

    def move(self, memory: Memory) -> None:
        """Move the units of the tile as the instructions do."""


@dataclass(frozen=True)
class LaneCopy:
    """Between global and shared memory: each lane of an issue moves `width` bytes; addresses of shape (issues, 32).

    `line` and `byte` in the line are where a lane's piece lies in the tile, IDLE for lanes without one.
    """

    kind: str
    instruction: str
    ptx: tuple[str, ...]
    width: int
    line: Ints
    byte: Ints
    shared: Ints
    ld: int
    wavefronts: int
    ideal: int
    evidence: tuple[str, ...]

    @property
    def globals(self) -> Ints:
        """Byte addresses in global memory, from the tile's start."""
        addresses: Ints = np.where(self.line == IDLE, IDLE, self.line * self.ld + self.byte)
        return addresses

    def issues(self) -> list[Json]:
        """`shared`, `global`: 32 byte offsets or null; `bytes` of a lane."""
        pairs = zip(_lanes(self.shared), _lanes(self.globals), strict=True)
        return [{"shared": shared, "global": global_, "bytes": self.width} for shared, global_ in pairs]

    def move(self, memory: Memory) -> None:
        """Copy, one way or the other."""
        if self.kind == GLOBAL_TO_SHARED:
            memory.write_shared(self.shared, memory.read_global(self.globals, self.width))
        else:
            memory.write_global(self.globals, memory.read_shared(self.shared, self.width))


@dataclass(frozen=True)
class MatrixTables:
    """What ldmatrix or stmatrix does: row of memory -> the lane that gives its address; (lane, i) -> (row, bit)."""

    lane_of_row: Ints
    row: Ints
    bit: Ints


@dataclass(frozen=True)
class RegisterCopy:
    """Between shared memory and registers: `shared` of shape (issues, 32), `fragments` and first slots `i` of pieces.

    A piece is `piece` bytes of each lane's registers: a matrix's, or all that ld or st moves. `origins` of fragments,
    of which each of `warps` holds a part of its own: part p of fragment f counts as fragment f * warps + p. `line` and
    `byte` as of LaneCopy.
    """

    kind: str
    instruction: str
    ptx: tuple[str, ...]
    piece: int
    line: Ints
    byte: Ints
    shared: Ints
    fragments: Ints
    i: Ints
    origins: Ints
    wavefronts: int | None
    ideal: int | None
    evidence: tuple[str, ...]
    tables: MatrixTables | None
    warps: int = 1

    def issues(self) -> list[Json]:
        """`shared`: 32 byte offsets or null; `slots`: [row, col, i] of each piece: fragment origin, first slot.

        `warp`, where there are several: whose issue it is.
        """
        starts = np.concatenate([self.origins[self.fragments], self.i[..., None]], axis=2).tolist()
        pieces = [{"shared": shared, "slots": slots} for shared, slots in zip(_lanes(self.shared), starts, strict=True)]
        if self.warps == 1:
            return pieces
        warps = (self.fragments[:, 0] % self.warps).tolist()
        return [{"warp": warp} | piece for warp, piece in zip(warps, pieces, strict=True)]

    def move(self, memory: Memory) -> None:
        """Load or store every piece; matrices by the tables of their instruction."""
        count, pieces = self.piece * memory.per_byte, self.fragments.shape[1]
        addresses, width = self.shared, self.piece
        if self.tables:
            addresses = self.shared[:, self.tables.lane_of_row[self.tables.row]] + self.tables.bit // 8
            width = 2  # (issues, 32, elements of b16)
        if self.kind == SHARED_TO_REGISTERS:
            units = memory.read_shared(addresses, width).reshape(len(self.shared), WARP, pieces, count)
            memory.write_registers((self.fragments, self.i), units.swapaxes(1, 2))
        else:
            units = memory.read_registers((self.fragments, self.i), count).swapaxes(1, 2)
            memory.write_shared(addresses, units.reshape(*addresses.shape, width * memory.per_byte))


@dataclass(frozen=True)
class WideningCopy(RegisterCopy):
    """From shared memory into registers, where an element takes more bits; its number stays what it is."""

    def move(self, memory: Memory) -> None:
        """Load every matrix by the tables of the instruction, element by element, each of one unit."""
        assert self.tables
        rows = self.shared[:, self.tables.lane_of_row[self.tables.row]] * memory.per_byte
        units = memory.shared[rows + self.tables.bit * memory.per_byte // 8]
        shape = (len(self.shared), WARP, self.fragments.shape[1], -1)
        memory.write_registers((self.fragments, self.i), units.reshape(shape).swapaxes(1, 2))


def _lanes(addresses: Ints) -> Sequence[list[int | None]]:
    """Lists of 32, None for idle lanes."""
    return [[None if a == IDLE else a for a in row] for row in addresses.tolist()]


_VECTORS = {1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}


def vector(width: int, register_bits: int = 32) -> str:
    """How PTX writes a load or store of `width` bytes of registers: v4.b32, b64, u8."""
    if register_bits == 64 and width >= 8:
        return "b64" if width == 8 else "v2.b64"
    return _VECTORS[width]


WIDTHS = {"cp.async": (16, 8, 4), "plain": (16, 8, 4, 2, 1)}
EVIDENCE = "PTX ISA 9.1, {}: bytes go as they are"
COUNTED = "; its wavefronts are counted as those of {}"


def lane_copy(request: TileRequest) -> LaneCopy:
    """The step with the widest pieces that there can be; UsageError says why there are none."""
    kind = request.fill_kind
    if kind == "cp.async" and not request.loads:
        raise UsageError("cp.async copies only from global to shared memory; use plain or tma for the way back.")
    widths = [request.fill_width] if request.fill_width else list(WIDTHS[kind])
    if not set(widths) <= set(WIDTHS[kind]):
        raise UsageError(f"`fill` {request.fill}: {kind} moves {', '.join(map(str, WIDTHS[kind]))} bytes.")
    reasons = []
    for width in widths:
        try:
            return _copy(request, width)
        except UsageError as error:
            reasons.append(str(error))
    raise UsageError(reasons[-1])


def access_of(request: TileRequest, width: int) -> TileAccess:
    """What reaches shared memory."""
    if request.fill_kind == "cp.async":
        return parse_access(f"cp.async.{width}")
    return parse_access(f"{'st' if request.loads else 'ld'}.shared.b{8 * width}@rows")


def ptx_of(request: TileRequest, width: int) -> tuple[str, ...]:
    """The instructions in order."""
    if request.fill_kind == "cp.async":
        return (f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global",)
    spaces = ("global", "shared") if request.loads else ("shared", "global")
    return tuple(f"{move}.{space}.{vector(width)}" for move, space in zip(("ld", "st"), spaces, strict=True))


def _copy(request: TileRequest, width: int) -> LaneCopy:
    if request.ld_bytes % width:
        least = "" if request.fill_width else ", the least that a lane can move"
        raise UsageError(
            f"{request.fill_kind}: lines in global memory are {request.ld_bytes} bytes apart "
            f"(`ld` {request.ld}), not a multiple of {width} bytes{least}."
        )
    tile_access = access_of(request, width)
    walked = walk(tile_access, request.tile, None)
    shared = addresses(walked, request.tile, request.shared)
    spent = cost(walked, request.tile, request.shared, request.rules)
    ptx = ptx_of(request, width)
    names = dict.fromkeys(text.split(".shared")[0].split(".global")[0] for text in ptx)
    counted = COUNTED.format(tile_access.row.name) if request.fill_kind == "cp.async" else ""
    return LaneCopy(
        GLOBAL_TO_SHARED if request.loads else SHARED_TO_GLOBAL,
        tile_access.name.removesuffix("@rows"),
        ptx,
        width,
        walked.line,
        walked.byte,
        shared,
        request.ld_bytes,
        spent.wavefronts,
        spent.ideal,
        (EVIDENCE.format(", ".join(names)) + counted,),
    )


STEP = 16  # bytes between lines of a tensor map are multiples of it (CUDA driver API, cuTensorMapEncodeTiled)
MOST_STEP = 1 << 40
INSTRUCTION = "cp.async.bulk.tensor.2d"
PTX = {
    GLOBAL_TO_SHARED: f"{INSTRUCTION}.shared::cluster.global.mbarrier::complete_tx::bytes",
    SHARED_TO_GLOBAL: f"{INSTRUCTION}.global.shared::cta.bulk_group",
}


@dataclass(frozen=True)
class BoxCopy:
    """Boxes of `box` = (inner, rows) elements at `corners` (x, y) of the tile, each `shared` bytes from its start."""

    kind: str
    mode: tma.Mode
    box: tuple[int, int]
    corners: tuple[tuple[int, int], ...]
    shared: tuple[int, ...]
    bits: int
    ld: int
    evidence: tuple[str, ...]
    instruction: str = INSTRUCTION
    wavefronts: None = None
    ideal: None = None

    @property
    def ptx(self) -> tuple[str, ...]:
        """The instruction."""
        return (PTX[self.kind],)

    @property
    def swizzle(self) -> str:
        """The mode as the driver names it, without its prefix."""
        return self.mode.name

    def issues(self) -> list[Json]:
        """`box`, `at` in elements, `shared` in bytes."""
        return [
            {"box": list(self.box), "at": list(corner), "shared": shared}
            for corner, shared in zip(self.corners, self.shared, strict=True)
        ]

    def move(self, memory: Memory) -> None:
        """Every element of every box."""
        for (x, y), base in zip(self.corners, self.shared, strict=True):
            inner, row = np.meshgrid(np.arange(self.box[0]), np.arange(self.box[1]))
            shared = self.mode(inner, row, tma.Box(self.box, self.bits, base))
            global_ = (y + row) * self.ld + (x + inner) * (self.bits // 8)
            if self.kind == GLOBAL_TO_SHARED:
                memory.write_shared(shared, memory.read_global(global_, self.bits // 8))
            else:
                memory.write_global(global_, memory.read_shared(shared, self.bits // 8))


def box_copy(request: TileRequest) -> BoxCopy:
    """The step with the fewest boxes; UsageError says why no tensor map does it."""
    tile, here = request.tile, arch(request.rules.for_arch)
    if here.number < tma.LEAST_ARCH:
        raise UsageError(f"tensor maps need sm_{tma.LEAST_ARCH} or later; {here} does not have them.")
    if request.ld_bytes % STEP or request.ld_bytes >= MOST_STEP:
        raise UsageError(
            f"tma: lines in global memory are {request.ld_bytes} bytes apart (`ld` {request.ld}), not a multiple "
            f"of {STEP} below 2**40."
        )
    reasons = []
    for mode, box in _candidates(request):
        refused = mode.why_not(tma.Box(box, tile.bits, 0))
        if refused:
            reasons.append(f"{mode.name}: {refused}")
        elif copy := _boxes(request, mode, box):
            return copy
    span = f"tma: no boxes place lines {request.shared.pitch(tile)} bytes apart as {request.shared}"
    raise UsageError(
        f"{span}: rows of a box are a box's width apart, or as the span of its mode "
        f"(32, 64, 128 bytes), and a box begins at a multiple of {tma.ALIGNMENT}."
        + (f" {reasons[0]}" if reasons else "")
    )


def _candidates(request: TileRequest) -> Iterator[tuple[tma.Mode, tuple[int, int]]]:
    """Modes with boxes of many lines, then of one line; the widest that a mode takes."""
    tile = request.tile
    modes = [mode for name in tma.names() if (mode := tma.resolve(name))]
    for whole, mode in product((True, False), modes):
        span = min(mode.span or tile.line_bytes, request.shared.block or tile.line_bytes)
        widest = min(tma.MOST_EXTENT, tile.length, span * 8 // tile.bits)
        inner = _divisor(tile.length, widest)
        yield mode, (inner, _divisor(tile.lines, tma.MOST_EXTENT) if whole else 1)


def _divisor(count: int, most: int) -> int:
    """The largest divisor of `count` that is at most `most`."""
    return next(n for n in range(min(count, most), 0, -1) if count % n == 0)


def _boxes(request: TileRequest, mode: tma.Mode, box_size: tuple[int, int]) -> BoxCopy | None:
    """The boxes of a size, None where they put an element elsewhere than the tile's place in memory has it."""
    tile, size = request.tile, request.tile.bits // 8
    corners = tuple((x, y) for y in range(0, tile.lines, box_size[1]) for x in range(0, tile.length, box_size[0]))
    shared = tuple(request.shared.linear(tile, y, x * size) for x, y in corners)
    if any(base % tma.ALIGNMENT for base in shared):
        return None
    inner, row = np.meshgrid(np.arange(box_size[0]), np.arange(box_size[1]))
    for (x, y), base in zip(corners, shared, strict=True):
        offsets: Ints = request.shared.offset(tile, y + row, (x + inner) * size)
        if not np.array_equal(offsets, mode(inner, row, tma.Box(box_size, tile.bits, base))):
            return None
    kind = GLOBAL_TO_SHARED if request.loads else SHARED_TO_GLOBAL
    return BoxCopy(kind, mode, box_size, corners, shared, tile.bits, request.ld_bytes, (request.boxes,))


MATRIX_BYTES = 4  # of a matrix in each lane


def register_copy(request: PathRequest) -> RegisterCopy:
    """The step; UsageError says why there is none."""
    slots, row = request.slots, request.access.row
    row.check_on(arch(request.rules.for_arch))
    if row.is_matrix:
        _check_way(request, slots)
    walked = walk(request.access, request.tile, slots)
    shared = addresses(walked, request.tile, request.shared)
    pieces = row.lanes // 8 if row.is_matrix else 1
    piece = MATRIX_BYTES if row.is_matrix else row.bytes
    number = np.arange(len(shared) * pieces).reshape(-1, pieces)
    slot_bits = request.cell.fragment.slot_bits
    fragments, part = np.divmod(number, request.cell.fragment.elements * slot_bits // (8 * piece))
    if (fragments % request.warps != fragments[:, :1] % request.warps).any():
        raise UsageError(
            f"{row.name}: an instruction would serve several warps, as each holds fewer registers of "
            f"{slots.name}; fewer matrices do."
        )
    spent = cost(walked, request.tile, request.shared, request.rules) if row.wider == 1 else None
    tables, evidence = (
        _matrix_tables(request, row)
        if row.is_matrix
        else (None, ("PTX ISA 9.1, ld and st: low bytes of the first register first",))
    )
    return (RegisterCopy if spent else WideningCopy)(
        SHARED_TO_REGISTERS if request.loads else REGISTERS_TO_SHARED,
        row.name,
        (register_ptx(request, row),),
        piece,
        walked.line,
        walked.byte,
        shared,
        fragments,
        part * 8 * piece // slot_bits,
        np.repeat(origins(slots, request.tile), request.warps, axis=0),
        spent.wavefronts if spent else None,
        spent.ideal if spent else None,
        evidence,
        tables,
        request.warps,
    )


def register_ptx(request: PathRequest, access: SharedAccess) -> str:
    """The instruction in full."""
    if access.is_matrix:
        return _matrix_row(access)
    return f"{access.name.partition('.')[0]}.shared.{vector(access.bytes, request.cell.fragment.register_bits)}"


def _matrix_row(access: SharedAccess) -> str:
    """PTX's name of ldmatrix or stmatrix of 8 x 8 matrices of b16, or of s4 into s8."""
    if access.wider > 1:
        _, shape, count, types = access.name.split(".", 3)
        return f"ldmatrix.sync.aligned.{shape}.{count}.shared.{types}"
    move, rest = access.name.split(".", 1)
    return f"{move}.sync.aligned.m8n8.{rest}.shared.b16"


def _check_way(request: PathRequest, slots: Slots) -> None:
    """UsageError where the matrices lie transposed, or where registers hold no matrices."""
    tile, name = request.tile, request.access.row.name
    ways = matrix_ways(slots, tile, request.access.row.wider)
    suffix = ".trans" if name.endswith(".trans") else ""
    if suffix in ways:
        return
    along = f"with {tile.contiguous}s contiguous in memory"
    if ways:
        instead = "without .trans" if suffix else "with .trans"
        raise UsageError(f"{name}: {along} the matrices of {slots.name} need it {instead}.")
    why = "its registers are not 8 x 8 matrices of b16, whose rows are 16 contiguous bytes"
    if request.widens:
        why = "a register needs elements from several lines, and the instruction has no .trans"
    elif tile.bits != 16 and suffix:
        why = f".trans exchanges elements of 16 bits, not the {tile.bits} of {tile.type}"
    elif tile.bits != 16 and _other_way(request, slots):
        other = "columns" if tile.contiguous == "row" else "rows"
        why = (
            f"a register needs elements of {tile.bits} bits from several lines; only with {other} contiguous is it "
            f"a matrix of b16, and .trans exchanges elements of 16 bits"
        )
    raise UsageError(f"{name}: {along}, {slots.name}: {why}.")


def _other_way(request: PathRequest, slots: Slots) -> bool:
    """Whether matrices are found with the other coordinate contiguous."""
    from dataclasses import replace

    other = "col" if request.tile.contiguous == "row" else "row"
    return bool(matrix_ways(slots, replace(request.tile, contiguous=other)))


def _matrix_tables(request: PathRequest, access: SharedAccess) -> tuple[MatrixTables, tuple[str, ...]]:
    """The tables of the instruction on the arch, and their evidence."""
    form = resolve(_matrix_row(access)).instruction
    data_operand = "d" if request.loads else "a"
    address, data = (_table_of(form.fragment(operand).id, request.cell) for operand in ("address", data_operand))
    lane_of_row = np.full(form.fragment("address").rows, -1)
    for lane, value in enumerate(address.table.values["row"]):
        if value is not None:
            lane_of_row[value] = lane
    rows, cols = (_column(data, name) for name in ("row", "col"))
    bits = 16 if access.wider == 1 else request.tile.bits
    words = tuple(dict.fromkeys(f"{c.fragment.id}: {c.evidence}" for c in (data, address)))
    return MatrixTables(lane_of_row, rows, bits * cols), words


def _column(fragment: Cell, name: str) -> Ints:
    return np.array(fragment.table.values[name], np.int64).reshape(fragment.table.threads, -1)


def _table_of(name: str, like: Cell) -> Cell:
    return cell(inventory.fragment(name), like.arch, like.layers)
