"""Python functions: row, col and their inverse, without any import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.emit import metadata
from tcprobe.emit.common import formulas, heading, named
from tcprobe.fit.inverse import inverse
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "Python classes: row(lane, i), col(lane, i), holders(row, col)"
ROLES = (Role.METADATA,)
SELECTORS = "all"


def emit(tables: Sequence[Cell]) -> str:
    """A class a table."""
    return "\n".join([*heading(tables, "#"), *(line for cell in tables for line in _class(cell))])


def _class(cell: Cell) -> Iterator[str]:
    fragment, table, forward = cell.fragment, cell.table, formulas(cell)
    element = ", ".join(table.outputs)
    copies = max(map(len, table.inverse.values()))
    yield from ("", "", f"class {named(cell)}:")
    yield f'    """{fragment.rows} x {fragment.cols} of {fragment.type} on {cell.arch}, layout {table.id}."""'
    yield ""
    sizes = {"LANES": table.threads, "ELEMENTS": table.elements, "ROWS": fragment.rows, "COLS": fragment.cols,
             "COPIES": copies}  # fmt: skip
    yield from (f"    {name} = {value}" for name, value in sizes.items())
    for name, formula in forward.items():
        yield from _function(name, "lane, i", f"The {name} of the element that slot (lane, i) holds", str(formula))
    found = inverse(table)
    if found:
        arguments = f"{element}, copy=0" if copies > 1 else element
        for name in ("lane", "i"):
            what = f"The {name} of the holder of an element" + (", of its copy-th" if copies > 1 else "")
            yield from _function(f"{name}_of", arguments, what, str(found[name]))
    for name, arguments, what, body in metadata.python(cell) if metadata.is_metadata(cell) else ():
        yield from _function(name, arguments, what, body)


def _function(name: str, arguments: str, what: str, body: str) -> list[str]:
    return ["", "    @staticmethod", f"    def {name}({arguments}):", f'        """{what}."""',
            f"        return {body}"]  # fmt: skip
