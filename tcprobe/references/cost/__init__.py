"""What papers and projects state of costs, one module for each source, in its own terms.

>>> [row.source.split(",")[0] for row in rows_about("mma.m16n8k16.row.col.f32.f16.f16.f32") if row.arch == "sm_90"]
['arXiv 2402.13499']

A row has the number, the forms (a pattern of ids), the device, and the conditions that the source gives. `number` names
the part of a finding's body to compare it with, if there is one.
"""

from __future__ import annotations

import fnmatch
from functools import cache

from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.peaks import peak
from tcprobe.plugins import discover
from tcprobe.references.cost.row import Row

__all__ = ("Row", "peak_row", "rows", "rows_about")

PEAKS = "NVIDIA's architecture whitepapers, peak rates over SMs and clocks"


@cache
def rows() -> tuple[Row, ...]:
    """All rows, source by source."""
    return tuple(row for module in discover(__name__, ("SOURCE", "ROWS"), ("row",)).values() for row in module.ROWS)


def peak_row(instruction: Instruction | None, name: str) -> Row | None:
    """The peak of an arch as a row about a multiply that it has; None where no peak of its type is stated."""
    if instruction is None or not instruction.multiplies or not instruction.target.on(device := arch(name)):
        return None
    most = peak(device, instruction.type("a"))
    unit = "multiply-adds per cycle per SM"
    return Row(PEAKS, instruction.id, name, device.generation, "at most", most, unit) if most else None


def rows_about(subject: str) -> list[Row]:
    """The rows about an instruction, on any arch."""
    return [row for row in rows() if fnmatch.fnmatchcase(subject, row.forms)]
