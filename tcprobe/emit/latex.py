"""LaTeX: an aligned block of formulas for each table."""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.emit.common import formulas, heading
from tcprobe.fit import symbolic
from tcprobe.store.cell import Cell

WHAT = "LaTeX formulas (amsmath)"


def emit(cells: Sequence[Cell]) -> str:
    """An align* for each table."""
    lines = heading(cells, "%")
    for cell in cells:
        rows = [rf"  \mathrm{{{name}}} &= {symbolic.latex(formula)}" for name, formula in formulas(cell).items()]
        lines += [r"\begin{align*}", *(f"{row} \\\\" for row in rows[:-1]), rows[-1], r"\end{align*}"]
    return "\n".join(lines)
