"""What Markdown pages are made of: tables of bounded cells, lists of names and archs in few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tcprobe.code.templates import fill
from tcprobe.fit import fitted
from tcprobe.isa.arch import ARCHS
from tcprobe.layout.table import Table
from tcprobe.store.choose import some
from tcprobe.text import markdown

MADE = "<!-- made by `tcprobe pages`; do not edit -->"
WIDEST, COLUMNS = 110, 7  # characters of a cell, columns of a table
ARCH_NAMES = tuple(row.name for row in ARCHS)


def grid(heads: Sequence[str], grid_rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in grid_rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def spans(names: Iterable[str], every: Sequence[str] = ARCH_NAMES) -> str:
    """Names in the order of `every`, three or more that follow each other by their ends: sm_70, sm_80 to sm_89."""
    present, runs = set(names), list[list[str]]()
    for name in every:
        if name not in present:
            runs.append([])
        elif runs:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs if run)


def fitting(names: Sequence[str], most: int = WIDEST) -> str:
    """As many of the first names as fit into `most` characters, and how many more there are; at least one."""
    for count in range(len(names), 0, -1):
        if len(text := some(names, count)) <= most:
            return text
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def code(names: Iterable[str]) -> list[str]:
    """Names as code."""
    return [f"`{name}`" for name in names]


MANUAL = "In the PTX manual's words `lane >> 2` is groupID, and `lane & 3` beside it is threadID_in_group."


def row_and_col(table: Table) -> list[str]:
    """The formulas of row and of col as cells; - for an output that the table does not have."""
    texts = {name: f"`{f}`" if f else "no closed form" for name, f in fitted(table).formulas.items()}
    return [texts.get(name, "-") for name in ("row", "col")]


def heading_anchor(title: str) -> str:
    """The anchor that a heading has on GitHub."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def page(name: str, **words: object) -> list[str]:
    """The lines of a page, from its file in `markdown`."""
    common = (grid, code, fitting, heading_anchor, markdown)
    functions = {function.__name__: function for function in common}
    return fill(Path(__file__).parent / "markdown" / name, MADE=MADE, MANUAL=MANUAL, **functions, **words).splitlines()
