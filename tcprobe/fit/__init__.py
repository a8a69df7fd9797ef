"""Fit: from a table to its layout and formulas, each proven for every slot before it is returned.

    linear               the map as bases over GF(2), sums of products where it is not linear, and the way back
    formula, symbolic    formulas, with the manual's names; as SymPy and LaTeX
    affine, swizzle,
    boxes                address maps

>>> from tcprobe.fit import fit
>>> from tcprobe.layout.table import slot_table
>>> found = fit(slot_table(2, 2, {"row": (0, 0, 1, 1), "col": (0, 1, 0, 1)}))
>>> str(found.formulas["row"]), str(found.formulas["col"]), found.verdict
('lane', 'i', 'linear')

First a GF(2)-linear map is tried; then, for each output, a boolean search. If both fail, the verdict is "no closed
form". `contradiction` has the first slots that no linear map fits.
"""

from typing import TYPE_CHECKING, NamedTuple

from tcprobe.fit.formula import Formula
from tcprobe.fit.linear import Layout, fit_layout
from tcprobe.layout.table import Table

if TYPE_CHECKING:
    from tcprobe.fit.linear import NotLinear

MOST_SHOWN = 160  # characters of formulas in a repr
LINEAR, BOOLEAN, NONE = "linear", "boolean", "no closed form"

__all__ = ["Fit", "Formula", "Layout", "fit", "fitted"]


class Fit(NamedTuple):
    """`formulas` by output, None if there is none; `layout` if all outputs are linear together."""

    verdict: str
    formulas: dict[str, Formula | None]
    layout: Layout | None
    contradiction: "NotLinear | None"

    def __repr__(self) -> str:
        """Short: the verdict and the formulas, which are bounded; the layout is in its own repr."""
        formulas = ", ".join(f"{name} = {formula or NONE}" for name, formula in self.formulas.items())
        return f"<{self.verdict}: {formulas if len(formulas) <= MOST_SHOWN else ', '.join(self.formulas)}>"


_FITTED: dict[str, Fit] = {}  # by layout id: many fragments share few layouts


def fit(table: Table) -> Fit:
    """Layout and formulas of a table."""
    layout = fit_layout(table)
    if isinstance(layout, Layout):
        return Fit(LINEAR, {name: layout.formula(name) for name in table.outputs}, layout, None)
    from tcprobe.fit.linear import boolean_formula

    formulas = {name: boolean_formula(table, name) for name in table.outputs}
    verdict = NONE if None in formulas.values() else BOOLEAN
    return Fit(verdict, formulas, None, layout)


def fitted(table: Table) -> Fit:
    """As `fit`, computed once for each layout; for callers with the tables of many fragments."""
    if table.id not in _FITTED:
        _FITTED[table.id] = fit(table)
    return _FITTED[table.id]
