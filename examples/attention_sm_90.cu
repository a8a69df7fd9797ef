// The loop of attention on sm_90, for examples/attention.py, which puts in what tcprobe prints.
namespace $name {
$text
using Scores = $scores;
using Values = $values;
struct alignas(128) TensorMap { unsigned long long words[16]; };
constexpr bool CAUSAL = $causal;
constexpr int HEAD = $head, GROUPS = $groups, KEYS = $keys, STAGES = 2, THREADS = 128 * (GROUPS + 1);
constexpr unsigned Q_BYTES = $q_bytes, BYTES = $bytes;  // of Q; of K, and of V

__device__ inline void copy(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
// until the phase of a barrier with this parity is over
__device__ inline void wait(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(barrier) : "memory");
}
__device__ inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
__device__ inline unsigned long long behind(unsigned long long bits, unsigned at) { return bits | (at & 0x3ffff) >> 4; }

// S = Q K', O += P V: a k step after the other, each as far on as `tcprobe descriptor` says
__device__ inline void scores(float (&s)[1][$count_s], unsigned long long q, unsigned long long k) {
$scores_steps
    Scores::commit_group();
}
__device__ inline void values(float (&o)[$count_o], const unsigned (&p)[$steps][4], unsigned long long v) {
$values_steps
    Values::commit_group();
}

// block (x, y): 64 queries of head y of all for each warpgroup but the first; `scale` is log2(e) / sqrt(HEAD)
extern "C" __global__ void __launch_bounds__(THREADS, 1)
$name(const TensorMap* map_q, const TensorMap* map_k, const TensorMap* map_v, void* o_, int length, float scale) {
  extern __shared__ unsigned char smem[];
  __shared__ alignas(8) unsigned long long barriers[1 + 4 * STAGES];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += ($alignment - shared % $alignment) % $alignment;  // where the swizzles begin
  const unsigned full_q = static_cast<unsigned>(__cvta_generic_to_shared(barriers));
  const auto full = [=](int tile, int of_v) { return full_q + 8 + 8 * (tile % STAGES * 2 + of_v); };
  const auto empty = [=](int tile, int of_v) { return full(tile, of_v) + 16 * STAGES; };
  const auto place = [=](int tile, int of_v) { return shared + Q_BYTES + (tile % STAGES * 2 + of_v) * BYTES; };
  if (threadIdx.x == 0) {
    for (int number = 0; number < 1 + 4 * STAGES; ++number)
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(full_q + 8 * number), "r"(number > 2 * STAGES ? GROUPS : 1) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
  }
  __syncthreads();
  const int first = (CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * GROUPS * 64;  // the longest first
  const int tiles = ((CAUSAL ? first + GROUPS * 64 : length) + KEYS - 1) / KEYS;
  const int start = blockIdx.y * length;  // the head's first line

  if (threadIdx.x < 128) {  // the producer: one thread fills stages as they become empty
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_q) : "memory");
      asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_k) : "memory");
      asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map_v) : "memory");
      {
        const unsigned to = shared, barrier = full_q;
        const int line = start + first;
        expect(barrier, Q_BYTES);
        $copy_q
      }
      for (int tile = 0; tile < tiles; ++tile) {
        const int line = start + tile * KEYS;
        for (int of_v = 0; of_v < 2; ++of_v) {
          const unsigned to = place(tile, of_v), barrier = full(tile, of_v);
          wait(empty(tile, of_v), tile / STAGES % 2 ^ 1);  // the first round finds all empty
          expect(barrier, BYTES);
          if (of_v) { $copy_v }
          else { $copy_k }
        }
      }
    }
  } else {  // 64 queries
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
    const int row0 = first + group * 64;
    const unsigned long long q = behind($bits_q, shared + group * $per_group);
    float s[1][$count_s], o[$count_o] = {}, maximum[2], sum[2] = {}, factor[2];
    maximum[0] = maximum[1] = -__int_as_float(0x7f800000);
    unsigned p[$steps][4];
    const auto ready = [&](int tile) {  // S of a tile becomes P, and the rows of O get their factor
      Scores::fence_operand(s[0]);
      if (thread == 0) arrive(empty(tile, 0));
      if (CAUSAL && (tile + 1) * KEYS > row0) mask(s[0], tile * KEYS, row0);
#pragma unroll
      for (int i = 0; i < $count_s; ++i) s[0][i] *= scale;
      softmax(s[0], maximum, sum, factor);
    };
    wait(full_q, 0);
    wait(full(0, 0), 0);
    Scores::fence();
    scores(s, q, behind($bits_k, place(0, 0)));
    Scores::wait_group<0>();
    ready(0);
    convert(s, p);
    for (int tile = 1; tile < tiles; ++tile) {  // S of this tile, while O has P V of the one before added to it
      wait(full(tile, 0), tile / STAGES % 2);
      Scores::fence_operand(s[0]);
      Values::fence_operand(o);
      Scores::fence();
      scores(s, q, behind($bits_k, place(tile, 0)));
      wait(full(tile - 1, 1), (tile - 1) / STAGES % 2);
      Values::fence();
      values(o, p, behind($bits_v, place(tile - 1, 1)));
      Scores::wait_group<1>();
      ready(tile);
      Values::wait_group<0>();
      Values::fence_operand(o);
      if (thread == 0) arrive(empty(tile - 1, 1));
      multiply_rows(o, factor);
      convert(s, p);
    }
    wait(full(tiles - 1, 1), (tiles - 1) / STAGES % 2);
    Values::fence_operand(o);
    Values::fence();
    values(o, p, behind($bits_v, place(tiles - 1, 1)));
    Values::wait_group<0>();
    Values::fence_operand(o);
    softmax_total(sum);
    for (int row = 0; row < 2; ++row) factor[row] = 1 / sum[row];
    multiply_rows(o, factor);
    char* const to = static_cast<char*>(o_) + static_cast<long long>(start + row0) * HEAD * 2;
    store(to, HEAD * 2, length - row0, HEAD, o, thread);
  }
}
}  // namespace $name
