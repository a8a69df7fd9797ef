"""All instructions and fragments, gathered from the files of `tcprobe.isa.rows`, and their selection by name.

>>> from tcprobe.isa import inventory
>>> inventory.resolve("wmma.m16n16k16.a.row.bf16").elements
8
>>> len(inventory.select("mma.m16n8k16.*.f32.f16.*"))
4
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TypeVar

from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARP, WARPGROUP, Arch
from tcprobe.isa.forms import Together
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import IMPLIED, Instruction, SharedOperand
from tcprobe.isa.target import version
from tcprobe.plugins import discover
from tcprobe.text import quoted

ROWS = "tcprobe.isa.rows"
T = TypeVar("T", Fragment, Instruction)
SAID = ("sp", "sp::ordered_metadata", "wgmma", "block_scale")  # parts of a name that a shortened one keeps
_VECTOR = re.compile(r"(scale_vec::\d)x")  # the one capital letter of an id


@cache
def instructions() -> Together:
    """All instructions by id, in the order of the rows, wmma first, those of more than a warp last."""
    files = [module.INSTRUCTIONS for module in discover(ROWS, ("INSTRUCTIONS",)).values()]
    return Together(*sorted(files, key=lambda forms: (forms.threads, "wmma" not in forms.families)))


def families() -> tuple[str, ...]:
    """Names of all families of instructions."""
    return tuple(family for forms in instructions().parts for family in forms.families)


def of_family(*names: str) -> list[Instruction]:
    """The instructions of some families, in the order of the rows."""
    parts = (forms for forms in instructions().parts if set(names) & set(forms.families))
    return [row for forms in parts for row in forms.values() if row.family in names]


def executed_by(threads: int) -> list[Instruction]:
    """The instructions that so many threads execute together: a warp, or a warpgroup."""
    return [row for forms in instructions().parts if forms.threads == threads for row in forms.values()]


@cache
def fragments() -> MappingProxyType[str, Fragment]:
    """All fragments by id. One that several instructions share has the least of their targets."""
    return MappingProxyType(_fragments(instructions().values()))


@cache
def of_a_warp() -> MappingProxyType[str, Fragment]:
    """`fragments` of what a warp executes."""
    return MappingProxyType(_fragments(executed_by(WARP)))


def _fragments(rows: Iterable[Instruction]) -> dict[str, Fragment]:
    found: dict[str, Fragment] = {}
    for row in rows:
        for fragment in row.fragments:
            known = found.setdefault(fragment.id, fragment)
            if version(fragment.target.ptx) < version(known.target.ptx):
                found[fragment.id] = fragment
    return found


def described(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[SharedOperand]:
    """The operands behind descriptors that patterns mean (all without one), of `family`, allowed on `device`.

    None where a pattern means fragments only; as a fragment, one is meant by a shortened id, and by its instruction's.
    """
    parts = (forms for forms in instructions().parts if forms.threads == WARPGROUP)
    rows = [row for forms in parts if not patterns or any(forms.meant_by(short(p)) for p in patterns)
            for row in forms.values()]  # fmt: skip
    return [
        one for row in rows for one in row.described
        if family in (None, row.family) and (device is None or row.target.on(device))
        and (not patterns or any(_means(short(pattern), one) for pattern in patterns))
    ]  # fmt: skip


def shared_operand(id_: str) -> SharedOperand | None:
    """The operand behind a descriptor of that very id, None if there is none."""
    name, _, operand = short(id_).rpartition(".")
    row = instructions().get(name)
    return next((one for one in row.described if one.held.name == operand), None) if row else None


def _means(wanted: str, one: SharedOperand) -> bool:
    if any(c in wanted for c in "*?["):
        return fnmatch.fnmatchcase(one.id, wanted)
    return wanted in (one.id, one.instruction.id) or _shortens(wanted, one.id)


def fragment(id_: str) -> Fragment:
    """The fragment of an id; KeyError if there is none. Quick: one of mma is its instruction's alone."""
    name, _, operand = id_.rpartition(".")
    row = instructions().get(name)
    own = next((f for f in row.fragments if f.operand == operand), None) if row else None
    return own if own and not own.shared else of_a_warp()[id_]


def of_experiment(id_: str) -> tuple[Fragment, ...]:
    """The fragments whose tables a measurement of that id holds: the operands of a multiply, or a wmma fragment, with
    c and d together; none where the id is unknown.
    """
    row = instructions().get(id_)
    return row.fragments if row else _moved().get(id_, ())


