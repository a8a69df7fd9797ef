"""`w4a16.py --run`: the kernel on a GPU, with CuPy, compared with NumPy and timed beside cuBLAS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import w4a16

SHAPES = ((64, 128, 128), (64, 256, 128), (128, 128, 256), (192, 384, 640), (64, 128, 2048), (256, 512, 512))
TIMED = ((64, 8192, 8192), (256, 8192, 8192), (4096, 4096, 4096))
COLD = 200 << 20  # bytes of weights, more than any cache holds


class Problem(NamedTuple):
    """A of small whole numbers, W, scales that are powers of two, so that products are exact, and zero points."""

    a: np.ndarray
    w: np.ndarray
    scales: np.ndarray
    group: int
    zeros: np.ndarray

    @property
    def dense(self) -> np.ndarray:
        """W less its zero points, times its scales, which f16 holds exactly."""
        scales, zeros = (np.repeat(one, self.group, 0)[: len(self.w)] for one in (self.scales, self.zeros))
        return (self.w - zeros) * scales


def problem(asked: w4a16.Asked, size: tuple[int, int, int], seed: int) -> Problem:
    """One of a size m, n, k."""
    (m, n, k), rng = size, np.random.default_rng(seed)
    least, groups = (-8 if asked.type == "s4" else 0), -(-k // asked.group)
    w = rng.integers(least, least + 16, (k, n))
    scales = 2.0 ** rng.integers(-4, 1, (groups, n))
    zeros = rng.integers(least, least + 17, (groups, n)) if asked.zeros else np.zeros((groups, n), int)
    return Problem(rng.integers(-3, 4, (m, k)), w, scales, asked.group, zeros)


class OnGpu:
    """The kernel for the first GPU."""

    def __init__(self, asked: w4a16.Asked) -> None:
        import cupy

        from tcprobe.run.gpu import Gpu

        gpu = Gpu()
        self.asked = asked._replace(arch=gpu.devices()[0].arch)
        gpu.open(0)
        self.processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        text, at, self.shared_bytes = w4a16.source(self.asked), self.asked.arch, w4a16.shared_bytes(self.asked)
        self.function = gpu.compile(text, "w4a16", at, self.shared_bytes)
        self.sum = gpu.compile(text, "w4a16_sum", at, 0)
        self.module = w4a16.packer(self.asked)

    def splits(self, size: tuple[int, int, int]) -> int:
        """How many parts k is cut into: so many that every processor has two blocks, at most 8."""
        m, n, k = size
        return max(1, min(2 * self.processors * w4a16.M * w4a16.N // (m * n), k // w4a16.K, 8))

    def launched(self, held, d, splits: int) -> None:
        """One product, on CuPy's arrays: `held` are A, words, scales and zero points."""
        import cupy

        (m, k), n = held[0].shape, d.shape[1]
        parts = cupy.empty((splits, m, n) if splits > 1 else 1, np.float32)
        self.function(
            (m // w4a16.M, n // w4a16.N, splits),
            (32 * w4a16.WARPS, 1, 1),
            (*held, d, parts, np.int32(n), np.int32(k)),
            shared_mem=self.shared_bytes,
        )
        if splits > 1:
            self.sum((-(-d.size // 512), 1, 1), (256, 1, 1), (parts, d, np.int32(splits), np.int64(d.size)))

    def differing(self, size: tuple[int, int, int], seed: int) -> tuple[int, float]:
        """How many elements of D are not NumPy's, k in one part, in two and in three, and the largest difference."""
        import cupy

        given = problem(self.asked, size, seed)
        held = [
            cupy.asarray(one)
            for one in (
                given.a.astype(np.float16),
                self.module.repack(given.w),
                given.scales.astype(np.float16),
                self.module.pack_zeros(given.zeros) if self.asked.zeros else np.zeros(1, np.uint8),
            )
        ]
        wanted, wrong, most = (given.a @ given.dense).astype(np.float16), 0, 0.0
        for splits in range(1, min(3, size[2] // w4a16.K) + 1):
            d = cupy.full(size[:2], np.nan, np.float16)
            self.launched(held, d, splits)
            wrong += int((d.get() != wanted).sum())
            most = max(most, float(abs(d.get().astype(float) - wanted).max()))
        return wrong, most

    def times(self, size: tuple[int, int, int], rounds: int = 20) -> tuple[float, float]:
        """Microseconds of a product, and of cuBLAS (CuPy's matmul) on W of f16: the least of `rounds`, in turns.

        Each takes several copies of W in turn, so that none stays in the cache.
        """
        import cupy

        (m, n, k), rng = size, cupy.random.default_rng(0)
        a, dense = (rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
        words = cupy.random.randint(0, 1 << 31, (k // w4a16.K, n // 8, 32, 4), dtype=np.uint32)
        groups = -(-k // self.asked.group), n
        scales, d = cupy.full(groups, 0.01, np.float16), cupy.empty((m, n), np.float16)
        zeros = cupy.full(groups, 8, np.uint8)
        packed, whole = ([one.copy() for _ in range(1 + COLD // one.nbytes)] for one in (words, dense))
        splits, ours, theirs = self.splits(size), [], []
        for _ in range(rounds):
            ours.append(_timed(lambda j: self.launched((a, packed[j % len(packed)], scales, zeros), d, splits)))
            theirs.append(_timed(lambda j: cupy.matmul(a, whole[j % len(whole)], out=d)))
        return min(ours), min(theirs)


def _timed(work, times: int = 8) -> float:
    import cupy

    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for number in range(times):
        work(number)
    end.record()
    end.synchronize()
    return 1e3 * cupy.cuda.get_elapsed_time(start, end) / times


def run(asked: w4a16.Asked, timed: bool) -> int:
    """Compare over shapes, and say times; 1 where an element differs."""
    gpu, wrong = OnGpu(asked), 0
    for seed, size in enumerate(SHAPES):
        count, most = gpu.differing(size, seed)
        wrong += count
        print(
            f"{asked.type}{', zero points' * asked.zeros}, group {asked.group}, {'x'.join(map(str, size))}: "
            f"{f'{count} elements differ, by at most {most}' if count else 'equal to NumPy'}"
        )
    for size in TIMED if timed else ():
        ours, theirs = gpu.times(size)
        name = "x".join(map(str, size))
        print(f"{name}: {ours:.1f} us, cuBLAS on f16 {theirs:.1f} us: {theirs / ours:.2f} of its rate")
    return int(wrong > 0)
