"""Address maps by name, and names of address maps: CUTLASS 2.x layouts, CuTe atoms, modes of tensor maps, Sw<B,M,S>.

>>> found = tabulate("SWIZZLE_32B", (16, 8), Options(bits=16))
>>> found.unit, found.offsets[:, 4].tolist()[:9]
('bytes', [144, 146, 148, 150, 152, 154, 156, 158, 128])
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from tcprobe.errors import UsageError, answer_or_none
from tcprobe.fit.swizzle import AFFINE, AddressFit
from tcprobe.isa.arch import Arch
from tcprobe.layout.address import MOST_CELLS, AddressMap, Pair
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import is_swizzle, swizzle_named
from tcprobe.references.shared_memory import cute, cutlass, tma
from tcprobe.text import any_of

MOST_STRIDE = 1 << 20
LINE, LINES = 128, 8  # bytes of all banks; lines after which every mode's pattern repeats
MOST_BITS = 19  # log2 of a side of a pattern, at most
ELEMENTS, BYTES = "elements", "bytes"


class Tabulated(NamedTuple):
    """An address map by name: offsets[first, second] in `unit`, and the bits of an element, None if unknown."""

    unit: str
    offsets: Ints
    bits: int | None


class Options(NamedTuple):
    """What a name may need besides: a stride in elements, bits of an element, a byte address, and the arch."""

    stride: int | None = None
    bits: int | None = None
    base: int | None = None
    arch: Arch | None = None


NO_OPTIONS = Options()


def tabulate(name: str, extent: Pair, options: Options = NO_OPTIONS) -> Tabulated:
    """The offsets of a tile of `extent`; UsageError for an unknown name, and for what its definition does not allow."""
    if min(extent) < 1 or extent[0] * extent[1] > MOST_CELLS:
        raise UsageError(f"`extent` {extent[0]},{extent[1]}: both from 1 on, together at most {MOST_CELLS} elements.")
    if options.stride is not None and not 1 <= options.stride < MOST_STRIDE:
        raise UsageError(f"`stride` {options.stride}: from 1 to {MOST_STRIDE - 1}.")
    for kind in (_tma, _cute, _cutlass, _swizzle):
        tabulated = kind(name, extent, options)
        if tabulated:
            return tabulated
    plain = {full_name.partition("<")[0]: full_name for full_name in names()}
    near = [plain[similar] for similar in difflib.get_close_matches(name.partition("<")[0], plain, n=2)]
    hint = f"; perhaps {any_of(near, 'or')}" if near else ""
    raise UsageError(f"no address map is called {name!r}{hint}.", "" if near else "address maps")


def pattern(name: str, options: Options) -> tuple[Pair, Options]:
    """(extent after which a layout's pattern repeats, options with bits, 8 if none are given); UsageError without."""
    named = swizzle_named(name) if is_swizzle(name) else None
    if named is None:
        atom = cute.resolve(name, options.bits)
        if atom is None:
            tabulate(name, (1, 1), options)
            raise UsageError(f"{name} has no extent: give `extent` E0,E1.")
        return atom.shape, options
    options = options._replace(bits=options.bits or 8)
    b, m, s = named.swizzle.to_json()
    if named.is_mode:
        return ((named.span or LINE) * 8 // (options.bits or 8), LINES), options
    return (1 << min(m + abs(s), MOST_BITS), 1 << min(b, MOST_BITS)), options


def names() -> list[str]:
    """All names, with their template parameters."""
    return [*tma.names(), *tma.atom_names(), *cute.names(), *cutlass.names(), "Sw<B,M,S>"]


def _tma(name: str, extent: Pair, options: Options) -> Tabulated | None:
    mode = tma.resolve(name)
    if mode is None:
        return None
    _refuse(name, "`stride`", options.stride, "a box has no stride")
    check_mode(mode, options.arch)
    box = tma.Box(extent, options.bits or 8, options.base or 0)
    return Tabulated(BYTES, mode(*_coordinates(extent), box), box.bits)


def check_mode(mode: tma.Mode, arch: Arch | None) -> None:
    """UsageError if an arch has no tensor maps, or not this mode."""
    if arch and arch.number < tma.LEAST_ARCH:
        raise UsageError(f"{mode.name}: {arch} has no tensor maps; sm_{tma.LEAST_ARCH} is the first that has.")
    if arch and arch.number < mode.least_arch:
        least = f"sm_{mode.least_arch} is the first that has it"
        raise UsageError(f"{mode.name}: the driver refuses it on {arch}, as measured; {least}.")


def _cute(name: str, extent: Pair, options: Options) -> Tabulated | None:
    atom = cute.resolve(name, options.bits)
    if atom is None:
        return None
    _refuse(name, "`stride`", options.stride, "atoms lie side by side")
    _refuse(name, "`base`", options.base, "offsets count from where the tile begins")
    return Tabulated(ELEMENTS, atom(*_coordinates(extent), extent), atom.bits)


def _cutlass(name: str, extent: Pair, options: Options) -> Tabulated | None:
    layout = cutlass.resolve(name)
    if layout is None:
        return None
    _refuse(name, "`base`", options.base, "offsets count from where the tile begins")
    if layout.bits and options.bits not in (None, layout.bits):
        raise UsageError(f"{name}: `bits` {options.bits}, where the name says {layout.bits}.")
    offsets = layout(*_coordinates(extent), options.stride or layout.packed(extent))
    return Tabulated(ELEMENTS, offsets, layout.bits or options.bits)


def _swizzle(name: str, extent: Pair, options: Options) -> Tabulated | None:
    named = swizzle_named(name) if is_swizzle(name) else None
    if named is None:
        return None
    _refuse(name, "`base`", options.base, "offsets count from where the tile begins")
    first, second = _coordinates(extent)
    offsets = first + second * (options.stride or extent[0])
    return Tabulated(ELEMENTS, named.swizzle(offsets), options.bits)


def _coordinates(extent: Pair) -> tuple[Ints, Ints]:
    first, second = np.indices(extent)
    return first, second


def _refuse(name: str, option: str, value: int | None, reason: str) -> None:
    if value is not None:
        raise UsageError(f"{option} {value}: {name} takes none; {reason}.")


WIDTHS = (4, 8, 16, 32, 64)  # tried if the width is unknown
FACTORS = (1, 2, 4, 8)  # kFactor: strided indices that share a line
GROUPS = (4, 8, 16, 32, 64)
SOME = 32  # cells that are compared before all are


def names_of(address_map: AddressMap, fitted: AddressFit, bits: int | None = None) -> list[str]:
    """Sw<B,M,S> of a swizzle, then CUTLASS, CuTe and TMA names; `bits` is the width of an element, None if unknown.

    CuTe's and TMA's names need a width: if it is unknown, the one that CUTLASS's names agree on.
    """
    swizzle = [fitted.swizzle.name] if fitted.swizzle else []
    layouts = list(_layouts_of(address_map, fitted, bits))
    widths = {layout.bits for layout in layouts if layout.bits} if bits is None else {bits}
    names = [layout.name for layout in layouts]
    if len(widths) == 1:
        names += [*_names_of_atoms(address_map, min(widths)), *_names_of_modes(address_map, min(widths))]
    return swizzle + names


def _layouts_of(address_map: AddressMap, fitted: AddressFit, bits: int | None) -> Iterator[cutlass.CutlassLayout]:
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


def _names_of_atoms(address_map: AddressMap, bits: int) -> Iterator[str]:
    typed, part = cute.NAMED.get(bits), _part(address_map)
    for name in cute.names() if typed else ():
        atom = answer_or_none(partial(cute.resolve, name.replace("<T>", f"<{typed}>")))  # None if the type is too wide
        if atom and answer_or_none(
            partial(_same, address_map, part, partial(atom.__call__, extent=address_map.extent))
        ):
            yield atom.name  # no answer unless the tile is whole atoms


def _names_of_modes(address_map: AddressMap, bits: int) -> Iterator[str]:
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
