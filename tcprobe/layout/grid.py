r"""A table drawn: in both directions as plain text, in parts that pages and pictures draw, and small, at a glance.

element (row, col) -> lane:i            lane -> element of each register
      0     1    2                          r0       r1
  0   0:0   0:1  1:0                    0   0,0..1   8,0..1

Addresses are drawn as lines of lanes with the rows that they point to.

A fragment's table as pictures need it: blocks of a matrix whose pieces name their holders, and what threads hold.

>>> from tcprobe.isa import inventory
>>> from tcprobe.layout.grid import blocks, lane_registers
>>> from tcprobe.layout.table import slot_table
>>> a = inventory.fragments()["wmma.m8n8k4.a.row.f64"]
>>> t = slot_table(32, 1, {"row": tuple(n // 4 for n in range(32)), "col": tuple(n % 4 for n in range(32))})
>>> (block,) = blocks(t, a)
>>> [piece.text for piece in block.pieces[3]], lane_registers(block, a)[13].registers
(['12:0', '13:0', '14:0', '15:0'], ('3,1',))

A table has a block for each product of a warp, and for each value of an input before thread and i (the selector of
metadata). In matrices of WIDE columns or more, a piece combines elements that are side by side in one register.
Addresses have no column; their block has one.

A table drawn small: consecutive elements of one thread in one cell, one band of rows, and how the rest follows.

>>> from tcprobe.layout.table import slot_table
>>> table = slot_table(4, 2, {"row": (0, 0, 0, 0, 1, 1, 1, 1), "col": (0, 1, 2, 3, 0, 1, 2, 3)})
>>> print("\n".join(glance(table, 80)))
       0-1    2-3
  0  0:0-1  1:0-1
  1  2:0-1  3:0-1

What it states about the rest is first proven for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tcprobe.isa.arch import WARP, holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Element, Table


def matrix(table: Table, width: int, span: int = 1) -> Iterator[str]:
    """Rows and columns (every `span`-th) with lane:i of every holder, in blocks that fit `width` characters."""
    products = [(n,) for n in range(table.extent["product"])] if "product" in table.outputs else [()]
    cols = range(0, table.extent["col"], span)
    for which in products:
        if which:
            yield f"product {which[0]}"
        held = [[table.inverse.get((row, col, *which), []) for col in cols] for row in range(table.extent["row"])]
        cells = [[_holders_text(divmod(slot, table.elements) for slot in slots) for slots in line] for line in held]
        yield from grid_lines(cells, [str(c) for c in cols], width)


def lanes(table: Table, fragment: Fragment, width: int) -> Iterator[str]:
    """A line for each lane: the elements of each register, low bits first."""
    size = fragment.register_bits // fragment.slot_bits
    starts = range(0, table.elements, size)
    rows = []
    for lane in range(table.threads):
        first = lane * table.elements
        rows.append([cells_of_lanes(table.cells[first + s : first + min(s + size, table.elements)]) for s in starts])
    whole_warps = table.threads > WARP
    names = [holder_name(lane, table.threads) if whole_warps else str(lane) for lane in range(table.threads)]
    yield from grid_lines(rows, [f"r{j}" for j in range(len(starts))], width, names)


def bits(table: Table, fragment: Fragment, width: int) -> Iterator[str]:
    """A line for each lane that is read: the element, with all columns, that each group of bits of its register
    governs.
    """
    places = [fragment.where(i)[1] for i in range(table.elements)]
    heads = [f"{low}-{low + fragment.slot_bits - 1}" for low in places]
    rows, read = [], []
    for lane in range(table.threads):
        cells = table.cells[lane * table.elements :][: table.elements]
        if any(cells):
            read.append(lane)
            rows.append(["-" if c is None else f"{c[0]},{_range_text(c[1], fragment.span)}" for c in cells])
    yield from grid_lines(rows, heads, width, [str(lane) for lane in read])


def addresses(table: Table, width: int) -> Iterator[str]:
    """Lanes, and below each the row that it points to; - if its address is not used."""
    rows = ["-" if row is None else str(row) for row in table.values["row"]]
    wide = max(len(text) for text in (*rows, str(table.threads - 1))) + 1
    per_block = max(1, (width - 6) // wide)
    for start in range(0, table.threads, per_block):
        lanes = range(start, min(start + per_block, table.threads))
        yield "  lane" + "".join(str(lane).rjust(wide) for lane in lanes)
        yield "  row " + "".join(rows[lane].rjust(wide) for lane in lanes)


def _holders_text(holders: Iterable[tuple[int, int]], words: Callable[[int], str] = str) -> str:
    """thread:i of every holder (thread, i), grouped by thread, i in `words`: 0:0,8; - without any."""
    by_thread: dict[int, list[str]] = {}
    for thread, i in holders:
        by_thread.setdefault(thread, []).append(words(i))
    return " ".join(f"{thread}:{','.join(i)}" for thread, i in by_thread.items()) or "-"


def cells_of_lanes(slot_elements: Sequence[Element | None]) -> str:
    """Elements as row,col; runs along a row or a column as 0,0..3; an unused slot as -."""
    runs: list[list[tuple[int, int] | None]] = []
    for cell in slot_elements:
        element = None if cell is None else (cell[0], cell[1])
        if runs and _follows(runs[-1], element):
            runs[-1].append(element)
        else:
            runs.append([element])
    return " ".join(_run_text(run) for run in runs)


def _follows(run: Sequence[tuple[int, int] | None], element: tuple[int, int] | None) -> bool:
    last = run[-1]
    if last is None or element is None:
        return False
    step = (element[0] - last[0], element[1] - last[1])
    before = run[-2] if len(run) > 1 else None
    return step in ((0, 1), (1, 0)) and (before is None or step == (last[0] - before[0], last[1] - before[1]))


def _run_text(run: Sequence[tuple[int, int] | None]) -> str:
    first, last = run[0], run[-1]
    if first is None or last is None:
        return "-"
    row = f"{first[0]}..{last[0]}" if first[0] != last[0] else str(first[0])
    col = f"{first[1]}..{last[1]}" if first[1] != last[1] else str(first[1])
    return f"{row},{col}"


def grid_lines(
    cell_texts: Sequence[Sequence[str]], heads: Sequence[str], width: int, names: Sequence[str] | None = None
) -> Iterator[str]:
    """Lines of columns of equal width, numbered from 0 or by `names`, in blocks that fit `width`."""
    names = [str(number) for number in range(len(cell_texts))] if names is None else names
    wide = max((len(text) for row in (*cell_texts, heads) for text in row), default=0) + 2
    margin = max(map(len, names), default=1) + 2
    per_block = max(1, (width - margin) // wide)
    for start in range(0, len(heads), per_block):
        block = slice(start, start + per_block)
        yield " " * margin + "".join(head.rjust(wide) for head in heads[block])
        for name, row in zip(names, cell_texts, strict=True):
            yield name.rjust(margin) + "".join(text.rjust(wide) for text in row[block])
        if start + per_block < len(heads):
            yield ""


WIDE = 64
LaneAndElement = tuple[int, int]  # (thread, i)


class Stretch(NamedTuple):
    """`span` elements of a row from column `col` on; `holders` are those of the first, and i grows with the column."""

    col: int
    span: int
    holders: tuple[LaneAndElement, ...]

    @property
    def text(self) -> str:
        """thread:i of every holder, grouped by thread: 0:0,8; for several elements a range: 0:4..7."""
        if not self.holders:
            return ""
        return _holders_text(self.holders, lambda i: str(i) if self.span == 1 else f"{i}..{i + self.span - 1}")

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads that hold it, each once."""
        return tuple(dict.fromkeys(thread for thread, _ in self.holders))


