"""The examples' kernels on the CPU: attention within bf16's rounding of f64, the GEMMs to the bit; nothing is found."""

import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import nvrtc
import pytest

import tcprobe
from tcprobe.ask import descriptor
from tcprobe.isa.names import resolve
from tcprobe.run.multiplicands import matrix, patterns

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import attention
import w4a16
import w4a16_run
import wgmma_gemm

LIBRARY = nvrtc.library()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the wheel of NVRTC is not installed")
MOST_ERROR = 5e-3  # of bf16 results, as of attention_run.py


def emulated(source, target, launch):
    """The arrays, once the emulator has found nothing."""
    target = target.replace("sm", "compute")
    text = nvrtc.ptx(LIBRARY, source, f"-arch={target}", "-std=c++17", "-DTCPROBE_ANY_ARCH")
    done = tcprobe.emulate(text, launch=launch)
    assert done.report.finished
    assert done.findings == []
    return done.arrays


def tensor_map(tile, size, of):
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("head", attention.HEADS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_attention(arch, head, causal):
    asked, length, rng = attention.Attention(arch, head, causal), 256, np.random.default_rng(7)
    q, k, v = (rng.standard_normal((2, length, head)).astype(ml_dtypes.bfloat16) for _ in "qkv")
    scale, form = math.log2(math.e) / math.sqrt(head), attention.FORMS[arch, head]
    held = [each.view(np.uint16) for each in (q, k, v)]
    others = [np.zeros(q.shape, np.uint16), {"s32": length}, {"f32": scale}]
    if arch == "sm_90":
        tiles = attention.tiles(asked)
        others[:0] = [tensor_map(tiles[name], (head, 2 * length), 6 + place) for place, name in enumerate("qkv")]
    launch = {
        "kernel": asked.name,
        "grid": [length // (form.warps * form.rows), 2, 1],
        "block": [attention.threads(asked), 1, 1],
        "shared": attention.shared_bytes(asked),
        "arguments": [*others, *held] if arch == "sm_90" else [*held, *others],
    }
    o = emulated(attention.source(asked), "sm_90a" if arch == "sm_90" else arch, launch)[3]
    s = q.astype(float) @ k.astype(float).transpose(0, 2, 1) / math.sqrt(head)
    p = np.exp(np.where(np.tril(np.ones((length, length), bool)), s, -np.inf) if causal else s)
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(float)
    error = np.sqrt(((o.view(ml_dtypes.bfloat16).astype(float) - wanted) ** 2).mean() / (wanted**2).mean())
    assert error < MOST_ERROR


@pytest.mark.parametrize("kind", wgmma_gemm.KINDS)
def test_wgmma_gemm(kind):
    a, b, out = wgmma_gemm.tiles(kind)
    m, n, k = 128, 128, 2 * a.k
    row, rng = resolve(wgmma_gemm.KINDS[kind].instruction).instruction, np.random.default_rng(3)
    given = rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))
    held = [patterns(given[0], matrix(row, "a")), patterns(given[1].T, matrix(row, "b"))]
    wanted = wgmma_gemm.rounded(kind, given[0] @ given[1])
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
            np.zeros_like(wanted),
        ],
    }
    assert (emulated(wgmma_gemm.source(kind), "sm_90a", launch)[6] == wanted).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("zeros", [False, True], ids=["plain", "zero points"])
@pytest.mark.parametrize("type_", ["s4", "u4"])
def test_w4a16(type_, zeros, splits):
    asked, (m, n, k) = w4a16.Asked(type_, 64, "sm_80", zeros), (64, 128, 128)
    given, module = w4a16_run.problem(asked, (m, n, k), 5), w4a16.packer(asked)
    parts, d = np.zeros((splits, m, n), np.float32), np.zeros((m, n), np.uint16)
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
            d,
            parts,
            {"s32": n},
            {"s32": k},
        ],
    }
    arrays = emulated(w4a16.source(asked), "sm_80", launch)
    made = arrays[4].view(np.float16) if splits == 1 else arrays[5].sum(0).astype(np.float16)
    assert (made == (given.a @ given.dense).astype(np.float16)).all()
