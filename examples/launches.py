"""The examples' kernels with small operands from a seed: CUDA C++ and launches as `tcprobe.emulate` takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import attention
import ml_dtypes
import numpy as np
import w4a16
import w4a16_run
import wgmma_gemm

from tcprobe.ask import descriptor
from tcprobe.isa.names import resolve
from tcprobe.run.multiplicands import matrix, patterns

LENGTH = 256  # of attention's sequences


class Example(NamedTuple):
    """A kernel of a PTX target, its launch, which argument it writes, and the operands as numbers."""

    name: str
    source: str
    target: str
    launch: dict[str, Any]
    result: int
    given: tuple[Any, ...]


def tensor_map(tile: descriptor.SharedTile, size: tuple[int, int], of: int) -> dict[str, Any]:
    """A map of a matrix of `size` (contiguous, lines) over the buffer of argument `of`."""
    box = descriptor.tma(tile)
    return {
        "tensor_map": {
            "tensorDataType": box["data_type"],
            "swizzle": box["swizzle"],
            "boxDim": list(box["box"]),
            "globalDim": list(size),
            "globalStrides": [size[0] * tile.bits // 8],
        },
        "of": of,
    }


def of_attention(arch: str, head: int, causal: bool) -> Example:
    """examples/attention.py on two sequences; given: q, k, v."""
    asked, rng = attention.Attention(arch, head, causal), np.random.default_rng(7)
    q, k, v = (rng.standard_normal((2, LENGTH, head)).astype(ml_dtypes.bfloat16) for _ in "qkv")
    scale, form = math.log2(math.e) / math.sqrt(head), attention.FORMS[arch, head]
    held = [each.view(np.uint16) for each in (q, k, v)]
    others = [np.zeros(q.shape, np.uint16), {"s32": LENGTH}, {"f32": scale}]
    if arch == "sm_90":
        tiles = attention.tiles(asked)
        others[:0] = [tensor_map(tiles[name], (head, 2 * LENGTH), 6 + place) for place, name in enumerate("qkv")]
    launch = {
        "kernel": asked.name,
        "grid": [LENGTH // (form.warps * form.rows), 2, 1],
        "block": [attention.threads(asked), 1, 1],
        "shared": attention.shared_bytes(asked),
        "arguments": [*others, *held] if arch == "sm_90" else [*held, *others],
    }
    return Example(asked.name, attention.source(asked), "sm_90a" if arch == "sm_90" else arch, launch, 3, (q, k, v))


def of_wgmma_gemm(kind: str) -> Example:
    """examples/wgmma_gemm.py on one tile of whole numbers; given: A, B."""
    a, b, out = wgmma_gemm.tiles(kind)
    m, n, k = 128, 128, 2 * a.k
    row, rng = resolve(wgmma_gemm.KINDS[kind].instruction).instruction, np.random.default_rng(3)
    given = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    held = [patterns(given[0], matrix(row, "a")), patterns(given[1].T, matrix(row, "b"))]
    launch = {
        "kernel": f"gemm_{kind}",
        "grid": [m // wgmma_gemm.M, n // 128, 1],
        "block": [128, 1, 1],
        "shared": wgmma_gemm.shared_bytes(kind),
        "arguments": [
            tensor_map(a, (k, m), 4),
            tensor_map(b, (k, n), 5),
            tensor_map(out, (n, m), 6),
            {"s32": k // a.k},
            *(np.ascontiguousarray(each.astype(np.uint16 if kind == "bf16" else np.uint8)) for each in held),
            np.zeros_like(wgmma_gemm.rounded(kind, given[0] @ given[1])),
        ],
    }
    return Example(f"wgmma_gemm_{kind}", wgmma_gemm.source(kind), "sm_90a", launch, 6, given)


def of_w4a16(type_: str, zeros: bool, splits: int) -> Example:
    """examples/w4a16.py on numbers whose products are exact; given: the problem. Of more splits the parts count."""
    asked, (m, n, k) = w4a16.Asked(type_, 64, "sm_80", zeros), (64, 128, 128)
    given, module = w4a16_run.problem(asked, (m, n, k), 5), w4a16.packer(asked)
    launch = {
        "kernel": "w4a16",
        "grid": [m // w4a16.M, n // w4a16.N, splits],
        "block": [32 * w4a16.WARPS, 1, 1],
        "shared": w4a16.shared_bytes(asked),
        "arguments": [
            given.a.astype(np.float16),
            np.ascontiguousarray(module.repack(given.w)),
            given.scales.astype(np.float16),
            module.pack_zeros(given.zeros) if zeros else np.zeros(1, np.uint8),
            np.zeros((m, n), np.uint16),
            np.zeros((splits, m, n), np.float32),
            {"s32": n},
            {"s32": k},
        ],
    }
    name = f"w4a16_{type_}{'_zeros' if zeros else ''}_{splits}"
    return Example(name, w4a16.source(asked), "sm_80", launch, 4 if splits == 1 else 5, (given,))


def every() -> Iterator[Example]:
    """All of them."""
    for arch in ("sm_80", "sm_90"):
        for head in attention.HEADS:
            for causal in (False, True):
                yield of_attention(arch, head, causal)
    for kind in wgmma_gemm.KINDS:
        yield of_wgmma_gemm(kind)
    for type_ in ("s4", "u4"):
        for zeros in (False, True):
            for splits in (1, 2):
                yield of_w4a16(type_, zeros, splits)
