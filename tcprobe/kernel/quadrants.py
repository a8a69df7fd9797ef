"""The four products that a warp makes with mma.m8n8k4, as the quadrants of one of twice the rows and columns.

Product p is the quadrant at row p / 2, column p % 2 of D, so that products 0 and 1 have the same A, 0 and 2 the same B.

>>> from tcprobe.kernel.quadrants import join
>>> from tcprobe.store.cell import load
>>> a = join(load("mma.m8n8k4.row.col.f32.f16.f16.f32.a", "sm_70"))
>>> (a.fragment.rows, a.fragment.cols), a.table.at(lane=25, i=2)
((16, 4), {'row': 13, 'col': 2})
"""

from __future__ import annotations

from dataclasses import replace

from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import slot_table
from tcprobe.store.cell import Cell

PRODUCTS = 4


def shape(instruction: Instruction) -> Shape:
    """m x n x k of what a warp makes at once."""
    m, n, k = instruction.shape
    return Shape(2 * m, 2 * n, k) if instruction.products == PRODUCTS else instruction.shape


def join(cell: Cell) -> Cell:
    """The table of all quadrants of an operand; that of a single product as it is."""
    fragment, table = cell.fragment, cell.table
    if fragment.products != PRODUCTS:
        return cell
    down, across = (fragment.operand != "b"), (fragment.operand != "a")
    apart = (fragment.rows * down, fragment.cols * across)
    values = {
        name: tuple(place[n] + apart[n] * (place[2] >> 1 - n & 1) if place else None for place in table.cells)
        for n, name in enumerate(("row", "col"))
    }
    m, n, k = fragment.shape
    operand = replace(fragment.held, rows=fragment.rows << down, cols=fragment.cols << across)
    whole = replace(fragment, held=operand, products=1, shape=Shape(2 * m, 2 * n, k))
    return replace(cell, fragment=whole, table=slot_table(table.threads, table.elements, values))
