"""On a live GPU: tiles that paths bring into shared memory are multiplied there by wgmma, and D is NumPy's."""

import numpy as np
import pytest
import wgmma_products
from test_gpu_path import encoded
from wgmma_products import PRODUCTS

from tcprobe.ask.path.steps import BoxCopy
from tcprobe.isa.arch import arch
from tcprobe.run.gpu import Gpu

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def functions():
    """Every kernel by name, for sm_90a."""
    cupy = pytest.importorskip("cupy")
    gpu = Gpu()
    gpu.open(0)
    if arch(gpu.devices()[0].arch).name != "sm_90":
        pytest.skip("wgmma needs sm_90a")
    return {wgmma_products.kernel(product): compiled(cupy, product) for product in PRODUCTS}


def compiled(cupy, product):
    """Through PTX, as the driver takes it: nothing else names the target with its suffix."""
    nvrtc = cupy.cuda.nvrtc
    program = nvrtc.createProgram(wgmma_products.program(product), "product.cu", [], [])
    nvrtc.compileProgram(program, ["-arch=compute_90a", "-std=c++17"])
    text = nvrtc.getPTX(program)
    module = cupy.cuda.function.Module()
    module.load(text if isinstance(text, bytes) else text.encode())
    return module.get_function(wgmma_products.kernel(product))


def tensor_map(plan, memory):
    """The map of an operand's boxes on the device; zeros where there are none."""
    import cupy

    if not isinstance(plan.transfer, BoxCopy):
        return cupy.asarray(np.zeros(128, np.uint8))
    return encoded(plan.transfer, plan.request.tile, memory)


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_are_numpys(functions, product):
    import cupy

    plans = wgmma_products.plans(product)
    for seed in (1, 2, 3):
        wanted, a, b = wgmma_products.operands(product, seed)
        given = [cupy.asarray(a), cupy.asarray(b)]
        maps = [tensor_map(plans[o], memory) for o, memory in zip("ab", given, strict=True)]
        size = wanted.size * product.row.fragment("d").slot_bits // 8
        made = cupy.zeros(size, np.uint8)
        functions[wgmma_products.kernel(product)]((1,), (wgmma_products.THREADS,), (*given, *maps, made))
        cupy.cuda.runtime.deviceSynchronize()
        assert np.array_equal(wgmma_products.numbers(product, made.get()), wanted)
