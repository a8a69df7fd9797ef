"""Kernels of Triton whose layouts are read: a product, a product with softmax, a reduction, a transposed sum."""

# ruff: noqa: N803
import itertools

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, KB: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, KB)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, KB):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def attention(a, b, c, K, M: tl.constexpr, N: tl.constexpr, KB: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, KB)
    x = tl.load(a + m[:, None] * KB + k[None, :])
    acc = tl.zeros((M, KB), tl.float32)
    for i in range(0, K, N):
        y = tl.load(b + (i + n)[:, None] * KB + k[None, :])
        s = tl.dot(x, tl.trans(y))
        p = tl.exp(s - tl.max(s, 1)[:, None])
        acc += tl.dot(p.to(y.dtype), y)
    tl.store(c + m[:, None] * KB + k[None, :], acc)


@triton.jit
def sums(a, b, c, K, M: tl.constexpr, N: tl.constexpr, KB: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(a + m[:, None] * N + n[None, :]).to(tl.float32)
    tl.store(b + n[:, None] * M + m[None, :], tl.trans(x))
    tl.store(c + m, tl.sum(x, 1))
    tl.store(c + M + n, tl.sum(x, 0))


def cases():
    """(kernel, signature, constants, options), of several types, tiles and warps."""
    for kernel, kind, (m, n, k), warps in itertools.product(
        (product, attention, sums),
        ("fp16", "bf16", "fp32", "fp8e4nv"),
        ((64, 64, 32), (128, 64, 64), (32, 128, 64), (128, 256, 64)),
        (1, 2, 4, 8),
    ):
        if kernel is attention and kind == "fp8e4nv":
            continue
        signature = {"a": f"*{kind}", "b": f"*{'fp32' if kernel is sums else kind}", "c": "*fp32", "K": "i32"}
        yield kernel, signature, {"M": m, "N": n, "KB": k}, {"num_warps": warps}
