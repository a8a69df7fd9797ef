"""CuTe's layouts, swizzles, tiled multiplies and tiled copies, as CuTe prints them or as C++ and Python write them.

>>> read("((4,8),(2,2,2)):((32,1),(16,8,128))")
L(shape=((4, 8), (2, 2, 2)), stride=((32, 1), (16, 8, 128)))
>>> read("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)").in_bytes
16
>>> read("make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2,_4,_1>>{}, Tile<_32,_32,_16>{})").warps
L(shape=(2, 4, 1), stride=(1, 2, 8))

A layout is applied to a coordinate whose leftmost number varies fastest; what the functions mean is CuTe's: layout.hpp,
atom/mma_atom.hpp and atom/copy_atom.hpp of CUTLASS.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import Swizzle
from tcprobe.notation.tokens import MOST_NUMBER, Reader, Token
from tcprobe.references.cute import L, Nested, flat, size

MOST_SIZE = 1 << 20  # elements of a layout that is worked out
_LAYOUTS = ("Layout", "make_layout")
_COPIES = ("make_tiled_copy", "make_tiled_copy_tv", "make_tiled_copy_A", "make_tiled_copy_B", "make_tiled_copy_C")
_TUPLES = ("Shape", "Stride", "Tile", "Step", "make_shape", "make_stride", "make_tile", "tuple")
_SWIZZLES = ("Sw", "S", "Swizzle")
_COMPOSED = ("ComposedLayout", "composition", "make_composed_layout")
_TYPE = re.compile(r"[\w.:]+")


class Composed(NamedTuple):
    """A swizzle of what a layout gives: of element offsets, or of bytes of elements of so many bits (`in_bytes`)."""

    swizzle: Swizzle
    layout: L
    in_bytes: int | None = None

    def __call__(self, offsets: Ints) -> Ints:
        """The swizzled offsets of elements."""
        if self.in_bytes is None:
            return self.swizzle(offsets)
        scaled: Ints = self.swizzle(offsets * self.in_bytes // 8) * 8 // self.in_bytes
        return scaled


class TiledMma(NamedTuple):
    """make_tiled_mma: an atom's name, how atoms are numbered along m, n and k, and what permutes each of these."""

    atom: str
    warps: L
    permutation: tuple[L | int | None, L | int | None, L | int | None]
    token: Token

    def __str__(self) -> str:
        tiles = ",".join(
            "_" if each is None else str(each) if isinstance(each, int) else written(each) for each in self.permutation
        )
        permuted = "" if self.permutation == (None, None, None) else f", ({tiles})"
        return f"make_tiled_mma({self.atom}, {written(self.warps)}{permuted})"


class TiledCopy(NamedTuple):
    """make_tiled_copy: an atom and its type, and threads and values as layouts, or one of both over a tile.

    `of` is the tiled multiply that it is made for, `operand` which of its operands: a, b or d.
    """

    atom: str
    type: str
    threads: L | None
    values: L | None
    tv: L | None
    tiler: tuple[int, int] | None
    of: TiledMma | None
    operand: str
    token: Token


Read: TypeAlias = L | Composed | TiledMma | TiledCopy
Item: TypeAlias = "Read | int | tuple[Item, ...] | None"


def read(text: str) -> Read:
    """What a text means; UsageError with the column of what it cannot mean."""
    reader = Reader(text)
    found = item(reader)
    reader.end()
    if not isinstance(found, (L, Composed, TiledMma, TiledCopy)):
        reader.fail("a shape without strides; a layout is shape:stride, such as (8,4):(4,1)")
    return found


def read_tiler(text: str) -> tuple[L | int | None, ...]:
    """Sides of a permutation, each a number, _ or a layout: 32,(8,2,2):(1,16,8),_."""
    reader = Reader(text)
    sides = [_side(reader)]
    if sides == [()] or (isinstance(sides[0], tuple) and not isinstance(sides[0], L)):
        reader.end()
        return _sides(reader, sides[0])
    while reader.accept(","):
        sides.append(_side(reader))
    reader.end()
    return _sides(reader, tuple(sides))


def _side(reader: Reader) -> Item:
    return item(reader)


def _sides(reader: Reader, given: Item) -> tuple[L | int | None, ...]:
    sides = given if isinstance(given, tuple) and not isinstance(given, L) else (given,)
    found: list[L | int | None] = []
    for side in sides:
        if isinstance(side, tuple) and not isinstance(side, (L, Composed, TiledMma, TiledCopy)):
            reader.fail("a side of a permutation is a number, _ or a layout")
        if isinstance(side, (Composed, TiledMma, TiledCopy)):
            reader.fail("a side of a permutation is a number, _ or a layout")
        found.append(side)
    return tuple(found)


