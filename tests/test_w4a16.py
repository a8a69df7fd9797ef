"""The example of a product with weights of 4 bits: it is assembled, and on a GPU it is NumPy's, element by element."""

import sys
from pathlib import Path

import numpy as np
import nvrtc
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import w4a16


@pytest.mark.parametrize(
    ("kind", "group", "arch", "warps"),
    [("s4", 128, "sm_80", (1, 4)), ("u4", 32, "sm_90", (2, 8)), ("s4", 256, "sm_120", (1, 4)),
     ("u4", 16, "sm_100", (1, 4)), ("s4", 128, "sm_86", (2, 8))],
)  # fmt: skip
def test_it_compiles_without_a_word(kind, group, arch, warps):
    library = nvrtc.library()
    assert library
    text = w4a16.source(w4a16.Asked(kind, group, arch, warps))
    assert nvrtc.compile_cuda(library, text, f"-arch={arch}", "-std=c++17") == (True, "")


def test_nothing_but_the_loop_is_by_hand():
    asked = w4a16.Asked("s4", 128, "sm_80")
    text = w4a16.source(asked)
    for line in ("mma.sync.aligned.m16n8k16", "ldmatrix.sync.aligned", "lop3.b32", "cp.async.cg", "ld.global.nc.v4"):
        assert line in text
        assert line not in w4a16.KERNEL
    assert asked.shared_bytes <= 48 << 10


def test_the_source_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no compiler
    assert w4a16.main(["-o", str(tmp_path / "w4a16.cu")]) == 0
    assert "no nvcc here" in capsys.readouterr().out
    assert 'extern "C" __global__' in (tmp_path / "w4a16.cu").read_text()


def test_a_group_that_cannot_be(capsys, tmp_path):
    assert w4a16.main(["--group", "48", "-o", str(tmp_path / "x.cu")]) == 2
    assert "--group 48" in capsys.readouterr().err


def test_problems_are_exact():
    given = w4a16.problem(w4a16.Asked("s4", 32, "sm_80"), (64, 128, 256), 0)
    assert (given.dense.astype(np.float16) == given.dense).all()
    assert given.scales.shape == (8, 128)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["s4", "u4"])
@pytest.mark.parametrize("group", [16, 32, 64, 128, 256, 512])
def test_products_are_numpys(kind, group):
    gpu = w4a16.OnGpu(w4a16.Asked(kind, group, "sm_80"))
    for seed, size in enumerate(w4a16.SHAPES):
        assert gpu.differing(size, seed) == (0, 0.0)
