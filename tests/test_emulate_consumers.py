"""Kernels as CuTe DSL and Triton compile them, without a GPU, run on the CPU: exact products, and nothing is found."""

import ml_dtypes
import numpy as np
import pytest
from cute_dsl import for_arch

import tcprobe

SCHEDULES = [("late", 0), ("early", 0), ("random", 1)]
NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp8e4nv": ml_dtypes.float8_e4m3fn}


def whole(kind, shape, seed):
    """Small whole numbers, which every order of summing adds exactly."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(kind)


def right(text, launch, place, wanted):
    """Whatever the schedule, the buffer of an argument is what it must be, and nothing is found."""
    for schedule, seed in SCHEDULES:
        done = tcprobe.emulate(text, launch=launch, schedule=schedule, seed=seed)
        assert done.report.findings == []
        assert done.report.finished
        assert (done.arrays[place] == wanted).all()


def tensor_map(lines, length, box, of):
    """Of f16, in boxes of 128 bytes with the swizzle of as many."""
    described = {
        "tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
        "swizzle": "CU_TENSOR_MAP_SWIZZLE_128B",
        "boxDim": [64, box],
        "globalDim": [length, lines],
        "globalStrides": [2 * length],
    }
    return {"tensor_map": described, "of": of}


@pytest.mark.consumer("cutlass")
@pytest.mark.parametrize(
    ("arch", "multiply"), [("sm_80", "mma.sync"), ("sm_90a", "wgmma.mma_async"), ("sm_100a", "tcgen05.mma")]
)
def test_a_product_of_cute_dsl(arch, multiply, monkeypatch, tmp_path):
    monkeypatch.setenv("CUTE_DSL_DUMP_DIR", str(tmp_path))
    cute = for_arch(monkeypatch, arch)
    import cute_kernels

    tile_m, tile_n, tile_k = cute_kernels.TILES[arch]
    m, n, k = 2 * tile_m, 2 * tile_n, 3 * tile_k
    text = cute_kernels.compiled(cute, arch, m, n, k)
    assert multiply in text
    a, b, d = whole(np.float16, (m, k), 1), whole(np.float16, (n, k), 2), np.zeros((m, n), np.float32)
    maps = [tensor_map(m, k, tile_m, 4), tensor_map(n, k, tile_n, 5)]
    fields = {"sm_90a": 1, "sm_100a": 32}.get(arch, 0)  # bytes of the multiply's own fields, all off
    arguments = [{"bytes": "00" * fields}, *maps, d, a, b] if fields else [a, b, d]
    launch = {"grid": [2, 2, 1], "block": [128, 1, 1], "shared": 32768, "arguments": arguments}
    right(text, launch, 3 if fields else 2, a.astype(float) @ b.astype(float).T)


@pytest.mark.consumer("triton")
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, number) for kind in NUMPY for number in (75, 80, 90, 100, 120) if kind != "fp8e4nv" or number >= 90],
)
def test_a_product_of_triton(kind, number, monkeypatch, tmp_path):
    import triton
    import triton_kernels
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    m, n, tile_k, k = 64, 64, 32, 128
    pointer = f"*{kind}"
    signature = {"a": pointer, "b": pointer, "c": "*fp32", "K": "i32"} | dict.fromkeys(("M", "N", "KB"), "constexpr")
    source = ASTSource(
        fn=triton_kernels.product,
        signature=signature,
        constexprs={(4,): m, (5,): n, (6,): tile_k},
        attrs={(place,): [["tt.divisibility", 16]] for place in range(4)},
    )
    made = triton.compile(source, target=GPUTarget("cuda", number, 32), options={"num_warps": 4, "num_stages": 2})
    text = made.asm["ptx"]
    a, b = whole(NUMPY[kind], (m, k), 1), whole(NUMPY[kind], (k, n), 2)
    bits = {"bf16": np.uint16, "fp8e4nv": np.uint8}.get(kind, NUMPY[kind])
    arguments = [a.view(bits), b.view(bits), np.zeros((m, n), np.float32), {"s32": k}]
    scratch = text[text.index(".entry") :].partition(")")[0].count(".param") - len(arguments)
    arguments += [np.zeros(1024, np.uint8) for _ in range(scratch)]
    launch = {"block": [128, 1, 1], "shared": made.metadata.shared, "arguments": arguments}
    right(text, launch, 2, a.astype(float) @ b.astype(float))
