"""Python code for the package tensor-layouts: Layout(shape, stride) in CuTe's convention."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.code.names import identifier
from tcprobe.emit.common import heading
from tcprobe.emit.cute import CONVENTION, mode_text, thread_value
from tcprobe.store.cell import Cell

WHAT = "Python code for tensor-layouts: Layout(shape, stride)"


def emit(cells: Sequence[Cell]) -> str:
    """A Layout for each table, from (lane, i) to the element's number."""
    lines = [*heading(cells, "#"), *(f"# {line}" for line in CONVENTION), "from tensor_layouts import Layout", ""]
    for cell in cells:
        shape, stride = thread_value(cell)
        lines.append(f"{identifier(cell.fragment.id)} = Layout({mode_text(shape)}, {mode_text(stride)})")
    return "\n".join(lines)