def item(reader: Reader) -> Item:
    """A number, a tuple, a layout or what makes one; None for _."""
    token = reader.next
    found = _simple(reader)
    if reader.next.text == ":":
        reader.take()
        return _layout(reader, token, found, _simple(reader))
    if isinstance(found, Swizzle):
        return _composed(reader, found)
    return found


def _simple(reader: Reader) -> Item | Swizzle:
    token = reader.next
    if token.text == "(":
        reader.take()
        return tuple(reader.items(")", lambda: item(reader)))
    if token.is_number or token.text.rpartition("::")[2] in ("Int", "C"):
        return reader.number()
    if token.text in ("_", "Underscore", "-", "None", "X"):
        reader.take()
        reader.braces()
        return None
    return _named(reader, token, reader.name("a number, ( or a layout").text.rpartition("::")[2].rpartition(".")[2])


def _named(reader: Reader, token: Token, name: str) -> Item | Swizzle:
    """What begins with a name, which was read."""
    if name in _TUPLES:
        return tuple(_bracketed(reader))
    if name in _LAYOUTS:
        return _layout_of(reader, token, name)
    if name in _COPIES:
        return _tiled_copy(reader, token, name)
    made: dict[str, Callable[[Reader, Token], Item | Swizzle]] = {
        **dict.fromkeys(_SWIZZLES, _swizzle),
        **dict.fromkeys(_COMPOSED, _composition),
        "make_tiled_mma": _tiled_mma,
    }
    if name not in made:
        reader.fail(f"{token.text[:40]} is not a part of a layout of CuTe", token)
    return made[name](reader, token)


def _layout_of(reader: Reader, token: Token, name: str) -> Item:
    """Layout<shape, stride>, make_layout(shape, stride) and what else has them in brackets."""
    parts = _bracketed(reader)
    if not 1 <= len(parts) <= 2:
        reader.fail(f"{name} takes a shape and a stride", token)
    if isinstance(parts[0], L) and len(parts) == 1:
        return parts[0]
    stride = parts[1] if len(parts) == 2 else compact(_nested(reader, token, parts[0]))
    return _layout(reader, token, parts[0], stride)


def _bracketed(reader: Reader) -> list[Item]:
    """What stands in <...>{} or (...), a name's keyword before it left out: shape=, stride=."""
    opened = reader.accept("<", "(")
    if opened is None:
        reader.expect("<")

    def part() -> Item:
        if reader.next.text in ("shape", "stride"):
            reader.take()
            reader.expect("=")
        return item(reader)

    parts = reader.items(">" if opened and opened.text == "<" else ")", part)
    _value(reader)
    return parts


def _value(reader: Reader) -> None:
    """The {} or () with which C++ makes a value of a type, or nothing."""
    reader.braces()
    if reader.next.text == "(" and reader.text[reader.next.column :].lstrip().startswith(")"):
        reader.take()
        reader.expect(")")


def _swizzle(reader: Reader, token: Token) -> Swizzle:
    reader.expect("<")
    numbers: list[int] = []
    for place in range(3):
        if place:
            reader.expect(",")
        sign = -1 if reader.accept("-") else 1
        numbers.append(sign * reader.number())
    reader.expect(">")
    reader.braces()
    try:
        return Swizzle(*numbers)
    except UsageError as error:
        reader.fail(str(error).rstrip("."), token)


def _composed(reader: Reader, swizzle: Swizzle) -> Composed:
    """Sw<B,M,S> o OFFSET o LAYOUT, OFFSET 0 or smem_ptr[16b](unset)."""
    reader.expect("o")
    in_bytes = None
    if reader.next.text == "smem_ptr":
        in_bytes = _pointer(reader)
    elif reader.number():
        reader.fail("the offset of a composed layout is 0 here")
    reader.expect("o")
    return _check_composed(reader, swizzle, item(reader), in_bytes)


def _pointer(reader: Reader) -> int:
    """smem_ptr[16b](unset): the bits of an element."""
    reader.take()
    reader.expect("[")
    token = reader.take()
    match = re.fullmatch(r"([0-9]{1,3})b", token.text)
    bits = int(match[1]) if match else 0
    if bits not in (8, 16, 32, 64, 128):
        reader.fail("smem_ptr has elements of 8, 16, 32, 64 or 128 bits: smem_ptr[16b](unset)", token)
    reader.expect("]")
    reader.expect("(")
    reader.take()
    reader.expect(")")
    return bits


