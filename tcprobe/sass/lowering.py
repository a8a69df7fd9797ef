"""What an instruction becomes: the tensor-core or move opcodes of its machine code, counted; native or emulated.

    mma.m16n8k16.row.col.f32.f16.f16.f32 on sm_75: HMMA.1688.F32 x 2

A multiply is native if all its tensor-core opcodes are those of A's type (`NATIVE`) and of its bit operation. If it
becomes others, or none, it is emulated. A matrix move is native if it becomes one of `MOVES`. `others` counts all
remaining instructions, with the probe's own loads and stores; so it compares archs, not costs. Each form is assembled
alone, since ptxas's code for an emulated one depends on what else is in the module. `routines` are those that the
compiler links in for an emulated form, such as __cuda_sm_8x_mma_...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction, is_native
from tcprobe.isa.opcodes import of_kind
from tcprobe.sass.decode import UNPRINTED
from tcprobe.text import one_line
from tcprobe.values import Json

if TYPE_CHECKING:  # saved lowerings are read without NumPy and tools
    from tcprobe.probes.ptx import Kernel
    from tcprobe.sass.cubin import Code
    from tcprobe.sass.toolchain import Toolchain
    from tcprobe.store.choose import Layers

FILLING = of_kind("filler", "exit", "branch")
UNREADABLE = "it compiles, but nvdisasm does not print its code"
NOTHING = {True: "no tensor-core opcode", False: "no opcode that moves a matrix"}


@dataclass(frozen=True)
class Lowering:
    """Tensor-core or move opcodes with counts, and how many others; or `refused`: ptxas's reason, or UNREADABLE.

    `routines` are the compiler's, linked in, in the order of their addresses. `target` is what it was compiled for,
    None if refused; it is not saved, since the form determines it.
    """

    opcodes: Mapping[str, int] = field(default_factory=dict)
    others: int = 0
    refused: str | None = None
    routines: Sequence[str] = ()
    target: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", self.refused and one_line(self.refused))

    def native(self, instruction: Instruction) -> bool:
        """Whether tensor cores multiply in the form's own type; or, for a move, whether opcodes of one name do all of
        it.
        """
        if not instruction.multiplies:
            return len({opcode.split(".")[0] for opcode in self.opcodes}) == 1
        return is_native(instruction, self.opcodes)

    def to_json(self) -> dict[str, object]:
        counts = {"opcodes": dict(self.opcodes), "others": self.others}
        return {**counts, "refused": self.refused, "routines": list(self.routines)}


def lower(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction]) -> dict[str, Lowering]:
    """The lowering of each instruction on an arch, by id; it does not depend on the other instructions.

    A form is refused if ptxas refuses it for the least target that the PTX ISA allows, and for each of the arch's own.
    """
    probes = {i.id: probe(i) for i in instructions}
    lowerings = _compile(tools, arch, probes, {i.id: i for i in instructions})
    for own in arch.targets:
        untried = [i for i in instructions if lowerings[i.id].refused and i.named_apart and own != i.target.own(arch)]
        at_own = {i.id: replace(probes[i.id], target=probes[i.id].target.alone(own)) for i in untried}
        again = _compile(tools, arch, at_own, {i.id: i for i in untried})
        lowerings |= {id_: lowering for id_, lowering in again.items() if not lowering.refused}
    return lowerings


def from_body(body: Json, instruction: Instruction, arch: Arch) -> Lowering:
    """The lowering of an instruction on an arch, from a finding's body."""
    lowering = Lowering(**body)
    accepted = lowering.refused in (None, UNREADABLE)
    return replace(lowering, target=instruction.target.own(arch)) if accepted else lowering


def saved(instruction: Instruction, arch: Arch, layers: Layers) -> Lowering | None:
    """What an instruction becomes on an arch by the nearest layer that says so; None where none does."""
    bodies = (body["instructions"] for body, _ in layers.lowerings(arch.name))
    body = next((rows[instruction.id] for rows in bodies if instruction.id in rows), None)
    return from_body(body, instruction, arch) if body else None


def _compile(
    tools: Toolchain, arch: Arch, probes: Mapping[str, Kernel], instructions: Mapping[str, Instruction]
) -> dict[str, Lowering]:
    """What each probe becomes for its own target, by id."""
    from tcprobe.sass.cubin import assemble

    codes, refused = assemble(tools, list(probes.values()), arch, apart=True) if probes else ({}, {})
    outcomes: dict[str, Code | str] = {**codes, **refused}
    lowerings = {}
    for id_, kernel in probes.items():
        outcome = outcomes[kernel.name]
        if isinstance(outcome, str):
            lowerings[id_] = Lowering(refused=outcome)
        else:
            counted = count(outcome.opcodes, instructions[id_], outcome.routines)
            lowerings[id_] = replace(counted, target=kernel.target.own(arch))
    return lowerings


def probe(instruction: Instruction) -> Kernel:
    """The kernel that is assembled for an instruction.

    For a sparse multiply, the one with the first selector that stores D; for a warpgroup, the one with A in registers.
    """
    from tcprobe.probes.experiment import kernels

    if instruction.described:
        from tcprobe.probes import wgmma

        return wgmma.kernel(instruction, "raw")
    if instruction.family == "tcgen05":
        from tcprobe.probes import tensor_memory

        return tensor_memory.kernel(instruction)
    if instruction.metadata:
        from tcprobe.probes import sparse

        return sparse.product_kernel(instruction, 0)
    if instruction.multiplies and instruction.family in ("wmma", "mma"):
        from tcprobe.probes.multiply import MultiplyExperiment

        return kernels(MultiplyExperiment(instruction))[0]  # as `experiments` has it, without making all
    from tcprobe.probes import experiments

    return kernels(experiments()[instruction.id])[0]


def count(instructions_read: Sequence[str], instruction: Instruction, routines: Sequence[str] = ()) -> Lowering:
    """The lowering from the opcodes of an instruction's kernel, and the routines in it."""
    if UNPRINTED in instructions_read:
        return Lowering(refused=UNREADABLE)
    counts, mnemonics = Counter(instructions_read), of_kind("multiply" if instruction.multiplies else "matrix move")
    counted = {o: n for o, n in sorted(counts.items()) if o.split(".")[0] in mnemonics}
    filling = sum(n for o, n in counts.items() if o in FILLING)
    return Lowering(counted, len(instructions_read) - sum(counted.values()) - filling, routines=routines)


def words(lowering: Lowering, instruction: Instruction) -> str:
    """A lowering on one line."""
    if lowering.refused:
        return "not printed" if lowering.refused == UNREADABLE else "refused"
    text = ", ".join(f"{opcode} x {n}" if n > 1 else opcode for opcode, n in lowering.opcodes.items())
    if lowering.native(instruction):
        return text
    return f"emulated: {text or NOTHING[instruction.multiplies]}, {lowering.others} others"