@cache
def _moved() -> MappingProxyType[str, tuple[Fragment, ...]]:
    """The wmma fragments by the experiment that loads and stores them."""
    found: dict[str, tuple[Fragment, ...]] = {}
    for fragment in (f for f in of_a_warp().values() if f.family == "wmma"):
        found[fragment.experiment] = (*found.get(fragment.experiment, ()), fragment)
    return MappingProxyType(found)


def alike(wanted: Fragment) -> list[Fragment]:
    """Other fragments with as many rows, columns, products and elements a thread: those that may have its layout."""
    size = (wanted.rows, wanted.cols, wanted.elements)
    found = {
        fragment.id: fragment
        for row in executed_by(wanted.threads) if row.products == wanted.products
        for operand in row.operands if (operand.rows, operand.cols, operand.elements) == size
        for fragment in (row.fragment(operand.name),) if fragment.id != wanted.id
    }  # fmt: skip
    return list(found.values())


def users(fragment_id: str) -> tuple[str, ...]:
    """Names of the instructions that take the fragment as an operand: only one of wmma is shared by several."""
    return tuple(instructions()[id_].name for id_ in user_ids(fragment_id))


@cache
def user_ids(fragment_id: str) -> tuple[str, ...]:
    """Ids of the instructions that take the fragment as an operand."""
    row = instructions().get(fragment_id.rpartition(".")[0])
    if row and row.fragments and not row.fragments[0].shared:
        return (row.id,)
    sharing = (i for i in executed_by(WARP) if i.definitions)
    return tuple(i.id for i in sharing if any(f.id == fragment_id for f in i.fragments))


def select(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """Fragments whose id matches any pattern (all without one), of `family`, allowed on `device`.

    UsageError where there is no such family.
    """
    if family not in (None, *families()):
        raise _no_family(family or "")
    chosen = dict.fromkeys(f for p in patterns for f in matches(p)) if patterns else fragments().values()
    return [
        fragment
        for fragment in chosen
        if family in (None, fragment.family) and (device is None or fragment.target.on(device))
    ]


def bare(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Instruction]:
    """Instructions that hold no matrix in registers, which the patterns mean (all without one); as `select`."""
    rows = [row for row in executed_by(WARP) if not row.fragments]
    ids = [row.id for row in rows]
    meant = {i for p in patterns for i in _meant(short(p), ids)} if patterns else set(ids)
    return [
        row
        for row in rows
        if row.id in meant and family in (None, row.family) and (device is None or row.target.on(device))
    ]


def no_registers(row: Instruction) -> UsageError:
    """What is wrong with asking for the table of something that holds nothing in registers."""
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in row.elsewhere)
    return UsageError(
        f"{row.id} has no table of registers: {places}. `tcprobe lower {row.id}` says what it becomes, "
        f"`tcprobe list {row.id} --json` what is documented."
    )


def resolve(name: str) -> Fragment:
    """The one fragment that `name` means; UsageError with suggestions if none or several."""
    found = candidates(name)
    if len(found) == 1:
        return found[0]
    raise UsageError(f"{name!r} means {len(found)} fragments: {_some(f.id for f in found)}. Say more of the name.")


def candidates(name: str) -> list[Fragment]:
    """The fragments that `name` may mean; UsageError with suggestions if none."""
    found = matches(name)
    if not found:
        raise _unknown(name, fragments())
    return found


def instruction(name: str) -> Instruction:
    """The one instruction that `name` means; UsageError with suggestions if none or several."""
    found = instruction_candidates(name)
    if len(found) == 1:
        return found[0]
    raise UsageError(f"{name!r} means {len(found)} instructions: {_some(i.id for i in found)}. Say more of the name.")


def instruction_candidates(name: str) -> list[Instruction]:
    """The instructions that `name` may mean: an id, a shortened one, or words in any order; UsageError if none."""
    wanted, known = short(name), instructions()
    if wanted in known:
        return [known[wanted]]
    found = [known[id_] for id_ in known if _shortens(wanted, id_)] or spoken_instructions(name)
    if not found:
        raise _unknown(name, known)
    return found


def spoken_instructions(name: str) -> list[Instruction]:
    """The instructions that all words of `name` fit, whatever their order; see `words`."""
    from tcprobe.isa import words

    wanted = words.words(name)
    return _closest(wanted, [i for i in _meant_rows(name) if words.fits(wanted, _parts(i.id, *_types(i)))])


