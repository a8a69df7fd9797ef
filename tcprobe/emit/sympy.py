"""Python code that makes SymPy expressions in lane and i.

`eval` of its classes is SymPy's name for the value of a Function of numbers; no text is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.code.names import identifier
from tcprobe.emit.common import formulas, heading
from tcprobe.fit import symbolic
from tcprobe.store.cell import Cell

WHAT = "Python code with SymPy expressions of row and col"
IMPORT = "from sympy import Function, Integer, symbols"
DEFINITIONS = '''
lane, i = symbols("lane i", integer=True, nonnegative=True)


class BitAnd(Function):
    """x & mask; a number for numbers."""

    @classmethod
    def eval(cls, x, mask):
        return Integer(int(x) & int(mask)) if x.is_Integer and mask.is_Integer else None


class BitXor(Function):
    """x ^ y ^ ...; a number for numbers."""

    @classmethod
    def eval(cls, *parts):
        if all(part.is_Integer for part in parts):
            total = 0
            for part in parts:
                total ^= int(part)
            return Integer(total)


class Shift(Function):
    """x << n, or x >> -n; a number for numbers."""

    @classmethod
    def eval(cls, x, n):
        if x.is_Integer and n.is_Integer:
            return Integer(int(x) << int(n) if n >= 0 else int(x) >> -int(n))
'''


def emit(cells: Sequence[Cell]) -> str:
    """One dict {output: expression} for each table."""
    lines = [*heading(cells, "#"), "", IMPORT, *DEFINITIONS.splitlines(), ""]
    for cell in cells:
        expressions = {name: symbolic.expression(formula) for name, formula in formulas(cell).items()}
        lines += ["", f"{identifier(cell.fragment.id)} = {{"]
        texts = {name: f"Integer({e})" if e.is_Integer else str(e) for name, e in expressions.items()}
        lines += [f'    "{name}": {text},' for name, text in texts.items()]
        lines += ["}"]
    return "\n".join(lines)
