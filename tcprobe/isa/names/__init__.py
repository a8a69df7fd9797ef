"""What a name means: the one door from text to rows.

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

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import NoReturn, TypeVar

from tcprobe.errors import AmbiguousError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP, Arch
from tcprobe.isa.forms import Forms
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand, id_of
from tcprobe.isa.names import words
from tcprobe.isa.names.words import Reading
from tcprobe.text import quoted

Row = Fragment | Instruction | SharedOperand
T = TypeVar("T", Fragment, Instruction, SharedOperand)
_VECTOR = re.compile(r"(scale_vec::\d)x")  # the one capital letter of an id
_UNORDERED = re.compile(r"\baligned\b.*\b(?:sync|aligned)\b|\bsync\.(?!aligned\b).*\b(?:sync|aligned)\b")


@dataclass(frozen=True)
class Meaning:
    """What `name` may mean. `texts` are looked up for it: the name itself, or names that it stands for."""

    name: str
    texts: tuple[str, ...]

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
        return self.fragments or self._none()

    @property
    def some_instructions(self) -> list[Instruction]:
        """The instructions; UsageError with suggestions if there is none."""
        return self.instructions or self._none()

    @property
    def some_multiplies(self) -> list[Instruction]:
        """The multiplies of registers, or behind descriptors; UsageError if there is none."""
        rows = [row for row in self.some_instructions if row.multiplies_registers or row.described]
        if not rows:
            from tcprobe.isa.names import wrong

            raise wrong.no_multiply(self.instructions[0])
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
        return "_smem" in self.name.lower() and any(w.endswith("_smem") for w in words.read(self.name).plain)

    def major(self, operand: SharedOperand) -> str | None:
        """Which major the name gives an operand in shared memory, as the template arguments of an atom do."""
        majors = words.read(self.texts[0]).majors
        return dict(zip(("a_smem", "b_smem"), majors, strict=False)).get(operand.held.name)

    @property
    def users(self) -> list[str]:
        """Ids of the instructions that take the operands in registers."""
        return list(dict.fromkeys(id_ for row in self.fragments for id_ in inventory.user_ids(row.id)))

    def _none(self) -> NoReturn:
        from tcprobe.isa.names import wrong

        raise wrong.unknown(self, _fitting)

    def _all(self, find: Callable[[str], list[T]]) -> list[T]:
        return list(dict.fromkeys(row for text in self.texts for row in find(text)))

    def _only(self, kind: str, rows: Sequence[T]) -> T:
        if len(rows) == 1:
            return rows[0]
        from tcprobe.isa.names import wrong

        raise AmbiguousError(
            f"{quoted(self.name)} matches {len(rows)} {kind}: {wrong.some(r.id for r in rows)}.",
            self.name,
            [row.id for row in rows[:6]],
        )


def resolve(name: str, *texts: str) -> Meaning:
    """What a name means; with `texts`, what the names mean that it stands for."""
    return Meaning(name, texts or (name,))


def short(name: str) -> str:
    """A name without the qualifiers that every form has, the form in which ids are; as it is where PTX has another
    order of them.
    """
    whole = _VECTOR.sub(r"\1X", name.strip().lower())
    bare = id_of(whole)
    row = inventory.instructions().get(bare)
    in_order = row is None or words.read(whole).written_as(partial(_written, row))
    return bare if in_order and not _UNORDERED.search(whole) else whole


def select(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """The fragments that patterns mean (all without one), of `family`, allowed on `device`.

    UsageError where there is no such family, or a pattern means nothing.
    """
    meant = (f for p in patterns or ("*",) for f in resolve(p).some_fragments)
    return allowed(meant, family, [device] if device else [])


def allowed(rows: Iterable[T], family: str | None, devices: Sequence[Arch]) -> list[T]:
    """The rows of a family, each once, that one of the devices has, if any is named; UsageError for no such family."""
    if family not in (None, *inventory.families()):
        from tcprobe.isa.names import wrong

        raise wrong.no_family(family or "")
    known = [row for row in dict.fromkeys(rows) if family in (None, row.family)]
    return [row for row in known if any(map(row.target.on, devices))] if devices else known


def select_instructions(*patterns: str) -> list[Instruction]:
    """The instructions that patterns mean, all without one; UsageError if one means none."""
    if not patterns:
        return list(inventory.instructions().values())
    return list(dict.fromkeys(row for pattern in patterns for row in resolve(pattern).some_instructions))


def _fitting(wanted: Sequence[str]) -> list[str]:
    """Ids of what words mean in any order: operands if they say one, else instructions."""
    reading = Reading((), tuple(wanted))
    if reading.operand:
        return [row.id for row in _search(reading, inventory.nameable(".".join(wanted)).values())]
    return [row.id for row in _search(reading, inventory.instructions().values())]


def _fragments(name: str) -> list[Fragment]:
    if row := _exact(name, inventory.find):
        return [row]
    if whole := _exact(name, inventory.instructions().get):
        return _held([whole])
    reading = words.read(name)
    known = inventory.nameable(".".join(reading.plain))
    if _is_pattern(name):
        return _globbed(name, known.values())
    by_operand = reading.operand or not reading.words
    rows = _search(reading, known.values()) if by_operand else _held(_instructions(name))
    return rows or (_held(_instructions(name)) if by_operand else _search(reading, known.values()))


def _held(rows: Iterable[Instruction]) -> list[Fragment]:
    return list(dict.fromkeys(inventory.fragment(fragment.id) for row in rows for fragment in row.fragments))


def _instructions(name: str) -> list[Instruction]:
    if row := _exact(name, inventory.instructions().get):
        return [row]
    known = inventory.instructions()
    if _is_pattern(name):
        return [known[id_] for id_ in matching(short(name), known)]
    reading = words.read(name)
    pattern = ".".join(reading.plain)
    forms = (forms for forms in known.parts if forms.meant_by(pattern))
    return _search(reading, (row for part in forms for row in _rows(part, reading)))


def _rows(forms: Forms, reading: Reading) -> Iterator[Instruction]:
    """The forms that a name can mean, made only where their ids fit, if it is dotted alone."""
    return (forms[id_] for id_ in forms if reading.words or reading.fits(_parts(id_)))


def _shared(name: str) -> list[SharedOperand]:
    reading = words.read(name)
    if _is_pattern(name):
        return _globbed(name, _all_shared(short(name)))
    if any(word.endswith("_smem") for word in reading.plain):
        return _search(reading, _all_shared(".".join(reading.plain)))
    return [operand for row in _instructions(name) for operand in row.described]


def _all_shared(pattern: str) -> Iterator[SharedOperand]:
    """The operands in shared memory of the forms that a pattern can mean."""
    parts = (forms for forms in inventory.instructions().parts if forms.threads == WARPGROUP)
    rows = (row for forms in parts if forms.meant_by(pattern) for row in forms.values())
    return (operand for row in rows for operand in row.described)


def _exact(name: str, find: Callable[[str], T | None]) -> T | None:
    """The row of an id, of PTX's own name, or of an atom; an operand may follow as a word."""
    reading = words.read(name)
    row = find(short(".".join(reading.plain))) if len(reading.dotted) == 1 else None
    return row if row and _fits(reading, row) else None


