$ set m, n, k = gemm.tile
$ set tiles, paired, steps = gemm.tiles, gemm.cluster == 2, k // gemm.instruction.shape.k
$ set size, group = dtype(gemm.out).bits // 8, "cta_group::%d" % gemm.cluster
// made by tcprobe ${version}: D (${m} x ${n} a block) = A B of ${gemm.type} into ${gemm.out}, for ${gemm.compiled_for}
// Rests on documents and on emulation: it has run on no GPU yet.
// A: ${"k" if gemm.a == "row" else "m"}, B: ${"k" if gemm.b == "col" else "n"} contiguous, D: rows contiguous. m, n and k are any; lines in memory are multiples of 16
// bytes apart. Launch: grid ((n + ${n - 1}) / ${n}, (m + ${m * gemm.cluster - 1}) / ${m * gemm.cluster}$[ if paired ]$ * 2$[ endif ]$), ${gemm.threads} threads,
// ${gemm.shared_bytes} bytes of dynamic shared memory (cudaFuncAttributeMaxDynamicSharedMemorySize).
// Tensor maps (cuTensorMapEncodeTiled; what is contiguous comes first, sizes are the whole matrix's):
$ for name, box in gemm.boxes.items()
// map_${name}: ${box.data_type}, box ${box.box | join(" x ")}, ${box.swizzle}
$ endfor
$ if gemm.bits == 4
// Two elements are a byte of the maps of A and B; where k is odd, the upper half of a line's last byte is zero.
$ endif
$ if scaled
// sfa, sfb: a scale of ${scaled.scale} for ${scaled.block} elements along k of a line of A, of B, as `tcprobe scales` says; aligned to 16 bytes
$ endif
namespace ${called} {
struct alignas(128) TensorMap { unsigned long long words[16]; };
constexpr int $[ if paired ]$CLUSTER = 2, $[ endif ]$STAGES = ${gemm.stages}, TILE_M = ${m}, TILE_N = ${n}, TILE_K = ${k};
constexpr unsigned BYTES_A = ${tiles.a.bytes}, BYTES_AB = BYTES_A + ${tiles.b.bytes}, STAGE = ${gemm.stage_bytes};
constexpr unsigned COLUMNS = ${gemm.columns};  // of tensor memory: D$[ if scaled ]$, scales of every stage$[ endif ]$, and what makes it a power of two
$ if scaled
// an atom: the scales of 128 lines and 4 blocks of k, 512 bytes; GROUPS of 4 blocks and ATOMS_B of 128 lines in a tile
constexpr int BLOCK = ${scaled.block}, ATOM = 512, GROUPS = ${gemm.groups}, ATOMS_B = ${gemm.atoms_b};
constexpr unsigned SCALES = TILE_N, SCALES_B = 4 * GROUPS, SCALES_STAGE = SCALES_B + 4 * GROUPS * ATOMS_B;  // columns
$ endif

__device__ inline void load(unsigned to, const TensorMap& map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
$ if scaled
__device__ inline void load_atoms(unsigned to, const unsigned char* from, unsigned barrier, unsigned bytes) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               : : "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// An atom from shared into 4 columns of tensor memory, for all warps
__device__ inline void copy_atom(unsigned to, unsigned from) {
  const unsigned long long atom = 0x400800000000ull | (from & 0x3ffff) >> 4;
  asm volatile("tcgen05.cp.${group}.32x128b.warpx4 [%0], %1;" : : "r"(to), "l"(atom) : "memory");
}
$ endif
// until the phase of a barrier with this parity is over
__device__ inline void wait(unsigned barrier, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity$[ if paired ]$.acquire.cluster$[ endif ]$.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}
__device__ inline void expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
$ if paired
// at the barrier of the first block of the pair
__device__ inline void arrive_first(unsigned barrier) {
  asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, 0;"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}" : : "r"(barrier) : "memory");
}
$ endif
// The multiply (tcprobe show ${gemm.instruction.called}): factors behind descriptors, D in tensor memory; without `more` D is overwritten
__device__ inline void multiply(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction,
                                $[ if scaled ]$unsigned scales_a, unsigned scales_b, $[ endif ]$int more) {
$ if scaled
  asm volatile("{.reg .pred p; setp.ne.b32 p, %6, 0;"
               " tcgen05.mma.${group}.kind::${gemm.instruction.kind}.block_scale.block${scaled.block} [%0], %1, %2, %3, [%4], [%5], p;}"
               : : "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b), "r"(more) : "memory");
$ else
  asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.${group}.kind::${gemm.instruction.kind} [%0], %1, %2, %3, p;}"
               : : "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(more) : "memory");
$ endif
}
// a barrier$[ if paired ]$ of each block of the pair$[ endif ]$ is told once all that this thread has issued so far is done
__device__ inline void commit(unsigned barrier) {
$ if paired
  const unsigned short both = 3;
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               : : "r"(barrier), "h"(both) : "memory");
$ else
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" : : "r"(barrier) : "memory");
$ endif
}
// around what makes threads wait for each other: what was done in tensor memory before is done for those behind it
__device__ inline void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" : : : "memory"); }
__device__ inline void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" : : : "memory"); }
${"// all threads of both blocks" if paired else "// all threads of the block"}
__device__ inline void meet() {
  fence_before();
$ if paired
  asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
$ else
  __syncthreads();
$ endif
  fence_after();
}
// ${part} columns of a warp's 32 lanes of D, of which each is a row (tcprobe show ${gemm.instruction.called}.d)
__device__ inline void load_d(unsigned from, ${word} (&d)[${part}]) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x${part}.b32 {${range(part) | map("string") | map("replace", "", "%", 1) | join(", ")}}, [%${part}];"
               " tcgen05.wait::ld.sync.aligned;"
               : $[ for i in range(part) ]$"=${letter}"(d[${i}])${", " if i + 1 < part}$[ endfor ]$

               : "r"(from) : "memory");
}
// where an element of a warp's 32 rows of D is in shared memory (tcprobe descriptor has such boxes)
__device__ inline unsigned place_d(unsigned line, unsigned k) { return ${tiles.d.formula}; }
__device__ inline void copy_back(unsigned from, const TensorMap& map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
$ include "raster.cu"
extern "C" __global__ void $[ if paired ]$__cluster_dims__(1, 2, 1) $[ endif ]$__launch_bounds__(${gemm.threads}, 1)
${called}(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_d,
      $[ if scaled ]$const unsigned char* sfa, const unsigned char* sfb, $[ endif ]$void* d_, long long ldd, int m, int n, int k) {
  extern __shared__ unsigned char smem[];
  // of every stage: full, empty$[ if paired ]$, and in the first block whether it is full in the second$[ endif ]$; one for the whole of D
  __shared__ alignas(8) unsigned long long barriers[${barriers} * STAGES + 1];
  __shared__ unsigned allocated;
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  shared += (${gemm.alignment} - shared % ${gemm.alignment}) % ${gemm.alignment};  // where the swizzles begin
  const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(barriers)), empty = full + 8 * STAGES;
  const unsigned $[ if paired ]$second = empty + 8 * STAGES, done = second + 8 * STAGES$[ else ]$done = empty + 8 * STAGES$[ endif ]$;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (unsigned barrier = full; barrier <= done; barrier += 8)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
  }
  if (warp == 2) {
    asm volatile("tcgen05.alloc.${group}.sync.aligned.shared::cta.b32 [%0], %1;"
                 : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&allocated))), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.${group}.sync.aligned;" : : : "memory");
  }
  meet();
  const unsigned tmem = *const_cast<volatile unsigned*>(&allocated);  // D: a row a lane, a column a column
  unsigned row, col;
  place(row, col);
  const int m0 = row * TILE_M, n0 = col * TILE_N, tiles = (k + TILE_K - 1) / TILE_K;
