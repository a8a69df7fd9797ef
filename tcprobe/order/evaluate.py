"""D of an order, to the bit.

Elements are computed in tiles, each node after those that it takes in: a multiply by the arithmetic of its form, a
fused multiply-add rounded once, an addition to nearest even with subnormals kept. What is not a number is one NaN,
0x7fffffff in f32.

A multiply-add in f32 is computed in f64, which holds its product. The sum is rounded twice, which matters only where
f64 shows a number halfway between two of f32, or one below f32's normal numbers: there it is rounded to odd first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike, fspath
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tcprobe import numerics
from tcprobe.arithmetic import order_text
from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import bits_of, values_of
from tcprobe.arithmetic.gemm import gemm, integers_of, multiplied_integers
from tcprobe.arithmetic.model import fma, rounded_to_odd, two_sum
from tcprobe.arithmetic.order import (
    TF32_UNREAD,
    Additions,
    FusedMultiplyAdds,
    Inputs,
    Multiplies,
    Node,
    Order,
    Ranges,
    Types,
    as_range,
    children,
    instruction,
    nesting,
    postorder,
)
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers, types_of
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array, Bits, Floats, Ints
from tcprobe.references.numerics import stated
from tcprobe.store import arithmetic
from tcprobe.store.choose import Layers, default

SIDE = 512  # rows and columns of a tile
HELD = 1 << 25  # elements of sums that wait for others, at most
PIECE = 4096  # products at a time
BLOCK = 1 << 14  # elements of a multiply-add at a time, so that they fit the CPU's cache
HALFWAY, BELOW_F32 = 1 << 28, (1 << 29) - 1  # of the bits that f64 has and f32 has not
LEAST_NORMAL = 2.0**-126
ORDINARY = 2.0**-103  # products of numbers whose least product this is have no digits below f32's last
NAN = {"f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}
Chosen: TypeAlias = Sequence[int] | slice | None  # rows or columns


class Rule(NamedTuple):
    """What a form computes: of which types, how many products at a time, and whether that was measured or published."""

    types: ElementTypes
    parameters: Arithmetic | Integers
    products: int
    measured: bool


def rule_of(form: str, arch: str, layers: Layers | None = None) -> Rule:
    """As measured on the arch; where it was not, as published. UsageError where neither is complete."""
    layers = layers or default()
    row = instruction(form)
    kinds, depth = types_of(row), row.shape.k
    if arithmetic.measured(row, arch, layers) is None and (parameters := stated(row, arch)) is not None:
        return Rule(kinds, parameters, depth, measured=False)
    return Rule(kinds, arithmetic.model(row, arch, layers), depth, measured=True)


def rules_of(order: Order, layers: Layers | None = None) -> dict[str, Rule]:
    """The arithmetic of every form in an order."""
    layers = layers or default()
    forms = dict.fromkeys(node.form for node in postorder(order.sum) if isinstance(node, Multiplies))
    return {form: rule_of(form, order.arch, layers) for form in forms}


def multiply(
    order: Order | Mapping[str, Any] | str | PathLike[str],
    a: ArrayLike,
    b: ArrayLike,
    rows: Chosen = None,
    cols: Chosen = None,
) -> Array:
    """D of A (m x k) and B (k x n): all of it, or the rows and columns that are chosen, in their order.

    `order` may also be what ORDER.json holds, or the name of such a file. A and B hold numbers that their types have,
    as any type of NumPy's; D is of its own type: ml_dtypes' where NumPy has none, int32 for integers. UsageError for
    other numbers, and for a form whose arithmetic nobody knows.
    """
    order = _order(order)
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim != 2 or second.ndim != 2 or not first.shape[1] == second.shape[0] == order.k:
        raise UsageError(f"A {first.shape} and B {second.shape} are not matrices with {order.k} products an element.")
    rules = rules_of(order)
    first = first[_chosen("rows", rows, first.shape[0])]
    second = second[:, _chosen("columns", cols, second.shape[1])].T
    operands = _Operands(order.types, *(_stored(order, name, part) for name, part in (("a", first), ("b", second))))
    d = np.empty((first.shape[0], second.shape[0]), _word(order.types.d))
    side = max(1, min(SIDE, int((HELD / (nesting(order.sum) + 1)) ** 0.5)))
    for row, col in product(range(0, d.shape[0], side), range(0, d.shape[1], side)):
        tile = slice(row, row + side), slice(col, col + side)
        with np.errstate(all="ignore"):
            d[tile] = _sum(order.sum, rules, operands.tile(*tile)).astype(d.dtype)
    return d


def _order(given: Order | Mapping[str, Any] | str | PathLike[str]) -> Order:
    """An order that may be plain data, or in a file."""
    if isinstance(given, Order):
        return given
    return order_text.from_json(dict(given)) if isinstance(given, Mapping) else order_text.load(fspath(given))


def _chosen(name: str, chosen: Chosen, size: int) -> slice | Ints:
    """An index; UsageError for a row or column that is not there."""
    if chosen is None or isinstance(chosen, slice):
        return chosen or slice(None)
    places = np.asarray(chosen)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise UsageError(f"{name} are chosen by whole numbers.")
    if places.size and not 0 <= places.min() <= places.max() < size:
        raise UsageError(f"{name} to choose from are 0 to {size - 1}." if size else f"there are no {name}.")
    return places.astype(np.int64)


def _word(kind: str) -> Any:
    """NumPy's type of numbers of a type."""
    return np.dtype(np.int32 if kind == "s32" else FORMATS[kind].numpy)


