"""Tensor memory: where tcgen05.mma keeps D, where it reads A, metadata and scale factors, and where tcgen05.cp writes.

>>> accumulator_layout("tcgen05.mma.cta_group::2.kind::f16", 128), place_accumulator("B", (128, 256), 70, 200)
('B', Landing(cta=1, lane=70, column=72))
>>> from tcprobe.isa import inventory
>>> row = inventory.instructions()["tcgen05.mma.cta_group::1.kind::mxf8f6f4"]
>>> scales, *others = statements(row, "scale_a", Extent(128, 256, selector=2))
>>> scales.holding(40, 0)[1], others
(TensorCell(cta=0, lane=40, column=1, bit=16), [])
>>> copy_lanes("64x128b", "warpx2::01_23")[33], copy_lanes("4x256b")[2]
((65, 97), (64,))

D is given as (CTA of the pair, lane, column) of an element, by the layouts of PTX ISA. Lanes and columns count from
D's address. An element takes a column of 32 bits; 16-bit elements are in the low half. Source: PTX ISA 9.1, section
9.7.16.10.5 (which layout; the layouts as figures) and 9.7.16.10.4.1; CUTLASS
include/cute/atom/mma_traits_sm100_frag.hpp, tmem_frg (A, B, D, F) and tmem_frg_ws (E, G); Apache TVM, documentation of
tirx, tmem_datapath_layout (C, and all others once more).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Axis, Space, Table
from tcprobe.references import cute

ACCUMULATOR_SOURCE = "PTX ISA 9.1, section 9.7.16.10.5"
HALF = 16
WARP_LANES = 32  # of tensor memory that a warp of a warpgroup may access
BESIDE = {"B": 2, "E": 2, "G": 4}  # parts of N, one below the other in lanes
HALVED = ("C", "F")  # layouts that use 16 lanes of a warp's 32
PAIRED = ("A", "B", "C")  # layouts of two CTAs, each with half of the rows


class Landing(NamedTuple):
    """A cell of tensor memory."""

    cta: int
    lane: int
    column: int


class Slot(NamedTuple):
    """Where a load puts a cell: warp and lane, register, and the column and lane of the load's address."""

    warp: int
    lane: int
    register: int
    column_base: int
    lane_base: int


def accumulator_layout(form: str, m: int) -> str:
    """The letter of D's layout."""
    if "cta_group::2" in form:
        return "A" if m == 256 else "C" if ".sp" in form else "B"
    return {128: "D", 64: "E" if ".ws" in form else "F", 32: "G"}[m]


