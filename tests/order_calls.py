"""Calls that sum in an order that is given, on the CPU, and the tree of sums that an order is."""

import numpy as np

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, as_range, postorder
from tcprobe.arithmetic.parameters import AFTER
from tcprobe.order import multiply
from tcprobe.order.bench import Shape
from tcprobe.order.calls import Call
from tcprobe.order.evaluate import rule_of
from tcprobe.order.memory import ArrayModule
from tcprobe.order.reveal import Revealing, conclude


def lines(matrix):
    """Which rows of a matrix are all there are, and which of them each row is."""
    numbers, back = {}, []
    for row in matrix:
        back.append(numbers.setdefault(row.tobytes(), len(numbers)))
    return [back.index(number) for number in range(len(numbers))], back


def call_of(order, **how):
    """D of an order; rows of A and columns of B that are alike are multiplied once."""

    def function(a, b):
        (rows, down), (cols, across) = lines(a), lines(np.ascontiguousarray(b.T))
        return np.ascontiguousarray(multiply(order, a[rows], b[:, cols])[down][:, across])

    return Call(
        "given", ArrayModule(np, "cpu"), order.types[:2], function, order.types.d, about={"arch": order.arch}, **how
    )


def revealed(order, m=4, n=160):
    """What is found of a call that sums in an order."""
    return conclude(Revealing(call_of(order), Shape(m, n, order.k)).find())


def tree(order):
    """The sums of an order as nested tuples, in no order: (products that are added there, sums that are)."""
    made = []
    for node in postorder(order.sum):
        if isinstance(node, Additions):
            terms = made[-len(node.terms) :]
            del made[-len(node.terms) :]
            total = terms[0]
            for term in terms[1:]:
                total = _sum((), (total, term))
        else:
            inner = made.pop() if node.c is not None else None
            places = [k for part in node.ranges for k in as_range(part)]
            total = _chain(order, node, places, inner)
        made.append(total)
    return made[0]


def _chain(order, node, places, inner):
    if isinstance(node, FusedMultiplyAdds):
        for k in places:
            inner = _sum((k,), () if inner is None else (inner,))
        return inner
    assert isinstance(node, Multiplies)
    rule = rule_of(node.form, order.arch)
    for at in range(0, len(places), rule.products):
        own = places[at : at + rule.products]
        last = rule.parameters.c == AFTER
        total = None if last else inner
        for group in rule.parameters.groups:
            products = tuple(own[k] for k in group if k < len(own))
            if products:
                total = _sum(products, () if total is None else (total,))
        inner = _sum((), (inner, total)) if last and inner is not None else total
    return inner


def _sum(products, parts):
    """One sum; one product alone is none of its own."""
    alone = [part for part in parts if isinstance(part, int)]
    parts = [part for part in parts if not isinstance(part, int)]
    products = [*products, *alone]
    if len(products) == 1 and not parts:
        return products[0]
    if not products and len(parts) == 1:
        return parts[0]
    return (tuple(sorted(products)), tuple(sorted(parts)))
