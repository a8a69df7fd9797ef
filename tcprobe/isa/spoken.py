"""What words in any order mean of the inventory, as `words` reads them: `accumulator wmma 16x16x16 float`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from tcprobe.isa import inventory, words
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction

T = TypeVar("T", Fragment, Instruction)


def instructions(name: str) -> list[Instruction]:
    """The instructions that all words of `name` fit, whatever their order; see `words`."""
    wanted = words.words(name)
    return _closest(wanted, [i for i in _meant_rows(name) if words.fits(wanted, parts(i.id, *_types(i)))])


def fragments(name: str) -> list[Fragment]:
    """The fragments that all words of `name` fit; without an operand in them, those of the instructions."""
    wanted = words.words(name)
    known = inventory.nameable(name.lower().replace(" ", ".")).values()
    fitting = [f for f in known if words.fits(wanted, parts(f.id, *((f.type,) if f.shared else ())))]
    if fitting:
        return _closest(wanted, fitting)
    return list(dict.fromkeys(inventory.fragment(f.id) for i in instructions(name) for f in i.fragments))


def _meant_rows(name: str) -> Iterable[Instruction]:
    """The instructions that words can mean."""
    said = name.lower().replace(" ", ".")
    return (row for forms in inventory.instructions().parts if forms.meant_by(said) for row in forms.values())


def _closest(wanted: list[str], fitting: list[T]) -> list[T]:
    """Of what fits those that fit best, by one reason after the other: named whole, of a family that is named, of a
    type of its own that is named, with one type of C and D, in the order of the words.
    """
    best = [one for one in fitting if len(parts(one.id)) == len(wanted)] or fitting
    best = [one for one in best if one.family in wanted] or best
    best = [one for one in best if isinstance(one, Instruction) and _one_accumulator(one)] or best
    best = [one for one in best if isinstance(one, Fragment) and words.named(one.type, wanted)] or best
    return [one for one in best if words.ordered(wanted, parts(one.id))] or best


def _one_accumulator(row: Instruction) -> bool:
    return row.multiplies_registers and row.type("c") == row.type("d")


@cache
def parts(id_: str, *more: str) -> tuple[str, ...]:
    """The parts of an id, and more that a name may say of it."""
    written = id_.lower().split(".")
    return (*written, *(part for part in more if part not in written))


def _types(row: Instruction) -> tuple[str, ...]:
    return tuple(operand.type for operand in row.operands)
