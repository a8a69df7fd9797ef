"""On a live GPU: paths and straight loads bring every byte to its place, and products by paths are NumPy's."""

import ctypes

import numpy as np
import path_cases
import path_products
import pytest
from path_cases import CASES
from path_products import PRODUCTS, STRAIGHT

from tcprobe.isa.arch import arch
from tcprobe.run.gpu import Gpu

pytestmark = pytest.mark.gpu
SEEDS = (1, 2)
WORDS = {1: 0, 2: 1, 4: 2, 8: 4}  # CUtensorMapDataType: UINT8, UINT16, UINT32, UINT64
MODES = {"SWIZZLE_NONE": 0, "SWIZZLE_32B": 1, "SWIZZLE_64B": 2, "SWIZZLE_128B": 3}


@pytest.fixture(scope="module")
def functions():
    """Every kernel by name, on the first device; the first of sm_90 or later that tensor maps and stmatrix need."""
    cupy = pytest.importorskip("cupy")
    gpu = Gpu()
    gpu.open(0)
    if arch(gpu.devices()[0].arch).number < 90:
        pytest.skip("stmatrix and tensor maps need sm_90")
    kernels = [
        *((path_cases.kernel(n), path_cases.program(n)) for n in range(len(CASES))),
        *((path_products.kernel(p), path_products.program(p)) for p in PRODUCTS),
        *((path_products.straight_kernel(n), path_products.straight_program(n)) for n in range(len(STRAIGHT))),
    ]
    found = {}
    for chunk in path_cases.chunks(kernels, 16):
        unique = dict.fromkeys(text for _, text in chunk)
        module = cupy.RawModule(code="\n".join(unique), options=("-std=c++17",))
        found |= {name: module.get_function(name) for name, _ in chunk}
    return found


def launch(functions, name, *arguments, threads=32):
    """One block; device arrays as they are."""
    import cupy

    functions[name]((1,), (threads,), arguments)
    cupy.cuda.runtime.deviceSynchronize()


def tensor_map(case, memory):
    """The encoded map of a tile in device memory, on the device; a few zeros where the path needs none."""
    import cupy

    step = path_cases.by_tensor_map(case)
    if step is None:
        return cupy.asarray(np.zeros(128, np.uint8))
    return encoded(step, path_cases.plan(case).request.tile, memory)


def encoded(step, tile, memory):
    """The map of a step's boxes on the device."""
    import cupy

    held, size = (ctypes.c_byte * 256)(), step.bits // 8
    start = -(-ctypes.addressof(held) // 64) * 64  # the driver wants the map aligned to 64 bytes
    arguments = (
        ctypes.c_void_p(start),
        ctypes.c_int(WORDS[size]),
        ctypes.c_uint32(2),
        ctypes.c_void_p(memory.data.ptr),
        (ctypes.c_uint64 * 2)(tile.length, tile.lines),
        (ctypes.c_uint64 * 1)(step.ld),
        (ctypes.c_uint32 * 2)(*step.box),
        (ctypes.c_uint32 * 2)(1, 1),
        ctypes.c_int(0),
        ctypes.c_int(MODES[step.swizzle]),
        ctypes.c_int(0),
        ctypes.c_int(0),
    )
    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(*arguments)
    assert code == 0, f"cuTensorMapEncodeTiled: {code}"
    return cupy.asarray(np.frombuffer(ctypes.string_at(start, 128), np.uint8))


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: str(CASES[n]))
def test_every_byte_comes_to_its_place(functions, number):
    """Bit for bit; k steps load the same registers, and nothing is written into the gaps between lines."""
    import cupy

    case, loads = CASES[number], path_cases.plan(CASES[number]).request.loads
    for seed in SEEDS:
        data = path_cases.data(case, seed)
        if loads:
            given = cupy.asarray(data.image)
            twice = "load_k" in path_cases.program(number)
            made = cupy.zeros(data.registers.size * (1 + twice), np.uint8)
            launch(
                functions,
                path_cases.kernel(number),
                given,
                tensor_map(case, given),
                made,
                threads=path_cases.threads(case),
            )
            halves = made.get().reshape(1 + twice, -1)
            assert all(np.array_equal(half, data.registers) for half in halves)
        else:
            given, made = cupy.asarray(data.registers), cupy.zeros(data.image.size, np.uint8)
            launch(
                functions,
                path_cases.kernel(number),
                given,
                tensor_map(case, made),
                made,
                threads=path_cases.threads(case),
            )
            assert np.array_equal(made.get(), data.image)


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_products_are_numpys(functions, product):
    import cupy

    for seed in SEEDS:
        wanted, a, b = path_products.operands(product, seed)
        made = cupy.zeros(path_products.image(product.case("d"), wanted).size, np.uint8)
        launch(functions, path_products.kernel(product), cupy.asarray(a), cupy.asarray(b), made)
        assert np.array_equal(path_products.numbers(product, made.get()), wanted)


@pytest.mark.parametrize("number", range(len(STRAIGHT)), ids=lambda n: "-".join(map(str, STRAIGHT[n])))
def test_straight_loads_bring_every_element(functions, number):
    import cupy

    for seed in SEEDS:
        given, registers = path_products.straight_data(number, seed)
        made = cupy.zeros(registers.size, np.uint8)
        launch(functions, path_products.straight_kernel(number), cupy.asarray(given), made)
        assert np.array_equal(made.get(), registers)
