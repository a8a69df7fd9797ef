"""What papers and projects state of costs, one module for each source, in its own terms.

>>> [row.source.split(",")[0] for row in rows_about("mma.m16n8k16.row.col.f32.f16.f16.f32") if row.arch == "sm_90"]
['arXiv 2402.13499']

A row has the number, the forms (a pattern of ids), the device, and the conditions that the source gives. `number` names
the part of a finding's body to compare it with, if there is one.
"""

from __future__ import annotations

import fnmatch
from functools import cache

from tcprobe.plugins import discover
from tcprobe.references.cost.row import Row

__all__ = ("Row", "rows", "stated")


@cache
def rows() -> tuple[Row, ...]:
    """All rows, source by source."""
    return tuple(row for module in discover(__name__, ("SOURCE", "ROWS"), ("row",)).values() for row in module.ROWS)


def rows_about(subject: str) -> list[Row]:
    """The rows about an instruction, on any arch."""
    return [row for row in rows() if fnmatch.fnmatchcase(subject, row.forms)]
