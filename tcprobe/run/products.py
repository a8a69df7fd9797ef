"""A GEMM's kernel on a GPU: its products beside NumPy's, its time beside cuBLAS's on the same matrices.

All numbers are whole and small, so that products are exact whatever the order of their sums.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, ProbeError
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array, Ints
from tcprobe.references.shared_memory.tensor_map import packed
from tcprobe.run import driver
from tcprobe.run.gpu import Gpu
from tcprobe.run.multiplicands import matrix, patterns
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

ProductSize = tuple[int, int, int]
COMPARED: ProductSize = (523, 389, 331)  # with an edge on every side of every tile
TIMED: ProductSize = (4096, 4096, 4096)
NUMBERS = range(-3, 4)  # what matrices consist of
ROUNDS, CALLS = 6, 4
UNWRITTEN = 0x55
# cudaDataType and cublasComputeType_t (library_types.h, cublas_api.h) of what cublasGemmEx multiplies, by (type, out)
FLOAT, WHOLE = (68, np.float32), (72, np.int32)
PEERS = {
    ("f16", "f16"): (2, 2, *FLOAT),
    ("f16", "f32"): (2, 0, *FLOAT),
    ("bf16", "bf16"): (14, 14, *FLOAT),
    ("bf16", "f32"): (14, 0, *FLOAT),
    ("tf32", "f32"): (0, 0, 77, np.float32),
    ("s8", "s32"): (3, 10, *WHOLE),
}
FASTEST = -1  # CUBLAS_GEMM_DEFAULT


@dataclass(frozen=True)
class ProductRun:
    """What a GPU says of a kernel: elements of the `compared` product that are not NumPy's, bytes written `outside` D,
    and of the `timed` one the TFLOP/s (10^12 operations) of the kernel and of cuBLAS, None where that has none such.

    `apart`: elements of the timed product in which the two differ.
    """

    device: str
    compared: ProductSize
    wrong: int
    outside: int
    timed: ProductSize
    tflops: float
    cublas: float | None
    ratio: float | None
    apart: int | None

    @property
    def right(self) -> bool:
        """Whether all products are exact and nothing else is written."""
        return not (self.wrong or self.outside or self.apart)

    def to_json(self) -> Json:
        """Plain data."""
        return {**asdict(self), "compared": list(self.compared), "timed": list(self.timed)}


class Lines:
    """A matrix on the GPU, its lines a multiple of 16 bytes apart; `bit_patterns` are its bits, as unsigned numbers."""

    def __init__(self, cupy: Any, bit_patterns: Array, gap: int = 16) -> None:
        self.lines, self.length, self.size = *bit_patterns.shape, bit_patterns.itemsize
        self.ld = -(-self.length * self.size // 16) * 16 + gap
        whole = np.full((self.lines, self.ld), UNWRITTEN, np.uint8)
        whole[:, : self.length * self.size] = np.ascontiguousarray(bit_patterns).view(np.uint8)
        self.kind, self.memory = bit_patterns.dtype, cupy.asarray(whole)

    @property
    def address(self) -> int:
        """Of the first element."""
        return int(self.memory.data.ptr)

    def read(self) -> tuple[Array, int]:
        """(the values, how many bytes between lines are no longer as they were)."""
        image = self.memory.get()
        used = self.length * self.size
        return np.ascontiguousarray(image[:, :used]).view(self.kind), int((image[:, used:] != UNWRITTEN).sum())


def product(kernel: GemmKernel, timed: ProductSize | None = None) -> ProductRun:
    """Run it on the first GPU; EnvironmentUnfitError without one that the kernel is for, ProbeError where it faults."""
    gpu = Gpu()
    device = gpu.devices()[0]
    _check(kernel, device.name, device.arch)
    gpu.open(0)
    target = "sm_90a" if kernel.maps else device.arch
    function = gpu.compiled(kernel.source, kernel.name, target, kernel.shared_bytes)
    with gpu.faults():
        wrong, outside = _compared(gpu, kernel, function, COMPARED)
        tflops, peer, apart = _timed(gpu, kernel, function, timed or TIMED)
    return ProductRun(
        device.name, COMPARED, wrong, outside, timed or TIMED, tflops, peer, peer and round(tflops / peer, 3), apart
    )


def _check(kernel: GemmKernel, name: str, gpu_arch: str) -> None:
    """EnvironmentUnfitError where a GPU cannot run the kernel."""
    needed, there = kernel.gemm.arch, arch(gpu_arch)
    if kernel.maps and there.name != needed.name:
        raise EnvironmentUnfitError(
            f"{name} is {there.name}; a wgmma kernel runs on {needed.name} only: use `arch` {there.name}."
        )
    if there.number < needed.number:
        raise EnvironmentUnfitError(f"{name} is {there.name}, older than {needed.name}: use `arch` {there.name}.")


def _drawn(kernel: GemmKernel, mnk: ProductSize) -> tuple[list[Array], list[Array]]:
    """A and B as numbers, and their lines in memory as bits."""
    (m, n, k), asked, rng = mnk, kernel.gemm, np.random.default_rng(21)
    held = matrix(asked.instruction, "a")
    known = patterns(np.array(NUMBERS, np.int64), held).astype(f"u{dtype(asked.type).bits // 8}")
    picks = [rng.integers(0, len(NUMBERS), shape, np.int8) for shape in ((m, k), (k, n))]
    numbers = [pick + np.int64(NUMBERS[0]) for pick in picks]
    along_rows = (asked.a == "row", asked.b == "row")
    return numbers, [known[pick if rows else pick.T] for pick, rows in zip(picks, along_rows, strict=True)]


def _result(kernel: GemmKernel, mnk: ProductSize) -> Array:
    return np.full((mnk[0], mnk[1]), 0, f"u{dtype(kernel.gemm.out).bits // 8}")


def _compared(gpu: Gpu, kernel: GemmKernel, launched: Any, mnk: ProductSize) -> tuple[int, int]:
    """(elements that are not NumPy's, bytes written outside)."""
    (a, b), images = _drawn(kernel, mnk)
    held = [Lines(gpu.cupy, one) for one in (*images, ~_result(kernel, mnk))]
    _launcher(kernel, launched, held, mnk)()
    found, outside = held[2].read()
    return int((found != stored(a @ b, kernel.gemm.out)).sum()), outside


def stored(products: Ints, out: str) -> Array:
    """The bits of whole products in the type that D is stored as, rounded to the nearest, ties to even.

    >>> [hex(bits) for bits in stored(np.array([257, 259, -1]), "bf16")]
    ['0x4380', '0x4382', '0xbf80']
    """
    if out == "bf16":
        bits = products.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[out]
    return products.astype(kind).view(f"u{dtype(out).bits // 8}")


def _timed(gpu: Gpu, kernel: GemmKernel, launched: Any, mnk: ProductSize) -> tuple[float, float | None, int | None]:
    """(TFLOP/s, cuBLAS's, elements in which the two differ), alternately on the same matrices."""
    _, images = _drawn(kernel, mnk)
    held = [Lines(gpu.cupy, one, 0) for one in (*images, _result(kernel, mnk), _result(kernel, mnk))]
    ours, theirs = _launcher(kernel, launched, held[:3], mnk), _peer(gpu, kernel, [*held[:2], held[3]], mnk)
    best = _least(gpu.cupy, [ours, theirs] if theirs else [ours])
    rates = [round(2 * mnk[0] * mnk[1] * mnk[2] / ms / 1e9, 1) for ms in best]
    if not theirs:
        return rates[0], None, None
    return rates[0], rates[1], int((held[2].read()[0] != held[3].read()[0]).sum())


def _launcher(kernel: GemmKernel, launched: Any, abd: Sequence[Lines], mnk: ProductSize) -> Callable[[], None]:
    """A function that launches the kernel over A, B and D."""
    a, b, d = abd
    sizes = [ctypes.c_int(side) for side in mnk]
    if kernel.maps:
        maps = [_map(box, one) for box, one in zip(kernel.maps.values(), abd, strict=False)]
        arguments = [*maps, ctypes.c_void_p(d.address), ctypes.c_longlong(d.ld), *sizes]
    else:
        arguments = [
            *(ctypes.c_void_p(one.address) for one in (a, b, d)),
            *sizes,
            *(ctypes.c_longlong(one.ld) for one in (a, b, d)),
        ]

    def launch() -> None:
        code = driver.launched(launched.ptr, kernel.grid(*mnk[:2]), kernel.block, kernel.shared_bytes, arguments)
        if code:
            raise ProbeError(f"{kernel.name} could not be launched: {driver.result_name(code)}.")

    return launch


def _map(tma_box: Json, lines: Lines) -> Any:
    """A tensor map of lines, as an argument."""
    kind, mode = tma_box["data_type"].rpartition("_TYPE_")[2], tma_box["swizzle"].rpartition("_SWIZZLE_")[2]
    made = packed(kind, (lines.length, lines.lines), tuple(tma_box["box"]), mode)._replace(strides=(lines.ld,))
    code, raw = driver.encoded(made, lines.address)
    if code:
        raise ProbeError(f"cuTensorMapEncodeTiled: {driver.result_name(code)} for {made}.")
    return (ctypes.c_byte * len(raw)).from_buffer_copy(raw)


def _peer(gpu: Gpu, kernel: GemmKernel, abd: Sequence[Lines], mnk: ProductSize) -> Callable[[], None] | None:
    """The same product by cublasGemmEx, None where it takes none such; it counts columns first, so D' = B' A'."""
    asked, (m, n, k) = kernel.gemm, mnk
    if (asked.type, asked.out) not in PEERS:
        return None
    kind, out, compute, scalar = PEERS[asked.type, asked.out]
    cublas, handle = gpu.cupy.cuda.cublas, gpu.cupy.cuda.device.get_cublas_handle()
    one, zero = np.ones(1, scalar), np.zeros(1, scalar)
    a, b, d = ((matrix_.address, matrix_.ld // matrix_.size) for matrix_ in abd)
    turned = int(asked.b == "col"), int(asked.a == "col")

    def call() -> None:
        cublas.gemmEx(
            handle,
            *turned,
            n,
            m,
            k,
            one.ctypes.data,
            b[0],
            kind,
            b[1],
            a[0],
            kind,
            a[1],
            zero.ctypes.data,
            d[0],
            out,
            d[1],
            compute,
            FASTEST,
        )

    try:
        call()
    except cublas.CUBLASError:  # it takes s8 with k contiguous alone
        return None
    return call


def _least(cupy: Any, calls: Sequence[Callable[[], None]]) -> list[float]:
    """Least milliseconds of each call, taken alternately."""
    best = [float("inf")] * len(calls)
    for number in range(ROUNDS + 1):
        for which, call in enumerate(calls):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            if number:
                best[which] = min(best[which], cupy.cuda.get_elapsed_time(begin, end) / CALLS)
    return best
