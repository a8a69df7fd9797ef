"""NumPy arrays indexed [lane, i], computed from formulas, and the way back: scatter and gather of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcprobe.code.templates import fill
from tcprobe.emit import common
from tcprobe.emit.common import cell_identifier, formulas, heading
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import SINGLE_FIELD, sparsity
from tcprobe.isa.operand import Role
from tcprobe.store.cell import Cell

WHAT = "NumPy arrays ROW[lane, i] and COL[lane, i], gather and scatter"
ROLES = (Role.METADATA,)
SELECTORS = "all"


def emit(cells: Sequence[Cell]) -> str:
    """A class for each table."""
    return "\n".join([*heading(cells, "#"), "", "import numpy as np", *map(_class, cells)])


def _class(cell: Cell) -> str:
    fragment, table = cell.fragment, cell.table
    words = _metadata(cell) if common.is_metadata(cell) else {}
    if None in table.cells and not words:
        raise UsageError(f"{fragment.id} has unused slots, for which there is no index.")
    arrays = [
        f"    {name.upper()} = np.zeros_like(_i) + (lambda lane, i: {formula})(_lane, _i)"
        for name, formula in formulas(cell).items()
    ]
    products = (fragment.products,) if "product" in table.outputs else ()
    index = ", ".join(f"cls.{name}" for name in (*(("PRODUCT",) if products else ()), "ROW", "COL"))
    return fill(
        Path(__file__).with_name("numpy_metadata.txt" if words else "numpy.txt"),
        name=cell_identifier(cell),
        rows=fragment.rows,
        cols=fragment.cols,
        type=fragment.type,
        arch=cell.arch,
        layout=table.id,
        threads=table.threads,
        elements=table.elements,
        arrays="\n".join(arrays),
        index=index,
        shape=str((*products, fragment.rows, fragment.cols)),
        **words,
    )


def _metadata(cell: Cell) -> dict[str, object]:
    """What numpy_metadata.txt needs besides."""
    rule = sparsity(cell.fragment)
    bodies = {name: body for name, _, _, body in common.metadata_functions(cell)}
    codes = SINGLE_FIELD if rule.fields == 1 else tuple(range(rule.positions))
    return {"selector": cell.selector, "bits": rule.bits, "codes": str(codes), "read": bodies["read"], "k": bodies["k"]}
