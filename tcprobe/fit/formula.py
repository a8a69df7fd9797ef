"""Formula: one output (row, col) as the shortest sum of mask-and-shift terms in `lane` and `i`.

>>> from tcprobe.fit.formula import Formula, Term
>>> str(Formula((Term("i", 2, 2), Term("lane", 28, -2))))
'((i & 2) << 2) + ((lane & 28) >> 2)'

Bits that move by the same distance share a term. Terms that reach the same bit are XORed. Each bit that is not linear
is a sum of products of input bits (`Products`). Terms are the source of truth: text in C, Python or LaTeX is printed
from them, never parsed. All are called with values of their variables, by position or by name.

The PTX manual's names for parts of a lane's number, if formulas have these parts.

>>> from tcprobe.fit.formula import Formula, Term
>>> manual_names([Formula((Term("lane", 28, -2),), sizes=(32, 4)), Formula((Term("lane", 3, 1),), sizes=(32, 4))])
'groupID = lane >> 2, threadID_in_group = lane & 3'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import NamedTuple

from tcprobe.errors import VariableError
from tcprobe.layout.table import Table

SLOT = ("lane", "i")


class Term(NamedTuple):
    """(variable & mask), shifted left by `shift`; right if that is negative."""

    variable: str
    mask: int
    shift: int = 0

    def at(self, given: Mapping[str, int]) -> int:
        """The value for given variables; VariableError if the term's own is missing."""
        try:
            masked = given[self.variable] & self.mask
        except KeyError:
            raise _missing(self.variable, given) from None
        return masked << self.shift if self.shift >= 0 else masked >> -self.shift

    @property
    def reach(self) -> int:
        """The output bits that the term can set."""
        return self.mask << self.shift if self.shift >= 0 else self.mask >> -self.shift

    def implied(self, bits: int | None) -> bool:
        """Whether the mask has no effect on a variable of `bits` bits, after the shift."""
        lost = max(0, -self.shift)
        return bits is not None and self.mask >> lost == ((1 << bits) - 1) >> lost

    def __str__(self) -> str:
        return self.text()

    def text(self, bits: int | None = None) -> str:
        """C syntax; without the mask if it has no effect on a variable of `bits` bits."""
        shift = f"{'<<' if self.shift > 0 else '>>'} {abs(self.shift)}"
        if self.implied(bits):
            return f"({self.variable} {shift})" if self.shift else self.variable
        masked = f"({self.variable} & {self.mask})"
        return f"({masked} {shift})" if self.shift else masked


class Products(NamedTuple):
    """One output bit as an OR of products; a product lists (variable, bit, wanted value)."""

    bit: int
    products: tuple[tuple[tuple[str, int, bool], ...], ...]

    def at(self, given: Mapping[str, int]) -> int:
        """The value for given variables; VariableError if one of a product is missing."""
        try:
            return any(all(given[v] >> b & 1 == wanted for v, b, wanted in p) for p in self.products) << self.bit
        except KeyError as error:
            raise _missing(error.args[0], given) from None

    @property
    def reach(self) -> int:
        """The one output bit."""
        return 1 << self.bit

    def __str__(self) -> str:
        text = " | ".join(" & ".join(_literal(*factor) for factor in p) or "1" for p in self.products) or "0"
        return f"(({text}) << {self.bit})" if self.bit else f"({text})"


def _missing(variable: str, given: Mapping[str, int]) -> VariableError:
    return VariableError(f"the formula needs {variable}; given: {', '.join(given) or 'nothing'}.")


def _literal(variable: str, bit: int, positive: bool) -> str:
    shifted = f"{variable} >> {bit}" if bit else variable
    return f"({shifted} & 1)" if positive else f"(~{shifted} & 1)" if not bit else f"(~({shifted}) & 1)"


