"""Kernels as others publish them, in Triton, and what became of them once `tcprobe ablate` had said what bounds them.

`weights` is a multiply by weights of 4 bits as GPTQ's first Triton kernels wrote it: eight weights an int32, each
loaded for all of its eight rows, shifted, masked, converted. `attention` is one head's attention, as Triton's tutorial
has it, with the scores scaled before the maximum is taken. With `better` both compute the same in other instructions.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def weights(  # noqa: PLR0913, PLR0917
    x,
    w,
    scales,
    out,
    m,
    n,
    k,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    better: tl.constexpr,
):
    """out = x (w - 8) scales: w is k/8 x n of int32, scales 1 x n."""
    row, col = tl.arange(0, block_m), tl.program_id(0) * block_n + tl.arange(0, block_n)
    inner = tl.arange(0, block_k)
    x_at = x + row[:, None] * k + inner[None, :]
    w_at = w + (inner // 8)[:, None] * n + col[None, :]
    shift = (inner % 8)[:, None] * 4
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for _ in range(0, k, block_k):
        packed = tl.load(w_at)
        if better:  # 1024 + w has w in its low bits: no conversion
            bits = (((packed >> shift) & 15) | 0x6400).to(tl.uint16)
            weight = bits.to(tl.float16, bitcast=True) - 1032.0
        else:
            weight = (((packed >> shift) & 15) - 8).to(tl.float16)
        total = tl.dot(tl.load(x_at), weight.to(tl.float16), total)
        x_at += block_k
        w_at += block_k // 8 * n
    total *= tl.load(scales + col)[None, :]
    tl.store(out + row[:, None] * n + col[None, :], total.to(tl.float16))


@triton.jit
def attention(  # noqa: PLR0913, PLR0917
    q, k, v, out, scale, keys, block_m: tl.constexpr, block_n: tl.constexpr, d: tl.constexpr, better: tl.constexpr
):
    """Softmax of q k' scale, in powers of two, times v."""
    row = tl.program_id(0) * block_m + tl.arange(0, block_m)
    dim = tl.arange(0, d)
    queries = tl.load(q + row[:, None] * d + dim[None, :])
    top = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((block_m,), dtype=tl.float32)
    total = tl.zeros((block_m, d), dtype=tl.float32)
    for start in range(0, keys, block_n):
        col = start + tl.arange(0, block_n)
        key = tl.load(k + col[None, :] * d + dim[:, None])
        scores = tl.dot(queries, key)
        if better:  # one multiply-add a score instead of a multiply and a subtraction
            higher = tl.maximum(top, tl.max(scores, 1) * scale)
            share = tl.math.exp2(scores * scale - higher[:, None])
        else:
            scores *= scale
            higher = tl.maximum(top, tl.max(scores, 1))
            share = tl.math.exp(scores - higher[:, None])
        fade = tl.math.exp2(top - higher) if better else tl.math.exp(top - higher)
        weight = weight * fade + tl.sum(share, 1)
        value = tl.load(v + col[:, None] * d + dim[None, :])
        total = tl.dot(share.to(tl.float16), value, total * fade[:, None])
        top = higher
    tl.store(out + row[:, None] * d + dim[None, :], (total / weight[:, None]).to(tl.float16))
