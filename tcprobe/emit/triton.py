"""Python code for Triton: bases of a LinearLayout, and Gluon's DistributedLinearLayout."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.code.names import identifier
from tcprobe.emit.common import heading, layout
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP
from tcprobe.store.cell import Cell

LANE_BITS = WARP.bit_length() - 1
WHAT = "Python code for Triton: LinearLayout bases and Gluon's DistributedLinearLayout"


def emit(cells: Sequence[Cell]) -> str:
    """Bases and a Gluon layout for each table; dimensions are row and col, after product if a warp holds several."""
    lines = [
        *heading(cells, "#"),
        "# register counts elements, not 32-bit registers; one warp, or the four of a warpgroup",
    ]
    lines += ["from triton.experimental.gluon import language as gl", ""]
    for cell in cells:
        name = identifier(cell.fragment.id)
        named = (f'    ("{input_}", {vectors}),' for input_, vectors in inputs(cell).items())
        lines += [f"{name}_bases = [", *named, "]", f"{name} = {layout_code(cell)}", ""]
    return "\n".join(lines)


def layout_code(cell: Cell) -> str:
    """Gluon's layout."""
    named = ((f"{'reg' if input_ == 'register' else input_}_bases", images) for input_, images in inputs(cell).items())
    arguments = [f"    {name}={value}," for name, value in (*named, ("shape", shape(cell)))]
    return "\n".join(["gl.DistributedLinearLayout(", *arguments, ")"])


def inputs(cell: Cell) -> dict[str, list[list[int]]]:
    """Bases by Triton's names of the inputs."""
    register, threads = bases(cell)
    return {"register": register, "lane": threads[:LANE_BITS], "warp": threads[LANE_BITS:], "block": []}


def bases(cell: Cell) -> tuple[list[list[int]], list[list[int]]]:
    """(bases of register, from i; bases of the thread: lane, then warp)."""
    linear = layout(cell)
    if linear.elements & (linear.elements - 1):
        raise UsageError(f"{cell.fragment.id} holds {linear.elements} elements per lane; Triton needs a power of two.")
    names = [name for name in ("product", "row", "col") if name in cell.table.outputs]
    register, lane = ([[base[n] for n in names] for base in linear.bases[variable]] for variable in ("i", "lane"))
    return register, lane


def shape(cell: Cell) -> list[int]:
    """Sizes of the dimensions."""
    fragment = cell.fragment
    return [*([fragment.products] if fragment.products > 1 else []), fragment.rows, fragment.cols]
