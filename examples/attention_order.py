"""In which order attention joins its blocks of keys: each function sums the rows of a matrix by P V with P fixed.

    tcprobe order examples/attention_order.py:flash --sum --shape 512x1024 --type bf16
    tcprobe order examples/attention_order.py:ours_sm_90 --sum --shape 512x1024 --type bf16

With Q and K zero every score is zero and every weight one, so that a row of O is the sum of V's rows divided by their
number, a power of two: attention is then linear in V, and a sum like any other. A column of V is a row of what is
summed: `flash` and the others take (rows x keys), rows a multiple of the head's 64, keys a power of two and of 128, and
return the first row of O of each head, times the number of keys.

It shows which keys a multiply takes in and how blocks are joined while no score grows. What it cannot show is
rescaling: with real scores a block with a larger maximum multiplies what was summed before, which rounds once more;
here that factor is one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEAD, QUERIES = 64, 128


def _values(x: torch.Tensor) -> torch.Tensor:
    """V (1 x heads x keys x head) of the rows that are summed."""
    rows, keys = x.shape
    if rows % HEAD or keys & (keys - 1) or keys % QUERIES:
        raise ValueError(f"{rows} x {keys}: rows are a multiple of {HEAD}, keys a power of two and of {QUERIES}")
    return x.view(1, rows // HEAD, HEAD, keys).transpose(2, 3).contiguous()


def _sums(o: torch.Tensor, keys: int) -> torch.Tensor:
    """The first row of O of each head, times a power of two."""
    return (o[0, :, 0, :] * keys).reshape(-1, 1)


def _by(backend: SDPBackend, x: torch.Tensor) -> torch.Tensor:
    """PyTorch's scaled_dot_product_attention."""
    v = _values(x)
    q, k = torch.zeros_like(v[:, :, :QUERIES]), torch.zeros_like(v)
    with sdpa_kernel(backend):
        return _sums(torch.nn.functional.scaled_dot_product_attention(q, k, v), x.shape[1])


flash = partial(_by, SDPBackend.FLASH_ATTENTION)
efficient = partial(_by, SDPBackend.EFFICIENT_ATTENTION)
cudnn = partial(_by, SDPBackend.CUDNN_ATTENTION)
plain = partial(_by, SDPBackend.MATH)


@cache
def _made(arch: str, heads: int, keys: int) -> tuple[list[torch.Tensor], Any]:
    """Q, K, V, O and the launch of examples/attention.py's kernel, which has their addresses alone."""
    from attention import Attention
    from attention_run import launcher

    held = [torch.zeros(1, heads, keys, HEAD, device="cuda", dtype=torch.bfloat16) for _ in "qkvo"]
    return held, launcher(Attention(arch, HEAD), *held)


def _ours(arch: str, x: torch.Tensor) -> torch.Tensor:
    """examples/attention.py's kernel."""
    (_, _, v, o), launch = _made(arch, x.shape[0] // HEAD, x.shape[1])
    v.copy_(_values(x))
    torch.cuda.synchronize()
    launch()
    torch.cuda.synchronize()
    return _sums(o, x.shape[1])


ours_sm_80 = partial(_ours, "sm_80")
ours_sm_90 = partial(_ours, "sm_90")
