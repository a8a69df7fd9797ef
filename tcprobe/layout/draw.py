"""A table drawn in both directions as plain text: the matrix with its holders, and each lane's registers.

element (row, col) -> lane:i            lane -> element of each register
      0     1    2                          r0       r1
  0   0:0   0:1  1:0                    0   0,0..1   8,0..1

Addresses are drawn as lines of lanes with the rows that they point to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tcprobe.isa.arch import WARP, holder_name
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Element, Table


def matrix(table: Table, width: int, span: int = 1) -> Iterator[str]:
    """Rows and columns (every `span`-th) with lane:i of every holder, in blocks that fit `width` characters."""
    products = [(n,) for n in range(table.extent["product"])] if "product" in table.outputs else [()]
    cols = range(0, table.extent["col"], span)
    for product in products:
        if product:
            yield f"product {product[0]}"
        cells = [[_holders(table, (row, col, *product)) for col in cols] for row in range(table.extent["row"])]
        yield from grid_lines(cells, [str(c) for c in cols], width)


def lanes(table: Table, fragment: Fragment, width: int) -> Iterator[str]:
    """A line for each lane: the elements of each register, low bits first."""
    size = fragment.register_bits // fragment.slot_bits
    starts = range(0, table.elements, size)
    rows = []
    for lane in range(table.threads):
        first = lane * table.elements
        rows.append([runs(table.cells[first + s : first + min(s + size, table.elements)]) for s in starts])
    whole_warps = table.threads > WARP
    names = [holder_name(lane, table.threads) if whole_warps else str(lane) for lane in range(table.threads)]
    yield from grid_lines(rows, [f"r{j}" for j in range(len(starts))], width, names)


def bits(table: Table, fragment: Fragment, width: int) -> Iterator[str]:
    """A line for each lane that is read: the element, with all columns, that each group of bits of its register
    governs.
    """
    places = [fragment.place(i)[1] for i in range(table.elements)]
    heads = [f"{low}-{low + fragment.slot_bits - 1}" for low in places]
    rows, read = [], []
    for lane in range(table.threads):
        cells = table.cells[lane * table.elements :][: table.elements]
        if any(cells):
            read.append(lane)
            rows.append(["-" if c is None else _spanned(c, fragment.span) for c in cells])
    yield from grid_lines(rows, heads, width, [str(lane) for lane in read])


def _spanned(cell: tuple[int, ...], span: int) -> str:
    return f"{cell[0]},{cell[1]}" + (f"-{cell[1] + span - 1}" if span > 1 else "")


def addresses(table: Table, width: int) -> Iterator[str]:
    """Lanes, and below each the row that it points to; - if its address is not used."""
    rows = ["-" if row is None else str(row) for row in table.values["row"]]
    wide = max(len(text) for text in (*rows, str(table.threads - 1))) + 1
    per_block = max(1, (width - 6) // wide)
    for start in range(0, table.threads, per_block):
        lanes = range(start, min(start + per_block, table.threads))
        yield "  lane" + "".join(str(lane).rjust(wide) for lane in lanes)
        yield "  row " + "".join(rows[lane].rjust(wide) for lane in lanes)


def _holders(table: Table, element: Element) -> str:
    """lane:i of every holder, grouped by lane: 0:0,8."""
    by_lane: dict[int, list[str]] = {}
    for slot in table.inverse.get(element, []):
        lane, i = divmod(slot, table.elements)
        by_lane.setdefault(lane, []).append(str(i))
    return " ".join(f"{lane}:{','.join(i)}" for lane, i in by_lane.items()) or "-"


def runs(slot_elements: Sequence[Element | None]) -> str:
    """Elements as row,col; runs along a row or a column as 0,0..3; an unused slot as -."""
    runs: list[list[tuple[int, int] | None]] = []
    for cell in slot_elements:
        element = None if cell is None else (cell[0], cell[1])
        if runs and _follows(runs[-1], element):
            runs[-1].append(element)
        else:
            runs.append([element])
    return " ".join(_run(run) for run in runs)


def _follows(run: Sequence[tuple[int, int] | None], element: tuple[int, int] | None) -> bool:
    last = run[-1]
    if last is None or element is None:
        return False
    step = (element[0] - last[0], element[1] - last[1])
    before = run[-2] if len(run) > 1 else None
    return step in ((0, 1), (1, 0)) and (before is None or step == (last[0] - before[0], last[1] - before[1]))


def _run(run: Sequence[tuple[int, int] | None]) -> str:
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
