"""cuda-tensorcores-register-mapping: formulas and printed tables of the wmma 16x16 accumulators.

For each arch the project prints which lane and which element x[i] hold row r, column c, and states the formulas below
(its `tid` is the lane). Its formulas and tables agree in every cell.
"""

from collections.abc import Callable
from typing import NamedTuple

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment, Shape
from tcprobe.isa.operand import ACCUMULATORS
from tcprobe.references.claim import Claim, Erratum, tabulate

NAME = "register-mapping"
SOURCE = "cuda-tensorcores-register-mapping (MIT), printed tables and formulas of the wmma m16n16k16 accumulators"
ERRATA: tuple[Erratum, ...] = ()


class PrintedTable(NamedTuple):
    """One printed table: its archs and accumulator types, and its formulas."""

    archs: tuple[str, ...]
    types: tuple[str, ...]
    row: Callable[[int, int], int]
    col: Callable[[int, int], int]


ROWS = (
    PrintedTable(
        ("sm_75", "sm_80"),
        ("f16", "f32"),
        lambda tid, i: ((i & 2) << 2) + ((tid & 28) >> 2),
        lambda tid, i: (i & 1) + ((i & 4) << 1) + ((tid & 3) << 1),
    ),
    PrintedTable(
        ("sm_70",),
        ("f32",),
        lambda tid, i: (i & 2) + (tid & 1) + ((tid & 4) << 1) + ((tid & 16) >> 2),
        lambda tid, i: (i & 5) + (tid & 10),
    ),
    PrintedTable(
        ("sm_70",),
        ("f16",),
        lambda tid, i: (tid & 3) + ((tid & 4) << 1) + ((tid & 16) >> 2),
        lambda tid, i: (i & 7) + (tid & 8),
    ),
)


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the project states of `fragment` on `device`, or why nothing."""
    if fragment.family != "wmma" or fragment.shape != Shape(16, 16, 16) or fragment.operand not in ACCUMULATORS:
        return "covers the wmma m16n16k16 accumulators only"
    row = next((r for r in ROWS if device.name in r.archs and fragment.type in r.types), None)
    if row is None:
        archs = ", ".join(a for r in ROWS for a in r.archs if fragment.type in r.types)
        return f"stated for {archs or 'f16 and f32'} only"
    table = tabulate(fragment.threads, fragment.elements, {"row": row.row, "col": row.col})
    return Claim(table, "printed table and formula", None, table)