@dataclass(frozen=True)
class Formula:
    """The sum of `terms` and `constant` (XOR if terms overlap), in `variables`.

    It is called with a value for each variable, in order or by name: formula(3, 0), formula(lane=3, i=0). `sizes` are
    those of the variables in the fitted table, empty without a table.
    """

    terms: tuple[Term | Products, ...]
    constant: int = 0
    variables: tuple[str, ...] = SLOT
    sizes: tuple[int, ...] = field(default=(), compare=False)

    @property
    def overlapping(self) -> bool:
        """Whether two parts reach the same bit, so that XOR is needed."""
        seen = self.constant
        for term in self.terms:
            if seen & term.reach:
                return True
            seen |= term.reach
        return False

    @property
    def linear(self) -> bool:
        """Whether all terms are mask-and-shift terms."""
        return all(isinstance(term, Term) for term in self.terms)

    def __call__(self, *values: int, **named: int) -> int:
        """The value for a value of each variable.

        VariableError if one is missing, unknown, given twice, or outside the fitted table.
        """
        given = dict(zip(self.variables, values, strict=False), **named)
        count = len(self.variables)
        if len(given) != count or len(values) + len(named) != count or named.keys() - self.variables:
            raise self._misfit(values, named)
        for name, size in zip(self.variables, self.sizes, strict=False):
            if not 0 <= given[name] < size:
                raise VariableError(f"{name} {given[name]} is outside 0 to {size - 1}.")
        return reduce(xor, (term.at(given) for term in self.terms), self.constant)

    def _misfit(self, values: Sequence[int], named: Mapping[str, int]) -> VariableError:
        words = [*map(str, values), *(f"{name} = {value}" for name, value in named.items())]
        return VariableError(
            f"the formula takes {', '.join(self.variables)}, each once; got: {', '.join(words) or 'nothing'}."
        )

    @property
    def bits(self) -> dict[str, int]:
        """The bits of each variable in the fitted table; empty without a table."""
        return {name: (size - 1).bit_length() for name, size in zip(self.variables, self.sizes, strict=False)}

    def __str__(self) -> str:
        """C (and Python) syntax; masks that the variables' ranges imply are left out."""
        return self.text(self.bits)

    def text(self, widths: Mapping[str, int]) -> str:
        """C syntax; masks without effect on variables of so many bits are left out."""
        parts = [t.text(widths.get(t.variable)) if isinstance(t, Term) else str(t) for t in self.terms]
        parts += [str(self.constant)] if self.constant or not self.terms else []
        if len(parts) == 1:
            return parts[0][1:-1] if parts[0].startswith("(") else parts[0]
        return (" ^ " if self.overlapping else " + ").join(parts)


def linear_formula(
    images: Mapping[str, Sequence[int]], constant: int, variables: tuple[str, ...] = SLOT, limits: tuple[int, ...] = ()
) -> Formula:
    """The formula of one output, in `variables` below `limits`, from the images of the bits of each."""
    masks: dict[tuple[str, int], int] = {}
    for variable in sorted(images):
        for bit, image in enumerate(images[variable]):
            for out in range(image.bit_length()):
                if image >> out & 1:
                    key = (variable, out - bit)
                    masks[key] = masks.get(key, 0) | 1 << bit
    terms = sorted((variable, mask, shift) for (variable, shift), mask in masks.items())
    return Formula(tuple(Term(*term) for term in terms), constant, variables, limits)


def proven(formula: Formula, table: Table, output: str) -> bool:
    """Whether the formula gives the table's value at every used point."""
    pairs = zip(table.space.all(), table.values[output], strict=True)
    return all(value is None or formula(*point) == value for point, value in pairs)


_GROUP, _MEMBER = Term("lane", 28, -2), Term("lane", 3)  # in the manual %laneid >> 2 and %laneid % 4


def manual_names(formulas: Iterable[Formula | None]) -> str:
    """groupID and threadID_in_group with their definitions, if the formulas have them; empty without a groupID.

    Bits 0 and 1 of a lane alone are not threadID_in_group: there the manual has other groups (m8n8k4 with f16).
    """
    some = [formula for formula in formulas if formula]
    masks = {
        term.mask for formula in some for term in formula.terms if isinstance(term, Term) and term.variable == "lane"
    }
    if _GROUP.mask not in masks:
        return ""
    bits = max(formula.bits.get("lane", 0) for formula in some) or None
    named = {"groupID": _GROUP} | ({"threadID_in_group": _MEMBER} if _MEMBER.mask in masks else {})
    return ", ".join(
        f"{name} = {Formula((term,)).text({'lane': bits} if bits else {})}" for name, term in named.items()
    )


def in_manual(formulas: Iterable[Formula | None]) -> str:
    """As `manual_names`, as a sentence."""
    names = manual_names(formulas)
    return f"In the PTX manual's words: {names}." if names else ""
