"""SVG: the matrix with the holder lane:i of every element, and every lane's elements; a colour a lane.

Colours are light, so that the black text reads on paper too; lines mark registers. Elements of a row that lie side by
side in one register are drawn as one cell where a matrix is wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from colorsys import hls_to_rgb
from html import escape

from tcprobe.emit.common import about
from tcprobe.fit import fitted
from tcprobe.layout.draw import runs
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell
from tcprobe.text import escaped

WHAT = "SVG: the matrix with its holders, and each lane's elements"
ARCHS = "any"
CELL, LINE, MARGIN, LETTER = 20, 18, 36, 6.2  # heights, left margin, width of a letter of 10 px, in px
WIDE = 64  # columns from which runs are drawn as one cell
Box = tuple[int, int, str, int]  # first column, columns, text, lane


def emit(tables: Sequence[Cell]) -> str:
    """All tables one below the other; UsageError where one is not a whole fragment's."""
    parts: list[str] = []
    top, widest = 0.0, 0.0
    for cell in tables:
        require_fit(cell.fragment, cell.table)
        drawn, width, height = _drawing(cell)
        parts += [f'<g transform="translate(0 {top:g})">', *drawn, "</g>"]
        top, widest = top + height, max(widest, width)
    style = "text{font:10px monospace;fill:#000}.h{font-weight:bold;font-size:12px}.c{text-anchor:middle}"
    style += "rect{stroke:#555;stroke-width:.7}"
    names = ", ".join(cell.fragment.id for cell in tables)
    size = f'viewBox="0 0 {widest:g} {top:g}" width="{widest:g}" height="{top:g}"'
    label = f'role="img" aria-label="register layout of {escape(names)}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{style}</style>",
        '<rect width="100%" height="100%" fill="#fff" stroke="none"/>', *parts, "</svg>",
    ])  # fmt: skip


def _drawing(cell: Cell) -> tuple[list[str], float, float]:
    """(elements, width, height) of one table."""
    lines = [escaped(line) for line in about(cell)]
    lines += [f"{name} = {formula}" for name, formula in fitted(cell.table).formulas.items() if formula]
    found = [_text(8, LINE * (number + 1), line, "h" if not number else "") for number, line in enumerate(lines)]
    top: float = LINE * (len(lines) + 1)
    width = max(len(line) for line in lines) * LETTER * 1.2 + 16
    for title, heads, rows in (*_matrices(cell), _lanes(cell)):
        found.append(_text(8, top + 12, title, "h"))
        drawn, wide, high = _grid(heads, rows, top + LINE)
        found += drawn
        width, top = max(width, wide), top + LINE + high + LINE
    return found, width, top


def _matrices(cell: Cell) -> Iterator[tuple[str, list[str], list[list[Box]]]]:
    """The matrix, one for each product: rows of cells with lane:i."""
    table, fragment = cell.table, cell.fragment
    operand = fragment.operand.upper()
    for product in range(fragment.products):
        rows = []
        for row in range(fragment.rows):
            cells: list[Box] = []
            for col in range(fragment.cols):
                key = (row, col, product) if "product" in table.outputs else (row, col)
                _join(cells, col, [divmod(slot, table.elements) for slot in table.inverse[key]], fragment.cols >= WIDE)
            rows.append(cells)
        of = f", product {product}" if fragment.products > 1 else ""
        yield f"{operand}[row][col]: lane:i{of}", [str(col) for col in range(fragment.cols)], rows


def _join(cells: list[Box], col: int, holders: Sequence[tuple[int, int]], merge: bool) -> None:
    """Add an element's cell; where `merge`, lengthen the cell before if it is the same lane's, up to 32 elements."""
    lane, i = holders[0]
    if merge and cells and cells[-1][3] == lane and cells[-1][0] + cells[-1][1] == col and cells[-1][1] < 32:
        first, count, text, _ = cells[-1]
        start = text.split("..")[0]
        cells[-1] = (first, count + 1, f"{start}..{i}", lane)
        return
    by_lane: dict[int, list[int]] = {}
    for holder, element in holders:
        by_lane.setdefault(holder, []).append(element)
    cells.append((col, 1, " ".join(f"{n}:{','.join(map(str, e))}" for n, e in by_lane.items()), lane))


def _lanes(cell: Cell) -> tuple[str, list[str], list[list[Box]]]:
    """A row a lane: a cell a register, with the elements in it."""
    table, fragment = cell.table, cell.fragment
    size = max(1, fragment.register_bits // fragment.slot_bits)
    rows = []
    for lane in range(table.threads):
        cells: list[Box] = []
        for register in range(fragment.registers):
            start = lane * table.elements + register * size
            cells.append((register, 1, runs(table.cells[start : start + size]), lane))
        rows.append(cells)
    heads = [f"r{register}" for register in range(fragment.registers)]
    return "lane: row,col of each register's elements, low bits first", heads, rows


def _grid(heads: Sequence[str], rows: Sequence[Sequence[Box]], top: float) -> tuple[list[str], float, float]:
    """(elements, width, height) of a grid with heads above and row numbers on the left."""
    least = CELL if len(heads) < WIDE else CELL / 5
    wide = max(least, *((len(text) * LETTER + 6) / count for row in rows for _, count, text, _ in row))
    found = [
        _text(MARGIN + (col + 0.5) * wide, top + 12, head, "c")
        for col, head in enumerate(heads)
        if wide * (1 if len(heads) < WIDE else 8) > 20 and (len(heads) < WIDE or col % 8 == 0)
    ]
    for number, row in enumerate(rows):
        y = top + LINE + number * CELL
        found.append(_text(8, y + 14, str(number)))
        for col, count, text, lane in row:
            x = MARGIN + col * wide
            size = f'width="{count * wide:.1f}" height="{CELL}"'
            found.append(f'<rect x="{x:.1f}" y="{y:g}" {size} fill="{_colour(lane)}"/>')
            found.append(_text(x + count * wide / 2, y + 14, text, "c"))
    return found, MARGIN + len(heads) * wide + 8, LINE + len(rows) * CELL


def _colour(lane: int) -> str:
    """A pale colour of its own for each lane, as every viewer reads it: #rrggbb."""
    rgb = hls_to_rgb(lane * 137 % 360 / 360, 0.88 if lane % 2 else 0.94, 0.7)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of}>{escape(text)}</text>'
