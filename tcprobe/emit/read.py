"""Which slots are read, if not all are: metadata under a selector, scales, addresses.

The lanes that are read are those with (lane & mask) == value; of them all elements i, or those with (i & mask) ==
value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa.operand import Role

if TYPE_CHECKING:
    from tcprobe.store.cell import Cell

CUDA = """
#ifndef TCPROBE_READ
#define TCPROBE_READ
namespace tcprobe {{
/// Whether a map is the measured one: as `proven`, with all bits for a slot that is not read, and each column of a unit
/// leading back.
template <class L>
TCPROBE_HD constexpr bool governs(unsigned long long hash, int span) {{
  unsigned long long h = {offset}ull;
  for (int lane = 0; lane < L::lanes; ++lane) {{
    for (int i = 0; i < L::elements; ++i) {{
      const int row = L::row(lane, i), col = L::col(lane, i);
      const bool read = L::read(lane, i);
      h = (h ^ (read ? static_cast<unsigned long long>((row * 65536ll + col) * 8) : ~0ull)) * {prime}ull;
      for (int j = 0; read && j < span; ++j) {{
        if (L::lane_of(row, col + j) != lane || L::i_of(row, col + j) != i) return false;
      }}
    }}
  }}
  return h == hash;
}}
/// A lane's register of scales S, 0 in bytes that are not read. `scale` holds S::rows x S::cols bytes row by row: of a
/// row of A one for each block along k, of B for each block one for every column. Registers of several byte-ids and
/// thread-ids can be joined by |, for they read different bytes.
template <class S, class T>
TCPROBE_HD constexpr unsigned scales(int lane, const T* scale) {{
  unsigned found = 0;
  for (int i = 0; i < S::elements; ++i) {{
    if (S::read(lane, i)) {{
      found |= static_cast<unsigned>(scale[S::row(lane, i) * S::cols + S::col(lane, i)]) << (i * S::slot_bits);
    }}
  }}
  return found;
}}
}}  // namespace tcprobe
#endif
"""


class BitMask(NamedTuple):
    """Numbers n with (n & mask) == value."""

    mask: int
    value: int

    def condition(self, name: str) -> str:
        """The condition, in C, Python and NumPy alike."""
        return f"({name} & {self.mask}) == {self.value}"


class SlotsRead(NamedTuple):
    """The slots that are read: these elements of these lanes."""

    lanes: BitMask
    elements: BitMask

    @property
    def condition(self) -> str:
        """The condition in C."""
        lanes = self.lanes.condition("lane")
        return f"{lanes} && {self.elements.condition('i')}" if self.elements.mask else lanes


def is_partial(cell: Cell) -> bool:
    """Whether slots may be unused by design."""
    return cell.fragment.role in (Role.METADATA, Role.SCALE, Role.ADDRESS)


def lanes_read(cell: Cell) -> list[int]:
    """The lanes with a used slot."""
    table = cell.table
    return [lane for lane in range(table.threads) if any(table.cells[lane * table.elements :][: table.elements])]


def read(cell: Cell) -> SlotsRead:
    """The slots that are read; UsageError if no masks of lane and i describe them."""
    if slots := find(cell):
        return slots
    raise UsageError(f"{cell.fragment.id} on {cell.arch}: no mask of lane tells which slots are read.")


def find(cell: Cell) -> SlotsRead | None:
    """The slots that are read; None if no masks of lane and i describe them."""
    table, lanes = cell.table, lanes_read(cell)
    used = [divmod(slot, table.elements) for slot, place in enumerate(table.cells) if place is not None]
    elements = sorted({i for _, i in used})
    slots = SlotsRead(_pattern(lanes, table.threads), _pattern(elements, table.elements))
    product = [
        (lane, i) for lane in _matching(slots.lanes, table.threads) for i in _matching(slots.elements, table.elements)
    ]
    return slots if product == used else None


def _pattern(numbers: Sequence[int], size: int) -> BitMask:
    """The bits that all numbers share."""
    ones, zeros = reduce(int.__and__, numbers), reduce(int.__and__, (~number for number in numbers))
    return BitMask((ones | zeros) & size - 1, ones)


def _matching(pattern: BitMask, size: int) -> list[int]:
    return [number for number in range(size) if number & pattern.mask == pattern.value]


def lanes_in_words(cell: Cell) -> str:
    """The lanes that are read, in words: by a mask if there is one, else one by one."""
    slots = find(cell)
    return f"with {slots.lanes.condition('lane')}" if slots else ", ".join(map(str, lanes_read(cell)))
