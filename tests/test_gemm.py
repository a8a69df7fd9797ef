"""The example of a GEMM: it compiles, and on a GPU of sm_90 it is NumPy's."""

import sys
from pathlib import Path

import numpy as np
import nvrtc
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import wgmma_gemm as gemm


@pytest.mark.parametrize("kind", gemm.KINDS)
def test_it_compiles_without_a_word(kind):
    library = nvrtc.library()
    assert library
    assert nvrtc.compile_cuda(library, gemm.source(kind), "-arch=sm_90a", "-std=c++17") == (True, "")


def test_all_layouts_are_answers():
    text = gemm.source("bf16")
    lines = (
        "0x4000004000010000ull",
        "store_registers",
        "stmatrix.sync.aligned.m8n8.x4",
        "desc_b + 6)",
        "+ 8192, map_d, blockIdx.y * 128 + 64",
    )
    for line in lines:
        assert line in text
    assert gemm.shared_bytes("bf16") <= 48 << 10


def test_bf16_is_rounded_to_the_nearest():
    values = np.array([[1, 257, 258, 259, -257, 0]])
    assert gemm.rounded("bf16", values).tolist() == [[0x3F80, 0x4380, 0x4381, 0x4382, 0xC380, 0]]
    assert gemm.rounded("s8", np.array([-300, 300, -5])).tolist() == [128, 127, 251]


def test_the_command(capsys):
    assert gemm.main(["s8"]) == 0
    assert "gemm_s8" in capsys.readouterr().out
    assert gemm.main(["s9"]) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("kind", gemm.KINDS)
def test_products_are_numpys(kind):
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    if gpu.devices()[0].arch != "sm_90":
        pytest.skip("wgmma is sm_90's alone")
    function, k = gemm.compiled(kind), gemm.tiles(kind)[0].k
    for seed, size in enumerate(((64, 128, k), (64, 128, 5 * k), (192, 384, 4 * k))):
        assert gemm.differing(kind, function, size, seed) == 0
