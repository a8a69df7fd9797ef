"""A GEMM with weights of 4 bits, put together from what tcprobe prints: D = A W, A and D of f16, W of s4 or u4.

    python examples/w4a16.py                       # writes w4a16.cu; assembles it if nvcc is installed
    python examples/w4a16.py --run                 # on a GPU, with CuPy: compares with NumPy, times beside cuBLAS
    python examples/w4a16.py --type u4 --zeros --group 32 --arch sm_90 -o mine.cu

W (k x n) has a scale, of f16, for every `group` of k in each column, and with --zeros a zero point. Only the loop,
the plain copies of rows, and the rounding at the end are written by hand. `emit INSTRUCTION --to cuda` prints the
multiply and where D's elements are, `path A --tile 64x128` A's path from memory through swizzled shared memory into
registers, and `load B --repack` the order in which weights are stored, the loads of 8 k steps at once, the
conversion to f16, scales and zero points. For sm_80 and later; m is a multiple of 64, n and k are multiples of 128.
If there are few tiles, several blocks share one along k, and a second kernel adds up their parts.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import NamedTuple

from tcprobe import emit
from tcprobe.ask.path import PathOptions, path, request
from tcprobe.ask.path.cuda import source as path_source
from tcprobe.ask.repack import Repacking, cuda, python, repack, with_zeros
from tcprobe.code.names import identifier, in_namespace, rename
from tcprobe.errors import TcprobeError
from tcprobe.isa.names import resolve
from tcprobe.store.cell import emittable, load
from tcprobe.store.results import published

INSTRUCTION = "mma.m16n8k16.row.col.f32.f16.f16.f32"
M, N, K = 64, 128, 128  # of a block's tile
WARPS, STAGES = 4, 3
BLOCKS = 3  # that a processor has at once
KERNEL = """
constexpr int M = @m, N = @n, WARPS = @warps, THREADS = 32 * WARPS, STAGES = @stages;

// block (x, y, z) makes the tile of D at row M x, column N y, from part z of gridDim.z of k, at most k / 128;
// of several each goes to `parts`, [part][m][n] of f32, to be added up by w4a16_sum
extern "C" __global__ void __launch_bounds__(THREADS, @blocks)
w4a16(const unsigned short* a, const void* weights, const void* scales, const void* zeros, unsigned short* d,
      float* parts, int n, int k) {
  using Mma = tcprobe::@arch::@mma;
  using A = w4a16_parts::A;
  using W = w4a16_parts::Weights;
  constexpr int DOWN = M / 16, ACROSS = N / WARPS / W::LINES;  // fragments of a warp
  // of a stage: rows of A, blocks of W, scales, zero points
  constexpr int ROWS = A::BYTES, BLOCKS = N / W::LINES * W::BYTES, SCALES = W::GROUPS * N * 2;
  constexpr int ZEROS = ROWS + BLOCKS + SCALES, STAGE = ZEROS + @zeros * W::GROUPS * N;
  constexpr int APART = W::GROUP > W::K ? W::GROUP / W::K : 1;  // tiles that have scales in common
  extern __shared__ __align__(1024) unsigned char held[];
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(held));
  __builtin_assume(threadIdx.x < THREADS);  // how often loops of copies go is known
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = blockIdx.x * M, col = blockIdx.y * N;
  const int tiles = k / W::K, from = tiles * blockIdx.z / gridDim.z, end = tiles * (blockIdx.z + 1) / gridDim.z;
  const auto fill = [&](int tile) {
    if (tile >= end) return;
    const unsigned stage = shared + tile % STAGES * STAGE;
    const auto bring = [&](unsigned to, const void* source, long long first, int bytes) {  // bytes in a row
#pragma unroll
      for (int done = 0; done < bytes; done += THREADS * 16) {
        const int at = done + threadIdx.x * 16;
        if (done + THREADS * 16 <= bytes || at < bytes)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                       : : "r"(stage + to + at), "l"(static_cast<const char*>(source) + first + at) : "memory");
      }
    };
    A::fill(stage, a + static_cast<long long>(row) * k + tile * W::K, threadIdx.x, THREADS, 2ll * k);
    bring(ROWS, weights, (static_cast<long long>(tile) * n + col) / W::LINES * W::BYTES, BLOCKS);
