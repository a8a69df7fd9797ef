"""The kernel of sm_70 to sm_89 and of Blackwell by mma.sync: shared memory filled by lanes, ldmatrix, mma.

A block's tile of A is cut along m into the parts of its rows of warps, its tile of B likewise along n; each part lies
in shared memory as the path of that part says, so that a warp's loads are the path's own.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from tcprobe import __version__
from tcprobe.ask.path.code import name
from tcprobe.ask.path.code import source as path_code
from tcprobe.code import multiply
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import FACTORS
from tcprobe.kernel import pieces
from tcprobe.kernel.copies import fill

if TYPE_CHECKING:
    from tcprobe.kernel.request import Gemm

KERNEL = Template("""\
// made by tcprobe $version: D ($m x $n a block) = A B of $type into $out, on $arch and later
// A: $a_major, B: $b_major, D: rows contiguous. lda, ldb, ldd: bytes from line to line, multiples of 16, as
// all addresses; m, n and k are any. Launch: grid ((n + $last_n) / $n, (m + $last_m) / $m), $threads threads,
// $shared_bytes bytes of dynamic shared memory (cudaFuncAttributeMaxDynamicSharedMemorySize).
namespace $name {
// The paths of a warp's part of A and of B: global -> shared -> registers, each proven on every slot.
$path_a
$path_b
using A = $struct_a;
using B = $struct_b;
constexpr int WARPS_M = $warps_m, WARPS_N = $warps_n, THREADS = $threads, STAGES = $stages;
constexpr int TILE_M = $m, TILE_N = $n, TILE_K = $k, WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int DOWN = WARP_M / $rows, ACROSS = WARP_N / $cols;  // fragments of D that a warp has
constexpr int BYTES_A = WARPS_M * A::BYTES, STAGE = BYTES_A + WARPS_N * B::BYTES, SIZE = $size, STEPS = A::STEPS;

// One piece of 16 bytes; of what lies beyond the matrix come zeros: `left` bytes are there, none if it is < 0, and
// all of them where the tile is `whole`
template <bool whole>
__device__ inline void copy(unsigned to, const char* from, int left) {
$copy
}
$fills
// The multiply (tcprobe show $instruction)
$multiply
$store
$raster
// D += A B over all k: `whole`, all tiles are inside A and B; m0, n0: where the block's begin
template <bool whole>
__device__ inline void multiply_all($word (&d)[DOWN][ACROSS][$d_registers], unsigned shared, const char* a,
                                    const char* b, int m0, int n0, int m, int n, int k, long long lda, long long ldb) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = warp / WARPS_N, across = warp % WARPS_N;
  const int tiles = (k + TILE_K - 1) / TILE_K;
  const char* next_a = first_a($from_a, lda);
  const char* next_b = first_b($from_b, ldb);
  const unsigned to_a = place_a(), to_b = place_b();
  const auto after = [&](unsigned stage) { return stage == shared + (STAGES - 1) * STAGE ? shared : stage + STAGE; };
  // into a stage of shared memory, one tile after the other: the parts of A, then those of B
  unsigned into = shared;
  const auto fill = [&](int tile) {
    const int k0 = tile * TILE_K;
    if (tile >= tiles) return;
    fill_a<whole>(into, to_a, next_a, lda, $left_a);
    fill_b<whole>(into + BYTES_A, to_b, next_b, ldb, $left_b);
    into = after(into);
    next_a += $on_a;
    next_b += $on_b;
  };
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    fill(tile);
    $commit
  }
  // fragments of two k steps: those of the next are loaded while those of this one are multiplied
  unsigned fa[2][DOWN * $a_registers], fb[2][ACROSS * $b_registers];
  const auto load = [&](unsigned stage, int step) {
    A::load_k(stage + down * A::BYTES, lane, step, fa[step & 1]);
    B::load_k(stage + BYTES_A + across * B::BYTES, lane, step, fb[step & 1]);
  };
  $wait
  __syncthreads();
  unsigned stage = shared;
  load(stage, 0);
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      if (step + 1 < STEPS) {
        load(stage, step + 1);
        if (step == 0) fill(tile + STAGES - 1);  // into the stage of the tile before this one
      } else {
        $commit
        $wait
        __syncthreads();  // the next tile is there for all, and all have read this one
        stage = after(stage);
        load(stage, 0);
      }
#pragma unroll
      for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
          multiply(d[i][j], reinterpret_cast<const unsigned(&)[$a_registers]>(fa[step & 1][i * $a_registers]),
                   reinterpret_cast<const unsigned(&)[$b_registers]>(fb[step & 1][j * $b_registers]));
    }
  }
}
extern "C" __global__ void __launch_bounds__(THREADS)
$name(const void* a_, const void* b_, void* d_, int m, int n, int k, long long lda, long long ldb, long long ldd) {
  extern __shared__ unsigned char smem[];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += ($alignment - shared % $alignment) % $alignment;  // where the swizzles begin
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = warp / WARPS_N, across = warp % WARPS_N;
  unsigned row, col;
  place(row, col);
  const int m0 = row * TILE_M, n0 = col * TILE_N;
  const char* const a = static_cast<const char*>(a_);
  const char* const b = static_cast<const char*>(b_);

  $word d[DOWN][ACROSS][$d_registers] = {};
  if (m0 + TILE_M <= m && n0 + TILE_N <= n && k % TILE_K == 0)
    multiply_all<true>(d, shared, a, b, m0, n0, m, n, k, lda, ldb);
  else
    multiply_all<false>(d, shared, a, b, m0, n0, m, n, k, lda, ldb);

$epilogue}
}  // namespace $name
""")
STRAIGHT = Template("""\
  const int first_row = m0 + down * WARP_M, first_col = n0 + across * WARP_N;
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const int at_row = first_row + i * $rows, at_col = first_col + j * $cols;
      store(static_cast<char*>(d_) + at_row * ldd + at_col * $size, ldd, m - at_row, n - at_col, d[i][j], lane);
    }
