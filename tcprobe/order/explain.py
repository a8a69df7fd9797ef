"""From a tree of sums to orders: which instructions may have summed it, as nodes whose D can be computed.

A sum with products is a multiply, its C the sum that comes to it; one of sums alone is an addition. The number of
products says which forms may be: those whose sums take in as many. A form of several sums (fp8 by mma.sync, m16n8k16 on
sm_80) is put together from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tcprobe.arithmetic.order import (
    INPUTS,
    Additions,
    FusedMultiplyAdds,
    Inputs,
    Multiplies,
    Node,
    Order,
    Range,
    Types,
    holds,
)
from tcprobe.arithmetic.parameters import (
    AFTER,
    BEFORE,
    Arithmetic,
    ElementTypes,
    Integers,
    forms_alike,
    subject,
    types_of,
)
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Ints
from tcprobe.order.calls import CallError
from tcprobe.order.evaluate import rule_of
from tcprobe.order.sums import Sum, postorder

# of pairs of products: 1 where the first is rounded before the second is added, -1 the other way, 0 where both are
Earlier = Callable[[Sequence[int], Sequence[int]], Ints]
MOST_SHOWN = 6


class Form(NamedTuple):
    """An arithmetic and the forms that have it: `groups` of products by sum; `last`: C is added after all of them."""

    names: tuple[str, ...]
    types: ElementTypes
    groups: tuple[tuple[int, ...], ...]
    last: bool = False

    @property
    def name(self) -> str:
        """The form that stands for all."""
        return self.names[0]

    @property
    def products(self) -> int:
        """Of a multiply."""
        return sum(map(len, self.groups))


Rounded = Mapping[tuple[int, ...], int]  # see `_rounded`


class Asked(NamedTuple):
    """Whose arithmetic may be meant; `prefers`: a form, or "wgmma"; `earlier`: how to ask which product is first."""

    arch: str
    types: Types
    k: int
    prefers: str = ""
    earlier: Earlier | None = None


class Candidate(NamedTuple):
    """An order that the tree allows, and the forms that give the same bits as its own."""

    order: Order
    alike: tuple[str, ...]


def forms(arch: str, a: str, b: str) -> list[Form]:
    """The dense multiplies of floats whose arithmetic an arch is known to have and that take A's and B's numbers."""
    found: dict[object, list[str]] = {}
    kept: dict[object, Form] = {}
    for name, rows in forms_alike().items():
        row, kinds = rows[0], types_of(rows[0])
        if row.metadata or row.scales or not kinds.is_float or not (holds(kinds.a, a) and holds(kinds.b, b)):
            continue
        if kinds.c != kinds.d or not _exists(row, arch):
            continue
        try:
            rule = rule_of(name, arch).parameters
        except TcprobeError:
            continue
        if not isinstance(rule, Arithmetic) or rule.c == BEFORE or rule.fraction_bits is None or rule.through_f32:
            continue
        key = (kinds, rule)
        found.setdefault(key, []).append(name)
        kept.setdefault(key, Form((), kinds, rule.groups, rule.c == AFTER))
    return [form._replace(names=tuple(found[key])) for key, form in kept.items()]


def _exists(row: Instruction, arch: str) -> bool:
    return bool(row.target.on(arch_row(arch)))


def integer_forms(arch: str, a: str, b: str, prefers: str) -> tuple[str, ...]:
    """The multiplies of integers of these types, all of which give the same bits."""
    names = []
    for name, rows in forms_alike().items():
        kinds = types_of(rows[0])
        if kinds.d != "s32" or (kinds.a, kinds.b) != (a, b) or rows[0].metadata or not _exists(rows[0], arch):
            continue
        try:
            if isinstance(rule_of(name, arch).parameters, Integers):
                names.append(name)
        except TcprobeError:
            continue
    if not names:
        raise CallError(f"no multiply of {a} and {b} whose arithmetic is known on {arch} sums integers.")
    return _sorted(names, prefers)


class _RefusedError(Exception):
    """A tree that a form does not explain."""


@dataclass
class _Chain:
    """Multiplies one after another: of each the products by group; `c`: what the first one starts from."""

    kind: Form | str
    steps: list[list[list[int]]] = field(default_factory=list)
    c: Node | None = None

    def full(self, step: list[list[int]]) -> bool:
        """Whether a step has all the products that its form takes."""
        return not isinstance(self.kind, Form) or all(
            len(part) == len(group) for part, group in zip(step, self.kind.groups, strict=False)
        )

    @property
    def whole(self) -> bool:
        """Whether the last step is complete, so that another may follow."""
        last = self.steps[-1]
        return self.full(last) and (not isinstance(self.kind, Form) or len(last) == len(self.kind.groups))


@dataclass
class _Added:
    terms: list[Node]


_Value = _Chain | _Added


def node_of(root: Sum, kind: Form | str, rounded: Rounded) -> Node:
    """The order of a tree by one form, or by multiply-adds of a type ("f32", "f64"); _RefusedError where it is none.

    `rounded`: which product is rounded by itself before it is added.
    """
    values: dict[int, _Value] = {}
    for each in postorder(root):
        parts = [values.pop(id(part)) for part in each.parts]
        values[id(each)] = _summed(each, parts, kind, rounded)
    return _closed(values[id(root)])


def _summed(each: Sum, parts: list[_Value], kind: Form | str, rounded: Rounded) -> _Value:
    """One sum of the tree, from its parts."""
    if each.leaves:
        if len(parts) > 1:
            raise _RefusedError(f"{len(each.leaves)} products and {len(parts)} sums are added at one place")
        inner = parts[0] if parts else None
        if isinstance(kind, str):
            return _fused(sorted(each.leaves), inner, kind, rounded)
        return _multiplied(sorted(each.leaves), inner, kind)
    if len(parts) != 2:
        raise _RefusedError(f"{len(parts)} sums are added at one place")
    if isinstance(kind, Form) and kind.last:
        made = _after(parts, kind)
        if made is not None:
            return made
    return _joined(parts)


def _joined(parts: list[_Value]) -> _Added:
    """An addition: what is itself one comes first, else the part with the first product."""
    first, second = parts
    if (isinstance(second, _Added) and not isinstance(first, _Added)) or (
        not isinstance(first, _Added) and _least(second) < _least(first)
    ):
        first, second = second, first
    terms = first.terms if isinstance(first, _Added) else [_closed(first)]
    terms.append(_closed(second))
    return _Added(terms)


def _least(value: _Value) -> int:
    """A product of a chain, by which chains are sorted."""
    if isinstance(value, _Added):
        return -1
    return min(leaf for part in value.steps[0] for leaf in part)


def _apart(leaves: list[int], inner: _Value | None, kind: str) -> _Added:
    """Products that are rounded, and then added."""
    terms: list[Node] = [FusedMultiplyAdds(kind, ((leaf, leaf + 1),)) for leaf in leaves]
    return _Added([*(inner.terms if isinstance(inner, _Added) else [] if inner is None else [_closed(inner)]), *terms])


def _fused(leaves: list[int], inner: _Value | None, kind: str, rounded: Rounded) -> _Value:
    """Multiply-adds: one product to what is there, or the first two of a chain."""
    if len(leaves) > (1 if inner else 2):
        raise _RefusedError(f"{len(leaves)} products are added at one place")
    if len(leaves) == 2:
        which = rounded.get((leaves[0], leaves[1]), 1)
        return _Chain(kind, [[[leaf]] for leaf in leaves[::which]]) if which else _apart(leaves, None, kind)
    if inner is not None and not rounded.get((leaves[0],), 1):
        return _apart(leaves, inner, kind)
    if isinstance(inner, _Chain):
        inner.steps.append([leaves])
        return inner
    return _Chain(kind, [[leaves]], None if inner is None else _closed(inner))


def _multiplied(leaves: list[int], inner: _Value | None, form: Form) -> _Chain:
    """A sum of a multiply: another multiply of the chain, or the next group of one."""
    if isinstance(inner, _Chain):
        last = inner.steps[-1]
        if len(last) < len(form.groups) and inner.full(last) and len(leaves) <= len(form.groups[len(last)]):
            last.append(leaves)
            return inner
        if inner.whole and not form.last:
            if len(leaves) > len(form.groups[0]):
                raise _RefusedError(f"{len(leaves)} products are added at one place")
            inner.steps.append([leaves])
            return inner
    if len(leaves) > len(form.groups[0]):
        raise _RefusedError(f"{len(leaves)} products are added at one place")
    if inner is not None and form.last:
        raise _RefusedError("what comes to a multiply is added after it")
    return _Chain(form, [[leaves]], None if inner is None else _closed(inner))


def _after(parts: list[_Value], form: Form) -> _Chain | None:
    """A multiply whose C is added last; None where none of the parts is a multiply of its own."""
    first, second = parts
    if isinstance(first, _Chain) and isinstance(second, _Chain) and _least(second) < _least(first):
        first, second = second, first
    for before, last in ((first, second), (second, first)):
        if not isinstance(last, _Chain) or len(last.steps) != 1 or last.c is not None:
            continue
        if isinstance(before, _Chain) and before.whole:
            before.steps += last.steps
            return before
        if not isinstance(before, _Chain):
            return _Chain(form, last.steps, _closed(before))
    return None


def _closed(value: _Value) -> Node:
    """The node."""
    if isinstance(value, _Added):
        return Additions(tuple(value.terms))
    if isinstance(value.kind, str):
        return FusedMultiplyAdds(value.kind, ranges([part[0] for step in value.steps for part in step]), value.c)
    return Multiplies(value.kind.name, ranges(list(_in_order(value, value.kind))), value.c)


def _in_order(chain: _Chain, form: Form) -> Iterator[int]:
    """Products in the order in which ranges name them; _RefusedError where one is missing before the end."""
    for number, step in enumerate(chain.steps):
        places = {
            place: leaf
            for part, group in zip(step, form.groups, strict=False)
            for leaf, place in zip(part, group, strict=False)
        }
        short = len(places) < form.products
        if short and (number < len(chain.steps) - 1 or max(places) != len(places) - 1):
            raise _RefusedError(f"a multiply of {len(places)} products, in another place than the last {len(places)}")
        yield from (places[place] for place in sorted(places))


def ranges(products: Sequence[int]) -> tuple[Range, ...]:
    """Products in their order as ranges, each as long as it can be."""
    made: list[Range] = []
    at, count = 0, len(products)
    while at < count:
        stop = at + 1
        step = products[stop] - products[at] if stop < count else 1
        while step > 0 and stop < count and products[stop] - products[stop - 1] == step:
            stop += 1
        if stop - at == 2 and step > 1 and stop < count:
            stop = at + 1  # two products far apart begin no range if another could
        step = step if stop - at > 1 else 1
        last = products[stop - 1]
        made.append((products[at], last + 1) if step == 1 else (products[at], last + 1, step))
        at = stop
    return tuple(made)


def candidates(root: Sum, asked: Asked) -> list[Candidate]:
    """All orders that the tree allows, those of A's and B's own types first; CallError, with reasons, where none is."""
    arch, types, k, prefers, earlier = asked
    sums = list(postorder(root))
    most = max(len(each.leaves) for each in sums)
    known = sorted(forms(arch, types.a, types.b), key=lambda form: not _own(form, types))
    sizes = {form: max(len(group) for group in form.groups) for form in known}
    chosen: list[Form | str] = []
    if most <= 2 and all(len(each.leaves) < 2 for each in sums if each.parts):
        own = "f64" if "f64" in types[:2] else "f32"
        chosen.append(own)
    fitting = [form for form in known if sizes[form] == most]
    if not fitting and (not chosen or len(sums) == 1):  # of one sum nobody knows how many zeros it has
        fitting = [form for form in known if sizes[form] > most]
    chosen += fitting
    made: list[Candidate] = []
    refusals: list[str] = []
    for kind in chosen:
        try:
            names = _names(kind, prefers)
            node = node_of(
                root,
                kind._replace(names=names) if isinstance(kind, Form) else kind,
                _rounded(root, earlier) if isinstance(kind, str) and earlier else {},
            )
            made += [Candidate(Order(arch, types, k, node, inputs), names) for inputs in _inputs(kind, types)]
        except (_RefusedError, UsageError) as refused:
            refusals.append(f"{kind if isinstance(kind, str) else kind.name}: {refused}")
    if made:
        return made
    there = ", ".join(map(str, sorted(set(sizes.values())))) or "no"
    why = "; ".join(refusals[:MOST_SHOWN]) or f"there are forms of {types.a} that take in {there}"
    raise CallError(f"no multiply known on {arch} explains sums that take in {most} products ({why}).")


def _own(form: Form, types: Types) -> bool:
    """Whether a form multiplies the very types."""
    return all(
        own == kind or {own, kind} == {"f32", "tf32"}
        for own, kind in zip((form.types.a, form.types.b), types[:2], strict=True)
    )


def _rounded(root: Sum, earlier: Earlier) -> dict[tuple[int, ...], int]:
    """Of every product that is added to others by itself: 1 where it is fused, 0 where it is rounded before. Of the two
    that a chain begins with: 1 where the first is rounded by itself, -1 where the second is, 0 where both are.
    """
    asked: dict[tuple[int, ...], tuple[int, int]] = {}
    some: dict[int, int] = {}
    for each in postorder(root):
        below = [some.pop(id(part)) for part in each.parts]
        if len(each.leaves) == 1 and below:
            asked[(each.leaves[0],)] = below[0], each.leaves[0]
        elif len(each.leaves) == 2 and not below:
            first, second = sorted(each.leaves)
            asked[(first, second)] = first, second
        some[id(each)] = each.leaves[0] if each.leaves else below[0]
    if not asked:
        return {}
    answers = earlier(*zip(*asked.values(), strict=True))
    return {key: int(answer) for key, answer in zip(asked, answers, strict=True)}


def _inputs(kind: Form | str, types: Types) -> tuple[Inputs, ...]:
    """How inputs may have been rounded: f32 numbers of a multiply of tf32 to nearest, or by leaving bits unread."""
    if isinstance(kind, Form) and kind.types.a == "tf32" and types.a in ("f32", "tf32"):
        return tuple(each for each in INPUTS if each != "cut")  # a multiply of tf32 cuts what is exact
    return ("exact",)


def _names(kind: Form | str, prefers: str) -> tuple[str, ...]:
    """The names of all forms with the same arithmetic, first the one that a call is known to have, or to be near."""
    if not isinstance(kind, Form):
        return ("FFMA",) if kind == "f32" else ("DFMA", "mma.m8n8k4.row.col.f64.f64.f64.f64")
    return _sorted(kind.names, prefers)


def _sorted(names: Sequence[str], prefers: str) -> tuple[str, ...]:
    """`prefers` first: a form, or "wgmma"."""
    row = inventory.instructions().get(prefers)
    if row is not None and subject(row) in names:
        return (prefers, *(name for name in names if name != subject(row)))
    ranks = ("wgmma", "mma", "wmma") if prefers == "wgmma" else ("mma", "wgmma", "wmma")
    products = {name: inventory.instructions()[name].shape for name in names}
    return tuple(
        sorted(names, key=lambda name: (ranks.index(name.split(".")[0]), -products[name].m * products[name].k))
    )
