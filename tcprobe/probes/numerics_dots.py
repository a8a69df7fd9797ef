"""Dot products of a few powers of two, with which directed experiments question a form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tcprobe.arithmetic.formats import FORMATS, FloatFormat
from tcprobe.arithmetic.parameters import ElementTypes
from tcprobe.errors import ProbeError
from tcprobe.layout.arrays import Bits

Dots = Callable[[Bits, Bits, Bits], Bits]
DotTerms = tuple[dict[int, "Power"], "Power | int"]  # products by k, and C
HIGHEST, DEEPEST = 100, 200  # the exponent of x if the types allow it; how far below x a small term may be


class Power(NamedTuple):
    """sign x 2^exponent, times 1.5 if `half`."""

    exponent: int
    sign: int = 1
    half: bool = False


@dataclass
class Directed:
    """A form's answers; `cases` counts the cases.

    If the form has scales, `scaled_dots(shift)` multiplies under scales whose product is 2^shift.
    """

    types: ElementTypes
    products: int
    dots: Dots
    scaled_dots: Callable[[int], Dots | None] | None = None
    shift: int = 0
    cases: int = field(default=0, init=False)
    unread: int = field(default=0, init=False)

    @property
    def a(self) -> FloatFormat:
        """The format of A."""
        return FORMATS[self.types.a]

    @property
    def b(self) -> FloatFormat:
        """The format of B."""
        return FORMATS[self.types.b]

    @property
    def c(self) -> FloatFormat:
        """The format of C."""
        return FORMATS[self.types.c]

    @property
    def d(self) -> FloatFormat:
        """The format of D."""
        return FORMATS[self.types.d]

    @property
    def least(self) -> int:
        """The least exponent of a product of normal numbers."""
        return self.a.least + self.b.least + self.shift

    @property
    def most(self) -> int:
        """The largest exponent of a product."""
        return largest(self.a) + largest(self.b) + self.shift

    @property
    def x(self) -> int:
        """The exponent of the terms that cancel; C and D hold them."""
        return min(self.most, largest(self.d), largest(self.c), HIGHEST)

    @property
    def deep(self) -> int:
        """How far below x the smallest term is."""
        return min(self.x - max(self.least, self.d.least, self.c.least), DEEPEST)

    def ask(self, dot_terms: Sequence[DotTerms]) -> Bits:
        """D of cases: products by k, the others zero, and C as a Power or as bits."""
        a, b = (np.zeros((len(dot_terms), self.products), form.word) for form in (self.a, self.b))
        c = np.zeros(len(dot_terms), self.c.word)
        for n, (products, own) in enumerate(dot_terms):
            for k, term in products.items():
                a[n, k], b[n, k] = self.factors(term)
            c[n] = number(self.c, own) if isinstance(own, Power) else own
        return self.raw(a, b, c)

    def raw(self, a_bits: Bits, b_bits: Bits, c_bits: Bits) -> Bits:
        """D of dot products, all as bits."""
        self.cases += len(c_bits)
        return self.dots(a_bits, b_bits, c_bits)

    def scaled(self, exponent: int) -> Directed | None:
        """The same form with products scaled by 2^by; None if no scales of the form do that."""
        dots = self.scaled_dots(exponent) if self.scaled_dots else None
        return Directed(self.types, self.products, dots, self.scaled_dots, exponent) if dots else None

    def factors(self, power: Power) -> tuple[int, int]:
        """The bits of A and B whose product is a term; ProbeError if there are none."""
        power = power._replace(exponent=power.exponent - self.shift)
        low = max(self.a.least, power.exponent - largest(self.b))
        high = min(largest(self.a), power.exponent - self.b.least)
        beyond = max(
            0, self.least - self.shift - self.b.fraction - power.exponent
        )  # what B cannot take, even as a subnormal
        first = max(low, min(power.exponent // 2, high)) - beyond
        return number(self.a, power._replace(exponent=first)), number(self.b, Power(power.exponent - first))


def largest(floats: FloatFormat) -> int:
    """The largest exponent of a power of two in the format."""
    top = (1 << floats.bits - 1 - floats.fraction) - 1 - floats.bias
    return top - (floats.special == "ieee")


def number(floats: FloatFormat, power: Power) -> int:
    """The bits of a term; ProbeError if the format does not have it."""
    field_ = power.exponent + floats.bias
    sign = (1 << floats.bits - 1) if power.sign < 0 else 0
    half = 1 << floats.fraction - 1 if power.half else 0
    if field_ > 0 and power.exponent <= largest(floats):
        return sign | field_ << floats.fraction | half
    low = floats.fraction + field_ - 1
    if not 0 <= low < floats.fraction or power.half:
        raise ProbeError(f"2^{power.exponent} is not a number of type {floats.name}.")
    return sign | 1 << low


def magnitude_bits(floats: FloatFormat) -> int:
    """A mask of all bits but the sign."""
    return (1 << floats.bits - 1) - 1