$ if paired
  const unsigned rank = blockIdx.y % CLUSTER;  // A: the rows of each block; B: half of the columns
$ endif
$ if scaled
  const int along_k = (k + 4 * BLOCK - 1) / (4 * BLOCK);  // atoms of a line
$ endif

  if (threadIdx.x == 0) {  // the producer: fills stages as they become empty
$ if scaled
    const auto atoms = [&](const unsigned char* of, int first, int lines) {  // from the last line on those of that line
      return of + static_cast<long long>(first < lines ? first / 128 : (lines - 1) / 128) * along_k * ATOM;
    };
$ endif
    for (int tile = 0; tile < tiles; ++tile) {
      const unsigned stage = tile % STAGES, at = shared + stage * STAGE, barrier = full + 8 * stage;
      const int k0 = tile * ${"TILE_K" if gemm.bits >= 8 else "(TILE_K / 2)"};${"" if gemm.bits >= 8 else "  // as the maps count"}
      wait(empty + 8 * stage, tile / STAGES % 2 ^ 1);  // the first round finds all empty
$ if scaled
      const int left = along_k - tile * GROUPS, groups = left < GROUPS ? left : GROUPS;
      expect(barrier, BYTES_AB + groups * ATOM * (1 + ATOMS_B));
$ else
      expect(barrier, BYTES_AB);
$ endif
${loads}
$ if scaled
      load_atoms(at + BYTES_AB, atoms(sfa, m0, m) + tile * GROUPS * ATOM, barrier, groups * ATOM);
      for (int i = 0; i < ATOMS_B; ++i)
        load_atoms(at + BYTES_AB + (1 + i) * GROUPS * ATOM, atoms(sfb, n0 + 128 * i, n) + tile * GROUPS * ATOM, barrier, groups * ATOM);
$ endif
    }
  }
$ if paired
  if (threadIdx.x == 32 && rank == 1)  // the second block's stages are full: the first one multiplies
    for (int tile = 0; tile < tiles; ++tile) {
      wait(full + 8 * (tile % STAGES), tile / STAGES % 2);
      arrive_first(second + 8 * (tile % STAGES));
    }
