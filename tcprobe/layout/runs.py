"""Runs of whole numbers, and of the elements of a matrix in tensor memory.

>>> ranges([0, 1, 2, 3, 8])
[(0, 3), (8, 8)]

Where the elements of a matrix are in tensor memory, as runs: consecutive elements of a row in one lane.

>>> from tcprobe.layout.runs import CellRun, cell_runs, places_of_runs
>>> held = [(0, col, 0, 5, 32 * col) for col in range(8)]
>>> cell_runs(held)
(CellRun(row=0, col=0, length=8, cta=0, lane=5, bit=0, step=32),)
>>> places_of_runs(cell_runs(held)) == held
True

Bits count from bit 0 of the column at the operand's address: bit 40 is bit 8 of the next column. Runs can express any
places, at worst with a run for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


def ranges(ascending: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for number in ascending:
        starts = not runs or number != runs[-1][1] + 1
        runs[len(runs) - (not starts) :] = [(number if starts else runs[-1][0], number)]
    return runs


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


def cell_runs(element_places: Iterable[ElementPlace]) -> tuple[CellRun, ...]:
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


def places_of_runs(element_runs: Sequence[CellRun]) -> list[ElementPlace]:
    """The inverse of `cell_runs`: every place of every element, sorted."""
    return sorted(
        (run.row, run.col + j, run.cta, run.lane, run.bit + j * run.step)
        for run in element_runs
        for j in range(run.length)
    )