class Lane(NamedTuple):
    """A thread, and the contents of each of its registers in words, as 0,0..1."""

    number: int
    registers: tuple[str, ...]


class Block(NamedTuple):
    """One matrix: `at` says what selects it, `pieces` are by row, `slots` map to elements, `flat` means no columns."""

    selection: Mapping[str, int]
    pieces: list[list[Stretch]]
    slots: Mapping[LaneAndElement, Element]
    flat: bool

    @property
    def title(self) -> str:
        """What selects the block, as "product 2"; empty if it is the only one."""
        return ", ".join(f"{name} {value}" for name, value in self.selection.items())


def blocks(table: Table, fragment: Fragment, wide: int = WIDE) -> list[Block]:
    """All matrices of a table, by selector, then product; matrices of `wide` columns or more have wide pieces."""
    return [_block(selection, slots, fragment, "col" not in table.outputs, wide) for selection, slots in _parts(table)]


def _parts(table: Table) -> Iterator[tuple[dict[str, int], Mapping[LaneAndElement, Element]]]:
    """(what selects a block, the elements of its slots) for each block."""
    *lead, thread, i = table.space.axes
    size = thread.size * i.size
    products = range(table.extent["product"]) if "product" in table.outputs else (None,)
    for number, values in enumerate(product(*(range(axis.size) for axis in lead))):
        selection = {axis.name: value for axis, value in zip(lead, values, strict=True)}
        first = number * size
        # (slot, row, col, product) of its used slots; 0 for outputs that the table lacks
        columns = [table.values.get(name, (0,) * table.points) for name in ("row", "col", "product")]
        parts = zip(range(size), *(column[first : first + size] for column in columns), strict=True)
        cells = [(n, r, c or 0, p or 0) for n, r, c, p in parts if r is not None]
        for which in products:
            slots = {divmod(n, i.size): (r, c) for n, r, c, p in cells if which in (None, p)}
            yield selection | ({} if which is None else {"product": which}), slots


def _block(
    selection: Mapping[str, int],
    element_of: Mapping[LaneAndElement, Element],
    fragment: Fragment,
    flat: bool,
    wide: int,
) -> Block:
    holders: dict[Element, list[LaneAndElement]] = {}
    for slot, element in element_of.items():
        holders.setdefault(element, []).append(slot)
    columns = 1 if flat else fragment.cols
    most = fragment.register_bits // fragment.slot_bits if columns >= wide else 1
    rows = [_row([(col, holders.get((row, col), [])) for col in range(columns)], most) for row in range(fragment.rows)]
    return Block(selection, rows, element_of, flat)


