"""What a multiply computes, bit by bit: formats of numbers, the parameters of a form, and the model that follows them.

    formats, parameters     numbers and scales as bits; parameters, and which forms are alike
    model, gemm             the model; integers, products of matrices, error bounds
    header, numerics.h      the same in C++
    order, order_text       which products one sum takes in, and how sums are chained and joined; ORDER.json

Nothing here depends on where parameters come from; `tcprobe.numerics` takes them from measurements.
"""
