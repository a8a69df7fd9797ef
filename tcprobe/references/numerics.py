"""What research codes publish of the arithmetic of tensor cores, by chip, in their own terms.

K: products per fused sum. F: fraction bits kept at alignment. Floor: the least exponent that terms are aligned to. The
codes agree wherever both state something. Both state for all chips: terms are cut toward zero and aligned by raw sums
of exponents; f32 results are rounded toward zero, f16 to nearest even; subnormals are kept; f64 is a chain of fused
multiply-adds; tf32's low bits are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS

MMA_SIM = "MMA-Sim (microsoft/MMA-Sim, arXiv 2511.10909)"
BOTH = f"{MMA_SIM} and MATLAB-tensor-core v0.5 (north-numerical-computing, arXiv 2512.07004)"
PTX_FP8 = "PTX ISA 9.2, wgmma: e4m3 and e5m2 to f32 accumulate in more than half and less than single precision"
PTX = "PTX ISA, mma and wmma: accumulated in at least single precision; order, rounding and subnormals are unspecified"
DENSE = ("mma", "wmma", "wgmma")
SCALED, FOURS = ("mma.block_scale",), ("e2m1",)
HALVES, TF32, BYTES = ("f16", "bf16"), ("tf32",), ("e4m3", "e5m2")


class Published(NamedTuple):
    """What a source states of `types` on a chip's archs.

    `families` are the instructions that it is about; `depth` is the only k that it is about, None for all.
    """

    chip: str
    archs: tuple[str, ...]
    types: tuple[str, ...]
    products: int | None
    fraction_bits: int | None
    floor: int | None
    source: str = BOTH
    families: tuple[str, ...] = DENSE
    words: str = ""
    depth: int | None = None

    def about(self, family: str) -> str:
        """What else the source states; and the instructions that it is about, if `family` is not among them."""
        other = "" if family in self.families else f"of {' and '.join(self.families)}"
        return "; ".join(filter(None, (other, self.words)))


PUBLISHED = (
    Published("Volta", ("sm_70", "sm_72"), ("f16",), 4, 23, None),
    Published("Turing", ("sm_75",), ("f16",), None, 24, None, MMA_SIM),
    Published("A100", ("sm_80",), HALVES, 8, 24, -132, words="a multiply of k16 is two sums, chained"),
    Published("A100", ("sm_80",), TF32, 4, None, -132),
    Published("L40S", ("sm_89",), HALVES, 8, 24, -132),
    Published("L40S", ("sm_89",), TF32, 4, None, -132),
    Published("L40S", ("sm_89",), BYTES, 16, 13, -132),
    Published("H100", ("sm_90",), HALVES, 16, 25, -133),
    Published("H100", ("sm_90",), TF32, 8, None, -133, words="some paths of wgmma: 4"),
    Published("H100", ("sm_90",), BYTES, 32, 13, -133, families=("wgmma",)),
    Published("B200", ("sm_100",), HALVES, 16, 25, -133),
    Published("B200", ("sm_100",), TF32, 8, None, -133),
    Published(
        "B200", ("sm_100",), BYTES, 32, 25, -133, families=("tcgen05",), words="mma.sync's fp8 is emulated there"
    ),
    Published("RTX Blackwell", ("sm_120",), HALVES, 16, 25, None, MMA_SIM),
    Published("RTX Blackwell", ("sm_120",), TF32, 8, 25, None, MMA_SIM),
    Published("RTX Blackwell", ("sm_120",), BYTES, 32, 25, None, MMA_SIM, ("mma",)),
    Published(
        "RTX Blackwell",
        ("sm_120",),
        BYTES,
        32,
        25,
        None,
        MMA_SIM,
        SCALED,
        "the scales' exponents are added to those of products",
    ),
    Published(
        "RTX Blackwell",
        ("sm_120",),
        FOURS,
        64,
        35,
        None,
        MMA_SIM,
        SCALED,
        "16 products at a time are summed exactly, and aligned by the scales' exponents alone",
        64,
    ),
)


def published_row(instruction: Instruction, arch: str) -> Published | None:
    """What is stated of a form on an arch, for its own family if possible; None if nothing.

    What is stated of scaled forms is used only for these, and the reverse.
    """
    rows = [row for row in PUBLISHED if arch in row.archs and _covers(row, instruction)]
    return next(iter(sorted(rows, key=lambda row: instruction.family not in row.families)), None)


def _covers(published: Published, instruction: Instruction) -> bool:
    """Whether it is stated of the form's types, depth and scales, on whatever arch."""
    return (
        all(_type(instruction, name) in published.types for name in FACTORS)
        and published.depth in (None, instruction.shape.k)
        and (not instruction.scales) == (published.families != SCALED)
        and (not instruction.scales or instruction.family in published.families)
    )


def _type(instruction: Instruction, name: str) -> str:
    return next(operand.type for operand in instruction.operands if operand.name in (name, f"{name}_smem"))


def promise_of_ptx(kind: str, family: str) -> str:
    """What PTX states of the precision of sums."""
    return PTX_FP8 if kind in BYTES and family.startswith("wgmma") else PTX
