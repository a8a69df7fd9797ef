"""What others published, one module for each source, in that source's own terms; numbers and atoms in CSV files.

    ptx_isa                                                PTX ISA
    cute                                                   CuTe
    register_mapping                                       others' tables of wmma
    tensor_memory                                          tensor memory and scale factors
    numerics, cost                                         published arithmetic and cost
    shared_memory                                          layouts of shared memory
    newer_forms                                            what newer compilers accept

A reference is a module of this package with NAME, SOURCE, ERRATA and `claim(fragment, device) -> Claim | str`, where a
string is the reason why it states nothing. PER_ARCH = False means that its claims are the same for every arch.

Formulas are in the PTX ISA's variables: groupID = %laneid >> 2, threadID_in_group = %laneid % 4 (here `group` and
`member`); i counts a thread's elements. The text is parsed, never run.

>>> read_formula("group + 8 if 4 <= i < 6 else member * 2 + (i & 1)").values([(0, 1), (9, 3), (9, 4)])
(1, 3, 10)
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table, slot_table
from tcprobe.plugins import discover

PlaceFormula = Callable[[int, int], int]


class Claim(NamedTuple):
    """A layout as a source states it.

    `printed` is what the source literally says, at `where`. If that is known to be wrong, `erratum` says how, and
    `meant` is the table without the error; else `meant` equals `printed`.
    """

    printed: Table
    where: str
    erratum: str | None
    meant: Table


class Erratum(NamedTuple):
    """A known error of a source that no layout shows: the ids concerned (a pattern), the place, the error in words."""

    pattern: str
    where: str
    words: str


class Reference(Protocol):
    """The names that a reference module has."""

    NAME: str
    SOURCE: str
    ERRATA: tuple[Erratum, ...]

    def claim(self, fragment: Fragment, device: Arch) -> Claim | str:
        """What the source states of `fragment` on `device`, or why nothing."""


# modules that are parts of references, or references of other kinds
APART = ("cost", "newer_forms", "numerics", "shared_memory", "tensor_memory")
_SAID: dict[tuple[str, str, str], Claim | str] = {}


@cache
def references() -> tuple[Reference, ...]:
    """All references. PTX ISA is first, since published tables use its numbering."""
    modules = discover(__name__, ("NAME", "SOURCE", "ERRATA", "claim"), APART).values()
    return tuple(sorted(modules, key=lambda module: (module.NAME != "PTX ISA", module.NAME)))


def claims(fragment: Fragment, device: Arch) -> Iterator[tuple[str, Claim | str]]:
    """(name, `claim_of`) of one reference after the other."""
    return ((reference.NAME, claim_of(reference, fragment, device)) for reference in references())


def claim_of(reference: Reference, fragment: Fragment, device: Arch) -> Claim | str:
    """`reference.claim`, called once for each fragment, and for each arch if the source distinguishes archs."""
    key = (reference.NAME, fragment.id, device.name if getattr(reference, "PER_ARCH", True) else "")
    if key not in _SAID:
        _SAID[key] = reference.claim(fragment, device)
    return _SAID[key]


def tabulate(threads: int, elements: int, place_formulas: Mapping[str, PlaceFormula]) -> Table:
    """The table of all slots from formulas in (lane, i)."""
    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    values = {name: tuple(formula(lane, i) for lane, i in slots) for name, formula in place_formulas.items()}
    return slot_table(threads, elements, values)


VARIABLES: dict[str, Callable[[int, int], int]] = {
    "lane": lambda lane, i: lane,
    "tid": lambda lane, i: lane,
    "group": lambda lane, i: lane >> 2,
    "member": lambda lane, i: lane % 4,
    "i": lambda lane, i: i,
}
_DO: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}


class StatedFormula(NamedTuple):
    """A formula and what was read of it."""

    text: str
    body: ast.expr

    def values(self, slots: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """Its value for each (lane, i)."""
        return tuple(_values(self.body, slots))


@cache
def read_formula(cell: str) -> StatedFormula:
    """The formula of a table's cell; ValueError for what is none."""
    try:
        formula = StatedFormula(cell, ast.parse(cell.strip(), mode="eval").body)
    except SyntaxError:
        raise ValueError("is not a formula such as group if i < 2 else group + 8") from None
    formula.values([(0, 0)])
    return formula


def _values(node: ast.expr, slots: Sequence[tuple[int, int]]) -> list[int]:
    match node:
        case ast.Constant(value=int(number)):
            return [number] * len(slots)
        case ast.Name(id=name) if name in VARIABLES:
            return [VARIABLES[name](*slot) for slot in slots]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _DO:
            return list(map(_DO[type(op)], _values(left, slots), _values(right, slots)))
        case ast.Compare(left=left, ops=ops, comparators=others) if {type(op) for op in ops} <= _DO.keys():
            parts = [_values(part, slots) for part in (left, *others)]
            each = [map(_DO[type(op)], parts[at], parts[at + 1]) for at, op in enumerate(ops)]
            return [int(all(held)) for held in zip(*each, strict=True)]
        case ast.BoolOp(op=ast.Or(), values=parts_of_or):
            return [int(any(held)) for held in zip(*(_values(part, slots) for part in parts_of_or), strict=True)]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            chosen = (_values(part, slots) for part in (test, body, orelse))
            return [then if held else other for held, then, other in zip(*chosen, strict=True)]
    raise ValueError(f"has {ast.unparse(node)!r}, which is no part of a formula in {', '.join(VARIABLES)}")
