"""Address maps by name: CUTLASS 2.x layouts, CuTe atoms, the swizzle modes of tensor maps, and plain Sw<B,M,S>.

>>> found = tabulate("SWIZZLE_32B", (16, 8), Options(bits=16))
>>> found.unit, found.offsets[:, 4].tolist()[:9]
('bytes', [144, 146, 148, 150, 152, 154, 156, 158, 128])
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.layout.address import MOST_CELLS, Pair
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import is_swizzle, swizzle_named
from tcprobe.references.shared_memory import cute, cutlass, tma

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
    hint = f"; perhaps {' or '.join(near)}" if near else ""
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
