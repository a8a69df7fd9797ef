"""What research codes publish of the arithmetic of tensor cores, by chip, in their own terms.

K: products per fused sum. F: fraction bits kept at alignment. Floor: the least exponent that terms are aligned to. The
codes agree wherever both state something. Both state for all chips: terms are cut toward zero and aligned by raw sums
of exponents; f32 results are rounded toward zero, f16 to nearest even; subnormals are kept; f64 is a chain of fused
multiply-adds; tf32's low bits are ignored.

MMA-Sim: `nv_mma.py`, `nv_wgmma.py` and `nv_tcgen05mma.py` list the forms of each arch, `sim.py` (before: `nv.py`) has K
and F. m8n8k4 is listed for Volta and Turing only; e4m3 and e5m2 are not listed as mma.sync of Hopper and Blackwell,
which emulate them. It has no least exponent.
MATLAB-tensor-core: a model for each GPU in `models`: `fma` is K, 23 + `neab` is F. `A2TC.m` is `A100TC.m`,
`Validate_TC_models.m` has A40 beside them, `RTXPRO6000TC.m` is `B200TC.m`. Its programs run wmma, and mma.sync for fp8.
"""

from __future__ import annotations

from typing import NamedTuple

from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS, Role

MMA_SIM = "MMA-Sim (microsoft/MMA-Sim, arXiv 2511.10909)"
MATLAB = "MATLAB-tensor-core v0.5 (north-numerical-computing, arXiv 2512.07004)"
BOTH = f"{MMA_SIM} and {MATLAB}"
FLOOR = "the least exponent is MATLAB-tensor-core's alone"
FLOOR_OF_F16 = "of an f16 D later commits of MATLAB-tensor-core have -20 and -21 as least exponents"
PTX_FP8 = "PTX ISA 9.2, wgmma: e4m3 and e5m2 to f32 accumulate in more than half and less than single precision"
PTX = "PTX ISA, mma and wmma: accumulated in at least single precision; order, rounding and subnormals are unspecified"
DENSE = ("mma", "wmma", "wgmma")
MMA, WGMMA, TCGEN05 = ("mma",), ("wgmma",), ("tcgen05",)
SCALED = ("mma.block_scale",)
HALVES, TF32, BYTES, FOURS = ("f16", "bf16"), ("tf32",), ("e4m3", "e5m2"), ("e2m1",)
QUAD_PAIRS = "m8n8k4"  # of f16: emulated on every chip after Turing
SCALES_ADDED = "the scales' exponents are added to those of products"
SUMMED_FIRST = "16 products at a time are summed exactly, and aligned by the scales' exponents alone"
THROUGH_WMMA = "MATLAB-tensor-core's B200 was read through wmma"
THROUGH_MMA = "MATLAB-tensor-core's B200 was read through mma.sync, which emulates fp8 there"


