"""In which order a program sums the products of a matrix multiply, and every bit that follows.

    order = tcprobe.order.read("ORDER.json")
    d = tcprobe.order.multiply(order, a, b)

What an order is stands in `tcprobe.arithmetic.order`, what its file holds in `tcprobe.arithmetic.order_text`.
"""
