"""A GEMM with weights of 4 bits, put together from what tcprobe prints: D = A W, A and D of f16, W of s4 or u4.

    python examples/w4a16.py                       # writes w4a16.cu; assembles it where there is nvcc
    python examples/w4a16.py --run                 # on a GPU, with CuPy: compares with NumPy, times beside cuBLAS
    python examples/w4a16.py --type u4 --group 32 --arch sm_90 -o mine.cu

W (k x n) has a scale, of f16, for every `group` of k in each column. By hand stand the loop and the rounding at its
end. The multiply and where D's elements are: `emit INSTRUCTION --to cuda`. A's way from memory through swizzled shared
memory into registers: `path A --tile 64x128`. The order in which weights are stored, the loads of 8 k steps at once,
the conversion to f16 and the scales: `load B --repack`. For sm_80 and later; m is a multiple of 64, n and k are of 128.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import NamedTuple

import numpy as np

from tcprobe import emit
from tcprobe.ask.path import PathOptions, path, request
from tcprobe.ask.path.cuda import source as path_source
from tcprobe.ask.repack import Repacking, cuda, python, repack
from tcprobe.code.scope import renamed, scoped
from tcprobe.emit.common import identifier
from tcprobe.errors import TcprobeError
from tcprobe.isa.names import resolve
from tcprobe.store.cell import emittable, load
from tcprobe.store.results import published

INSTRUCTION = "mma.m16n8k16.row.col.f32.f16.f16.f32"
M, N, K = 64, 128, 128  # of a block's tile
WARPS, STAGES = 4, 3
KERNEL = """
// 128 threads; block (x, y) makes the tile of D at row 64 x, column 128 y
extern "C" __global__ void __launch_bounds__(128)
w4a16(const unsigned short* a, const void* weights, const void* scales, unsigned short* d, int n, int k) {
  using Mma = tcprobe::@arch::@mma;
  using A = w4a16_parts::A;
  using W = w4a16_parts::Weights;
  constexpr int DOWN = @m / 16, ACROSS = @n / @warps / W::LINES;  // fragments of a warp
  extern __shared__ __align__(1024) unsigned char held[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(held));
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x * @m, col = blockIdx.y * @n + warp * (@n / @warps), tiles = k / W::K;
  const auto fill = [&](int tile) {
    const unsigned short* const from = a + static_cast<long long>(row) * k + tile * W::K;
    if (tile < tiles) A::fill(shared + tile % @stages * A::BYTES, from, threadIdx.x, 128, 2ll * k);
    asm volatile("cp.async.commit_group;" : : : "memory");
  };
  unsigned words[ACROSS][W::WORDS], next[ACROSS][W::WORDS], factors[ACROSS][W::GROUPS][W::SCALES];
  float sum[DOWN][ACROSS][4] = {};
  for (int tile = 0; tile < @stages - 1; ++tile) fill(tile);
#pragma unroll
  for (int j = 0; j < ACROSS; ++j) W::load(weights, col / W::LINES + j, lane, next[j]);
  for (int tile = 0; tile < tiles; ++tile) {
    asm volatile("cp.async.wait_group %0;" : : "n"(@stages - 2) : "memory");
    __syncthreads();
    fill(tile + @stages - 1);
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
#pragma unroll
      for (int w = 0; w < W::WORDS; ++w) words[j][w] = next[j][w];
      W::load_scales(scales, n, tile, col / W::LINES + j, lane, factors[j]);
      const int ahead = tile + 1 < tiles ? tile + 1 : tile;
      W::load(weights, static_cast<long long>(ahead) * (n / W::LINES) + col / W::LINES + j, lane, next[j]);
    }
#pragma unroll
    for (int w = 0; w < W::WORDS; ++w) {  // a word has two k steps of W
      unsigned b[ACROSS][2][W::REGISTERS];
#pragma unroll
      for (int j = 0; j < ACROSS; ++j) {
        unsigned made[W::MADE];
        W::convert(words[j][w], made);
#pragma unroll
        for (int r = 0; r < W::MADE; ++r)
          b[j][r / W::REGISTERS][r % W::REGISTERS] =
              W::scaled(made[r], factors[j][(2 * w + r / W::REGISTERS) * W::GROUPS / W::STEPS][0]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
          unsigned x[4];
          A::load_issue(shared + tile % @stages * A::BYTES, lane, (2 * w + half) * DOWN + i, x);
#pragma unroll
          for (int j = 0; j < ACROSS; ++j) Mma::mma(sum[i][j], x, b[j][half], sum[i][j]);
        }
    }
  }
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j)
#pragma unroll
      for (int slot = 0; slot < 4; slot += 2) {  // two columns next to each other
        unsigned both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(sum[i][j][slot + 1]), "f"(sum[i][j][slot]));
        const long long at = static_cast<long long>(row + 16 * i + Mma::D::row(lane, slot)) * n;
        *reinterpret_cast<unsigned*>(d + at + col + W::LINES * j + Mma::D::col(lane, slot)) = both;
      }
}
"""
SHAPES = ((64, 128, 128), (64, 256, 128), (128, 128, 256), (192, 384, 640), (64, 128, 2048), (256, 256, 512))
TIMED = ((64, 8192, 8192), (256, 8192, 8192), (4096, 4096, 4096))


class Asked(NamedTuple):
    """What the weights are, `group` elements of k with a scale in common, and the arch whose tables are taken."""

    type: str
    group: int
    arch: str


def weights(asked: Asked) -> Repacking:
    """The order of the weights."""
    return repack(load(f"{INSTRUCTION}.b", asked.arch), asked.type, "f16", asked.group)


def source(asked: Asked) -> str:
    """The whole CUDA source."""
    row = resolve(INSTRUCTION).instruction
    tables, _ = emittable(list(row.fragments), asked.arch, published())
    a = path(request(load(f"{INSTRUCTION}.a", asked.arch), PathOptions(f"{M}x{K}", "row", "128")))
    plan = weights(asked)
    parts = [scoped(renamed(text, made, name), "w4a16_parts") for text, made, name in (
        (path_source(a), struct(path_source(a)), "A"), (cuda.source(plan), cuda.name(plan), "Weights"))]  # fmt: skip
    kernel = KERNEL
    for name, value in {"arch": asked.arch, "mma": identifier(row.id), "m": M, "n": N, "warps": WARPS,
                        "stages": STAGES}.items():  # fmt: skip
        kernel = kernel.replace(f"@{name}", str(value))
    return "\n".join(["#define TCPROBE_ANY_ARCH", emit.emit("cuda", tables), *parts, kernel])


def struct(text: str) -> str:
    """The name of the struct in a header."""
    return text.split("\nstruct ", 1)[1].split(" ", 1)[0]


def shared_bytes() -> int:
    """Of dynamic shared memory."""
    return STAGES * M * K * 2


def packer(asked: Asked) -> ModuleType:
    """The module that `load --repack --packer numpy` prints."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "packer.py"
        file.write_text(python.source(weights(asked), "numpy"))
        spec = spec_from_file_location("packer", file)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Problem(NamedTuple):
    """A of small whole numbers, W, and scales that are powers of two, so that products are exact."""

    a: np.ndarray
    w: np.ndarray
    scales: np.ndarray
    group: int

    @property
    def dense(self) -> np.ndarray:
        """W times its scales, which f16 holds exactly."""
        return self.w * np.repeat(self.scales, self.group, 0)[: len(self.w)]


