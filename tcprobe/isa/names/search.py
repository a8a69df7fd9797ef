"""What a name that is not an id means: rows whose ids and types its words fit; and what is wrong where there is none.

>>> from tcprobe.isa.names.search import fragments, neighbour, as_id
>>> [f.id for f in fragments("mma m16n8k16 bf16 A")]
['mma.m16n8k16.row.col.f32.bf16.bf16.f32.a']
>>> as_id("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
'mma.m16n8k16.row.col.f32.f16.f16.f32'
>>> neighbour("ldmatrix.m8n8.x4") is None, neighbour("shfl.sync.bfly.b32").what
(True, 'exchanges between lanes')

Source of what else PTX has: PTX ISA 9.1, sections 9.7.14 to 9.7.17.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tcprobe import facts
from tcprobe.errors import UnknownNameError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand, id_of
from tcprobe.isa.inventory import Forms
from tcprobe.isa.names import words
from tcprobe.isa.names.words import Reading
from tcprobe.isa.operand import Place
from tcprobe.text import any_of, quoted

if TYPE_CHECKING:
    from tcprobe.isa.names import Meaning


Candidate = Fragment | Instruction | SharedOperand
T = TypeVar("T", Fragment, Instruction, SharedOperand)
_VECTOR = re.compile(r"(scale_vec::[0-9])x")  # the one capital letter of an id
_UNORDERED = re.compile(r"\baligned\b.*\b(?:sync|aligned)\b|\bsync\.(?!aligned\b).*\b(?:sync|aligned)\b")


def as_id(name: str) -> str:
    """A name without the qualifiers that every form has, the form in which ids are; as it is where PTX has another
    order of them.
    """
    whole = _VECTOR.sub(r"\1X", name.strip().lower())
    bare = id_of(whole)
    row = inventory.instructions().get(bare)
    in_order = row is None or words.read(whole).written_as(partial(_parts_of, row))
    return bare if in_order and not _UNORDERED.search(whole) else whole


def fitting(wanted: Sequence[str]) -> list[str]:
    """Ids of what words mean in any order: operands if they say one, else instructions."""
    reading = Reading((), tuple(wanted))
    if reading.operand:
        return [row.id for row in _search(reading, inventory.nameable(".".join(wanted)).values())]
    return [row.id for row in _search(reading, inventory.instructions().values())]


def fragments(name: str) -> list[Fragment]:
    """The operands in registers that a name may mean, those of the instructions where it says no operand."""
    if row := _exact(name, inventory.find):
        return [row]
    if whole := _exact(name, inventory.instructions().get):
        return _fragments_of([whole])
    reading = words.read(name)
    known = inventory.nameable(".".join(reading.plain))
    if _is_pattern(name):
        return _match_pattern(name, known.values())
    by_operand = reading.operand or not reading.words
    rows = _search(reading, known.values()) if by_operand else _fragments_of(instructions(name))
    return rows or (_fragments_of(instructions(name)) if by_operand else _search(reading, known.values()))


def _fragments_of(users: Iterable[Instruction]) -> list[Fragment]:
    return list(dict.fromkeys(inventory.fragment(fragment.id) for row in users for fragment in row.fragments))


def instructions(name: str) -> list[Instruction]:
    """The instructions that a name may mean."""
    if row := _exact(name, inventory.instructions().get):
        return [row]
    known = inventory.instructions()
    if _is_pattern(name):
        return [known[id_] for id_ in matching(as_id(name), known)]
    reading = words.read(name)
    pattern = ".".join(reading.plain)
    forms = (forms for forms in known.parts if forms.meant_by(pattern))
    return _search(reading, (row for part in forms for row in _rows(part, reading)))


def _rows(forms: Forms, reading: Reading) -> Iterator[Instruction]:
    """The forms that a name can mean, made only where their ids fit, if it is dotted alone."""
    return (forms[id_] for id_ in forms if reading.words or reading.fits(_parts(id_)))


def shared_operands(name: str) -> list[SharedOperand]:
    """The operands in shared memory that a name may mean."""
    reading = words.read(name)
    if _is_pattern(name):
        return _match_pattern(name, _all_shared(as_id(name)))
    if any(word.endswith("_smem") for word in reading.plain):
        return _search(reading, _all_shared(".".join(reading.plain)))
    return [operand for row in instructions(name) for operand in row.described]


def _all_shared(pattern: str) -> Iterator[SharedOperand]:
    """The operands in shared memory of the forms that a pattern can mean."""
    parts = (forms for forms in inventory.instructions().parts if forms.threads == WARPGROUP)
    rows = (row for forms in parts if forms.meant_by(pattern) for row in forms.values())
    return (operand for row in rows for operand in row.described)


def _exact(name: str, find: Callable[[str], T | None]) -> T | None:
    """The row of an id, of PTX's own name, or of an atom; an operand may follow as a word."""
    reading = words.read(name)
    row = find(as_id(".".join(reading.plain))) if len(reading.dotted) == 1 else None
    return row if row and _fits(reading, row) else None


