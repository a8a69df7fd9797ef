"""Where tcgen05.mma keeps D in tensor memory: (CTA of the pair, lane, column) of an element, by the layouts of PTX ISA.

>>> from tcprobe.references.accumulator import layout, place
>>> layout("tcgen05.mma.cta_group::2.kind::f16", 128), place("B", (128, 256), 70, 200)
('B', Landing(cta=1, lane=70, column=72))

Lanes and columns count from D's address. An element takes a column of 32 bits; 16-bit elements are in the low half.
Source: PTX ISA 9.1, section 9.7.16.10.5 (which layout; the layouts as figures) and 9.7.16.10.4.1; CUTLASS
include/cute/atom/mma_traits_sm100_frag.hpp, tmem_frg (A, B, D, F) and tmem_frg_ws (E, G); Apache TVM, documentation of
tirx, tmem_datapath_layout (C, and all others once more).
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.references import cute

SOURCE = "PTX ISA 9.1, section 9.7.16.10.5"
HALF, WARP_LANES = 16, 32
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


def layout(form: str, m: int) -> str:
    """The letter of D's layout."""
    if "cta_group::2" in form:
        return "A" if m == 256 else "C" if ".sp" in form else "B"
    return {128: "D", 64: "E" if ".ws" in form else "F", 32: "G"}[m]


def place(letter: str, size: tuple[int, int], row: int, col: int) -> Landing:
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
