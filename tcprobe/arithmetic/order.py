"""What an order is: which products one sum takes in, which sums are chained, and which are joined by additions.

>>> from tcprobe.arithmetic.order import Additions, Multiplies, Order, Types, postorder
>>> half = [Multiplies("mma.m16n8k16.row.col.f32.bf16.bf16.f32", ((at, at + 32),)) for at in (0, 32)]
>>> order = Order("sm_90", Types("bf16", "bf16", "f32"), 64, Additions(half))
>>> [type(node).__name__ for node in postorder(order.sum)], order.inputs
(['Multiplies', 'Multiplies', 'Additions'], 'exact')

A node is immutable, and checked when it is made; UsageError says what is wrong. Nodes may be nested 1,000 deep, so
nothing here calls itself. Two orders are equal where they sum the same products by the same nodes: how a list of
products is cut into ranges does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.parameters import types_of
from tcprobe.errors import UsageError, check_choice
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.text import quoted

Inputs = Literal["exact", "nearest even", "nearest away", "cut"]
INPUTS: tuple[Inputs, ...] = ("exact", "nearest even", "nearest away", "cut")
MOST_K = 1 << 24
MOST_NESTING = 1000
TF32_UNREAD = 13  # low bits of an f32 that a tf32 does not have
INTEGERS = ("s8", "u8", "s4", "u4", "b1")
FACTOR_TYPES = (*FORMATS, *INTEGERS)
RESULT_TYPES = ("f32", "f16", "bf16", "f64", "s32", "e4m3", "e5m2")

Range: TypeAlias = tuple[int, int] | tuple[int, int, int]
Ranges: TypeAlias = tuple[Range, ...]


class Types(NamedTuple):
    """Element types in memory: of A, of B, and of D, to which the sum is rounded once more where it is wider."""

    a: str
    b: str
    d: str


@dataclass(frozen=True, slots=True, repr=False)
class _Node:
    """Nodes print short, and are compared as orders are: as wholes, by `steps_of`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and steps_of(self) == steps_of(other)

    def __hash__(self) -> int:
        return hash(steps_of(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {sum(map(len, products(self)))} products>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Multiplies(_Node):
    """Multiplies of a form, one after another: D of one is C of the next; the first C is `c`, zero without it."""

    form: str
    ranges: Ranges
    c: Node | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", _checked(self.ranges))
        row = instruction(self.form)
        kinds = types_of(row)
        if self.c is not None and result_type(self.c) != kinds.c:
            raise UsageError(f"{self.form} has a C of {kinds.c}; `c` is of {result_type(self.c)}.")
        if kinds.c != kinds.d and count(self.ranges) > row.shape.k:
            raise UsageError(f"{self.form} has a C of {kinds.c} and a D of {kinds.d}: there is no chain of it.")

    @property
    def result(self) -> str:
        """The type of its sums."""
        return types_of(instruction(self.form)).d


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FusedMultiplyAdds(_Node):
    """Fused multiply-adds in f32 or f64, one product after another, from `c` on, from zero without it."""

    type: str
    ranges: Ranges
    c: Node | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", _checked(self.ranges))
        check_choice("fma", self.type, ("f32", "f64"))
        if self.c is not None and _widened(result_type(self.c)) != self.type:
            raise UsageError(f"multiply-adds in {self.type} do not start from a sum of {result_type(self.c)}.")

    @property
    def result(self) -> str:
        """The type of its sums."""
        return self.type


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Additions(_Node):
    """Sums added from left to right, each rounded to nearest even: in f32; sums of f64, or of integers, as such."""

    terms: tuple[Node, ...]
    result: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _several("terms", self.terms))
        if not self.terms:
            raise UsageError("additions of nothing: `add` needs a sum.")
        kinds = {_widened(result_type(term)) for term in self.terms}
        if len(kinds) > 1:
            raise UsageError(f"sums of {' and '.join(sorted(kinds))} cannot be added.")
        object.__setattr__(self, "result", kinds.pop())


Node: TypeAlias = Multiplies | FusedMultiplyAdds | Additions


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """How every element of D is summed: `sum`, on `arch`, of `k` products of `types`.

    `inputs`: how f32 numbers of A and B become tf32 before they are multiplied; "exact" leaves every bit. `more`: where
    it was found (program or library, version, device, driver, shape, strides, alignment, kernel), as plain data.
    """

    arch: str
    types: Types
    k: int
    sum: Node
    inputs: Inputs = "exact"
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.arch, str):
            raise UsageError(f"`arch` {quoted(str(self.arch)[:60])} is not the name of an arch.")
        types = _several("types", self.types)
        if len(types) != len(Types._fields):
            raise UsageError("`types` are those of A, B and D.")
        if not isinstance(self.more, Mapping):
            raise UsageError(f"`more` {quoted(str(self.more)[:60])} is not a dictionary.")
        object.__setattr__(self, "arch", arch_row(self.arch).name)
        object.__setattr__(self, "types", Types(*types))
        object.__setattr__(self, "more", MappingProxyType(dict(self.more)))
        check_choice("inputs", self.inputs, INPUTS)
        _check_types(self)
        _check_products(self)

    def __eq__(self, other: object) -> bool:
        """Whether both give the same D by the same sums; where they were found does not matter."""
        return isinstance(other, Order) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<Order of {self.k} products of {self.types.a} and {self.types.b} on {self.arch}>"

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What makes it the order that it is."""
        return (self.arch, self.types, self.k, self.inputs, steps_of(self.sum))


def children(node: _Node) -> tuple[Node, ...]:
    """The sums that a node takes in, in order."""
    if isinstance(node, Additions):
        return node.terms
    own = node.c if isinstance(node, Multiplies | FusedMultiplyAdds) else None
    return () if own is None else (own,)


def postorder(node: _Node) -> Iterator[Node]:
    """All nodes, each after those that it takes in: the order in which they can be computed."""
    waiting: list[tuple[Any, bool]] = [(node, False)]
    while waiting:
        each, opened = waiting.pop()
        inner = () if opened else children(each)
        if not inner:
            yield each
        else:
            waiting.append((each, True))
            waiting.extend((child, False) for child in reversed(inner))


def nesting(node: Node) -> int:
    """How many nodes are around the innermost one."""
    deepest, waiting = 0, [(node, 0)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        if deepest > MOST_NESTING:
            break
        waiting.extend((child, depth + 1) for child in children(each))
    return deepest


def products(node: _Node) -> Iterator[range]:
    """The ranges of products of all nodes, in the order in which they are computed."""
    for each in postorder(node):
        if not isinstance(each, Additions):
            yield from map(as_range, each.ranges)


def as_range(of_products: Range) -> range:
    """Python's range of it."""
    return range(*of_products)