class Published(NamedTuple):
    """What a source states of `types` on a chip's archs.

    `families` are the instructions that it is about, `scaled` those of them with block scales; `depths` is every k that
    it is about, empty for all. `quad_pairs`: m8n8k4 is among its forms.
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
    depths: tuple[int, ...] = ()
    scaled: bool = False
    quad_pairs: bool = False

    def about(self, instruction: Instruction) -> str:
        """What else the source states; and the instructions that it is about, if the form is not among them."""
        other = "" if instruction.family in self.families else f"of {' and '.join(self.families)}"
        sparse = "of dense forms" if _sparse(instruction) else ""
        floor = FLOOR if self.floor is not None and self.source == BOTH else ""
        return "; ".join(filter(None, (sparse or other, self.words, floor)))

    def of(self, instruction: Instruction) -> Published:
        """What of it holds for a form: no more products than it has, and no floor of another type of D.

        A row of tcgen05 is for every type of D.
        """
        depth = instruction.shape.k // (2 if _sparse(instruction) else 1)
        row = self._replace(products=min(self.products, depth)) if self.products else self
        if row.floor is None or _type(instruction, "d") != "f16":
            return row
        floor = row.floor if instruction.family in TCGEN05 else None
        return row._replace(floor=floor, words="; ".join(filter(None, (row.words, FLOOR_OF_F16))))


PUBLISHED = (
    Published("Volta", ("sm_70", "sm_72"), ("f16",), 4, 23, None, quad_pairs=True),
    Published("Turing", ("sm_75",), ("f16",), 8, 24, None, MMA_SIM, MMA, quad_pairs=True),
    Published("A100", ("sm_80",), HALVES, 8, 24, -132, words="a multiply of k16 is two sums, chained"),
    Published("A100", ("sm_80",), TF32, 4, 24, -132),
    Published("A2 and A40", ("sm_86",), HALVES, 8, 24, -132, MATLAB, words="a multiply of k16 is two sums, chained"),
    Published("A2 and A40", ("sm_86",), TF32, 4, 24, -132, MATLAB),
    Published("L40S", ("sm_89",), HALVES, 8, 24, -132),
    Published("L40S", ("sm_89",), TF32, 4, 24, -132),
    Published("L40S", ("sm_89",), BYTES, 16, 13, -132),
    Published("H100", ("sm_90",), HALVES, 16, 25, -133),
    Published("H100", ("sm_90",), TF32, 8, 25, -133, words="some paths of wgmma: 4"),
    Published("H100", ("sm_90",), BYTES, 32, 13, -133, families=WGMMA),
    Published("B200", ("sm_100",), HALVES, 16, 25, -133),
    Published("B200", ("sm_100",), TF32, 8, 25, -133),
    Published("B200", ("sm_100",), HALVES, 16, 25, -133, families=TCGEN05, words=THROUGH_WMMA),
    Published("B200", ("sm_100",), TF32, 8, 25, -133, families=TCGEN05, words=THROUGH_WMMA),
    Published("B200", ("sm_100",), BYTES, 32, 25, -133, families=TCGEN05, words=THROUGH_MMA),
    Published("B200", ("sm_100",), BYTES, 32, 25, None, MMA_SIM, TCGEN05, SCALES_ADDED, (32,), True),
    Published("B200", ("sm_100",), FOURS, 64, 35, None, MMA_SIM, TCGEN05, SUMMED_FIRST, (64,), True),
    Published("RTX Blackwell", ("sm_120",), HALVES, 16, 25, -133),
    Published("RTX Blackwell", ("sm_120",), TF32, 8, 25, -133),
    Published("RTX Blackwell", ("sm_120",), BYTES, 32, 25, -133, families=MMA),
    Published("RTX Blackwell", ("sm_120",), (*BYTES, *FOURS), 32, 25, None, MMA_SIM, MMA),
    Published("RTX Blackwell", ("sm_120",), (*BYTES, *FOURS), 32, 25, None, MMA_SIM, SCALED, SCALES_ADDED, (32,), True),
    Published("RTX Blackwell", ("sm_120",), FOURS, 64, 35, None, MMA_SIM, SCALED, SUMMED_FIRST, (64,), True),
)


def published_row(instruction: Instruction, arch: str) -> Published | None:
    """What is stated of a form on an arch, for its own family if possible; None if nothing.

    wmma becomes mma, so what is stated of one is offered for the other, and of a dense form for its sparse one, with
    words. Nothing else is: what mma.sync emulates is not what wgmma or tcgen05 computes.
    """
    rows = [row for row in PUBLISHED if arch in row.archs and _covers(row, instruction)]
    found = next(iter(sorted(rows, key=lambda row: instruction.family not in row.families)), None)
    return found and found.of(instruction)


def _covers(published: Published, instruction: Instruction) -> bool:
    """Whether it is stated of the form's types, depth and scales, on whatever arch."""
    family = instruction.family.replace("mma.sp", "mma").replace("wmma", "mma")
    return (
        all(_type(instruction, name) in published.types for name in FACTORS)
        and (not published.depths or instruction.shape.k in published.depths)
        and _scaled(instruction) == published.scaled
        and not (published.scaled and _sparse(instruction))
        and family in (other.replace("wmma", "mma") for other in published.families)
        and (published.quad_pairs or QUAD_PAIRS not in instruction.id)
    )


def _type(instruction: Instruction, name: str) -> str:
    return next(operand.type for operand in instruction.operands if operand.name in (name, f"{name}_smem"))


def _sparse(instruction: Instruction) -> bool:
    return any(operand.role is Role.METADATA for operand in instruction.operands)


def _scaled(instruction: Instruction) -> bool:
    return any(operand.role is Role.SCALE for operand in instruction.operands)


def promise_of_ptx(kind: str, family: str) -> str:
    """What PTX states of the precision of sums."""
    return PTX_FP8 if kind in BYTES and family.startswith("wgmma") else PTX
