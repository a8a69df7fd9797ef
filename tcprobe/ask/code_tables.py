"""Who holds what, as a kernel's own code shows it: a fragment loaded and its registers stored, or the other way round.

A kernel that loads a wmma fragment and stores each lane's registers one after the other, or fills a fragment from
memory and stores it, only moves bytes; one that writes numbers into an accumulator and stores it shows the slot of each
element by its number. Run byte by byte (`sass.copies`) it says at which offset in memory each element
of each lane lies. The published fragments of the arch whose table, with some leading dimension, leads there are what it
holds; where none does, the one that agrees in most slots is named, and the slots that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tcprobe.ask.describe import cell_entry
from tcprobe.ask.diagnosis import FIRST
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.arrays import Ints
from tcprobe.layout.table import Table, slot_table
from tcprobe.sass.copies import BYTES, MOST_CODE, Copied, Numbered, follow_copies, lanes_of
from tcprobe.sass.cubin import disassemble
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.elf import Content
from tcprobe.sass.image import FunctionCode
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.cell import Cell, find
from tcprobe.store.choose import Layers
from tcprobe.values import Json

LEAST_ALIKE = 0.25  # of the slots must agree for a fragment to be named that differs
MOST_LEADING = 1 << 12
NUMBER_TYPES = (np.float32, np.int32, np.float16, np.float64)  # of accumulators, in which a kernel can store numbers


@dataclass(frozen=True)
class CodeTable:
    """What a kernel's code shows: of `fragments`, which all have the very table, or of the nearest one.

    `table` leads from slots to rows and columns with the leading dimension that fits; `differ` of its slots are not
    those of the published table, the first of them in words.
    """

    cell: Cell
    fragments: tuple[str, ...]
    table: Table
    leading: int
    differ: int = 0
    first: tuple[str, ...] = ()

    def to_json(self, file: str, kernel: str) -> Json:
        """The object that `show --json` prints, of this table: measured from that code."""
        whole = cell_entry(replace(self.cell, table=self.table))
        provenance = {"method": "read", "arch": self.cell.arch, "file": file, "kernel": kernel}
        return whole | {
            "source": f"{file}, {kernel}",
            "provenance": provenance,
            "leading_dimension": self.leading,
            "fragments": list(self.fragments),
            "differ": self.differ,
            "of": self.table.points,
            "first": list(self.first),
        }


class Offsets(NamedTuple):
    """The byte of the matrix in memory of each byte that a lane holds, (32, bytes); whether registers were stored."""

    places: Ints
    loaded: bool


def tables(tools: Toolchain, arch: Arch, functions: Sequence[FunctionCode], layers: Layers) -> list[CodeTable | str]:
    """What each function holds, or why its code does not show it."""
    simple = [f for f in functions if f.parameters and len(f.code) <= MOST_CODE]
    kernels = {str(number): Content(f.code, 0, 0) for number, f in enumerate(simple)}
    codes = disassemble(tools, arch, kernels) if kernels else {}
    answers: dict[int, CodeTable | str] = {}
    for number, function in enumerate(simple):
        try:
            assert function.parameters is not None
            seen = follow_copies(codes[str(number)], function.parameters, arch.number)
            offsets = _offsets(seen) if isinstance(seen, Copied) else _numbered(seen, arch, layers)
            answers[id(function)] = _answer(offsets, arch, layers) if isinstance(offsets, Offsets) else offsets
        except UnreadError as error:
            answers[id(function)] = str(error)
    return [answers.get(id(f), "no kernel with parameters, or too long to be run") for f in functions]


def _offsets(copied_bytes: Copied) -> Offsets:
    """By lane, from the side where lane after lane has its registers; UnreadError where neither side is so."""
    of_writers = lanes_of(copied_bytes.lane, copied_bytes.to)
    readers = np.array([copied_bytes.readers.get(place, -1) for place in copied_bytes.source.tolist()], np.int64)
    of_readers = lanes_of(readers, copied_bytes.source)
    if of_writers and of_readers:
        raise UnreadError("both memories are in lane order, which shows nothing; a larger leading dimension would")
    if of_writers is None and of_readers is None:
        raise UnreadError("it does not store its registers lane by lane, which would show what each lane holds")
    _, order = of_writers or of_readers or (0, np.zeros(0, np.int64))
    matrix = copied_bytes.source if of_writers else copied_bytes.to
    if len(set((matrix // BYTES).tolist())) > 1:
        raise UnreadError("its matrix is in several buffers")
    return Offsets((matrix % BYTES)[order], of_writers is not None)


def _numbered(numbered: Numbered, arch: Arch, layers: Layers) -> Offsets | str:
    """By lane, of a kernel that stores lane * s + i of register i < s; if it stores lane alone, what that shows.

    UnreadError where its numbers are not those of the lanes that store them.
    """
    for dtype in NUMBER_TYPES:
        size = np.dtype(dtype).itemsize
        each, rest = divmod(len(numbered.to), WARP * size)
        whole = not rest and (numbered.to.reshape(-1, size) == numbered.to[::size, None] + np.arange(size)).all()
        if not whole or (numbered.lane.reshape(-1, size) != numbered.lane[::size, None]).any():
            continue
        numbers, lanes = np.ascontiguousarray(numbered.content).view(dtype).astype(np.float64), numbered.lane[::size]
        if (np.bincount(lanes, minlength=WARP) != each).any():
            continue
        order = np.lexsort((numbers, lanes))
        by_lane = numbers[order].reshape(WARP, each)
        stride = by_lane[1, 0]
        if stride >= each and (by_lane == np.arange(WARP)[:, None] * stride + np.arange(each)).all():
            return Offsets((numbered.to % BYTES).reshape(-1, size)[order].reshape(WARP, each * size), False)
        if (numbers == lanes).all():
            return _lanes_alone(numbered.to[::size] % BYTES // size, lanes, each * size, arch, layers)
    raise UnreadError(
        "the numbers that it stores are computed, and not lane * s + i of register i < s, which shows every slot"
    )


def _lanes_alone(offsets: Ints, lanes: Ints, lane_bytes: int, arch: Arch, layers: Layers) -> str:
    """What numbers of lanes show: whose lanes hold the same elements, but not in which of their registers."""
    alike: list[str] = []
    owner = dict(zip(offsets.tolist(), lanes.tolist(), strict=True))
    for cell, by_row in _candidates(Offsets(np.zeros((WARP, lane_bytes), np.int64), False), arch, layers):
        major, minor = _numbers(cell, by_row)
        held = np.arange(cell.table.points) // cell.table.elements
        leading = [
            n
            for n in range(int(minor.max()) + 1, MOST_LEADING)
            if int(major.max()) * n + int(minor.max()) == max(owner)
        ]
        if leading and [owner.get(place) for place in (major * leading[0] + minor).tolist()] == held.tolist():
            alike.append(cell.fragment.id)
    whose = (
        f"each element is in its lane of {', '.join(alike)}" if alike else f"no fragment of {arch.name} has these lanes"
    )
    return f"it stores the number of the lane alone: {whose}; lane * s + i of register i < s shows registers too"


def _answer(lane_bytes: Offsets, arch: Arch, layers: Layers) -> CodeTable | str:
    exact: dict[int, tuple[Cell, list[str]]] = {}
    best: tuple[int, Cell, int, bool] | None = None
    for cell, by_row in _candidates(lane_bytes, arch, layers):
        leading, agreed = _leading(cell, lane_bytes.places, by_row)
        if agreed == cell.table.points:
            exact.setdefault(leading, (cell, []))[1].append(cell.fragment.id)
        elif best is None or agreed > best[0]:
            best = agreed, cell, leading, by_row
    if exact:
        leading, (cell, _) = max(exact.items(), key=lambda item: len(item[1][1]))
        every = dict.fromkeys(id_ for _, ids in exact.values() for id_ in ids)
        return CodeTable(cell, tuple(every), cell.table, leading)
    if best is None or best[0] < LEAST_ALIKE * best[1].table.points:
        return f"no fragment of {arch.name} has {lane_bytes.places.shape[1]} bytes per lane in this order"
    return _differing(best[1], lane_bytes.places, best[2], best[3])


def _candidates(lane_bytes: Offsets, arch: Arch, layers: Layers) -> Iterator[tuple[Cell, bool]]:
    """The fragments of wmma with as many bytes a lane, and whether they lie in memory by row."""
    for fragment in inventory.fragments().values():
        if fragment.family != "wmma" or not fragment.target.on(arch) or not _fits(fragment, lane_bytes):
            continue
        cell = find(fragment, arch.name, layers)
        if cell and cell.measured:
            for by_row in (True, False) if fragment.layout is None else (fragment.layout == "row",):
                yield cell, by_row


def _fits(fragment: Fragment, lane_bytes: Offsets) -> bool:
    operands = ("a", "b", "c") if lane_bytes.loaded else ("d",)
    return fragment.operand in operands and fragment.elements * fragment.slot_bits == 8 * lane_bytes.places.shape[1]


def _numbers(cell: Cell, by_row: bool) -> tuple[Ints, Ints]:
    """For each slot the coordinate that the leading dimension multiplies, and the other."""
    row, col = (
        np.array([-1 if v is None else v for v in cell.table.values[name]], np.int64) for name in ("row", "col")
    )
    return (row, col) if by_row else (col, row)


def _elements(cell: Cell, places: Ints) -> Ints:
    """The offset in elements of each slot; -1 where its bytes do not lie together."""
    bits, count = cell.fragment.slot_bits, cell.table.points
    if bits < 8:
        each = 8 // bits
        return (places.reshape(-1, 1) * each + np.arange(each)).reshape(-1)
    size = bits // 8
    parts = places.reshape(count, size)
    whole = (parts == parts[:, :1] + np.arange(size)).all(axis=1) & (parts[:, 0] % size == 0)
    return np.where(whole, parts[:, 0] // size, -1)


def _leading(cell: Cell, places: Ints, by_row: bool) -> tuple[int, int]:
    """The leading dimension that most slots fit, in elements, and how many do."""
    major, minor = _numbers(cell, by_row)
    offsets = _elements(cell, places)
    moved = (major > 0) & (offsets >= 0)
    steps, rest = np.divmod(offsets[moved] - minor[moved], major[moved])
    counts = Counter(steps[(rest == 0) & (steps > 0) & (steps <= MOST_LEADING)].tolist())
    leading = counts.most_common(1)[0][0] if counts else int(minor.max()) + 1
    return leading, int(np.count_nonzero(offsets == major * leading + minor))


def _differing(cell: Cell, places: Ints, leading: int, by_row: bool) -> CodeTable:
    """A table that nobody published, beside the nearest published one."""
    offsets = _elements(cell, places)
    major, minor = np.divmod(np.maximum(offsets, 0), leading)
    row, col = (major, minor) if by_row else (minor, major)
    values = {
        name: tuple(None if o < 0 else int(v) for v, o in zip(numbers, offsets, strict=True))
        for name, numbers in (("row", row), ("col", col))
    }
    table = slot_table(cell.table.threads, cell.table.elements, values)
    wrong = [
        slot for slot, (ours, theirs) in enumerate(zip(cell.table.cells, table.cells, strict=True)) if ours != theirs
    ]
    first = tuple(
        f"lane {slot // table.elements} i {slot % table.elements}: in this code {_place_words(table.cells[slot])}, "
        f"published {_place_words(cell.table.cells[slot])}"
        for slot in wrong[:FIRST]
    )
    return CodeTable(cell, (cell.fragment.id,), table, leading, len(wrong), first)


def _place_words(slot_place: tuple[int, ...] | None) -> str:
    return "nothing" if slot_place is None else str(list(slot_place))
