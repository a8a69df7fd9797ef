"""A GEMM and a sum of our own, to be called by `tcprobe order`: arrays in and out by DLPack.

tcprobe order examples/orders/by_hand.py:two_parts --shape 4x32x48 --type f32
tcprobe order examples/orders/by_hand.py:whole_blocks --shape 4x32x40 --type f32
tcprobe order examples/orders/by_hand.py:by_halves --sum --shape 64x32 --type f32
"""

import numpy as np


def two_parts(a, b):
    """k in two parts, each a chain of rounded products; both joined by one addition."""
    a, b = np.from_dlpack(a), np.from_dlpack(b)
    sums = []
    for part in np.split(np.arange(a.shape[1]), 2):
        total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for k in part:
            total = total + a[:, k : k + 1] * b[k]
        sums.append(total)
    return sums[0] + sums[1]


def whole_blocks(a, b):
    """A fault: only whole blocks of 16 products are summed, and a tail of k is left out."""
    k = a.shape[1] // 16 * 16
    return two_parts(a[:, :k], b[:k])


def by_halves(x):
    """The sum of each row: the second half is added to the first until one number is left."""
    x = np.from_dlpack(x)
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x = np.concatenate([x[:, :half] + x[:, half : 2 * half], x[:, 2 * half :]], axis=1)
    return x[:, 0]
