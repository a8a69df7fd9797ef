"""Drawings of fragments as SVG elements: a matrix with its holders, and what each thread holds.

Colour follows structure: the hue is thread & 3, the tone (thread >> 2) & 1; an element that two threads hold is split.
A thick edge begins a register, a corner is cut where an element lies in its upper half. Every cell is a text with a
title; all that is painted alike is one path. Colours are classes, so that a page or a dark ground can change them; the
ground is transparent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from math import ceil
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.grid import Block, Stretch, lanes
from tcprobe.text import escaped

HIGH, LINE, MARGIN, LETTER = 20, 18, 34, 6.25  # height of a cell and a line, left margin, width of a letter, in px
LIGHT = ("#ccd9fd", "#fee6b6", "#defeea", "#fdbbd7", "#8ea2d6", "#f3ba47", "#a8dbbb", "#da9ab5")
DARK = ("#234975", "#624b22", "#24594c", "#822942", "#0b2038", "#2f2107", "#083127", "#511224")
FONTS = "'DejaVu Sans Mono',Menlo,Consolas,monospace"  # some programs know no generic family
INK, DARK_INK = "#111111", "#f4f4f4"
Label = Callable[[Stretch, str], str]


class Drawing(NamedTuple):
    """Elements, and how much room they take."""

    parts: list[str]
    width: float
    height: float


def style() -> str:
    """The style sheet: light colours, and dark ones where the reader wants them."""
    light = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(LIGHT))
    dark = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(DARK))
    text = f"text{{font-family:{FONTS};font-size:10px;text-anchor:middle}}.h,.s{{text-anchor:start}}"
    text += ".h{font-weight:bold;font-size:12px}"
    lines = ".r{fill:none;stroke:#555;stroke-width:1.4}"
    lines += ".u{fill:#555}"
    darker = f"text{{fill:{DARK_INK}}}.r{{stroke:#bbb}}.u{{fill:#bbb}}{dark}"
    return f"{text}text{{fill:{INK}}}{lines}{light}@media (prefers-color-scheme:dark){{{darker}}}"


def colour(thread: int) -> int:
    """0 to 7: the hue by thread & 3, the tone by (thread >> 2) & 1."""
    return (thread & 3) + 4 * (thread >> 2 & 1)


def svg(drawing: Drawing, label: str) -> str:
    """A whole SVG."""
    size = f'viewBox="0 0 {drawing.width:g} {drawing.height:g}" width="{drawing.width:g}" height="{drawing.height:g}"'
    name = escape(escaped(label))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{name}">',
        f"<title>{name}</title>", f"<style>{style()}</style>", *drawing.parts, "</svg>",
    ])  # fmt: skip


def moved(drawing: Drawing, x: float, y: float) -> list[str]:
    """The elements elsewhere."""
    return [f'<g transform="translate({x:g} {y:g})">', *drawing.parts, "</g>"]


def below(drawings: Sequence[Drawing], gap: float = LINE) -> Drawing:
    """Drawings one below the other."""
    parts, top = [], 0.0
    for drawing in drawings:
        parts += moved(drawing, 0, top)
        top += drawing.height + gap
    return Drawing(parts, max(d.width for d in drawings), top)


def heading(lines: Sequence[str]) -> Drawing:
    """Lines of text, the first bold."""
    parts = [text(8, LINE * (n + 1), escaped(line), "s" if n else "h") for n, line in enumerate(lines)]
    return Drawing(parts, max(map(len, lines)) * LETTER * 1.2 + 16, LINE * (len(lines) + 0.5))


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A text, in the middle unless its kind says otherwise."""
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{of}>{escape(words)}</text>'


def matrix(block: Block, fragment: Fragment, label: Label, wide: float | None = None) -> Drawing:
    """A matrix with row and column numbers; `wide` is the width of an element, else what its texts need."""
    wide = wide or element_width(block, fragment, label)
    columns = sum(piece.span for piece in block.pieces[0])
    every = max(1, round(24 / wide)) if wide < 24 else 1
    heads = [text(MARGIN + (col + 0.5) * wide, 12, str(col)) for col in range(0, columns, every)]
    paint, lines = _Paint(), list[str]()
    for row, pieces in enumerate(block.pieces):
        y = LINE + row * HIGH
        cells = []
        for piece in pieces:
            box = _Box(MARGIN + piece.col * wide, y, piece.span * wide)
            paint.piece(box, piece, fragment)
            name = f"[{row}]" + ("" if block.flat else f"[{piece.col}]")
            cells.append(_titled(box, label(piece, fragment.operand), f"{name}: {piece.text or 'nobody'}"))
        lines.append(_line(y, row, cells))
    return Drawing([*heads, *paint.paths(), *lines], MARGIN + columns * wide + 8, LINE + len(block.pieces) * HIGH + 2)


def element_width(block: Block, fragment: Fragment, label: Label) -> float:
    """What the longest label needs, for an element."""
    longest = max((len(label(p, fragment.operand)) * LETTER + 8) / p.span for row in block.pieces for p in row)
    return 2 * ceil(longest / 2) if longest > 24 else max(6, ceil(longest * 2) / 2)


class _Box(NamedTuple):
    """Where a piece is drawn."""

    x: float
    y: float
    width: float


