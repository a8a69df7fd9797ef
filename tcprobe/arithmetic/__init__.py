"""What a multiply computes, bit by bit: formats of numbers, the parameters of a form, and the model that follows them.

Nothing here depends on where parameters come from; `tcprobe.numerics` takes them from measurements.
"""
