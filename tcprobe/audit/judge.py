"""What packages state against the tables: slot by slot, and for multiplies by the structure tensor.

Rows, columns and k of a multiply are numbered by convention: layouts of A, B and D that differ from the table agree
all the same where together they predict the measured structure tensor. What differs is blamed on the fewest operands
that explain it. A layout that stands alone and only numbers otherwise is not covered, for its partner may too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from tcprobe.ask.against import same_but_renumbered
from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, conventional
from tcprobe.ask.diagnosis import FIRST
from tcprobe.audit.no_form import refusal
from tcprobe.audit.statement import Statement
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import holder_name
from tcprobe.layout.structure import agreement, predict
from tcprobe.layout.table import Table, slot_table
from tcprobe.store.cell import Cell, find, selection
from tcprobe.store.choose import Layers
from tcprobe.values import Json

MULTIPLIED = "abd"


@dataclass(frozen=True)
class Ruling:
    """`differ` of `of` slots are stated otherwise, `first` shows some; `cell` is the table that counts, if any.

    `refused` has ptxas's words where what differs is that there is no such form; `proven` says that the operands beside
    it were looked at too.
    """

    statement: Statement
    verdict: str
    words: str
    differ: int = 0
    of: int = 0
    first: tuple[str, ...] = ()
    cell: Cell | None = None
    refused: str = ""
    proven: bool = False

    def to_json(self) -> Json:
        """Plain data."""
        one, cell = self.statement, self.cell
        return {
            "name": one.name,
            "fragment": one.fragment or None,
            "verdict": self.verdict,
            "differ": self.differ,
            "of": self.of,
            "words": self.words,
            "first": list(self.first),
            "arch": cell.arch if cell else None,
            "layout_id": cell.table.id if cell else None,
            "evidence": cell.evidence if cell else self.refused or None,
        }


def judged(statements: Sequence[Statement], layers: Layers) -> list[Ruling]:
    """A ruling for each statement, in order."""
    rulings = [_alone(one, layers) for one in statements]
    by_atom: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(statements):
        if one.atom:
            by_atom[one.atom].append(number)
    for numbers in by_atom.values():
        for number, ruling in zip(numbers, _together([rulings[n] for n in numbers]), strict=True):
            rulings[number] = ruling
    return [_certain(ruling) for ruling in rulings]


def _alone(statement: Statement, layers: Layers) -> Ruling:
    """Slot by slot."""
    if statement.reason:
        return Ruling(statement, NOT_COVERED, statement.reason)
    fragment = inventory.find(statement.fragment)
    if fragment is None:
        return (
            refused
            if (refused := _unknown(statement))
            else Ruling(statement, NOT_COVERED, "tcprobe has no such fragment")
        )
    try:
        cell = find(fragment, statement.arch or None, layers)
        if cell is None:
            return Ruling(statement, NOT_COVERED, "nobody measured it")
        cell = selection(cell, statement.selector)
        wanted, given = expected(cell.table, statement), statement.table
    except (DataError, UsageError) as error:
        return Ruling(statement, NOT_COVERED, str(error))
    if (given.threads, given.elements) != (wanted.threads, wanted.elements):
        words = f"it has {given.threads} x {given.elements} slots, the fragment {wanted.threads} x {wanted.elements}"
        return Ruling(statement, NOT_COVERED, words, cell=cell)
    return _by_slot(statement, cell, given, wanted)


def _by_slot(statement: Statement, cell: Cell, theirs: Table, ours: Table) -> Ruling:
    pairs = list(enumerate(zip(theirs.cells, ours.cells, strict=True)))
    partly = (
        any(stated is None for _, (stated, _) in pairs) and statement.selector is None and len(set(theirs.held)) > 1
    )
    wrong = [slot for slot, (stated, held) in pairs if stated != _first_two(held) and not (partly and stated is None)]
    of = sum(stated is not None for _, (stated, _) in pairs)
    if not wrong:
        return Ruling(statement, CONFIRMED, f"{of} of {of} slots agree", 0, of, cell=cell)
    first = tuple(_slot(theirs, ours, slot) for slot in wrong[:FIRST])
    outside = sum(_outside(at, ours) for at in theirs.cells)
    words = f"{len(wrong)} of {of} slots differ"
    words += f", {outside} of {of} outside the matrix" if outside else ""
    return Ruling(statement, DIFFERS, words, len(wrong), of, first, cell)


def _outside(slot_place: tuple[int, ...] | None, ours: Table) -> bool:
    return slot_place is not None and any(
        value >= ours.extent[name] for value, name in zip(slot_place, ("row", "col"), strict=True)
    )


def _first_two(slot_place: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if slot_place is None else slot_place[:2]


def _slot(theirs: Table, ours: Table, slot: int) -> str:
    thread, i = divmod(slot, theirs.elements)
    stated, held = theirs.cells[slot], _first_two(ours.cells[slot])
    return f"{holder_name(thread, theirs.threads)} i {i}: stated {_said(stated)}, measured {_said(held)}"


def _said(slot_place: tuple[int, ...] | None) -> str:
    return "nothing" if slot_place is None else str(list(slot_place))


def expected(table: Table, statement: Statement) -> Table:
    """The table of several warps with a band of rows each (of B all the same), and of multiplies side by side in n."""
    if statement.bands == statement.across == 1:
        return table
    if not (0 < statement.bands <= 4 and 0 < statement.across <= 64):
        raise DataError(f"{statement.name}: {statement.bands} bands and {statement.across} multiplies side by side.")
    held = _repeated(table, statement)
    values = {"row": tuple(at[0] for at in held), "col": tuple(at[1] for at in held)}
    return slot_table(statement.bands * table.threads, statement.across * table.elements, values)


def _repeated(table: Table, statement: Statement) -> list[tuple[int, int]]:
    """The places of all slots: of each band the threads, of each thread its elements of every multiply."""
    cols = table.extent["col"]
    step = 0 if statement.fragment.endswith(".b") else table.extent["row"]
    held: list[tuple[int, int]] = []
    for band in range(statement.bands):
        for thread in range(table.threads):
            own = table.cells[thread * table.elements :][: table.elements]
            for block in range(statement.across):
                held += [(at[0] + band * step, at[1] + block * cols) for at in own if at is not None]
    return held


def _together(rulings: Sequence[Ruling]) -> list[Ruling]:
    """The operands of one multiply that differ, unless together they predict the measured structure tensor."""
    if rulings[0].refused:
        return [rulings[0], *(replace(r, verdict=NOT_COVERED, differ=0, of=0) for r in rulings[1:])]
    of = {r.statement.fragment.rpartition(".")[2]: r for r in rulings if r.cell}
    differing = [operand for operand, ruling in of.items() if ruling.verdict == DIFFERS]
    if not differing or not set(MULTIPLIED) <= set(of) or not all(_simple(ruling) for ruling in of.values()):
        return list(rulings)
    guilty = _fewest(of, differing)
    cleared = [operand for operand in differing if operand not in guilty]
    words = "rows, columns or k are numbered differently; the structure tensor is the measured one"
    innocent = {
        id(of[operand]): replace(of[operand], verdict=CONFIRMED, words=words, differ=0, first=()) for operand in cleared
    }
    return [innocent.get(id(ruling), replace(ruling, proven=True)) for ruling in rulings]


def _simple(ruling: Ruling) -> bool:
    one = ruling.statement
    return one.bands == one.across == 1 and None not in one.cells


def _fewest(by_operand: Mapping[str, Ruling], differing: Sequence[str]) -> Sequence[str]:
    """The fewest operands with whose measured tables the stated others predict the measured structure tensor."""
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


def _certain(ruling: Ruling) -> Ruling:
    """What differs only by a numbering that nothing anchors, or from what nobody measured, is not covered."""
    if ruling.verdict != DIFFERS or ruling.cell is None:
        return ruling
    words = ""
    if ruling.cell.measured is None:
        words = f"{ruling.words}, but the table is documented only"
    elif conventional(ruling.cell.fragment) and not ruling.proven:
        one = ruling.statement
        if same_but_renumbered(one.table, expected(ruling.cell.table, one)):
            words = f"{ruling.words}: rows, columns or k are numbered differently, and those of its partners may be too"
    return replace(ruling, verdict=NOT_COVERED, words=words, differ=0, first=()) if words else ruling


def _unknown(statement: Statement) -> Ruling | None:
    """That there is no such form, where it is certain."""
    words = refusal(statement.fragment.rpartition(".")[0])
    if words is None:
        return None
    of = sum(at is not None for at in statement.cells)
    return Ruling(statement, DIFFERS, "there is no such instruction", of, of, refused=words)


def findings(rulings: Sequence[Ruling]) -> Iterator[Ruling]:
    """What differs."""
    return (ruling for ruling in rulings if ruling.verdict == DIFFERS)
