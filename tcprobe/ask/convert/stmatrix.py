"""From an accumulator through stmatrix to a tile in shared memory: registers, and the address of every lane.

>>> from tcprobe.store.cell import load
>>> d = load("wgmma.m64n64k16.f32.bf16.bf16.d")
>>> found = plan_store(d, StoreOptions("stmatrix", "bf16", "row", "sw:3,4,3"))
>>> found.access, found.conversion.summary, found.conversion.costs
('stmatrix.x4', 'registers renamed: every lane already holds what it needs', {'cvt': 16})
>>> found.addresses.shape, found.addresses[0, 40].item(), str(found.formula)
((4, 128), 3072, '(issue << 5) ^ ((lane & 7) << 4) ^ ((lane & 15) << 7) ^ (lane & 16) ^ ((lane & 96) << 6)')

A matrix of stmatrix is 8 lines of 16 bytes wherever its lanes' addresses are, so an issue is a block of the tile, lines
first; which lane holds what of it is the instruction's own table on the arch. That block is what the registers are
converted to. Each warp of a warpgroup stores the band of rows that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import numpy as np

from tcprobe.ask.banks.accesses import BlockBytes, Shared, Tile, bits_of, parse_shared, placed_tile
from tcprobe.ask.banks.patterns import rules_for
from tcprobe.ask.banks.tiles import ideal
from tcprobe.ask.confidence import least
from tcprobe.ask.confidence import line as confidence_line
from tcprobe.ask.convert.code import NAME, cast, parameter
from tcprobe.ask.convert.conversion import (
    Conversion,
    ConversionAnswer,
    ConvertedFragment,
    convert_tiling,
    require_matrix,
)
from tcprobe.ask.convert.moves import band, tiling
from tcprobe.ask.path.formula import AddressText, address
from tcprobe.ask.plan_cost import CyclesAnswer, MeasuredCosts, PlanCycles, accesses_cost, cycle_lines
from tcprobe.code.cuda import fragment_title, holder, of_holder, origin, origin_of_tables
from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.shared_memory import MATRIX_ROW, MATRIX_ROWS, access
from tcprobe.layout.arrays import Ints
from tcprobe.layout.banks import IDLE, Judge
from tcprobe.layout.table import slot_table
from tcprobe.question.answers import Meta, plain
from tcprobe.store.cell import Cell, sources
from tcprobe.store.cell import cell as cell_of
from tcprobe.text import Described, Whole, comment
from tcprobe.values import Json

COUNTS = (4, 2, 1)
MATRICES, TRANSPOSED = "stmatrix.", "stmatrix.trans"  # as many as fill the tile


class StoreOptions(NamedTuple):
    """`access` is stmatrix, with .x1 to .x4 and .trans or not; `kind` the type in memory, None: as it is.

    `contiguous` says what lies together in memory, row or col; `placed` where the lines lie: plain, pad:BYTES, ..., or
    boxes:WIDTH, as tensor maps and tiles of wgmma have them.
    """

    access: str
    kind: str | None = None
    contiguous: str = "row"
    placed: str = "plain"


@dataclass(frozen=True)
class MatrixBlock:
    """What one issue stores: `down` x `across` matrices, lines first, of `form`."""

    form: Instruction
    down: int
    across: int

    @property
    def lines(self) -> int:
        """Lines of memory."""
        return MATRIX_ROWS * self.down

    @property
    def width(self) -> int:
        """Bytes of a line."""
        return MATRIX_ROW * self.across

    def place(self, row: int, byte: int) -> tuple[int, int]:
        """(line, byte) in the block of a byte in a row that stmatrix counts, matrix after matrix."""
        across, down = divmod(row // MATRIX_ROWS, self.down)
        return down * MATRIX_ROWS + row % MATRIX_ROWS, across * MATRIX_ROW + byte


class StoreAnswer(ConversionAnswer):
    """A conversion into shared memory."""

    access: str
    ptx: str
    type: str
    tile: tuple[int, int]
    contiguous: Literal["row", "col"]
    shared: str
    pitch: int
    bytes: int
    block: BlockBytes
    wavefronts: int
    ideal: int
    store_cycles: CyclesAnswer
    alignment: int
    threads: int
    formula: str | None
    issues: list[list[int | None]]
    evidence: list[str]


PRINTED = Annotated[
    ConversionAnswer | StoreAnswer,
    Meta(
        description="A conversion: moves, costs, code. Into shared memory: `issues` has the byte of every thread, null "
        "where it gives no address."
    ),
]


@dataclass(frozen=True, repr=False)
class StorePlan(Described):
    """`conversion` brings the registers of a fragment to those of the issues; `addresses` (issues, threads), IDLE where
    a lane gives none, are bytes from the tile's start."""

    prints_code = True

    cell: Cell
    access: str
    tile: Tile
    shared: Shared
    block: MatrixBlock
    conversion: Conversion
    lines: Ints
    bytes: Ints
    evidence: list[str]

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, what happens in registers, the addresses, and what it rests on."""
        yield from self.about
        yield from self.rests_on

    @property
    def about(self) -> Iterator[str]:
        """The tile in shared memory, what happens in registers, and where a lane stores."""
        tile, shared, threads = self.tile, self.shared, self.cell.fragment.threads
        yield fragment_title(self.cell)
        yield (
            f"into {tile.rows} x {tile.cols} of {tile.type} in shared memory, {tile.contiguous}s contiguous, "
            f"{shared.words(tile).removeprefix('lines ')}, {shared}: {shared.bytes(tile)} bytes, "
            f"start aligned to {self.alignment}"
        )
        yield f"{self.conversion.summary}; per lane: {self.conversion.words}"
        wavefronts = f"{self.wavefronts} wavefronts for all warps, ideal {self.ideal}"
        yield f"{len(self.addresses)} x {self.ptx}: {wavefronts}"
        yield from (f"cycles, {text}" for text in cycle_lines({self.access: self.cycles}))
        formula = of_holder(str(self.formula), threads) if self.formula else "no closed form"
        yield Whole(f"  byte of {holder(threads)} 0 to {threads - 1}: {formula}")
        if not self.formula:
            yield from self.every_address

    @property
    def in_full(self) -> Iterator[str]:
        """With every address."""
        yield from self.about
        if self.formula:
            yield from self.every_address
        yield from self.rests_on

    @property
    def every_address(self) -> Iterator[str]:
        """The bytes of all lanes, issue by issue."""
        yield "  issue, warp: bytes of its lanes"
        for issue, addresses in enumerate(self.addresses.tolist()):
            for warp in range(len(addresses) // WARP):
                active = [str(byte) for byte in addresses[WARP * warp : WARP * (warp + 1)] if byte >= 0]
                yield Whole(f"  {issue:3} {warp}: {' '.join(active)}")

    @property
    def rests_on(self) -> Iterator[str]:
        """What the way of a tile to shared memory rests on, and how sure its table is."""
        yield from map(origin_of_tables, self.evidence)
        yield confidence_line(least([self.cell]))

    @property
    def code(self) -> str:
        """The CUDA code of it, with its own name."""
        return self.conversion.code or ""

    @cached_property
    def addresses(self) -> Ints:
        """Of every thread."""
        offsets: Ints = np.where(self.lines == IDLE, IDLE, self.shared.offset(self.tile, self.lines, self.bytes))
        return offsets

    @cached_property
    def formula(self) -> AddressText | None:
        """Of the addresses in lane, counted over all threads, and issue; None where there is no closed form.

        Lanes that give no address compute one that another lane gives.
        """
        active = int((self.lines[0, :WARP] != IDLE).sum())
        thread = np.arange(self.lines.shape[1])
        like = thread - thread % WARP + thread % WARP % active
        linear = self.shared.linear(self.tile, self.lines, self.bytes)[:, like]
        return address(self.addresses[:, like], linear, self.shared.swizzle)

    @cached_property
    def judge(self) -> Judge:
        """Of bank conflicts on its arch."""
        return rules_for(self.cell.arch, self.cell.layers).judge(access(self.access))

    @property
    def wavefronts(self) -> int:
        """Of all warps' issues in shared memory."""
        return int(self.judge.cycles(self.addresses.reshape(-1, WARP)).sum())

    @property
    def ideal(self) -> int:
        """Wavefronts if no lanes collided."""
        return ideal(self.judge, self.addresses.reshape(-1, WARP))

    @property
    def cycles(self) -> PlanCycles:
        """What the stores of all warps cost."""
        costs_on, issues = MeasuredCosts.of(rules_for(self.cell.arch, self.cell.layers)), self.addresses.size // WARP
        return accesses_cost(self.access, issues, self.wavefronts, costs_on)

    @property
    def ptx(self) -> str:
        """The instruction in full."""
        return self.block.form.name

    @property
    def alignment(self) -> int:
        """Of the tile's start, so that a swizzle of addresses is one of offsets."""
        b, m, s = self.shared.swizzle
        return max(MATRIX_ROW, 1 << m + abs(s) + b if b else 1)

    def to_json(self) -> Json:
        answer = StoreAnswer.of(
            self.conversion.answer,
            from_=ConvertedFragment(self.cell.fragment.id, 1, self.cell.evidence),
            source=sources([self.cell]),
            confidence=least([self.cell]).answer,
            access=self.access,
            ptx=self.ptx,
            **placed_tile(self.tile, self.shared),
            contiguous=self.tile.contiguous,
            wavefronts=self.wavefronts,
            ideal=self.ideal,
            store_cycles=self.cycles.answer,
            alignment=self.alignment,
            threads=self.cell.fragment.threads,
            formula=str(self.formula) if self.formula else None,
            issues=[[None if address == IDLE else address for address in row] for row in self.addresses.tolist()],
            evidence=self.evidence,
        )
        return plain(answer)


