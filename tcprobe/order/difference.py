"""Two orders compared: the first sum in which they part, and operands for which D differs.

A sum is known by what it adds how: the parameters of its arithmetic, its products, and the sums that it goes on from.
Inside one sum of a tensor core products have no order, and of two terms of an addition neither is first, so two forms
of one arithmetic, or the same terms exchanged, are the same sums. Orders whose last sums are the same give the same D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.order import (
    Additions,
    FusedMultiplyAdds,
    Multiplies,
    Order,
    as_range,
    postorder,
)
from tcprobe.arithmetic.parameters import IN_GROUP, Arithmetic
from tcprobe.errors import UsageError
from tcprobe.layout.arrays import Array, Floats
from tcprobe.order.evaluate import Rule, multiply, read_as, rules_of
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.store.choose import Layers
from tcprobe.text import Described
from tcprobe.values import Json

MOST_K = 1 << 20  # of orders that are compared, sum by sum
ROWS = 128  # of operands that are tried at a time
ROUNDS = 24
Key: TypeAlias = tuple[object, ...]


class Sum(NamedTuple):
    """One sum: its number among all that are known, how many sums before it, what it adds, in words."""

    number: int
    place: int
    products: tuple[int, ...]
    words: str


Products = Annotated[list[float], Meta(min_length=3, max_length=3)]


class SumAnswer(Answer):
    """A sum that only one of the orders has."""

    sum: Annotated[int, Meta(description="How many sums of the order come before it.")]
    products: Annotated[tuple[int, ...], Meta(description="The products that it takes in, none of an addition.")]
    words: str


FirstSum = Annotated[
    SumAnswer | None,
    Meta(description="The first sum that the other order has not; null where it has all of them."),
]


class OperandsAnswer(Answer):
    """A row and a column of which D differs."""

    products: list[Products]
    d: Annotated[list[str], Meta(min_length=2, max_length=2)]


class OrderDifferenceAnswer(Answer):
    """Two orders: whether they sum the same, where they part, and operands for which D differs."""

    same: bool
    first: FirstSum
    second: FirstSum
    operands: Annotated[
        OperandsAnswer | None,
        Meta(
            description="Products [k, a, b] of a row and a column, all others zero, and D of both orders as "
            "hexadecimal floats; null where none were found."
        ),
    ]
    tried: Annotated[int, Meta(description="Pairs of operands, at most, that were tried.")]


class Operands(NamedTuple):
    """A row of A and a column of B, and what each order makes of them: they differ."""

    a: Floats
    b: Floats
    d: tuple[float, float]

    @property
    def answer(self) -> OperandsAnswer:
        """What `--json` prints of it: products where neither number is zero."""
        places = np.flatnonzero((self.a != 0) & (self.b != 0))
        rows: list[list[float]] = [[int(k), float(self.a[k]), float(self.b[k])] for k in places]
        return OperandsAnswer(rows, [float(d).hex() for d in self.d])

    def to_json(self) -> Json:
        return plain(self.answer)


@dataclass(frozen=True, repr=False)
class OrderDifference(Described):
    """The first sum of each that the other lacks, if any; and operands that show it, None where none were found.

    `none`: both sum the same, so that D is the same for all operands.
    """

    none: bool
    first: Sum | None = None
    second: Sum | None = None
    operands: Operands | None = None
    tried: int = 0

    @cached_property
    def in_words(self) -> list[str]:
        """Where they part, and for which operands it shows."""
        if self.none:
            return ["the same sums: D is the same for all operands"]
        lines = [
            f"{name}: " + (f"sum {side.place}: {side.words}" if side else "all its sums are among the other's")
            for name, side in (("first", self.first), ("second", self.second))
        ]
        if self.first is None and self.second is None:
            lines = ["the same sums; D is rounded otherwise"]
        if self.operands is None:
            return [*lines, f"no operands were found for which D differs, in {self.tried} tries"]
        rows = self.operands.to_json()["products"]
        shown = ", ".join(f"k {k}: {a:g} x {b:g}" for k, a, b in rows[:6]) + (
            f", {len(rows)} in all" if len(rows) > 6 else ""
        )
        one, other = self.operands.d
        return [*lines, f"D is {one!r} and {other!r} ({one.hex()}, {other.hex()}) for {shown}"]

    def to_json(self) -> Json:
        first, second = (
            side and SumAnswer(side.place, side.products, side.words) for side in (self.first, self.second)
        )
        operands = self.operands and self.operands.answer
        return plain(OrderDifferenceAnswer(self.none, first, second, operands, self.tried))


def difference(first: Order, second: Order, layers: Layers | None = None) -> OrderDifference:
    """Compare two orders of as many products of the same types; UsageError for others."""
    for name in ("k", "types"):
        ours, theirs = (
            getattr(order, name)[: 2 if name == "types" else None] if name == "types" else order.k
            for order in (first, second)
        )
        if ours != theirs:
            raise UsageError(f"orders of other products: `{name}` is {ours} and {theirs}.")
    if first.k > MOST_K:
        raise UsageError(f"orders of {first.k} products are not compared: at most {MOST_K}.")
    known: dict[Key, int] = {}
    both = [list(sums(order, known, layers)) for order in (first, second)]
    numbers = [{each.number for each in side} for side in both]
    parted = [
        next((each for each in side if each.number not in other), None)
        for side, other in zip(both, numbers[::-1], strict=True)
    ]
    if both[0][-1].number == both[1][-1].number and first.types == second.types:
        return OrderDifference(none=True)
    near = [k for each in parted if each for k in each.products]
    found, tried = search(first, second, near)
    return OrderDifference(False, parted[0], parted[1], found, tried)


def sums(order: Order, known: dict[Key, int], layers: Layers | None = None) -> Iterator[Sum]:
    """The sums of an order, one after another; `known` numbers them, the same for orders that share it."""
    rules, place = rules_of(order, layers), 0
    done: list[tuple[int, int]] = []  # the number of a sum, and how many products it has

    def numbered(key: Key) -> int:
        return known.setdefault(key, len(known))

    for node in postorder(order.sum):
        if isinstance(node, Additions):
            terms = [done.pop() for _ in node.terms][::-1]
            number, size = terms[0]
            for other, more in terms[1:]:
                number, size = numbered(("add", node.result, *sorted((number, other)))), size + more
                yield Sum(
                    number, place, (), f"a sum of {size - more} products and one of {more} are added in {node.result}"
                )
                place += 1
            done.append((number, size))
            continue
        number, size = done.pop() if node.c is not None else (-1, 0)
        rule = rules[node.form] if isinstance(node, Multiplies) else None
        steps = _fused(node) if isinstance(node, FusedMultiplyAdds) else _multiplied(node, rules[node.form])
        for key, taken, words in steps:
            before = f"onto a sum of {size} products" if number >= 0 else "from zero"
            number, size = numbered((*key, read_as(order, rule), number)), size + len(taken)
            yield Sum(number, place, taken, f"{words} {before}")
            place += 1
        done.append((number, size))


def _places(node: Multiplies | FusedMultiplyAdds) -> list[int]:
    return [k for part in node.ranges for k in as_range(part)]


def _fused(node: FusedMultiplyAdds) -> Iterator[tuple[Key, tuple[int, ...], str]]:
    for k in _places(node):
        yield ("fma", node.type, k), (k,), f"k {k} by a multiply-add in {node.type}"


def _multiplied(node: Multiplies, rule: Rule) -> Iterator[tuple[Key, tuple[int, ...], str]]:
    """The sums of each multiply: its groups, where C is a term of the first; else the multiply as a whole."""
    places = _places(node)
    for at in range(0, len(places), rule.products):
        part = places[at : at + rule.products]
        if not isinstance(rule.parameters, Arithmetic) or rule.parameters.c != IN_GROUP:
            yield (rule.types, rule.parameters, *part), tuple(part), f"k {_shown(part)} by {node.form}"
            continue
        alike = msgspec.structs.replace(rule.parameters, groups=())
        for group in rule.parameters.groups:
            taken = tuple(part[k] for k in group if k < len(part))
            yield (rule.types, alike, *sorted(taken)), taken, f"k {_shown(taken)} by {node.form}"


def _shown(places: tuple[int, ...] | list[int]) -> str:
    if len(places) > 2 and list(places) == list(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    return ", ".join(map(str, places[:8])) + (", ..." if len(places) > 8 else "")


def search(first: Order, second: Order, near: list[int], seed: int = 0) -> tuple[Operands | None, int]:
    """Operands for which the two give another D, and how many pairs were tried: few products first, then all.

    Products near f32's least number are among them: products of bf16 are exact but there, where multiply-adds and
    products that are rounded before they are added part.
    """
    rng = np.random.default_rng(seed)
    has_small = {*first.types[:2]} <= {"bf16", "f32", "tf32"}
    for trial in range(ROUNDS):
        small = has_small and trial % 8 == 6
        a, b = _sparse(first, near, rng, small) if trial % 2 == 0 else _dense(first, rng, trial)
        ours, theirs = (multiply(order, a, b).astype(np.float64)[:, 0] for order in (first, second))
        apart = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
        if apart.any():
            row = int(np.flatnonzero(apart)[0])
            found = Operands(
                a[row].astype(np.float64), b[:, 0].astype(np.float64), (float(ours[row]), float(theirs[row]))
            )
            return found, (trial + 1) * ROWS
    return None, ROUNDS * ROWS


def _sparse(order: Order, near: list[int], rng: np.random.Generator, small: bool) -> tuple[Array, Array]:
    """Three to eight products a row, two of which cancel; half of them where the orders part. B is ones.

    `small`: products are near f32's least number, 2^-149.
    """
    a = np.zeros((ROWS, order.k))
    sizes, unit = ((-77, -73), 2.0**-74) if small else ((-13, 1), 1.0)
    for row in a:
        number = min(order.k, int(rng.integers(3, 9)))
        wide = rng.choice(order.k, number, replace=False)
        close = rng.choice(near, number) if near else wide
        places = np.where(rng.random(number) < 0.5, wide, close)
        row[places] = (
            rng.choice([-1.0, 1.0], number) * 2.0 ** rng.integers(*sizes, number) * rng.choice([1.0, 1.5], number)
        )
        large = unit * 2.0 ** rng.integers(0, 12)
        row[places[0]], row[places[-1]] = large, -large
    return _held(order, a), _held(order, np.full((order.k, 1), unit), 1)


def _dense(order: Order, rng: np.random.Generator, trial: int) -> tuple[Array, Array]:
    """All products, of like size or wide-ranging."""
    spread = 0 if trial % 4 == 1 else 6
    a, b = (
        rng.normal(size=size) * 2.0 ** rng.integers(-spread, spread + 1, size)
        for size in ((ROWS, order.k), (order.k, 1))
    )
    return _held(order, a), _held(order, b, 1)


def _held(order: Order, numbers: Floats, operand: int = 0) -> Array:
    """Numbers rounded to the type of A, or of B."""
    kind = order.types[operand]
    if kind in FORMATS:
        with np.errstate(all="ignore"):
            made: Array = numbers.astype(FORMATS[kind].numpy)
        return made
    most = {"s8": 127, "u8": 255, "s4": 7, "u4": 15, "b1": 1}[kind]
    return np.clip(np.rint(numbers * 8), 0 if kind[0] != "s" else -most, most).astype(np.int32)
