"""The examples' kernels on the CPU: attention within bf16's rounding of f64, the GEMMs to the bit; nothing is found."""

import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import nvrtc
import pytest

import tcprobe

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import attention
import launches
import wgmma_gemm

LIBRARY = nvrtc.library()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the wheel of NVRTC is not installed")
MOST_ERROR = 5e-3  # of bf16 results, as of attention_run.py


def emulated(example):
    """What an example writes, once the emulator has found nothing."""
    target = example.target.replace("sm", "compute")
    text = nvrtc.ptx(LIBRARY, example.source, f"-arch={target}", "-std=c++17", "-DTCPROBE_ANY_ARCH")
    done = tcprobe.emulate(text, launch=example.launch)
    assert done.report.finished
    assert done.findings == []
    return done.arrays[example.result]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("head", attention.HEADS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_attention(arch, head, causal):
    example = launches.of_attention(arch, head, causal)
    q, k, v = (each.astype(float) for each in example.given)
    s, there = q @ k.transpose(0, 2, 1) / math.sqrt(head), np.tril(np.ones((q.shape[1], k.shape[1]), bool))
    p = np.exp(np.where(there, s, -np.inf) if causal else s)
    wanted = p / p.sum(-1, keepdims=True) @ v
    o = emulated(example).view(ml_dtypes.bfloat16).astype(float)
    assert np.sqrt(((o - wanted) ** 2).mean() / (wanted**2).mean()) < MOST_ERROR


@pytest.mark.parametrize("kind", wgmma_gemm.KINDS)
def test_wgmma_gemm(kind):
    example = launches.of_wgmma_gemm(kind)
    a, b = example.given
    assert (emulated(example) == wgmma_gemm.rounded(kind, a @ b)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("zeros", [False, True], ids=["plain", "zero points"])
@pytest.mark.parametrize("type_", ["s4", "u4"])
def test_w4a16(type_, zeros, splits):
    example = launches.of_w4a16(type_, zeros, splits)
    (given,), found = example.given, emulated(example)
    made = found.view(np.float16) if splits == 1 else found.sum(0).astype(np.float16)
    assert (made == (given.a @ given.dense).astype(np.float16)).all()