def is_store(name: str) -> bool:
    """Whether a name of what to convert to means stmatrix by its access, not a fragment of it."""
    return name.partition(".")[0] == "stmatrix" and not name.startswith("stmatrix.m")


def plan_store(source: Cell, store_options: StoreOptions, name: str = "convert") -> StorePlan:
    """How a fragment is stored; functions of its code are called after `name`.

    A bare stmatrix means the way, with .trans or without, that takes fewer instructions before it. UsageError where it
    is not a matrix of a multiply, the arch has no stmatrix, the types have no conversion, or the matrices do not fill
    the tile.
    """
    require_matrix(source)
    if store_options.access == "stmatrix":
        return _cheapest(source, store_options, name)
    part, kind = band(source), store_options.kind or source.fragment.type
    bits, cols = _bits(kind), source.fragment.cols
    tile = Tile(source.fragment.rows, cols, kind, bits, store_options.contiguous)
    own, shared = replace(tile, rows=part.fragment.rows), parse_shared(store_options.placed)
    shared.check(tile)
    pitch, unit = shared.pitch(tile), 1 << shared.swizzle[1] if shared.swizzle[0] else MATRIX_ROW
    if pitch % MATRIX_ROW or unit % MATRIX_ROW:
        raise UsageError(
            f"stmatrix stores 16 bytes at multiples of 16; lines {pitch} bytes apart, {shared}, break them."
        )
    block = _block(store_options.access, own, source)
    target, evidence = _registers(block, own, source)
    conversion = convert_tiling(tiling(part, target, transpose=False), f"{name}_registers")
    if conversion.plan is None:
        raise UsageError(f"{_name(store_options.access)}: {conversion.reason}.")
    lines, bytes_ = _places(block, own, source)
    access_name = f"stmatrix.x{block.down * block.across}{'.trans' if store_options.access.endswith('.trans') else ''}"
    return StorePlan(source, access_name, tile, shared, block, conversion, lines, bytes_, [source.evidence, *evidence])


