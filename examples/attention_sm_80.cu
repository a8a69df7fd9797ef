// The loop of attention on sm_80, for examples/attention.py, which puts in what tcprobe prints.
namespace $name {
$text
$paths
using Multiply = $multiply;
using Q = $q;
using K = $k;
using V = $v;
constexpr bool CAUSAL = $causal;
constexpr int HEAD = $head, WARPS = $warps, ROWS = $rows, KEYS = $keys, THREADS = 32 * WARPS;
constexpr int DOWN = ROWS / 16, KEYS_ACROSS = KEYS / 8, HEAD_ACROSS = HEAD / 8;  // fragments of S and O
constexpr unsigned Q_BYTES = WARPS * Q::BYTES;

__device__ inline void arrived() {  // all that was asked for, for all threads
  asm volatile("cp.async.wait_all;" : : : "memory");
  __syncthreads();
}

// D += A B for fragments in registers, `across` fragments of B
template <int across>
__device__ inline void multiply(float (*d)[4], const unsigned* a, const unsigned* b) {
#pragma unroll
  for (int j = 0; j < across; ++j)
    Multiply::mma(d[j], reinterpret_cast<const unsigned(&)[4]>(*a), reinterpret_cast<const unsigned(&)[2]>(b[2 * j]), d[j]);
}

// block (x, y): WARPS * ROWS queries of head y of all; `scale` is log2(e) / sqrt(HEAD)
extern "C" __global__ void __launch_bounds__(THREADS)
$name(const void* q_, const void* k_, const void* v_, void* o_, int length, float scale) {
  extern __shared__ unsigned char smem[];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += ($alignment - shared % $alignment) % $alignment;  // where the swizzles begin
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned at_q = shared + warp * Q::BYTES, at_k = shared + Q_BYTES, at_v = at_k + K::BYTES;
  const int first = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * WARPS * ROWS;  // the longest first
  const int row0 = first + warp * ROWS, tiles = (CAUSAL ? first + WARPS * ROWS : length) / KEYS;
  const long long line = HEAD * 2, start = static_cast<long long>(blockIdx.y) * length * line;
  const char* const k = static_cast<const char*>(k_) + start;
  const char* const v = static_cast<const char*>(v_) + start;

  Q::fill(at_q, static_cast<const char*>(q_) + start + row0 * line, lane, 32);
  K::fill(at_k, k, threadIdx.x, THREADS);
  float o[DOWN * HEAD_ACROSS][4] = {}, maximum[2 * DOWN], sum[2 * DOWN] = {}, factor[2 * DOWN];
#pragma unroll
  for (int row = 0; row < 2 * DOWN; ++row) maximum[row] = -__int_as_float(0x7f800000);
  for (int tile = 0; tile < tiles; ++tile) {
    arrived();  // K is there, and all have read V
    V::fill(at_v, v + tile * KEYS * line, threadIdx.x, THREADS);
    float s[DOWN * KEYS_ACROSS][4] = {};
#pragma unroll
    for (int step = 0; step < Q::STEPS; ++step) {
      unsigned a[Q::STEP_REGISTERS], b[K::STEP_REGISTERS];
      Q::load_k(at_q, lane, step, a);
      K::load_k(at_k, lane, step, b);
#pragma unroll
      for (int i = 0; i < DOWN; ++i) multiply<KEYS_ACROSS>(s + i * KEYS_ACROSS, a + 4 * i, b);
    }
    arrived();  // V is there, and all have read K
    if (tile + 1 < tiles) K::fill(at_k, k + (tile + 1) * KEYS * line, threadIdx.x, THREADS);
#pragma unroll
    for (int f = 0; f < DOWN * KEYS_ACROSS; ++f) {
      if (CAUSAL && (tile + 1) * KEYS > row0)
        mask(s[f], tile * KEYS + f % KEYS_ACROSS * 8, row0 + f / KEYS_ACROSS * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) s[f][i] *= scale;
    }
    softmax(s, maximum, sum, factor);
    multiply_rows(o, factor);
#pragma unroll
    for (int step = 0; step < V::STEPS; ++step) {
      unsigned b[V::STEP_REGISTERS];
      V::load_k(at_v, lane, step, b);
#pragma unroll
      for (int i = 0; i < DOWN; ++i) {
        unsigned p[1][4];
        convert(reinterpret_cast<const float(&)[2][4]>(s[i * KEYS_ACROSS + 2 * step]), p);
        multiply<HEAD_ACROSS>(o + i * HEAD_ACROSS, p[0], b);
      }
    }
  }

  softmax_total(sum);
#pragma unroll
  for (int row = 0; row < 2 * DOWN; ++row) factor[row] = 1 / sum[row];
  multiply_rows(o, factor);
#pragma unroll
  for (int f = 0; f < DOWN * HEAD_ACROSS; ++f) {
    const int row = row0 + f / HEAD_ACROSS * 16, col = f % HEAD_ACROSS * 8;
    store(static_cast<char*>(o_) + start + row * line + col * 2, line, length - row, HEAD - col, o[f], lane);
  }
}
}  // namespace $name
