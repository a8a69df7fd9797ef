"""SVG: the matrix with the holder lane:i of every element, and what each thread holds (`ask/matrix_picture.py`).

For a whole multiply A, B and D come first: A left, B above, D lower right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tcprobe.ask.matrix_picture import (
    LINE,
    Drawing,
    Label,
    below,
    element_width,
    heading,
    lane_i,
    matrices,
    matrix,
    move,
    registers,
    svg,
    text,
    title,
)
from tcprobe.emit.common import about, instructions
from tcprobe.errors import answer_or_none
from tcprobe.fit import fitted
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.layout.grid import Block, Stretch, blocks
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell

WHAT = "SVG: the matrix with its holders lane:i, and each lane's elements; of a multiply A, B and D together"
ARCHS = "any"


def emit(cells: Sequence[Cell]) -> str:
    """All tables, one below the other; UsageError if one is not a whole fragment's."""
    return draw(cells, lane_i)


def draw(cells: Sequence[Cell], label: Label) -> str:
    """As `emit`, with holders named by `label`."""
    for cell in cells:
        require_fit(cell.fragment, cell.table)
    drawings = [*_composites(cells, label), *(part for cell in cells for part in _whole(cell, label))]
    names = ", ".join(cell.fragment.id for cell in cells)
    return svg(below(drawings), f"register layout of {names}")


def composite(drawn: Mapping[str, Block], fragments: Mapping[str, Fragment], label: Label) -> Drawing:
    """A left, B above, D lower right: a row of A and a column of B meet at their product in D."""
    widths = {name: element_width(drawn[name], fragments[name], label) for name in drawn}
    widths["b"] = widths["d"] = max(widths["b"], widths["d"])
    a, b, d = (matrix(drawn[name], fragments[name], label, widths[name]) for name in MULTIPLIED)
    parts = [*move(b, a.width, LINE), text((a.width + 8, 12), "B", "h")]
    parts += [*move(a, 0, b.height + 2 * LINE), text((8, b.height + 2 * LINE - 6), "A", "h")]
    parts += [*move(d, a.width, b.height + 2 * LINE), text((a.width + 8, b.height + 2 * LINE - 6), "D", "h")]
    return Drawing(parts, a.width + max(b.width, d.width), b.height + 2 * LINE + max(a.height, d.height))


def _composites(cells: Sequence[Cell], label: Label) -> Iterator[Drawing]:
    """A, B and D of each multiply that has all of them, by arch and product."""
    for arch in dict.fromkeys(cell.arch for cell in cells):
        on_arch = [cell for cell in cells if cell.arch == arch]
        for row, operands in answer_or_none(lambda: list(instructions(on_arch))) or ():  # noqa: B023 - asked at once
            if row.multiplies and {"a", "b", "d"} <= set(operands):
                parts = {name: blocks(operands[name].table, operands[name].fragment) for name in MULTIPLIED}
                fragments = {name: operands[name].fragment for name in MULTIPLIED}
                for number in range(row.products):
                    yield heading([f"{row.id} on {arch}" + (f", product {number}" if row.products > 1 else "")])
                    yield composite({name: blocks_of[number] for name, blocks_of in parts.items()}, fragments, label)


def _whole(cell: Cell, label: Label) -> Iterator[Drawing]:
    lines = [f"{name} = {formula}" for name, formula in fitted(cell.table).formulas.items() if formula]
    yield heading([*about(cell), *lines])
    fragment = cell.fragment
    yield from matrices(cell, label, fragment.operand.upper() if len(fragment.operand) == 1 else fragment.operand)
    for block in blocks(cell.table, cell.fragment):
        yield heading([title("lane: row,col of each register's elements, low bits first", block.title)])
        yield registers(block, cell.fragment)


# how a cell names its holders


def thread_value(piece: Stretch, operand: str) -> str:
    """T0 V1, as CuTe prints layouts."""
    return " ".join(f"T{t} V{i}" + (f"..{i + piece.span - 1}" if piece.span > 1 else "") for t, i in piece.holders)


def ptx_figure(piece: Stretch, operand: str) -> str:
    """T0:{a0,a1}, as in PTX's figures."""
    by_thread: dict[int, list[str]] = {}
    for thread, i in piece.holders:
        last = f"..{operand[0]}{i + piece.span - 1}" if piece.span > 1 else ""
        by_thread.setdefault(thread, []).append(f"{operand[0]}{i}{last}")
    return " ".join(f"T{thread}:{{{','.join(values)}}}" for thread, values in by_thread.items())
