"""From a table to its map and formulas: GF(2)-linear, sums of products where it is not, and the inverse.

A Layout is a map as GF(2)-linear bases, with one image for each bit of each input; for a fragment, of lane and of i.

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

Formulas of maps that are not linear have each output bit as a minimal sum of products of the input bits it depends on.
SymPy's logic minimises. This module finds the input bits that matter, and gives up if they are too many for a useful
formula.

The inverse of a table has formulas from an element, and the number of its copy, to lane and i (its inputs).

>>> from tcprobe.fit.linear import inverse
>>> from tcprobe.layout.table import slot_table
>>> found = inverse(slot_table(2, 2, {"row": (0, 0, 1, 1), "col": (0, 1, 0, 1)}))
>>> str(found["lane"]), str(found["i"])
('row & 1', 'col & 1')

Copies of an element are numbered in the order of their slots. Formulas are proven for every slot; there are none if no
linear map goes through all slots.

Linear algebra over GF(2): vectors are integers, addition is XOR.

>>> solve_gf2([(0b01, 0b110), (0b11, 0b101)], 2)
(6, 3)
>>> span_gf2((6, 3))
[0, 6, 3, 5]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice, product
from typing import NamedTuple

from tcprobe.fit.formula import Formula, Products, linear_formula, proven
from tcprobe.layout.table import Space, Table


def solve_gf2(points: Iterable[tuple[int, int]], bits: int) -> tuple[int, ...] | None:
    """The images of the `bits` unit vectors under a linear map through all (input, output) points; None if there is
    none.

    Unit vectors that the inputs do not determine get image 0.
    """
    pivots: dict[int, tuple[int, int]] = {}  # highest bit -> (input, output), reduced
    for vector, image in points:
        vector, image = _reduce(pivots, vector, image)  # noqa: PLW2901
        if vector:
            pivots[vector.bit_length() - 1] = (vector, image)
        elif image:
            return None
    return _images(pivots, bits)


def _images(pivots: Mapping[int, tuple[int, int]], bits: int) -> tuple[int, ...]:
    """The images of the unit vectors; 0 of those that the pivots do not determine."""
    images = [0] * bits
    for bit in range(bits):
        if bit in pivots:
            vector, image = pivots[bit]
            for lower in range(bit):
                if vector >> lower & 1:
                    image ^= images[lower]
            images[bit] = image
    return tuple(images)


def _reduce(pivots: dict[int, tuple[int, int]], vector: int, image: int) -> tuple[int, int]:
    for bit in range(vector.bit_length() - 1, -1, -1):
        if vector >> bit & 1 and bit in pivots:
            vector ^= pivots[bit][0]
            image ^= pivots[bit][1]
    return vector, image


def span_gf2(images: Sequence[int]) -> list[int]:
    """The images of 0, 1, ..., 2**len(images) - 1."""
    values = [0]
    for image in images:
        values += [value ^ image for value in values]
    return values


def preimages_gf2(images: Sequence[int], value: int) -> list[int]:
    """All inputs that the linear map sends to `value`, ascending."""
    pivots: dict[int, tuple[int, int]] = {}
    kernel = []
    for bit, image in enumerate(images):
        rest, combination = _reduce(pivots, image, 1 << bit)
        if rest:
            pivots[rest.bit_length() - 1] = (rest, combination)
        else:
            kernel.append(combination)
    rest, combination = _reduce(pivots, value, 0)
    return [] if rest else sorted(combination ^ other for other in span_gf2(kernel))


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
        shifts, total = {}, 0
        for axis in reversed(self.space.axes):
            shifts[axis.name] = total
            total += axis.bits
        return shifts

    @cached_property
    def bases(self) -> dict[str, tuple[dict[str, int], ...]]:
        """Images by input: bases["lane"][b] is the change, by output, that bit b of lane makes."""
        images = (unpack(image, self.outputs) for image in self.images)
        return {axis.name: tuple(islice(images, axis.bits)) for axis in reversed(self.space.axes)}

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
        vectors = preimages_gf2(self.images, pack(element, self.outputs) ^ self.offset)
        points = (
            tuple(vector >> self.shifts[axis.name] & (1 << axis.bits) - 1 for axis in self.space.axes)
            for vector in vectors
        )
        return [p for p in points if all(value < axis.size for value, axis in zip(p, self.space.axes, strict=True))]

    def packed(self) -> list[int]:
        """The elements of all points, in order, packed."""
        values = [value ^ self.offset for value in span_gf2(self.images)] if self.offset else span_gf2(self.images)
        if all(axis.size == 1 << axis.bits for axis in self.space.axes):
            return values
        return [values[vector] for vector in _vectors(self.space)]


def fit_layout(table: Table) -> Layout | NotLinear:
    """The linear layout of a table, proven for every used point; or the first points that contradict it."""
    values = pack_table(table)
    # the affine map through a maximal set of independent points; those at powers of two come first
    bits, vectors = sum(axis.bits for axis in table.space.axes), _vectors(table.space)
    pivots: dict[int, tuple[int, int]] = {}
    for number in chain(_units(table.space), range(table.points)):
        if (value := values[number]) is None:
            continue
        vector, image = _reduce(pivots, vectors[number] | 1 << bits, value)  # the top bit stands for the offset
        if vector:
            pivots[vector.bit_length() - 1] = (vector, image)
            if len(pivots) == bits + 1:
                break
    images = _images(pivots, bits + 1)
    layout = Layout(table.space, table.outputs, images[:bits], images[bits])
    fitted = layout.packed()
    if fitted == values:
        return layout
    wrong = [number for number, value in enumerate(values) if value is not None and value != fitted[number]]
    if not wrong:
        return layout
    expected = {number: unpack(fitted[number], table.outputs) for number in wrong[:FIRST]}
    return not_linear(table, expected, len(wrong))


@cache
def _vectors(space: Space) -> tuple[int, ...]:
    """The bits of every point's inputs, side by side."""
    vectors = [0]
    for axis in space.axes:
        bits = axis.bits
        vectors = [vector << bits | value for vector in vectors for value in range(axis.size)]
    return tuple(vectors)


