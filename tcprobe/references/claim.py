"""What a reference module states: a Claim about one fragment, or an Erratum about the source itself."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tcprobe.layout.table import Table, slot_table

PlaceFormula = Callable[[int, int], int]


class Claim(NamedTuple):
    """A layout as a source states it.

    `printed` is what the source literally says, at `where`. If that is known to be wrong, `erratum` says how, and
    `meant` is the table without the error; else `meant` equals `printed`.
    """

    printed: Table
    where: str
    erratum: str | None
    meant: Table


class Erratum(NamedTuple):
    """A known error of a source that no layout shows: the ids concerned (a pattern), the place, the error in words."""

    pattern: str
    where: str
    words: str


def tabulate(threads: int, elements: int, place_formulas: Mapping[str, PlaceFormula]) -> Table:
    """The table of all slots from formulas in (lane, i)."""
    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    values = {name: tuple(formula(lane, i) for lane, i in slots) for name, formula in place_formulas.items()}
    return slot_table(threads, elements, values)
