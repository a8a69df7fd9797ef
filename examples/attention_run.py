"""examples/attention.py on a GPU: beside a reference in f64, and timed beside PyTorch's flash backend.

Error: the root mean square of what differs from the reference, by that of the reference; the same of PyTorch's.
"""

from __future__ import annotations

import json
import math
from functools import partial

import attention
import cupy
import numpy as np
import torch
from attention import Attention
from torch.nn.attention import SDPBackend, sdpa_kernel

from tcprobe.ask import descriptor
from tcprobe.references.shared_memory.tensor_map import packed_map
from tcprobe.run import driver
from tcprobe.run.gpu import CXX, Gpu

SHAPE = (4, 16, 4096)  # batch, heads, length
SMALL = (1, 2, 256)
FLAGS = (*CXX, "-ftz=true", "-DTCPROBE_ANY_ARCH")  # exp2 is one instruction; sm_80's kernel runs on later GPUs
MOST_ERROR = 5e-3  # of bf16 results: half a unit in the last place is 2e-3 to 4e-3


def run(asked: Attention, small: bool) -> int:
    """Compare, and unless `small` time; 1: too far from the reference."""
    shape = SMALL if small else SHAPE
    generator = torch.Generator("cuda").manual_seed(7)
    q, k, v = (torch.randn(*shape, asked.head, device="cuda", generator=generator).to(torch.bfloat16) for _ in "qkv")
    o = torch.full_like(q, float("nan"))
    ours = launcher(asked, q, k, v, o)
    ours()
    torch.cuda.synchronize()
    wanted = reference(asked, q, k, v)
    error, answer = apart(o, wanted), {"kernel": asked.name, "shape": [*shape, asked.head]}
    answer["error"] = error
    if not small:
        theirs = partial(flash, asked, q, k, v)
        answer["error_of_flash"] = apart(theirs(), wanted)
        answer |= rates(asked, shape, timed([ours, theirs]))
    print(json.dumps(answer), flush=True)
    return int(not error < MOST_ERROR)


def launcher(asked: Attention, *given: torch.Tensor):
    """A function that launches the kernel."""
    gpu = Gpu()
    gpu.open(0)
    shared, q = attention.shared_bytes(asked), given[0]
    target = "sm_90a" if asked.arch == "sm_90" else f"sm_{''.join(map(str, torch.cuda.get_device_capability()))}"
    function = gpu.compile(attention.source(asked), asked.name, target, shared, FLAGS)
    batch, heads, length, head = q.shape
    held = [np.uint64(one.data_ptr()) for one in given]
    if asked.arch == "sm_90":
        tiles = attention.tiles(asked)
        maps = [tensor_map(tiles[name], one) for name, one in zip("qkv", given, strict=False)]
        held = [*maps, held[3]]
    form = attention.FORMS[asked.arch, asked.head]
    grid = (length // (form.warps * form.rows), batch * heads, 1)
    scale = np.float32(math.log2(math.e) / math.sqrt(head))
    return partial(
        function, grid, (attention.threads(asked), 1, 1), (*held, np.int32(length), scale), shared_mem=shared
    )


def tensor_map(tile: descriptor.SharedTile, matrix: torch.Tensor):
    """The tensor map of Q, K or V as one matrix of all lines, on the device."""
    box = descriptor.tma(tile)
    kind, mode = box["data_type"].rpartition("_TYPE_")[2], box["swizzle"].rpartition("_SWIZZLE_")[2]
    sizes = (matrix.shape[-1], matrix.numel() // matrix.shape[-1])
    code, raw = driver.encode_map(packed_map(kind, sizes, tuple(box["box"]), mode), matrix.data_ptr())
    if code:
        raise RuntimeError(f"cuTensorMapEncodeTiled: {driver.result_name(code)}")
    return cupy.asarray(np.frombuffer(raw, np.uint8))


def reference(asked: Attention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention in f64, a head after the other."""
    length, head = q.shape[-2:]
    hidden = torch.ones(length, length, device="cuda", dtype=torch.bool).triu(1) if asked.causal else None
    found = []
    for one_q, one_k, one_v in zip(*(one.reshape(-1, length, head).double() for one in (q, k, v)), strict=True):
        scores = one_q @ one_k.T / math.sqrt(head)
        if hidden is not None:
            scores.masked_fill_(hidden, -math.inf)
        found.append(torch.softmax(scores, -1) @ one_v)
    return torch.stack(found).reshape(q.shape)


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of the difference, by that of what is wanted."""
    return float(((found.double() - wanted).square().mean() / wanted.square().mean()).sqrt())


def flash(asked: Attention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """PyTorch's flash backend."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=asked.causal)


def timed(calls: list) -> list[float]:
    """Least milliseconds of each call, taken alternately."""
    best = [math.inf] * len(calls)
    for number in range(8):
        for which, call in enumerate(calls):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(3):
                call()
            end.record()
            torch.cuda.synchronize()
            if number:
                best[which] = min(best[which], begin.elapsed_time(end) / 3)
    return best


def rates(asked: Attention, shape: tuple[int, int, int], times: list[float]) -> dict[str, float]:
    """TFLOP/s of ours and theirs; of a causal product half the scores count."""
    batch, heads, length = shape
    work = 4 * batch * heads * length**2 * asked.head / (2 if asked.causal else 1)
    ours, theirs = (work / ms / 1e9 for ms in times)
    return {"tflops": round(ours, 1), "flash": round(theirs, 1), "ratio": round(ours / theirs, 3)}
