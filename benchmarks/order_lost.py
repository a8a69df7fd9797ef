"""What `tcprobe order` says of cublasLtMatmul where it leaves out the end of k: f16, row-major, 32 MiB of workspace.

    python benchmarks/order_lost.py                                     # on a GPU, with PyTorch: all of CASES
    tcprobe order benchmarks/order_lost.py:matmul --shape 1x8x11528 --type f16,f16,f32

facebookexperimental/triton#2767 names the shapes: of k = 11,528 and 57,608 the last 8 products are lost on sm_90 by
some versions, of 11,520 and 57,664 none. What is lost, D of ones says beside it. Exit code 1: `order` names
another number of products, or an order is not proven.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from typing import Any

import torch

# of library_types.h, cublas_api.h and cublasLt.h
CUDA_R_32F, CUDA_R_16F, CUBLAS_COMPUTE_32F = 0, 2, 68
LAYOUT_ORDER, ORDER_ROW = 1, 1
WORKSPACE = 32 << 20
SIDES = ((1, 8), (32, 32), (64, 64), (128, 128))
CASES = (
    *((m, n, k) for k in (11528, 57608) for m, n in SIDES),
    *((m, n, k) for k in (11520, 57664) for m, n in SIDES[::3]),  # which have an order that takes longer to be proven
)


def ok(status: int) -> None:
    """RuntimeError for a cublasStatus_t."""
    if status:
        raise RuntimeError(f"cuBLASLt says {status}")


@functools.cache
def library() -> tuple[ctypes.CDLL, ctypes.c_void_p, torch.Tensor]:
    """The library that PyTorch has loaded, a handle, and the workspace."""
    torch.ones(16, 16, device="cuda") @ torch.ones(16, 16, device="cuda")
    major = (torch.version.cuda or "13").split(".")[0]
    found, handle = ctypes.CDLL(f"libcublasLt.so.{major}"), ctypes.c_void_p()
    found.cublasLtGetVersion.restype = ctypes.c_size_t
    ok(found.cublasLtCreate(ctypes.byref(handle)))
    return found, handle, torch.empty(WORKSPACE, dtype=torch.int8, device="cuda")


def layout(kind: int, rows: int, cols: int) -> ctypes.c_void_p:
    """A row-major matrix without gaps."""
    found, made, row = library()[0], ctypes.c_void_p(), ctypes.c_int32(ORDER_ROW)
    sides = ctypes.c_uint64(rows), ctypes.c_uint64(cols), ctypes.c_int64(cols)
    ok(found.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, *sides))
    ok(found.cublasLtMatrixLayoutSetAttribute(made, LAYOUT_ORDER, ctypes.byref(row), ctypes.c_size_t(4)))
    return made


@functools.cache
def plan(m: int, n: int, k: int) -> tuple[ctypes.c_void_p, ...]:
    """The multiply, and layouts of A, B and D."""
    made = ctypes.c_void_p()
    ok(library()[0].cublasLtMatmulDescCreate(ctypes.byref(made), CUBLAS_COMPUTE_32F, CUDA_R_32F))
    return made, layout(CUDA_R_16F, m, k), layout(CUDA_R_16F, k, n), layout(CUDA_R_32F, m, n)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """D of f32 by the algorithm that the library chooses itself (`algo` NULL)."""
    found, handle, workspace = library()
    (m, k), n = a.shape, b.shape[1]
    d = torch.empty(m, n, dtype=torch.float32, device="cuda")
    multiply, of_a, of_b, of_d = plan(m, n, k)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (a, b, d)]
    ok(
        found.cublasLtMatmul(
            *(handle, multiply, ctypes.byref(one), pointers[0], of_a, pointers[1], of_b),
            *(ctypes.byref(zero), pointers[2], of_d, pointers[2], of_d, None),
            *(ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(WORKSPACE)),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )
    )
    return d


def ones(m: int, n: int, k: int) -> float:
    """The least element of D of matrices of ones."""
    a, b = (torch.ones(sides, dtype=torch.float16, device="cuda") for sides in ((m, k), (k, n)))
    return float(matmul(a, b).min())


def words(made: Any, shape: tuple[int, int, int]) -> tuple[list[str], bool]:
    """What `order` says, and whether it is wrong."""
    from tcprobe.errors import TcprobeError
    from tcprobe.order.answer import RevealedAnswer
    from tcprobe.order.bench import Shape
    from tcprobe.order.child import revealed_json
    from tcprobe.order.reveal import reveal_call

    try:
        found = reveal_call(made, Shape(*shape))
    except TcprobeError as error:
        return [f"{type(error).__name__}: {error}"], True
    span = {"sizes": [shape[0]], "proven": [], **revealed_json(found)}
    answer = RevealedAnswer("cublasLtMatmul", "m", (span,), None, (found.order,))
    missing = shape[2] - ones(*shape)
    named = sum(stop - start for start, stop in answer.lost)
    lines = [f"D of ones lacks {missing:g}", *answer.in_words, f"{found.calls} calls; {found.stages}"]
    return lines, named != missing or not (named or found.proven)


def main() -> int:
    """A paragraph for each case."""
    from tcprobe.order.calls import CallOptions, call

    version = library()[0].cublasLtGetVersion()
    print(f"cublasLt {version}, {torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    made, wrong = call(f"{__file__}:matmul", ["f16", "f16", "f32"], CallOptions()), 0
    for m, n, k in CASES:
        start = time.perf_counter()
        said, amiss = words(made, (m, n, k))
        wrong += amiss
        print(f"{m} x {n} x {k}: {time.perf_counter() - start:.1f} s{', UNEXPECTED' if amiss else ''}")
        print(
            "".join(f"  {line[:160]}\n" for line in (said if len(said) < 8 else said[:4] + said[-3:])),
            end="",
            flush=True,
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
