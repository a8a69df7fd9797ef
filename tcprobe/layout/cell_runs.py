"""Where the elements of a matrix are in tensor memory, as runs: consecutive elements of a row in one lane.

>>> from tcprobe.layout.cell_runs import CellRun, places, runs
>>> held = [(0, col, 0, 5, 32 * col) for col in range(8)]
>>> runs(held)
(CellRun(row=0, col=0, length=8, cta=0, lane=5, bit=0, step=32),)
>>> places(runs(held)) == held
True

Bits count from bit 0 of the column at the operand's address: bit 40 is bit 8 of the next column. Runs can express any
places, at worst with a run for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ElementPlace = tuple[int, int, int, int, int]  # row, col, CTA, lane, bit


class CellRun(NamedTuple):
    """Elements [row][col] to [row][col + length - 1] in a lane of a CTA: the first at `bit`, then every `step` bits."""

    row: int
    col: int
    length: int
    cta: int
    lane: int
    bit: int
    step: int


def runs(element_places: Iterable[ElementPlace]) -> tuple[CellRun, ...]:
    """The places of all elements as runs, sorted; an element may have several places."""
    closed: list[CellRun] = []
    open_runs: dict[tuple[int, int, int], list[CellRun]] = {}  # by row, CTA and lane: runs that may be continued
    for row, col, cta, lane, bit in sorted(set(element_places)):
        mine = open_runs.setdefault((row, cta, lane), [])
        for index, run in enumerate(mine):
            step = bit - run.bit if run.length == 1 else run.step
            if run.col + run.length == col and step >= 0 and run.bit + run.length * step == bit:
                mine[index] = run._replace(length=run.length + 1, step=step)
                break
        else:
            closed += [run for run in mine if run.col + run.length < col]
            mine[:] = [run for run in mine if run.col + run.length >= col]
            mine.append(CellRun(row, col, 1, cta, lane, bit, 0))
    return tuple(sorted([*closed, *(run for mine in open_runs.values() for run in mine)]))


def places(cell_runs: Sequence[CellRun]) -> list[ElementPlace]:
    """The inverse of `runs`: every place of every element, sorted."""
    return sorted(
        (run.row, run.col + j, run.cta, run.lane, run.bit + j * run.step)
        for run in cell_runs
        for j in range(run.length)
    )
