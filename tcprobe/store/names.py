"""Which table a name means: one fragment's, or that which all its candidates share; opcodes of machine code as well.

>>> from tcprobe.store.choose import layers
>>> from tcprobe.store.names import find_cell
>>> found = find_cell("accumulator wmma 16x16x16 float", "v100", layers(None))
>>> found.cell.arch, found.note
('sm_70', "'accumulator wmma 16x16x16 float' matches 2 fragments, all with this table on sm_70: wmma.m16n16k16.c.f32, \
wmma.m16n16k16.d.f32")
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tcprobe.errors import AmbiguousError, UsageError
from tcprobe.isa import arch, inventory, names
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import Meaning, likely
from tcprobe.isa.names.words import read
from tcprobe.notation import is_written
from tcprobe.store import choose
from tcprobe.store.cell import Cell, find, find_operands, no_table, operands
from tcprobe.store.choose import Layers
from tcprobe.text import quoted

MOST = 400  # candidates that are compared
MOST_CHOICES = 6
OPCODE = r"(?i)\b[HIBDQO]MMA(?:\.S[PF])*\.[0-9][\w.]*"
T = TypeVar("T", Fragment, Instruction)
OperandCells = dict[str, Cell]


class NamedCell(NamedTuple):
    """The table that a name means; `note` says so where several fragments share it."""

    cell: Cell
    note: str | None = None


def resolve(name: str, layers: Layers) -> Meaning:
    """What a name means; an opcode in it stands for the multiplies that become it alone."""
    opcode = re.search(OPCODE, name)
    if not opcode:
        return names.resolve(name)
    rest, ids = re.sub(OPCODE, " ", name).strip(), _becoming(opcode[0].lower(), layers)
    if not ids:
        raise _no_multiply_becomes(opcode[0], layers)
    meaning = names.resolve(name, *(f"{id_} {rest}".strip() for id_ in ids))
    if not (meaning.fragments or meaning.instructions):
        raise UsageError(f"{quoted(name)}: {ids[0]} compiles to this opcode and has no operand {quoted(rest)}.")
    return meaning


def find_cell(name: str, arch_name: str | None, layers: Layers) -> NamedCell:
    """The table that all fragments which `name` may mean share on an arch, which is named or the one that counts most.

    Of those that an arch lacks, where it is named, none counts. UsageError where there is no table, or several.
    """
    if is_written(name):
        from tcprobe.store import written

        return NamedCell(*written.find_cell(name, arch_name, layers))
    candidates = _on(resolve(name, layers).some_fragments, arch_name)
    tables = _tables(name, candidates, lambda row: {row.operand: f} if (f := find(row, arch_name, layers)) else None)
    if tables:
        first, note = _common_candidate(name, "fragments", tables)
        cell = next(iter(tables[first].values()))
        return NamedCell(cell, None if _says_type(name, cell.fragment) or len(candidates) < 2 else note)
    raise no_table(candidates[0], arch_name, layers)


def _says_type(name: str, fragment: Fragment) -> bool:
    """Say that f16, which stands alone in a name, was taken for the type of C and D, where there are sums of f32 too;
    whether anybody heard that.
    """
    reading = read(name)
    if (
        fragment.operand not in ("c", "d")
        or reading.dotted
        or [w for w in reading.words if w in ("f16", "f32")] != ["f16"]
    ):
        return False
    of_f32 = (re.sub(r"f16(\.f16\.f16)(?:(\.)f16)?$", r"f32\1\2", id_) for id_ in inventory.user_ids(fragment.id))
    wider = any(id_ + "f32" * id_.endswith(".") in inventory.instructions() for id_ in of_f32)
    return fragment.type == "f16" and wider and likely.say(fragment.id, ["f32"])


def multiply(name: str, arch_name: str | None, layers: Layers) -> tuple[Instruction, OperandCells, str | None]:
    """The multiply that `name` means, its tables, and a note where several multiplies share all of them."""
    rows = _on(resolve(name, layers).some_multiplies, arch_name)
    tables = _tables(name, rows, lambda row: find_operands(row, arch_name, layers)) if len(rows) > 1 else {}
    if not tables:
        return rows[0], operands(rows[0], arch_name, layers), None
    first, note = _common_candidate(name, "multiplies", tables)
    return inventory.instructions()[first], tables[first], note


def choose_fragments(
    patterns: Sequence[str], arch_name: str | None, layers: Layers
) -> tuple[list[Fragment], list[str]]:
    """Fragments of patterns, which may mean many, and of names, which must mean one table or one instruction's; and
    notes on the names.
    """
    at = None if arch_name == "all" else arch_name
    chosen: dict[Fragment, None] = {}
    notes: list[str | None] = []
    for name in patterns:
        if is_written(name):
            from tcprobe.store import written

            made, note = written.choose(name, at, layers)
            chosen |= dict.fromkeys(made)
            notes.append(note)
            continue
        meaning = resolve(name, layers)
        fragments = meaning.some_fragments
        if len(fragments) > 1 and not any(c in name for c in "*?[") and len(rows := meaning.instructions) != 1:
            if rows and all(row.multiplies_registers for row in rows):
                row, _, note = multiply(name, at, layers)
                fragments = [inventory.fragment(fragment.id) for fragment in row.fragments]
            elif not read(name).operand and (id_ := likely.likeliest(name, [[row.id] for row in rows])):
                fragments, note = [inventory.fragment(f.id) for f in inventory.instructions()[id_].fragments], None
            else:
                cell, note = find_cell(name, at, layers)
                fragments = [cell.fragment]
            notes.append(note)
        chosen |= dict.fromkeys(fragments)
    return list(chosen), [note for note in notes if note]


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
        some = choose.some(list(dict.fromkeys(parts)), 2)
        return UsageError(
            f"{quoted(opcode)} is only one of the opcodes that {some} compile to: name one of these instead."
        )
    return UsageError(f"no known multiply compiles to {quoted(opcode)}.", "opcodes")


def _same_shape(id_: str, opcode: str) -> bool:
    row = inventory.instructions().get(id_)
    shape = next((part for part in opcode.split(".")[1:] if part[:1].isdigit()), "")
    return row is not None and "".join(map(str, row.shape)) == shape.replace("x", "")


def _on(candidates: Sequence[T], arch_name: str | None) -> Sequence[T]:
    """Those that the arch has, where one is named; all if it has none of them."""
    if arch_name in (None, "all"):
        return candidates
    device = arch.arch(arch_name or "")
    return [row for row in candidates if row.target.on(device)] or candidates


def _tables(name: str, candidates: Sequence[T], of: Callable[[T], OperandCells | None]) -> dict[str, OperandCells]:
    """The tables of each candidate that has some, by id; AmbiguousError where there are too many candidates."""
    if len(candidates) > MOST:
        ids = [row.id for row in candidates]
        if chosen := likely.likeliest(name, [[id_] for id_ in ids]):
            return {row.id: tables for row in candidates if row.id == chosen and (tables := of(row))}
        words = f"{quoted(name)} matches {len(ids)} names, for example {ids[0]}."
        raise AmbiguousError(words, name, ids[:MOST_CHOICES])
    return {row.id: tables for row in candidates if (tables := of(row))}


def _common_candidate(name: str, kind: str, by_id: dict[str, OperandCells]) -> tuple[str, str | None]:
    """The candidate that answers for all, a measured one if there is, and a note on the others; where their tables
    differ the one that people mean, or AmbiguousError.
    """
    groups: dict[tuple[object, ...], list[str]] = {}
    for id_, cells in by_id.items():
        maps = [(c.table.id, c.fragment.slot_bits, c.fragment.register_bits) for c in cells.values()]
        groups.setdefault(tuple(maps), []).append(id_)
    if len(groups) > 1:
        if chosen := likely.likeliest(name, list(groups.values())):
            return chosen, None
        listed = "; ".join(
            f"{choose.some(ids, 1)} ({_registers(by_id[ids[0]])})" for ids in [*groups.values()][:MOST_CHOICES]
        )
        more = "; ..." if len(groups) > MOST_CHOICES else ""
        words = f"{name!r} matches {len(by_id)} {kind} with {len(groups)} different tables: {listed}{more}."
        raise AmbiguousError(words, name, [ids[0] for ids in groups.values()][:MOST_CHOICES])
    first = next((id_ for id_, cells in by_id.items() if all(c.measured for c in cells.values())), next(iter(by_id)))
    return first, _note(name, kind, by_id)


def _registers(cells: OperandCells) -> str:
    """How many registers a thread has of each operand: A 4, B 2, D 4 registers; 128 registers of a single one."""
    counts = [f"{operand.upper()} {cell.fragment.registers}" for operand, cell in cells.items()]
    several = ", ".join(counts) if len(counts) > 1 else counts[0].rpartition(" ")[2]
    return f"{several} register{'s' * (several != '1')}"


def _note(name: str, kind: str, by_id: dict[str, OperandCells]) -> str:
    ids, archs = list(by_id), dict.fromkeys(c.arch for cells in by_id.values() for c in cells.values())
    where = f" on {', '.join(archs)}" if len(archs) < 3 else ""
    return f"{name!r} matches {len(ids)} {kind}, all with this table{where}: {choose.some(ids, 4)}"
