#ifndef TCPROBE_METADATA
#define TCPROBE_METADATA
namespace tcprobe {
/// The index fields of a sparse A. A row of A is cut into chunks of `positions` units, a unit being `span` columns next
/// to each other; `fields` units of a chunk are stored, in the order of k, and a field of `bits` bits says which one a
/// stored unit is: its index, 0 <= index < positions. Indices of a chunk have to ascend.
template <int fields_, int positions_, int span_, int bits>
struct indices {
  static constexpr int fields = fields_;
  static constexpr int positions = positions_;
  static constexpr int span = span_;
  /// the column of A that stored column `col` is under an index: the row of B that it meets
  TCPROBE_HD static constexpr int k(int col, int index) {
    return (col / (fields * span) * positions + index) * span + col % span;
  }
  /// the bits of a register that say so in field i; sparse tf32 writes $zero for 0 and $one for 1
  TCPROBE_HD static constexpr unsigned field(int i, int index) {
    return static_cast<unsigned>(fields > 1 ? index : index ? $one : $zero) << (i * bits);
  }
};
/// A lane's register of metadata E, 0 where the lane is not read. `index` holds E::rows x (E::cols / E::span) indices
/// row by row, one for each stored unit of A.
template <class E, class I>
TCPROBE_HD constexpr unsigned metadata(int lane, const I* index) {
  unsigned found = 0;
  for (int i = 0; i < (E::read(lane) ? E::elements : 0); ++i) {
    const int unit = E::row(lane, i) * (E::cols / E::span) + E::col(lane, i) / E::span;
    found |= E::field(i, static_cast<int>(index[unit]));
  }
  return found;
}
}  // namespace tcprobe
#endif
