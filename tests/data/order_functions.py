"""Functions that tests name as CALL: GEMMs, sums, and what is neither."""

import os
import time

import numpy as np

from tcprobe.arithmetic.order import Additions, Multiplies, Order, Types
from tcprobe.order import multiply

HALF = "mma.m16n8k16.row.col.f32.f16.f16.f32"


def by_batch(a, b):
    """Split k for up to 4 rows."""
    k = a.shape[1]
    chains = [Multiplies(HALF, ((0, k // 2),)), Multiplies(HALF, ((k // 2, k),))]
    node = Additions(chains) if a.shape[0] <= 4 else Multiplies(HALF, ((0, k),))
    return multiply(Order("sm_90", Types("f16", "f16", "f32"), k, node), a, b)


def by_tile(a, b):
    """Another order from row 16 and column 24 on."""
    k = a.shape[1]
    d = multiply(Order("sm_90", Types("f16", "f16", "f32"), k, Multiplies(HALF, ((0, k),))), a, b)
    chains = [Multiplies(HALF, ((0, k // 2),)), Multiplies(HALF, ((k // 2, k),))]
    d[16:, 24:] = multiply(Order("sm_90", Types("f16", "f16", "f32"), k, Additions(chains)), a[16:], b[:, 24:])
    return d


def chain(a, b):
    """One product after another, each rounded before it is added."""
    d = a[:, :1] * b[:1]
    for k in range(1, a.shape[1]):
        d = d + a[:, k : k + 1] * b[k]
    return d


def by_parity(a, b):
    """Another order in odd rows."""
    d = chain(a, b)
    d[1::2] = chain(a[1::2, ::-1], b[::-1])
    return d


def by_parity_of_rows(x):
    """The same of a sum."""
    d = pairwise(x)
    d[1::2] = pairwise(x[1::2, ::-1])
    return d


def pairwise(x):
    """Sums of rows, by halves."""
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        x = np.concatenate([x[:, :half] + x[:, half : 2 * half], x[:, 2 * half :]], axis=1)
    return x


def half_sums(a, b):
    """Parts of k whose sums are rounded to 16 bits before they are joined."""
    k, kinds = a.shape[1], Types("f16", "f16", "f16")
    parts = [slice(0, k // 2), slice(k // 2, k)]
    sums = [multiply(Order("sm_90", kinds, k // 2, Multiplies(HALF, ((0, k // 2),))), a[:, p], b[p]) for p in parts]
    return (sums[0].astype(np.float32) + sums[1].astype(np.float32)).astype(np.float16)


def nan(a, b):
    return (a @ b) * np.float32("nan")


def transposed(a, b):
    return (a @ b).T


def scalar(a, b):
    return np.float32(0)


def doubles(a, b):
    return (a @ b).astype(np.float64)


def twice(a, b):
    return 2 * (a @ b)


def biased(a, b):
    return a @ b + 3


def biased_by_column(a, b):
    return a @ b + np.arange(b.shape[1], dtype=a.dtype)


def relu(a, b):
    return np.maximum(a @ b, 0)


def square(a, b):
    return (a * a) @ b


def raises(a, b):
    raise ValueError("no\nway")


def leaves(a, b):
    raise SystemExit(3)


def zero(a, b):
    return a[:, :1] * b[:1] * 0


def in_f64(a, b):
    """A sum that no arithmetic of f32 gives."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def integers(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


def integer_sums(x):
    return x.sum(1, keepdims=True, dtype=np.int32)


def nothing(a, b):
    return None


def writes(a, b):
    d = a @ b
    b[1, 0] = 7
    return d


def shuffled(a, b):
    """As with atomic additions."""
    order, d = np.random.default_rng().permutation(a.shape[1]), np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in order:
        d = d + a[:, k : k + 1] * b[k]
    return d


def changing(a, b, calls=[0]):  # noqa: B006
    """Another order after thirty calls."""
    calls[0] += 1
    return chain(a, b) if calls[0] < 15 else chain(a[:, ::-1], b[::-1])


def no_tree(a, b):
    """What is added depends on the values: no order."""
    found = np.argsort(np.abs(b[:, 0].astype(np.float64)), kind="stable")
    return chain(a[:, found], b[found])


def hangs(a, b):
    print("a word on standard output", flush=True)
    while True:
        time.sleep(1)


def aborts(a, b):
    os.abort()


def talks(a, b):
    print("a word on standard output")
    return np.ma.masked_array(chain(a, b))  # a kind of array that NumPy has beside the plain one
