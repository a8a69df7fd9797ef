"""cuda-tensorcores-register-mapping: formulas and printed tables of the wmma 16x16 accumulators.

For each arch the project prints which lane and which element x[i] hold row r, column c, and states the formulas below
(its `tid` is the lane). Its formulas and tables agree in every cell.
"""

from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import Arch, arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment, Shape
from tcprobe.isa.operand import ACCUMULATORS
from tcprobe.layout.table import slot_table
from tcprobe.references import Claim, Erratum, StatedFormula, read_formula

NAME = "register-mapping"
SOURCE = "cuda-tensorcores-register-mapping (MIT), printed tables and formulas of the wmma m16n16k16 accumulators"
ERRATA: tuple[Erratum, ...] = ()


class PrintedTable(NamedTuple):
    """A line of register_mapping.csv: a printed table's archs and accumulator types, and its formulas."""

    archs: tuple[str, ...]
    types: tuple[str, ...]
    row: StatedFormula
    col: StatedFormula


ROWS = facts.read(
    __file__,
    "register_mapping.csv",
    PrintedTable,
    archs=facts.words_of(arch),
    types=facts.words_of(dtype),
    row=read_formula,
    col=read_formula,
)


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the project states of `fragment` on `device`, or why nothing."""
    if fragment.family != "wmma" or fragment.shape != Shape(16, 16, 16) or fragment.operand not in ACCUMULATORS:
        return "covers the wmma m16n16k16 accumulators only"
    row = next((r for r in ROWS if device.name in r.archs and fragment.type in r.types), None)
    if row is None:
        archs = ", ".join(a for r in ROWS for a in r.archs if fragment.type in r.types)
        return f"stated for {archs or 'f16 and f32'} only"
    slots = [(lane, i) for lane in range(fragment.threads) for i in range(fragment.elements)]
    table = slot_table(
        fragment.threads, fragment.elements, {"row": row.row.values(slots), "col": row.col.values(slots)}
    )
    return Claim(table, "printed table and formula", None, table)