#pragma unroll
    for (int group = 0; group < W::GROUPS; ++group) {
      const long long first = static_cast<long long>(tile / APART * W::GROUPS + group) * n + col;
      bring(ROWS + BLOCKS + group * N * 2, scales, 2 * first, N * 2);
      if (@zeros) bring(ZEROS + group * N, zeros, first, N);
    }
  };
  float sum[DOWN][ACROSS][4] = {};
  for (int tile = from; tile < from + STAGES - 1; ++tile) {
    fill(tile);
    asm volatile("cp.async.commit_group;" : : : "memory");
  }
  for (int tile = from; tile < end; ++tile) {
    asm volatile("cp.async.wait_group %0;" : : "n"(STAGES - 2) : "memory");
    __syncthreads();
    fill(tile + STAGES - 1);
    asm volatile("cp.async.commit_group;" : : : "memory");
    const unsigned stage = tile % STAGES * STAGE;
    unsigned words[ACROSS][W::WORDS], factors[ACROSS][W::GROUPS][W::SCALES];
    @declared
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      W::load_shared(shared + stage + ROWS + (warp * ACROSS + j) * W::BYTES, lane, words[j]);
      W::load_scales(held + stage + ROWS + BLOCKS, N, 0, warp * ACROSS + j, lane, factors[j]);
      @loaded
    }
#pragma unroll
    for (int w = 0; w < W::WORDS; ++w) {  // a word has two k steps of W
      unsigned x[2][DOWN][4], b[2][2][W::REGISTERS];
#pragma unroll
      for (int i = 0; i < 2 * DOWN; ++i)
        A::load_k_issue(shared + stage, lane, 2 * w + i / DOWN, i % DOWN, x[i / DOWN][i % DOWN]);
      const auto convert = [&](int j) {
        unsigned made[W::MADE];
        W::convert(words[j][w], @less made);
#pragma unroll
        for (int r = 0; r < W::MADE; ++r)
          b[j % 2][r / W::REGISTERS][r % W::REGISTERS] =
              W::scaled(made[r], factors[j][(2 * w + r / W::REGISTERS) * W::GROUPS / W::STEPS][0]);
      };
      convert(0);
#pragma unroll
      for (int j = 0; j < ACROSS; ++j) {  // a column of fragments is converted while the one before it is multiplied
        if (j + 1 < ACROSS) convert(j + 1);
#pragma unroll
        for (int i = 0; i < 2 * DOWN; ++i)
          Mma::mma(sum[i % DOWN][j], x[i / DOWN][i % DOWN], b[j % 2][i / DOWN], sum[i % DOWN][j]);
      }
    }
  }
  const int first = col + warp * (N / WARPS);
  float* const part = parts + static_cast<long long>(blockIdx.z) * gridDim.x * M * n;
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j)
#pragma unroll
      for (int slot = 0; slot < 4; slot += 2) {  // two columns next to each other
        const long long at = static_cast<long long>(row + 16 * i + Mma::D::row(lane, slot)) * n + first +
                             W::LINES * j + Mma::D::col(lane, slot);
        const float low = sum[i][j][slot], high = sum[i][j][slot + 1];
        if (gridDim.z > 1) *reinterpret_cast<float2*>(part + at) = make_float2(low, high);
        else *reinterpret_cast<unsigned*>(d + at) = rounded(low, high);
      }
}

