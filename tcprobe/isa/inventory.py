"""All instructions and fragments, gathered from the files of `tcprobe.isa.rows`, and their selection by name.

>>> from tcprobe.isa import inventory
>>> inventory.resolve("wmma.m16n16k16.a.row.bf16").elements
8
>>> len(inventory.select("mma.m16n8k16.*.f32.f16.*"))
4
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType

from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch
from tcprobe.isa.forms import Forms, Joined
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import IMPLIED, Instruction, SharedOperand
from tcprobe.isa.target import version
from tcprobe.plugins import discover

ROWS = "tcprobe.isa.rows"
SAID = ("sp", "sp::ordered_metadata", "wgmma")  # parts of a name that a shortened one keeps


@cache
def instructions() -> Joined:
    """All instructions by id, in the order of the rows, wmma first; those of `Forms` last, made when asked for."""
    files = [module.INSTRUCTIONS for module in discover(ROWS, ("INSTRUCTIONS",)).values()]
    rows = [row for file in files if not isinstance(file, Forms) for row in file]
    whole = {row.id: row for row in sorted(rows, key=lambda row: row.family != "wmma")}
    return Joined(MappingProxyType(whole), *(file for file in files if isinstance(file, Forms)))


def families() -> tuple[str, ...]:
    """Names of all families of instructions."""
    return tuple(dict.fromkeys(row.family for row in instructions().values()))


def executed_by(threads: int) -> list[Instruction]:
    """The instructions that so many threads execute together: a warp, or a warpgroup."""
    parts = (part for part in instructions().parts if not isinstance(part, Forms) or part.threads == threads)
    return [row for part in parts for row in part.values() if row.threads == threads]


@cache
def fragments() -> MappingProxyType[str, Fragment]:
    """All fragments by id. One that several instructions share has the least of their targets."""
    return MappingProxyType(_fragments(instructions().values()))


@cache
def of_a_warp() -> MappingProxyType[str, Fragment]:
    """`fragments` of what a warp executes: without those of `Forms`."""
    return MappingProxyType(_fragments(instructions().parts[0].values()))


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
    rows = [row for part in instructions().parts if isinstance(part, Forms)
            and (not patterns or any(part.meant_by(short(p)) for p in patterns)) for row in part.values()]  # fmt: skip
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
    size = (wanted.rows, wanted.cols)
    rows = (row for row in executed_by(wanted.threads) if row.products == wanted.products)
    found = {
        f.id: f
        for row in rows
        for f in row.fragments
        if (f.rows, f.cols) == size and f.elements == wanted.elements and f.id != wanted.id
    }
    return list(found.values())


@cache
def users(fragment_id: str) -> tuple[str, ...]:
    """Names of the instructions that take the fragment as an operand: only one of wmma is shared by several."""
    row = instructions().get(fragment_id.rpartition(".")[0])
    if row and row.fragments and not row.fragments[0].shared:
        return (row.name,)
    sharing = (i for i in instructions().parts[0].values() if i.definitions)
    return tuple(i.name for i in sharing if any(f.id == fragment_id for f in i.fragments))


def select(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """Fragments whose id matches any pattern (all without one), of `family`, allowed on `device`.

    UsageError where there is no such family.
    """
    if family not in (None, *families()):
        raise UsageError(f"no family is called {family!r}; known: {', '.join(families())}.")
    chosen = dict.fromkeys(f for p in patterns for f in matches(p)) if patterns else fragments().values()
    return [
        fragment
        for fragment in chosen
        if family in (None, fragment.family) and (device is None or fragment.target.on(device))
    ]


def resolve(name: str) -> Fragment:
    """The one fragment that `name` means; UsageError with suggestions if none or several."""
    found = matches(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} means {len(found)} fragments: {_some(f.id for f in found)}. Say more of the name.")
    raise _unknown(name, fragments())


def instruction(name: str) -> Instruction:
    """The one instruction that `name` means; UsageError with suggestions if none or several."""
    wanted, known = short(name), instructions()
    found = [wanted] if wanted in known else [id_ for id_ in known if _shortens(wanted, id_)]
    if len(found) == 1:
        return known[found[0]]
    if found:
        raise UsageError(f"{name!r} means {len(found)} instructions: {_some(found)}. Say more of the name.")
    raise _unknown(name, known)


def multiply(name: str) -> Instruction:
    """The one multiply that `name` means; UsageError where it means none, several, or something else."""
    found = instruction(name)
    if not found.multiplies:
        raise no_multiply(found)
    return found


def multiplies(*patterns: str) -> list[Instruction]:
    """The multiplies among the instructions that the patterns mean; UsageError if there is none."""
    found = select_instructions(*patterns)
    chosen = [row for row in found if row.multiplies]
    if not chosen:
        raise no_multiply(found[0])
    return chosen


def no_multiply(row: Instruction) -> UsageError:
    """What is wrong with asking for the product of something that has none."""
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
        meant = [i for i in known if (fnmatch.fnmatchcase(i, wanted) if glob else _shortens(wanted, i))]
        if not meant:
            raise _unknown(pattern, known)
        found |= {i: known[i] for i in ([wanted] if wanted in known else meant)}
    return list(found.values())


def matches(name: str) -> list[Fragment]:
    """Fragments that `name` means: an id, an instruction (its operands), a glob pattern, or a shortened id.

    A shortened id has some of the dot-separated parts, in order: `wmma.m16n16k16.d.f32`, `m8n32k16.a.row.u8`. Those of
    sparse forms keep `sp`.
    """
    wanted = short(name)
    with suppress(KeyError, ValueError):
        return [fragment(wanted)]
    if wanted in instructions():
        return [fragment(f.id) for f in instructions()[wanted].fragments]
    known = _candidates(wanted)
    if any(c in wanted for c in "*?["):
        return [f for f in known.values() if fnmatch.fnmatchcase(f.id, wanted)]
    whole = [f for f in known.values() if wanted in (f.experiment, short(f.instruction))]
    return whole or [f for f in known.values() if _shortens(wanted, f.id)]


def _candidates(wanted: str) -> Mapping[str, Fragment]:
    """All fragments that a name can mean: those of `Forms` where it says their opcode."""
    forms = (part for part in instructions().parts if isinstance(part, Forms))
    return fragments() if any(part.meant_by(wanted) for part in forms) else of_a_warp()


def select_or_fail(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """As `select`, but every pattern must match something known."""
    for pattern in patterns:
        if not matches(pattern):
            raise _unknown(pattern, fragments())
    return select(*patterns, family=family, device=device)


def why_not(fragment: Fragment, device: Arch) -> str | None:
    """Why `device` does not have the fragment, in words; None where the PTX ISA allows it."""
    if fragment.target.on(device):
        return None
    needs = " or ".join(f"{target} (PTX ISA {ptx})" for target, ptx in fragment.target.options)
    return f"{fragment.instruction} needs target {needs}, which {device.name} ({device.generation}) does not run."


def short(name: str) -> str:
    """`name` without the qualifiers that every form has: the form in which ids are."""
    return ".".join(part for part in name.strip().split(".") if part not in IMPLIED)


def _shortens(wanted: str, full: str) -> bool:
    """Whether `wanted` has parts of `full`, in order; that a form is sparse, or a warpgroup's, must be said."""
    needed = {part for part in full.split(".")[:3] if part in SAID}
    if not needed <= set(wanted.split(".")):
        return False
    parts = iter(full.split("."))
    return bool(wanted) and all(part in parts for part in wanted.split("."))


def _some(names: Iterable[str], most: int = 6) -> str:
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def _unknown(name: str, known: Iterable[str]) -> UsageError:
    import difflib

    near = difflib.get_close_matches(short(name), list(known), n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else " See `tcprobe list`."
    return UsageError(f"no fragment or instruction is called {name!r}.{hint}")