def _search(reading: Reading, candidates: Iterable[T]) -> list[T]:
    """The rows that a name fits; of words in any order those that it fits best."""
    fitting = [row for row in candidates if _fits(reading, row)]
    return _closest(reading, fitting) if reading.words and len(reading.plain) > 1 else fitting


def _fits(reading: Reading, candidate: Candidate) -> bool:
    parts = _parts(candidate.id)
    if isinstance(candidate, Fragment) and candidate.shared and not {"load", "store"}.isdisjoint(reading.plain):
        parts = _parts(id_of(candidate.instruction))
    more = _more(candidate) if reading.words else ()
    return reading.fits(parts, more) and reading.written_as(partial(_parts_of, candidate))


def _more(candidate: Candidate) -> tuple[str, ...]:
    if isinstance(candidate, Fragment):
        return (candidate.type,) if candidate.shared else ()
    if isinstance(candidate, SharedOperand):
        return ()
    stated = (word for values in candidate.stated.values() for value in values for word in str(value).split())
    scales = (f"scale_vec::{word.lower()}" if re.fullmatch(r"[0-9]X", word) else word for word in stated)
    return (*(operand.type for operand in candidate.operands), *scales)


def _parts_of(candidate: Candidate) -> list[str]:
    """The parts of PTX's name of a row, the operand last."""
    if isinstance(candidate, Instruction):
        return re.split(r"[.{}|]+", candidate.name.lower())
    if isinstance(candidate, SharedOperand):
        return [*_parts_of(candidate.instruction), candidate.held.name]
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


def _match_pattern(name: str, candidates: Iterable[T]) -> list[T]:
    by_id = {row.id: row for row in candidates}
    return [by_id[id_] for id_ in matching(as_id(name), by_id)]


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


MOST_CHOICES = 3  # names that are suggested, each with a line to paste


class Neighbour(NamedTuple):
    """The first parts of instructions' names, as a pattern, and what these do."""

    pattern: str
    what: str


# neighbours.csv: what kernels do beside multiplying; the more special first
NEIGHBOURS = facts.read(__file__, "neighbours.csv", Neighbour)


def neighbour(name: str) -> Neighbour | None:
    """What PTX has under such a name that holds no matrix."""
    return next((row for row in NEIGHBOURS if re.match(rf"(?:{row.pattern})(?:\.|$)", name[:200], re.I)), None)


def unknown(meaning: Meaning) -> UsageError:
    """What is wrong with a name that means nothing of the kind that is asked for: it means something else, strange
    words, parts in another order, a typo.
    """
    name = meaning.name
    if meaning.bare:
        return no_registers(meaning.bare[0], name)
    if meaning.shared:
        operand = meaning.shared[0]
        words = f"{operand.id} is in shared memory, behind a descriptor."
        return UsageError(words, "operand in shared memory", id=operand.id, form=operand.instruction.id)
    if elsewhere := _elsewhere(name):
        return elsewhere
    if beside := neighbour(name):
        return UsageError(f"{quoted(name)} ({beside.what}) is a PTX instruction, but holds no matrix.", beside.what)
    if meaning.fragments:
        return UsageError(f"{quoted(name)} is an operand of {some(meaning.users, 2)}.")
    return _nearest(name)


def _elsewhere(name: str) -> UsageError | None:
    """What is wrong with asking for the registers of an operand that is in tensor or shared memory; None for others."""
    id_, _, last = as_id(name).rpartition(".")
    row = inventory.instructions().get(id_)
    operand = next((o for o in row.elsewhere if o.name == last), None) if row else None
    if row is None or operand is None:
        return None
    words = f"{id_}.{last} is in {operand.place.value}, so there is no table of registers."
    if operand.place is Place.SHARED:
        return behind_descriptor(row, words) if row.multiplies else UsageError(words, "address", id=id_)
    return (
        UsageError(words, "no registers", id=id_)
        if row.fragments
        else UsageError(words, "operand in tensor memory", id=f"{id_}.{last}")
    )


def behind_descriptor(multiply: Instruction, words: str) -> UsageError:
    """What is wrong with asking for an operand of a tcgen05 multiply that is in shared memory."""
    types = map(str, multiply.stated.get("ab_types", ()))
    whole = next((name for name in types if dtype(name).bits >= 8), "bf16")  # tiles of such are described
    return UsageError(words, "tcgen05 operand in shared memory", type=whole)


def _nearest(name: str) -> UsageError:
    """What the parts mean in another order, what is spelt alike, or what some of the words mean."""
    reading = words.read(name)
    near = _reordered(name) or fitting(tuple(dict.fromkeys(reading.plain))) or fitting(reading.plain)
    if near and reading.dotted:
        hint = f"The parts of a dotted name keep their order. Did you mean {any_of(near[:MOST_CHOICES], 'or')}?"
        return _none(name, hint, choices=near[:MOST_CHOICES])
    if " " not in name and (alike := _alike(name)):
        return _none(name, f"Did you mean {any_of(alike, 'or')}?", choices=alike)
    return _by_words(name)