def _spoken(name: str) -> list[Fragment]:
    """The fragments that all words of `name` fit; without an operand in them, those of the instructions."""
    from tcprobe.isa import words

    wanted = words.words(name)
    known = _candidates(name.lower().replace(" ", ".")).values()
    found = [f for f in known if words.fits(wanted, _parts(f.id, *((f.type,) if f.shared else ())))]
    if found:
        return _closest(wanted, found)
    return list(dict.fromkeys(fragment(f.id) for i in spoken_instructions(name) for f in i.fragments))


def _meant_rows(name: str) -> Iterable[Instruction]:
    """The instructions that words can mean."""
    said = name.lower().replace(" ", ".")
    return (row for forms in instructions().parts if forms.meant_by(said) for row in forms.values())


def _closest(wanted: list[str], found: list[T]) -> list[T]:
    """Of what fits those that fit best, by one reason after the other: named whole, of a family that is named, of a
    type of its own that is named, with one type of C and D, in the order of the words.
    """
    from tcprobe.isa import words

    best = [one for one in found if len(_parts(one.id)) == len(wanted)] or found
    best = [one for one in best if one.family in wanted] or best
    best = [one for one in best if isinstance(one, Instruction) and _one_accumulator(one)] or best
    best = [one for one in best if isinstance(one, Fragment) and words.named(one.type, wanted)] or best
    return [one for one in best if words.ordered(wanted, _parts(one.id))] or best


def _one_accumulator(row: Instruction) -> bool:
    return row.multiplies_registers and row.type("c") == row.type("d")


def _parts(id_: str, *more: str) -> list[str]:
    parts = id_.lower().split(".")
    return [*parts, *(part for part in more if part not in parts)]


def _types(row: Instruction) -> tuple[str, ...]:
    return tuple(operand.type for operand in row.operands)


def multiply(name: str) -> Instruction:
    """The one multiply of registers, or behind descriptors, that `name` means; UsageError where it means none, several,
    or something else.
    """
    found = instruction(name)
    if not (found.multiplies_registers or found.described):
        raise no_multiply(found)
    return found


def multiplies(*patterns: str) -> list[Instruction]:
    """The multiplies of registers among the instructions that the patterns mean; UsageError if there is none."""
    found = select_instructions(*patterns)
    chosen = [row for row in found if row.multiplies_registers]
    if not chosen:
        raise no_multiply(found[0])
    return chosen


def no_multiply(row: Instruction) -> UsageError:
    """What is wrong with asking for the product of something that has none, or none in registers."""
    if row.multiplies:
        return no_registers(row)
    return UsageError(
        f"{row.id} is no multiply: it moves a matrix. `tcprobe where` and `show` say which lane holds what."
    )


def select_instructions(*patterns: str) -> list[Instruction]:
    """Instructions that the patterns mean: ids, shortened ids, or with * and ?; UsageError if one means none."""
    known = instructions()
    if not patterns:
        return list(known.values())
    found: dict[str, Instruction] = {}
    for pattern in patterns:
        wanted = short(pattern)
        glob = any(c in wanted for c in "*?[")
        meant = _meant(wanted, known) or [row.id for row in ([] if glob else spoken_instructions(pattern))]
        if not meant:
            raise _unknown(pattern, known)
        found |= {i: known[i] for i in meant}
    return list(found.values())


def matches(name: str) -> list[Fragment]:
    """Fragments that `name` means: an id, an instruction (its operands), a glob pattern, or a shortened id.

    A shortened id has some of the dot-separated parts, in order: `wmma.m16n16k16.d.f32`, `m8n32k16.a.row.u8`; those of
    sparse forms keep `sp`. Where no id is of that kind: words in any order, as `words` reads them: `accumulator wmma
    16x16x16 float`.
    """
    wanted = short(name)
    with suppress(KeyError, ValueError):
        return [fragment(wanted)]
    if wanted in instructions():
        return [fragment(f.id) for f in instructions()[wanted].fragments]
    known = _candidates(wanted)
    if any(c in wanted for c in "*?["):
        return [known[id_] for id_ in _globbed(wanted, known)]
    whole = [f for f in known.values() if wanted in (f.experiment, short(f.instruction))]
    return whole or [f for f in known.values() if _shortens(wanted, f.id)] or _spoken(name)


def _meant(wanted: str, known: Collection[str]) -> list[str]:
    """The ids that a shortened id or a pattern means: where it is one itself, that alone."""
    if wanted in known:
        return [wanted]
    if any(c in wanted for c in "*?["):
        return _globbed(wanted, known)
    return [i for i in known if _shortens(wanted, i)]