def problem(asked: Asked, size: tuple[int, int, int], seed: int) -> Problem:
    """One of a size m, n, k."""
    (m, n, k), rng = size, np.random.default_rng(seed)
    w = rng.integers(*((-8, 8) if asked.type == "s4" else (0, 16)), (k, n))
    scales = 2.0 ** rng.integers(-4, 1, (-(-k // asked.group), n))
    return Problem(rng.integers(-3, 4, (m, k)), w, scales, asked.group)


class OnGpu:
    """The kernel for the first GPU."""

    def __init__(self, asked: Asked) -> None:
        from tcprobe.run.gpu import Gpu

        gpu = Gpu()
        self.asked = asked._replace(arch=gpu.devices()[0].arch)
        gpu.open(0)
        self.function = gpu.compiled(source(self.asked), "w4a16", self.asked.arch, shared_bytes())
        self.module = packer(self.asked)

    def launched(self, a, words, scales, d) -> None:
        """One launch, on CuPy's arrays."""
        (m, k), n = a.shape, d.shape[1]
        self.function((m // M, n // N, 1), (32 * WARPS, 1, 1), (a, words, scales, d, np.int32(n), np.int32(k)),
                      shared_mem=shared_bytes())  # fmt: skip

    def differing(self, size: tuple[int, int, int], seed: int) -> tuple[int, float]:
        """How many elements of D are not NumPy's, and the largest difference."""
        import cupy

        given = problem(self.asked, size, seed)
        d = cupy.full((size[0], size[1]), np.nan, np.float16)
        self.launched(cupy.asarray(given.a.astype(np.float16)), cupy.asarray(self.module.repack(given.w)),
                      cupy.asarray(given.scales.astype(np.float16)), d)  # fmt: skip
        wanted = (given.a @ given.dense).astype(np.float16)
        return int((d.get() != wanted).sum()), float(abs(d.get().astype(float) - wanted).max())

    def times(self, size: tuple[int, int, int], rounds: int = 20) -> tuple[float, float]:
        """Microseconds of a launch, and of cuBLAS (CuPy's matmul) on W of f16: the least of `rounds`, in turns."""
        import cupy

        (m, n, k), rng = size, cupy.random.default_rng(0)
        a, dense = (rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
        words = cupy.random.randint(0, 1 << 31, (k // K, n // 8, 32, 4), dtype=np.uint32)
        scales, d = cupy.full((-(-k // self.asked.group), n), 0.01, np.float16), cupy.empty((m, n), np.float16)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(_timed(lambda: self.launched(a, words, scales, d)))
            theirs.append(_timed(lambda: cupy.matmul(a, dense, out=d)))
        return min(ours), min(theirs)


def _timed(work, times: int = 5) -> float:
    import cupy

    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return 1e3 * cupy.cuda.get_elapsed_time(start, end) / times


def run(asked: Asked, timed: bool) -> int:
    """Compare over shapes, and say times; 1 where an element differs."""
    gpu, wrong = OnGpu(asked), 0
    for seed, size in enumerate(SHAPES):
        count, most = gpu.differing(size, seed)
        wrong += count
        print(f"{asked.type}, group {asked.group}, {'x'.join(map(str, size))}: "
              f"{f'{count} elements differ, by at most {most}' if count else 'equal to NumPy'}")  # fmt: skip
    for size in TIMED if timed else ():
        ours, theirs = gpu.times(size)
        name = "x".join(map(str, size))
        print(f"{name}: {ours:.1f} us, cuBLAS on f16 {theirs:.1f} us: {theirs / ours:.2f} of its rate")
    return int(wrong > 0)


def assembled(file: Path, arch: str) -> str:
    """What nvcc says of the file, "" where there is none."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        return f"{file}: no nvcc here to assemble it"
    command = [nvcc, f"-arch={arch}", "-std=c++17", "-cubin", "-Xptxas", "-v", "-o", str(file.with_suffix(".cubin")),
               str(file)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:2000])
    return f"{file}: assembled for {arch}; " + "; ".join(line.strip() for line in done.stderr.splitlines()[-2:])


def main(arguments: list[str]) -> int:
    """Write the source, or run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", choices=("s4", "u4"), default="s4")
    parser.add_argument("--group", type=int, default=128, help="elements of k that have a scale in common")
    parser.add_argument("--arch", default="sm_80", help="whose tables to take; --run takes the GPU's")
    parser.add_argument("--run", action="store_true", help="on a GPU: compare with NumPy, and time")
    parser.add_argument("--untimed", action="store_true", help="with --run: compare alone")
    parser.add_argument("-o", "--output", type=Path, default=Path("w4a16.cu"))
    given = parser.parse_args(arguments)
    asked = Asked(given.type, given.group, given.arch)
    try:
        if given.run:
            return run(asked, not given.untimed)
        given.output.write_text(source(asked))
        print(assembled(given.output, asked.arch))
    except (TcprobeError, RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