def too_long(name: str, most: int) -> UsageError:
    """What is wrong with a name that is longer than any."""
    return _none(name, f"It has {len(name)} characters; no name has more than {most}.", "names")


def _none(
    name: str, hint: str, topic: str = "", choices: Sequence[str] = (), numbers: Sequence[int] = ()
) -> UsageError:
    words = f"no fragment or instruction is called {quoted(name)}. {hint}".strip()
    return UnknownNameError(words, topic, name, choices, numbers)


def _reordered(name: str) -> list[str]:
    """Ids of the very same parts in another order, those first that keep most of the order."""
    import difflib

    parts = id_of(name.lower()).split(".")
    wanted = sorted(parts)
    placed = (f"{row.id}.{o.name}" for row in inventory.of_family("tcgen05") if row.multiplies for o in row.operands)
    known = (*inventory.instructions(), *inventory.fragments(), *placed)
    same = [id_ for id_ in known if sorted(id_.lower().split(".")) == wanted]
    return sorted(same, key=lambda id_: -difflib.SequenceMatcher(None, parts, id_.lower().split(".")).ratio())


def _alike(name: str, most: int = 3, least: float = 0.6) -> list[str]:
    """What difflib.get_close_matches says, which compares thousands of ids: here, those first that may be the closest,
    until no other can be.
    """
    import difflib

    matcher = difflib.SequenceMatcher(b=name.lower())
    bounds = []
    for id_ in (*inventory.fragments(), *inventory.instructions()):
        matcher.set_seq1(id_)
        if matcher.real_quick_ratio() >= least and (bound := matcher.quick_ratio()) >= least:
            bounds.append((bound, id_))
    found: list[tuple[float, str]] = []
    for bound, id_ in sorted(bounds, reverse=True):
        if len(found) == most and bound < found[-1][0]:
            break
        matcher.set_seq1(id_)
        if (ratio := matcher.ratio()) >= least:
            found = sorted([*found, (ratio, id_)], reverse=True)[:most]
    return [id_ for _, id_ in found]


def no_family(name: str, others: Iterable[str] = ()) -> UsageError:
    """What is wrong with the name of a family; `others` are known as well."""
    known = ", ".join((*inventory.families(), *others))
    return UsageError(f"no family is called {quoted(name)}; known: {known}.")


def no_registers(instruction: Instruction, name: str = "") -> UsageError:
    """What is wrong with asking, by `name`, for the table of something that holds nothing in registers."""
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in instruction.elsewhere)
    return UnknownNameError(
        f"{instruction.id} has no table of registers: {places}.",
        "no registers",
        name,
        [f"{instruction.id}.{operand.name}" for operand in instruction.elsewhere],
        id=instruction.id,
    )


def no_multiply(instruction: Instruction, name: str = "") -> UsageError:
    """What is wrong with asking, by `name`, for the product of something that has none, or none in registers."""
    if instruction.multiplies:
        return no_registers(instruction, name)
    return UsageError(
        f"{instruction.id} is not a multiply: it moves a matrix.", "instruction that moves a matrix", id=instruction.id
    )


def _by_words(name: str) -> UsageError:
    """What of a name's words is not known, and what the others mean; or which one word is too many."""
    wanted = words.read(name).plain
    known = {part for id_ in inventory.instructions() for part in id_.lower().split(".")} | words.OPERANDS
    strange = words.read(name).strange(known)
    if strange:
        tries = [tuple(word for word in wanted if word not in strange)]
    elif sparse := fitting((*wanted, *words.MEANT["sparse"].split())):
        return _none(name, f"Add sparse for {some(sparse, 3)}.")
    else:
        tries = [(*wanted[:at], *wanted[at + 1 :]) for at in reversed(range(len(wanted)))]
    kept, ids = next(((kept, ids) for kept in tries if (ids := fitting(kept))), ((), []))
    hint = f"Not known: {', '.join(map(quoted, strange))}. " if strange else ""
    numbers = [word for word in strange if re.fullmatch("[0-9]{1,9}", word)]
    if numbers and ids and numbers == strange:
        hint += f"Without {', '.join(numbers)} it would mean {some(ids, 3)}."
        choices = ids if len(ids) <= MOST_CHOICES else ()
        return _none(name, hint, "numbers", choices, [int(number) for number in numbers])
    topic = "numbers" if numbers else "" if ids else "names"
    if ids:
        left_out = [word for word in wanted if word not in kept] or ["one of the types"]
        hint += f"Without {', '.join(left_out)} it would mean {some(ids, 3)}."
    return _none(name, hint, topic, ids if len(ids) <= MOST_CHOICES else ())


def some(names: Iterable[str], most: int = 6) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