def _candidates(wanted: str) -> Mapping[str, Fragment]:
    """All fragments that a name can mean."""
    return fragments() if all(forms.meant_by(wanted) for forms in instructions().parts) else of_a_warp()


def select_or_fail(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """As `select`, but every pattern must match something known that is held in registers."""
    for pattern in patterns:
        if not matches(pattern):
            raise _unknown(pattern, fragments())
    return select(*patterns, family=family, device=device)


def why_not(asked: Fragment | Instruction, device: Arch) -> str | None:
    """Why `device` does not have a fragment or an instruction, in words; None where the PTX ISA allows it."""
    if asked.target.on(device):
        return None
    needs = " or ".join(f"{target} (PTX ISA {ptx})" for target, ptx in asked.target.options)
    name = asked.name if isinstance(asked, Instruction) else asked.instruction
    return f"{name} needs target {needs}, which {device.name} ({device.generation}) does not run."


def short(name: str) -> str:
    """`name` without the qualifiers that every form has: the form in which ids are."""
    written = _VECTOR.sub(r"\1X", name.strip().lower())
    if written.startswith("sm90") or "gmma." in written[:6]:
        from tcprobe.isa.words import warpgroup

        written = warpgroup(written) or written
    return ".".join(part for part in written.split(".") if part not in IMPLIED)


def _globbed(wanted: str, ids: Iterable[str]) -> list[str]:
    """The ids that a pattern means; where it means none as it is, those of which it means some parts."""
    listed = list(ids)
    for pattern in (wanted, f"*.{wanted}", f"{wanted}.*", f"*.{wanted}.*"):
        found = [id_ for id_ in listed if fnmatch.fnmatchcase(id_.lower(), pattern.lower())]
        if found:
            return found
    return []


def _shortens(wanted: str, full: str) -> bool:
    """Whether `wanted` has parts of `full`, in order; what sets a form apart (that it is sparse) must be said."""
    whole = full.split(".")
    if not {part for part in whole if part in SAID} <= set(wanted.split(".")):
        return False
    parts = iter(whole)
    return bool(wanted) and all(part in parts for part in wanted.split("."))


def _some(names: Iterable[str], most: int = 6) -> str:
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    """What is wrong with a name that means nothing: no registers, PTX's but not covered, strange words, a typo."""
    found = bare(name)
    if found:
        return no_registers(found[0])
    import difflib

    if behind := shared_operand(short(name)):
        return UsageError(
            f"{behind.id} is in shared memory, behind a descriptor: `tcprobe show` says where its elements are; for "
            f"all else name {behind.instruction.id}."
        )
    from tcprobe.isa.beyond import not_covered

    if ptx := not_covered(name, families()):
        return UsageError(f"{quoted(name)}: {ptx}. It has: {', '.join(families())}.")
    near = difflib.get_close_matches(short(name), list(known), n=3, cutoff=0.6) if " " not in name else []
    hint = f"Did you mean {' or '.join(near)}?" if near else _nearest(name)
    return UsageError(f"no fragment or instruction is called {name!r}. {hint}")


def _nearest(name: str) -> str:
    """What of a name's words is not known, and what the others mean; or which one word is too many."""
    from tcprobe.isa import words

    wanted = words.words(name)
    strange = words.strange(wanted, {part for row in instructions().values() for part in _parts(row.id, *"abcdep")})
    tries = [[*wanted[:at], *wanted[at + 1 :]] for at in reversed(range(len(wanted)))]
    if strange:
        tries = [[word for word in wanted if word not in strange]]
    without = next((kept for kept in tries if spoken_instructions(" ".join(kept))), None)
    unknown = f"Not known: {', '.join(map(quoted, strange))}. " if strange else ""
    if any(word.isdigit() for word in strange):
        unknown += "Numbers go with --row and --col, or --lane and --i. "
    if not without:
        return f"{unknown}See `tcprobe list`."
    left_out = [word for word in wanted if word not in without] or ["one of the types"]
    found = [row.id for row in spoken_instructions(" ".join(without))]
    return f"{unknown}Without {', '.join(left_out)} it would mean {_some(found, 3)}."


def _no_family(name: str) -> UsageError:
    from tcprobe.isa.beyond import not_covered

    ptx = not_covered(name, families())
    return UsageError(f"{ptx or f'no family is called {name!r}'}; known: {', '.join(families())}.")
