"""Python functions for Numba: row, col and their inverse, for CUDA kernels, njit code and plain Python.

Numba compiles functions of a module, not methods of a class; register_jitable lets each target compile them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.emit.common import cell_identifier, heading
from tcprobe.emit.python import functions, sizes
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "Python functions for Numba, of a module: row(lane, i), lane_of(row, col), in kernels and njit code"
ROLES = (Role.METADATA,)
SELECTORS = "all"


def emit(cells: Sequence[Cell]) -> str:
    """Constants and functions for each table; their names begin with the fragment's."""
    lines = [*heading(cells, "#"), "from numba.extending import register_jitable"]
    return "\n".join([*lines, *(line for cell in cells for line in _functions(cell))])


def _functions(cell: Cell) -> Iterator[str]:
    name, methods = cell_identifier(cell), list(functions(cell))
    yield from ("", *(f"{name}_{constant} = {value}" for constant, value in sizes(cell).items()))
    for function in methods:
        yield from ("", "", "@register_jitable", f"def {name}_{function.name}({function.arguments}):")
        yield from (f'    """{function.what}."""', f"    return {function.body}")
