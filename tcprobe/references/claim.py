"""What a reference module says: a Claim about one fragment, or an Erratum about the source itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tcprobe.layout.table import Table, slot_table

Formula = Callable[[int, int], int]


class Claim(NamedTuple):
    """A layout as a source states it.

    `printed` is what it literally says, `where` the place in it. Where the source is known to err, `erratum`
    says how; `meant` is the table without the error (else the same as `printed`).
    """

    printed: Table
    where: str
    erratum: str | None
    meant: Table


class Erratum(NamedTuple):
    """A known error of a source that no layout shows: the fragments it touches (a pattern), where, and what."""

    pattern: str
    where: str
    words: str


def tabulate(threads: int, elements: int, formulas: Mapping[str, Formula]) -> Table:
    """The table that formulas in (lane, i) give over all slots."""
    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    values = {name: tuple(formula(lane, i) for lane, i in slots) for name, formula in formulas.items()}
    return slot_table(threads, elements, values)
