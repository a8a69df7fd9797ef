"""Python code that makes SymPy expressions in lane and i.

`eval` of its classes is SymPy's name for the value of a Function of numbers; no text is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from tcprobe.code.names import identifier
from tcprobe.emit.common import formulas, heading
from tcprobe.fit import symbolic
from tcprobe.store.cell import Cell

WHAT = "Python code with SymPy expressions of row and col"
IMPORT = "from sympy import Function, Integer, symbols"


def emit(cells: Sequence[Cell]) -> str:
    """One dict {output: expression} for each table."""
    definitions = files("tcprobe.emit").joinpath("sympy.txt").read_text("utf-8")
    lines = [*heading(cells, "#"), "", IMPORT, *definitions.splitlines(), ""]
    for cell in cells:
        expressions = {name: symbolic.expression(formula) for name, formula in formulas(cell).items()}
        lines += ["", f"{identifier(cell.fragment.id)} = {{"]
        texts = {name: f"Integer({e})" if e.is_Integer else str(e) for name, e in expressions.items()}
        lines += [f'    "{name}": {text},' for name, text in texts.items()]
        lines += ["}"]
    return "\n".join(lines)