def _cheapest(source: Cell, store_options: StoreOptions, name: str) -> StorePlan:
    """The way that takes fewer instructions, with .trans or without; the first way's UsageError where neither works."""
    ways, errors = [], []
    for access_name in (MATRICES, TRANSPOSED):
        try:
            ways.append(plan_store(source, store_options._replace(access=access_name), name))
        except UsageError as error:
            errors.append(error)
    if not ways:
        raise errors[0]
    return min(ways, key=lambda way: sum(way.conversion.costs.values()))


def _bits(kind: str) -> int:
    bits = bits_of(kind)
    if bits not in (8, 16, 32):
        raise UsageError(f"stmatrix stores elements of 8, 16 or 32 bits; {kind} has {bits}.")
    return bits


def _name(access_name: str) -> str:
    """A name as it is written, also where it leaves open how many matrices there are."""
    return ".".join(part for part in access_name.split(".") if part)


def _counts(name: str) -> list[int]:
    """How many matrices an issue may have: what the name says, else any."""
    count = name.removeprefix("stmatrix").removesuffix(".trans")
    counts = [int(count[2:])] if count in (".x1", ".x2", ".x4") else list(COUNTS) if count in ("", ".") else []
    if not counts:
        raise UsageError(f"{name!r} is not one of stmatrix, stmatrix.x1, .x2 and .x4, with or without .trans.")
    return counts