def _composition(reader: Reader, token: Token) -> Composed:
    """composition(Swizzle<3,4,3>{}, Layout<...>{}), or ComposedLayout<Swizzle<...>, smem_ptr_flag_bits<16>, ...>."""
    opened = reader.take()
    if opened.text not in ("(", "<"):
        reader.fail("( or < should follow", opened)
    close = ")" if opened.text == "(" else ">"
    first = reader.name("a swizzle")
    if first.text.rpartition("::")[2].rpartition(".")[2] not in (*_SWIZZLES, "make_swizzle"):
        reader.fail("a composed layout begins with its swizzle", first)
    if first.text.endswith("make_swizzle"):
        reader.expect("(")
        numbers = reader.items(")", reader.number)
        if len(numbers) != 3:
            reader.fail("a swizzle has three numbers", first)
        swizzle = Swizzle(*numbers)
    else:
        swizzle = _swizzle(reader, first)
    reader.expect(",")
    in_bytes = None
    if reader.next.text.rpartition("::")[2] == "smem_ptr_flag_bits":
        reader.take()
        reader.expect("<")
        in_bytes = reader.number(8)
        reader.expect(">")
        reader.braces()
        reader.expect(",")
        layout = item(reader)
    else:
        layout = item(reader)
        if reader.accept(","):
            if layout != 0:
                reader.fail("the offset of a composed layout is 0 here")
            layout = item(reader)
    reader.expect(close)
    _value(reader)
    return _check_composed(reader, swizzle, layout, in_bytes, token)


def _check_composed(
    reader: Reader, swizzle: Swizzle, layout: Item, in_bytes: int | None, token: Token | None = None
) -> Composed:
    if not isinstance(layout, L):
        reader.fail("a swizzle is composed with a layout shape:stride", token)
    return Composed(swizzle, layout, in_bytes)


def _layout(reader: Reader, token: Token, shape: Item | Swizzle, stride: Item | Swizzle | Nested) -> L:
    """shape:stride; UsageError unless both nest alike and are not beyond bounds."""
    found = L(_nested(reader, token, shape), _nested(reader, token, stride))
    if not _congruent(found.shape, found.stride):
        reader.fail("shape and stride do not nest alike", token)
    if min(flat(found.shape), default=0) < 1:
        reader.fail("a side of 0", token)
    if size(found.shape) >= MOST_NUMBER or cosize(found) > MOST_NUMBER:
        reader.fail("the layout has 2**31 elements or more", token)
    return found


def _nested(reader: Reader, token: Token, given: Item | Swizzle | Nested) -> Nested:
    if isinstance(given, int):
        return given
    if not isinstance(given, tuple) or isinstance(given, (L, Composed, TiledMma, TiledCopy)) or not given:
        reader.fail("numbers in parentheses are needed on both sides of :", token)
    return tuple(_nested(reader, token, part) for part in given)


def _congruent(shape: Nested, stride: Nested) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(_congruent, shape, stride))


def compact(shape: Nested, start: int = 1) -> Nested:
    """The strides with which a shape has no gaps, the leftmost number varying fastest."""
    return _compact(shape, start)[0]


def _compact(shape: Nested, start: int) -> tuple[Nested, int]:
    if isinstance(shape, int):
        return start, start * shape
    parts = []
    for part in shape:
        stride, start = _compact(part, start)
        parts.append(stride)
    return tuple(parts), start


def cosize(layout: L) -> int:
    """One more than the largest number that a layout gives."""
    return 1 + sum(
        (extent - 1) * stride for extent, stride in zip(flat(layout.shape), flat(layout.stride), strict=True)
    )


def table(layout: L) -> Ints:
    """A layout at all its indices; UsageError where they are too many to be worked out."""
    count = size(layout.shape)
    if count > MOST_SIZE:
        raise UsageError(f"a layout of {count} elements; at most {MOST_SIZE} are worked out.")
    values = np.zeros(1, np.int64)
    for extent, stride in zip(flat(layout.shape), flat(layout.stride), strict=True):
        values = (values[None, :] + (np.arange(extent) * stride)[:, None]).ravel()
    return values


