"""What is wrong with a stated table as a whole: a change after which every slot that it gives is the measured one.

>>> from tcprobe.ask.diagnose import diagnose
>>> from tcprobe.store.cell import load
>>> d = load("wmma.m16n16k16.d.f32")
>>> turned = d.table.with_values({"row": d.table.values["col"], "col": d.table.values["row"]})
>>> diagnose(turned, d.fragment, d.table)
['transposed: row and column are swapped']

A diagnosis is proven over every stated slot; where no such change is found there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Element, Table, ranges
from tcprobe.values import Json

Contents = Mapping[tuple[int, int], Element]
Order = dict[int, int]  # of the stated lanes or elements: which measured ones they are

SLOT_STARTS = ((0, 0), (1, 0), (0, 1), (1, 1))  # what lanes and elements may be counted from, in the order tried
CELL_STARTS = ((0, 0), (1, 1), (1, 0), (0, 1))  # the same of rows and columns, as named and then transposed
MOST = 5  # changes of order that are spelt out one by one
FIRST = 3  # slots that differ, of which each is shown

WORDS = {
    "transposed": "transposed: row and column are swapped",
    "from 1": "{} counted from 1",
    "lane": "lanes",
    "i": "elements (i)",
    "row": "rows",
    "col": "columns",
    "bits": "lane bits {} exchanged",
    "bit order": "lane bits in another order: {}",
    "bit": "bit {} is bit {}",
    "xor": "lanes XORed with {}",
    "lanes": "lanes in another order: {}",
    "registers": "registers {} and {} exchanged",
    "register order": "registers in another order: {}",
    "halves": "elements inside each register in reverse order: the low bits come first",
    "elements": "elements (i) in another order: {}",
    "order": "stated {}",
    "moved": "{} is {}",
    "more": " and {} more",
    "differs": "{}: stated {}, measured {}",
    "holes": "{} {}",
    "hole": ", i = {}",
    "outputs": "the table has {}; the fragment has {}.",
    "size": "the table has {} lanes x {} elements; the fragment has {} x {}.",
    "agree": "{} of {} slots agree",
    "missing": "; {} slots are not stated: {}",
    "diagnosis": "diagnosis: {}",
    "cured": "With that change every stated slot agrees.",
    "elsewhere": "this is: {}",
    "renumbered": "The two differ only by a renumbering of rows or columns, which the hardware cannot distinguish.",
}


def to_json() -> Json:
    """What is tried and said, as data: the script of the page that compares reads the same."""
    return {"slots": SLOT_STARTS, "cells": CELL_STARTS, "most": MOST, "first": FIRST, "words": WORDS}


class _Change(NamedTuple):
    """A change of what is stated, and its words, "" where nothing changes."""

    words: str
    apply: Callable[[Contents], Contents]


def slot_contents(table: Table, outputs: Sequence[str]) -> Contents:
    """What each slot of a table holds, of these outputs; unused slots left out."""
    places = [table.outputs.index(name) for name in outputs]
    slots = ((divmod(slot, table.elements), cell) for slot, cell in enumerate(table.cells))
    return {slot: tuple(cell[place] for place in places) for slot, cell in slots if cell is not None}


def diagnose(stated: Table, fragment: Fragment, measured: Table) -> list[str]:
    """A change that makes all of the stated table the measured one, in words; none where it agrees or none is found."""
    if stated.outputs[:2] != ("row", "col") or not set(stated.outputs) <= set(measured.outputs):
        return []
    cells, truth = (slot_contents(stated, stated.outputs), slot_contents(measured, stated.outputs))
    if not cells:
        return []
    changes = [(slots, changed) for slots in _slot_changes() for changed in _cell_changes(cells)]
    for orders_of in (_as_they_are, _orders):
        for slots, changed in changes:
            orders = orders_of(changed.apply(slots.apply(cells)), truth, measured)
            if orders is not None:
                return [text for text in (slots.words, changed.words, *_words(orders, fragment, measured)) if text]
    return []


def _as_they_are(contents: Contents, truth: Contents, _measured: Table) -> tuple[Order, Order] | None:
    same = {lane: lane for lane, _ in contents}, {i: i for _, i in contents}
    return same if _fits(contents, truth, same) else None


def holes(stated: Table, measured: Table) -> list[str]:
    """Which slots that the fragment uses are not stated, in words, lane by lane where they differ."""
    stated_slots = slot_contents(stated, stated.outputs)
    by_lane: dict[int, list[int]] = {}
    for lane, i in slot_contents(measured, measured.outputs):
        if (lane, i) not in stated_slots:
            by_lane.setdefault(lane, []).append(i)
    lanes_of: dict[str, list[int]] = {}
    for lane, missing in by_lane.items():
        lanes_of.setdefault(
            "" if len(missing) == measured.elements else WORDS["hole"].format(spans(missing)), []
        ).append(lane)
    holders = "lanes" if measured.threads <= WARP else "threads"
    return [WORDS["holes"].format(holders, spans(lanes)) + which for which, lanes in lanes_of.items()]


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers with what follows on each other joined: 0..3, 7."""
    return ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ranges(numbers))


