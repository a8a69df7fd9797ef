"""Judges packages' layouts by the tables: slot by slot, and for multiplies by the structure tensor.

Rows, columns and k of a multiply are numbered by convention: layouts of A, B and D that differ from the table agree
nevertheless if together they predict the measured structure tensor. Differences are blamed on the fewest operands that
explain them. A single layout that differs by its numbering only is not covered, since its partners may differ alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, conventional, same_but_renumbered
from tcprobe.ask.diagnosis import FIRST
from tcprobe.audit.no_form import refusal
from tcprobe.audit.statement import Statement
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import holder_name
from tcprobe.isa.operand import MULTIPLIED
from tcprobe.layout.structure import agreement, predict
from tcprobe.layout.table import Table, slot_table
from tcprobe.store.cell import Cell, find, selection
from tcprobe.store.choose import Layers
from tcprobe.values import Json


@dataclass(frozen=True)
class Ruling:
    """`differ` of `compared` slots are stated otherwise, `first` shows some; `cell` is the table that counts, if any.

    `refused` has ptxas's words if there is no such form; `proven`: the other operands of the multiply were judged too.
    """

    statement: Statement
    verdict: str
    words: str
    differ: int = 0
    compared: int = 0
    first: tuple[str, ...] = ()
    cell: Cell | None = None
    refused: str = ""
    proven: bool = False

    def to_json(self) -> Json:
        """Plain data."""
        statement, cell = self.statement, self.cell
        return {
            "name": statement.name,
            "fragment": statement.fragment or None,
            "verdict": self.verdict,
            "differ": self.differ,
            "of": self.compared,
            "words": self.words,
            "first": list(self.first),
            "arch": cell.arch if cell else None,
            "layout_id": cell.table.id if cell else None,
            "evidence": cell.evidence if cell else self.refused or None,
        }


def judge_statements(statements: Sequence[Statement], layers: Layers) -> list[Ruling]:
    """A ruling for each statement, in order."""
    rulings = [_judge_alone(statement, layers) for statement in statements]
    by_atom: defaultdict[str, list[int]] = defaultdict(list)
    for number, statement in enumerate(statements):
        if statement.atom:
            by_atom[statement.atom].append(number)
    for numbers in by_atom.values():
        for number, ruling in zip(numbers, _judge_multiply([rulings[n] for n in numbers]), strict=True):
            rulings[number] = ruling
    return [_without_conventions(ruling) for ruling in rulings]


def _judge_alone(statement: Statement, layers: Layers) -> Ruling:
    """The ruling on a statement alone, slot by slot."""
    if statement.reason:
        return Ruling(statement, NOT_COVERED, statement.reason)
    fragment = inventory.find(statement.fragment)
    if fragment is None:
        return (
            refused
            if (refused := _no_such_form(statement))
            else Ruling(statement, NOT_COVERED, "tcprobe has no such fragment")
        )
    try:
        cell = find(fragment, statement.arch or None, layers)
        if cell is None:
            return Ruling(statement, NOT_COVERED, "nobody measured it")
        cell = selection(cell, statement.selector)
        ours, theirs = expected_table(cell.table, statement), statement.table
    except (DataError, UsageError) as error:
        return Ruling(statement, NOT_COVERED, str(error))
    if (theirs.threads, theirs.elements) != (ours.threads, ours.elements):
        words = f"it has {theirs.threads} x {theirs.elements} slots, the fragment {ours.threads} x {ours.elements}"
        return Ruling(statement, NOT_COVERED, words, cell=cell)
    return _judge_by_slot(statement, cell, theirs, ours)


def _judge_by_slot(statement: Statement, cell: Cell, theirs: Table, ours: Table) -> Ruling:
    pairs = list(enumerate(zip(theirs.cells, ours.cells, strict=True)))
    partly = (
        any(claimed is None for _, (claimed, _) in pairs) and statement.selector is None and len(set(theirs.held)) > 1
    )
    wrong = [
        slot
        for slot, (claimed, measured) in pairs
        if claimed != _first_two(measured) and not (partly and claimed is None)
    ]
    compared = sum(claimed is not None for _, (claimed, _) in pairs)
    if not wrong:
        return Ruling(statement, CONFIRMED, f"{compared} of {compared} slots agree", 0, compared, cell=cell)
    first = tuple(_slot(theirs, ours, slot) for slot in wrong[:FIRST])
    outside = sum(_outside(place, ours) for place in theirs.cells)
    words = f"{len(wrong)} of {compared} slots differ"
    words += f", {outside} of {compared} outside the matrix" if outside else ""
    return Ruling(statement, DIFFERS, words, len(wrong), compared, first, cell)


def _outside(slot_place: tuple[int, ...] | None, ours: Table) -> bool:
    return slot_place is not None and any(
        value >= ours.extent[name] for value, name in zip(slot_place, ("row", "col"), strict=True)
    )


def _first_two(slot_place: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if slot_place is None else slot_place[:2]


def _slot(theirs: Table, ours: Table, slot: int) -> str:
    thread, i = divmod(slot, theirs.elements)
    claimed, measured = theirs.cells[slot], _first_two(ours.cells[slot])
    places = f"stated {_place_text(claimed)}, measured {_place_text(measured)}"
    return f"{holder_name(thread, theirs.threads)} i {i}: {places}"


def _place_text(slot_place: tuple[int, ...] | None) -> str:
    return "nothing" if slot_place is None else str(list(slot_place))


def expected_table(table: Table, statement: Statement) -> Table:
    """The table of several warps with a band of rows each (of B all the same), and of multiplies side by side in n."""
    if statement.bands == statement.across == 1:
        return table
    if not (0 < statement.bands <= 4 and 0 < statement.across <= 64):
        raise DataError(f"{statement.name}: {statement.bands} bands and {statement.across} multiplies side by side.")
    places = _repeat_places(table, statement)
    values = {"row": tuple(place[0] for place in places), "col": tuple(place[1] for place in places)}
    return slot_table(statement.bands * table.threads, statement.across * table.elements, values)


def _repeat_places(table: Table, statement: Statement) -> list[tuple[int, int]]:
    """The places of all slots: of each band the threads, of each thread its elements of every multiply."""
    cols = table.extent["col"]
    step = 0 if statement.fragment.endswith(".b") else table.extent["row"]
    places: list[tuple[int, int]] = []
    for band in range(statement.bands):
        for thread in range(table.threads):
            own = table.cells[thread * table.elements :][: table.elements]
            for block in range(statement.across):
                places += [(place[0] + band * step, place[1] + block * cols) for place in own if place is not None]
    return places


def _judge_multiply(rulings: Sequence[Ruling]) -> list[Ruling]:
    """The rulings on one multiply: operands agree if together they predict the measured structure tensor."""
    if rulings[0].refused:
        return [rulings[0], *(replace(r, verdict=NOT_COVERED, differ=0, compared=0) for r in rulings[1:])]
    by_name = {r.statement.fragment.rpartition(".")[2]: r for r in rulings if r.cell}
    differing = [operand for operand, ruling in by_name.items() if ruling.verdict == DIFFERS]
    if not differing or not set(MULTIPLIED) <= set(by_name) or not all(map(_is_whole_multiply, by_name.values())):
        return list(rulings)
    guilty = _fewest_guilty(by_name, differing)
    cleared = [operand for operand in differing if operand not in guilty]
    words = "rows, columns or k are numbered differently; the structure tensor is the measured one"
    innocent = {
        id(by_name[operand]): replace(by_name[operand], verdict=CONFIRMED, words=words, differ=0, first=())
        for operand in cleared
    }
    return [innocent.get(id(ruling), replace(ruling, proven=True)) for ruling in rulings]


def _is_whole_multiply(ruling: Ruling) -> bool:
    statement = ruling.statement
    return statement.bands == statement.across == 1 and None not in statement.cells


def _fewest_guilty(by_operand: Mapping[str, Ruling], differing: Sequence[str]) -> Sequence[str]:
    """The fewest operands that must be replaced by the measured tables to predict the measured structure tensor."""
    row = inventory.instructions()[inventory.fragment(by_operand["a"].statement.fragment).experiment]
    measured = {operand: _table(by_operand[operand]) for operand in MULTIPLIED}
    for count in range(len(differing)):
        for blamed in combinations(differing, count):
            tables = {o: measured[o] if o in blamed else by_operand[o].statement.table for o in MULTIPLIED}
            if agreement(row, predict(row, measured), tables).total:
                return blamed
    return differing


def _table(ruling: Ruling) -> Table:
    assert ruling.cell is not None
    return ruling.cell.table


def _without_conventions(ruling: Ruling) -> Ruling:
    """The ruling; not covered if only a numbering without anchor differs, or the table is documented, not measured."""
    if ruling.verdict != DIFFERS or ruling.cell is None:
        return ruling
    words = ""
    if ruling.cell.measured is None:
        words = f"{ruling.words}, but the table is documented only"
    elif conventional(ruling.cell.fragment) and not ruling.proven:
        statement = ruling.statement
        if same_but_renumbered(statement.table, expected_table(ruling.cell.table, statement)):
            words = f"{ruling.words}: rows, columns or k are numbered differently, and those of its partners may be too"
    return replace(ruling, verdict=NOT_COVERED, words=words, differ=0, first=()) if words else ruling


def _no_such_form(statement: Statement) -> Ruling | None:
    """The ruling that there is no such form, if that is certain."""
    words = refusal(statement.fragment.rpartition(".")[0])
    if words is None:
        return None
    compared = sum(place is not None for place in statement.cells)
    return Ruling(statement, DIFFERS, "there is no such instruction", compared, compared, refused=words)


def findings(rulings: Sequence[Ruling]) -> Iterator[Ruling]:
    """What differs."""
    return (ruling for ruling in rulings if ruling.verdict == DIFFERS)
