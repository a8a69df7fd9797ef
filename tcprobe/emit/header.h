#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TCPROBE_HD __host__ __device__
#else
#define TCPROBE_HD
#endif

// Which GPU NAME is for, as __CUDA_ARCH__ counts: 700, 800, 1210. Device code knows it; host code defines TCPROBE_ARCH,
// or names the GPU: sm_XX::NAME is there whatever TCPROBE_ARCH is.
#if !defined(TCPROBE_ARCH) && defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ == 1010
#define TCPROBE_ARCH 1100  // sm_101 is called sm_110 since CUDA 13
#else
#define TCPROBE_ARCH __CUDA_ARCH__
#endif
#endif
#if defined(TCPROBE_ARCH) && !defined(TCPROBE_ANY_ARCH)
#if TCPROBE_ARCH > $newest
#error "This header was generated for sm_$newest_arch and older; regenerate it for this GPU (or: TCPROBE_ANY_ARCH)"
#endif
#endif

#ifndef TCPROBE_CHECK
#define TCPROBE_CHECK
namespace tcprobe {
/// Whether a layout is the measured one: FNV-1a over the element of every slot of one lane after the other, and the
/// inverse leads back to each slot.
template <class L>
TCPROBE_HD constexpr bool proven(unsigned long long hash) {
  unsigned long long h = ${offset}ull;
  for (int lane = 0; lane < L::lanes; ++lane) {
    for (int i = 0; i < L::elements; ++i) {
      const int row = L::row(lane, i), col = L::col(lane, i), product = L::product(lane, i);
      h = (h ^ static_cast<unsigned long long>((row * 65536ll + col) * 8 + product)) * ${prime}ull;
      bool back = false;
      for (int copy = 0; copy < L::copies; ++copy) {
        back = back || (L::lane_of(row, col, copy, product) == lane && L::i_of(row, col, copy, product) == i);
      }
      if (!back) return false;
    }
  }
  return h == hash;
}
}  // namespace tcprobe
#endif

#if !defined(TCPROBE_ARCH)
#ifndef TCPROBE_UNSAID
#define TCPROBE_UNSAID
namespace tcprobe {
template <class F>
constexpr int unsaid() {
  static_assert(sizeof(F) == 0,
                "this layout differs between GPUs: host code has to define TCPROBE_ARCH (700, 750, 800, ...) before it "
                "includes this header, or to name a GPU: tcprobe::sm_XX:: and the rest of the name");
  return 0;
}
/// Instead of a layout that differs between GPUs, where host code has not said which one it means for fragment F.
template <class F>
struct host_code_has_to_define_TCPROBE_ARCH_or_to_name_a_GPU {
#ifdef __CUDACC__  // the host pass of nvcc, which reads kernels but compiles none: for them the functions are declared
  __device__ static int row(int lane, int i);
  __device__ static int col(int lane, int i);
  __device__ static int product(int lane, int i);
  __device__ static int lane_of(int row, int col, int copy = 0, int product = 0);
  __device__ static int i_of(int row, int col, int copy = 0, int product = 0);
#else
  template <class T = F> static constexpr int row(int, int) { return unsaid<T>(); }
  template <class T = F> static constexpr int col(int, int) { return unsaid<T>(); }
  template <class T = F> static constexpr int product(int, int) { return unsaid<T>(); }
  template <class T = F> static constexpr int lane_of(int, int, int = 0, int = 0) { return unsaid<T>(); }
  template <class T = F> static constexpr int i_of(int, int, int = 0, int = 0) { return unsaid<T>(); }
#endif
};
}  // namespace tcprobe
#endif
#endif
