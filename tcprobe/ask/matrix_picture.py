"""SVG of a fragment: the matrix with the holder lane:i of every element, and what each thread holds.

Colour follows structure: the hue is thread & 3, the tone (thread >> 2) & 1; the cell of an element with two threads is
split. A thick edge marks the start of a register, a cut corner an element in its upper half. Every cell has a title.
Colours are CSS classes, so that a page or dark mode can change them; the background is transparent unless `grounded`.
Text is readable when printed in grey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import ceil
from typing import NamedTuple

from tcprobe.fit import fitted
from tcprobe.fit.formula import manual_names
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.grid import WIDE, Block, Stretch, blocks, lane_registers
from tcprobe.store.cell import Cell
from tcprobe.text import escaped

SMALL = 32  # columns
HIGH, LINE, MARGIN, LETTER = 20, 18, 34, 6.25  # height of a cell and a line, left margin, width of a letter, in px
LIGHT = ("#ccd9fd", "#fee6b6", "#defeea", "#fdbbd7", "#8ea2d6", "#f3ba47", "#a8dbbb", "#da9ab5")
DARK = ("#234975", "#624b22", "#24594c", "#822942", "#0b2038", "#2f2107", "#083127", "#511224")
FONTS = "'DejaVu Sans Mono',Menlo,Consolas,monospace"  # some programs do not know generic families
INK, DARK_INK = "#111111", "#f4f4f4"
GROUND, DARK_GROUND = "#fdfdfc", "#15161a"
Label = Callable[[Stretch, str], str]


class Drawing(NamedTuple):
    """SVG elements, and their size."""

    parts: list[str]
    width: float
    height: float


def style() -> str:
    """The style sheet: light colours, and dark ones for readers who prefer them."""
    light = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(LIGHT))
    dark = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(DARK))
    text = f"text{{font-family:{FONTS};font-size:10px;text-anchor:middle}}.h,.s{{text-anchor:start}}"
    text += ".h{font-weight:bold;font-size:12px}"
    lines = ".r{fill:none;stroke:#555;stroke-width:1.4}"
    lines += ".e{fill:none}.u{fill:#555}"
    darker = f"text{{fill:{DARK_INK}}}.r{{stroke:#bbb}}.u{{fill:#bbb}}{dark}"
    return f"{text}text{{fill:{INK}}}{lines}{light}@media (prefers-color-scheme:dark){{{darker}}}"


def colour(thread: int) -> int:
    """0 to 7: the hue by thread & 3, the tone by (thread >> 2) & 1."""
    return (thread & 3) + 4 * (thread >> 2 & 1)


def add_ground(drawing: Drawing) -> Drawing:
    """The drawing on its own background, for pages that may be dark while the reader's system is light."""
    ground = '<rect class="g" width="100%" height="100%"/>'
    light_or_dark = f".g{{fill:{GROUND}}}@media (prefers-color-scheme:dark){{.g{{fill:{DARK_GROUND}}}}}"
    return Drawing([f"<style>{light_or_dark}</style>", ground, *drawing.parts], drawing.width, drawing.height)


def svg(drawing: Drawing, label: str) -> str:
    """A whole SVG."""
    size = f'viewBox="0 0 {drawing.width:g} {drawing.height:g}" width="{drawing.width:g}" height="{drawing.height:g}"'
    name = escape(escaped(label))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{name}">',
            f"<title>{name}</title>",
            f"<style>{style()}</style>",
            *drawing.parts,
            "</svg>",
        ]
    )


def move(drawing: Drawing, x: float, y: float) -> list[str]:
    """The elements, moved."""
    return [f'<g transform="translate({x:g} {y:g})">', *drawing.parts, "</g>"]


def below(drawings: Sequence[Drawing], gap: float = LINE) -> Drawing:
    """Drawings, one below the other."""
    parts, top = [], 0.0
    for drawing in drawings:
        parts += move(drawing, 0, top)
        top += drawing.height + gap
    return Drawing(parts, max(d.width for d in drawings), top)


def heading(lines: Sequence[str]) -> Drawing:
    """Lines of text, the first bold."""
    parts = [text((8, LINE * (n + 1)), escaped(line), "s" if n else "h") for n, line in enumerate(lines)]
    return Drawing(parts, max(map(len, lines)) * LETTER * 1.2 + 16, LINE * (len(lines) + 0.5))


def text(point: tuple[float, float], words: str, kind: str = "") -> str:
    """A text, centred unless its kind says otherwise."""
    x, y = point
    css_class = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{css_class}>{escape(words)}</text>'


def matrix(block: Block, fragment: Fragment, label: Label, wide: float | None = None) -> Drawing:
    """A matrix with numbers of rows and columns; `wide` is the width of an element, by default what its labels need."""
    wide = wide or element_width(block, fragment, label)
    columns = sum(piece.span for piece in block.pieces[0])
    every = max(1, round(24 / wide)) if wide < 24 else 1
    parts = [text((MARGIN + (col + 0.5) * wide, 12), str(col)) for col in range(0, columns, every)]
    marks = _Marks(fragment)
    for row, pieces in enumerate(block.pieces):
        y = LINE + row * HIGH
        parts.append(text((MARGIN / 2, y + 14), str(row)))
        for piece in pieces:
            box = _Box(MARGIN + piece.col * wide, y, piece.span * wide)
            name = f"[{row}]" + ("" if block.flat else f"[{piece.col}]")
            parts.append(_cell(box, piece, name, label(piece, fragment.operand)))
            marks.add(box, piece)
    return Drawing([*parts, *marks.paths()], MARGIN + columns * wide + 8, LINE + len(block.pieces) * HIGH + 2)