def _search(reading: Reading, rows: Iterable[T]) -> list[T]:
    """The rows that a name fits; of words in any order those that it fits best."""
    fitting = [row for row in rows if _fits(reading, row)]
    return _closest(reading, fitting) if reading.words and len(reading.plain) > 1 else fitting


def _fits(reading: Reading, candidate: Row) -> bool:
    parts = _parts(candidate.id)
    if isinstance(candidate, Fragment) and candidate.shared and not {"load", "store"}.isdisjoint(reading.plain):
        parts = _parts(id_of(candidate.instruction))
    more = _more(candidate) if reading.words else ()
    return reading.fits(parts, more) and reading.written_as(partial(_written, candidate))


def _more(candidate: Row) -> tuple[str, ...]:
    if isinstance(candidate, Fragment):
        return (candidate.type,) if candidate.shared else ()
    if isinstance(candidate, SharedOperand):
        return ()
    stated = (word for values in candidate.stated.values() for value in values for word in str(value).split())
    scales = (f"scale_vec::{word.lower()}" if re.fullmatch(r"\dX", word) else word for word in stated)
    return (*(operand.type for operand in candidate.operands), *scales)


def _written(candidate: Row) -> list[str]:
    """The parts of PTX's name of a row, the operand last."""
    if isinstance(candidate, Instruction):
        return re.split(r"[.{}|]+", candidate.name.lower())
    if isinstance(candidate, SharedOperand):
        return [*_written(candidate.instruction), candidate.held.name]
    return [*candidate.instruction.lower().split("."), *([] if candidate.shared else [candidate.operand])]


@cache
def _parts(id_: str) -> tuple[str, ...]:
    return tuple(id_.lower().split("."))


def _closest(reading: Reading, fitting: list[T]) -> list[T]:
    """Of what fits those that fit best, by one reason after the other: named whole, of a family that is named, of a
    type of its own that is named, with one type of C and D, in the order of the words.
    """
    best = [row for row in fitting if len(_parts(row.id)) == len(reading.plain)] or fitting
    best = [row for row in best if row.family in reading.plain] or best
    best = [row for row in best if isinstance(row, Instruction) and _one_accumulator(row)] or best
    best = [row for row in best if isinstance(row, Fragment) and reading.says(row.type)] or best
    return [row for row in best if reading.in_order(_parts(row.id))] or best


def _one_accumulator(instruction: Instruction) -> bool:
    return instruction.multiplies_registers and instruction.type("c") == instruction.type("d")


def _is_pattern(name: str) -> bool:
    return any(c in name for c in "*?[")


def _globbed(name: str, rows: Iterable[T]) -> list[T]:
    by_id = {row.id: row for row in rows}
    return [by_id[id_] for id_ in matching(short(name), by_id)]


def matching(pattern: str, ids: Iterable[str]) -> list[str]:
    """The ids that a pattern means; if it means none as written, those that contain its parts in order."""
    listed = list(ids)
    for whole in (pattern, f"*.{pattern}", f"{pattern}.*", f"*.{pattern}.*"):
        matches = [id_ for id_ in listed if fnmatch.fnmatchcase(id_.lower(), whole.lower())]
        if matches:
            return matches
    return [id_ for id_ in listed if shortens(pattern, id_)]


def shortens(pattern: str, id_: str) -> bool:
    """Whether a pattern has patterns of some parts, in order, among them what sets a form apart (that it is sparse)."""
    wanted, whole = pattern.split("."), id_.split(".")
    parts = iter(whole)
    return words.APART.keys() & set(whole) <= set(wanted) and all(
        any(fnmatch.fnmatchcase(part, one) for part in parts) for one in wanted
    )
