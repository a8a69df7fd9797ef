"""What is wrong with a name that means nothing, or something else than what is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from tcprobe.errors import UsageError
from tcprobe.isa import inventory, shorthand, spoken, words
from tcprobe.isa.instruction import Instruction
from tcprobe.text import quoted


def unknown(name: str, known: Iterable[str]) -> UsageError:
    """What is wrong with a name that means nothing: no registers, PTX's but not covered, strange words, a typo."""
    forms = inventory.bare(name)
    if forms:
        return no_registers(forms[0])
    import difflib

    if behind := inventory.shared_operand(shorthand.short(name)):
        return UsageError(
            f"{behind.id} is in shared memory, behind a descriptor: `tcprobe show` says where its elements are; for "
            f"all else name {behind.instruction.id}."
        )
    from tcprobe.isa.beyond import not_covered

    if ptx := not_covered(name, inventory.families()):
        return UsageError(f"{quoted(name)}: {ptx}. It has: {', '.join(inventory.families())}.")
    near = difflib.get_close_matches(shorthand.short(name), list(known), n=3, cutoff=0.6) if " " not in name else []
    hint = f"Did you mean {' or '.join(near)}?" if near else _nearest(name)
    return UsageError(f"no fragment or instruction is called {quoted(name)}. {hint}")


def no_family(name: str, others: Iterable[str] = ()) -> UsageError:
    """What is wrong with the name of a family; `others` are known besides."""
    from tcprobe.isa.beyond import not_covered

    ptx, known = not_covered(name, inventory.families()), ", ".join((*inventory.families(), *others))
    return UsageError(f"{ptx or f'no family is called {quoted(name)}'}; known: {known}.")


def no_registers(row: Instruction) -> UsageError:
    """What is wrong with asking for the table of something that holds nothing in registers."""
    places = ", ".join(f"{operand.name} is in {operand.place.value}" for operand in row.elsewhere)
    return UsageError(
        f"{row.id} has no table of registers: {places}. `tcprobe lower {row.id}` says what it becomes, "
        f"`tcprobe list {row.id} --json` what is documented."
    )


def no_multiply(row: Instruction) -> UsageError:
    """What is wrong with asking for the product of something that has none, or none in registers."""
    if row.multiplies:
        return no_registers(row)
    return UsageError(
        f"{row.id} is no multiply: it moves a matrix. `tcprobe where` and `show` say which lane holds what."
    )


def _nearest(name: str) -> str:
    """What of a name's words is not known, and what the others mean; or which one word is too many."""
    wanted = words.words(name)
    strange = words.strange(wanted, {part for id_ in inventory.instructions() for part in spoken.parts(id_, *"abcdep")})
    tries = [[*wanted[:at], *wanted[at + 1 :]] for at in reversed(range(len(wanted)))]
    if strange:
        tries = [[word for word in wanted if word not in strange]]
    without = next((kept for kept in tries if spoken.instructions(" ".join(kept))), None)
    told = f"Not known: {', '.join(map(quoted, strange))}. " if strange else ""
    if any(word.isdigit() for word in strange):
        told += "Numbers go with --row and --col, or --lane and --i. "
    if not without:
        return f"{told}See `tcprobe list`."
    left_out = [word for word in wanted if word not in without] or ["one of the types"]
    ids = [row.id for row in spoken.instructions(" ".join(without))]
    return f"{told}Without {', '.join(left_out)} it would mean {some(ids, 3)}."


def some(names: Iterable[str], most: int = 6) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
