$ set commit = 'asm volatile("cp.async.commit_group;" : : : "memory");' if gemm.asynchronous else ""
$ set wait = 'asm volatile("cp.async.wait_group %d;" : : : "memory");' % (gemm.stages - 2) if gemm.asynchronous else ""
$ set m, n, k = gemm.tile
$ set a_registers, b_registers = gemm.instruction.fragment("a").registers, gemm.instruction.fragment("b").registers
// made by tcprobe ${version}: D (${m} x ${n} a block) = A B of ${gemm.type} into ${gemm.out}, on ${gemm.arch.name} and later
// A: ${"rows" if gemm.a == "row" else "columns"} contiguous, B: ${"rows" if gemm.b == "row" else "columns"} contiguous, D: rows contiguous. lda, ldb, ldd: bytes from line to line, multiples of 16, as
// all addresses; m, n and k are any$[ if gemm.bits < 8 ]$, and where k is odd, half of a line's last byte is zero$[ endif ]$. Launch: grid ((n + ${n - 1}) / ${n}, (m + ${m - 1}) / ${m}), ${gemm.threads} threads,
// ${gemm.shared_bytes} bytes of dynamic shared memory (cudaFuncAttributeMaxDynamicSharedMemorySize).
$ if scales
// sfa, sfb: a scale of ${scales.of.scale} for ${scales.of.block} elements along k of a line of A, of B, as `tcprobe scales` says.
// Scales and their multiply rest on documents and on emulation: they have run on no GPU yet.
$ endif
namespace ${called} {
// The paths of a warp's part of A and of B: global -> shared -> registers, each proven on every slot.
${path_code(gemm.paths.a)}
${path_code(gemm.paths.b)}
using A = ${struct_name(gemm.paths.a)};
using B = ${struct_name(gemm.paths.b)};
constexpr int WARPS_M = ${gemm.warps[0]}, WARPS_N = ${gemm.warps[1]}, THREADS = ${gemm.threads}, STAGES = ${gemm.stages};
constexpr int TILE_M = ${m}, TILE_N = ${n}, TILE_K = ${k}, WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
constexpr int DOWN = WARP_M / ${gemm.shape.m}, ACROSS = WARP_N / ${gemm.shape.n};  // fragments of D that a warp has
constexpr int BYTES_A = WARPS_M * A::BYTES, STAGE = BYTES_A + WARPS_N * B::BYTES, $[ if gemm.bits >= 8 ]$SIZE = ${gemm.bits // 8}, $[ endif ]$STEPS = A::STEPS;

// One piece of 16 bytes; of what lies beyond the matrix come zeros: `left` bytes are there, none if it is < 0, and
// all of them where the tile is `whole`
template <bool whole>
__device__ inline void copy(unsigned to, const char* from, int left) {
$ if gemm.asynchronous
  if (whole) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
    return;
  }
  const int inside = left < 0 ? 0 : left < 16 ? left : 16;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(inside) : "memory");
$ else
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
               "r"(v.word[2]), "r"(v.word[3]) : "memory");
