"""How multiplies of f64 round with .rn, .rz, .rm and .rp: rows of f64_rounding.csv, measured on a GPU.

>>> row = measured("mma.m8n8k4.row.col.f64.f64.f64.f64", "rz")
>>> row.device, row.results, row.apart
('NVIDIA H200', 1280000, 0)

PTX ISA has .rnd for f64 alone (sections on mma and wmma.mma); ptxas 13.5 takes it for every shape. A row says how many
results of a form were compared with the chain of fma.rnd.f64 from C on, k ascending, and how many were apart from it.
"""

from __future__ import annotations

import fnmatch
from functools import cache
from typing import NamedTuple

from tcprobe import facts

ROUNDINGS = {  # in words, by modifier
    "rn": "to nearest even",
    "rz": "toward zero",
    "rm": "toward negative infinity",
    "rp": "toward positive infinity",
}


class Row(NamedTuple):
    """A line of f64_rounding.csv."""

    forms: str
    rounding: str
    device: str
    results: int
    apart: int
    source: str


@cache
def rows() -> tuple[Row, ...]:
    """All lines."""
    return facts.read(
        __file__, "f64_rounding.csv", Row, rounding=facts.one_of(*ROUNDINGS), results=facts.number, apart=facts.number
    )


def measured(id_: str, rounding: str) -> Row:
    """The row of a form with a modifier; KeyError for a form that is not of f64."""
    row = next((row for row in rows() if row.rounding == rounding and fnmatch.fnmatchcase(id_, row.forms)), None)
    if row is None:
        raise KeyError(id_)
    return row
