"""Runs a GEMM kernel on a GPU: compares its products with NumPy's and its time with cuBLAS's on the same matrices.

All numbers are whole and small, so that products are exact whatever the order of their sums.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, ProbeError
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array, Bits, Ints
from tcprobe.references.shared_memory.tensor_map import packed_map
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
    """The run of a kernel: `wrong` elements of the product of size `compared`, bytes written `outside` D, and TFLOP/s
    (10^12 operations a second) of the kernel and of cuBLAS for size `timed`; None if cuBLAS has no such multiply.

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
        return {**asdict(self), "compared": list(self.compared), "timed": list(self.timed)}


class Placed(Protocol):
    """A matrix in GPU memory: `lines` of `length` elements, `ld` bytes apart."""

    @property
    def address(self) -> int:
        """Of the first element."""

    @property
    def ld(self) -> int:
        """Bytes from line to line."""

    @property
    def lines(self) -> int:
        """How many there are."""

    @property
    def length(self) -> int:
        """Elements of a line."""


class Lines:
    """A matrix on the GPU, its lines a multiple of 16 bytes apart; `bit_patterns` are its bits, as unsigned numbers."""

    def __init__(self, cupy: Any, bit_patterns: Bits, gap: int = 16) -> None:
        self.lines, self.length, self.size = *bit_patterns.shape, bit_patterns.itemsize
        self.ld = -(-self.length * self.size // 16) * 16 + gap
        whole = np.full((self.lines, self.ld), UNWRITTEN, np.uint8)
        whole[:, : self.length * self.size] = np.ascontiguousarray(bit_patterns).view(np.uint8)
        self.kind, self.memory = bit_patterns.dtype, cupy.asarray(whole)

    @property
    def address(self) -> int:
        """The address of the first element."""
        return int(self.memory.data.ptr)

    def read(self) -> tuple[Array, int]:
        """(values, number of bytes between the lines that have changed)."""
        image = self.memory.get()
        used = self.length * self.size
        return np.ascontiguousarray(image[:, :used]).view(self.kind), int((image[:, used:] != UNWRITTEN).sum())


def product(kernel: GemmKernel, timed: ProductSize | None = None) -> ProductRun:
    """Run a kernel on the first GPU; EnvironmentUnfitError if the GPU cannot run it, ProbeError if it faults."""
    gpu = Gpu()
    device = gpu.devices()[0]
    _check(kernel, device.name, device.arch)
    gpu.open(0)
    target = "sm_90a" if kernel.maps else device.arch
    function = gpu.compile(kernel.source, kernel.name, target, kernel.shared_bytes)
    with gpu.faults():
        wrong, outside = _compare(gpu, kernel, function, COMPARED)
        tflops, peer, apart = _time_both(gpu, kernel, function, timed or TIMED)
    ratio = peer and round(tflops / peer, 3)
    return ProductRun(device.name, COMPARED, wrong, outside, timed or TIMED, tflops, peer, ratio, apart)


def _check(kernel: GemmKernel, name: str, gpu_arch: str) -> None:
    """EnvironmentUnfitError if a GPU cannot run the kernel."""
    needed, present = kernel.gemm.arch, arch(gpu_arch)
    if kernel.maps and present.name != needed.name:
        raise EnvironmentUnfitError(
            f"{name} is {present.name}; a wgmma kernel runs on {needed.name} only: use `arch` {present.name}."
        )
    if present.number < needed.number:
        raise EnvironmentUnfitError(f"{name} is {present.name}, older than {needed.name}: use `arch` {present.name}.")


def _random_matrices(kernel: GemmKernel, mnk: ProductSize) -> tuple[list[Array], list[Array]]:
    """A and B as numbers, and their lines in memory as bits."""
    (m, n, k), options, rng = mnk, kernel.gemm, np.random.default_rng(21)
    operand = matrix(options.instruction, "a")
    bits = patterns(np.array(NUMBERS, np.int64), operand).astype(f"u{dtype(options.type).bits // 8}")
    picks = [rng.integers(0, len(NUMBERS), shape, np.int8) for shape in ((m, k), (k, n))]
    numbers = [pick + np.int64(NUMBERS[0]) for pick in picks]
    along_rows = (options.a == "row", options.b == "row")
    return numbers, [bits[pick if rows else pick.T] for pick, rows in zip(picks, along_rows, strict=True)]


def _result(kernel: GemmKernel, mnk: ProductSize) -> Array:
    return np.full((mnk[0], mnk[1]), 0, f"u{dtype(kernel.gemm.out).bits // 8}")


def _compare(gpu: Gpu, kernel: GemmKernel, launched: Any, mnk: ProductSize) -> tuple[int, int]:
    """(number of elements that differ from NumPy's, bytes written outside D)."""
    (a, b), images = _random_matrices(kernel, mnk)
    matrices = [Lines(gpu.cupy, bits) for bits in (*images, ~_result(kernel, mnk))]
    launcher(kernel, launched, matrices, mnk)()
    d, outside = matrices[2].read()
    return int((d != rounded_bits(a @ b, kernel.gemm.out)).sum()), outside


def rounded_bits(products: Ints, out: str) -> Array:
    """The bits of whole products in the type that D is stored as, rounded to the nearest, ties to even.

    >>> [hex(bits) for bits in rounded_bits(np.array([257, 259, -1]), "bf16")]
    ['0x4380', '0x4382', '0xbf80']
    """
    if out == "bf16":
        bits = products.astype(np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[out]
    return products.astype(kind).view(f"u{dtype(out).bits // 8}")


def _time_both(gpu: Gpu, kernel: GemmKernel, launched: Any, mnk: ProductSize) -> tuple[float, float | None, int | None]:
    """(TFLOP/s, cuBLAS's TFLOP/s, number of elements that differ); both run alternately on the same matrices."""
    _, images = _random_matrices(kernel, mnk)
    matrices = [Lines(gpu.cupy, bits, 0) for bits in (*images, _result(kernel, mnk), _result(kernel, mnk))]
    ours = launcher(kernel, launched, matrices[:3], mnk)
    theirs = _cublas(gpu, kernel, [*matrices[:2], matrices[3]], mnk)
    best = _least(gpu.cupy, [ours, theirs] if theirs else [ours])
    rates = [round(2 * mnk[0] * mnk[1] * mnk[2] / ms / 1e9, 1) for ms in best]
    if not theirs:
        return rates[0], None, None
    return rates[0], rates[1], int((matrices[2].read()[0] != matrices[3].read()[0]).sum())


def launcher(kernel: GemmKernel, launched: Any, abd: Sequence[Placed], mnk: ProductSize) -> Callable[[], None]:
    """A function that launches the kernel over A, B and D."""
    arguments = _arguments(kernel, abd, mnk)

    def launch() -> None:
        code = driver.launch_kernel(launched.ptr, kernel.grid(*mnk[:2]), kernel.block, kernel.shared_bytes, arguments)
        if code:
            raise ProbeError(f"{kernel.name} could not be launched: {driver.result_name(code)}.")

    return launch


def _arguments(kernel: GemmKernel, abd: Sequence[Placed], mnk: ProductSize) -> list[Any]:
    """The kernel's arguments over A, B and D, as ctypes values."""
    a, b, d = abd
    sizes = [ctypes.c_int(side) for side in mnk]
    if kernel.maps:
        maps = [_map(box, matrix) for box, matrix in zip(kernel.maps.values(), abd, strict=False)]
        return [*maps, ctypes.c_void_p(d.address), ctypes.c_longlong(d.ld), *sizes]
    return [
        *(ctypes.c_void_p(matrix.address) for matrix in (a, b, d)),
        *sizes,
        *(ctypes.c_longlong(matrix.ld) for matrix in (a, b, d)),
    ]


_KEPT: list[Lines] = []  # the matrices of launches that others make


def launch(kernel: GemmKernel, mnk: ProductSize) -> tuple[tuple[int, int, int], tuple[int, int, int], int, list[bytes]]:
    """What a launch file gives (`tcprobe ablate`): grid, block, bytes of shared memory, and arguments, over matrices of
    random small numbers on the first GPU. EnvironmentUnfitError without CuPy.
    """
    cupy = Gpu().cupy
    _, images = _random_matrices(kernel, mnk)
    matrices = [Lines(cupy, bits, 0) for bits in (*images, _result(kernel, mnk))]
    _KEPT.extend(matrices)
    arguments = [bytes(argument) for argument in _arguments(kernel, matrices, mnk)]
    return kernel.grid(*mnk[:2]), kernel.block, kernel.shared_bytes, arguments


def _map(tma_box: Json, gpu_matrix: Placed) -> Any:
    """A tensor map of lines, as an argument."""
    kind, mode = tma_box["data_type"].rpartition("_TYPE_")[2], tma_box["swizzle"].rpartition("_SWIZZLE_")[2]
    gapless = packed_map(kind, (gpu_matrix.length, gpu_matrix.lines), tuple(tma_box["box"]), mode)
    tensor_map = gapless._replace(strides=(gpu_matrix.ld,))
    code, raw = driver.encode_map(tensor_map, gpu_matrix.address)
    if code:
        raise ProbeError(f"cuTensorMapEncodeTiled: {driver.result_name(code)} for {tensor_map}.")
    return (ctypes.c_byte * len(raw)).from_buffer_copy(raw)


def _cublas(gpu: Gpu, kernel: GemmKernel, abd: Sequence[Lines], mnk: ProductSize) -> Callable[[], None] | None:
    """The same product by cublasGemmEx, None if it has no such multiply; column-major, so as D' = B' A'."""
    options, (m, n, k) = kernel.gemm, mnk
    if (options.type, options.out) not in PEERS:
        return None
    kind, out, compute, scalar = PEERS[options.type, options.out]
    cublas, handle = gpu.cupy.cuda.cublas, gpu.cupy.cuda.device.get_cublas_handle()
    alpha, beta = np.ones(1, scalar), np.zeros(1, scalar)
    a_lines, b_lines, d_lines = (
        (matrix_.address, of, matrix_.ld // matrix_.size) for matrix_, of in zip(abd, (kind, kind, out), strict=True)
    )
    transposed = int(options.b == "col"), int(options.a == "col")

    def call() -> None:
        cublas.gemmEx(
            handle,
            *transposed,
            n,
            m,
            k,
            alpha.ctypes.data,
            *b_lines,
            *a_lines,
            beta.ctypes.data,
            *d_lines,
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
