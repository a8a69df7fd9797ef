"""What is wrong with a name that means nothing, or not what is asked for; and what else PTX has under it.

>>> from tcprobe.isa.names.wrong import neighbour
>>> neighbour("ldmatrix.m8n8.x4") is None, neighbour("shfl.sync.bfly.b32").what
(True, 'exchanges between lanes')

Source of what PTX has: PTX ISA 9.1, sections 9.7.14 to 9.7.17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.errors import UnknownNameError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction, SharedOperand, id_of
from tcprobe.isa.names import search, words
from tcprobe.isa.operand import Place
from tcprobe.text import quoted

if TYPE_CHECKING:
    from tcprobe.isa.names import Meaning

MOST_CHOICES = 3  # names that are suggested, each with a line to paste
MOST_NAME = 200


class Neighbour(NamedTuple):
    """The first parts of instructions' names, as a pattern, and what these do."""

    pattern: str
    what: str


# what kernels do beside multiplying; the more special first
NEIGHBOURS = (
    Neighbour(r"cp\.async\.bulk|cp\.reduce\.async\.bulk|tensormap|tma", "copies in bulk and by tensor maps"),
    Neighbour(r"cp\.async", "copies from global into shared memory"),
    Neighbour(r"(?:ld|st|atom|red)\.(?:shared|async)", "accesses to shared memory"),
    Neighbour(r"ld\.global|ldu|ld", "loads"),
    Neighbour(r"shfl|redux", "exchanges between lanes"),
    Neighbour(
        r"(?:wgmma|tcgen05)\.(?:fence|commit\w*|wait\w*|alloc|dealloc|relinquish\w*)|mbarrier|barrier|bar|fence"
        r"|membar|elect|griddepcontrol|setmaxnreg|vote|match|activemask",
        "synchronisation and resources",
    ),
    Neighbour(r"st|atom|red|multimem|prefetch\w*|mapa|getctarank|cvta", "accesses to memory"),
    Neighbour(r"dp4a|dp2a|fma|mad|mul|add|sub|cvt|prmt|lop3|shf|sel[pt]|mov", "arithmetic on a lane's own registers"),
)


def neighbour(name: str) -> Neighbour | None:
    """What PTX has under such a name that holds no matrix."""
    return next((row for row in NEIGHBOURS if re.match(rf"(?:{row.pattern})(?:\.|$)", name[:MOST_NAME], re.I)), None)


def _behind(operand: SharedOperand) -> UsageError:
    words = f"{operand.id} is in shared memory, behind a descriptor."
    return UsageError(words, "behind", id=operand.instruction.id)


def unknown(meaning: Meaning, fitting: Callable[[Sequence[str]], list[str]]) -> UsageError:
    """What is wrong with a name that means nothing of the kind that is asked for: it means something else, strange
    words, parts in another order, a typo. `fitting` has the ids that words mean in any order.
    """
    name = meaning.name
    if meaning.bare:
        return no_registers(meaning.bare[0])
    if meaning.shared:
        return _behind(meaning.shared[0])
    if elsewhere := _elsewhere(name):
        return elsewhere
    if beside := neighbour(name):
        return UsageError(f"{quoted(name)} ({beside.what}) is a PTX instruction, but holds no matrix.", beside.what)
    if meaning.fragments:
        return UsageError(f"{quoted(name)} is an operand of {some(meaning.users, 2)}.")
    return _nearest(name, fitting)


def _elsewhere(name: str) -> UsageError | None:
    """What is wrong with asking for the registers of an operand that is in tensor or shared memory; None for others."""
    id_, _, last = search.short(name).rpartition(".")
    row = inventory.instructions().get(id_)
    operand = next((o for o in row.elsewhere if o.name == last), None) if row else None
    if row is None or operand is None:
        return None
    words = f"{id_}.{last} is in {operand.place.value}, so there is no table of registers."
    if operand.place is Place.SHARED:
        return UsageError(words, "behind tcgen05")
    return (
        UsageError(words, "no registers", id=id_) if row.fragments else UsageError(words, "placed", id=f"{id_}.{last}")
    )


def _nearest(name: str, fitting: Callable[[Sequence[str]], list[str]]) -> UsageError:
    """What the parts mean in another order, what is spelt alike, or what some of the words mean."""
    reading = words.read(name)
    near = _reordered(name) or fitting(tuple(dict.fromkeys(reading.plain))) or fitting(reading.plain)
    if near and reading.dotted:
        hint = f"The parts of a dotted name keep their order. Did you mean {' or '.join(near[:MOST_CHOICES])}?"
        return _none(name, hint, choices=near[:MOST_CHOICES])
    if " " not in name and (alike := _alike(name)):
        return _none(name, f"Did you mean {' or '.join(alike)}?", choices=alike)
    return _by_words(name, fitting)


def too_long(name: str, most: int) -> UsageError:
    """What is wrong with a name that is longer than any."""
    return _none(name, f"It has {len(name)} characters; no name has more than {most}.", "names")


def _none(name: str, hint: str, topic: str = "", choices: Sequence[str] = ()) -> UsageError:
    return UnknownNameError(
        f"no fragment or instruction is called {quoted(name)}. {hint}".strip(), topic, name, choices
    )


def _reordered(name: str) -> list[str]:
    """Ids of the very same parts in another order, those first that keep most of the order."""
    import difflib

    parts = id_of(name.lower()).split(".")
    wanted = sorted(parts)
    placed = (f"{row.id}.{o.name}" for row in inventory.of_family("tcgen05") if row.multiplies for o in row.operands)
    known = (*inventory.instructions(), *inventory.fragments(), *placed)
    same = [id_ for id_ in known if sorted(id_.lower().split(".")) == wanted]
    return sorted(same, key=lambda id_: -difflib.SequenceMatcher(None, parts, id_.lower().split(".")).ratio())


def _alike(name: str) -> list[str]:
    import difflib

    return difflib.get_close_matches(name.lower(), [*inventory.fragments(), *inventory.instructions()], n=3, cutoff=0.6)


def no_family(name: str, others: Iterable[str] = ()) -> UsageError:
    """What is wrong with the name of a family; `others` are known as well."""
    known = ", ".join((*inventory.families(), *others))
    return UsageError(f"no family is called {quoted(name)}; known: {known}.")


def no_registers(instruction: Instruction) -> UsageError:
    """What is wrong with asking for the table of something that holds nothing in registers."""
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in instruction.elsewhere)
    return UsageError(f"{instruction.id} has no table of registers: {places}.", "no registers", id=instruction.id)


def no_multiply(instruction: Instruction) -> UsageError:
    """What is wrong with asking for the product of something that has none, or none in registers."""
    if instruction.multiplies:
        return no_registers(instruction)
    return UsageError(f"{instruction.id} is not a multiply: it moves a matrix.", "a move")


def _by_words(name: str, fitting: Callable[[Sequence[str]], list[str]]) -> UsageError:
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
    topic = "numbers" if any(word.isdigit() for word in strange) else "" if ids else "names"
    if ids:
        left_out = [word for word in wanted if word not in kept] or ["one of the types"]
        hint += f"Without {', '.join(left_out)} it would mean {some(ids, 3)}."
    return _none(name, hint, topic, ids if len(ids) <= MOST_CHOICES else ())


def some(names: Iterable[str], most: int = 6) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
