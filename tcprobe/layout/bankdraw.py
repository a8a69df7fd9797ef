"""An address map drawn by banks (32 of 4 bytes), as coloured text and as SVG.

>>> from tcprobe.layout.swizzle import Swizzle
>>> first, second = np.indices((4, 16))
>>> picture = Picture.of(Swizzle(2, 3, 3)(first * 64 + second), 16)
>>> [picture.label(*cell) for cell in ((0, 0), (0, 1), (1, 0), (1, 1))]
['0-3', '4-7', '4-7', '0-3']

Columns are the coordinate along which offsets are consecutive, if there is one; lines are the other. A cell combines up
to 16 bytes of consecutive elements. Its label is its banks, its colour that of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from colorsys import hls_to_rgb
from html import escape
from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Ints

BANKS, BANK_BITS, VECTOR_BITS = 32, 32, 128
WIDE, HIGH, MARGIN = 34, 18, 40  # px
Colour = tuple[int, int, int]


class Picture(NamedTuple):
    """Bit offsets by [line, column], `run` elements per column; `axes` names the coordinates of lines and columns."""

    offsets: Ints
    run: int
    bits: int
    axes: tuple[str, str]

    @classmethod
    def of(cls, offsets: Ints, bits: int) -> Picture:
        """The picture of offsets[first, second], in elements of `bits`; -1 means no offset."""
        runs = (_run(offsets.T, bits), _run(offsets, bits))
        turned = runs[0] > runs[1]
        grid, axes = (offsets.T, ("second", "first")) if turned else (offsets, ("first", "second"))
        run = max(runs)
        return cls(np.where(grid < 0, -1, grid * bits)[:, ::run], run, bits, axes)

    def bank(self, line: int, column: int) -> int | None:
        """The first bank of a cell; None without an offset."""
        offset = int(self.offsets[line, column])
        return None if offset < 0 else offset // BANK_BITS % BANKS

    def label(self, line: int, column: int) -> str:
        """The banks of a cell, as 7 or 4-7."""
        bank = self.bank(line, column)
        if bank is None:
            return ""
        last = (int(self.offsets[line, column]) + self.run * self.bits - 1) // BANK_BITS % BANKS
        return str(bank) if bank == last else f"{bank}-{last}"

    def head(self, column: int) -> str:
        """The coordinates of a column."""
        start = column * self.run
        return str(start) if self.run == 1 else f"{start}.."


def _run(offsets: Ints, bits: int) -> int:
    """How many columns (a power of two, at most 16 bytes) are consecutive from an aligned start, on every line."""
    run = 1
    while run * 2 * bits <= VECTOR_BITS and offsets.shape[1] % (run * 2) == 0:
        groups = offsets.reshape(len(offsets), -1, run * 2)
        if (groups != groups[:, :, :1] + np.arange(run * 2)).any() or (groups[:, :, 0] % (run * 2)).any():
            break
        run *= 2
    return run


def colour(bank: int) -> Colour:
    """A light colour for each bank: neighbouring banks differ little, opposite ones most."""
    red, green, blue = (round(255 * part) for part in hls_to_rgb(bank / BANKS, 0.82, 0.75))
    return red, green, blue


def lines(picture: Picture, width: int) -> Iterator[list[tuple[str, Colour | None]]]:
    """Coloured pieces of text, line by line, in blocks of columns that fit `width` characters."""
    count, columns = picture.offsets.shape
    margin = len(str(count - 1)) + 1
    labels = [[picture.label(line, column) for column in range(columns)] for line in range(count)]
    heads = [picture.head(column) for column in range(columns)]
    wide = 1 + max(len(text) for row in (*labels, heads) for text in row)
    per_block = max(1, (width - margin) // wide)
    for start in range(0, columns, per_block):
        block = range(start, min(start + per_block, columns))
        yield [(" " * margin + "".join(heads[column].rjust(wide) for column in block), None)]
        for line in range(count):
            banks = [(column, picture.bank(line, column)) for column in block]
            cells = [(labels[line][c].rjust(wide), None if bank is None else colour(bank)) for c, bank in banks]
            yield [(str(line).rjust(margin), None), *cells]


def svg(picture: Picture, title: str) -> str:
    """An SVG of the whole picture."""
    count, columns = picture.offsets.shape
    width, height = max(MARGIN + columns * WIDE + 8, 7 * len(title) + 16), HIGH * (count + 2) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        "<style>text{font:10px monospace;fill:#000;text-anchor:middle}rect{stroke:#555;stroke-width:.5}</style>",
        '<rect width="100%" height="100%" fill="#fff" stroke="none"/>',
        f'<text x="8" y="13" style="text-anchor:start;font-weight:bold">{escape(title)}</text>',
        *(_text(MARGIN + (c + 0.5) * WIDE, 2 * HIGH - 4, picture.head(c)) for c in range(columns)),
    ]
    for line in range(count):
        top = HIGH * (line + 2)
        parts.append(_text(MARGIN / 2, top + 13, str(line)))
        for column in range(columns):
            bank = picture.bank(line, column)
            fill = "none" if bank is None else "#{:02x}{:02x}{:02x}".format(*colour(bank))
            left = MARGIN + column * WIDE
            parts.append(f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="{fill}"/>')
            parts.append(_text(left + WIDE / 2, top + 13, picture.label(line, column)))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{escape(text)}</text>'
