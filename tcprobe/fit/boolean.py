"""Formulas of maps that are not linear: each output bit as a minimal sum of products of the input bits it depends on.

SymPy's logic minimises. This module finds the input bits that matter, and gives up if they are too many for a useful
formula.
"""

from __future__ import annotations

from itertools import product

from tcprobe.fit.formula import Formula, Products, linear_formula, proven
from tcprobe.fit.linear import Layout, fit_layout
from tcprobe.layout.table import Table

MOST_BITS = 6
MOST_PRODUCTS = 8

InputPoint = tuple[int, ...]


def boolean_formula(table: Table, output: str) -> Formula | None:
    """A proven formula of `output`; linear bits are mask-and-shift terms. None if a bit has no short formula."""
    variables = {axis.name: axis.bits for axis in reversed(table.space.axes)}
    variable_bits = [(variable, bit) for variable, bits in variables.items() for bit in range(bits)]
    points = _points(table, output, variable_bits)
    images = {variable: [0] * bits for variable, bits in variables.items()}
    products: list[Products] = []
    constant = 0
    for bit in range(max(points.values(), default=0).bit_length()):
        column = tuple(None if value is None else value >> bit & 1 for value in table.values[output])
        linear = fit_layout(Table(table.space, {output: column}))
        if isinstance(linear, Layout):
            constant |= linear.origin[output] << bit
            for variable, bases in linear.bases.items():
                images[variable] = [old | b[output] << bit for old, b in zip(images[variable], bases, strict=True)]
            continue
        of_bit = _bit({p: v >> bit & 1 for p, v in points.items()}, bit, variable_bits)
        if of_bit is None:
            return None
        products.append(of_bit)
    terms = linear_formula(images, constant).terms
    formula = Formula((*terms, *products), constant, table.space.names, table.space.sizes)
    return formula if proven(formula, table, output) else None


def _points(table: Table, output: str, variable_bits: list[tuple[str, int]]) -> dict[InputPoint, int]:
    """Used slots, as tuples of input bits."""
    points = {}
    for number, value in enumerate(table.values[output]):
        if value is not None:
            of = table.space.point(number)
            points[tuple(of[variable] >> bit & 1 for variable, bit in variable_bits)] = value
    return points


def _bit(points: dict[InputPoint, int], bit: int, variable_bits: list[tuple[str, int]]) -> Products | None:
    """One output bit; None if it depends on too many input bits, or needs too many products."""
    needed, short = _support(points)
    if len(needed) > MOST_BITS:
        return None
    from tcprobe.fit.symbolic import minimal_products

    unknown = [p for p in product((0, 1), repeat=len(needed)) if p not in short]
    products = minimal_products(len(needed), [p for p, v in short.items() if v], unknown)
    if len(products) > MOST_PRODUCTS:
        return None
    return Products(bit, tuple(tuple((*variable_bits[needed[j]], wanted) for j, wanted in p) for p in products))


def _support(points: dict[InputPoint, int]) -> tuple[list[int], dict[InputPoint, int]]:
    """(input bits that the value needs, the value by these).

    A bit is dropped if the others determine the value. Once more than MOST_BITS are needed, the rest is not tried.
    """
    needed = list(range(len(next(iter(points), ()))))
    for candidate in tuple(needed):
        j = needed.index(candidate)
        rest: dict[InputPoint, int] = {}
        if all(rest.setdefault(p[:j] + p[j + 1 :], v) == v for p, v in points.items()):
            points = rest
            needed.remove(candidate)
        elif j == MOST_BITS:  # it is kept, as are those before it
            break
    return needed, points
