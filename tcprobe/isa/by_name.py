"""What a name means of the inventory: an id, a part of one, a pattern with * and ?, words.

>>> from tcprobe.isa import by_name
>>> by_name.resolve("wmma.m16n16k16.a.row.bf16").elements
8
>>> len(by_name.select("mma.m16n8k16.*.f32.f16.*"))
4
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from tcprobe.errors import UsageError
from tcprobe.isa import inventory, shorthand, spoken
from tcprobe.isa.arch import WARPGROUP, Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction, SharedOperand
from tcprobe.isa.wrong_names import no_family, no_multiply, some, unknown
from tcprobe.text import quoted

T = TypeVar("T", Fragment, Instruction)


def select(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """Fragments whose id matches any pattern (all without one), of `family`, allowed on `device`.

    UsageError where there is no such family.
    """
    if family not in (None, *inventory.families()):
        raise no_family(family or "")
    chosen = dict.fromkeys(f for p in patterns for f in matches(p)) if patterns else inventory.fragments().values()
    return [
        fragment
        for fragment in chosen
        if family in (None, fragment.family) and (device is None or fragment.target.on(device))
    ]


def described(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[SharedOperand]:
    """The operands behind descriptors that patterns mean (all without one), of `family`, allowed on `device`.

    None where a pattern means fragments only; as a fragment, one is meant by a shortened id, and by its instruction's.
    """
    meant = [shorthand.short(pattern) for pattern in patterns]
    parts = (forms for forms in inventory.instructions().parts if forms.threads == WARPGROUP)
    rows = [row for forms in parts if not meant or any(map(forms.meant_by, meant)) for row in forms.values()]
    return [
        one for row in rows for one in row.described
        if family in (None, row.family) and (device is None or row.target.on(device))
        and (not meant or any(_means(wanted, one) for wanted in meant))
    ]  # fmt: skip


def _means(wanted: str, one: SharedOperand) -> bool:
    if any(c in wanted for c in "*?["):
        return bool(shorthand.globbed(wanted, [one.id]))
    return wanted in (one.id, one.instruction.id) or shorthand.shortens(wanted, one.id)


def resolve(name: str) -> Fragment:
    """The one fragment that `name` means; UsageError with suggestions if none or several."""
    return _only(name, "fragments", candidates(name))


def _only(name: str, kind: str, meant: Sequence[T]) -> T:
    """The one thing of a kind that `name` means; UsageError where there are several."""
    if len(meant) == 1:
        return meant[0]
    raise UsageError(
        f"{quoted(name)} means {len(meant)} {kind}: {some(one.id for one in meant)}. Say more of the name."
    )


def candidates(name: str) -> list[Fragment]:
    """The fragments that `name` may mean; UsageError with suggestions if none."""
    fragments = matches(name)
    if not fragments:
        raise unknown(name, inventory.fragments())
    return fragments


def instruction(name: str) -> Instruction:
    """The one instruction that `name` means; UsageError with suggestions if none or several."""
    return _only(name, "instructions", instruction_candidates(name))


def instruction_candidates(name: str) -> list[Instruction]:
    """The instructions that `name` may mean: an id, a shortened one, or words in any order; UsageError if none."""
    wanted, known = shorthand.short(name), inventory.instructions()
    if wanted in known:
        return [known[wanted]]
    rows = [known[id_] for id_ in known if shorthand.shortens(wanted, id_)] or spoken.instructions(name)
    if not rows:
        raise unknown(name, known)
    return rows


def multiply(name: str) -> Instruction:
    """The one multiply of registers, or behind descriptors, that `name` means; UsageError where it means none, several,
    or something else.
    """
    row = instruction(name)
    if not (row.multiplies_registers or row.described):
        raise no_multiply(row)
    return row


def multiplies(*patterns: str) -> list[Instruction]:
    """The multiplies of registers among the instructions that the patterns mean; UsageError if there is none."""
    rows = select_instructions(*patterns)
    chosen = [row for row in rows if row.multiplies_registers]
    if not chosen:
        raise no_multiply(rows[0])
    return chosen


def select_instructions(*patterns: str) -> list[Instruction]:
    """Instructions that the patterns mean: ids, shortened ids, or with * and ?; UsageError if one means none."""
    known = inventory.instructions()
    if not patterns:
        return list(known.values())
    chosen: dict[str, Instruction] = {}
    for pattern in patterns:
        wanted = shorthand.short(pattern)
        glob = any(c in wanted for c in "*?[")
        meant = shorthand.meant(wanted, known) or ([] if glob else [i.id for i in spoken.instructions(pattern)])
        if not meant:
            raise unknown(pattern, known)
        chosen |= {i: known[i] for i in meant}
    return list(chosen.values())


def select_or_fail(*patterns: str, family: str | None = None, device: Arch | None = None) -> list[Fragment]:
    """As `select`, but every pattern must match something known that is held in registers."""
    for pattern in patterns:
        if not matches(pattern):
            raise unknown(pattern, inventory.fragments())
    return select(*patterns, family=family, device=device)


def matches(name: str) -> list[Fragment]:
    """Fragments that `name` means: an id, an instruction (its operands), a glob pattern, or a shortened id.

    A shortened id has some of the dot-separated parts, in order: `wmma.m16n16k16.d.f32`, `m8n32k16.a.row.u8`; those of
    sparse forms keep `sp`. Where no id is of that kind: words in any order, as `words` reads them: `accumulator wmma
    16x16x16 float`.
    """
    wanted = shorthand.short(name)
    with suppress(KeyError, ValueError):
        return [inventory.fragment(wanted)]
    if wanted in inventory.instructions():
        return [inventory.fragment(f.id) for f in inventory.instructions()[wanted].fragments]
    known = inventory.nameable(wanted)
    if any(c in wanted for c in "*?["):
        return [known[id_] for id_ in shorthand.globbed(wanted, known)]
    whole = [f for f in known.values() if wanted in (f.experiment, shorthand.short(f.instruction))]
    return whole or [f for f in known.values() if shorthand.shortens(wanted, f.id)] or spoken.fragments(name)


def why_not(asked: Fragment | Instruction, device: Arch) -> str | None:
    """Why `device` does not have a fragment or an instruction, in words; None where the PTX ISA allows it."""
    if asked.target.on(device):
        return None
    needs = " or ".join(f"{target} (PTX ISA {ptx})" for target, ptx in asked.target.options)
    name = asked.name if isinstance(asked, Instruction) else asked.instruction
    return f"{name} needs target {needs}, which {device.name} ({device.generation}) does not run."
