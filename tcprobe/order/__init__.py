"""In which order a program sums the products of a matrix multiply, and every bit that follows.

    order = tcprobe.order.load("ORDER.json")
    d = tcprobe.order.multiply(order, a, b)

    evaluate, bound         D to the bit; how far it can be from the exact product
    picture, difference     an order in words and drawn; two orders compared
    question                the command

What an order is stands in `tcprobe.arithmetic.order`, what its file holds in `tcprobe.arithmetic.order_text`.
"""

from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.order import Additions, FusedMultiplyAdds, Multiplies, Order, Types
from tcprobe.order import bound, evaluate, picture
from tcprobe.order.difference import difference as compared
from tcprobe.question.arguments import checked

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

load, text = checked(order_text.load), checked(order_text.text)
multiply, error_bound, svg = checked(evaluate.multiply), checked(bound.error_bound), checked(picture.svg)
difference = checked(compared)