@cache
def _units(space: Space) -> tuple[int, ...]:
    """The numbers of the point with all inputs zero, and of the points with one bit set in one input."""
    units, stride = [0], 1
    for axis in reversed(space.axes):
        units += [stride << bit for bit in range(axis.bits)]
        stride *= axis.size
    return tuple(units)


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


FIRST = 3  # contradicting points that are kept


class Contradiction(NamedTuple):
    """A point that no linear map fits: what the map through the earlier points predicts, and what the table has."""

    point: dict[str, int]
    expected: dict[str, int]
    found: dict[str, int]

    def __str__(self) -> str:
        where = " ".join(f"{name} {value}" for name, value in self.point.items())
        return f"{where}: linear {self.expected}, measured {self.found}"


@dataclass(frozen=True)
class NotLinear:
    """Why a table has no linear map: the first points that contradict it, and how many do."""

    first: tuple[Contradiction, ...]
    count: int

    def __str__(self) -> str:
        return f"{self.count} slots contradict: " + "; ".join(map(str, self.first))


def not_linear(table: Table, predicted_elements: Mapping[int, dict[str, int]], count: int) -> NotLinear:
    """What a table has at the first of `count` points where a linear map predicts another element."""
    first = []
    for number, element in predicted_elements.items():
        found = dict(zip(table.outputs, table.cells[number] or (), strict=False))
        first.append(Contradiction(table.space.point(number), element, found))
    return NotLinear(tuple(first), count)


MOST_BITS = 6
MOST_PRODUCTS = 8

InputPoint = tuple[int, ...]


def boolean_formula(table: Table, output: str) -> Formula | None:
    """A proven formula of `output`; linear bits are mask-and-shift terms. None if a bit has no short formula."""
    variables = {axis.name: axis.bits for axis in reversed(table.space.axes)}
    variable_bits = [(variable, bit) for variable, bits in variables.items() for bit in range(bits)]
    points = _input_points(table, output, variable_bits)
    images = {variable: [0] * bits for variable, bits in variables.items()}
    products: list[Products] = []
    constant = 0
    for bit in range(max(points.values(), default=0).bit_length()):
        column = tuple(None if value is None else value >> bit & 1 for value in table.values[output])
        linear = fit_layout(Table(table.space, {output: column}))
        if isinstance(linear, Layout):
            constant |= linear.origin[output] << bit
            for variable, bases in linear.bases.items():
                images[variable] = [old | b[output] << bit for old, b in zip(images[variable], bases, strict=True)]
            continue
        of_bit = _output_bit({p: v >> bit & 1 for p, v in points.items()}, bit, variable_bits)
        if of_bit is None:
            return None
        products.append(of_bit)
    terms = linear_formula(images, constant).terms
    formula = Formula((*terms, *products), constant, table.space.names, table.space.sizes)
    return formula if proven(formula, table, output) else None


