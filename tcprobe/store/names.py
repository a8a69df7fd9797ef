"""Which table a name means: one fragment's, or that which all its candidates share; opcodes of machine code as well.

>>> from tcprobe.store.lookup import layers
>>> from tcprobe.store.names import meant
>>> found = meant("accumulator wmma 16x16x16 float", "v100", layers(None))
>>> found.cell.arch, found.note
('sm_70', "'accumulator wmma 16x16x16 float' means 2 fragments, all with this table on sm_70: wmma.m16n16k16.c.f32, \
wmma.m16n16k16.d.f32")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from tcprobe.errors import UsageError
from tcprobe.isa import arch, by_name, inventory, shorthand
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.store import lookup
from tcprobe.store.cell import Cell, cell, operands
from tcprobe.store.choose import Layers
from tcprobe.text import quoted

MOST = 400  # candidates that are compared
OPCODE = r"(?i)\b[HIBDQO]MMA(?:\.S[PF])*\.[0-9][\w.]*"
T = TypeVar("T", Fragment, Instruction)
Operands = dict[str, Cell]


class Meant(NamedTuple):
    """The table that a name means; `note` says so where several fragments share it."""

    cell: Cell
    note: str | None = None


def joined(given: Sequence[str]) -> tuple[str, ...]:
    """Names of a command line: one, where any of them is a bare word such as f32, and else each for itself."""
    bare = any(re.fullmatch(r"\w+", name) and not re.match(r"sm\d+_", name, re.I) for name in given)
    together = bare and len(given) > 1 and not set(given) <= set(inventory.families())
    return (" ".join(given),) if together else tuple(given)


def meant(name: str, arch_name: str | None, layers: Layers) -> Meant:
    """The table that all fragments which `name` may mean share on an arch, which is named or the one that counts most.

    Of those that an arch lacks, where it is named, none counts. UsageError where there is no table, or several.
    """
    with suppress(KeyError, ValueError):
        return Meant(cell(inventory.fragment(shorthand.short(name)), arch_name, layers))
    candidates = _on(_candidates(name, layers, by_name.candidates), arch_name)
    if len(candidates) == 1:
        return Meant(cell(candidates[0], arch_name, layers))
    tables = _tables(candidates, lambda fragment: {fragment.operand: cell(fragment, arch_name, layers)})
    first = _agreed(name, "fragments", tables)
    return Meant(next(iter(tables[first].values())), _note(name, "fragments", tables))


def multiply(name: str, arch_name: str | None, layers: Layers) -> tuple[Instruction, Operands, str | None]:
    """The multiply that `name` means, its tables, and a note where several multiplies share all of them."""
    if shorthand.short(name) in inventory.instructions():
        row = by_name.multiply(name)
        return row, operands(row, arch_name, layers), None
    rows = [row for row in _candidates(name, layers, by_name.instruction_candidates) if row.multiplies_registers]
    rows = _on(rows or [by_name.multiply(name)], arch_name)
    if len(rows) == 1:
        return rows[0], operands(rows[0], arch_name, layers), None
    tables = _tables(rows, lambda row: operands(row, arch_name, layers))
    first = _agreed(name, "multiplies", tables)
    return inventory.instructions()[first], tables[first], _note(name, "multiplies", tables)


def chosen(patterns: Sequence[str], arch_name: str | None, layers: Layers) -> tuple[list[Fragment], list[str]]:
    """Fragments of names, which must mean one table each, and of patterns and instructions; and notes on the names."""
    fragments, notes = [], []
    for pattern in joined(patterns):
        try:
            fragments += lookup.chosen((pattern,))
        except UsageError:
            on = None if arch_name == "all" else arch_name
            whole, note = _whole(pattern, on, layers)
            if whole:
                fragments += whole
                notes += [note] if note else []
                continue
            one = meant(pattern, on, layers)
            fragments.append(one.cell.fragment)
            notes += [one.note] if one.note else []
    return list(dict.fromkeys(fragments)), notes


def _whole(name: str, arch_name: str | None, layers: Layers) -> tuple[list[Fragment], str | None]:
    """All operands of the instruction that a name means, or of the first of several that share all tables; and a note.

    None where it does not mean all operands, or where tables differ.
    """
    candidates = _candidates(name, layers, by_name.candidates)
    rows = [inventory.instructions().get(id_) for id_ in dict.fromkeys(f.experiment for f in candidates)]
    if [f.id for f in candidates] != [f.id for row in rows if row for f in row.fragments]:
        return [], None
    if len(rows) == 1:
        return candidates, None
    with suppress(UsageError):
        row, _, note = multiply(name, arch_name, layers)
        return list(row.fragments), note
    return [], None


def instructions(patterns: Sequence[str], layers: Layers) -> list[Instruction]:
    """The instructions that names and patterns mean, opcodes too; all without one."""
    if not patterns:
        return by_name.select_instructions()
    by_id: dict[str, Instruction] = {}
    for pattern in joined(patterns):
        if re.search(OPCODE, pattern):
            rows = _candidates(pattern, layers, by_name.instruction_candidates)
        else:
            rows = by_name.select_instructions(pattern)
        by_id |= {row.id: row for row in rows}
    return list(by_id.values())


def like(name: str, layers: Layers) -> list[Fragment]:
    """Every fragment that a name may mean."""
    return _candidates(name, layers, by_name.candidates)


def _candidates(name: str, layers: Layers, by_name: Callable[[str], list[T]]) -> list[T]:
    """What a name may mean; an opcode in it stands for the multiplies that become it alone."""
    opcode = re.search(OPCODE, name)
    if not opcode:
        return by_name(name)
    rest, ids = re.sub(OPCODE, " ", name), _becoming(opcode[0].lower(), layers)
    if not ids:
        raise _no_multiply_becomes(opcode[0], layers)
    candidates: list[T] = []
    for id_ in ids:
        with suppress(UsageError):
            candidates += by_name(f"{id_} {rest}" if rest.strip() else id_)
    if not candidates:
        raise UsageError(f"{quoted(name)}: {ids[0]} becomes this, and it has nothing called {quoted(rest.strip())}.")
    return candidates


def _becoming(opcode: str, layers: Layers) -> list[str]:
    """Ids of multiplies of the opcode's shape that become it, once, on any arch; of a beginning of it if none does."""
    becomes = {
        id_: next(iter(body["opcodes"]))
        for row in arch.ARCHS
        for lowerings, _ in layers.lowerings(row.name)
        for id_, body in lowerings["instructions"].items()
        if list(body["opcodes"].values()) == [1] and _same_shape(id_, next(iter(body["opcodes"])))
    }
    exact = [id_ for id_, name in becomes.items() if name.lower() == opcode]
    return exact or [id_ for id_, name in becomes.items() if name.lower().startswith(f"{opcode}.")]