def _titled(box: _Box, words: str, title: str) -> str:
    """The text in the middle of a box, at the height of its line."""
    return f'<text x="{box.x + box.width / 2:g}">{escape(words)}<title>{title}</title></text>'


def _line(y: float, number: int, cells: Sequence[str]) -> str:
    """A row of texts from its number on."""
    texts = "".join([f'<text x="{MARGIN / 2:g}">{number}</text>', *cells])
    return f'<g class="m" transform="translate(0 {y + 14:g})">{texts}</g>'


class _Paint:
    """What is painted: cells, halves of second threads, edges where registers begin, corners of their upper halves."""

    def __init__(self) -> None:
        self._paths: dict[tuple[int, str], str] = {}  # by layer and class

    def piece(self, box: _Box, piece: Stretch, fragment: Fragment) -> None:
        """A cell of a matrix in the colours of its first two threads, with its place in a register."""
        x, y, width = box
        for thread in piece.threads[:1]:
            self.cell(box, thread)
        for thread in piece.threads[1:2]:
            self._add(1, f"c{colour(thread)}", f"M{x:g} {y + HIGH - 1:g}h{width - 1:g}v{1 - HIGH}")
        if piece.holders:
            _, bit = fragment.place(piece.holders[0][1])
            if not bit:
                self._add(2, "r", f"M{x + 0.5:g} {y:g}v{HIGH - 1}")
            elif bit >= fragment.register_bits // 2:
                self._add(2, "u", f"M{x + width - 1:g} {y:g}h-5l5 5")

    def cell(self, box: _Box, thread: int) -> None:
        """A cell in the colour of a thread."""
        x, y, width = box
        self._add(0, f"c{colour(thread)}", f"M{x:g} {y:g}h{width - 1:g}v{HIGH - 1}H{x:g}")

    def _add(self, layer: int, kind: str, path: str) -> None:
        self._paths[layer, kind] = self._paths.get((layer, kind), "") + path

    def paths(self) -> Iterator[str]:
        """One path for each kind, the lowest layer first; shapes are closed by being filled."""
        yield from (f'<path class="{kind}" d="{path}"/>' for (_, kind), path in sorted(self._paths.items()))


def registers(block: Block, fragment: Fragment) -> Drawing:
    """A line for each thread: what its registers hold; of several warps each by itself."""
    rows = lanes(block, fragment)
    wide = 2 * ceil((max(len(words) for lane in rows for words in lane.registers) * LETTER + 10) / 2)
    heads = [text(MARGIN + (n + 0.5) * wide, 12, f"r{n}") for n in range(fragment.registers)]
    paint, lines = _Paint(), list[str]()
    y = LINE
    for lane in rows:
        if fragment.threads > WARP and lane.number % WARP == 0:
            heads.append(text(8, y + 14, f"warp {lane.number // WARP}", "h"))
            y += HIGH
        boxes = [_Box(MARGIN + n * wide, y, wide) for n in range(len(lane.registers))]
        for box in boxes:
            paint.cell(box, lane.number)
        named = enumerate(zip(boxes, lane.registers, strict=True))
        cells = [_titled(box, words, f"lane {lane.number}, register {n}: {words}") for n, (box, words) in named]
        lines.append(_line(y, lane.number, cells))
        y += HIGH
    return Drawing([*heads, *paint.paths(), *lines], MARGIN + fragment.registers * wide + 8, y + 2)


def composite(drawn: Mapping[str, Block], fragments: Mapping[str, Fragment], label: Label) -> Drawing:
    """A left, B above, D lower right, so that a row of A and a column of B meet where D has their product."""
    widths = {name: element_width(drawn[name], fragments[name], label) for name in drawn}
    widths["b"] = widths["d"] = max(widths["b"], widths["d"])
    a, b, d = (matrix(drawn[name], fragments[name], label, widths[name]) for name in "abd")
    parts = [*moved(b, a.width, LINE), text(a.width + 8, 12, "B", "h")]
    parts += [*moved(a, 0, b.height + 2 * LINE), text(8, b.height + 2 * LINE - 6, "A", "h")]
    parts += [*moved(d, a.width, b.height + 2 * LINE), text(a.width + 8, b.height + 2 * LINE - 6, "D", "h")]
    return Drawing(parts, a.width + max(b.width, d.width), b.height + 2 * LINE + max(a.height, d.height))


# how a cell names its holders


def lane_i(piece: Stretch, operand: str) -> str:
    """lane:i, as the tables of tcprobe have it."""
    return piece.text


def thread_value(piece: Stretch, operand: str) -> str:
    """T0 V1, as CuTe prints layouts."""
    return " ".join(f"T{t} V{i}" + (f"..{i + piece.span - 1}" if piece.span > 1 else "") for t, i in piece.holders)


def ptx_figure(piece: Stretch, operand: str) -> str:
    """T0:{a0,a1}, as PTX's figures have it."""
    by_thread: dict[int, list[str]] = {}
    for thread, i in piece.holders:
        last = f"..{operand[0]}{i + piece.span - 1}" if piece.span > 1 else ""
        by_thread.setdefault(thread, []).append(f"{operand[0]}{i}{last}")
    return " ".join(f"T{thread}:{{{','.join(values)}}}" for thread, values in by_thread.items())