def _slot_changes() -> Iterator[_Change]:
    """How lanes and elements may be counted: from zero or from one."""
    for lane, i in SLOT_STARTS:
        yield _Change(_from_one(lane=lane, i=i), _shift(lane, i))


def _from_one(**starts: int) -> str:
    """Which of these are counted from one, in words."""
    named = " and ".join(WORDS[name] for name, start in starts.items() if start)
    return WORDS["from 1"].format(named) if named else ""


def _shift(lane: int, i: int) -> Callable[[Contents], Contents]:
    return lambda contents: {(a - lane, b - i): cell for (a, b), cell in contents.items()}


def _cell_changes(contents: Contents) -> Iterator[_Change]:
    """How rows and columns may be named and counted."""
    for turned in (False, True):
        for row, col in CELL_STARTS:
            if all(cell[0] >= row and cell[1] >= col for cell in contents.values()):
                words = [WORDS["transposed"] if turned else "", _from_one(row=row, col=col)]
                yield _Change("; ".join(filter(None, words)), _rename_cells(turned, row, col))


def _rename_cells(turned: bool, row: int, col: int) -> Callable[[Contents], Contents]:
    def rename(element: Element) -> Element:
        first, second, *rest = element
        first, second = first - row, second - col
        return (second, first, *rest) if turned else (first, second, *rest)

    return lambda contents: {slot: rename(cell) for slot, cell in contents.items()}


def _orders(contents: Contents, truth: Contents, measured: Table) -> tuple[Order, Order] | None:
    """Which lanes and which elements are meant, one of the two reordered or both; None if nothing fits."""
    lanes = {lane: lane for lane, _ in contents}
    elements = {i: i for _, i in contents}
    for other_lanes in (lanes, _matching_order(contents, truth, 0, measured.threads), _by_contents(contents, truth)):
        for other in (
            elements,
            other_lanes and _matching_order(_reorder_lanes(contents, other_lanes), truth, 1, measured.elements),
        ):
            if other_lanes and other and _fits(contents, truth, (other_lanes, other)):
                return other_lanes, other
    return None


def _reorder_lanes(contents: Contents, lane_order: Order) -> Contents:
    return {(lane_order[lane], i): cell for (lane, i), cell in contents.items()}


def _fits(contents: Contents, truth: Contents, orders: tuple[Order, Order]) -> bool:
    lanes, elements = orders
    return all(truth.get((lanes[lane], elements[i])) == cell for (lane, i), cell in contents.items())


def _matching_order(contents: Contents, truth: Contents, which: int, size: int) -> Order | None:
    """The lanes (`which` 0) or elements (1) that hold what the stated ones do, slot by slot; None if there are none."""
    lines: dict[int, list[tuple[int, Element]]] = {}
    for slot, cell in contents.items():
        lines.setdefault(slot[which], []).append((slot[1 - which], cell))

    def holds(number: int, stated_cells: list[tuple[int, Element]]) -> bool:
        return all(
            truth.get((number, other) if which == 0 else (other, number)) == cell for other, cell in stated_cells
        )

    return _matching({n: [m for m in (n, *range(size)) if m < size and holds(m, line)] for n, line in lines.items()})