def count(ranges: Ranges) -> int:
    """How many products ranges have in all."""
    return sum(len(as_range(each)) for each in ranges)


def joined(ranges: Iterable[Range]) -> tuple[tuple[int, int, int], ...]:
    """The same products in the same order, in as few ranges as going through them once gives: (start, last, step)."""
    made: list[tuple[int, int, int]] = []
    for start, last, step in ((part[0], part[-1], part.step if len(part) > 1 else 0) for part in map(as_range, ranges)):
        if made:
            first, end, before = made[-1]
            gap = start - end
            if gap > 0 and before in (0, gap) and step in (0, gap):
                made[-1] = (first, last, gap)
                continue
        made.append((start, last, step))
    return tuple(made)


def instruction(form: str) -> Instruction:
    """The multiply of a node; UsageError for a name that is none, or one that no order of dense products has."""
    row = inventory.instructions().get(form) if isinstance(form, str) else None
    if row is None or not row.multiplies:
        raise UsageError(f"{quoted(str(form))} is not the name of a multiply.")
    if row.metadata or row.scales:
        raise UsageError(f"{form} is {'sparse' if row.metadata else 'block scaled'}: an order has dense products only.")
    return row


def result_type(node: Node) -> str:
    """The type of a node's sum; UsageError for what is no node."""
    if isinstance(node, _Node):
        return node.result
    raise UsageError(f"{quoted(str(node)[:60])} is not a sum: Multiplies, FusedMultiplyAdds or Additions is needed.")


def steps_of(node: _Node) -> tuple[object, ...]:
    """What makes two nodes the same order: each step of `postorder`, flat."""
    rows: list[object] = []
    for each in postorder(node):
        if isinstance(each, Additions):
            rows.append(("add", len(each.terms)))
        else:
            name = each.form if isinstance(each, Multiplies) else f"fma {each.type}"
            rows.append((name, joined(each.ranges), each.c is not None))
    return tuple(rows)


def _widened(kind: str) -> str:
    """The type in which sums of a type are added: f16 as f32, which holds it."""
    return kind if kind in ("f64", "s32") else "f32"


