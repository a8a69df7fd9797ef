"""Runs a GEMM kernel on a GPU: compares its products with NumPy's and its time with cuBLAS's on the same matrices.

All numbers are whole and small, so that products are exact whatever the order of their sums.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, ProbeError
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.kernel.staged import SCALED, Scaled
from tcprobe.layout.arrays import Array, Bits, Bytes, Floats, Ints
from tcprobe.question.answers import plain
from tcprobe.references.shared_memory.tensor_map import TensorMap, packed_map
from tcprobe.references.tensor_memory import ATOM_BYTES, BLOCKS, LINES, scale_offset
from tcprobe.run import driver
from tcprobe.run.gpu import Gpu
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel

ProductSize = tuple[int, int, int]
COMPARED: ProductSize = (523, 389, 331)  # with an edge on every side of every tile
TIMED: ProductSize = (4096, 4096, 4096)
NUMBERS = range(-3, 4)  # what matrices consist of
ROUNDS, CALLS = 6, 4
UNWRITTEN = 0x55
SCALE_VALUES = {  # bits of scales, and what they are
    "ue8m0": ((126, 127, 128), (0.5, 1.0, 2.0)),
    "ue4m3": ((0x30, 0x38, 0x3C, 0x40), (0.5, 1.0, 1.5, 2.0)),
}
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
        return plain(self)


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
    native = kernel.gemm.compiled_for.endswith("a")  # for one arch alone
    target = kernel.gemm.compiled_for if native else device.arch
    function = gpu.compile(kernel.source, kernel.name, target, kernel.shared_bytes)
    with gpu.faults():
        wrong, outside = _compare(gpu, kernel, function, COMPARED)
        tflops, peer, apart = _time_both(gpu, kernel, function, timed or TIMED)
    ratio = peer and round(tflops / peer, 3)
    return ProductRun(device.name, COMPARED, wrong, outside, timed or TIMED, tflops, peer, ratio, apart)


def _check(kernel: GemmKernel, name: str, gpu_arch: str) -> None:
    """EnvironmentUnfitError if a GPU cannot run the kernel."""
    needed, present = kernel.gemm.arch, arch(gpu_arch)
    if kernel.gemm.compiled_for.endswith("a") and present.name != needed.name:
        by = f"a {kernel.gemm.instruction.family} kernel for {kernel.gemm.compiled_for}"
        raise EnvironmentUnfitError(
            f"{name} is {present.name}; {by} runs on {needed.name} only: use `arch` {present.name}."
        )
    if present.number < needed.number:
        raise EnvironmentUnfitError(f"{name} is {present.name}, older than {needed.name}: use `arch` {present.name}.")


class Drawn(NamedTuple):
    """A and B as numbers, times their scales; their lines in memory as bits; scales as the kernel takes them."""

    numbers: list[Array]
    images: list[Array]
    scales: list[Bytes]


def random_matrices(kernel: GemmKernel, mnk: ProductSize) -> Drawn:
    """Whole numbers, and scales around one."""
    (m, n, k), gemm, rng = mnk, kernel.gemm, np.random.default_rng(21)
    kind = dtype(gemm.element)
    bits = np.array([kind.pattern(number, kind.bits) for number in NUMBERS], f"u{max(1, kind.bits // 8)}")
    picks = [rng.integers(0, len(NUMBERS), shape, np.int8) for shape in ((m, k), (k, n))]
    numbers: list[Array] = [pick + np.int64(NUMBERS[0]) for pick in picks]
    along_rows = (gemm.a == "row", gemm.b == "row")
    images = [bits[pick if rows else pick.T] for pick, rows in zip(picks, along_rows, strict=True)]
    if kind.bits == 4:
        images = [_in_bytes(image) for image in images]
    if gemm.type not in SCALED:
        return Drawn(numbers, images, [])
    scales, of_a = _scales(SCALED[gemm.type], m, k, rng)
    more, of_b = _scales(SCALED[gemm.type], n, k, rng)
    return Drawn([numbers[0] * of_a, numbers[1] * of_b.T], images, [scales, more])


def _in_bytes(nibbles: Bytes) -> Bytes:
    """Two elements of 4 bits a byte, the first below."""
    even = np.pad(nibbles, ((0, 0), (0, nibbles.shape[1] % 2)))
    return (even[:, 0::2] | even[:, 1::2] << 4).astype(np.uint8)


def _scales(of: Scaled, lines: int, k: int, rng: np.random.Generator) -> tuple[Bytes, Floats]:
    """Scales of all lines in memory, and the factor of every element; what fills an atom up is never a NaN."""
    blocks = -(-k // of.block)
    patterns, values = SCALE_VALUES[of.scale]
    picks = rng.integers(0, len(values), (lines, blocks))
    memory = np.full(-(-lines // LINES) * -(-blocks // BLOCKS) * ATOM_BYTES, UNWRITTEN, np.uint8)
    line: Any = np.arange(lines)[:, None]
    block: Any = np.arange(blocks)
    memory[scale_offset(line, block, blocks)] = np.array(patterns, np.uint8)[picks]
    return memory, np.repeat(np.array(values)[picks], of.block, axis=1)[:, :k]


def result_bits(kernel: GemmKernel, mnk: ProductSize) -> Array:
    """D before the kernel runs: zeros."""
    return np.full((mnk[0], mnk[1]), 0, f"u{dtype(kernel.gemm.out).bits // 8}")


def _compare(gpu: Gpu, kernel: GemmKernel, launched: Any, mnk: ProductSize) -> tuple[int, int]:
    """(number of elements that differ from NumPy's, bytes written outside D)."""
    (a, b), images, scales = random_matrices(kernel, mnk)
    matrices = [Lines(gpu.cupy, bits) for bits in (*images, ~result_bits(kernel, mnk))]
    placed = [gpu.cupy.asarray(each) for each in scales]
    launcher(kernel, launched, matrices, mnk, [int(each.data.ptr) for each in placed])()
    d, outside = matrices[2].read()
    return int((d != rounded_bits(a @ b, kernel.gemm.out)).sum()), outside


def rounded_bits(products: Ints | Floats, out: str) -> Array:
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
    _, images, scales = random_matrices(kernel, mnk)
    placed = [gpu.cupy.asarray(each) for each in scales]
    matrices = [Lines(gpu.cupy, bits, 0) for bits in (*images, result_bits(kernel, mnk), result_bits(kernel, mnk))]
    ours = launcher(kernel, launched, matrices[:3], mnk, [int(each.data.ptr) for each in placed])
    theirs = _cublas(gpu, kernel, [*matrices[:2], matrices[3]], mnk)
    best = _least(gpu.cupy, [ours, theirs] if theirs else [ours])
    rates = [round(2 * mnk[0] * mnk[1] * mnk[2] / ms / 1e9, 1) for ms in best]
    if not theirs:
        return rates[0], None, None
    return rates[0], rates[1], int((matrices[2].read()[0] != matrices[3].read()[0]).sum())


def launcher(
    kernel: GemmKernel, launched: Any, abd: Sequence[Placed], mnk: ProductSize, scales: Sequence[int] = ()
) -> Callable[[], None]:
    """A function that launches the kernel over A, B and D, and the addresses of scales of A and B."""
    arguments = _arguments(kernel, abd, mnk, scales)

    def launch() -> None:
        code = driver.launch_kernel(launched.ptr, kernel.grid(*mnk[:2]), kernel.block, kernel.shared_bytes, arguments)
        if code:
            raise ProbeError(f"{kernel.name} could not be launched: {driver.result_name(code)}.")

    return launch


def _arguments(kernel: GemmKernel, abd: Sequence[Placed], mnk: ProductSize, scales: Sequence[int]) -> list[Any]:
    """The kernel's arguments, as ctypes values."""
    named: dict[str, Any] = {name: ctypes.c_int(side) for name, side in zip("mnk", mnk, strict=True)}
    for name, matrix in zip("abd", abd, strict=True):
        named |= {name: ctypes.c_void_p(matrix.address), f"ld{name}": ctypes.c_longlong(matrix.ld)}
        if name in kernel.maps:
            named[f"map_{name}"] = _map(kernel.maps[name], matrix)
    named |= {name: ctypes.c_void_p(address) for name, address in zip(("sfa", "sfb"), scales, strict=False)}
    return [named[name] for name in kernel.parameters]


_KEPT: list[Any] = []  # the memory of launches that others make


def launch(kernel: GemmKernel, mnk: ProductSize) -> tuple[tuple[int, int, int], tuple[int, int, int], int, list[bytes]]:
    """What a launch file gives (`tcprobe ablate`): grid, block, bytes of shared memory, and arguments, over matrices of
    random small numbers on the first GPU. EnvironmentUnfitError without CuPy.
    """
    cupy = Gpu().cupy
    _, images, scales = random_matrices(kernel, mnk)
    matrices = [Lines(cupy, bits, 0) for bits in (*images, result_bits(kernel, mnk))]
    placed = [cupy.asarray(each) for each in scales]
    _KEPT.extend([*matrices, *placed])
    arguments = _arguments(kernel, matrices, mnk, [int(each.data.ptr) for each in placed])
    return kernel.grid(*mnk[:2]), kernel.block, kernel.shared_bytes, [bytes(argument) for argument in arguments]


def map_of(tma_box: Json, placed: Placed) -> TensorMap:
    """The tensor map of lines that a kernel takes."""
    kind, mode = tma_box["data_type"].rpartition("_TYPE_")[2], tma_box["swizzle"].rpartition("_SWIZZLE_")[2]
    gapless = packed_map(kind, (placed.length, placed.lines), tuple(tma_box["box"]), mode)
    return gapless._replace(strides=(placed.ld,))


def _map(tma_box: Json, gpu_matrix: Placed) -> Any:
    """A tensor map of lines, as an argument."""
    tensor_map = map_of(tma_box, gpu_matrix)
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
