"""A tile of fragments, one after the other along its rows, as one table whose elements are those of all of them.

>>> from tcprobe.ask.reduce.tile import fragment_tile
>>> from tcprobe.store.cell import load
>>> tile = fragment_tile(load("mma.m16n8k16.row.col.f32.f16.f16.f32.d"), "32x16")
>>> tile.fragments, tile.table.at(lane=5, i=13), tile.place(13)
(4, {'row': 17, 'col': 11}, 'x[3][1]')
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tcprobe.code.cuda import holder
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.table import Table, slot_table
from tcprobe.store.acceptance import require_fit
from tcprobe.store.cell import Cell
from tcprobe.text import quoted

MOST = 512  # elements of a thread: more than registers hold


class FragmentTile(NamedTuple):
    """`down` x `across` fragments of `cell`, and the `table` of all their elements."""

    cell: Cell
    down: int
    across: int
    table: Table

    @property
    def fragments(self) -> int:
        """How many of them."""
        return self.down * self.across

    def place(self, i: int) -> str:
        """Where element i of a thread is, in C++."""
        tile, element = divmod(i, self.cell.table.elements)
        return f"x[{tile}][{element}]" if self.fragments > 1 else f"x[{i}]"

    @property
    def parameter(self) -> str:
        """The elements of a thread, as an argument."""
        elements = f"[{self.cell.table.elements}]"
        return f"(&x)[{self.fragments}]{elements}" if self.fragments > 1 else f"(&x){elements}"

    @property
    def words(self) -> str:
        """What the argument is."""
        fragment, elements = self.cell.fragment, self.cell.table.elements
        each = f"the {elements} elements of a {holder(fragment.threads)}"
        if self.fragments == 1:
            return each
        return (
            f"{each}, of {self.fragments} fragments: x[f] is the one at row {fragment.rows} * (f / {self.across}), "
            f"column {fragment.cols} * (f % {self.across})"
        )


def require_elements(cell: Cell, by_column: bool) -> None:
    """UsageError for what holds no elements of a matrix (addresses, metadata, scales), and a table that cannot be.

    With `by_column` for sparse A too: metadata say in which column of the matrix a stored element is.
    """
    fragment = cell.fragment
    if fragment.role not in WHOLE:
        raise UsageError(f"{fragment.id} holds no elements of a matrix: its role is {fragment.role.value}.")
    row = inventory.instructions().get(fragment.experiment)
    if by_column and row and row.metadata and fragment.operand == "a":
        raise UsageError(f"{fragment.id} holds what is stored of a sparse matrix: metadata say in which column.")
    require_fit(fragment, cell.table)


def fragment_tile(cell: Cell, size: str | None = None) -> FragmentTile:
    """The tile of `size`, ROWSxCOLS, or one fragment; UsageError where whole fragments do not make it up."""
    if size is None:
        return FragmentTile(cell, 1, 1, cell.table)
    down, across = _counts(cell, size)
    fragment, table = cell.fragment, cell.table
    if table.elements * down * across > MOST:
        raise UsageError(f"{size}: {table.elements * down * across} elements per thread; the limit is {MOST}.")
    if "product" in table.outputs:
        raise UsageError(f"{fragment.id} holds {fragment.products} products: it has no tiles.")
    values: dict[str, list[int]] = {"row": [], "col": []}
    for thread in range(table.threads):
        for tile in range(down * across):
            for place in table.cells[thread * table.elements : (thread + 1) * table.elements]:
                if place is None:
                    raise UsageError(f"{fragment.id} has unused slots: there are no tiles of it.")
                values["row"].append(place[0] + tile // across * fragment.rows)
                values["col"].append(place[1] + tile % across * fragment.cols)
    whole = slot_table(table.threads, table.elements * down * across, {k: tuple(v) for k, v in values.items()})
    return FragmentTile(cell, down, across, whole)


def _counts(cell: Cell, size: str) -> tuple[int, int]:
    """How many fragments stand below and beside each other."""
    fragment, match = cell.fragment, re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", size)
    if not match:
        raise UsageError(f"{quoted(size)} is not a tile such as {fragment.rows}x{2 * fragment.cols}: rows x columns.")
    rows, cols = int(match[1]), int(match[2])
    if rows % fragment.rows or cols % fragment.cols:
        nearest = f"{-(-rows // fragment.rows) * fragment.rows}x{-(-cols // fragment.cols) * fragment.cols}"
        raise UsageError(
            f"{size} is not a whole number of {fragment.rows} x {fragment.cols} fragments; next is {nearest}."
        )
    return rows // fragment.rows, cols // fragment.cols
