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

import re
from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.parameters import NEAREST, TOWARD_ZERO, Arithmetic, Integers, chained, types_of
from tcprobe.isa.arch import arch as arch_named
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS, Role

MMA_SIM = "MMA-Sim (microsoft/MMA-Sim, arXiv 2511.10909)"
MATLAB = "MATLAB-tensor-core v0.5 (north-numerical-computing, arXiv 2512.07004)"
BOTH = f"{MMA_SIM} and {MATLAB}"
FLOOR = "the least exponent is MATLAB-tensor-core's alone"
FLOOR_OF_F16 = "of an f16 D later commits of MATLAB-tensor-core have -20 and -21 as least exponents"
PTX_FP8 = "PTX ISA 9.2, wgmma: e4m3 and e5m2 to f32 accumulate in more than half and less than single precision"
PTX = "PTX ISA, mma and wmma: accumulated in at least single precision; order, rounding and subnormals are unspecified"
BYTES = ("e4m3", "e5m2")
QUAD_PAIRS = "m8n8k4"  # of f16: emulated on every chip after Turing


class Published(NamedTuple):
    """A line of numerics.csv: what a source states of `types` on a chip's archs.

    `families` are the instructions that it is about, `scaled` those of them with block scales; `depths` is every k that
    it is about, empty for all. `quad_pairs`: m8n8k4 is among its forms.
    """

    chip: str
    archs: tuple[str, ...]
    types: tuple[str, ...]
    products: int
    fraction_bits: int
    floor: int | None
    source: str
    families: tuple[str, ...]
    words: str
    depths: tuple[int, ...]
    scaled: bool
    quad_pairs: bool

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
        floor = row.floor if instruction.family == "tcgen05" else None
        return row._replace(floor=floor, words="; ".join(filter(None, (row.words, FLOOR_OF_F16))))


SOURCES = {"MMA-Sim": MMA_SIM, "MATLAB-tensor-core": MATLAB, "both": BOTH}  # for short


def _source(cell: str) -> str:
    """What a cell says for short, or a source with its place in brackets."""
    if cell not in SOURCES and not re.fullmatch(r"[^()]+ \([^()]+\)", cell):
        short = ", ".join(map(repr, SOURCES))
        raise ValueError(f"is not one of {short}, nor a source with its place, such as NAME (arXiv 2511.10909)")
    return SOURCES.get(cell, cell)


@cache
def published() -> tuple[Published, ...]:
    """The lines of numerics.csv."""
    return facts.read(
        __file__,
        "numerics.csv",
        Published,
        archs=facts.words_of(arch_named),
        types=facts.words_of(dtype),
        products=facts.number,
        fraction_bits=facts.number,
        floor=facts.optional(facts.number),
        source=_source,
        families=facts.words,
        depths=facts.numbers,
        scaled=facts.flag,
        quad_pairs=facts.flag,
    )


def published_row(instruction: Instruction, arch: str) -> Published | None:
    """What is stated of a form on an arch, for its own family if possible; None if nothing.

    wmma becomes mma, so what is stated of one is offered for the other, and of a dense form for its sparse one, with
    words. Nothing else is: what mma.sync emulates is not what wgmma or tcgen05 computes.
    """
    rows = [row for row in published() if arch in row.archs and _covers(row, instruction)]
    found = next(iter(sorted(rows, key=lambda row: instruction.family not in row.families)), None)
    return found and found.of(instruction)


def stated(instruction: Instruction, arch: str) -> Arithmetic | Integers | None:
    """The arithmetic that is stated of a dense form on an arch, complete; None where nobody states all of it.

    Results: f32 toward zero, of fp8 that keeps 13 fraction bits to as many (MMA-Sim, sim.py: e8m13), f16 to nearest
    even. Integers wrap, f64 is a chain of fused multiply-adds.
    """
    kinds = types_of(instruction)
    if not kinds.is_float:
        return Integers("wraps")
    if kinds.d == "f64":
        return Arithmetic((tuple(range(instruction.shape.k)),), None, FORMATS["f64"].fraction, NEAREST)
    row = published_row(instruction, arch)
    if row is None or row.scaled or _sparse(instruction) or kinds.c != kinds.d or kinds.d not in ("f32", "f16"):
        return None
    wide = kinds.d == "f32"
    return Arithmetic(
        chained(instruction.shape.k, row.products),
        row.fraction_bits,
        min(row.fraction_bits, FORMATS[kinds.d].fraction),
        TOWARD_ZERO if wide else NEAREST,
        exponent_floor=row.floor,
        unread_bits=13 if kinds.a == "tf32" else 0,
    )


def _covers(published: Published, instruction: Instruction) -> bool:
    """Whether it is stated of the form's types, depth and scales, on whatever arch."""
    family = instruction.family.replace("mma.sp", "mma").replace("wmma", "mma")
    return (
        all(_type(instruction, name) in published.types for name in FACTORS)
        and (not published.depths or instruction.shape.k in published.depths)
        and any(operand.role is Role.SCALE for operand in instruction.operands) == published.scaled
        and not (published.scaled and _sparse(instruction))
        and family in (other.replace("wmma", "mma") for other in published.families)
        and (published.quad_pairs or QUAD_PAIRS not in instruction.id)
    )


def _type(instruction: Instruction, name: str) -> str:
    return next(operand.type for operand in instruction.operands if operand.name in (name, f"{name}_smem"))


def _sparse(instruction: Instruction) -> bool:
    return any(operand.role is Role.METADATA for operand in instruction.operands)


def promise_of_ptx(kind: str, family: str) -> str:
    """What PTX states of the precision of sums."""
    return PTX_FP8 if kind in BYTES and family.startswith("wgmma") else PTX
