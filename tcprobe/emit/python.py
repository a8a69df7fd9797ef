"""Python functions without imports: row, col and their inverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tcprobe.emit import common
from tcprobe.emit.common import cell_identifier, formulas, heading
from tcprobe.fit.linear import cached_inverse
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "Python classes: row(lane, i), col(lane, i), holders(row, col)"
ROLES = (Role.METADATA,)
SELECTORS = "all"


class Function(NamedTuple):
    """A function in Python: name, arguments, description, and the expression that it returns."""

    name: str
    arguments: str
    what: str
    body: str


def emit(cells: Sequence[Cell]) -> str:
    """A class for each table."""
    return "\n".join([*heading(cells, "#"), *(line for cell in cells for line in _class(cell))])


def sizes(cell: Cell) -> dict[str, int]:
    """Constants by name, for a table of a whole fragment."""
    fragment, table = cell.fragment, cell.table
    constants = {"LANES": table.threads, "ELEMENTS": table.elements, "ROWS": fragment.rows, "COLS": fragment.cols}
    return constants | {"COPIES": _copies(cell)}


def functions(cell: Cell) -> Iterator[Function]:
    """From slot to element and back, and what metadata needs besides; UsageError as `formulas`."""
    table = cell.table
    for name, formula in formulas(cell).items():
        yield Function(name, "lane, i", f"The {name} of the element that slot (lane, i) holds", str(formula))
    element, copies = ", ".join(table.outputs), _copies(cell)
    which = ", of its copy-th" if copies > 1 else ""
    for name, formula in (cached_inverse(table) or {}).items():
        arguments = f"{element}, copy=0" if copies > 1 else element
        yield Function(f"{name}_of", arguments, f"The {name} of the holder of an element{which}", str(formula))
    for words in common.metadata_functions(cell) if common.is_metadata(cell) else ():
        yield Function(*words)


def _copies(cell: Cell) -> int:
    return max(map(len, cell.table.inverse.values()))


def _class(cell: Cell) -> Iterator[str]:
    fragment, methods = cell.fragment, list(functions(cell))
    yield from ("", "", f"class {cell_identifier(cell)}:")
    yield f'    """{fragment.rows} x {fragment.cols} of {fragment.type} on {cell.arch}, layout {cell.table.id}."""'
    yield from ("", *(f"    {name} = {value}" for name, value in sizes(cell).items()))
    for name, arguments, what, body in methods:
        yield from ("", "    @staticmethod", f"    def {name}({arguments}):", f'        """{what}."""')
        yield f"        return {body}"
