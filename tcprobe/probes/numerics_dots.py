"""Dot products of a few powers of two, with which directed experiments question a form, and what becomes of their sum:
rounding of the result, the least exponent, and numbers at the ends of the formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from tcprobe.arithmetic.floats import FORMATS, FloatFormat
from tcprobe.arithmetic.parameters import AFTER, IN_GROUP, NEAREST, TOWARD_ZERO, ElementTypes, Rounding, Subnormals
from tcprobe.errors import ProbeError
from tcprobe.isa.operand import FACTORS
from tcprobe.layout.arrays import Bits

Dots = Callable[[Bits, Bits, Bits], Bits]
DotTerms = tuple[dict[int, "Power"], "Power | int"]  # products by k, and C
HIGHEST, DEEPEST = 100, 200  # the exponent of x if the types allow it; how far below x a small term may be


class Power(NamedTuple):
    """sign x 2^exponent, times 1.5 if `half`."""

    exponent: int
    sign: int = 1
    half: bool = False

    def times(self, sign: int) -> Power:
        """The term, or its negative."""
        return self._replace(sign=self.sign * sign)


@dataclass
class Directed:
    """A form's answers; `cases` counts the cases, `a` to `d` are the formats of the operands.

    If the form has scales, `scaled_dots(shift)` multiplies under scales whose product is 2^shift.
    """

    types: ElementTypes
    products: int
    dots: Dots
    scaled_dots: Callable[[int], Dots | None] | None = None
    shift: int = 0
    cases: int = field(default=0, init=False)
    unread: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        kinds = (self.types.a, self.types.b, self.types.c, self.types.d)
        self.a, self.b, self.c, self.d = (FORMATS[kind] for kind in kinds)

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
        beyond = max(0, self.least - self.shift - self.b.fraction - power.exponent)  # B's least subnormal is too large
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


QUARTERS = (1, 2, 3, 5, 6, 7)  # of an ulp
HALVES = {TOWARD_ZERO: (0, 0, 0, 1, 1, 1), NEAREST: (0, 0, 1, 1, 2, 2)}  # ulps that quarters round to


class SumBase(NamedTuple):
    """Products and C that sum to 2^m x, and the k of the products that are left."""

    products: dict[int, Power]
    c: Power | int
    left: tuple[int, ...]
    m: int


def result_rounding(
    directed: Directed, groups: Sequence[Sequence[int]], place_of_c: str, kept: int | None
) -> tuple[int, Rounding]:
    """(bits of a result below its leading one, how it is rounded); ProbeError if sums are too small to tell."""
    exact, group, kept_or_60 = kept is None, groups[-1], 60 if kept is None else kept
    for m in range(1 if exact else 4):
        x, count = Power(directed.x - 3), 0 if exact else 1 << m
        base = SumBase(dict.fromkeys(group[:count], x), x if exact else 0, tuple(group[count:]), m)
        if not base.left:
            break
        bits = _result_bits(directed, base, kept_or_60)
        if bits == m + kept_or_60:
            continue
        rest = [_rest(directed, base, bits, quarters) for quarters in QUARTERS]
        if all(rest) and bits + 2 - m <= kept_or_60:
            up, down = ([_with(base, part, sign) for part in rest] for sign in (1, -1))
            return bits, _rounding(directed, (up, down), base.m, bits)
        by_c = None if place_of_c == AFTER else _in_c(directed, group, kept_or_60, bits)
        if by_c:
            return bits, _rounding(directed, *by_c, bits)
    raise ProbeError("a sum is too small to tell how its result is rounded.")


def _with(base: SumBase, rest: dict[int, Power] | None, sign: int) -> DotTerms:
    """A base with more products, all of one sign."""
    products = {k: power.times(sign) for k, power in {**base.products, **(rest or {})}.items()}
    return products, base.c.times(sign) if isinstance(base.c, Power) else base.c


def _in_c(
    directed: Directed, group: Sequence[int], kept: int, bits: int
) -> tuple[tuple[list[DotTerms], ...], int] | None:
    """(cases by sign, m): 2^m copies of x, one of them C, whose low bits are the quarters. None if C has too few bits.

    The copies make room below x.
    """
    x = directed.x - 3
    for m in (0, 1, 2, 3):
        low = directed.c.fraction - (bits + 2 - m)
        if (1 << m) - 1 <= len(group) and bits + 2 - m <= kept and low >= 0:
            copies = group[: (1 << m) - 1]
            return tuple(
                [
                    ({k: Power(x, sign) for k in copies}, number(directed.c, Power(x, sign)) | quarters << low)
                    for quarters in QUARTERS
                ]
                for sign in (1, -1)
            ), m
    return None


def _result_bits(directed: Directed, base: SumBase, kept: int) -> int:
    """How far below the leading one of the sum a small term still changes D."""
    x, depths = directed.x - 3, range(min(kept, directed.x - 3 - directed.least) + 1)
    d = directed.ask([({**base.products, base.left[0]: Power(x - s)}, base.c) for s in depths])
    alone = number(directed.d, Power(x + base.m))
    changed = np.flatnonzero(d != alone)
    return base.m + int(changed[-1]) if len(changed) else 0


def _rest(directed: Directed, base: SumBase, bits: int, quarters: int) -> dict[int, Power] | None:
    """Products that sum to so many quarters of the last place; None if too few are left, or they cannot be so small."""
    x, places = directed.x - 3 + base.m, [(4, bits), (2, bits + 1), (1, bits + 2)]
    used_places = [place for weight, place in places if quarters & weight]
    if base.c != 0 and len(used_places) > len(base.left):
        return _rest_in_one_product(base, x, quarters, bits)
    if len(used_places) > len(base.left) or x - max(used_places) < directed.least:
        return None
    return {k: Power(x - place) for k, place in zip(base.left, used_places, strict=False)}


def _rest_in_one_product(base: SumBase, exponent: int, quarters: int, bits: int) -> dict[int, Power] | None:
    """As `_rest`, in a single product: exact for 3 and 6 quarters; 4 quarters for all others."""
    terms = {3: Power(exponent - bits - 1, half=True), 6: Power(exponent - bits, half=True)}
    return {base.left[0]: terms[quarters]} if quarters in terms else {base.left[0]: Power(exponent - bits)}


def _rounding(directed: Directed, up_and_down: tuple[list[DotTerms], ...], m: int, bits: int) -> Rounding:
    """The rounding, from the ulps that quarters of an ulp become, with both signs; ProbeError if it is unknown."""
    answers = directed.ask([case for part in up_and_down for case in part]).reshape(2, -1)
    unit, step = number(directed.d, Power(directed.x - 3 + m)), 1 << directed.d.fraction - bits
    ulps = [[((int(v) & magnitude_bits(directed.d)) - unit) / step for v in line] for line in answers]
    for mode, expected in HALVES.items():
        rounded = list(expected)
        if directed.types.d == "f64":
            rounded[3] = rounded[5] = 1  # `_rest_in_one_product` has 4 quarters for 5 and 7
        if ulps == [rounded, rounded]:
            return mode
    raise ProbeError(f"results are rounded in no known way: quarters {QUARTERS} give {ulps[0]} and {ulps[1]}.")


def floor(directed: Directed, groups: Sequence[Sequence[int]], kept: int | None) -> int | None:
    """The least exponent that terms are aligned to; None if there is none, or no product can be below it."""
    least, group = directed.d.least - directed.d.fraction, groups[0]
    if directed.scaled_dots and not directed.shift and kept is not None:
        low = directed.scaled(least - kept - 2 - directed.least)
        return floor(low, groups, kept) if low and low.most >= least else None
    if kept is None or directed.types.d != "f32" or len(group) < 2 or directed.least > least - kept - 2:
        return None
    depths = range(1, min(least - directed.least, 60))
    d = directed.ask([({group[0]: Power(least), group[1]: Power(least - s, -1)}, 0) for s in depths])
    cut = np.flatnonzero(d == 0)  # kept: the difference is below the smallest number, and becomes zero
    if not len(cut) or len(cut) != cut[-1] + 1 or (d[len(cut) :] != 1).any():
        return None
    unit = least - depths[int(cut[-1])]
    return None if unit == least - kept else unit + kept


def subnormals(directed: Directed) -> Subnormals:
    """Whether subnormals are kept, by operand; None where no case can tell.

    Cases: the least subnormal of A or B times a large number; half the least normal number of C; a product below D's.
    """
    a, b = (_keeps_factor(directed, name) for name in FACTORS)
    half = Power(directed.c.least - 1)
    c = None
    if _holds(directed.d, half.exponent):
        c = _is_kept(int(directed.ask([({}, half)])[0]), number(directed.d, half), "c")
    # D's from a product below its least normal number; if there is none, a kept C of D's type tells
    small, d = Power(directed.d.least - 1), True if c and directed.types.c == directed.types.d else None
    if directed.least <= small.exponent:
        d = _is_kept(int(directed.ask([({0: small}, 0)])[0]), number(directed.d, small), "d")
    return Subnormals(a=a, b=b, c=c, d=d)


def _keeps_factor(directed: Directed, name: str) -> bool | None:
    form, other = (directed.a, directed.b) if name == "a" else (directed.b, directed.a)
    low = form.least - form.fraction + directed.unread
    high = min(largest(other), max(directed.d.least - low + 1, 0))
    lines = {key: np.zeros((1, directed.products), getattr(directed, key).word) for key in FACTORS}
    lines[name][0, 0] = number(form, Power(low))
    lines["b" if name == "a" else "a"][0, 0] = number(other, Power(high))
    answer = int(directed.raw(lines["a"], lines["b"], np.zeros(1, directed.c.word))[0])
    return _is_kept(answer, number(directed.d, Power(low + high)), name) if _holds(directed.d, low + high) else None


def normalized(
    directed: Directed, groups: Sequence[Sequence[int]], place_of_c: str, kept: int | None
) -> tuple[Literal["a", "b", "c"], ...]:
    """The operands whose subnormals are aligned by their leading bit instead of the least exponent.

    A term survives beside them that would be cut otherwise. Operands are left out if no case can tell.
    """
    group = groups[0]
    if kept is None or len(group) < 3:
        return ()
    survives: dict[Literal["a", "b", "c"], bool] = {
        "a": _survives(directed, group, kept, "a"),
        "b": _survives(directed, group, kept, "b"),
        "c": place_of_c == IN_GROUP and _survives_c(directed, group, kept),
    }
    return tuple(name for name, normal in survives.items() if normal)


def _survives(directed: Directed, group: Sequence[int], kept: int, name: str) -> bool:
    """Whether the term survives beside the smallest subnormal of A or B times a large number, and its negative."""
    form, other = (directed.a, directed.b) if name == "a" else (directed.b, directed.a)
    low, high = form.least - form.fraction + directed.unread, largest(other)
    small = Power(form.least + high - kept - 1)
    if small.exponent < directed.least or not _holds(directed.d, small.exponent):
        return False
    lines = {key: np.zeros((1, directed.products), getattr(directed, key).word) for key in FACTORS}
    for k, sign in zip(group, (1, -1), strict=False):
        lines[name][0, k] = number(form, Power(low, sign))
        lines["b" if name == "a" else "a"][0, k] = number(other, Power(high))
    lines["a"][0, group[2]], lines["b"][0, group[2]] = directed.factors(small)
    d = int(directed.raw(lines["a"], lines["b"], np.zeros(1, directed.c.word))[0])
    return d == number(directed.d, small)


def _survives_c(directed: Directed, group: Sequence[int], kept: int) -> bool:
    """As `_survives`, beside the smallest subnormal of C and a product that is its negative."""
    low, small = directed.c.least - directed.c.fraction, Power(directed.c.least - kept - 1)
    smallest = directed.least - directed.a.fraction - directed.b.fraction + 2 * directed.unread
    if low < directed.least or small.exponent < smallest or not _holds(directed.d, small.exponent):
        return False
    d = directed.ask([({group[0]: Power(low, -1), group[1]: small}, Power(low))])
    return int(d[0]) == number(directed.d, small)


def _holds(floats: FloatFormat, exponent: int) -> bool:
    return floats.least - floats.fraction <= exponent <= largest(floats)


def _is_kept(d_bits: int, whole: int, operand: str) -> bool:
    if d_bits not in (whole, 0):
        raise ProbeError(f"a subnormal {operand.upper()} gives {d_bits:#x}, neither {whole:#x} nor zero.")
    return d_bits == whole


def nan(directed: Directed) -> str | None:
    """The bits, as hex, of the NaN that D becomes; None if they vary.

    Cases: NaN in C, infinity times zero, infinity minus infinity.
    """
    c = directed.c
    payload = c.infinity | (0x123 & (1 << c.fraction) - 1) | 1 << c.fraction - 1
    cases: list[int] = directed.ask([({}, payload), ({}, payload | 1 << c.bits - 1)]).tolist()
    a, b = (np.zeros((2, directed.products), form.word) for form in (directed.a, directed.b))
    if directed.a.special == "ieee":
        a[:, 0], b[1, 0] = directed.a.infinity, directed.b.one()
        own = np.array([0, c.infinity | 1 << c.bits - 1], c.word)
        cases += directed.raw(a, b, own).tolist()
    digits = directed.d.bits // 4
    return f"0x{cases[0]:0{digits}x}" if len(set(cases)) == 1 else None


def overflow(directed: Directed) -> Literal["infinity", "largest"] | None:
    """What D becomes if two products sum to more than its largest number; None if no case can tell."""
    top = largest(directed.d)
    if directed.most < top and directed.scaled_dots and not directed.shift:
        high = directed.scaled(top - directed.most)
        return overflow(high) if high else None
    if directed.most < top or directed.products < 2:
        return None
    answer = int(directed.ask([({0: Power(top), 1: Power(top)}, 0)])[0])
    if answer not in (directed.d.infinity, directed.d.infinity - 1):
        if answer == 0:
            return None
        raise ProbeError(f"a sum beyond the largest number gives {answer:#x}.")
    return "infinity" if answer == directed.d.infinity else "largest"


def negative_zero(directed: Directed) -> bool:
    """Whether D is -0 if all products and C are -0."""
    a = np.full((1, directed.products), 1 << directed.a.bits - 1, directed.a.word)
    b = np.full((1, directed.products), directed.b.one(), directed.b.word)
    answer = int(directed.raw(a, b, np.full(1, 1 << directed.c.bits - 1, directed.c.word))[0])
    return answer != 0
