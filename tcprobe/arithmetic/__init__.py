"""What a multiply computes, bit by bit: formats of numbers, the parameters of a form, and the model that follows them.

    formats, parameters, forms          numbers as bits, parameters, which forms are alike
    model, integers, scales             the model
    chain, partial                      sums in f64 and f32
    gemm, bound, header                 products of matrices, error bounds, C++

Nothing here depends on where parameters come from; `tcprobe.numerics` takes them from measurements.
"""
