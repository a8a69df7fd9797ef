"""What a name means: the one door from text to rows.

    words     a name read: its dotted parts and its words, CuTe's atoms and opcodes as dotted names
    search    the rows that a reading fits, and what is wrong with a name that means nothing
    likely    of several things that a name fits the one that people use

>>> from tcprobe.isa.names import resolve, select
>>> resolve("wmma.m16n16k16.a.row.bf16").fragment.elements
8
>>> [f.id for f in resolve("mma m16n8k16 bf16 A").fragments]
['mma.m16n8k16.row.col.f32.bf16.bf16.f32.a']
>>> len(select("mma.m16n8k16.*.f32.f16.*"))
4

A name is an id or PTX's own name, with parts left out but in their order; a pattern of these with * and ?; an atom of
CuTe or an opcode that moves matrices; or words in any order, as `words` reads them. Dense forms without scales are
meant unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NoReturn, TypeVar

from tcprobe.errors import AmbiguousError
from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.text import quoted

MOST_NAME = 1000  # characters; ids have at most 115, words in any order may be more
T = TypeVar("T", Fragment, Instruction, SharedOperand)


class Meaning:
    """What `name` may mean. `texts` are looked up for it: the name itself, or names that it stands for."""

    def __init__(self, name: str, *texts: str) -> None:
        self.name, self.texts = name, texts

    @cached_property
    def fragments(self) -> list[Fragment]:
        """The operands in registers, those of the instructions where it says no operand."""
        return self._all(_fragments)

    @cached_property
    def shared(self) -> list[SharedOperand]:
        """The operands in shared memory, behind descriptors."""
        return self._all(_shared)

    @cached_property
    def instructions(self) -> list[Instruction]:
        """The instructions."""
        return self._all(_instructions)

    @property
    def bare(self) -> list[Instruction]:
        """The instructions that hold nothing in registers."""
        return [row for row in self.instructions if not row.fragments]

    @property
    def some_fragments(self) -> list[Fragment]:
        """The operands in registers; UsageError with suggestions if there is none."""
        return self.fragments or self._likely(_fragments) or self._none()

    @property
    def some_instructions(self) -> list[Instruction]:
        """The instructions; UsageError with suggestions if there is none."""
        return self.instructions or self._likely(_instructions) or self._none()

    @property
    def some_multiplies(self) -> list[Instruction]:
        """The multiplies of registers, or behind descriptors; UsageError if there is none."""
        rows = [row for row in self.some_instructions if row.multiplies_registers or row.described]
        if not rows:
            from tcprobe.isa.names import search

            raise search.no_multiply(self.instructions[0], self.name)
        return rows

    @property
    def fragment(self) -> Fragment:
        """The one operand in registers; UsageError if there is none, or several."""
        return self._only("fragments", self.some_fragments)

    @property
    def instruction(self) -> Instruction:
        """The one instruction; UsageError if there is none, or several."""
        return self._only("instructions", self.some_instructions)

    @property
    def multiply(self) -> Instruction:
        """The one multiply of registers, or behind descriptors; UsageError if there is none, or several."""
        return self._only("multiplies", self.some_multiplies)

    @property
    def shared_operand(self) -> SharedOperand:
        """The one operand in shared memory; UsageError if there is none, or several."""
        return self._only("operands in shared memory", self.shared or self._none())

    @property
    def says_shared(self) -> bool:
        """Whether it says an operand in shared memory: one that is called a_smem or b_smem."""
        if "_smem" not in self.name.lower():
            return False
        from tcprobe.isa.names import words

        return any(word.endswith("_smem") for word in words.read(self.name).plain)

    def major(self, operand: SharedOperand) -> str | None:
        """Which major the name gives an operand in shared memory, as the template arguments of an atom do."""
        from tcprobe.isa.names import words

        majors = words.read(self.texts[0]).majors
        return dict(zip(("a_smem", "b_smem"), majors, strict=False)).get(operand.held.name)

    @property
    def users(self) -> list[str]:
        """Ids of the instructions that take the operands in registers."""
        return list(dict.fromkeys(id_ for row in self.fragments for id_ in inventory.user_ids(row.id)))

    def _likely(self, find: Callable[[str], list[T]]) -> list[T]:
        """What is meant by a name without the words that set its form apart: block_scale for m16n8k64 fp4."""
        from tcprobe.isa.names import likely, search, words

        ids = [] if self.shared or self.instructions else search.fitting((*words.read(self.name).plain, "block_scale"))
        chosen = likely.likeliest(self.name, [[id_] for id_ in ids]) if ids else None
        return [] if chosen is None else find(chosen)

    def _none(self) -> NoReturn:
        from tcprobe.isa.names import search

        raise search.unknown(self)

    def _all(self, find: Callable[[str], list[T]]) -> list[T]:
        return list(dict.fromkeys(row for text in self.texts for row in find(text)))

    def _only(self, kind: str, matches: Sequence[T]) -> T:
        if len(matches) == 1:
            return matches[0]
        from tcprobe.isa.names import likely, search

        chosen = likely.likeliest(self.name, [[row.id] for row in matches])
        if chosen is not None:
            return next(row for row in matches if row.id == chosen)
        raise AmbiguousError(
            f"{quoted(self.name)} matches {len(matches)} {kind}: {search.some(r.id for r in matches)}.",
            self.name,
            [row.id for row in matches[:6]],
        )


def resolve(name: str, *texts: str) -> Meaning:
    """What a name means; with `texts`, what the names mean that it stands for. UsageError for one without bounds."""
    if len(name) > MOST_NAME:
        from tcprobe.isa.names import search

        raise search.too_long(name, MOST_NAME)
    return Meaning(name, *(texts or (name,)))


def select(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """The fragments that patterns mean (all without one), of `family`, allowed on `device`.

    UsageError where there is no such family, or a pattern means nothing.
    """
    meant = (f for p in patterns or ("*",) for f in resolve(p).some_fragments)
    return filter_allowed(meant, family, [device] if device else [])


def filter_allowed(candidates: Iterable[T], family: str | None, devices: Sequence[Arch]) -> list[T]:
    """The rows of a family, each once, that one of the devices has, if any is named; UsageError for no such family."""
    if family not in (None, *inventory.families()):
        from tcprobe.isa.names import search

        raise search.no_family(family or "")
    known = [row for row in dict.fromkeys(candidates) if family in (None, row.family)]
    return [row for row in known if any(map(row.target.on, devices))] if devices else known


def select_instructions(*patterns: str) -> list[Instruction]:
    """The instructions that patterns mean, all without one; UsageError if one means none."""
    if not patterns:
        return list(inventory.instructions().values())
    return list(dict.fromkeys(row for pattern in patterns for row in resolve(pattern).some_instructions))


def _fragments(text: str) -> list[Fragment]:
    if own := inventory.find(text):
        return [own]
    from tcprobe.isa.names import search  # an id needs no search

    return search.fragments(text)


def _shared(text: str) -> list[SharedOperand]:
    from tcprobe.isa.names import search

    return search.shared_operands(text)


def _instructions(text: str) -> list[Instruction]:
    if own := inventory.instructions().get(text):
        return [own]
    from tcprobe.isa.names import search

    return search.instructions(text)