def _several(name: str, several: Any) -> tuple[Any, ...]:
    if isinstance(several, Iterable) and not isinstance(several, str | bytes):
        return tuple(several)
    raise UsageError(f"`{name}` {quoted(str(several)[:60])}: several are needed, in a list.")


def _checked(ranges: Iterable[Range]) -> Ranges:
    """Ranges as tuples; UsageError for one that is not (start, stop) or (start, stop, step), ascending."""
    made = tuple(_several("ranges", each) for each in _several("ranges", ranges))
    for each in made:
        if len(each) not in (2, 3) or not all(type(number) is int for number in each):
            raise UsageError("a range of products is [start, stop] or [start, stop, step], whole numbers.")
        if not 0 <= each[0] < each[1] <= MOST_K or (len(each) == 3 and not 0 < each[2] <= MOST_K):
            raise UsageError(
                f"{list(each)!s:.60} is not a range of products: start < stop, step > 0, at most {MOST_K}."
            )
    if not made:
        raise UsageError("a sum without products: `k` needs a range.")
    return made


def _check_types(order: Order) -> None:
    """UsageError unless every node multiplies numbers of A's and B's types, and D's type holds the rounded sum."""
    a, b, d = order.types
    for name, kind, kinds in (("a", a, FACTOR_TYPES), ("b", b, FACTOR_TYPES), ("d", d, RESULT_TYPES)):
        if kind not in kinds:
            raise UsageError(f"`types.{name}` {quoted(str(kind))}: one of {', '.join(kinds)} is needed.")
    if order.inputs != "exact" and not {a, b} <= {"f32", "tf32", "f16", "bf16"}:
        raise UsageError(f"`inputs` {order.inputs!r} is of f32 or tf32, not of {a} and {b}.")
    root = result_type(order.sum)
    for node in postorder(order.sum):
        if isinstance(node, Additions):
            continue
        if isinstance(node, Multiplies) and not instruction(node.form).target.on(arch_row(order.arch)):
            raise UsageError(f"{order.arch} has no {node.form}.")
        for name, kind, factor in zip("ab", (a, b), _factors(node), strict=True):
            if not holds(factor, kind):
                raise UsageError(f"`types.{name}` {kind}: a sum multiplies {factor}, which does not hold it.")
    if (root == "s32") != (d == "s32") or (root == "f64") != (d == "f64"):
        raise UsageError(f"`types.d` {d}: the sum is of {root}.")


def _factors(node: Multiplies | FusedMultiplyAdds) -> tuple[str, str]:
    """The types of what a node multiplies."""
    if isinstance(node, FusedMultiplyAdds):
        return node.type, node.type
    kinds = types_of(instruction(node.form))
    return kinds.a, kinds.b


def holds(factor: str, kind: str) -> bool:
    """Whether a factor takes numbers of a type as they are; tf32 takes f32, of which it reads what it reads."""
    if kind == factor or {kind, factor} == {"tf32", "f32"}:
        return True
    if kind not in FORMATS or factor not in FORMATS:
        return False
    small, large = FORMATS[kind], FORMATS["f32" if factor == "tf32" else factor]
    fraction = large.fraction - (TF32_UNREAD if factor == "tf32" else 0)
    least = small.least - small.fraction >= large.least - fraction
    return small.fraction <= fraction and small.largest <= large.largest and least


def _check_products(order: Order) -> None:
    """UsageError unless each of 0 to k - 1 stands once in the whole, and nodes are not nested too deep."""
    k = order.k
    if type(k) is not int or not 0 < k <= MOST_K:
        raise UsageError(f"`k` {k!s:.30}: a whole number from 1 to {MOST_K} is needed.")
    if nesting(order.sum) > MOST_NESTING:
        raise UsageError(f"sums are nested more than {MOST_NESTING} deep.")
    seen, total = bytearray(k), 0
    for part in products(order.sum):
        if part[-1] >= k:
            raise UsageError(f"product {part[-1]} is beyond `k`, {k}.")
        total += len(part)
        taken = slice(part.start, part.stop, part.step)
        if 1 in seen[taken]:
            twice = next(at for at in part if seen[at])
            raise UsageError(f"product {twice} is summed twice.")
        seen[taken] = b"\1" * len(part)
    if total < k:
        raise UsageError(f"product {seen.index(0)} is never summed.")