// the parts of two elements next to each other added up; count: of elements of D
extern "C" __global__ void w4a16_sum(const float* parts, unsigned short* d, int splits, long long count) {
  const long long at = 2 * (blockIdx.x * 256ll + threadIdx.x);
  float low = 0, high = 0;
  for (int part = 0; part < splits && at < count; ++part) {
    const float2 both = *reinterpret_cast<const float2*>(parts + part * count + at);
    low += both.x;
    high += both.y;
  }
  if (at < count) *reinterpret_cast<unsigned*>(d + at) = rounded(low, high);
}
"""
# where there are zero points
LESS_ZEROS = {
    "declared": "unsigned zeros_of[ACROSS][W::GROUPS][W::SCALES][W::ZEROS];",
    "loaded": "W::load_zeros(held + stage + ZEROS, N, 0, warp * ACROSS + j, lane, zeros_of[j]);",
    "less": "w, zeros_of[j],",
}
ROUNDED = """
__device__ __forceinline__ unsigned rounded(float low, float high) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
"""


class Asked(NamedTuple):
    """What the weights are, `group` elements of k with a scale in common, whose tables; `zeros`: with zero points."""

    type: str
    group: int
    arch: str
    zeros: bool = False


def weights(asked: Asked) -> Repacking:
    """The order of the weights."""
    found = repack(load(f"{INSTRUCTION}.b", asked.arch), asked.type, "f16", asked.group)
    return with_zeros(found) if asked.zeros else found


def source(asked: Asked) -> str:
    """The whole CUDA source."""
    row = resolve(INSTRUCTION).instruction
    tables, _ = emittable(list(row.fragments), asked.arch, published())
    a = path(request(load(f"{INSTRUCTION}.a", asked.arch), PathOptions(f"{M}x{K}", "row", "128")))
    plan = weights(asked)
    parts = [
        in_namespace(rename(text, made, name), "w4a16_parts")
        for text, made, name in (
            (path_source(a), struct(path_source(a)), "A"),
            (cuda.source(plan), cuda.name(plan), "Weights"),
        )
    ]
    kernel = KERNEL
    sizes = {"m": M, "n": N, "warps": WARPS, "stages": STAGES, "blocks": BLOCKS, "zeros": int(asked.zeros)}
    sizes |= LESS_ZEROS if asked.zeros else dict.fromkeys(LESS_ZEROS, "")
    for name, value in {"arch": asked.arch, "mma": identifier(row.id), **sizes}.items():
        kernel = re.sub(rf"@{name}\b", str(value), kernel)
    return "\n".join(["#define TCPROBE_ANY_ARCH", emit.emit("cuda", tables), *parts, ROUNDED, kernel])


def struct(text: str) -> str:
    """The name of the struct in a header."""
    return text.split("\nstruct ", 1)[1].split(" ", 1)[0]


def shared_bytes(asked: Asked) -> int:
    """Dynamic shared memory of a block."""
    return STAGES * (M * K * 2 + N * K // 2 + max(1, K // asked.group) * N * (2 + asked.zeros))


def packer(asked: Asked) -> ModuleType:
    """The module that `load --repack --packer numpy` prints."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "packer.py"
        file.write_text(python.source(weights(asked), "numpy"))
        spec = spec_from_file_location("packer", file)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def assembled(file: Path, arch: str) -> str:
    """What nvcc says of the file, "" where there is none."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        return f"{file}: no nvcc here to assemble it"
    command = [
        nvcc,
        f"-arch={arch}",
        "-std=c++17",
        "-cubin",
        "-Xptxas",
        "-v",
        "-o",
        str(file.with_suffix(".cubin")),
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[:2000])
    return f"{file}: assembled for {arch}; " + "; ".join(line.strip() for line in done.stderr.splitlines()[-2:])


def main(arguments: list[str]) -> int:
    """Write the source, or run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", choices=("s4", "u4"), default="s4")
    parser.add_argument("--group", type=int, default=128, help="elements of k that have a scale in common")
    parser.add_argument("--zeros", action="store_true", help="a zero point for each scale, as of AWQ and GPTQ")
    parser.add_argument("--arch", default="sm_80", help="whose tables to take; --run takes the GPU's")
    parser.add_argument("--run", action="store_true", help="on a GPU: compare with NumPy, and time")
    parser.add_argument("--untimed", action="store_true", help="with --run: compare alone")
    parser.add_argument("-o", "--output", type=Path, default=Path("w4a16.cu"))
    given = parser.parse_args(arguments)
    asked = Asked(given.type, given.group, given.arch, given.zeros)
    try:
        if given.run:
            import w4a16_run

            return w4a16_run.run(asked, not given.untimed)
        given.output.write_text(source(asked))
        print(assembled(given.output, asked.arch))
    except (TcprobeError, RuntimeError, OSError) as error:
        print(f"error: {str(error).replace('`group`', '--group')}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
