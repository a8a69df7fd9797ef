"""SVG: the matrix with the holder lane:i of every element, and every lane's elements, coloured by structure.

For a whole multiply A, B and D come first: A left, B above, D lower right. The background is transparent; every cell
has a title; colours are CSS classes, with others for dark mode, and their text is readable when printed in grey.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.emit import svg_drawing as drawing
from tcprobe.emit.common import about, instructions
from tcprobe.emit.svg_drawing import Drawing, Label
from tcprobe.errors import answer_or_none
from tcprobe.fit import fitted
from tcprobe.fit.manual import manual_names
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.layout.grid import WIDE, blocks
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell

WHAT = "SVG: the matrix with its holders lane:i, and each lane's elements; of a multiply A, B and D together"
ARCHS = "any"
SMALL = 32  # columns


def emit(cells: Sequence[Cell]) -> str:
    """All tables, one below the other; UsageError if one is not a whole fragment's."""
    return draw(cells, drawing.lane_i)


def draw(cells: Sequence[Cell], label: Label) -> str:
    """As `emit`, with holders named by `label`."""
    for cell in cells:
        require_fit(cell.fragment, cell.table)
    drawings = [*_composites(cells, label), *(part for cell in cells for part in _whole(cell, label))]
    names = ", ".join(cell.fragment.id for cell in cells)
    return drawing.svg(drawing.below(drawings), f"register layout of {names}")


def picture(cell: Cell) -> str:
    """The matrix of one table, without a name; with SMALL columns or more, cells are pieces of a register."""
    return drawing.svg(drawing.below(list(_matrices(cell, drawing.lane_i, "", SMALL))), f"layout {cell.table.id}")


def titled_picture(cell: Cell) -> str:
    """The matrix of one table below its name and formulas, on its own background."""
    lines = [f"{name} = {formula}" for name, formula in fitted(cell.table).formulas.items() if formula]
    named = manual_names(fitted(cell.table).formulas.values())
    head = drawing.heading([f"{cell.fragment.id} on {cell.arch}", *lines, *([named] if named else [])])
    drawings = [head, *_matrices(cell, drawing.lane_i, "lane:i of ", SMALL)]
    return drawing.svg(
        drawing.add_ground(drawing.below(drawings)), f"{cell.fragment.id}: the lane and the number i of each element"
    )


def pieces(cell: Cell) -> int:
    """The number of cells that `picture` draws."""
    return sum(len(row) for block in blocks(cell.table, cell.fragment, SMALL) for row in block.pieces)


def _composites(cells: Sequence[Cell], label: Label) -> Iterator[Drawing]:
    """A, B and D of each multiply that has all of them, by arch and product."""
    for arch in dict.fromkeys(cell.arch for cell in cells):
        on_arch = [cell for cell in cells if cell.arch == arch]
        for row, operands in answer_or_none(lambda: list(instructions(on_arch))) or ():  # noqa: B023 - asked at once
            if row.multiplies and {"a", "b", "d"} <= set(operands):
                parts = {name: blocks(operands[name].table, operands[name].fragment) for name in MULTIPLIED}
                fragments = {name: operands[name].fragment for name in MULTIPLIED}
                for number in range(row.products):
                    yield drawing.heading([f"{row.id} on {arch}" + (f", product {number}" if row.products > 1 else "")])
                    yield drawing.composite(
                        {name: blocks_of[number] for name, blocks_of in parts.items()}, fragments, label
                    )


def _whole(cell: Cell, label: Label) -> Iterator[Drawing]:
    lines = [f"{name} = {formula}" for name, formula in fitted(cell.table).formulas.items() if formula]
    yield drawing.heading([*about(cell), *lines])
    fragment = cell.fragment
    yield from _matrices(cell, label, fragment.operand.upper() if len(fragment.operand) == 1 else fragment.operand)
    for block in blocks(cell.table, cell.fragment):
        yield drawing.heading([_title("lane: row,col of each register's elements, low bits first", block.title)])
        yield drawing.registers(block, cell.fragment)


def _matrices(cell: Cell, label: Label, name: str, wide: int = WIDE) -> Iterator[Drawing]:
    for block in blocks(cell.table, cell.fragment, wide):
        yield drawing.heading([_title(f"{name}[row]" + ("" if block.flat else "[col]"), block.title)])
        yield drawing.matrix(block, cell.fragment, label)


def _title(words: str, block_title: str) -> str:
    return f"{words}, {block_title}" if block_title else words