def _stored(order: Order, operand: str, numbers: Array) -> Bits:
    """An operand's bits, rounded as the order rounds its inputs."""
    a, b, d = order.types
    bits = numerics.bits_in(ElementTypes(a, b, d, d), operand, numbers)
    return to_tf32(bits, order.inputs) if getattr(order.types, operand) in ("f32", "tf32") else bits


def to_tf32(bits: Bits, inputs: Inputs) -> Bits:
    """Bits of f32 rounded to tf32; infinities and NaN stay."""
    if inputs == "exact":
        return bits
    last, half = np.uint32(1 << TF32_UNREAD), np.uint32(1 << TF32_UNREAD - 1)
    up = {
        "cut": np.uint32(0),
        "nearest away": half,
        "nearest even": half - 1 + (bits >> np.uint32(TF32_UNREAD) & np.uint32(1)),
    }[inputs]
    return np.where(bits & np.uint32(0x7F800000) == 0x7F800000, bits, bits + up & ~(last - 1))


def read_as(order: Order, rule: Rule | None) -> Inputs:
    """How A and B are rounded for a form, or for multiply-adds (None); one of tf32 reads f32 as if it were cut."""
    if not {"f32", "tf32"} & set(order.types[:2]):
        return "exact"
    return "cut" if order.inputs == "exact" and rule is not None and rule.types.a == "tf32" else order.inputs


@dataclass(frozen=True)
class _Operands:
    """Bits of A (rows, k) and of B (cols, k), of a whole product or of a tile."""

    types: Types
    a: Bits
    b: Bits

    def tile(self, rows: slice, cols: slice) -> _Operands:
        """The lines that a tile of D needs."""
        return _Operands(self.types, self.a[rows], self.b[cols])

    def at(self, k: slice | Ints, kinds: tuple[str, str], padding: int = 0) -> tuple[Bits, Bits]:
        """Some products, as a form takes their factors, and zeros behind them."""
        sides = zip(self.types, kinds, (self.a[:, k], self.b[:, k]), strict=False)
        first, second = (_converted(own, kind, bits) for own, kind, bits in sides)
        return (
            (np.pad(first, ((0, 0), (0, padding))), np.pad(second, ((0, 0), (0, padding))))
            if padding
            else (first, second)
        )

    @cached_property
    def ordinary(self) -> bool:
        """Whether no product has digits below those of f32's least number."""
        sides = ((self.types.a, self.a), (self.types.b, self.b))
        sizes = (abs(values_of(FORMATS[kind], bits).astype(np.float64)) for kind, bits in sides)
        least, other = (float(np.min(size, where=size > 0, initial=1.0)) for size in sizes)
        return least * other >= ORDINARY


def _converted(own: str, kind: str, bits: Bits) -> Bits:
    """Bits of one type as those of another, which holds its numbers."""
    if own == kind or {own, kind} == {"f32", "tf32"}:
        return bits
    wide = np.float64 if kind == "f64" else np.float32
    return bits_of(FORMATS[kind], values_of(FORMATS[own], bits).astype(wide))


def _sum(root: Node, rules: dict[str, Rule], operands: _Operands) -> Array:
    """The sums of a tile, in the type of the root; of nodes that wait, each takes one place of a list."""
    done: list[Array] = []
    for node, adds in _steps(root):
        if adds:
            last = done.pop()
            done[-1] = _added(node.result, done[-1], last)
        elif isinstance(node, Multiplies):
            done.append(_multiplied(node, rules[node.form], operands, done.pop() if node.c else None))
        elif isinstance(node, FusedMultiplyAdds):
            done.append(_fused(node, operands, done.pop() if node.c else None))
    (total,) = done
    if root.result not in NAN:
        return total
    nan = values_of(FORMATS[root.result], np.array([NAN[root.result]], FORMATS[root.result].word))
    return np.where(np.isnan(total), nan, total)


