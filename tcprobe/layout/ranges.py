"""Runs of whole numbers.

>>> ranges([0, 1, 2, 3, 8])
[(0, 3), (8, 8)]
"""

from __future__ import annotations

from collections.abc import Iterable


def ranges(ascending: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for number in ascending:
        starts = not runs or number != runs[-1][1] + 1
        runs[len(runs) - (not starts) :] = [(number if starts else runs[-1][0], number)]
    return runs
