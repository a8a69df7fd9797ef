"""The headers that `tcprobe path` prints: compiled by NVRTC, ptxas and nvcc, and refused without a formula."""

import shutil
import subprocess
import sys

import nvrtc
import path_cases
import path_products
import pytest
from test_path import F16, plan

from tcprobe.ask.path.code import source
from tcprobe.errors import UsageError
from tcprobe.sass import toolchain

linux = pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")


@pytest.mark.full
@linux
def test_every_kernel_of_the_gpu_tests_compiles(tmp_path, sample):
    """By NVRTC and by ptxas; no array of registers ends up in local memory."""
    lib, tools = nvrtc.library(), toolchain.find()
    for number, chunk in enumerate(path_cases.chunks(sample(path_products.all_sources(), 5), 31)):
        text = nvrtc.ptx(lib, "\n".join(chunk), "-arch=sm_90", "-std=c++17")
        assert ".local" not in text
        file = tmp_path / f"{number}.ptx"
        file.write_text(text)
        command = [str(tools.ptxas), "-O1", "-arch=sm_90", str(file), "-o", str(file.with_suffix(".cubin"))]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr


@linux
def test_headers_compile_without_a_warning():
    """Each twice, as two files that include it would have it."""
    headers = [source(path_cases.plan(case)) for case in path_cases.CASES[::9]]
    done, log = nvrtc.compile_cuda(nvrtc.library(), "\n".join(headers * 2), "-arch=sm_90", "-std=c++17")
    assert (done, log) == (True, "")


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc here")
def test_nvcc_compiles_a_header_and_its_kernel(tmp_path):
    (tmp_path / "path.cu").write_text(path_cases.program(0))
    command = [
        "nvcc",
        "-arch=sm_90",
        "-std=c++17",
        "-cubin",
        "-o",
        str(tmp_path / "path.cubin"),
        str(tmp_path / "path.cu"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_formula_no_code(monkeypatch):
    from tcprobe.ask.path import formula

    monkeypatch.setattr(formula, "_linear", lambda values: None)
    monkeypatch.setattr(formula, "fit_affine", lambda *given: None)
    with pytest.raises(UsageError, match="no closed form"):
        source(plan(F16 + ".a", "64x64", "row"))