def _steps(root: Node) -> Iterator[tuple[Node, bool]]:
    """Nodes in the order in which they are computed; with True, additions of the last two sums that wait."""
    waiting: list[tuple[Node, bool, bool]] = [(root, False, False)]  # node, whether it adds, whether its sums are there
    while waiting:
        node, adds, opened = waiting.pop()
        if adds or opened or not children(node):
            yield node, adds
        elif isinstance(node, Additions):
            for place in reversed(range(len(node.terms))):
                waiting.extend([(node, True, True)] * (place > 0) + [(node.terms[place], False, False)])
        else:
            waiting.extend([(node, False, True), *((child, False, False) for child in children(node))])


def _added(kind: str, first: Array, second: Array) -> Array:
    """One addition in f32, f64 or s32, to nearest even."""
    with np.errstate(all="ignore"):
        made: Array = first.astype(_word(kind)) + second.astype(_word(kind))
    return made


def _pieces(ranges: Ranges, most: int) -> Iterator[slice | Ints]:
    """Products in the order of their ranges, so many at a time; all but the last piece are full."""
    parts = list(map(as_range, ranges))
    if len(parts) == 1:
        whole = parts[0]
        for at in range(0, len(whole), most):
            part = whole[at : at + most]
            yield slice(part.start, part.stop, part.step)
        return
    places = np.concatenate([np.arange(part.start, part.stop, part.step) for part in parts])
    yield from (places[at : at + most] for at in range(0, len(places), most))


def _multiplied(node: Multiplies, rule: Rule, operands: _Operands, c: Array | None) -> Array:
    """Multiplies of one form in a chain."""
    kinds, depth = rule.types, rule.products
    shape = len(operands.a), len(operands.b)
    if isinstance(rule.parameters, Integers):
        whole = rule.parameters.overflow == "wraps"  # so that it does not matter how many are added at a time
        d = np.zeros(shape, np.int64) if c is None else c.astype(np.int64)
        for k in _pieces(node.ranges, PIECE if whole else depth):
            first, second = operands.at(k, (kinds.a, kinds.b))
            a, b = integers_of(kinds.a, first), integers_of(kinds.b, second)
            d = multiplied_integers(kinds, rule.parameters, (a, b, d))
        return d.astype(np.int32)
    bits = np.zeros(shape, FORMATS[kinds.c].word) if c is None else np.ascontiguousarray(c).view(FORMATS[kinds.c].word)
    for k in _pieces(node.ranges, max(depth, PIECE // depth * depth)):
        missing = -len(range(*k.indices(operands.a.shape[1])) if isinstance(k, slice) else k) % depth
        first, second = operands.at(k, (kinds.a, kinds.b), missing)
        bits = gemm(kinds, rule.parameters, (first, second.T, bits))
    return values_of(FORMATS[kinds.d], bits)


def _fused(node: FusedMultiplyAdds, operands: _Operands, c: Array | None) -> Array:
    """Fused multiply-adds in a chain."""
    word = _word(node.type)
    shape = len(operands.a), len(operands.b)
    sums = np.zeros(shape, word) if c is None else c.astype(word)
    width = max(1, min(shape[1], BLOCK))
    height = max(1, BLOCK // width)
    for k in _pieces(node.ranges, PIECE):
        a, b = (values_of(FORMATS["f64"], part).T for part in operands.at(k, ("f64", "f64")))
        for row, col in product(range(0, shape[0], height), range(0, shape[1], width)):
            block = slice(row, row + height), slice(col, col + width)
            x, y = (np.ascontiguousarray(side[:, part]) for side, part in zip((a, b), block, strict=True))
            sums[block] = _chain(node.type, x, y, sums[block], operands)
    return sums


def _chain(kind: str, a: Floats, b: Floats, sums: Array, operands: _Operands) -> Array:
    """Multiply-adds of (k, rows) and (k, cols), one after another."""
    with np.errstate(all="ignore"):
        total = sums.astype(np.float64)
        for x, y in zip(a[:, :, None], b, strict=True):
            total = fma(x, y, total) if kind == "f64" else _fma32(x * y, total, operands.ordinary)
        return total.astype(sums.dtype)


def _fma32(products: Floats, addends: Floats, ordinary: bool) -> Floats:
    """products + addends, rounded once to f32, as numbers of f64; addends are of f32, products exact."""
    total = products + addends
    doubtful = total.view(np.int64) & BELOW_F32 == HALFWAY
    if not ordinary:
        doubtful |= abs(total) < LEAST_NORMAL
    if doubtful.any():
        total[doubtful] = rounded_to_odd(*two_sum(products[doubtful], addends[doubtful]))
    return total.astype(np.float32).astype(np.float64)
