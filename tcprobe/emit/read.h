#ifndef TCPROBE_READ
#define TCPROBE_READ
namespace tcprobe {
/// Whether a map is the measured one: as `proven`, with all bits for a slot that is not read, and each column of a unit
/// leading back.
template <class L>
TCPROBE_HD constexpr bool governs(unsigned long long hash, int span) {
  unsigned long long h = ${offset}ull;
  for (int lane = 0; lane < L::lanes; ++lane) {
    for (int i = 0; i < L::elements; ++i) {
      const int row = L::row(lane, i), col = L::col(lane, i);
      const bool read = L::read(lane, i);
      h = (h ^ (read ? static_cast<unsigned long long>((row * 65536ll + col) * 8) : ~0ull)) * ${prime}ull;
      for (int j = 0; read && j < span; ++j) {
        if (L::lane_of(row, col + j) != lane || L::i_of(row, col + j) != i) return false;
      }
    }
  }
  return h == hash;
}
/// A lane's register of scales S, 0 in bytes that are not read. `scale` holds S::rows x S::cols bytes row by row: of a
/// row of A one for each block along k, of B for each block one for every column. Registers of several byte-ids and
/// thread-ids can be joined by |, for they read different bytes.
template <class S, class T>
TCPROBE_HD constexpr unsigned scales(int lane, const T* scale) {
  unsigned found = 0;
  for (int i = 0; i < S::elements; ++i) {
    if (S::read(lane, i)) {
      found |= static_cast<unsigned>(scale[S::row(lane, i) * S::cols + S::col(lane, i)]) << (i * S::slot_bits);
    }
  }
  return found;
}
}  // namespace tcprobe
#endif
