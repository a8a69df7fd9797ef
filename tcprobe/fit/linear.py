"""Layout: a map as GF(2)-linear bases, with one image for each bit of each input; for a fragment, of lane and of i.

>>> from tcprobe.fit.linear import fit_layout
>>> from tcprobe.layout.table import slot_table
>>> t = slot_table(2, 4, {"row": (0, 0, 1, 1, 2, 2, 3, 3), "col": (0, 1, 0, 1, 0, 1, 0, 1)})
>>> layout = fit_layout(t)
>>> layout.bases["i"], layout.bases["lane"]
(({'row': 0, 'col': 1}, {'row': 1, 'col': 0}), ({'row': 2, 'col': 0},))
>>> layout.holders({"row": 3, "col": 1})
[(1, 3)]

The element of a point is the XOR of `offset` and the bases of the bits set in its inputs. Sizes of inputs need not be
powers of two, and points may be unused: the map only has to hold for used points.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING

from tcprobe.fit.formula import Formula, linear_formula
from tcprobe.layout import gf2
from tcprobe.layout.table import Space, Table

if TYPE_CHECKING:
    from tcprobe.fit.not_linear import NotLinear

FIELD = 20  # bits of each output in a packed element; values are below 2**20
MASK = (1 << FIELD) - 1


@dataclass(frozen=True)
class Layout:
    """`images` of the bits of the last input (low first), then of the one before it, packed.

    `offset` is the element at the point with all inputs zero, packed.
    """

    space: Space
    outputs: tuple[str, ...]
    images: tuple[int, ...]
    offset: int = 0

    @property
    def elements(self) -> int:
        """Slots of a thread, for a fragment."""
        return self.space.axes[-1].size

    @cached_property
    def shifts(self) -> dict[str, int]:
        """Where each input's bits start in a vector; the last input's are the lowest."""
        return _shifts(self.space)

    @cached_property
    def bases(self) -> dict[str, tuple[dict[str, int], ...]]:
        """Images by input: bases["lane"][b] is the change, by output, that bit b of lane makes."""
        unpacked = tuple(unpack(image, self.outputs) for image in self.images)
        parts = {
            axis.name: slice(self.shifts[axis.name], self.shifts[axis.name] + axis.bits)
            for axis in reversed(self.space.axes)
        }
        return {name: unpacked[part] for name, part in parts.items()}

    @property
    def origin(self) -> dict[str, int]:
        """The element at the point with all inputs zero."""
        return unpack(self.offset, self.outputs)

    def formula(self, output: str) -> Formula:
        """The formula of an output; it is proven where the layout is, as that of `fit_layout`."""
        images = {variable: [base[output] for base in bases] for variable, bases in self.bases.items()}
        return linear_formula(images, self.origin[output], self.space.names, self.space.sizes)

    def at(self, **point: int) -> dict[str, int]:
        """The element of a point."""
        self.space.number(**point)
        vector, value = sum(point[name] << shift for name, shift in self.shifts.items()), self.offset
        for bit, image in enumerate(self.images):
            value ^= image if vector >> bit & 1 else 0
        return unpack(value, self.outputs)

    def holders(self, element: Mapping[str, int]) -> list[tuple[int, ...]]:
        """Every point of the domain that the map sends to `element`, ascending."""
        vectors = gf2.preimages(self.images, pack(element, self.outputs) ^ self.offset)
        points = (
            tuple(vector >> self.shifts[axis.name] & (1 << axis.bits) - 1 for axis in self.space.axes)
            for vector in vectors
        )
        return [p for p in points if all(value < axis.size for value, axis in zip(p, self.space.axes, strict=True))]

    def packed(self) -> list[int]:
        """The elements of all points, in order, packed."""
        values = [value ^ self.offset for value in gf2.span(self.images)] if self.offset else gf2.span(self.images)
        if all(axis.size == 1 << axis.bits for axis in self.space.axes):
            return values
        return [values[vector] for vector in _vectors(self.space)]


def fit_layout(table: Table) -> "Layout | NotLinear":
    """The linear layout of a table, proven for every used point; or the first points that contradict it."""
    values = pack_table(table)
    layout = _through(table, values)
    fitted = layout.packed()
    if fitted == values:
        return layout
    wrong = [number for number, value in enumerate(values) if value is not None and value != fitted[number]]
    if not wrong:
        return layout
    from tcprobe.fit.not_linear import FIRST, because

    expected = {number: unpack(fitted[number], table.outputs) for number in wrong[:FIRST]}
    return because(table, expected, len(wrong))


def _through(table: Table, values: Sequence[int | None]) -> Layout:
    """The affine map through a maximal set of independent points; those at powers of two come first."""
    bits, vectors = sum(axis.bits for axis in table.space.axes), _vectors(table.space)
    points: list[tuple[int, int]] = []
    pivots: dict[int, int] = {}
    for number in chain(_units(table.space), range(table.points)):
        if (value := values[number]) is None:
            continue
        vector = vectors[number] | 1 << bits  # the top bit stands for the offset
        if _independent(pivots, vector):
            points.append((vector, value))
            if len(points) == bits + 1:
                break
    images = gf2.solve(points, bits + 1) or (0,) * (bits + 1)
    return Layout(table.space, table.outputs, images[:bits], images[bits])


@cache
def _shifts(space: Space) -> dict[str, int]:
    shifts, total = {}, 0
    for axis in reversed(space.axes):
        shifts[axis.name] = total
        total += axis.bits
    return shifts


@cache
def _vectors(space: Space) -> tuple[int, ...]:
    """The bits of every point's inputs, side by side."""
    vectors = [0]
    for axis in space.axes:
        vectors = [vector << axis.bits | value for vector in vectors for value in range(axis.size)]
    return tuple(vectors)


@cache
def _units(space: Space) -> tuple[int, ...]:
    """The numbers of the point with all inputs zero, and of the points with one bit set in one input."""
    units, stride = [0], 1
    for axis in reversed(space.axes):
        units += [stride << bit for bit in range(axis.bits)]
        stride *= axis.size
    return tuple(units)


def _independent(pivots: dict[int, int], vector: int) -> bool:
    while vector:
        high = vector.bit_length() - 1
        if high not in pivots:
            pivots[high] = vector
            return True
        vector ^= pivots[high]
    return False


def pack_table(table: Table) -> list[int | None]:
    """Every slot's element as one number, None if unused."""
    columns = [table.values[name] for name in table.outputs]
    if all(None not in column for column in columns[:1]):
        packed: list[int | None] = list(columns[0])
        for shift, column in enumerate(columns[1:], 1):
            packed = [p | v << FIELD * shift for p, v in zip(packed, column, strict=True)]  # type: ignore[operator]
        return packed
    return [
        None if cell is None else pack(dict(zip(table.outputs, cell, strict=True)), table.outputs)
        for cell in table.cells
    ]


def pack(element: Mapping[str, int], outputs: Sequence[str]) -> int:
    """An element as one number, FIELD bits for each output."""
    return sum(element[name] << FIELD * shift for shift, name in enumerate(outputs))


def unpack(value: int, outputs: Sequence[str]) -> dict[str, int]:
    """The inverse of `pack`."""
    return {name: value >> FIELD * shift & MASK for shift, name in enumerate(outputs)}


def unpacked(values: Sequence[int], count: int) -> Iterator[list[int]]:
    """The numbers of each output, for many packed elements."""
    for shift in range(count):
        yield [value >> FIELD * shift & MASK for value in values]