def element_width(block: Block, fragment: Fragment, label: Label) -> float:
    """The width per element that the longest label needs."""
    longest = max((len(label(p, fragment.operand)) * LETTER + 8) / p.span for row in block.pieces for p in row)
    return max(6, ceil(longest * 2) / 2)


class _Box(NamedTuple):
    """Where a piece is drawn."""

    x: float
    y: float
    width: float


def _cell(frame: _Box, piece: Stretch, name: str, words: str) -> str:
    x, y, width = frame
    threads = piece.threads
    fill = f' class="c{colour(threads[0])}"' if threads else ' class="e"'
    title = f"<title>{name}: {piece.text or 'nobody'}</title>"
    whole = f'<path d="M{x:g} {y:g}h{width - 1:g}v{HIGH - 1}h{1 - width:g}z"/>'
    return f"<g{fill}>{title}{whole}{_other(frame, threads)}{text((x + width / 2, y + 14), words)}</g>"


def _other(frame: _Box, box_threads: Sequence[int]) -> str:
    """The half of the cell that belongs to a second thread."""
    if len(box_threads) < 2:
        return ""
    edge = f"M{frame.x:g} {frame.y + HIGH - 1:g}h{frame.width - 1:g}v{1 - HIGH}z"
    return f'<path d="{edge}" class="c{colour(box_threads[1])}"/>'


class _Marks:
    """Edges where registers begin, and corners of their upper halves."""

    def __init__(self, fragment: Fragment) -> None:
        self._fragment, self._edges, self._halves = fragment, "", ""

    def add(self, frame: _Box, piece: Stretch) -> None:
        """Add the paths of a piece."""
        x, y, width = frame
        if piece.holders:
            _, bit = self._fragment.where(piece.holders[0][1])
            if not bit:
                self._edges += f"M{x + 0.5:g} {y:g}v{HIGH - 1}"
            elif bit >= self._fragment.register_bits // 2:
                self._halves += f"M{x + width - 1:g} {y:g}h-5l5 5z"

    def paths(self) -> Iterator[str]:
        """One path for each kind."""
        kinds = (("r", self._edges), ("u", self._halves))
        yield from (f'<path class="{kind}" d="{path}"/>' for kind, path in kinds if path)


def registers(block: Block, fragment: Fragment) -> Drawing:
    """A line for each thread with the contents of its registers; a block for each warp."""
    rows = lane_registers(block, fragment)
    wide = max(len(words) for lane in rows for words in lane.registers) * LETTER + 10
    parts = [text((MARGIN + (n + 0.5) * wide, 12), f"r{n}") for n in range(fragment.registers)]
    y: float = LINE
    for lane in rows:
        if fragment.threads > WARP and lane.number % WARP == 0:
            parts.append(text((8, y + 14), f"warp {lane.number // WARP}", "h"))
            y += HIGH
        parts.append(text((MARGIN / 2, y + 14), str(lane.number)))
        for n, words in enumerate(lane.registers):
            x = MARGIN + n * wide
            box = f'<rect x="{x:g}" y="{y:g}" width="{wide - 1:g}" height="{HIGH - 1}" class="c{colour(lane.number)}"/>'
            title = f"<title>lane {lane.number}, register {n}: {words}</title>"
            parts.append(f"<g>{title}{box}{text((x + wide / 2, y + 14), words)}</g>")
        y += HIGH
    return Drawing(parts, MARGIN + fragment.registers * wide + 8, y + 2)


def lane_i(piece: Stretch, operand: str) -> str:
    """lane:i, as in tcprobe's tables."""
    return piece.text


def picture(cell: Cell) -> str:
    """The matrix of one table, without a name; with SMALL columns or more, cells are pieces of a register."""
    return svg(below(list(matrices(cell, lane_i, "", SMALL))), f"layout {cell.table.id}")


def titled_picture(cell: Cell) -> str:
    """The matrix of one table below its name and formulas, on its own background."""
    lines = [f"{name} = {formula}" for name, formula in fitted(cell.table).formulas.items() if formula]
    named = manual_names(fitted(cell.table).formulas.values())
    chosen = "" if cell.selector is None else f", selector {cell.selector}"
    head = heading([f"{cell.fragment.id} on {cell.arch}{chosen}", *lines, *([named] if named else [])])
    drawings = [head, *matrices(cell, lane_i, "0:offset of " if cell.in_memory else "lane:i of ", SMALL)]
    return svg(add_ground(below(drawings)), f"{cell.fragment.id}: the lane and the number i of each element")


def pieces(cell: Cell) -> int:
    """The number of cells that `picture` draws."""
    return sum(len(row) for block in blocks(cell.table, cell.fragment, SMALL) for row in block.pieces)


def matrices(cell: Cell, label: Label, name: str, wide: int = WIDE) -> Iterator[Drawing]:
    """The matrix of each block of a table, below its name."""
    for block in blocks(cell.table, cell.fragment, wide):
        yield heading([title(f"{name}[row]" + ("" if block.flat else "[col]"), block.title)])
        yield matrix(block, cell.fragment, label)


def title(words: str, of_block: str) -> str:
    """Words, and which block they are of where there are several."""
    return f"{words}, {of_block}" if of_block else words
