"""What formats need of the metadata of sparse multiplies: which lanes are read, and what an index field means.

For a selector, the lanes that are read are those with (lane & mask) == value, and all their fields are used.
"""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.emit.read import lanes_read, read
from tcprobe.errors import UsageError
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.isa.sparsity import SINGLE, sparsity
from tcprobe.store.cell import Cell

CUDA = """
#ifndef TCPROBE_METADATA
#define TCPROBE_METADATA
namespace tcprobe {{
/// The index fields of a sparse A. A row of A is cut into chunks of `positions` units, a unit being `span` columns next
/// to each other; `fields` units of a chunk are stored, in the order of k, and a field of `bits` bits says which one a
/// stored unit is: its index, 0 <= index < positions. Indices of a chunk have to ascend.
template <int fields_, int positions_, int span_, int bits>
struct indices {{
  static constexpr int fields = fields_;
  static constexpr int positions = positions_;
  static constexpr int span = span_;
  /// the column of A that stored column `col` is under an index: the row of B that it meets
  TCPROBE_HD static constexpr int k(int col, int index) {{
    return (col / (fields * span) * positions + index) * span + col % span;
  }}
  /// the bits of a register that say so in field i; sparse tf32 writes {zero} for 0 and {one} for 1
  TCPROBE_HD static constexpr unsigned field(int i, int index) {{
    return static_cast<unsigned>(fields > 1 ? index : index ? {one} : {zero}) << (i * bits);
  }}
}};
/// A lane's register of metadata E, 0 where the lane is not read. `index` holds E::rows x (E::cols / E::span) indices
/// row by row, one for each stored unit of A.
template <class E, class I>
TCPROBE_HD constexpr unsigned metadata(int lane, const I* index) {{
  unsigned found = 0;
  for (int i = 0; i < (E::read(lane) ? E::elements : 0); ++i) {{
    const int unit = E::row(lane, i) * (E::cols / E::span) + E::col(lane, i) / E::span;
    found |= E::field(i, static_cast<int>(index[unit]));
  }}
  return found;
}}
}}  // namespace tcprobe
#endif
"""


def is_metadata(cell: Cell) -> bool:
    """Whether the slots are index fields."""
    return cell.fragment.role is Role.METADATA


def require_every_lane(cell: Cell) -> None:
    """UsageError for metadata if some lanes are not read."""
    if is_metadata(cell) and None in cell.table.cells:
        raise UsageError(
            f"{cell.fragment.id} is read from {len(lanes_read(cell))} of {cell.table.threads} lanes under selector "
            f"{cell.selector}: this format cannot express slots that hold nothing."
        )


def indices(fragment: Fragment) -> str:
    """The C++ base class that defines how index fields are written."""
    return f"indices<{', '.join(map(str, sparsity(fragment)))}>"


def python(cell: Cell) -> Iterator[tuple[str, str, str, str]]:
    """(name, arguments, description, body) of Python functions, which also take arrays."""
    rule = sparsity(cell.fragment)
    chunk = f"col // {rule.fields * rule.span} * {rule.positions} + index"
    k = chunk if rule.span == 1 else f"({chunk}) * {rule.span} + col % {rule.span}"
    code = "index" if rule.fields > 1 else f"({SINGLE[0]} + {SINGLE[1] - SINGLE[0]} * index)"
    yield "read", "lane", "Whether the register of this lane is looked at", read(cell).lanes.condition("lane")
    yield "field", "i, index", "The bits of the register that say the index of field i", f"{code} << {rule.bits} * i"
    yield "k", "col, index", "The column of A that a stored column is under an index", k
