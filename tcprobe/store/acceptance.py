"""What a document must say to be accepted, besides being whole: the shape of each kind, and tables that can be true.

A checksum only shows that nobody changed a file by accident. A table is accepted for a fragment only if it can belong
to it: as many threads and elements, every element of the matrix there, held as often as the slots allow. Of addresses
every row is there, given by one lane; code alone does not always show by which, and then there is no table of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch, inventory
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS, MULTIPLIED, Role
from tcprobe.layout.table import Axis, Space, Table, Tables
from tcprobe.layout.table import slots as lanes_and_slots
from tcprobe.store.finding import METHODS, STATUSES, Measurement, provenance_in
from tcprobe.values import Json

MOST_OPCODES = 1 << 20  # of the code of one instruction
WITH_STRUCTURE = ("live", "emulated")  # methods that run a multiply, and so see its structure tensor
_KEYS = {
    "experiment",
    "arch",
    "method",
    "status",
    "provenance",
    "fragments",
    "numbering",
    "structure",
    "unread",
    "words",
}
_LAYOUT = r"[0-9a-f]{12}"
_OPERAND = r"[a-z][a-z_]{0,15}"
_SHA256 = r"[0-9a-f]{64}"
_OPCODE = r"[A-Z][A-Za-z0-9_.]*"
_ROUTINE = r"[A-Za-z0-9_]{1,200}"
_INSTRUCTION = r"[a-z][a-z0-9]*\.[a-zA-Z0-9_.:]+"


def measurement(body: Json) -> None:
    """DataError unless `body` has the keys and kinds of a measurement, and those that its status calls for."""
    if set(body) != _KEYS or body["status"] not in STATUSES or body["method"] not in METHODS:
        raise DataError("its keys, status or method are not those of a measurement.")
    provenance_in(body["provenance"])
    fragments, structure = body["fragments"], body["structure"]
    if not _all(_OPERAND, {*fragments, *body["unread"]}) or not _all(_LAYOUT, fragments.values()):
        raise DataError("fragments and unread need operands as keys, and fragments layouts as values.")
    if structure is not None and not _is_structure(structure):
        raise DataError("structure needs triples, a number above 0, and sha256.")
    if any(type(i) is not int for lanes in body["unread"].values() for lane in lanes for i in lane):
        raise DataError("unread holds something that is not a number.")
    if body["status"] == "measured":
        fits = fragments and body["words"] is None and isinstance(body["numbering"], str)
    else:
        nothing = not fragments and not structure and not body["unread"] and body["numbering"] is None
        fits = nothing and isinstance(body["words"], str)
    if not fits:
        raise DataError(f"status {body['status']} contradicts the rest of the measurement.")


def belongs(measured: Measurement) -> None:
    """DataError unless the tables, structure and unread slots of `measured` can be those of its experiment."""
    fragments = {fragment.operand: fragment for fragment in inventory.of_experiment(measured.experiment)}
    if not fragments:
        raise DataError(f"{measured.experiment} is not known to this tcprobe; a later version may have measured it.")
    if measured.status != "measured":
        return
    if absent := next((f for f in fragments.values() if not f.target.on(arch.arch(measured.arch))), None):
        raise DataError(f"{measured.arch} does not have {absent.id}, so it cannot have been measured there.")
    unsaid = {name for name, f in fragments.items() if f.role is Role.ADDRESS and measured.method == "derived"}
    if not set(fragments) - unsaid <= set(measured.tables) <= set(fragments):
        raise DataError(f"it needs the tables of {', '.join(fragments)}, not of {', '.join(sorted(measured.tables))}.")
    for operand, table in measured.tables.items():
        words = misfit(fragments[operand], table)
        if words:
            raise DataError(f"layout {table.id} cannot be that of {fragments[operand].id}: {words}.")
    row = inventory.instructions().get(measured.experiment)
    multiply = row if row and row.multiplies else None
    _check_structure(measured, multiply)
    for operand in measured.unread:
        _check_unread(measured, multiply, operand)


def misfit(fragment: Fragment, table: Table) -> str | None:
    """Why `table` cannot be that of `fragment`, None if it can: every element held `fragment.copies` times.

    Of metadata, whose table has the selector as an input, every unit of A is governed once under each selector.
    """
    if fragment.selectors:
        return _misfit_selected(fragment, table)
    # how many of each output there are: only rows of an address, products only where a warp holds several
    sizes = {"row": fragment.rows}
    if fragment.role is not Role.ADDRESS:
        sizes["col"] = fragment.cols
    if fragment.products > 1:
        sizes["product"] = fragment.products
    if (table.threads, table.elements) != (fragment.threads, fragment.elements):
        return (
            f"{table.threads} threads x {table.elements} elements, not {fragment.threads} threads x {fragment.elements}"
        )
    if table.outputs != tuple(sizes):
        return f"it gives {', '.join(table.outputs)} of a slot, not {', '.join(sizes)}"
    for name, size in sizes.items():
        if table.extent[name] > size:
            return f"{name} {table.extent[name] - 1} is outside 0 to {size - 1}"
    total = fragment.rows * fragment.cols * fragment.products
    if len(table.held) != total or table.copies != {fragment.copies}:
        held = sum(count == fragment.copies for count in table.held.values())
        return f"only {held} of {total} elements are held {fragment.copies} times; all must be"
    return None


def _misfit_selected(fragment: Fragment, table: Table) -> str | None:
    """`misfit` of an operand from which a selector selects."""
    lanes = lanes_and_slots(fragment.threads, fragment.elements)
    if table.space != Space((Axis("selector", len(fragment.selectors)), *lanes.axes)):
        sizes = " x ".join(f"{axis.size} {axis.name}s" for axis in table.space.axes)
        return f"{sizes}, not {len(fragment.selectors)} selectors x {fragment.threads} x {fragment.elements}"
    if table.outputs != ("row", "col"):
        return f"it gives {', '.join(table.outputs)} of a slot, not row, col"
    words = ((selector, _misfit_selection(fragment, table.selection(selector))) for selector in fragment.selectors)
    return next((f"under selector {selector} {why}" for selector, why in words if why), None)


def _misfit_selection(fragment: Fragment, table: Table) -> str | None:
    """`misfit` of the table of one selector: some lanes are not read, but every unit of A is governed once."""
    units = _units(fragment.rows, fragment.cols, fragment.span)
    if set(table.held) == units and table.copies == {1}:
        return None
    governed = sum(table.held[unit] == 1 for unit in units)
    return f"only {governed} of {len(units)} units are governed once; all must be"


@cache
def _units(rows: int, cols: int, span: int) -> frozenset[tuple[int, int]]:
    return frozenset((row, col) for row in range(rows) for col in range(0, cols, span))


def require_fit(fragment: Fragment, table: Table) -> None:
    """UsageError where `table` cannot be that of `fragment`: a formula or a drawing would say more than is known."""
    chosen = bool(fragment.selectors) and table.space.names[0] != "selector"
    words = _misfit_selection(fragment, table) if chosen else misfit(fragment, table)
    if words:
        raise UsageError(f"this cannot be a table of {fragment.id}: {words}.")


def opcodes(body: Json, arch_name: str) -> None:
    """DataError unless `body` is {"opcodes": {opcode: {"compiler", "layouts", "source"}}} of an arch."""
    row = arch.arch(arch_name)
    if set(body) != {"opcodes"}:
        raise DataError("its keys are not those of opcodes.")
    for opcode, saved in body["opcodes"].items():
        layouts = saved["layouts"]
        if not re.fullmatch(_OPCODE, opcode) or set(saved) != {"compiler", "layouts", "source"}:
            raise DataError(f"{opcode}: not an opcode with compiler, layouts and source.")
        if not {"a", "b", "d"} <= set(layouts) <= {"a", "b", "c", "d"} or not _all(_LAYOUT, layouts.values()):
            raise DataError(f"{opcode}: layouts need a, b and d, each a layout's id.")
        source = inventory.instructions().get(saved["source"])
        if not source or source.family != "wmma" or not source.target.on(row) or not isinstance(saved["compiler"], str):
            raise DataError(f"{opcode}: source is not a wmma.mma of {arch_name}, or compiler is not a text.")


def product(opcode: str, tables: Tables) -> None:
    """DataError unless the tables of a, b, d and (where it is there) c can be those of one multiply without copies."""
    a, b, d = (tables[operand].extent for operand in MULTIPLIED)
    counts = {operand: table.extent.get("product", 1) for operand, table in tables.items()}
    whole = all(t.copies == {1} and t.points == len(t.inverse) == _volume(t.extent) for t in tables.values())
    meet = (a["row"], a["col"], b["col"]) == (d["row"], b["row"], d["col"])
    if not whole or not meet or len(set(counts.values())) > 1 or tables.get("c", tables["d"]).extent != d:
        raise DataError(f"{opcode}: its layouts are not those of a product of whole matrices.")


def lowering(body: Json) -> None:
    """DataError unless `body` is {"compiler", "instructions": {id: {"opcodes": {opcode: count}, "others", "refused"}}}.

    There may be "routines" too, a list of names; earlier files have none. Instructions that this tcprobe does not know
    may be there: a later one knows more.
    """
    if set(body) != {"compiler", "instructions"} or not isinstance(body["compiler"], str):
        raise DataError("its keys are not those of a lowering.")
    for id_, saved in body["instructions"].items():
        fields = {"opcodes", "others", "refused", "routines"}
        if not re.fullmatch(_INSTRUCTION, id_) or set(saved) | {"routines"} != fields:
            raise DataError(f"{id_}: not an instruction with opcodes, others and refused.")
        if not isinstance(saved.get("routines", []), list) or not _all(_ROUTINE, saved.get("routines", [])):
            raise DataError(f"{id_}: routines are names.")
        counts, refused = saved["opcodes"], saved["refused"]
        if not _all(_OPCODE, counts) or not all(type(n) is int and 0 < n <= MOST_OPCODES for n in counts.values()):
            raise DataError(f"{id_}: opcodes need names, and counts from 1 to {MOST_OPCODES}.")
        if (
            type(saved["others"]) is not int
            or not 0 <= saved["others"] <= MOST_OPCODES
            or not isinstance(refused, str | None)
        ):
            raise DataError(f"{id_}: others is not a count, or refused is not a text.")
        if refused is not None and (counts or saved["others"]):
            raise DataError(f"{id_}: refused, but it has opcodes.")


def _is_structure(data: Json) -> bool:
    named = {"triples", "sha256"} <= set(data) <= {"triples", "sha256", "anchor"}
    whole = named and type(data["triples"]) is int and data["triples"] > 0
    return whole and _all(_SHA256, [value for name, value in data.items() if name != "triples"])


def _check_structure(measured: Measurement, instruction: Instruction | None) -> None:
    """A multiply forms every product of elements once; what moves elements has no structure tensor."""
    if measured.structure is None:
        if instruction and measured.method in WITH_STRUCTURE:
            raise DataError("a multiply's structure is missing.")
    elif instruction is None:
        raise DataError("it has the structure of a multiply, but is not one.")
    elif measured.structure.triples != instruction.triples:
        raise DataError(
            f"structure has {measured.structure.triples} triples; {instruction.id} forms {instruction.triples}."
        )


def _check_unread(measured: Measurement, instruction: Instruction | None, operand: str) -> None:
    """Slots of A or B of a multiply; of each element at least one holder is read."""
    if operand not in FACTORS or instruction is None:
        raise DataError(f"unread: {operand} is not a factor of a multiply.")
    table, lanes = measured.tables[operand], measured.unread[operand]
    elements = table.elements
    if len(lanes) != table.threads or not all(_ascending(lane, elements) for lane in set(lanes)):
        raise DataError(f"unread: {operand} needs {table.threads} lanes of ascending numbers below {elements}.")
    skipped = {lane * elements + i for lane, unread in enumerate(lanes) for i in unread}
    if any(skipped.issuperset(slots) for slots in table.inverse.values()):
        raise DataError(f"unread: some element of {operand} would have no holder that is read.")


def _ascending(numbers: Sequence[int], size: int) -> bool:
    return list(numbers) == sorted(set(numbers)) and all(0 <= n < size for n in numbers)


def _volume(side_lengths: Mapping[str, int]) -> int:
    return side_lengths["row"] * side_lengths["col"] * side_lengths.get("product", 1)


def _all(pattern: str, texts: Collection[object]) -> bool:
    return all(isinstance(text, str) and re.fullmatch(pattern, text) for text in texts)
