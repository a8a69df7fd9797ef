$ set m, n, k = gemm.tile
$ set tiles, boxed = gemm.tiles, "d" in gemm.tiles
// made by tcprobe ${version}: D (${m} x ${n} a block) = A B of ${gemm.type} into ${gemm.out}, for sm_90a
// A: ${"k" if gemm.a == "row" else "m"}, B: ${"k" if gemm.b == "col" else "n"} contiguous, D: rows contiguous. m, n and k are any; lines in memory are multiples of 16
// bytes apart. Launch: grid ((n + ${n - 1}) / ${n}, (m + ${m - 1}) / ${m}), ${gemm.threads} threads,
// ${gemm.shared_bytes} bytes of dynamic shared memory (cudaFuncAttributeMaxDynamicSharedMemorySize).
// Tensor maps (cuTensorMapEncodeTiled; what is contiguous comes first, sizes are the whole matrix's):
$ for name, box in gemm.boxes.items()
// map_${name}: ${box.data_type}, box ${box.box | join(" x ")}, ${box.swizzle}
$ endfor
namespace ${called} {
struct alignas(128) TensorMap { unsigned long long words[16]; };
constexpr int CONSUMERS = ${gemm.consumers}, CLUSTER = ${gemm.cluster}, STAGES = ${gemm.stages}, TILE_M = ${m}, TILE_N = ${n}, TILE_K = ${k};
constexpr unsigned BYTES_A = ${tiles.a.bytes}, STAGE = BYTES_A + ${tiles.b.bytes};

__device__ inline void load(unsigned to, const TensorMap& map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
$ if gemm.cluster > 1
// the same for all blocks of the cluster, at the same place and the same barrier of each
__device__ inline void load_all(unsigned to, const TensorMap& map, unsigned barrier, int x, int y) {
  const unsigned short blocks = (1 << CLUSTER) - 1;
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%2, %3}], [%4], %5;"
               : : "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(blocks) : "memory");
}
$ endif
// until the phase of a barrier with this parity is over
__device__ inline void wait(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}
$ if gemm.cluster > 1
// at the barrier of every block of the cluster: each writes to the stages of all
__device__ inline void arrive(unsigned barrier) {
#pragma unroll
  for (int block = 0; block < CLUSTER; ++block)
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 : : "r"(barrier), "r"(block) : "memory");
}
$ else
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(barrier) : "memory");
}
$ endif
__device__ inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
// The multiply (tcprobe show ${gemm.instruction.id}): factors behind descriptors; without `more` D is overwritten
${multiply}
${store.rstrip() if boxed else store}
$ if boxed
__device__ inline void copy_back(unsigned from, const TensorMap& map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
${store_boxed}
$ endif
$ include "raster.cu"
extern "C" __global__ void $[ if gemm.cluster > 1 ]$__cluster_dims__(1, ${gemm.cluster}, 1) $[ endif ]$__launch_bounds__(${gemm.threads}, 1)
${called}(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
      $[ if boxed ]$const __grid_constant__ TensorMap map_d, $[ endif ]$void* d_, long long ldd, int m, int n, int k) {
  extern __shared__ unsigned char smem[];
  __shared__ alignas(8) unsigned long long barriers[2 * STAGES];
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += (${gemm.alignment} - shared % ${gemm.alignment}) % ${gemm.alignment};  // where the swizzles begin
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)), empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(full + 8 * stage) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                   : : "r"(empty + 8 * stage), "r"(CONSUMERS * CLUSTER) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
  }
$ if gemm.cluster > 1
  asm volatile("barrier.cluster.arrive.release;" : : : "memory");  // all barriers of the cluster are ready
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
$ else
  __syncthreads();
$ endif
  unsigned row, col;
  place(row, col);
  const int m0 = row * TILE_M, n0 = col * TILE_N, tiles = (k + TILE_K - 1) / TILE_K;

  if (threadIdx.x < 128) {  // the producer: one thread fills stages as they become empty
    asm volatile("setmaxnreg.dec.sync.aligned.u32 ${registers[0]};");
    if (threadIdx.x == 0)
      for (int tile = 0; tile < tiles; ++tile) {
        const unsigned stage = tile % STAGES, at = shared + stage * STAGE, barrier = full + 8 * stage;
        const int k0 = tile * TILE_K;
        wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);  // the first round finds all empty
        expect(barrier, STAGE);
${loads}
      }
  } else {  // a consumer: 64 rows of D
    asm volatile("setmaxnreg.inc.sync.aligned.u32 ${registers[1]};");
    const unsigned group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
    ${word} d[1][${d.fragment.registers}];
    for (int tile = 0; tile < tiles; ++tile) {
      const unsigned stage = tile % STAGES, at = shared + stage * STAGE;
      wait(full + 8 * stage, tile / STAGES % 2);
      // tcprobe descriptor --tile ${m}x${k} --type ${gemm.type} --major ${tiles.a.major}, and --tile ${n}x${k} --major ${tiles.b.major}
      const unsigned long long a = ${bits.a}ull | ((at + group * ${tiles.a.per_block or 0}) & 0x3ffff) >> 4;
      const unsigned long long b = ${bits.b}ull | ((at + BYTES_A) & 0x3ffff) >> 4;
      asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
$ for step in range(k // gemm.instruction.shape.k)
      multiply(d[0], a + ${starts.a[step] // 16}, b + ${starts.b[step] // 16}, ${"1" if step else "tile"});
$ endfor
      asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");  // the tile before this one is multiplied
      if (tile && thread == 0) arrive(empty + 8 * ((tile - 1) % STAGES));
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
#pragma unroll
    for (int i = 0; i < ${d.fragment.registers}; ++i) {
      asm volatile("" : "+${letter}"(d[0][i]) : : "memory");  // what the multiplies write is read from here on
      if (!tiles) d[0][i] = 0;
    }
    const int first_row = m0 + group * 64;
$ if boxed
$ set box = tma(tiles.d)
    // TMA writes whole pieces of 16 bytes, so that it has the blocks of which no piece goes beyond the end of a row
    if (n % ${16 * 8 // dtype(gemm.out).bits} && n0 + TILE_N > n) {
      store(static_cast<char*>(d_) + first_row * ldd + n0 * ${dtype(gemm.out).bits // 8}, ldd, m - first_row, n - n0, d[0], thread);
    } else {
    // all consumers have read the stages: D takes their place, ${box.boxes} boxes a warpgroup
    asm volatile("bar.sync 1, %0;" : : "n"(CONSUMERS * 128) : "memory");
    const unsigned at = shared + group * ${tiles.d.bytes};
    store_boxed(at, thread, d);
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    asm volatile("bar.sync %0, 128;" : : "r"(2 + group) : "memory");
    if (thread == 0) {
$ for number in range(box.boxes)
      copy_back(at + ${number * box.box_bytes}, map_d, n0 + ${number * box.box[0]}, first_row);
$ endfor
      asm volatile("cp.async.bulk.commit_group;" : : : "memory");
      asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
    }
    }
$ else
    store(static_cast<char*>(d_) + first_row * ldd + n0 * ${dtype(gemm.out).bits // 8}, ldd, m - first_row, n - n0, d[0], thread);
$ endif
  }
$ if gemm.cluster > 1
  // no block ends while another may still arrive at its barriers
  asm volatile("barrier.cluster.arrive.release;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
$ endif
}
}  // namespace ${called}