def _by_contents(contents: Contents, truth: Contents) -> Order | None:
    """Lanes that hold the same elements, in whatever order."""
    measured_lanes = _cells_by_lane(truth)
    return _matching(
        {
            lane: [number for number, whole in measured_lanes.items() if set(cells) <= set(whole)]
            for lane, cells in _cells_by_lane(contents).items()
        }
    )


def _cells_by_lane(contents: Contents) -> dict[int, list[Element]]:
    by_lane: dict[int, list[Element]] = {}
    for (lane, _), cell in contents.items():
        by_lane.setdefault(lane, []).append(cell)
    return by_lane


def _matching(choices: Mapping[int, list[int]]) -> Order | None:
    """Another partner for each, by augmenting paths; None where there are not enough."""
    number_of: dict[int, int] = {}

    def find(number: int, seen: set[int]) -> bool:
        for partner in choices[number]:
            if partner not in seen:
                seen.add(partner)
                if partner not in number_of or find(number_of[partner], seen):
                    number_of[partner] = number
                    return True
        return False

    complete = all(find(number, set()) for number in choices)
    return {number: partner for partner, number in number_of.items()} if complete else None


def _words(orders: tuple[Order, Order], fragment: Fragment, measured: Table) -> Iterator[str]:
    lanes, elements = orders
    if any(a != b for a, b in lanes.items()):
        yield _lane_words(lanes, measured.threads)
    if any(a != b for a, b in elements.items()):
        yield _element_words(elements, fragment)


def _lane_words(lane_order: Order, threads: int) -> str:
    """Bits of the lane that are exchanged or flipped, where that is all; else the order."""
    bits = (threads - 1).bit_length()
    base = lane_order.get(0, 0)
    images = [lane_order.get(1 << bit, base ^ 1 << bit) ^ base for bit in range(bits)]
    linear = all(_image(lane, images) ^ base == to for lane, to in lane_order.items())
    if not linear or sorted(images) != [1 << bit for bit in range(bits)]:
        return WORDS["lanes"].format(_some(lane_order))
    moved = [(bit, image.bit_length() - 1) for bit, image in enumerate(images) if image != 1 << bit]
    words = [WORDS["bits"].format(" and ".join(str(bit) for bit, _ in moved))] if moved else []
    if len(moved) > 2:
        words = [WORDS["bit order"].format(", ".join(WORDS["bit"].format(a, b) for a, b in moved))]
    return "; ".join([*words, *([WORDS["xor"].format(base)] if base else [])])


def _image(lane: int, images: Sequence[int]) -> int:
    place = 0
    for bit, image in enumerate(images):
        place ^= image if lane >> bit & 1 else 0
    return place


def _element_words(element_order: Order, fragment: Fragment) -> str:
    """Registers exchanged as a whole, the elements inside each reversed, or the order."""
    size = max(1, fragment.register_bits // fragment.slot_bits)
    registers = {i // size: to // size for i, to in element_order.items()}
    whole = all(registers[i // size] * size + i % size == to for i, to in element_order.items())
    if whole:
        moved = [(a, b) for a, b in sorted(registers.items()) if a != b]
        if len(moved) == 2:
            return WORDS["registers"].format(moved[0][0], moved[0][1])
        return WORDS["register order"].format(_some(dict(moved)))
    if size > 1 and all(to == i // size * size + size - 1 - i % size for i, to in element_order.items()):
        return WORDS["halves"]
    return WORDS["elements"].format(_some(element_order))


def _some(index_order: Order) -> str:
    moved = [WORDS["moved"].format(a, b) for a, b in sorted(index_order.items()) if a != b]
    more = WORDS["more"].format(len(moved) - MOST) if len(moved) > MOST else ""
    return WORDS["order"].format(", ".join(moved[:MOST])) + more