def place_accumulator(letter: str, size: tuple[int, int], row: int, col: int) -> Landing:
    """The cell of D[row][col]; `size` is (M, N)."""
    m, n = size
    cta, row = divmod(row, m // 2) if letter in PAIRED else (0, row)
    if letter in HALVED:
        return Landing(cta, lane_of_halves(row), col)
    part, column = divmod(col, n // BESIDE.get(letter, 1))
    return Landing(cta, part * (m // 2 if letter == "B" else m) + row, column)


def lane_of_halves(row: int) -> int:
    """The lane of a row in layouts that use 16 lanes of each warp."""
    return row // HALF * WARP_LANES + row % HALF


def slot_of_load(landing: Landing, shape: str, number: int) -> Slot:
    """Where tcgen05.ld.shape.x`number` puts a cell; loads follow each other from column 0 on."""
    table = cute.tensor_memory_table(shape, number)
    warp, inside = divmod(landing.lane, WARP_LANES)
    lane_base, row = divmod(inside, table.extent["row"])
    base, col = divmod(landing.column, table.extent["col"])
    lane, register = divmod(table.inverse[row, col][0], table.elements)
    return Slot(warp, lane, register, base * table.extent["col"], warp * WARP_LANES + lane_base * table.extent["row"])


# Factors, metadata and scales. A cell has 32 bits; it holds several narrower elements, from its low bits on. Lanes
# and columns count from the operand's address. If sources contradict each other, there is a statement of each, PTX's
# first. Sources: PTX ISA 9.1, sections 9.7.16.10.4 (packing), 9.7.16.10.5 (A), 9.7.16.10.7 (scales) and 9.7.16.10.8
# (metadata); CUTLASS include/cute/atom/mma_traits_sm100_frag.hpp, tmem_frg, tmem_e_frg, tmem_e_frg_ws and
# tmem_sf_frg; Apache TVM, python/tvm/tirx/layout.py.
CELL, BYTE = 32, 8
LANES = 128
WARPS = LANES // WARP_LANES
# bits of an element of A in tensor memory; types of 4 and 6 bits are in containers of 8, except for two kinds
WIDTHS = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}
FRAG = "CUTLASS, mma_traits_sm100_frag.hpp"
PACKING = "PTX ISA 9.1, sections 9.7.16.10.4 and 9.7.16.10.5"
METADATA = "PTX ISA 9.1, section 9.7.16.10.8.4 (figures)"
SCALES = "PTX ISA 9.1, section 9.7.16.10.7 (figures)"
TVM = "Apache TVM, tirx/layout.py, tmem_mma_operand_layout (as FlashMLA's kernels have it)"
NO_LAYOUT = "no source states a layout of A in tensor memory for .ws with M = 32, or for .ws.sp with M below 128."
OVER = (
    "PTX ISA 9.1 shows the scales of K = 96 in figures 234 to 258 only; from this ID on they go beyond a cell, and no "
    "text says where the rest of them is."
)
UNLISTED = "; but the instruction descriptor of this kind has IDs 0 and 2 only (section 9.7.16.4.2)"
FOUR_BIT_IDS = (0, 2)
# erratum: figures 262 and 264, for M = 64, are exchanged: a nibble covers two elements of tf32, and four of f16


class TensorCell(NamedTuple):
    """Where an element begins: `bit` is its lowest bit in the cell."""

    cta: int
    lane: int
    column: int
    bit: int


class CellStatement(NamedTuple):
    """What a source states: `holding(row, col)` are all places of an element of `bits` bits; `rows` x `cols`."""

    source: str
    bits: int
    rows: int
    cols: int
    holding: Callable[[int, int], tuple[TensorCell, ...]]


class Extent(NamedTuple):
    """M x N; `selector` of the instruction descriptor (`selectors`); `vector`: scales of a row of A."""

    m: int
    n: int
    selector: int = 0
    vector: int = 0


Stated = tuple[CellStatement, ...]


def statements(instruction: Instruction, operand: str, chosen_size: Extent) -> Stated | str:
    """What sources state of an operand: the answer, then what contradicts it; or why nothing is stated."""
    m, n, selector, vector = chosen_size
    if operand == "d":
        letter = accumulator_layout(instruction.id, m)
        statement = CellStatement(ACCUMULATOR_SOURCE, CELL, m, n, _accumulator(letter, m, n))
        if letter != "C":
            return (statement,)
        source = f"{FRAG}, tmem_frg, and CuTe DSL, as layout B"
        other = CellStatement(source, CELL, m, n, _accumulator("B", m, n))
        return statement, other
    if operand == "a":
        return _factor(instruction, m)
    if operand == "e":
        return _metadata(instruction, m, selector)
    return _scales(instruction, operand == "scale_a", Extent(m, n, selector, vector or vectors(instruction)[0]))


@cache
def _accumulator(letter: str, m: int, n: int) -> Callable[[int, int], tuple[TensorCell, ...]]:
    """The place of each element of D; the same function for the same layout and size."""
    return lambda row, col: (TensorCell(*place_accumulator(letter, (m, n), row, col), 0),)


def selectors(instruction: Instruction, operand: str, vector: int = 0) -> tuple[int, ...]:
    """Values that the instruction descriptor may select: sub-columns of metadata, bytes of scales; else (0,)."""
    if operand == "e":
        return (0, 1) if instruction.kind in ("f16", "tf32") else (0,)
    if operand.startswith("scale_"):
        return {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,), 3: (0, 1, 2, 3), 6: (0, 2)}[vector or vectors(instruction)[0]]
    return (0,)


def _lanes(letter: str, m: int, r: int) -> tuple[int, tuple[int, ...]]:
    """(CTA of a row of A, the lanes that hold it); several if lanes hold copies that multiply different columns."""
    cta, r = divmod(r, m // 2) if letter in PAIRED else (0, r)
    if letter in HALVED:
        return cta, (lane_of_halves(r),)
    step = {"B": m // 2, "E": m, "G": m}.get(letter, LANES)
    return cta, tuple(range(r, LANES, step))


def _factor(instruction: Instruction, m: int) -> Stated | str:
    """A; the K elements of a row are in consecutive columns.

    TVM has no sparse A and no M = 32. Of layout E it has two banks of 64 lanes, each multiplied with half
    of the columns of B; of layout F the lanes 0 to 63.
    """
    letter, bits = accumulator_layout(instruction.id, m), WIDTHS.get(instruction.kind or "", BYTE)
    sparse = any(o.name == "e" for o in instruction.operands)
    if letter == "G" or (letter == "E" and sparse):
        return NO_LAYOUT
    stored = next(o.cols for o in instruction.operands if o.name == "a")

    def cells(r: int, k: int, as_: str = letter) -> tuple[TensorCell, ...]:
        cta, lanes = _lanes(as_, m, r)
        column, bit = divmod(k * bits, CELL)
        return tuple(TensorCell(cta, lane, column, bit) for lane in lanes)

    if letter == "B":  # PTX's figure shows only D's rows; CUTLASS states that A is there twice
        return (CellStatement(f"{FRAG}, tmem_frg, Duplicated", bits, m, stored, cells),)
    if letter == "E":
        return (CellStatement(f"{TVM}, two banks", bits, m, stored, cells),)
    statement = CellStatement(PACKING, bits, m, stored, cells)
    if letter == "F" and not sparse:
        return statement, CellStatement(f"{TVM}, lanes 0 to 63", bits, m, stored, lambda r, k: cells(r, k, "D"))
    if letter != "C":
        return (statement,)
    return statement, CellStatement("CuTe DSL, as layout B", bits, m, stored, lambda r, k: cells(r, k, "B"))


def fields(instruction: Instruction) -> tuple[int, int]:
    """(bits of an index field of the metadata, consecutive elements of A that it is for)."""
    return 4 if instruction.kind == "tf32" else 2, 2 if instruction.kind in ("mxf4", "mxf4nvf4") else 1


def _metadata(instruction: Instruction, m: int, selector: int) -> Stated:
    """E: an index field for each stored element of A, or for a pair of 4-bit elements.

    A field has 4 bits for tf32, else 2.
    """
    letter = accumulator_layout(instruction.id, m)
    stored = next(o.cols for o in instruction.operands if o.name == "e")
    chunk = {"f16": 8, "tf32": 4}.get(instruction.kind or "")  # stored elements of 16 bits, if two rows share a cell
    bits, span = fields(instruction)

    def cells(r: int, k: int) -> tuple[TensorCell, ...]:
        if chunk is None:
            cta, lanes = _lanes(letter, m, r)
            column, bit = divmod(k // span * bits, CELL)
        else:  # rows r and r + 8 share a cell; the second half of k is 8 lanes further on
            cta, lanes = _lanes(letter, m, r - r // 8 % 2 * 8)
            half, inside = divmod(k, chunk)
            lanes = tuple(lane + 8 * half for lane in lanes)
            column, bit = selector, r // 8 % 2 * 16 + inside * bits
        return tuple(TensorCell(cta, lane, column, bit) for lane in lanes)

    part = "tmem_e_frg_ws" if ".ws" in instruction.id else "tmem_e_frg"
    by = f"{METADATA}, {FRAG}, {part}" if letter in "DEG" else METADATA
    return (CellStatement(by, bits, m, stored, cells),)


# the third runs on SM100: its two CTAs of 64 rows read scales by the "2x2" data path, sub-partition s the column s % 2
BY_HALVES = f"{FRAG}, tmem_sf_frg, ScaleFactorDuplicated2by2, CuTe DSL, cuDNN-frontend PR 908"


def vectors(instruction: Instruction) -> tuple[int, ...]:
    """How many scales a row of A may have: 1, 2 or 4; 3 or 6 with K = 96."""
    return tuple(dict.fromkeys(int(str(scale).split()[1].removesuffix("X")) for scale in instruction.stated["scales"]))


def _scales(instruction: Instruction, of_a: bool, chosen_size: Extent) -> Stated | str:
    """Scales of 32 rows (of B: columns) are in the lanes of one warp, and again in those of the others.

    The next 32 rows are a column further on. The scales of a row are in bytes from the selected one on.
    """
    m, n, selector, vector = chosen_size
    if selector + vector > CELL // BYTE:
        return OVER
    paired = "cta_group::2" in instruction.id
    lines = m // 2 if of_a and paired else m if of_a else n
    shape = (m, vector) if of_a else (vector, n)

    def cells(r: int, j: int, parts: int = 1) -> tuple[TensorCell, ...]:
        line, number = (r, j) if of_a else (j, r)
        ctas, line = ([line // lines], line % lines) if of_a else (range(1 + paired), line)
        part, line = divmod(line, lines // parts)
        column, lane = divmod(line, WARP_LANES)
        each = WARPS // parts  # warps that hold the same scales
        return tuple(
            TensorCell(cta, lane + WARP_LANES * (part * each + warp), column, (selector + number) * BYTE)
            for cta in ctas
            for warp in range(each)
        )

    of_96 = vector in (3, 6) and selector not in FOUR_BIT_IDS
    statement = CellStatement(SCALES + (UNLISTED if of_96 else ""), BYTE, *shape, cells)
    if of_a or not paired or m == 256:
        return (statement,)
    return statement, CellStatement(BY_HALVES, BYTE, *shape, lambda r, c: cells(r, c, 2))


SCALE_SOURCE = "CUTLASS, sm100_blockscaled_layout.hpp, Sm1xxBlockScaledBasicChunk"
LINES, BLOCKS, ATOM_BYTES = 128, 4, 512  # of an atom
APART = 32  # lines that are 16 bytes apart; these 16 bytes have 4 lines, 32 apart


def scale_offset(line: int, block: int, blocks: int) -> int:
    """The byte offset of a scale in global memory, by CUTLASS's SfAtom tiled over lines and blocks.

    >>> scale_offset(line=40, block=5, blocks=8), scale_offset(line=128, block=0, blocks=6)
    (645, 1024)

    A line is a row of A or a column of B; a block is the run of k that shares one scale; a line has `blocks` of them; a
    scale is a byte. An atom has 128 lines x 4 blocks in 512 bytes. Atoms follow each other along k first; the last one
    along k is padded. Source: SCALE_SOURCE, and tile_atom_to_shape_SFA there.
    """
    atom = line // LINES * -(-blocks // BLOCKS) + block // BLOCKS
    return atom * ATOM_BYTES + line % APART * 16 + line % LINES // APART * BLOCKS + block % BLOCKS


# Where tcgen05.cp writes. Source: PTX ISA 9.1, section 9.7.16, the names of shapes and of .multicast (which warps'
# lanes get the same rows); Apache TVM, documentation of tirx, tcgen05.cp, for the lanes of 4x256b. Columns follow
# each other, from the address on.
# by shape and multicast: for each run of 32 source rows, the first lane of every copy
COPY_RUNS: dict[tuple[str, str], tuple[tuple[int, ...], ...]] = {
    ("128x256b", ""): ((0,), (32,), (64,), (96,)),
    ("128x128b", ""): ((0,), (32,), (64,), (96,)),
    ("64x128b", "warpx2::02_13"): ((0, 64), (32, 96)),
    ("64x128b", "warpx2::01_23"): ((0, 32), (64, 96)),
    ("32x128b", "warpx4"): ((0, 32, 64, 96),),
}
COPY_ROWS_4 = ((0,), (32,), (64,), (96,))  # 4x256b: a row in the first lane of each warp


def copy_lanes(shape: str, multicast: str = "") -> tuple[tuple[int, ...], ...]:
    """The lanes that get each row of the source; KeyError for a combination that PTX does not have."""
    if (shape, multicast) == ("4x256b", ""):
        return COPY_ROWS_4
    return tuple(
        tuple(start + row for start in starts) for starts in COPY_RUNS[shape, multicast] for row in range(WARP_LANES)
    )


def copy_table(shape: str, multicast: str = "") -> Table:
    """(lane, column) of tensor memory to (row, col) of the source, in 32-bit words; None for cells that are not
    written.
    """
    columns = int(shape.partition("x")[2].removesuffix("b")) // 32
    source = {lane: row for row, group in enumerate(copy_lanes(shape, multicast)) for lane in group}
    cells = [(source.get(lane), column) for lane in range(LANES) for column in range(columns)]
    values = {
        "row": tuple(row for row, _ in cells),
        "col": tuple(None if row is None else column for row, column in cells),
    }
    return Table(Space((Axis("lane", LANES), Axis("column", columns))), values)