def _block(name: str, tile: Tile, source: Cell) -> MatrixBlock:
    """The matrices of an issue; the most that fill the tile whole where the name does not say how many."""
    counts, turned = _counts(name), ".trans" if name.endswith(".trans") else ""
    access("stmatrix.x1").check_on(arch.arch(source.arch))
    down, across = tile.lines // MATRIX_ROWS, tile.line_bytes // MATRIX_ROW
    whole = not (tile.lines % MATRIX_ROWS or tile.line_bytes % MATRIX_ROW)
    shapes = [(d, n // d) for n in counts for d in (2, 1, 4) if n % d == 0]
    fit = next(((d, a) for d, a in shapes if whole and not (down % d or across % a)), None)
    if fit is None:
        size = f"{tile.lines} lines of {tile.line_bytes} bytes"
        raise UsageError(f"{_name(name)}: a warp holds {size}, which its matrices of 8 lines of 16 bytes do not fill.")
    return MatrixBlock(resolve(f"stmatrix.sync.aligned.m8n8.x{fit[0] * fit[1]}{turned}.shared.b16").instruction, *fit)


def _registers(matrix_block: MatrixBlock, tile: Tile, like: Cell) -> tuple[Cell, list[str]]:
    """What the lanes must hold for one issue, as a fragment of the band; and what that rests on."""
    matrices = cell_of(matrix_block.form.fragment("a"), like.arch, like.layers)
    each, values = 16 // tile.bits or 1, []
    if tile.bits == 32:
        pairs = list(zip(matrices.table.cells[::2], matrices.table.cells[1::2], strict=True))
        if any(low is None or high != (low[0], low[1] + 1) for low, high in pairs):
            raise UsageError(
                f"{matrix_block.form.name} takes the halves of a register from two lines, "
                "so it stores no elements of 32 bits."
            )
    for element in matrices.table.cells[:: max(1, tile.bits // 16)]:
        assert element is not None
        for part in range(each):
            line, byte = matrix_block.place(element[0], 2 * element[1] + part)
            place = byte * 8 // tile.bits
            values.append((line, place) if tile.contiguous == "row" else (place, line))
    rows, cols = matrix_block.lines, matrix_block.width * 8 // tile.bits
    rows, cols = (rows, cols) if tile.contiguous == "row" else (cols, rows)
    fragment = replace(matrices.fragment, name="a", type=tile.type, rows=rows, cols=cols, slot_bits=tile.bits)
    table = slot_table(WARP, fragment.elements, dict(zip(("row", "col"), zip(*values, strict=True), strict=True)))
    return replace(matrices, fragment=fragment, table=table), _evidence(matrix_block, like)


def _evidence(matrix_block: MatrixBlock, like: Cell) -> list[str]:
    """What the instruction's own tables rest on."""
    cells = (cell_of(fragment, like.arch, like.layers) for fragment in matrix_block.form.fragments)
    return [f"{cell.fragment.id}: {cell.evidence}" for cell in cells]


def _places(matrix_block: MatrixBlock, tile: Tile, like: Cell) -> tuple[Ints, Ints]:
    """(line, byte) in the whole tile that each thread's address names, by issue; IDLE for lanes that give none."""
    address_cell = cell_of(matrix_block.form.fragment("address"), like.arch, like.layers)
    threads, across = like.fragment.threads, tile.line_bytes // matrix_block.width
    issues = tile.lines // matrix_block.lines * across
    lines, bytes_ = (np.full((issues, threads), IDLE) for _ in "lb")
    for thread in range(threads):
        warp, lane = divmod(thread, WARP)
        element = address_cell.table.cells[lane]
        if element is None:
            continue
        line, byte = matrix_block.place(element[0], 0)
        for issue in range(issues):
            # (line, byte) where an issue's block starts in a warp's band; blocks cover it row by row of the fragment
            if tile.contiguous == "row":
                down, right = divmod(issue, tile.line_bytes // matrix_block.width)
            else:
                right, down = divmod(issue, tile.lines // matrix_block.lines)
            down, right = down * matrix_block.lines, right * matrix_block.width
            beside = (warp * tile.lines, 0) if tile.contiguous == "row" else (0, warp * tile.line_bytes)
            lines[issue, thread] = beside[0] + down + line
            bytes_[issue, thread] = beside[1] + right + byte
    return lines, bytes_


def plan_store_code(cell: Cell, store_options: StoreOptions, name: str = NAME) -> StorePlan:
    """As `plan_store`, with the code of `name`(shared, lane, from), which calls that of the registers.

    UsageError as there, and where the addresses have no closed form.
    """
    store = plan_store(cell, store_options, name)
    text = "\n".join([str(store.conversion.code), "", *_function(store, name)])
    return replace(store, conversion=replace(store.conversion, code=text))


def _function(store: StorePlan, name: str) -> Iterator[str]:
    tiles, registers = store.conversion.tiling, store.conversion.tiling.target.fragment.registers
    kind = cast(tiles.source.fragment, tiles.target.fragment, arch.arch(store.cell.arch))
    word, from_parameter = parameter(tiles, kind)
    tile, issues = store.tile, len(store.addresses)
    what = f"{store.cell.fragment.id} into {tile.rows} x {tile.cols} of {tile.type} in shared memory"
    yield comment(f"/// {what}, {tile.contiguous}s contiguous,")
    cut = f", lines cut into blocks of {store.shared.block} bytes" if store.shared.block else ""
    yield f"/// {store.shared.pitch(tile)} bytes apart, {store.shared}{cut}. `shared`: the tile's address in the shared"
    threads = store.cell.fragment.threads
    thread = holder(threads)
    yield f"/// window, a multiple of {store.alignment}; {thread}: 0 to {threads - 1}, of whole warps;"
    yield f"/// `from`: the registers, {origin(store.cell)}."
    yield f"__device__ inline void {name}(unsigned shared, unsigned {thread}, {from_parameter}) {{"
    yield f"  {word} to[{issues}][{registers}];"
    yield f"  {name}_registers(from, to);"
    yield "#pragma unroll"
    yield f"  for (unsigned issue = 0; issue < {issues}; ++issue) {{"
    yield from (f"    {of_holder(line, threads)}" for line in _address(store))
    places = ", ".join(f"%{j + 1}" for j in range(registers))
    inputs = ", ".join(f'"r"(to[issue][{j}])' for j in range(registers))
    yield f'    asm volatile("{store.ptx} [%0], {{{places}}};" : : "r"(address), {inputs} : "memory");'
    yield from ("  }", "}")


def _address(store: StorePlan) -> Iterator[str]:
    """The statements that compute a lane's address."""
    if store.formula is None:
        raise UsageError(f"{store.access}: the addresses have no closed form, so there is no code.", "no code")
    linear = store.formula.linear
    if store.formula.swizzle:
        yield f"const unsigned linear = {linear};"
        linear = f"linear ^ (linear {store.formula.swizzle})"
    yield f"const unsigned address = shared + ({linear});"
