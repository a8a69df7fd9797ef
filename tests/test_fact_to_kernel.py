"""docs/fact_to_kernel.md: the kernel on the page compiles with the headers that the page's commands write."""

import re
import shlex
from pathlib import Path

import numpy as np
import nvrtc
import pytest
from click.testing import CliRunner

from tcprobe.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "fact_to_kernel.md"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The kernel with its headers in place."""
    folder, page = tmp_path_factory.mktemp("headers"), PAGE.read_text("utf-8")
    for command in re.findall(r"^\$ tcprobe (.* -o \w+\.cuh)$", page, re.MULTILINE):
        words = shlex.split(command)
        assert CliRunner().invoke(main, [*words[:-1], str(folder / words[-1])]).exit_code == 0
    [kernel] = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    return re.sub(r'#include "(.*)"', lambda name: (folder / name[1]).read_text().replace("#pragma once", ""), kernel)


@pytest.mark.full
def test_the_kernel_compiles(text):
    library = nvrtc.library()
    if not library:
        pytest.skip("no NVRTC here")
    for target in ("sm_80", "sm_90"):
        assert nvrtc.compile_cuda(library, text, f"-arch={target}", "-std=c++17", "-DTCPROBE_ANY_ARCH") == (True, "")


def test_ten_commands():
    numbers = re.findall(r"^(\d+)(?: and (\d+))?: ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [int(one) for pair in numbers for one in pair if one] == list(range(1, 11))


@pytest.mark.gpu
def test_its_product_is_numpys(text):
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    if int(gpu.devices()[0].arch[3:]) < 80:
        pytest.skip("the kernel is of sm_80 and later")
    gpu.open(0)
    function = gpu.compile("#define TCPROBE_ANY_ARCH\n" + text, "gemm", gpu.devices()[0].arch, 33792)
    m, n, k = 256, 384, 192
    a, b = (np.random.default_rng(3).integers(-3, 4, size) for size in ((m, k), (n, k)))
    held = [gpu.cupy.asarray(one.astype(np.float32).view(np.uint32) >> 16, np.uint16) for one in (a, b)]
    d = gpu.cupy.zeros((m, n), np.float32)
    function((n // 128, m // 128, 1), (128, 1, 1), (*held, d, np.int32(n), np.int32(k)), shared_mem=33792)
    assert (d.get() == a @ b.T).all()
