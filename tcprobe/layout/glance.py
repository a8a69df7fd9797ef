"""A table drawn small: consecutive elements of one thread in one cell, one band of rows, and how the rest follows.

>>> from tcprobe.layout.table import slot_table
>>> table = slot_table(4, 2, {"row": (0, 0, 0, 0, 1, 1, 1, 1), "col": (0, 1, 2, 3, 0, 1, 2, 3)})
>>> print("\\n".join(glance(table, 80)))
       0-1    2-3
  0  0:0-1  1:0-1
  1  2:0-1  3:0-1

What it states about the rest is first proven for every element.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.layout.draw import grid_lines
from tcprobe.layout.table import Element, Table

MOST_ROWS = 16
DRAWS_ALL = "`--full` draws them"
SlotPairs = tuple[tuple[int, int], ...]  # (thread, i) of every holder, ascending


class _Band(NamedTuple):
    """`rows` x `cols` elements of the first product, in cells of `merged` elements along a column or a row."""

    rows: int
    cols: int
    merged: tuple[int, int]


def glance(table: Table, width: int, span: int = 1) -> Iterator[str]:
    """At most 20 lines of at most `width` characters, unless a single cell is wider; every `span`-th column."""
    by_element = {
        element: tuple(divmod(slot, table.elements) for slot in slots) for element, slots in table.inverse.items()
    }
    by_element = {(row, col // span, *rest): slots for (row, col, *rest), slots in by_element.items()}
    sizes = (table.extent["row"], -(-table.extent["col"] // span))
    merged = _merged_neighbours(by_element, sizes)
    band = _band(by_element, sizes, merged, width, span)
    if "product" in table.outputs:
        yield "product 0"
    yield from _draw(by_element, band, width, span)
    yield from _rest(by_element, table, band, span)


def _merged_neighbours(by_element: dict[Element, SlotPairs], sizes: tuple[int, int]) -> tuple[int, int]:
    """How many neighbours, along a column or along a row, are held by the same threads at consecutive i."""
    for axis in (1, 0):
        count = 1
        while sizes[axis] % (2 * count) == 0 and _follows(by_element, axis, count):
            count *= 2
        if count > 1:
            return (1, count) if axis else (count, 1)
    return 1, 1


def _follows(by_element: dict[Element, SlotPairs], axis: int, count: int) -> bool:
    """Whether each group of `count` elements continues the holders of the group before it."""
    for element, slots in by_element.items():
        if element[axis] // count % 2 == 0:
            if by_element.get(_neighbour(element, axis, count)) != tuple((thread, i + count) for thread, i in slots):
                return False
        elif _neighbour(element, axis, -count) not in by_element:
            return False
    return True


def _neighbour(element: Element, axis: int, by: int) -> Element:
    return (*element[:axis], element[axis] + by, *element[axis + 1 :])


def _band(
    by_element: dict[Element, SlotPairs], sizes: tuple[int, int], merged: tuple[int, int], width: int, span: int
) -> _Band:
    """As much as there is room for: all, or powers of two of cells after which the rest follows by a constant step."""
    down, along = (size // count for size, count in zip(sizes, merged, strict=True))
    rows = min(down, MOST_ROWS)
    fits = [count for count in (along, *(1 << n for n in range(along.bit_length() - 1, -1, -1))) if count <= along]
    for count in fits:
        band = _Band(rows * merged[0], count * merged[1], merged)
        if count == 1 or max(map(len, _draw(by_element, band, 1 << 20, span))) <= width:
            return band
    raise AssertionError("a band of one cell is taken")


def _draw(by_element: dict[Element, SlotPairs], band: _Band, width: int, span: int) -> Iterator[str]:
    rows, cols = (range(0, size, count) for size, count in zip((band.rows, band.cols), band.merged, strict=True))
    size = max(band.merged)
    rank = len(next(iter(by_element), (0, 0)))
    rest = (0,) * (rank - 2)
    cells = [[_cell(by_element.get((row, col, *rest), ()), size) for col in cols] for row in rows]
    heads = [_range(col * span, band.merged[1] * span if band.merged[1] > 1 else 1) for col in cols]
    return grid_lines(cells, heads, width, [_range(row, band.merged[0]) for row in rows])


def _cell(slots: SlotPairs, size: int) -> str:
    """thread:i of every holder, grouped by thread: 0:0-1,8-9."""
    by_thread: dict[int, list[str]] = {}
    for thread, i in slots:
        by_thread.setdefault(thread, []).append(_range(i, size))
    return " ".join(f"{thread}:{','.join(i)}" for thread, i in by_thread.items()) or "-"


def _range(first: int, count: int) -> str:
    return f"{first}-{first + count - 1}" if count > 1 else str(first)


def _rest(by_element: dict[Element, SlotPairs], table: Table, band: _Band, span: int) -> Iterator[str]:
    """A line for each axis that is not drawn completely: the step by which its holders follow."""
    sizes = (table.extent["row"], -(-table.extent["col"] // span))
    for axis, (name, size, shown) in enumerate(zip(("row", "col"), sizes, (band.rows, band.cols), strict=True)):
        if shown < size:
            unit = span if axis else 1
            yield _step_words(by_element, axis, shown, f"{name} + {shown * unit}", table.threads) or (
                f"  {name}s {shown * unit} to {table.extent[name] - 1}: {DRAWS_ALL}"
            )
    if "product" in table.outputs:
        count = table.extent["product"]
        yield _step_words(by_element, 2, 1, "product + 1", table.threads) or f"  products 1 to {count - 1}: {DRAWS_ALL}"


def _step_words(by_element: dict[Element, SlotPairs], axis: int, step: int, name: str, threads: int) -> str:
    """`name` and what it adds to the thread and to i of every holder; empty unless it adds the same to all."""
    moves = {
        _move(slots, by_element.get(_neighbour(element, axis, -step), ()))
        for element, slots in by_element.items()
        if element[axis] >= step
    }
    move = moves.pop() if len(moves) == 1 else None
    if move is None:
        return ""
    thread = _plus("lane" if threads <= WARP else "thread", move[0])
    warps = move[0] // WARP if move[0] > 0 and move[0] % WARP == 0 else 0
    after = f" ({'the next warp' if warps == 1 else f'{warps} warps on'})" if warps else ""
    words = [words for words in (thread and thread + after, _plus("i", move[1])) if words]
    return f"  {name}: {', '.join(words) or 'the same holders'}"


def _plus(name: str, by: int) -> str:
    return f"{name} {'+' if by > 0 else '-'} {abs(by)}" if by else ""


def _move(slots: SlotPairs, former: SlotPairs) -> tuple[int, int] | None:
    """What must be added to each earlier holder to get the present one; None if that differs."""
    if not former or len(slots) != len(former):
        return None
    moves = {(one[0] - other[0], one[1] - other[1]) for one, other in zip(slots, former, strict=True)}
    return moves.pop() if len(moves) == 1 else None