def _row(holders_by_column: Sequence[tuple[int, list[LaneAndElement]]], most: int) -> list[Stretch]:
    """Pieces of at most `most` elements."""
    stretches: list[Stretch] = []
    for col, holders in holders_by_column:
        piece = Stretch(col, 1, tuple(holders))
        if stretches and _continues(stretches[-1], piece, most):
            stretches[-1] = stretches[-1]._replace(span=stretches[-1].span + 1)
        else:
            stretches.append(piece)
    return stretches


def _continues(before: Stretch, piece: Stretch, size: int) -> bool:
    """Whether all holders continue in the same register."""
    if piece.holders and not piece.holders[0][1] % size:
        return False
    expected = tuple((thread, i + before.span) for thread, i in before.holders)
    return piece.holders == expected and all(i % size for _, i in piece.holders)


def lane_registers(block: Block, fragment: Fragment) -> list[Lane]:
    """The threads that hold anything of a block, and their registers."""
    size = fragment.register_bits // fragment.slot_bits
    used = sorted({thread for thread, _ in block.slots})
    starts = range(0, fragment.elements, size)
    return [
        Lane(t, tuple(_words([block.slots.get((t, i)) for i in range(s, s + size)], block.flat) for s in starts))
        for t in used
    ]


def _words(register_elements: Sequence[Element | None], flat: bool) -> str:
    """The elements of a register as row,col; runs along a row or column as 0,0..3; an empty one as -."""
    if flat:
        return ", ".join("-" if e is None else str(e[0]) for e in register_elements)
    return cells_of_lanes(register_elements)


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
    elements, numbers = table.elements, table.inverse
    if span > 1:
        numbers = {(row, col // span, *rest): slots for (row, col, *rest), slots in numbers.items()}
    sizes = (table.extent["row"], -(-table.extent["col"] // span))
    merged = _merged_neighbours(numbers, sizes, elements)
    # what follows the first element of a cell is where that says, so that from here on these stand for all
    by_element = {
        element: tuple([divmod(slot, elements) for slot in slots])
        for element, slots in numbers.items()
        if not (element[0] % merged[0] or element[1] % merged[1])
    }
    band = _band(by_element, sizes, merged, width, span)
    if "product" in table.outputs:
        yield "product 0"
    yield from _draw(by_element, band, width, span)
    yield from _rest(by_element, table, band, span)


def _merged_neighbours(numbers: Mapping[Element, list[int]], sizes: tuple[int, int], elements: int) -> tuple[int, int]:
    """How many neighbours, along a column or along a row, are held by the same threads at consecutive i."""
    for axis in (1, 0):
        count, heads = 1, list(numbers)  # the first of each group that is known to continue
        while sizes[axis] % (2 * count) == 0 and _continues_band(numbers, heads, axis, count, elements):
            count *= 2
            heads = [element for element in heads if element[axis] % count == 0]
        if count > 1:
            return (1, count) if axis else (count, 1)
    return 1, 1


def _continues_band(
    numbers: Mapping[Element, list[int]], heads: Sequence[Element], axis: int, count: int, elements: int
) -> bool:
    """Whether each group of `count` elements, of which `heads` are the first, continues the holders of that before."""
    for element in heads:
        if element[axis] // count % 2 == 0:
            slots = numbers[element]
            following = [slot + count for slot in slots]
            same_threads = max(slot % elements for slot in slots) + count < elements
            if not same_threads or numbers.get(_neighbour(element, axis, count)) != following:
                return False
        elif _neighbour(element, axis, -count) not in numbers:
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
    least = len("0") + 2  # of a cell, with the space before it
    for count in [count for count in fits if count == 1 or count * least <= width]:
        band = _Band(rows * merged[0], count * merged[1], merged)
        if count == 1 or max(map(len, _draw(by_element, band, 1 << 20, span))) <= width:
            return band
    raise AssertionError("a band of one cell is taken")


def _draw(by_element: dict[Element, SlotPairs], band: _Band, width: int, span: int) -> Iterator[str]:
    rows, cols = (range(0, size, count) for size, count in zip((band.rows, band.cols), band.merged, strict=True))
    size = max(band.merged)
    rank = len(next(iter(by_element), (0, 0)))
    rest = (0,) * (rank - 2)
    held = [[by_element.get((row, col, *rest), ()) for col in cols] for row in rows]
    cells = [[_holders_text(slots, lambda i: _range_text(i, size)) for slots in line] for line in held]
    heads = [_range_text(col * span, band.merged[1] * span if band.merged[1] > 1 else 1) for col in cols]
    return grid_lines(cells, heads, width, [_range_text(row, band.merged[0]) for row in rows])


def _range_text(first: int, count: int) -> str:
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
    each = (
        _move(slots, by_element.get(_neighbour(element, axis, -step), ()))
        for element, slots in by_element.items()
        if element[axis] >= step
    )
    move = next(each, None)
    if move is None or any(other != move for other in each):
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
