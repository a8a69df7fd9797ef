"""What an instruction becomes: the tensor-core or move opcodes of its machine code, with counts, native or emulated.

    mma.m16n8k16.row.col.f32.f16.f16.f32 on sm_75: HMMA.1688.F32 x 2

Native means that all tensor-core opcodes of a multiply are those of the type of A (`NATIVE`) and of its bit operation;
a form that becomes others, or none, is emulated. A matrix move is native where it is one opcode of `MOVES`. `others`
counts all remaining instructions, loads and stores of the probe included, so it compares archs, not costs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.probes import experiments, sparse, wgmma_kernels
from tcprobe.probes.experiment import kernels
from tcprobe.probes.ptx import Kernel
from tcprobe.sass.cubin import assemble
from tcprobe.sass.toolchain import Toolchain
from tcprobe.text import one_line

TENSOR = ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "BGMMA", "QGMMA")
MOVES = ("LDSM", "STSM", "MOVM")
# what a tensor-core opcode of the type of A looks like
NATIVE = {
    "f16": r"HG?MMA\.(?!.*(BF16|TF32))",
    "bf16": r"HG?MMA\..*BF16",
    "tf32": r"HG?MMA\..*TF32",
    "f64": r"DMMA",
    **dict.fromkeys(("s8", "u8"), r"IG?MMA\..*[SU]8"),
    **dict.fromkeys(("s4", "u4"), r"IMMA\..*[SU]4"),
    "b1": r"BG?MMA",
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), r"QG?MMA"),
}
FILLING = ("NOP", "EXIT", "BRA")
NOTHING = {True: "no tensor-core opcode", False: "no opcode that moves a matrix"}


@dataclass(frozen=True)
class Lowering:
    """Tensor-core or move opcodes and counts, how many others, or on one line why ptxas refuses the form."""

    opcodes: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    refused: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", self.refused and one_line(self.refused))

    def native(self, instruction: Instruction) -> bool:
        """Whether the tensor cores do a multiply in its own type, or one opcode the whole of a move."""
        if not instruction.multiplies:
            return sum(self.opcodes.values()) == 1
        pattern = NATIVE[instruction.type("a")] + (rf"\..*{instruction.bit_op.upper()}" if instruction.bit_op else "")
        return bool(self.opcodes) and all(re.match(pattern, opcode) for opcode in self.opcodes)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {"opcodes": dict(self.opcodes), "others": self.others, "refused": self.refused}


def lower(tools: Toolchain, row: Arch, instructions: Sequence[Instruction]) -> dict[str, Lowering]:
    """The lowering of each instruction on an arch, by id."""
    probes = {i.id: _kernel(i) for i in instructions}
    found: dict[str, Lowering] = {}
    special = [i for i in instructions if not i.target.name[-1].isdigit()]
    for group in ([i for i in instructions if i not in special], special):
        codes, refused = assemble(tools, [probes[i.id] for i in group], row) if group else ({}, {})
        for i in group:
            name = probes[i.id].name
            found[i.id] = Lowering(refused=refused[name]) if name in refused else count(codes[name].opcodes, i)
    return {i.id: found[i.id] for i in instructions}


def _kernel(instruction: Instruction) -> Kernel:
    """The probe; of a sparse multiply that with the first selector and D as it is; of a warpgroup A in registers."""
    if instruction.described:
        return wgmma_kernels.kernel(instruction, "raw")
    return sparse.product_kernel(instruction, 0) if instruction.metadata else kernels(experiments()[instruction.id])[0]


def count(opcodes: Sequence[str], instruction: Instruction) -> Lowering:
    """The lowering that the opcodes of an instruction's kernel amount to."""
    counts, wanted = Counter(opcodes), TENSOR if instruction.multiplies else MOVES
    named = {o: n for o, n in sorted(counts.items()) if o.split(".")[0] in wanted}
    filling = sum(n for o, n in counts.items() if o in FILLING)
    return Lowering(named, len(opcodes) - sum(named.values()) - filling)


def words(lowering: Lowering, instruction: Instruction) -> str:
    """A lowering on one line."""
    if lowering.refused:
        return "refused"
    text = ", ".join(f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowering.opcodes.items())
    if lowering.native(instruction):
        return text
    return f"emulated: {text or NOTHING[instruction.multiplies]}, {lowering.others} others"
