"""SVG of a CTA's tile: each block of rows and columns with the warps that hold it."""

from __future__ import annotations

from html import escape

from tcprobe.ask.written import blocks, warp_map
from tcprobe.errors import UsageError
from tcprobe.store.cell import Cell

WIDE, HIGH, MARGIN, HEAD = 54, 26, 64, 58
LETTER, LEAST, MOST_NAME = 7.5, 420, 100  # of the name above: width of a letter, least width of all, letters at most
INK = "#111111"  # on the colours of cells; other words have the colour of what surrounds the picture
MOST = 64  # rows and columns of blocks
COLOURS = ("#cfe3f7", "#fbe0c8", "#d8f0d0", "#f6d3dd", "#e4dbf5", "#fdf3c4", "#d1eeee", "#e8e3da")


def tile_picture(cell: Cell) -> str:
    """The picture of a tile; UsageError where it holds nothing, or has too many blocks."""
    if not any(cell.table.cells):
        raise UsageError(f"{cell.fragment.id} holds nothing that a picture could show.")
    rows, cols, held = blocks(warp_map(cell.table))
    if max(len(rows), len(cols)) > MOST:
        counted = f"{len(rows)} x {len(cols)} blocks"
        raise UsageError(f"{cell.fragment.id} has {counted}; a picture has at most {MOST} x {MOST}.")
    name = cell.fragment.id[:MOST_NAME]
    width, height = (
        max(LEAST, MARGIN + WIDE * len(cols) + 8, round(LETTER * len(name)) + 8),
        HEAD + HIGH * len(rows) + 8,
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="monospace" font-size="12" fill="currentColor">',
        f"<title>{escape(cell.fragment.id)}</title>",
        f'<text x="4" y="16">{escape(name)}</text>',
        '<text x="4" y="34">blocks of rows and columns, and the warps that hold them</text>',
    ]
    for place, (first, last) in enumerate(cols):
        lines.append(f'<text x="{MARGIN + WIDE * place + WIDE // 2}" y="52" text-anchor="middle">{first}-{last}</text>')
    for line, (first, last) in enumerate(rows):
        y = HEAD + HIGH * line
        lines.append(f'<text x="{MARGIN - 6}" y="{y + 17}" text-anchor="end">{first}-{last}</text>')
        for place, warps in enumerate(held[line]):
            x, numbers = MARGIN + WIDE * place, sorted(warps)  # type: ignore[call-overload]
            colour = COLOURS[numbers[0] % len(COLOURS)] if numbers else "#ffffff"
            lines.append(f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="{colour}" stroke="#667"/>')
            text = ",".join(map(str, numbers))
            size = f' textLength="{WIDE - 6}"' if len(text) > 6 else ""
            lines.append(
                f'<text x="{x + WIDE // 2}" y="{y + 17}" text-anchor="middle" fill="{INK}"{size}>{text}</text>'
            )
    return "\n".join([*lines, "</svg>"])