""")
BY_ROWS = Template("""\
  // D goes through the stages, so that it leaves in pieces of 16 bytes; 16 more per row avoid bank conflicts
  constexpr int LINE = TILE_N * $size, GAP = $gap;
  char* const rows = reinterpret_cast<char*>(smem) + (shared - static_cast<unsigned>(__cvta_generic_to_shared(smem)));
  __syncthreads();  // all have read the last tile
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j)
      store(rows + (down * WARP_M + i * $rows) * GAP + (across * WARP_N + j * $cols) * $size, GAP, $rows, $cols,
            d[i][j], lane);
  __syncthreads();
  for (int piece = threadIdx.x; piece < TILE_M * LINE / 16; piece += THREADS) {
    const int line = piece / (LINE / 16), byte = piece % (LINE / 16) * 16, left = (n - n0) * $size - byte;
    if (m0 + line >= m) break;
    const uint4* const from = reinterpret_cast<const uint4*>(rows + line * GAP + byte);
    char* const to = static_cast<char*>(d_) + (m0 + line) * ldd + n0 * $size + byte;
    if (left >= 16) {
      *reinterpret_cast<uint4*>(to) = *from;
    } else {
      for (int j = 0; j < left; ++j) to[j] = reinterpret_cast<const char*>(from)[j];
    }
  }
""")
ASYNC = """\
  if (whole) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
    return;
  }
  const int inside = left < 0 ? 0 : left < 16 ? left : 16;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(inside) : "memory");"""
PLAIN = """\
  union { unsigned word[4]; unsigned char byte[16]; } v = {};
  if (whole || left >= 16) {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "l"(from) : "memory");
  } else {
#pragma unroll
    for (int j = 0; j < 16; ++j)
      if (j < left) v.byte[j] = from[j];
  }
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" : : "r"(to), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3]) : "memory");"""
COMMIT = 'asm volatile("cp.async.commit_group;" : : : "memory");'
WAIT = 'asm volatile("cp.async.wait_group {};" : : : "memory");'
CONTIGUOUS = {"row": "rows contiguous", "col": "columns contiguous"}


def source(gemm: Gemm, called: str) -> str:
    """The whole file."""
    row, (m, n, k) = gemm.instruction, gemm.tile
    lanes = gemm.arch.number >= 80
    a, b = gemm.paths["a"], gemm.paths["b"]
    starts = {"a": _start("a", gemm.a == "row"), "b": _start("b", gemm.b == "col")}
    d = gemm.cell("d")
    return KERNEL.substitute(
        version=__version__,
        m=m,
        n=n,
        k=k,
        last_m=m - 1,
        last_n=n - 1,
        type=gemm.type,
        out=gemm.out,
        arch=gemm.arch.name,
        a_major=CONTIGUOUS[gemm.a],
        b_major=CONTIGUOUS[gemm.b],
        threads=gemm.threads,
        shared_bytes=gemm.shared_bytes,
        name=called,
        path_a=path_code(a),
        path_b=path_code(b),
        struct_a=name(a),
        struct_b=name(b),
        warps_m=gemm.warps[0],
        warps_n=gemm.warps[1],
        stages=gemm.stages,
        rows=gemm.shape.m,
        cols=gemm.shape.n,
        size=dtype(gemm.type).bits // 8,
        copy=ASYNC if lanes else PLAIN,
        fills="".join(fill(name, gemm.paths[name], gemm.copies(name)) for name in FACTORS),
        instruction=row.id,
        multiply=multiply.function(row),
        store=pieces.store(d, gemm.out, gemm.arch),
        raster=pieces.RASTER.substitute(cluster=1),
        alignment=gemm.alignment,
        from_a=starts["a"][0],
        from_b=starts["b"][0],
        left_a=starts["a"][1],
        left_b=starts["b"][1],
        on_a=starts["a"][2],
        on_b=starts["b"][2],
        word=multiply.word(d.fragment)[0],
        d_registers=d.fragment.registers,
        a_registers=row.fragment("a").registers,
        b_registers=row.fragment("b").registers,
        epilogue=_epilogue(gemm),
        commit=COMMIT if lanes else "",
        wait=WAIT.format(gemm.stages - 2) if lanes else "",
    )


def _epilogue(gemm: Gemm) -> str:
    """D by rows where a tile of it has room where the stages were, else straight from registers."""
    return (BY_ROWS if gemm.line else STRAIGHT).substitute(
        rows=gemm.shape.m, cols=gemm.shape.n, size=dtype(gemm.out).bits // 8, gap=gemm.line
    )


def _start(operand: str, along_k: bool) -> tuple[str, str, str]:
    """Where tile 0 begins, what there is from where a tile begins, and how far the next one is on.

    `along_k`: lines lie along k.
    """
    side = {"a": "m", "b": "n"}[operand]
    ends = ((side, f"{side}0"), ("k", "k0")) if along_k else (("k", "k0"), (side, f"{side}0"))
    left = f"{ends[0][0]} - {ends[0][1]}, ({ends[1][0]} - {ends[1][1]}) * SIZE"
    if along_k:
        return f"{operand} + {side}0 * ld{operand}", left, "TILE_K * SIZE"
    return f"{operand} + {side}0 * SIZE", left, f"TILE_K * ld{operand}"
