"""In which order a program sums the products of a matrix multiply, and every bit that follows.

    order = tcprobe.order.load("ORDER.json")
    d = tcprobe.order.multiply(order, a, b)

    evaluate, bound         D to the bit; how far it can be from the exact product
    picture, difference     an order in words and drawn; two orders compared
    question                the command

What an order is stands in `tcprobe.arithmetic.order`, what its file holds in `tcprobe.arithmetic.order_text`.
"""

from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Order, Types
from tcprobe.arithmetic.order_text import load, text
from tcprobe.order.bound import error_bound
from tcprobe.order.difference import difference
from tcprobe.order.evaluate import multiply
from tcprobe.order.picture import svg

__all__ = [
    "Additions",
    "FusedMultiplyAdds",
    "Multiplies",
    "Order",
    "Types",
    "difference",
    "error_bound",
    "load",
    "multiply",
    "svg",
    "text",
]
