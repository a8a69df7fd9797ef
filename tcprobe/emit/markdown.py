"""Markdown: formulas, and a table with a line for each lane and a column for each element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.emit.common import about, id_and_selector
from tcprobe.fit import fitted
from tcprobe.fit.formula import in_manual
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell
from tcprobe.text import markdown

WHAT = "Markdown: formulas, and what each lane holds"
ARCHS = "any"
SELECTORS = "all"
ROLES = tuple(Role)


def emit(cells: Sequence[Cell]) -> str:
    """A section for each table."""
    return "\n".join(line for cell in cells for line in _section(cell))


def _section(cell: Cell) -> Iterator[str]:
    table = cell.table
    first, *rest = about(cell)
    yield f"## {id_and_selector(cell)}, {cell.arch}"
    yield ""
    yield markdown(f"{first}. {' '.join(rest)}.").replace("|", r"\|")
    yield ""
    for name, formula in fitted(table).formulas.items():
        yield f"- {name} = `{formula}`" if formula else f"- {name}: no closed form"
    if sentence := in_manual(fitted(table).formulas.values()):
        yield from ("", sentence)
    yield ""
    yield "| lane | " + " | ".join(f"i = {i}" for i in range(table.elements)) + " |"
    yield "|" + " --- |" * (table.elements + 1)
    for lane in range(table.threads):
        cells = table.cells[lane * table.elements : (lane + 1) * table.elements]
        yield f"| {lane} | " + " | ".join("unused" if c is None else ", ".join(map(str, c)) for c in cells) + " |"
    yield ""
