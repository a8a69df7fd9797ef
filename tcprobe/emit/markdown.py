"""Markdown: formulas, and a table with a line a lane and a column an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.emit.common import about
from tcprobe.fit import fitted
from tcprobe.store.cell import Known
from tcprobe.text import markdown

WHAT = "Markdown: formulas, and what each lane holds"
ARCHS = "any"


def emit(tables: Sequence[Known]) -> str:
    """A section a table."""
    return "\n".join(line for known in tables for line in _section(known))


def _section(known: Known) -> Iterator[str]:
    table = known.table
    first, *rest = about(known)
    yield f"## {known.fragment.id}, {known.arch}"
    yield ""
    yield markdown(f"{first}. {' '.join(rest)}.")
    yield ""
    for name, formula in fitted(table).formulas.items():
        yield f"- {name} = `{formula}`" if formula else f"- {name}: no closed form"
    yield ""
    yield "| lane | " + " | ".join(f"i = {i}" for i in range(table.elements)) + " |"
    yield "|" + " --- |" * (table.elements + 1)
    for lane in range(table.threads):
        cells = table.cells[lane * table.elements : (lane + 1) * table.elements]
        yield f"| {lane} | " + " | ".join("unused" if c is None else ", ".join(map(str, c)) for c in cells) + " |"
    yield ""