def _no_multiply_becomes(opcode: str, layers: Layers) -> UsageError:
    """An opcode that no multiply becomes alone: a part of some, or unknown."""
    parts = [
        id_
        for row in arch.ARCHS
        for body, _ in layers.lowerings(row.name)
        for id_, lowering in body["instructions"].items()
        if any(name.lower().startswith(opcode.lower()) for name in lowering["opcodes"])
    ]
    if parts:
        some = lookup.some(list(dict.fromkeys(parts)), 2)
        return UsageError(f"{quoted(opcode)} is only a part of what {some} become: name one of these.")
    return UsageError(f"no multiply is known to become {quoted(opcode)}. `tcprobe lower` lists what they become.")


def _same_shape(id_: str, opcode: str) -> bool:
    row = inventory.instructions().get(id_)
    shape = next((part for part in opcode.split(".")[1:] if part[:1].isdigit()), "")
    return row is not None and "".join(map(str, row.shape)) == shape.replace("x", "")


def _on(candidates: list[T], arch_name: str | None) -> list[T]:
    """Those that the arch has, where one is named; all if it has none of them."""
    if arch_name in (None, "all"):
        return candidates
    device = arch.arch(arch_name or "")
    return [one for one in candidates if one.target.on(device)] or candidates


def _tables(candidates: Sequence[T], of: Callable[[T], Operands]) -> dict[str, Operands]:
    """The tables of each candidate that has some, by id; UsageError where none has, or there are too many."""
    if len(candidates) > MOST:
        raise UsageError(
            f"that may mean {len(candidates)} things, for example {candidates[0].id}. Say more of the name."
        )
    tables: dict[str, Operands] = {}
    error: UsageError | None = None
    for one in candidates:
        try:
            tables[one.id] = of(one)
        except UsageError as reason:
            error = error or reason
    if not tables:
        raise error or UsageError("nothing of that name has a table.")
    return tables


def _agreed(name: str, kind: str, tables: dict[str, Operands]) -> str:
    """The candidate that answers for all, a measured one if there is; UsageError where their tables differ."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for id_, cells in tables.items():
        groups.setdefault(tuple(map(_map, cells.values())), []).append(id_)
    if len(groups) > 1:
        listed = "; ".join(lookup.some(ids, 1) for ids in [*groups.values()][:6]) + ("; ..." if len(groups) > 6 else "")
        words = f"{name!r} means {len(tables)} {kind} with {len(groups)} different tables: {listed}"
        raise UsageError(f"{words}. Say more of the name.")
    return next((id_ for id_, cells in tables.items() if all(c.measured for c in cells.values())), next(iter(tables)))


def _map(one: Cell) -> tuple[object, ...]:
    return one.table.id, one.fragment.slot_bits, one.fragment.register_bits


def _note(name: str, kind: str, tables: dict[str, Operands]) -> str:
    names, archs = list(tables), dict.fromkeys(c.arch for cells in tables.values() for c in cells.values())
    where = f" on {', '.join(archs)}" if len(archs) < 3 else ""
    return f"{name!r} means {len(names)} {kind}, all with this table{where}: {lookup.some(names, 4)}"