$ endif
}
$ for part in fills
// The block's tile of ${part.what}, global -> shared, in ${part.count} copies of a warp: ${part.parts} times those of the path of
// ${part.fragment}, tile ${part.tile} (tcprobe path). Where a thread's first piece is, from where the tile begins:
__device__ inline const char* first_${part.operand}(const char* global, long long ld) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  ${part.first}
  asm("" : "+l"(global));  // one register pair: no part of the address is computed again
  return global;
}
// and where it goes, from where the tile begins in shared memory
__device__ inline unsigned place_${part.operand}() {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  ${part.place}
  asm("" : "+r"(place));
  return place;
}
// lines, bytes: how many the matrix has from the tile's start on
template <bool whole>
__device__ inline void fill_${part.operand}(unsigned shared, unsigned place, const char* first, long long ld, int lines,
                                          int bytes) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll(whole ? ${part.rounds} : 1)
  for (int round = 0; round < ${part.rounds}; ++round) {
    ${part.issue}
    const int line = ${part.line}, byte = ${part.byte};
    copy<whole>(shared + ${part.in_shared}, first + ${part.on}, line < lines ? bytes - byte : 0);
  }
}
$[ endfor +]$
// The multiply (tcprobe show ${gemm.instruction.id})
$ if scales
struct Multiply {
${scales.functions}
};
// `id`: the first byte of the words that has scales of this step
__device__ inline void multiply(float (&d)[${d.registers}], const unsigned (&a)[${a_registers}], const unsigned (&b)[${b_registers}], unsigned scales_a,
                                unsigned scales_b, int id) {
$ for id in range(0, 4, scales.vector)
  if (id == ${id}) Multiply::mma<${id}, 0, ${id}, 0>(d, a, b, d, scales_a, scales_b);
$ endfor
}
${scales.a}
${scales.b}
$ else
${multiply}
$ endif
${store}
$ include "raster.cu"
// D += A B over all k: `whole`, all tiles are inside A and B; m0, n0: where the block's begin
template <bool whole>
__device__ inline void multiply_all(${word} (&d)[DOWN][ACROSS][${d.registers}], unsigned shared, const char* a,
                                    const char* b, $[ if scales ]$const unsigned char* sfa, const unsigned char* sfb, $[ endif ]$int m0, int n0, int m, int n, int k,
                                    long long lda, long long ldb) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = warp / WARPS_N, across = warp % WARPS_N;
  const int tiles = (k + TILE_K - 1) / TILE_K;
  const char* next_a = first_a(${start.a[0]}, lda);
  const char* next_b = first_b(${start.b[0]}, ldb);
  const unsigned to_a = place_a(), to_b = place_b();
  const auto after = [&](unsigned stage) { return stage == shared + (STAGES - 1) * STAGE ? shared : stage + STAGE; };
  // into a stage of shared memory, one tile after the other: the parts of A, then those of B
  unsigned into = shared;
  const auto fill = [&](int tile) {
    const int k0 = tile * TILE_K;
    if (tile >= tiles) return;
    fill_a<whole>(into, to_a, next_a, lda, ${start.a[1]});
    fill_b<whole>(into + BYTES_A, to_b, next_b, ldb, ${start.b[1]});
    into = after(into);
    next_a += ${start.a[2]};
    next_b += ${start.b[2]};
  };
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    fill(tile);
    ${commit}
  }
  // fragments of two k steps: those of the next are loaded while those of this one are multiplied
  unsigned fa[2][DOWN * ${a_registers}], fb[2][ACROSS * ${b_registers}];
  const auto load = [&](unsigned stage, int step) {
    A::load_k(stage + down * A::BYTES, lane, step, fa[step & 1]);
    B::load_k(stage + BYTES_A + across * B::BYTES, lane, step, fb[step & 1]);
  };
$ if scales
  // scales of a fragment's lines are a word for 4 blocks of k; those of the next word are loaded while these are used.
  // Where the matrix ends: those of the last lines that there are, which D has no room for, and zeros beyond k
  constexpr int PER_WORD = ${4 // scales.vector};  // steps
  const int blocks = (k + ${scales.of.block - 1}) / ${scales.of.block};
  unsigned sa[DOWN], sb[ACROSS], next_sa[DOWN], next_sb[ACROSS];
  const auto load_scales = [&](int block) {
    const int left = blocks - block;
    const unsigned there = whole || left >= 4 ? 0xffffffff : left > 0 ? (1u << 8 * left) - 1 : 0;
    for (int i = 0; i < DOWN; ++i) {
      const int line = m0 + down * WARP_M + i * ${gemm.shape.m}, first = whole || line < m ? line : (m - 1) / ${gemm.shape.m} * ${gemm.shape.m};
      next_sa[i] = there ? scales_a(sfa, first, block, blocks, lane) & there : 0;
    }
    for (int j = 0; j < ACROSS; ++j) {
      const int line = n0 + across * WARP_N + j * ${gemm.shape.n}, first = whole || line < n ? line : (n - 1) / ${gemm.shape.n} * ${gemm.shape.n};
      next_sb[j] = there ? scales_b(sfb, first, block, blocks, lane) & there : 0;
    }
  };
  load_scales(0);
$ endif
  ${wait}
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
        ${commit}
        ${wait}
        __syncthreads();  // the next tile is there for all, and all have read this one
        stage = after(stage);
        load(stage, 0);
      }
$ if scales
      if (step % PER_WORD == 0) {
        for (int i = 0; i < DOWN; ++i) sa[i] = next_sa[i];
        for (int j = 0; j < ACROSS; ++j) sb[j] = next_sb[j];
        if (!whole || step + PER_WORD < STEPS || tile + 1 < tiles) load_scales((tile * STEPS + step) * ${scales.vector} + 4);
      }
