"""PTX ISA 9.1, section 9.7.14.5: the formulas of the dense mma fragments, as the document writes them.

groupID = %laneid >> 2, threadID_in_group = %laneid % 4 (here `group` and `member`); i counts a thread's elements. C
stands for C and D. wmma layouts are unspecified by design (9.7.14.4.1), so there is no claim; mma.sp is in
`ptx_isa_sparse`, matrix moves are in `ptx_moves`. Errata of the document are in their rows: `printed_col` is what is
printed, the row what is meant.
"""

from __future__ import annotations

from functools import cache

from tcprobe.isa import inventory
from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.references.claim import Claim, Erratum, PlaceFormula, tabulate
from tcprobe.references.formulas import FormulaRow, Map, group, member

NAME = "PTX ISA"
PER_ARCH = False
SOURCE = "NVIDIA, Parallel Thread Execution ISA Version 9.1, section 9.7.14"
MOVES = ("ldmatrix", "stmatrix", "movmatrix")
SILENT = {
    "wmma": "unspecified by design (9.7.14.4.1)",
    "wgmma": "shown in figures only (9.7.15.5.1.1)",
    "wgmma.sp": "shown in figures only (9.7.15.6.2)",
}


def quadpair(lane: int, i: int) -> int:
    """The product that a lane belongs to, from 0 (the document counts from 1)."""
    return lane % 16 // 4


def claim(fragment: Fragment, device: Arch) -> Claim | str:
    """What the document states of `fragment` (the same for every arch), or why nothing."""
    if fragment.family in SILENT:
        return SILENT[fragment.family]
    if fragment.family in MOVES:
        from tcprobe.references import ptx_moves

        return ptx_moves.claim(fragment)
    instruction = inventory.instructions()[fragment.experiment]
    if not instruction.multiplies:
        figures = "section 9.7.16.8 shows which lane moves what as figures only"
        return _reduction_claim(fragment) if fragment.operand == "redval" else figures
    if fragment.role is Role.SCALE:
        return "section 9.7.14.3 says which lanes and bytes are read; which row or column each serves is a figure only"
    if instruction.metadata is None:
        return _by_row(fragment, ROWS) or "no such fragment in 9.7.14.5"
    from tcprobe.references import ptx_isa_sparse

    return _by_row(fragment, ptx_isa_sparse.ROWS) or ptx_isa_sparse.silence(fragment)


def _by_row(fragment: Fragment, formula_rows: tuple[FormulaRow, ...]) -> Claim | None:
    row = next((row for row in formula_rows if row.covers(fragment)), None)
    return _claim(row, fragment.threads, fragment.elements) if row else None


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
    intended = tabulate(threads, elements, _formulas(formula, formula.col))
    printed = tabulate(threads, elements, _formulas(formula, formula.printed_col)) if formula.printed_col else intended
    return Claim(printed, f"section {formula.section}", formula.erratum, intended)


def _formulas(formula: FormulaRow, col: Map) -> dict[str, PlaceFormula]:
    return {"row": formula.row, "col": col} | ({"product": formula.product} if formula.product else {})


