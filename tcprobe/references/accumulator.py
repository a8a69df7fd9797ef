"""Where tcgen05.mma keeps D in tensor memory: (CTA of the pair, lane, column) of an element, by the layouts of PTX ISA.

>>> from tcprobe.references.accumulator import layout, place
>>> layout("tcgen05.mma.cta_group::2.kind::f16", 128), place("B", (128, 256), 70, 200)
('B', Landing(cta=1, lane=70, column=72))

Rows and lanes count from D's address, an element a column of 32 bits. Source: PTX ISA 9.1, section 9.7.16.10.5 (which
layout; the layouts as figures); CUTLASS include/cute/atom/mma_traits_sm100.hpp, tmem_frg (A, B, D, F); TileLang's
accumulators of .ws (E, G). Layout C is in a figure only, and not answered.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.references import cute_tensor_memory

SOURCE = "PTX ISA 9.1, section 9.7.16.10.5"
HALF, WARP_LANES = 16, 32
BESIDE = {"B": 2, "E": 2, "G": 4}  # parts of N that are in lanes below each other


class Landing(NamedTuple):
    """A cell of tensor memory."""

    cta: int
    lane: int
    column: int


class Slot(NamedTuple):
    """Where a load leaves a cell: the address's lane and column, the warp and its lane, and the register."""

    warp: int
    lane: int
    register: int
    column_base: int
    lane_base: int


def layout(form: str, m: int) -> str:
    """The letter of D's layout; UsageError for C."""
    if "cta_group::2" in form:
        if m == 128 and ".sp" in form:
            raise UsageError("layout C (M 128, two CTAs, sparse) is in a figure of PTX ISA only; tcprobe has no table.")
        return "A" if m == 256 else "B"
    return {128: "D", 64: "E" if ".ws" in form else "F", 32: "G"}[m]


def place(letter: str, size: tuple[int, int], row: int, col: int) -> Landing:
    """Where D[row][col] of M x N is."""
    m, n = size
    cta, row = divmod(row, m // 2) if letter in "AB" else (0, row)
    if letter == "F":
        return Landing(cta, row // HALF * WARP_LANES + row % HALF, col)
    part, column = divmod(col, n // BESIDE.get(letter, 1))
    return Landing(cta, part * (m // 2 if letter == "B" else m) + row, column)


def loaded(at: Landing, shape: str, number: int) -> Slot:
    """The register that a tcgen05.ld of a shape leaves a cell in, loads following each other from column 0 on."""
    table = cute_tensor_memory.table(shape, number)
    warp, inside = divmod(at.lane, WARP_LANES)
    lane_base, row = divmod(inside, table.extent["row"])
    base, col = divmod(at.column, table.extent["col"])
    index = list(table.cells).index((row, col))
    lane, register = divmod(index, table.elements)
    return Slot(warp, lane, register, base * table.extent["col"],
                warp * WARP_LANES + lane_base * table.extent["row"])  # fmt: skip
