"""A fragment's table as pictures need it: blocks of a matrix whose pieces name their holders, and what threads hold.

>>> from tcprobe.isa import inventory
>>> from tcprobe.layout.grid import blocks, lanes
>>> from tcprobe.layout.table import slot_table
>>> a = inventory.fragments()["wmma.m8n8k4.a.row.f64"]
>>> t = slot_table(32, 1, {"row": tuple(n // 4 for n in range(32)), "col": tuple(n % 4 for n in range(32))})
>>> (block,) = blocks(t, a)
>>> [piece.text for piece in block.pieces[3]], lanes(block, a)[13].registers
(['12:0', '13:0', '14:0', '15:0'], ('3,1',))

A table has a block for each product of a warp, and for each value of an input before thread and i (the selector of
metadata). In matrices of WIDE columns or more, a piece combines elements that are side by side in one register.
Addresses have no column; their block has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tcprobe.isa.fragment import Fragment
from tcprobe.layout.draw import runs
from tcprobe.layout.table import Element, Table

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
        by_thread: dict[int, list[str]] = {}
        for thread, i in self.holders:
            by_thread.setdefault(thread, []).append(str(i) if self.span == 1 else f"{i}..{i + self.span - 1}")
        return " ".join(f"{thread}:{','.join(i)}" for thread, i in by_thread.items())

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
        cells = _cells(table, number * size, size)
        for which in products:
            slots = {divmod(n, i.size): (r, c) for n, r, c, p in cells if which in (None, p)}
            yield selection | ({} if which is None else {"product": which}), slots


def _cells(table: Table, first: int, size: int) -> list[tuple[int, int, int, int]]:
    """(slot, row, col, product) of the used slots of a block; 0 for outputs that the table lacks."""
    columns = [table.values.get(name, (0,) * table.points) for name in ("row", "col", "product")]
    parts = zip(range(size), *(column[first : first + size] for column in columns), strict=True)
    return [(n, r, c or 0, p or 0) for n, r, c, p in parts if r is not None]


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


def lanes(block: Block, fragment: Fragment) -> list[Lane]:
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
    return runs(register_elements)
