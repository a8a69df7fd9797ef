// D (128 x 128, f32) = A B' of f16, k contiguous in both: tiles of 32 of k by cp.async in two stages, ldmatrix, mma.sync,
// as many introductions to tensor cores have it. Rows of 64 bytes lie one behind the other; with -DSWIZZLED the 16 bytes
// of a row change places by its number.
#include <cuda_fp16.h>

constexpr int ROWS = 128, DEPTH = 32, THREADS = 128;

__device__ inline unsigned place(int row, int chunk) {
#ifdef SWIZZLED
  chunk ^= row >> 1 & 3;
#endif
  return row * DEPTH * 2 + chunk * 16;
}

__device__ inline void copy(unsigned tile, const half* from, int k, int start) {
  for (int i = 0; i < ROWS * 4 / THREADS; ++i) {
    int number = threadIdx.x + i * THREADS, row = number / 4, chunk = number % 4;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(tile + place(row, chunk)),
                 "l"(from + size_t(row) * k + start + chunk * 8));
  }
}

__device__ inline void load(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}

extern "C" __global__ void __launch_bounds__(THREADS) tile_gemm(const half* a, const half* b, float* d, int k) {
  __shared__ __align__(128) half tiles[2][2][ROWS * DEPTH];
  int lane = threadIdx.x % 32, down = threadIdx.x / 64 * 64, across = threadIdx.x / 32 % 2 * 64;
  unsigned base = __cvta_generic_to_shared(tiles), bytes = ROWS * DEPTH * 2;
  float sum[4][8][4] = {};
  copy(base, a, k, 0);
  copy(base + bytes, b, k, 0);
  asm volatile("cp.async.commit_group;");
  for (int start = 0, stage = 0; start < k; start += DEPTH, stage ^= 1) {
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    unsigned here = base + stage * 2 * bytes, next = base + (stage ^ 1) * 2 * bytes;
    if (start + DEPTH < k) {
      copy(next, a, k, start + DEPTH);
      copy(next + bytes, b, k, start + DEPTH);
    }
    asm volatile("cp.async.commit_group;");
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      unsigned left[4][4], right[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        load(left[i], here + place(down + i * 16 + lane % 16, step * 2 + lane / 16));
        load(right[i], here + bytes + place(across + i * 16 + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
              "{%0, %1, %2, %3};"
              : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
              : "r"(left[i][0]), "r"(left[i][1]), "r"(left[i][2]), "r"(left[i][3]), "r"(right[j / 2][j % 2 * 2]),
                "r"(right[j / 2][j % 2 * 2 + 1]));
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j)
      for (int e = 0; e < 4; ++e)
        d[(down + i * 16 + lane / 4 + e / 2 * 8) * ROWS + across + j * 8 + lane % 4 * 2 + e % 2] = sum[i][j][e];
}
