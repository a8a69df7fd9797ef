"""Python code for CuTe DSL (nvidia-cutlass-dsl): for each fragment a function that makes the layout of (lane, i).

The layouts are those of format cute. `cute.make_layout` generates code, so it is called while a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.emit.common import cell_identifier, heading
from tcprobe.emit.cute import CONVENTION, mode_text, thread_value
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "Python code for CuTe DSL: functions that return cute.make_layout(shape, stride=stride)"
ROLES = (Role.METADATA,)


def emit(cells: Sequence[Cell]) -> str:
    """A function for each table."""
    lines = [*heading(cells, "#"), *(f"# {line}" for line in CONVENTION), "import cutlass.cute as cute"]
    return "\n\n\n".join(["\n".join(lines), *map(layout_code, cells)])


def layout_code(cell: Cell) -> str:
    """The function, under the fragment's name; UsageError as `thread_value`."""
    fragment, (shape, stride) = cell.fragment, thread_value(cell)
    return (
        f"def {cell_identifier(cell)}():\n"
        f'    """{fragment.rows} x {fragment.cols} of {fragment.type} on {cell.arch}, layout {cell.table.id}."""\n'
        f"    return cute.make_layout({mode_text(shape)}, stride={mode_text(stride)})"
    )
