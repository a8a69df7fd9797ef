"""Which tables have a picture, and where."""

from __future__ import annotations

from tcprobe.emit import svg
from tcprobe.layout.grid import WIDE
from tcprobe.pages.site import addresses
from tcprobe.store.cell import Cell

MOST_PICTURE = 520  # cells; `tcprobe emit --to svg` draws larger ones
_CELLS: dict[str, int] = {}  # of a picture, by address


def picture(cell: Cell) -> str:
    """The picture of a table; empty where it is too large for a page."""
    address = addresses.picture(cell.table.id, cell.fragment.slot_bits)
    if address not in _CELLS:
        _CELLS[address] = svg.pieces(cell) if cell.table.points <= MOST_PICTURE * WIDE else 0
    return address if 0 < _CELLS[address] <= MOST_PICTURE else ""
