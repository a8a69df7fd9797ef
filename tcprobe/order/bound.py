"""How far D of an order can be from the exact product of A and B.

|D - exact| <= bound x sum of |a x b|, if no number is below its type's normal ones or beyond its largest. Rounding A
and B, each multiply of a chain (`arithmetic.gemm`), each multiply-add and each addition make the possible error larger
by a factor; that of the products that go through most of them is the order's. The factors are rounded up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.gemm import growth
from tcprobe.arithmetic.order import (
    TF32_UNREAD,
    Additions,
    FusedMultiplyAdds,
    Multiplies,
    Order,
    count,
    postorder,
)
from tcprobe.arithmetic.parameters import Arithmetic
from tcprobe.order.evaluate import Rule, read_as, rules_of
from tcprobe.store.choose import Layers

ONE = 1 << 256  # factors are whole multiples of its reciprocal


class Way(NamedTuple):
    """The products of a node that can lose most: the `factor` of their possible error, how often they are rounded."""

    factor: int
    roundings: int

    def then(self, step: Fraction, times: int, roundings: int = 1) -> Way:
        """The same way, and behind it so many steps alike."""
        factor, power = self.factor, _up(step)
        for bit in bin(times)[:1:-1]:
            if bit == "1":
                factor = _times(factor, power)
            power = _times(power, power)
        return Way(factor, self.roundings + times * roundings)


class Bound(NamedTuple):
    """`bound` is the factor of the sum of |a x b|; `roundings`: of a product and of the sums that it is in, at most."""

    bound: Fraction
    roundings: int

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        from math import inf, nextafter

        return {"bound": nextafter(float(self.bound), inf) if self.bound else 0.0, "roundings": self.roundings}


def error_bound(order: Order, layers: Layers | None = None) -> Bound:
    """The bound of an order; UsageError for a form whose arithmetic nobody knows. Sums of integers are exact."""
    if order.types.d == "s32":
        return Bound(Fraction(0), 0)
    rules = rules_of(order, layers)
    done: list[Way] = []
    for node in postorder(order.sum):
        if isinstance(node, Additions):
            terms = [done.pop() for _ in node.terms][::-1]
            total = terms[0]
            for term in terms[1:]:
                total = _larger(total, term).then(1 + _unit(node.result), 1)
            done.append(total)
            continue
        own = _inputs(order, rules.get(node.form) if isinstance(node, Multiplies) else None)
        start = _larger(own, done.pop()) if node.c is not None else own
        if isinstance(node, FusedMultiplyAdds):
            done.append(start.then(1 + _unit(node.type), count(node.ranges)))
        else:
            done.append(_chain(start, rules[node.form], count(node.ranges)))
    (way,) = done
    if FORMATS[order.types.d].fraction < FORMATS[order.sum.result].fraction:
        way = way.then(1 + _unit(order.types.d), 1)
    return Bound(Fraction(way.factor - ONE, ONE), way.roundings)


def _chain(start: Way, rule: Rule, products: int) -> Way:
    """Behind so many products of a form, one multiply after another."""
    assert isinstance(rule.parameters, Arithmetic)
    multiplies, groups = -(-products // rule.products), len(rule.parameters.groups)
    separate = rule.parameters.fraction_bits is None
    return start.then(growth(rule.types, rule.parameters), multiplies, rule.products if separate else groups)


def _inputs(order: Order, rule: Rule | None) -> Way:
    """What rounding A and B does to a product."""
    inputs = read_as(order, rule)
    if inputs == "exact":
        return Way(ONE, 0)
    wide = [kind for kind in order.types[:2] if kind in ("f32", "tf32")]
    kept = FORMATS["f32"].fraction - TF32_UNREAD + (inputs != "cut")
    return Way(ONE, 0).then(1 + Fraction(1, 1 << kept), len(wide))


def _unit(kind: str) -> Fraction:
    """The relative error of one rounding to nearest."""
    return Fraction(1, 1 << FORMATS[kind].fraction + 1)


def _larger(first: Way, second: Way) -> Way:
    return Way(max(first.factor, second.factor), max(first.roundings, second.roundings))


def _up(number: Fraction) -> int:
    return -(-number.numerator * ONE // number.denominator)


def _times(first: int, second: int) -> int:
    return -(-first * second // ONE)
