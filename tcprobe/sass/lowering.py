"""What an instruction becomes: the tensor-core or move opcodes of its machine code, with counts, native or emulated.

    mma.m16n8k16.row.col.f32.f16.f16.f32 on sm_75: HMMA.1688.F32 x 2

Native means that all tensor-core opcodes of a multiply are those of the type of A (`NATIVE`) and of its bit operation;
a form that becomes others, or none, is emulated. A matrix move is native where it is one of `MOVES`. `others`
counts all remaining instructions, loads and stores of the probe included, so it compares archs, not costs. Each form is
assembled alone: what ptxas makes of an emulated one differs by some instructions with what else is in its module.
`routines` are those that the compiler links into the kernel for an emulated form, __cuda_sm_8x_mma_... for one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.native import MOVES, TENSOR, is_native
from tcprobe.sass.decode import UNPRINTED
from tcprobe.text import one_line
from tcprobe.values import Json

if TYPE_CHECKING:  # what is saved is read without NumPy and tools
    from tcprobe.probes.ptx import Kernel
    from tcprobe.sass.cubin import Code
    from tcprobe.sass.toolchain import Toolchain

FILLING = ("NOP", "EXIT", "BRA")
UNREADABLE = "it compiles, but nvdisasm does not print its code"
NOTHING = {True: "no tensor-core opcode", False: "no opcode that moves a matrix"}


@dataclass(frozen=True)
class Lowering:
    """Tensor-core or move opcodes and counts, how many others, or on one line why ptxas refuses it, or UNREADABLE.

    `routines` are the names of the routines of the compiler that are linked in, in the order in which they stand there.
    `target` is the one that it was compiled for, None of what is refused; it is not saved, for the form tells it.
    """

    opcodes: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    refused: str | None = None
    routines: Sequence[str] = ()
    target: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", self.refused and one_line(self.refused))

    def native(self, instruction: Instruction) -> bool:
        """Whether the tensor cores do a multiply in its own type, or opcodes of one name all of a move."""
        if not instruction.multiplies:
            return len({opcode.split(".")[0] for opcode in self.opcodes}) == 1
        return is_native(instruction, self.opcodes)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        counts = {"opcodes": dict(self.opcodes), "others": self.others}
        return {**counts, "refused": self.refused, "routines": list(self.routines)}


def lower(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction]) -> dict[str, Lowering]:
    """The lowering of each instruction on an arch, by id; the same whatever else is asked for beside it.

    Refused is what ptxas refuses at the least target that the PTX ISA allows, and then at each of the arch's own.
    """
    probes = {i.id: probe(i) for i in instructions}
    lowerings = _compiled(tools, arch, probes, {i.id: i for i in instructions})
    for own in arch.targets:
        untried = [i for i in instructions if lowerings[i.id].refused and i.named_apart and own != i.target.own(arch)]
        at_own = {i.id: replace(probes[i.id], target=probes[i.id].target.alone(own)) for i in untried}
        again = _compiled(tools, arch, at_own, {i.id: i for i in untried})
        lowerings |= {id_: lowering for id_, lowering in again.items() if not lowering.refused}
    return lowerings


def saved(body: Json, instruction: Instruction, arch: Arch) -> Lowering:
    """What is saved of an instruction on an arch, with the target that it was compiled for."""
    lowering = Lowering(**body)
    taken = lowering.refused in (None, UNREADABLE)
    return replace(lowering, target=instruction.target.own(arch)) if taken else lowering


def _compiled(
    tools: Toolchain, arch: Arch, probes: Mapping[str, Kernel], instructions: Mapping[str, Instruction]
) -> dict[str, Lowering]:
    """What each probe becomes at its own target, by id."""
    from tcprobe.sass.cubin import assemble

    codes, refused = assemble(tools, list(probes.values()), arch, apart=True) if probes else ({}, {})
    outcomes: dict[str, Code | str] = {**codes, **refused}
    return {i: _lowering(instructions[i], outcomes[probe.name], probe.target.own(arch)) for i, probe in probes.items()}


def probe(instruction: Instruction) -> Kernel:
    """The probe; of a sparse multiply that with the first selector and D as it is; of a warpgroup A in registers.

    What has none is just assembled.
    """
    from tcprobe.probes import experiments, sparse, tensor_memory, wgmma_kernels
    from tcprobe.probes.experiment import kernels

    if instruction.described:
        return wgmma_kernels.kernel(instruction, "raw")
    if instruction.family == "tcgen05":
        return tensor_memory.kernel(instruction)
    return sparse.product_kernel(instruction, 0) if instruction.metadata else kernels(experiments()[instruction.id])[0]


def _lowering(instruction: Instruction, code_or_refusal: Code | str, target: str) -> Lowering:
    """Of its code for a target, or of ptxas' words where it refuses it."""
    if isinstance(code_or_refusal, str):
        return Lowering(refused=code_or_refusal)
    return replace(count(code_or_refusal.opcodes, instruction, code_or_refusal.routines), target=target)


def count(instructions_read: Sequence[str], instruction: Instruction, routines: Sequence[str] = ()) -> Lowering:
    """The lowering that the opcodes of an instruction's kernel, and the routines in it, amount to."""
    if UNPRINTED in instructions_read:
        return Lowering(refused=UNREADABLE)
    counts, wanted = Counter(instructions_read), TENSOR if instruction.multiplies else MOVES
    named = {o: n for o, n in sorted(counts.items()) if o.split(".")[0] in wanted}
    filling = sum(n for o, n in counts.items() if o in FILLING)
    return Lowering(named, len(instructions_read) - sum(named.values()) - filling, routines=routines)


def words(lowering: Lowering, instruction: Instruction) -> str:
    """A lowering on one line."""
    if lowering.refused:
        return "not printed" if lowering.refused == UNREADABLE else "refused"
    text = ", ".join(f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowering.opcodes.items())
    if lowering.native(instruction):
        return text
    return f"emulated: {text or NOTHING[instruction.multiplies]}, {lowering.others} others"