$ endif
  if (threadIdx.x == 32$[ if paired ]$ && rank == 0$[ endif ]$) {  // one thread multiplies$[ if paired ]$ for both blocks$[ endif ]$

    for (int tile = 0; tile < tiles; ++tile) {
      const unsigned stage = tile % STAGES, at = shared + stage * STAGE;
      wait(full + 8 * stage, tile / STAGES % 2);
$ if paired
      wait(second + 8 * stage, tile / STAGES % 2);
$ endif
      fence_after();
      // tcprobe descriptor --tcgen05 --tile ${m}x${tiles.a.k} --type ${tiles.a.type} --major ${tiles.a.major}, and --tile ${tiles.b.lines}x${tiles.b.k} --major ${tiles.b.major}
      const unsigned long long a = ${bits.a}ull | (at & 0x3ffff) >> 4;
      const unsigned long long b = ${bits.b}ull | ((at + BYTES_A) & 0x3ffff) >> 4;
$ if scaled
      // scales of this stage, 4 blocks after the other; beyond k there are none, and nothing is multiplied
      const unsigned sa = tmem + SCALES + stage * SCALES_STAGE, sb = sa + SCALES_B, scales = at + BYTES_AB;
      const int left = k - tile * TILE_K;
$ for step in range(steps)
$ set first = step * gemm.instruction.shape.k // scaled.block
$ set group_of, id = first // 4, first % 4
$ if id == 0
      if (left > ${step * gemm.instruction.shape.k}) {
        copy_atom(sa + ${4 * group_of}, scales + ${group_of} * ATOM);
        for (int i = 0; i < ATOMS_B; ++i) copy_atom(sb + 4 * (${group_of} * ATOMS_B + i), scales + ((1 + i) * GROUPS + ${group_of}) * ATOM);
      }
$ endif
      if (left > ${step * gemm.instruction.shape.k}) multiply(tmem, a + ${starts.a[step] // 16}, b + ${starts.b[step] // 16}, ${instructions[id]}, sa + ${4 * group_of}, sb + ${4 * group_of} * ATOMS_B, ${"1" if step else "tile"});
$ endfor
$ else
$ for step in range(steps)
      multiply(tmem, a + ${starts.a[step] // 16}, b + ${starts.b[step] // 16}, ${instructions[0]}, ${"1" if step else "tile"});
$ endfor
$ endif
      if (tile + STAGES < tiles) commit(empty + 8 * stage);  // the last round is filled by nobody
    }
    commit(done);
  }

  // D is complete, and all that was in the stages is read: a warp takes 32 rows, ${part} columns at a time
  wait(done, 0);
  __syncwarp();
  fence_after();
  const unsigned at = shared + warp * ${tiles.d.bytes};
  const int first_row = m0 + warp * 32;
  // TMA writes whole pieces of 16 bytes, so that it has the blocks of which no piece goes beyond the end of a row
  const bool boxed = n % ${16 // size} == 0 || n0 + TILE_N <= n;
#pragma unroll 1
  for (int first = 0; first < TILE_N; first += ${part}) {
    ${word} d[${part}];
    load_d(tmem + (warp * 32 << 16) + first, d);
    unsigned words[${part * size // 4}];
#pragma unroll
    for (int i = 0; i < ${part * size // 4}; ++i) {
$ if size == 4
      const ${word} value = tiles ? d[i] : 0;
      words[i] = $[ if word == "float" ]$__float_as_uint(value)$[ else ]$value$[ endif ]$;
$ else
      const float low = tiles ? d[2 * i] : 0, high = tiles ? d[2 * i + 1] : 0;
      unsigned d;
      ${conversion("f32", gemm.out, gemm.arch).pair}
      words[i] = d;
$ endif
    }
    if (boxed) {
#pragma unroll
      for (int i = 0; i < ${part * size // 16}; ++i)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                     : : "r"(at + place_d(lane, first + ${16 // size} * i)), "r"(words[4 * i]), "r"(words[4 * i + 1]),
                     "r"(words[4 * i + 2]), "r"(words[4 * i + 3]) : "memory");
    } else if (first_row + static_cast<int>(lane) < m) {
      char* const to = static_cast<char*>(d_) + (first_row + lane) * ldd + (n0 + first) * ${size};
#pragma unroll
      for (int i = 0; i < ${part}; ++i)
        if (n0 + first + i < n)
$ if size == 4
          *reinterpret_cast<unsigned*>(to + 4 * i) = words[i];
$ else
          *reinterpret_cast<unsigned short*>(to + 2 * i) = static_cast<unsigned short>(words[i / 2] >> i % 2 * 16);
$ endif
    }
  }
  if (boxed) {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    __syncwarp();
    if (lane == 0) {
$ set box = tma(tiles.d)
$ for number in range(box.boxes)
      copy_back(at + ${number * box.box_bytes}, map_d, n0 + ${number * box.box[0]}, first_row);
$ endfor
      asm volatile("cp.async.bulk.commit_group;" : : : "memory");
      asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
    }
    __syncwarp();
  }
  meet();
  if (warp == 2)
    asm volatile("tcgen05.dealloc.${group}.sync.aligned.b32 %0, %1;" : : "r"(tmem), "n"(COLUMNS) : "memory");
}
}  // namespace ${called}
