"""Thumbnails of layouts: the upper left corner of the first matrix, each element in the colour of its lane."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.emit.svg_drawing import DARK, LIGHT, colour
from tcprobe.layout.table import Table
from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts

SIDE = 32  # rows and columns that are drawn at most
PIXELS = 48  # of the longer side


def files(facts: Facts) -> Iterator[tuple[str, str]]:
    """Address and text of each layout's."""
    for id_, table in facts.tables.items():
        yield addresses.thumbnail(id_), thumbnail(table)


def thumbnail(table: Table) -> str:
    """An SVG: a path for each colour, of runs of elements in a row."""
    holder = _holders(table)
    rows, cols = (min(SIDE, 1 + max(element[axis] for element in holder)) for axis in (0, 1))
    paths: dict[int, list[str]] = {}
    for row in range(rows):
        holders = [holder.get((row, col)) for col in range(cols)]
        for col, count, number in _runs([-1 if thread is None else colour(thread) for thread in holders]):
            paths.setdefault(number, []).append(f"M{col} {row}h{count}")
    parts = "".join(f'<path class="c{number}" d="{"".join(runs)}"/>' for number, runs in sorted(paths.items()))
    scale = PIXELS / max(rows, cols)
    size = f'viewBox="0 0 {cols} {rows}" width="{cols * scale:g}" height="{rows * scale:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} shape-rendering="crispEdges">'
    return f'{head}<style>{_style()}</style><g transform="translate(0 .5)">{parts}</g></svg>\n'


def _holders(table: Table) -> dict[tuple[int, int], int]:
    """The first thread that holds each element, of the first product or selector."""
    *_, thread, i = table.space.axes
    row, col, which = (table.outputs.index(name) if name in table.outputs else -1 for name in ("row", "col", "product"))
    holder: dict[tuple[int, int], int] = {}
    for number, cell in enumerate(table.cells[: thread.size * i.size]):
        if cell is not None and not (which >= 0 and cell[which]):
            holder.setdefault((cell[row], cell[col] if col >= 0 else 0), number // i.size)
    return holder


def _runs(colours: list[int]) -> Iterator[tuple[int, int, int]]:
    """(first, how many, colour) of neighbours of one colour; what nobody holds is left out."""
    first = 0
    for end in range(1, len(colours) + 1):
        if end == len(colours) or colours[end] != colours[first]:
            if colours[first] >= 0:
                yield first, end - first, colours[first]
            first = end


def _style() -> str:
    light, dark = ("".join(f".c{n}{{stroke:{ink}}}" for n, ink in enumerate(inks)) for inks in (LIGHT, DARK))
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
