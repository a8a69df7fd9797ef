"""How sure a table is, counted over every measurement of its arch and every reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tcprobe.ask.compare import CONFIRMED, DIFFERS, verdicts
from tcprobe.ask.confidence import ORDER, UNMEASURED, Confidence, witnesses
from tcprobe.isa import inventory
from tcprobe.store.cell import Cell


def confidence(cell: Cell) -> Confidence:
    """In a table: counted over all measurements of the arch that the folders have.

    In the instruction's own, where the cell has a part of its fragment, or the same registers as other elements.
    """
    if cell.measured is None:
        return UNMEASURED
    fragment = inventory.find(cell.fragment.id) or cell.fragment
    whole = cell.measured.tables[fragment.operand]
    found = list(cell.layers.tables(fragment, [cell.arch]))
    alike = [one.measured for one in found if one.table(fragment) == whole]
    said = Counter(verdict.verdict for verdict in verdicts(fragment, cell.measured))
    return Confidence(
        len({m.method for m in alike}),
        len(witnesses(alike, live=True)),
        len(witnesses(alike, live=False)),
        len(found) - len(alike),
        said[CONFIRMED],
        said[DIFFERS],
    )


def least(cells: Iterable[Cell]) -> Confidence:
    """In what rests on several tables: that in the one which the least speaks for."""
    return least_sure(map(confidence, cells))


def least_sure(confidences: Iterable[Confidence]) -> Confidence:
    """Of several, that for which the least speaks."""
    return min(confidences, key=lambda one: (ORDER.index(one.word), sum(one[:3])))
