"""PTX ISA 9.1, section 9.7.14: the formulas of fragments of mma (9.7.14.5) and mma.sp (9.7.14.6).

They are lines of ptx_isa.csv, as the document writes them. Its other errata are lines of ptx_isa_errata.csv.

C stands for C and D. wmma layouts are unspecified by design (9.7.14.4.1), so there is no claim.

For A of mma.sp the document gives the row and a range of columns, which is `stored` columns wide: the metadata selects
half of the range, which is kept in the order of i. The claim's column is the stored one. B is often shown as a figure
only, metadata always; there is no claim for these.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment, Shape, read_shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.table import slot_table
from tcprobe.references import Claim, Erratum, StatedFormula, read_formula, tabulate

NAME = "PTX ISA"
PER_ARCH = False
SOURCE = "NVIDIA, Parallel Thread Execution ISA Version 9.1, section 9.7.14"
SILENT = {
    "wmma": "unspecified by design (9.7.14.4.1)",
    "wgmma": "shown in figures only (9.7.15.5.1.1)",
    "wgmma.sp": "shown in figures only (9.7.15.6.2)",
}
SECTIONS = {"ldmatrix": "9.7.14.5.15", "stmatrix": "9.7.14.5.16", "movmatrix": "9.7.14.5.17"}
FIGURES = {"ldmatrix.m16n16": 105, "stmatrix.m16n8": 108}
IDENTITY = (
    "the text calls D the transpose of A and gives the rows and columns of the transpose, which together make the "
    "instruction an identity; read as rows and columns of A"
)
ERRATA = facts.read(__file__, "ptx_isa_errata.csv", Erratum)


class FormulaRow(NamedTuple):
    """A line of ptx_isa.csv: a fragment of section 9.7.14.5 or 9.7.14.6, `operands` of these `types`.

    `with_a`: only of instructions with one of these types of A. `printed_col` is what is printed where that is wrong,
    `col` what is meant.
    """

    section: str
    shape: Shape
    operands: str
    types: tuple[str, ...]
    layout: str | None
    with_a: tuple[str, ...]
    product: StatedFormula | None
    row: StatedFormula
    col: StatedFormula
    stored: int | None
    printed_col: StatedFormula | None
    erratum: str

    def covers(self, fragment: Fragment, instruction: Instruction) -> bool:
        """Whether the section is about this fragment."""
        return (
            self.section.startswith("9.7.14.6" if instruction.metadata else "9.7.14.5")
            and fragment.shape == self.shape
            and fragment.operand in self.operands
            and fragment.type in self.types
            and self.layout in (None, fragment.layout)
            and (self.product is None) == (fragment.products == 1)
            and (not self.with_a or instruction.type("a") in self.with_a)
        )


@cache
def formula_rows() -> tuple[FormulaRow, ...]:
    """The lines of ptx_isa.csv."""
    return facts.read(
        __file__,
        "ptx_isa.csv",
        FormulaRow,
        shape=read_shape,
        operands=facts.one_of("a", "b", "cd"),
        types=facts.words_of(dtype),
        layout=facts.optional(facts.one_of("row", "col")),
        with_a=facts.words_of(dtype),
        product=facts.optional(read_formula),
        row=read_formula,
        col=read_formula,
        stored=facts.optional(facts.number),
        printed_col=facts.optional(read_formula),
    )


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the document states of `fragment` (the same for every arch), or why nothing."""
    if fragment.family in SILENT:
        return SILENT[fragment.family]
    if fragment.family in SECTIONS:
        return _move_claim(fragment)
    instruction = inventory.instructions()[fragment.experiment]
    if not instruction.multiplies:
        figures = "section 9.7.16.8 shows which lane moves what as figures only"
        return _reduction_claim(fragment) if fragment.operand == "redval" else figures
    return _multiply_claim(fragment, instruction)


def _multiply_claim(fragment: Fragment, instruction: Instruction) -> Claim | str:
    if fragment.role is Role.SCALE:
        return "section 9.7.14.3 says which lanes and bytes are read; which row or column each serves is a figure only"
    row = next((row for row in formula_rows() if row.covers(fragment, instruction)), None)
    if row:
        return _claim(row, fragment.threads, fragment.elements)
    if instruction.metadata is None:
        return "no such fragment in 9.7.14.5"
    what = "the metadata" if fragment.role is Role.METADATA else f"{fragment.operand.upper()} of this shape"
    return f"section 9.7.14.6.2 shows {what} as a figure only"


def _reduction_claim(fragment: Fragment) -> Claim:
    """The value that tcgen05.ld.red adds: of a lane of tensor memory, over the columns that are loaded.

    In 16x32bx2 the threads of each half of the warp access a lane once; col counts these accesses.
    """
    table = tabulate(
        fragment.threads, 1, {"row": lambda lane, _: lane % fragment.rows, "col": lambda lane, _: lane // fragment.rows}
    )
    return Claim(table, "section 9.7.16.8.3: across the columns of each lane", None, table)


@cache
def _claim(formula: FormulaRow, threads: int, elements: int) -> Claim:
    slots = [(lane, i) for lane in range(threads) for i in range(elements)]
    values = {"row": formula.row.values(slots), "col": formula.col.values(slots)}
    if formula.stored:
        half = formula.stored // 2
        values["col"] = tuple(start // 2 + i % half for start, (_, i) in zip(values["col"], slots, strict=True))
    if formula.product:
        values["product"] = formula.product.values(slots)
    meant = slot_table(threads, elements, values)
    printed = meant.with_values(values | {"col": formula.printed_col.values(slots)}) if formula.printed_col else meant
    return Claim(printed, f"section {formula.section}", formula.erratum or None, meant)


def _move_claim(fragment: Fragment) -> Claim | str:
    """What sections 9.7.14.5.15 to 9.7.14.5.17 state of a fragment of ldmatrix, stmatrix or movmatrix, or why nothing.

    For ldmatrix .s8.s4 it is PTX ISA 9.4, section 9.7.16.5.15. Rows count over all matrices, eight each. row and col
    are those of the element in memory; .trans exchanges them within a matrix. Layouts of .b8 matrices with sixteen rows
    or columns under .trans are shown in figures only.
    """
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