def complement(layout: L, whole: int) -> L | None:
    """Where copies of a layout start that fill its gaps, then follow it, up to number `whole`; None where it has none.

    CuTe's complement(layout, whole): it ascends, and a gap that is no whole number of copies keeps what is left over.
    None is of a layout whose modes interlace, such as (2,2):(2,3), which CuTe refuses.
    """
    starts, reach = [], 1
    for stride, extent in sorted(zip(flat(layout.stride), flat(layout.shape), strict=True)):
        if extent == 1 or not stride:
            continue
        if stride < reach:
            return None
        starts.append((stride // reach, reach))
        reach = stride * extent
    return _coalesced([*starts, (-(-whole // reach), reach)])


def _coalesced(modes: Sequence[tuple[int, int]]) -> L:
    """Modes of (extent, stride) as one layout; a mode that goes on where the one before it ends is part of it."""
    found: list[tuple[int, int]] = []
    for extent, stride in modes:
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = found[-1][0] * extent, found[-1][1]
        elif extent > 1:
            found.append((extent, stride))
    extents, strides = zip(*found or [(1, 0)], strict=True)
    return L(extents, strides)


def composition(outer: L, extent: int, step: int) -> L | None:
    """The layout that gives outer(step * i) for each i below `extent`; None where CuTe refuses.

    CuTe's composition(outer, extent:step): the last mode of `outer` goes on without an end.
    """
    *modes, (_, last) = zip(flat(outer.shape), flat(outer.stride), strict=True)
    found = []
    for side, stride in modes:
        if step >= side:  # no index but 0 is within this mode
            if step % side:
                return None
            step //= side
            continue
        within = -(-side // step)
        if extent > within and extent % within:
            return None
        found.append((min(extent, within), step * stride))
        extent, step = -(-extent // within), 1  # CuTe does so where `step` does not divide `side`, too
    return _coalesced([*found, (extent, step * last)])


def tile_to_shape(layout: L, tile: tuple[int, int]) -> L | None:
    """A layout of rows and columns, repeated over a tile of whole copies of it, first down; None where CuTe refuses.

    CuTe's tile_to_shape(layout, tile): copies fill the layout's gaps before they follow it.
    """
    down, across = (side // own for side, own in zip(tile, mode_sizes(layout), strict=True))
    if down == across == 1:
        return layout
    starts = complement(layout, size(layout.shape) * down * across)
    repeats = starts and (composition(starts, down, 1), composition(starts, across, down))
    if repeats is None or None in repeats:
        return None
    both = list(zip(by_modes(layout), cast("tuple[L, L]", repeats), strict=True))
    return L(
        tuple((own.shape, repeat.shape) for own, repeat in both),
        tuple((own.stride, repeat.stride) for own, repeat in both),
    )


def written(layout: L | Nested) -> str:
    """As CuTe prints it."""
    if isinstance(layout, L):
        return f"{written(layout.shape)}:{written(layout.stride)}"
    return str(layout) if isinstance(layout, int) else f"({','.join(map(written, layout))})"


def rank(layout: L) -> int:
    """How many outermost modes a layout has."""
    return len(layout.shape) if isinstance(layout.shape, tuple) else 1


def by_modes(layout: L) -> Iterator[L]:
    """The layouts of the outermost modes."""
    if isinstance(layout.shape, int) or isinstance(layout.stride, int):
        yield layout
        return
    yield from (L(*mode) for mode in zip(layout.shape, layout.stride, strict=True))


# what multiplies and copies are made of
def _tiled_mma(reader: Reader, token: Token) -> TiledMma:
    """make_tiled_mma(ATOM, atoms along m, n and k, what permutes them)."""
    reader.expect("(")
    atom = _atom(reader)
    warps = L((1, 1, 1), (1, 1, 1))
    permutation: list[L | int | None] = [None, None, None]
    if reader.accept(","):
        _keyword(reader, "atom_layout_mnk", "atom_layout")
        warps = _modes(reader, item(reader), token, _ATOMS)
    if reader.accept(","):
        _keyword(reader, "permutation_mnk", "permutations")
        sides = _sides(reader, item(reader))
        if len(sides) > 3:
            reader.fail("a permutation has three sides, of m, n and k", token)
        permutation = [*sides, None, None][:3]
    reader.expect(")")
    return TiledMma(atom, warps, (permutation[0], permutation[1], permutation[2]), token)


def _keyword(reader: Reader, *names: str) -> None:
    if reader.accept(*names):
        reader.expect("=")


class _Along(NamedTuple):
    """Directions in which something lies: how many, what is wanted, what is said of more."""

    most: int
    wanted: str
    more: str


_ATOMS = _Along(
    3,
    "the atoms along m, n and k are a layout, such as (2,4,1):(1,2,8)",
    "atoms lie along m, n and k, not along more",
)
_LINES = _Along(
    2,
    "threads and values are layouts of rows and columns",
    "threads and values lie along rows and columns, not along more",
)


def _modes(reader: Reader, given: Item, token: Token, along: _Along) -> L:
    """A layout, or a shape, with a mode for each direction."""
    if isinstance(given, tuple) and not isinstance(given, (L, Composed, TiledMma, TiledCopy)):
        shape = _nested(reader, token, given)
        given = L(shape, compact(shape))
    if not isinstance(given, L):
        reader.fail(along.wanted, token)
    modes = list(by_modes(given))
    if len(modes) > along.most:
        reader.fail(along.more, token)
    while len(modes) < along.most:
        modes.append(L(1, 0))
    return L(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def _atom(reader: Reader) -> str:
    """The name of an atom: SM80_16x8x16_F32F16F16F32_TN{}, in MMA_Atom<...> too, or a name of PTX's."""
    token = reader.name("an atom, such as SM80_16x8x16_F32F16F16F32_TN,")
    name = token.text.rpartition("::")[2]
    if name in ("MMA_Atom", "make_mma_atom"):
        close = ">" if reader.take().text == "<" else ")"
        inner = _atom(reader)
        reader.expect(close)
        _value(reader)
        return inner
    text = token.text.removeprefix("cute::").removeprefix("SM90::").removeprefix("GMMA::")
    while reader.next.text == ":":  # kind::f8f6f4 is one name already; this is none
        reader.fail("an atom's name ends with , or )")
    if reader.accept("<"):  # template arguments, of wgmma's majors for example
        parts = reader.items(">", lambda: reader.take().text)
        text += f"<{', '.join(parts)}>"
    _value(reader)
    return text


def _tiled_copy(reader: Reader, token: Token, name: str) -> TiledCopy:
    reader.expect("(")
    atom, kind = _copy_atom(reader)
    reader.expect(",")
    if name[-2:] in ("_A", "_B", "_C"):
        _keyword(reader, "tiled_mma", "mma")
        found = item(reader)
        if not isinstance(found, TiledMma):
            reader.fail(f"{name} takes a make_tiled_mma(...)", token)
        reader.expect(")")
        operand = name[-1].lower()
        return TiledCopy(atom, kind, None, None, None, None, found, "d" if operand == "c" else operand, token)
    first_token = reader.next
    _keyword(reader, "thr_layout", "layout_tv")
    first = item(reader)
    second: Item = 1
    if reader.accept(","):
        _keyword(reader, "val_layout", "tiler_mn")
        second = item(reader)
    reader.expect(")")
    if (
        isinstance(first, L)
        and isinstance(second, tuple)
        and not isinstance(second, (L, Composed, TiledMma, TiledCopy))
    ):
        if len(second) != 2 or not all(type(side) is int for side in second):
            reader.fail("a tiler has two numbers", first_token)
        return TiledCopy(atom, kind, None, None, first, (second[0], second[1]), None, "", token)  # type: ignore[arg-type]
    threads, values = (_two_modes(reader, each, first_token) for each in (first, second))
    return TiledCopy(atom, kind, threads, values, None, None, None, "", token)


def _two_modes(reader: Reader, given: Item, token: Token) -> L:
    """A layout of threads, or of values, along rows and columns."""
    return _modes(reader, L((given, 1), (1, given)) if isinstance(given, int) else given, token, _LINES)


def _copy_atom(reader: Reader) -> tuple[str, str]:
    """The name of a copy's atom, and its type: Copy_Atom<UniversalCopy<uint128_t>, half_t>{}."""
    token = reader.name("a copy's atom, such as Copy_Atom<UniversalCopy<uint128_t>, half_t>,")
    name = token.text.rpartition("::")[2]
    if name in ("Copy_Atom", "make_copy_atom"):
        opened = reader.take()
        inner, _ = _copy_atom(reader)
        kind = ""
        if reader.accept(","):
            kind = _type_text(reader)
        reader.expect(">" if opened.text == "<" else ")")
        _value(reader)
        return inner, kind
    text = name
    if reader.accept("<"):
        text += f"<{', '.join(reader.items('>', lambda: _type_text(reader)))}>"
    _value(reader)
    return text, ""


def _type_text(reader: Reader) -> str:
    return reader.name("a type").text.rpartition("::")[2].rpartition(".")[2]


def mode_sizes(layout: L) -> tuple[int, ...]:
    """The number of indices of each outermost mode."""
    return tuple(prod(flat(mode.shape)) for mode in by_modes(layout))
