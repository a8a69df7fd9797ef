"""Formulas as SymPy expressions and LaTeX, and SymPy's minimising of sums of products.

The only file that imports SymPy. Bit operations on integers are Functions of its own: for SymPy's Symbols `>>` would
mean Implies and `^` logical Xor, and `//` would become floating point in C. `eval` is SymPy's name for the value of a
Function of numbers; no text is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import sympy
from sympy.logic.boolalg import And, Not, Or, SOPform
from sympy.printing.latex import LatexPrinter

from tcprobe.fit.formula import Formula, Products, Term


class BitAnd(sympy.Function):  # type: ignore[misc]
    """x & mask."""

    nargs = 2

    @classmethod
    def eval(cls, x: sympy.Expr, mask: sympy.Expr) -> sympy.Integer | None:
        """The number, if the arguments are numbers."""
        return sympy.Integer(int(x) & int(mask)) if x.is_Integer and mask.is_Integer else None

    def _latex(self, printer: LatexPrinter) -> str:
        return rf"\left({printer._print(self.args[0])} \mathbin{{\&}} {printer._print(self.args[1])}\right)"


class BitXor(sympy.Function):  # type: ignore[misc]
    """x ^ y ^ ..."""

    @classmethod
    def eval(cls, *parts: sympy.Expr) -> sympy.Integer | None:
        """The number, if the arguments are numbers."""
        if not all(part.is_Integer for part in parts):
            return None
        total = 0
        for part in parts:
            total ^= int(part)
        return sympy.Integer(total)

    def _latex(self, printer: LatexPrinter) -> str:
        return r" \oplus ".join(printer._print(part) for part in self.args)


class Shift(sympy.Function):  # type: ignore[misc]
    """x << n; x >> -n if n is negative."""

    nargs = 2

    @classmethod
    def eval(cls, x: sympy.Expr, n: sympy.Expr) -> sympy.Integer | None:
        """The number, if the arguments are numbers."""
        if not (x.is_Integer and n.is_Integer):
            return None
        return sympy.Integer(int(x) << int(n) if n >= 0 else int(x) >> -int(n))

    def _latex(self, printer: LatexPrinter) -> str:
        x, n = self.args
        direction = r"\ll" if n > 0 else r"\gg"
        return rf"\left({printer._print(x)} {direction} {abs(int(n))}\right)"


@cache
def symbol(name: str) -> sympy.Symbol:
    """The symbol of a variable, a nonnegative integer."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def expression(formula: Formula) -> sympy.Expr:
    """The formula as a SymPy expression in the symbols `lane` and `i`."""
    parts = [_part(term, formula.bits) for term in formula.terms]
    if formula.constant:
        parts.append(sympy.Integer(formula.constant))
    if formula.overlapping:
        return BitXor(*parts)
    return sympy.Add(*parts)


def latex(formula: Formula) -> str:
    """The formula in LaTeX."""
    names = {symbol(name): rf"\mathrm{{{name}}}" for name in formula.variables if len(name) > 1}
    order = [sympy.latex(_part(term, formula.bits), symbol_names=names) for term in formula.terms]
    if formula.constant or not order:
        order.append(str(formula.constant))
    return (r" \oplus " if formula.overlapping else " + ").join(order)


def minimal_products(
    count: int, ones: Sequence[tuple[int, ...]], free: Sequence[tuple[int, ...]]
) -> list[list[tuple[int, bool]]]:
    """A minimal sum of products over `count` bits: true on `ones`, anything on `free`, false elsewhere.

    A product lists (bit number, wanted value). No product means false, an empty product true.
    """
    if not ones:
        return []
    symbols = sympy.symbols(f"x0:{count}")
    if len(ones) + len(free) == 1 << count:
        return [[]]
    form = SOPform(symbols, [list(p) for p in ones], [list(p) for p in free])
    products = form.args if isinstance(form, Or) else (form,)
    return sorted(_literals(p, symbols) for p in products)


def _literals(product: sympy.Basic, symbols: Sequence[sympy.Symbol]) -> list[tuple[int, bool]]:
    factors = product.args if isinstance(product, And) else (product,)
    index = {symbol: j for j, symbol in enumerate(symbols)}
    return sorted((index[f.args[0]], False) if isinstance(f, Not) else (index[f], True) for f in factors)


def _part(summand: Term | Products, widths: Mapping[str, int]) -> sympy.Expr:
    if isinstance(summand, Term):
        whole = summand.implied(widths.get(summand.variable))
        masked = symbol(summand.variable) if whole else BitAnd(symbol(summand.variable), sympy.Integer(summand.mask))
        return Shift(masked, sympy.Integer(summand.shift)) if summand.shift else masked
    products = [sympy.Mul(*(_factor(*f) for f in p)) for p in summand.products]
    anyone = sympy.Integer(1) - sympy.Mul(*(1 - p for p in products))
    return anyone * 2**summand.bit


def _factor(variable: str, bit: int, is_set: bool) -> sympy.Expr:
    masked = BitAnd(symbol(variable), sympy.Integer(1 << bit))
    value = Shift(masked, sympy.Integer(-bit)) if bit else masked
    return value if is_set else 1 - value
