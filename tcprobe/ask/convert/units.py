"""Two fragments over one matrix: tiles of each, and what moves as a unit (an element, or a byte of several)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.layout.table import Element

if TYPE_CHECKING:
    from tcprobe.store.cell import Cell

Unit = tuple[Element, ...]  # the elements of a unit, low bits first
UnitPlace = tuple[int, int]  # (tile, number of the unit): where a lane holds it


class UnmovableError(Exception):
    """The units that the target needs do not exist in the source."""


@dataclass(frozen=True)
class Tiling:
    """Both fragments, repeated row by row until they cover the same `rows` x `cols` matrix (that of the source).

    `order`, where there is one: for each place of k in the target which of the source goes there.
    """

    source: Cell
    target: Cell
    transpose: bool
    rows: int
    cols: int
    order: tuple[int, ...] = ()

    @property
    def k_axis(self) -> int:
        """Which index of an element of the source is k of the target: 0 the row, 1 the column."""
        return int((self.target.fragment.operand == "b") == self.transpose)

    @property
    def places(self) -> int:
        """Units that a lane holds of a target tile."""
        return self.target.table.elements // self.group

    @property
    def source_tiles(self) -> int:
        """How many source fragments there are."""
        return self.rows // self.source.fragment.rows * (self.cols // self.source.fragment.cols)

    @property
    def target_tiles(self) -> int:
        """How many target fragments there are."""
        return self.rows * self.cols // (self.target.fragment.rows * self.target.fragment.cols)

    @cached_property
    def group(self) -> int:
        """Elements of a unit: those of a byte, one where elements are bytes or larger."""
        return max(1, 8 // self.target.fragment.slot_bits)

    @cached_property
    def holders(self) -> dict[Unit, list[tuple[int, UnitPlace]]]:
        """(lane, place) of every unit of the source."""
        by_unit: dict[Unit, list[tuple[int, UnitPlace]]] = {}
        table, fragment = self.source.table, self.source.fragment
        across = self.cols // fragment.cols
        for tile in range(self.source_tiles):
            down, right = divmod(tile, across)
            for lane in range(table.threads):
                for i in range(0, table.elements, self.group):
                    cells = table.cells[lane * table.elements + i : lane * table.elements + i + self.group]
                    unit = tuple((c[0] + down * fragment.rows, c[1] + right * fragment.cols) for c in cells if c)
                    by_unit.setdefault(unit, []).append((lane, (tile, i // self.group)))
        return by_unit

    def needed_unit(self, lane: int, place: UnitPlace) -> Unit:
        """The unit that a place of the target needs, in the source's rows and columns."""
        tile, number = place
        fragment, table = self.target.fragment, self.target.table
        i = number * self.group
        size = self.rows if self.transpose else self.cols
        down, right = divmod(tile, size // fragment.cols)
        cells = table.cells[lane * table.elements + i : lane * table.elements + i + self.group]
        elements = [(c[0] + down * fragment.rows, c[1] + right * fragment.cols) for c in cells if c is not None]
        return tuple(self._reorder((col, row) if self.transpose else (row, col)) for row, col in elements)

    def _reorder(self, element: Element) -> Element:
        """The element of the source that goes where k is in order."""
        if not self.order:
            return element
        row, col = element
        return (self.order[row], col) if self.k_axis == 0 else (row, self.order[col])


def tiling(source: Cell, target: Cell, transpose: bool) -> Tiling:
    """The least matrix that whole fragments of both cover. UsageError where a warp holds several products."""
    for cell in (source, target):
        if cell.fragment.products > 1:
            raise UsageError(f"{cell.fragment.id} holds {cell.fragment.products} matrices, not one.")
    rows, cols = target.fragment.rows, target.fragment.cols
    rows, cols = (cols, rows) if transpose else (rows, cols)
    return Tiling(source, target, transpose, lcm(source.fragment.rows, rows), lcm(source.fragment.cols, cols))
