"""The names of an address map: those of the catalogue that give the same offset for every cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

import numpy as np

from tcprobe.errors import answer_or_none
from tcprobe.fit.swizzle import AFFINE, AddressFit
from tcprobe.layout.address import AddressMap
from tcprobe.layout.arrays import Ints
from tcprobe.references.shared_memory import cute, cutlass, tma

WIDTHS = (4, 8, 16, 32, 64)  # tried if the width is unknown
FACTORS = (1, 2, 4, 8)  # kFactor: strided indices that share a line
GROUPS = (4, 8, 16, 32, 64)
SOME = 32  # cells that are compared before all are


def names_of(address_map: AddressMap, fitted: AddressFit, bits: int | None = None) -> list[str]:
    """Sw<B,M,S> of a swizzle, then CUTLASS, CuTe and TMA names; `bits` is the width of an element, None if unknown.

    CuTe's and TMA's names need a width: if it is unknown, the one that CUTLASS's names agree on.
    """
    swizzle = [fitted.swizzle.name] if fitted.swizzle else []
    layouts = list(_cutlass(address_map, fitted, bits))
    widths = {layout.bits for layout in layouts if layout.bits} if bits is None else {bits}
    names = [layout.name for layout in layouts]
    if len(widths) == 1:
        names += [*_cute(address_map, min(widths)), *_tma(address_map, min(widths))]
    return swizzle + names


def _cutlass(address_map: AddressMap, fitted: AddressFit, bits: int | None) -> Iterator[cutlass.CutlassLayout]:
    """The layouts that equal this map with some stride. Formulas are linear in the stride, so a few cells give it."""
    part = _part(address_map)
    for name in dict.fromkeys(_candidates(fitted, bits)):
        layout = cutlass.resolve(name)
        if layout is None:
            continue
        fixed, once = (layout(part.first, part.second, stride) for stride in (0, 1))
        far = int(np.argmax(once - fixed))
        stride = int((part.offsets[far] - fixed[far]) // max(once[far] - fixed[far], 1))
        if stride > 0 and _same(address_map, part, partial(layout.__call__, stride=stride)):
            yield layout


def _part(address_map: AddressMap) -> AddressMap:
    """Some cells of the map, with the farthest, for a quick check."""
    some_cells = np.unique(
        [*np.linspace(0, address_map.cells - 1, SOME, dtype=np.int64), np.argmax(address_map.offsets)]
    )
    return AddressMap(
        address_map.first[some_cells],
        address_map.second[some_cells],
        address_map.offsets[some_cells],
        address_map.low,
        address_map.high,
    )


def _same(address_map: AddressMap, part: AddressMap, definition: Callable[[Ints, Ints], Ints]) -> bool:
    """Whether a definition gives every cell's offset."""
    return all(np.array_equal(definition(cells.first, cells.second), cells.offsets) for cells in (part, address_map))


def _candidates(fitted: AddressFit, bits: int | None) -> Iterator[str]:
    """Names of layouts that a map of this kind may be."""
    views = ("", "ColumnMajor", "RowMajor")
    if fitted.kind == AFFINE:
        yield from ("PitchLinear", "ColumnMajor", "RowMajor")
        yield from (f"{view}Interleaved<{group}>" for view, group in product(views[1:], GROUPS))
        return
    vectors = {128 >> swizzle.base for swizzle in fitted.swizzles} or set(WIDTHS)
    if fitted.coordinate:
        vectors = {128 >> fitted.coordinate.base}
    for wide in (bits,) if bits else WIDTHS:
        line = 1024 // wide
        if wide in vectors:
            yield from (f"TensorOpMultiplicand<{wide},{line // factor}>" for factor in FACTORS if factor <= line)
        for view, factor in product(views, FACTORS):
            if wide in vectors or wide == 32:
                yield f"{view}TensorOpMultiplicandCongruous<{wide},{line // factor}>"
                yield f"{view}TensorOpMultiplicandCrosswise<{wide},{line // factor}>"
    for view in views:
        yield from (f"{view}{name}" for wide, name in _fixed_names() if bits in (None, wide))
        yield from (f"{view}{name}" for name in _volta(bits or 16))


def _fixed_names() -> Iterable[tuple[int, str]]:
    return (
        (64, "TensorOpMultiplicandCongruous64b"),
        (64, "TensorOpMultiplicand64bCrosswise"),
        (128, "TensorOpMultiplicandCongruous128b"),
        (128, "TensorOpMultiplicandCrosswise128x4"),
    )


def _volta(bits: int) -> Iterator[str]:
    if bits <= 64:
        yield f"VoltaTensorOpMultiplicandCongruous<{bits}>"
        yield f"VoltaTensorOpMultiplicandBCongruous<{bits}>"
        yield f"VoltaTensorOpMultiplicandCrosswise<{bits},32>"


def _cute(address_map: AddressMap, bits: int) -> Iterator[str]:
    typed, part = cute.NAMED.get(bits), _part(address_map)
    for name in cute.names() if typed else ():
        atom = answer_or_none(partial(cute.resolve, name.replace("<T>", f"<{typed}>")))  # None if the type is too wide
        if atom and answer_or_none(
            partial(_same, address_map, part, partial(atom.__call__, extent=address_map.extent))
        ):
            yield atom.name  # no answer unless the tile is whole atoms


def _tma(address_map: AddressMap, bits: int) -> Iterator[str]:
    """Modes of a box whose inner coordinate is either one, at the map's own first address."""
    if bits < 8 or address_map.low != (0, 0):
        return
    size = bits // 8
    straight = AddressMap(
        address_map.first, address_map.second, address_map.offsets * size, address_map.low, address_map.high
    )
    turned = AddressMap(
        address_map.second, address_map.first, straight.offsets, address_map.low, address_map.high[::-1]
    )
    for name in tma.names():
        if any(_is_box(tma.resolve(name), way, bits) for way in (straight, turned)):
            yield name


def _is_box(mode: tma.Mode | None, address_map: AddressMap, bits: int) -> bool:
    box = tma.Box(address_map.extent, bits, int(address_map.offsets.min()))
    return (
        mode is not None
        and not mode.why_not(box)
        and _same(address_map, _part(address_map), partial(mode.__call__, box=box))
    )