ERRATA = (
    Erratum(
        "wmma.m8n8k4.[cd].f64",
        "9.7.14.4.1",
        "the table of fragments says one .f64 register for C and D; 64 elements over 32 lanes need two, "
        "as the examples of wmma.store and wmma.mma have",
    ),
    Erratum(
        "mma.m*.s32.[us]4.[us]4.s32.[ab]",
        "9.7.14.2",
        "the table of data types allows only equal 4-bit types of A and B; the syntax mixes u4 and s4, "
        "and so does the hardware",
    ),
    Erratum(
        "mma.sp*.m16n8k32.*f16.*.b",
        "9.7.14.6.2.2",
        "the table of registers lists b0 to b3 for four registers of two elements each; there are eight",
    ),
    Erratum(
        "mma.sp*.m16n8k16.*.tf32.*.b",
        "9.7.14.6.2.3",
        "the table speaks of four .tf32 elements in each of four registers; a register holds one",
    ),
    Erratum(
        "mma.sp*.m16n8k64.*.e[45]m[32].*",
        "9.7.14.6",
        "the version notes speak of .f16 accumulators and of m16n8k32 for these types; the syntax has neither",
    ),
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

# fmt: off
ROWS = (
    # 9.7.14.5.1
    FormulaRow("m8n8k4", "a", "f16", "9.7.14.5.1",
        lambda lane, i: member(lane) if lane < 16 else member(lane) + 4,
        lambda lane, i: i, product=quadpair, layout="row"),
    FormulaRow("m8n8k4", "a", "f16", "9.7.14.5.1",
        lambda lane, i: i % 4 if lane < 16 else (i % 4) + 4,
        lambda lane, i: member(lane), product=quadpair, layout="col"),
    FormulaRow("m8n8k4", "b", "f16", "9.7.14.5.1",
        lambda lane, i: member(lane),
        lambda lane, i: i if lane < 16 else i + 4, product=quadpair, layout="row"),
    FormulaRow("m8n8k4", "b", "f16", "9.7.14.5.1",
        lambda lane, i: i,
        lambda lane, i: member(lane) if lane < 16 else member(lane) + 4, product=quadpair, layout="col"),
    FormulaRow("m8n8k4", "cd", "f16", "9.7.14.5.1",
        lambda lane, i: member(lane) if lane < 16 else member(lane) + 4,
        lambda lane, i: i, product=quadpair),
    FormulaRow("m8n8k4", "cd", "f32", "9.7.14.5.1",
        lambda lane, i: (lane & 1) + (i & 2) if lane < 16 else (lane & 1) + (i & 2) + 4,
        lambda lane, i: (i & 4) + (lane & 2) + (i & 1), product=quadpair),
    # 9.7.14.5.2
    FormulaRow("m8n8k4", "a", "f64", "9.7.14.5.2",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane)),
    FormulaRow("m8n8k4", "b", "f64", "9.7.14.5.2",
        lambda lane, i: member(lane),
        lambda lane, i: group(lane)),
    FormulaRow("m8n8k4", "cd", "f64", "9.7.14.5.2",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.3
    FormulaRow("m8n8k16", "a", "u8 s8", "9.7.14.5.3",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 4 + i),
    FormulaRow("m8n8k16", "b", "u8 s8", "9.7.14.5.3",
        lambda lane, i: member(lane) * 4 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m8n8k16", "cd", "s32", "9.7.14.5.3",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 2 + i),
    # 9.7.14.5.4
    FormulaRow("m8n8k32", "a", "u4 s4", "9.7.14.5.4",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 8 + i),
    FormulaRow("m8n8k32", "b", "u4 s4", "9.7.14.5.4",
        lambda lane, i: member(lane) * 8 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m8n8k32", "cd", "s32", "9.7.14.5.4",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 2 + i),
    # 9.7.14.5.5
    FormulaRow("m8n8k128", "a", "b1", "9.7.14.5.5",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 32 + i),
    FormulaRow("m8n8k128", "b", "b1", "9.7.14.5.5",
        lambda lane, i: member(lane) * 32 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m8n8k128", "cd", "s32", "9.7.14.5.5",
        lambda lane, i: group(lane),
        lambda lane, i: member(lane) * 2 + i),
    # 9.7.14.5.6
    FormulaRow("m16n8k4", "a", "tf32", "9.7.14.5.6",
        lambda lane, i: group(lane) if i == 0 else group(lane) + 8,
        lambda lane, i: member(lane)),
    FormulaRow("m16n8k4", "b", "tf32", "9.7.14.5.6",
        lambda lane, i: member(lane),
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k4", "cd", "f32", "9.7.14.5.6",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    FormulaRow("m16n8k4", "a", "f64", "9.7.14.5.6",
        lambda lane, i: group(lane) if i == 0 else group(lane) + 8,
        lambda lane, i: member(lane)),
    FormulaRow("m16n8k4", "b", "f64", "9.7.14.5.6",
        lambda lane, i: member(lane),
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k4", "cd", "f64", "9.7.14.5.6",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.7
    FormulaRow("m16n8k8", "a", "f16 bf16", "9.7.14.5.7",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    FormulaRow("m16n8k8", "a", "tf32", "9.7.14.5.7",
        lambda lane, i: group(lane) if i in (0, 2) else group(lane) + 8,
        lambda lane, i: member(lane) if i in (0, 1) else member(lane) + 4),
    FormulaRow("m16n8k8", "a", "f64", "9.7.14.5.7",
        lambda lane, i: group(lane) if i in (0, 2) else group(lane) + 8,
        lambda lane, i: member(lane) if i in (0, 1) else member(lane) + 4),
    FormulaRow("m16n8k8", "b", "f16 bf16", "9.7.14.5.7",
        lambda lane, i: member(lane) * 2 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k8", "b", "tf32", "9.7.14.5.7",
        lambda lane, i: member(lane) if i == 0 else member(lane) + 4,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k8", "b", "f64", "9.7.14.5.7",
        lambda lane, i: member(lane) if i == 0 else member(lane) + 4,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k8", "cd", "f16 f32", "9.7.14.5.7",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    FormulaRow("m16n8k8", "cd", "f64", "9.7.14.5.7",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.8
    FormulaRow("m16n8k16", "a", "f16 bf16", "9.7.14.5.8",
        lambda lane, i: group(lane) if i < 2 or 4 <= i < 6 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1) if i < 4 else member(lane) * 2 + (i & 1) + 8),
    FormulaRow("m16n8k16", "a", "f64", "9.7.14.5.8",
        lambda lane, i: group(lane) if i % 2 == 0 else group(lane) + 8,
        lambda lane, i: i * 2 + member(lane) if i % 2 == 0 else i * 2 - 2 + member(lane),
        erratum="the printed column formula for odd i has an unbalanced parenthesis; read without it"),
    FormulaRow("m16n8k16", "b", "f16 bf16", "9.7.14.5.8",
        lambda lane, i: member(lane) * 2 + (i & 1) if i < 2 else member(lane) * 2 + (i & 1) + 8,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k16", "b", "f64", "9.7.14.5.8",
        lambda lane, i: member(lane) + i * 4,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k16", "cd", "f16 f32 f64", "9.7.14.5.8",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="f16 bf16 f64"),
    # 9.7.14.5.9
    FormulaRow("m16n8k16", "a", "u8 s8 e4m3 e5m2", "9.7.14.5.9",
        lambda lane, i: group(lane) if i < 4 else group(lane) + 8,
        lambda lane, i: member(lane) * 4 + (i & 3)),
    FormulaRow("m16n8k16", "b", "u8 s8 e4m3 e5m2", "9.7.14.5.9",
        lambda lane, i: member(lane) * 4 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k16", "cd", "s32 f32 f16", "9.7.14.5.9",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="u8 s8 e4m3 e5m2",
        erratum="the table of registers lists the .f16 elements as c0, c1, c1, c2"),
    # 9.7.14.5.10
    FormulaRow("m16n8k32", "a", "u4 s4", "9.7.14.5.10",
        lambda lane, i: group(lane) if i < 8 else group(lane) + 8,
        lambda lane, i: member(lane) * 8 + (i & 7)),
    FormulaRow("m16n8k32", "a", "u8 s8 e4m3 e5m2 e3m2 e2m3 e2m1", "9.7.14.5.10",
        lambda lane, i: group(lane) if i < 4 or 8 <= i < 12 else group(lane) + 8,
        lambda lane, i: member(lane) * 4 + (i & 3) if i < 8 else member(lane) * 4 + (i & 3) + 16),
    FormulaRow("m16n8k32", "b", "u4 s4", "9.7.14.5.10",
        lambda lane, i: member(lane) * 8 + (i & 7),
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k32", "b", "u8 s8 e4m3 e5m2 e3m2 e2m3 e2m1", "9.7.14.5.10",
        lambda lane, i: member(lane) * 4 + (i & 3) if i < 4 else member(lane) * 4 + (i & 3) + 16,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k32", "cd", "s32 f32 f16", "9.7.14.5.10",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.11
    FormulaRow("m16n8k64", "a", "u4 s4 e2m1", "9.7.14.5.11",
        lambda lane, i: group(lane) if i < 8 or 16 <= i < 24 else group(lane) + 8,
        lambda lane, i: member(lane) * 8 + (i & 7) if i < 16 else member(lane) * 8 + (i & 7) + 32),
    FormulaRow("m16n8k64", "b", "u4 s4 e2m1", "9.7.14.5.11",
        lambda lane, i: member(lane) * 8 + (i & 7) if i < 8 else member(lane) * 8 + (i & 7) + 32,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k64", "cd", "s32 f32", "9.7.14.5.11",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.12
    FormulaRow("m16n8k128", "a", "b1", "9.7.14.5.12",
        lambda lane, i: group(lane) if i < 32 else group(lane) + 8,
        lambda lane, i: member(lane) * 32 + (i & 31)),
    FormulaRow("m16n8k128", "b", "b1", "9.7.14.5.12",
        lambda lane, i: member(lane) * 32 + i,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k128", "cd", "s32", "9.7.14.5.12",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.5.13
    FormulaRow("m16n8k256", "a", "b1", "9.7.14.5.13",
        lambda lane, i: group(lane) if i < 32 or 64 <= i < 96 else group(lane) + 8,
        lambda lane, i: member(lane) * 32 + (i & 31) if i < 64 else member(lane) * 32 + (i & 31) + 128,
        printed_col=lambda lane, i: member(lane) * 32 + i if i < 64 else member(lane) * 32 + (i & 31) + 128,
        erratum="the printed column formula for i < 64 adds i without the mask & 0x1F"),
    FormulaRow("m16n8k256", "b", "b1", "9.7.14.5.13",
        lambda lane, i: member(lane) * 32 + (i & 31) if i < 32 else member(lane) * 32 + (i & 31) + 128,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k256", "cd", "s32", "9.7.14.5.13",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
)
# fmt: on