$ endif
#pragma unroll
      for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
          multiply(d[i][j], reinterpret_cast<const unsigned(&)[${a_registers}]>(fa[step & 1][i * ${a_registers}]),
                   reinterpret_cast<const unsigned(&)[${b_registers}]>(fb[step & 1][j * ${b_registers}])$[ if scales ]$, sa[i], sb[j],
                   step % PER_WORD * ${scales.vector}$[ endif ]$);
    }
  }
}
extern "C" __global__ void __launch_bounds__(THREADS)
${called}(const void* a_, const void* b_, $[ if scales ]$const unsigned char* sfa, const unsigned char* sfb, $[ endif ]$void* d_, int m, int n, int k, long long lda, long long ldb, long long ldd) {
  extern __shared__ unsigned char smem[];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += (${gemm.alignment} - shared % ${gemm.alignment}) % ${gemm.alignment};  // where the swizzles begin
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = warp / WARPS_N, across = warp % WARPS_N;
  unsigned row, col;
  place(row, col);
  const int m0 = row * TILE_M, n0 = col * TILE_N;
  const char* const a = static_cast<const char*>(a_);
  const char* const b = static_cast<const char*>(b_);

  ${word} d[DOWN][ACROSS][${d.registers}] = {};
  if (m0 + TILE_M <= m && n0 + TILE_N <= n && k % TILE_K == 0)
    multiply_all<true>(d, shared, a, b, $[ if scales ]$sfa, sfb, $[ endif ]$m0, n0, m, n, k, lda, ldb);
  else
    multiply_all<false>(d, shared, a, b, $[ if scales ]$sfa, sfb, $[ endif ]$m0, n0, m, n, k, lda, ldb);

$ if gemm.line
  // D goes through the stages, so that it leaves in pieces of 16 bytes; ${gemm.line - gemm.tile[1] * dtype(gemm.out).bits // 8} more per row ${"spare conflicts" if (gemm.line - gemm.tile[1] * dtype(gemm.out).bits // 8) * 2 == 16 * dtype(gemm.out).bits // 8 else "are all that fits: stores take two wavefronts for each that they need"}
  constexpr int LINE = TILE_N * ${dtype(gemm.out).bits // 8}, GAP = ${gemm.line};
  char* const rows = reinterpret_cast<char*>(smem) + (shared - static_cast<unsigned>(__cvta_generic_to_shared(smem)));
  __syncthreads();  // all have read the last tile
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j)
      store(rows + (down * WARP_M + i * ${gemm.shape.m}) * GAP + (across * WARP_N + j * ${gemm.shape.n}) * ${dtype(gemm.out).bits // 8}, GAP, ${gemm.shape.m}, ${gemm.shape.n},
            d[i][j], lane);
  __syncthreads();
  for (int piece = threadIdx.x; piece < TILE_M * LINE / 16; piece += THREADS) {
    const int line = piece / (LINE / 16), byte = piece % (LINE / 16) * 16, left = (n - n0) * ${dtype(gemm.out).bits // 8} - byte;
    if (m0 + line >= m) break;
    const uint4* const from = reinterpret_cast<const uint4*>(rows + line * GAP + byte);
    char* const to = static_cast<char*>(d_) + (m0 + line) * ldd + n0 * ${dtype(gemm.out).bits // 8} + byte;
    if (left >= 16) {
      *reinterpret_cast<uint4*>(to) = *from;
    } else {
      for (int j = 0; j < left; ++j) to[j] = reinterpret_cast<const char*>(from)[j];
    }
  }
$ else
  const int first_row = m0 + down * WARP_M, first_col = n0 + across * WARP_N;
#pragma unroll
  for (int i = 0; i < DOWN; ++i)
#pragma unroll
    for (int j = 0; j < ACROSS; ++j) {
      const int at_row = first_row + i * ${gemm.shape.m}, at_col = first_col + j * ${gemm.shape.n};
      store(static_cast<char*>(d_) + at_row * ldd + at_col * ${dtype(gemm.out).bits // 8}, ldd, m - at_row, n - at_col, d[i][j], lane);
    }
$ endif
}
}  // namespace ${called}
