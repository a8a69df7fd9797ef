"""PTX ISA 9.1, section 9.7.14.6: the formulas of the sparse mma.sp fragments, as the document writes them.

For A the document gives the row and a range of columns; the metadata selects half of the range, which is stored in the
order of i. The claim's column is the stored one. B is often shown as a figure only, metadata always; there is no claim
for these.
"""

from __future__ import annotations

from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.references.claim import Erratum
from tcprobe.references.formulas import FormulaRow, Map, group, member

BYTES = "u8 s8 e4m3 e5m2 e3m2 e2m3 e2m1"


def stored_column(start: Map, width: int) -> Map:
    """The stored column for a range of `width` columns that begins at `start`; half of the range is stored."""
    return lambda lane, i: start(lane, i) // 2 + i % (width // 2)


def silence(fragment: Fragment) -> str:
    """Why the section states nothing of a fragment without a row."""
    what = "the metadata" if fragment.role is Role.METADATA else f"{fragment.operand.upper()} of this shape"
    return f"section 9.7.14.6.2 shows {what} as a figure only"


ERRATA = (
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
)

# fmt: off
ROWS = (
    # 9.7.14.6.2.1
    FormulaRow("m16n8k16", "a", "f16 bf16", "9.7.14.6.2.1",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 4, 4)),
    FormulaRow("m16n8k16", "b", "f16 bf16", "9.7.14.6.2.1",
        lambda lane, i: member(lane) * 2 + (i & 1) if i < 2 else member(lane) * 2 + (i & 1) + 8,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k16", "cd", "f16 f32", "9.7.14.6.2.1",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="f16 bf16",
        erratum="the text says .f16/.b16 where .bf16 is meant"),
    # 9.7.14.6.2.2
    FormulaRow("m16n8k32", "a", "f16 bf16", "9.7.14.6.2.2",
        lambda lane, i: group(lane) if 0 <= i < 2 or 4 <= i < 6 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 4 if i < 4 else member(lane) * 4 + 16, 4)),
    FormulaRow("m16n8k32", "cd", "f16 f32", "9.7.14.6.2.2",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="f16 bf16"),
    # 9.7.14.6.2.3
    FormulaRow("m16n8k16", "a", "tf32", "9.7.14.6.2.3",
        lambda lane, i: group(lane) if i in (0, 2) else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 2 if i in (0, 1) else member(lane) * 2 + 8, 2)),
    FormulaRow("m16n8k16", "cd", "f32", "9.7.14.6.2.3",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="tf32"),
    # 9.7.14.6.2.4
    FormulaRow("m16n8k8", "a", "tf32", "9.7.14.6.2.4",
        lambda lane, i: group(lane) if i == 0 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 2, 2)),
    FormulaRow("m16n8k8", "b", "tf32", "9.7.14.6.2.4",
        lambda lane, i: member(lane) if i == 0 else member(lane) + 4,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k8", "cd", "f32", "9.7.14.6.2.4",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.6.2.5
    FormulaRow("m16n8k32", "a", "u8 s8", "9.7.14.6.2.5",
        lambda lane, i: group(lane) if 0 <= i < 4 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 8, 8)),
    FormulaRow("m16n8k32", "b", "u8 s8", "9.7.14.6.2.5",
        lambda lane, i: member(lane) * 4 + (i & 3) if i < 4 else member(lane) * 4 + (i & 3) + 16,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k32", "cd", "s32", "9.7.14.6.2.5",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
    # 9.7.14.6.2.6
    FormulaRow("m16n8k64", "a", BYTES, "9.7.14.6.2.6",
        lambda lane, i: group(lane) if 0 <= i < 4 or 8 <= i < 12 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 8 if i < 8 else member(lane) * 8 + 32, 8)),
    FormulaRow("m16n8k64", "cd", "s32 f32 f16", "9.7.14.6.2.6",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a=BYTES),
    # 9.7.14.6.2.7
    FormulaRow("m16n8k64", "a", "u4 s4", "9.7.14.6.2.7",
        lambda lane, i: group(lane) if 0 <= i < 8 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 16, 16)),
    FormulaRow("m16n8k64", "b", "u4 s4", "9.7.14.6.2.7",
        lambda lane, i: member(lane) * 8 + (i & 7) if i < 8 else member(lane) * 8 + (i & 7) + 32,
        lambda lane, i: group(lane)),
    FormulaRow("m16n8k64", "cd", "s32", "9.7.14.6.2.7",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1), with_a="u4 s4"),
    # 9.7.14.6.2.8
    FormulaRow("m16n8k128", "a", "u4 s4 e2m1", "9.7.14.6.2.8",
        lambda lane, i: group(lane) if 0 <= i < 8 or 16 <= i < 24 else group(lane) + 8,
        stored_column(lambda lane, i: member(lane) * 16 if i < 16 else member(lane) * 16 + 64, 16)),
    FormulaRow("m16n8k128", "cd", "s32 f32", "9.7.14.6.2.8",
        lambda lane, i: group(lane) if i < 2 else group(lane) + 8,
        lambda lane, i: member(lane) * 2 + (i & 1)),
)
# fmt: on
