"""PTX ISA 9.1, sections 9.7.14.5.15 to 9.7.14.5.17: ldmatrix, stmatrix and movmatrix.

For ldmatrix .s8.s4 it is PTX ISA 9.4, section 9.7.16.5.15. Rows count over all matrices, eight each. row and col are
those of the element in memory; .trans exchanges them within a matrix. Layouts of .b8 matrices with sixteen rows or
columns under .trans are shown in figures only.
"""

from __future__ import annotations

from functools import cache

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.table import slot_table
from tcprobe.references.claim import Claim, Erratum, tabulate

SECTIONS = {"ldmatrix": "9.7.14.5.15", "stmatrix": "9.7.14.5.16", "movmatrix": "9.7.14.5.17"}
FIGURES = {"ldmatrix.m16n16": 105, "stmatrix.m16n8": 108}
IDENTITY = (
    "the text calls D the transpose of A and gives the rows and columns of the transpose, which together make the "
    "instruction an identity; read as rows and columns of A"
)
ERRATA = (
    Erratum(
        "ldmatrix.m16n16.*.address",
        "9.7.14.5.15",
        "the table of which threads' addresses count has eight rows for a matrix; m16n16 has sixteen",
    ),
    Erratum(
        "stmatrix.m16n8.*",
        "9.7.14.5.16",
        ".trans is mandatory for .m16n8 by the text; one of the examples leaves it out",
    ),
)


def claim(fragment: Fragment) -> Claim | str:
    """What the document states of a fragment of these families, or why nothing."""
    section, kind = _section(fragment), f"{fragment.family}.{fragment.shape}"
    if fragment.family == "movmatrix":
        return _exchange(fragment.operand, section)
    if fragment.role is Role.ADDRESS:
        if kind == "ldmatrix.m16n16":
            return f"{section} lists the addresses of matrices of eight rows only"
        return _addresses(fragment.rows, section)
    if kind in FIGURES:
        return f"{section} shows it in figure {FIGURES[kind]} only"
    return _registers(fragment.elements, fragment.slot_bits, ".trans." in fragment.instruction, section)


def _section(fragment: Fragment) -> str:
    return "9.7.16.5.15 of version 9.4" if fragment.instruction.endswith(".s8.s4") else SECTIONS[fragment.family]


@cache
def _addresses(rows: int, section: str) -> Claim:
    """The rows of threads 0 to 7, 0 to 15 or 0 to 31, in order."""
    table = slot_table(WARP, 1, {"row": tuple(lane if lane < rows else None for lane in range(WARP))})
    return Claim(table, f"section {section}", None, table)


@cache
def _registers(elements: int, slot_bits: int, trans: bool, section: str) -> Claim:
    """One register per matrix; four consecutive threads share a row, each with as many elements as a register has."""
    each = 32 // slot_bits

    def first(lane: int, i: int) -> int:
        return lane // 4

    def second(lane: int, i: int) -> int:
        return each * (lane % 4) + i % each

    row, col = (second, first) if trans else (first, second)
    table = tabulate(WARP, elements, {"row": lambda lane, i: 8 * (i // each) + row(lane, i), "col": col})
    return Claim(table, f"section {section}", None, table)


@cache
def _exchange(operand: str, section: str) -> Claim:
    as_printed = tabulate(WARP, 2, {"row": lambda lane, i: lane // 4, "col": lambda lane, i: 2 * (lane % 4) + i})
    if operand == "a":
        return Claim(as_printed, f"section {section}", None, as_printed)
    transposed = as_printed.with_values({"row": as_printed.values["col"], "col": as_printed.values["row"]})
    return Claim(as_printed, f"section {section}", IDENTITY, transposed)
