"""A layout as a package states it: where each slot of a fragment lies in the matrix, or why nothing is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tcprobe.layout.grid import LaneAndElement
from tcprobe.layout.table import Table, slot_table

MOST_STATEMENTS = 5_000
MOST_BYTES = 30 << 20  # of all statements of a package, as JSON

StatedPlace = tuple[int, int] | None  # (row, col), None of a slot of which nothing is stated


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name` is the package's own, `fragment` the id of what it is a layout of.

    `cells[thread * elements + i]` is [row, col], or None if nothing is stated, for `bands` warps, each with the next
    rows (of B all the same), and `across` multiplies side by side in n, which the high part of i counts.
    `arch` is the one that it is stated for, "" for any. `code` is Python that defines `stated(thread, i)` by the
    package alone. Statements of the same `atom` are operands of one multiply. `reason` says why a layout is not
    compared; then there are no cells.
    """

    name: str
    fragment: str
    threads: int = 32
    elements: int = 0
    cells: list[tuple[int, int] | None] = []
    bands: int = 1
    across: int = 1
    selector: int | None = None
    arch: str = ""
    atom: str = ""
    code: str = ""
    reason: str = ""

    @property
    def table(self) -> Table:
        """The stated table; DataError if it is not a table of slots."""
        columns = {
            name: tuple(None if place is None else place[axis] for place in self.cells)
            for axis, name in enumerate(("row", "col"))
        }
        return slot_table(self.threads, self.elements, columns)


def statement(
    name: str, fragment: str, thread_slots: LaneAndElement, placed: Callable[[int, int], StatedPlace], **more: object
) -> Statement:
    """The statement of `placed(thread, i)` for all slots; `thread_slots` is (threads, elements)."""
    threads, elements = thread_slots
    cells = [_plain(placed(thread, i)) for thread in range(threads) for i in range(elements)]
    return Statement(name, fragment, threads, elements, cells, **more)  # type: ignore[arg-type]


def invert(
    tile_places: Iterable[tuple[int, int]], holder: Callable[[int, int], LaneAndElement]
) -> Callable[[int, int], StatedPlace]:
    """The map from slots to places, from one from places to slots; of a slot claimed twice one place counts."""
    place_of_slot = {_plain(holder(*place)): place for place in tile_places}
    return lambda thread, i: place_of_slot.get((thread, i))


def uncompared_statement(name: str, fragment: str, reason: str) -> Statement:
    """A layout that is not compared, and why."""
    return Statement(name, fragment, reason=reason)


def _plain(anywhere: StatedPlace) -> StatedPlace:
    return None if anywhere is None else (int(anywhere[0]), int(anywhere[1]))