def _input_points(table: Table, output: str, variable_bits: list[tuple[str, int]]) -> dict[InputPoint, int]:
    """Used slots, as tuples of input bits."""
    points = {}
    for number, value in enumerate(table.values[output]):
        if value is not None:
            of = table.space.point(number)
            points[tuple(of[variable] >> bit & 1 for variable, bit in variable_bits)] = value
    return points


def _output_bit(points: dict[InputPoint, int], bit: int, variable_bits: list[tuple[str, int]]) -> Products | None:
    """One output bit; None if it depends on too many input bits, or needs too many products."""
    needed, short = _support(points)
    if len(needed) > MOST_BITS:
        return None
    from tcprobe.fit.symbolic import minimal_products

    unknown = [p for p in product((0, 1), repeat=len(needed)) if p not in short]
    products = minimal_products(len(needed), [p for p, v in short.items() if v], unknown)
    if len(products) > MOST_PRODUCTS:
        return None
    return Products(bit, tuple(tuple((*variable_bits[needed[j]], wanted) for j, wanted in p) for p in products))


def _support(points: dict[InputPoint, int]) -> tuple[list[int], dict[InputPoint, int]]:
    """(input bits that the value needs, the value by these).

    A bit is dropped if the others determine the value. Once more than MOST_BITS are needed, the rest is not tried.
    """
    needed = list(range(len(next(iter(points), ()))))
    for candidate in tuple(needed):
        j = needed.index(candidate)
        rest: dict[InputPoint, int] = {}
        if all(rest.setdefault(p[:j] + p[j + 1 :], v) == v for p, v in points.items()):
            points = rest
            needed.remove(candidate)
        elif j == MOST_BITS:  # it is kept, as are those before it
            break
    return needed, points


_INVERTED: dict[str, dict[str, Formula] | None] = {}  # by layout id: many fragments share few layouts


def inverse(table: Table) -> dict[str, Formula] | None:
    """Formulas of the inputs in the table's outputs and, if elements have several holders, `copy`; None if there are
    none.
    """
    inputs = table.space.names
    most = max(map(len, table.inverse.values()))
    names = (*table.outputs, *(("copy",) if most > 1 else ()))
    sizes = [(extent - 1).bit_length() for extent in (*table.extent.values(), most)][: len(names)]
    total = sum(sizes)
    points = []
    for cell, slots in table.inverse.items():
        for copy, slot in enumerate(slots):
            vector = _vector((*cell, copy), sizes) | 1 << total  # the top bit stands for the constant
            points.append((vector, pack(table.space.point(slot), inputs)))
    images = solve_gf2(points, total + 1)
    if images is None:
        return None
    unpacked = [unpack(image, inputs) for image in images]
    starts = [sum(sizes[:j]) for j in range(len(sizes))]
    formulas = {}
    for name in inputs:
        parts = {n: [u[name] for u in unpacked[s : s + size]] for n, s, size in zip(names, starts, sizes, strict=True)}
        formulas[name] = linear_formula(parts, unpacked[total][name], names)
    return formulas if _is_proven_inverse(formulas, table, names) else None


def cached_inverse(table: Table) -> dict[str, Formula] | None:
    """As `inverse`, computed once for each layout; for callers with the tables of many fragments."""
    if table.id not in _INVERTED:
        _INVERTED[table.id] = inverse(table)
    return _INVERTED[table.id]


def _is_proven_inverse(formulas: Mapping[str, Formula], table: Table, names: tuple[str, ...]) -> bool:
    return all(
        tuple(formulas[name](*values) for name in table.space.names) == table.space.values(slot)
        for cell, slots in table.inverse.items()
        for copy, slot in enumerate(slots)
        for values in [(*cell, copy)[: len(names)]]
    )


def _vector(values: Sequence[int], sizes: list[int]) -> int:
    """Values side by side in one number, the first in the low bits."""
    total, shift = 0, 0
    for value, size in zip(values, sizes, strict=False):
        total |= value << shift
        shift += size
    return total
