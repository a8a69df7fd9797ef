"""The types of an order, which stand in `tcprobe.arithmetic.order` because findings hold them."""

from tcprobe.arithmetic.order import (
    INPUTS,
    Additions,
    FusedMultiplyAdds,
    Inputs,
    Multiplies,
    Node,
    Order,
    Range,
    Ranges,
    Types,
    children,
    postorder,
    products,
)

__all__ = [
    "INPUTS",
    "Additions",
    "FusedMultiplyAdds",
    "Inputs",
    "Multiplies",
    "Node",
    "Order",
    "Range",
    "Ranges",
    "Types",
    "children",
    "postorder",
    "products",
]
