"""NumPy arrays indexed [lane, i], computed from the formulas, and the way back: scatter and gather of a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.emit.common import formulas, heading, identifier
from tcprobe.errors import UsageError
from tcprobe.store.cell import Cell

WHAT = "NumPy arrays ROW[lane, i] and COL[lane, i], gather and scatter"
CLASS = '''

class {name}:
    """{rows} x {cols} of {type} on {arch}, layout {layout}."""

    _lane, _i = np.indices(({threads}, {elements}))
{arrays}

    @classmethod
    def gather(cls, matrix):
        """What every slot of a warp holds of a matrix: shape ({threads}, {elements})."""
        return matrix[{index}]

    @classmethod
    def scatter(cls, slots):
        """The matrix that the slots of a warp hold."""
        matrix = np.zeros({shape}, slots.dtype)
        matrix[{index}] = slots
        return matrix
'''


def emit(tables: Sequence[Cell]) -> str:
    """A class a table."""
    return "\n".join([*heading(tables, "#"), "", "import numpy as np", *map(_class, tables)])


def _class(cell: Cell) -> str:
    fragment, table = cell.fragment, cell.table
    if None in table.cells:
        raise UsageError(f"{fragment.id} has unused slots, for which there is no index.")
    arrays = [
        f"    {name.upper()} = np.zeros_like(_i) + (lambda lane, i: {formula})(_lane, _i)"
        for name, formula in formulas(cell).items()
    ]
    products = (fragment.products,) if "product" in table.outputs else ()
    index = ", ".join(f"cls.{name}" for name in (*(("PRODUCT",) if products else ()), "ROW", "COL"))
    return CLASS.format(
        name=identifier(fragment.id), rows=fragment.rows, cols=fragment.cols, type=fragment.type, arch=cell.arch,
        layout=table.id, threads=table.threads, elements=table.elements, arrays="\n".join(arrays), index=index,
        shape=(*products, fragment.rows, fragment.cols),
    )  # fmt: skip
