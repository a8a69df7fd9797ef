"""What papers and projects state of costs, a module for each source, as rows in its own terms.

>>> [row.source.split(",")[0] for row in stated("mma.m16n8k16.row.col.f32.f16.f16.f32") if row.arch == "sm_90"]
['arXiv 2402.13499']

A row says what was stated, of which forms (a pattern of ids), on which device, and under which conditions as far as the
source says. `number` names what of a body it is to be compared with, none where nothing of it is.
"""

from __future__ import annotations

import fnmatch
from functools import cache

from tcprobe.plugins import discover
from tcprobe.references.cost.row import Row

__all__ = ("Row", "rows", "stated")


@cache
def rows() -> tuple[Row, ...]:
    """All that is stated, source by source."""
    return tuple(row for module in discover(__name__, ("SOURCE", "ROWS"), ("row",)).values() for row in module.ROWS)


def stated(subject: str) -> list[Row]:
    """What is stated of an instruction, on any arch."""
    return [row for row in rows() if fnmatch.fnmatchcase(subject, row.forms)]
