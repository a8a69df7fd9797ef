typedef unsigned long long u64;

// the lane whose elements a thread is to hold: where the map is mistaken, with two bits exchanged
__device__ inline int lane_of(bool mistaken) {
  const int lane = threadIdx.x;
  return mistaken ? (lane & ~5) | (lane & 1) << 2 | (lane >> 2 & 1) : lane;
}

// every element of a fragment from its place in a matrix with rows `pitch` apart, i = `spoilt` of every thread spoilt
template <class F, class W>
__device__ void gather(int lane, const u64* matrix, int pitch, int spoilt, bool nan, W (&registers)[F::registers]) {
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  for (int j = 0; j < F::registers; ++j) registers[j] = 0;
  #pragma unroll 1
  for (int i = 0; i < F::elements; ++i) {
    u64 v = matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * pitch + F::col(lane, i)];
    if (i == spoilt) v = nan ? ones : v ^ ones;
    registers[i * F::slot_bits / F::register_bits] |= static_cast<W>(v) << (i * F::slot_bits % F::register_bits);
  }
}

// and back
template <class F, class W>
__device__ void scatter(u64* matrix, const W (&registers)[F::registers]) {
  const int lane = threadIdx.x;
  const u64 ones = ~0ull >> (64 - F::slot_bits);
  #pragma unroll 1
  for (int i = 0; i < F::elements; ++i) {
    const u64 v = registers[i * F::slot_bits / F::register_bits] >> (i * F::slot_bits % F::register_bits) & ones;
    matrix[(F::product(lane, i) * F::rows + F::row(lane, i)) * F::cols + F::col(lane, i)] = v;
  }
}

// the bits of registers
template <class To, class From, int count>
__device__ __forceinline__ void copied(To (&to)[count], const From (&from)[count]) {
  static_assert(sizeof(To) == sizeof(From), "");
  #pragma unroll
  for (int j = 0; j < count; ++j) {
    union { From from; To to; } both;
    both.from = from[j];
    to[j] = both.to;
  }
}

// `bits` bits of v to byte `offset` of shared memory that was zero; of less than a byte to bit k % 8
template <int bits>
__device__ void put(unsigned char* shared, int offset, int k, u64 v) {
  const int bit = offset % 4 * 8 + (bits < 8 ? k % 8 : 0);
  atomicOr(reinterpret_cast<unsigned*>(shared + (offset & ~3)), static_cast<unsigned>(v) << bit);
}
