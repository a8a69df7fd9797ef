"""What multiplies become on each arch: assembled here, or, for an arch that ptxas does not know, what is saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tcprobe.ask import cost
from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.isa.arch import Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.lowering import Lowering
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.choose import Layers, default
from tcprobe.store.results import Results
from tcprobe.text import escaped
from tcprobe.values import Json


@dataclass(frozen=True)
class Lowered:
    """What one multiply becomes on an arch, by which compiler.

    `source` is "published" or the folder where that is saved, None where it was assembled just now; `cost` what it was
    measured to cost.
    """

    instruction: Instruction
    arch: str
    lowering: Lowering
    compiler: str
    source: str | None = None
    cost: str | None = None

    def to_json(self) -> Json:
        """Plain data."""
        return {
            "instruction": self.instruction.name,
            "arch": self.arch,
            "native": self.lowering.native(self.instruction),
            "target": self.lowering.target,
            "compiler": self.compiler,
            "source": self.source,
            "cost": self.cost,
            **self.lowering.to_json(),
        }

    def __str__(self) -> str:
        tried = arch.arch(self.arch).targets if self.instruction.named_apart else (self.arch,)
        target = self.lowering.target or ", ".join(tried)
        reason = f" ({self.lowering.refused})" if self.lowering.refused else ""
        saved = f" ({self.source}, by {self.compiler})" if self.source else ""
        words = lowering.words(self.lowering, self.instruction)
        routines = f", by {', '.join(self.lowering.routines)}" if self.lowering.routines else ""
        cost = f"; {self.cost}" if self.cost else ""
        return f"{self.arch:<8}{self.instruction.id}: {words}{routines} [{target}]{reason}{saved}{cost}"


def lower_multiplies(
    instructions: Sequence[Instruction], name: str | None, cuda: Path | None = None, save: Path | None = None
) -> Iterator[Lowered]:
    """What multiplies become on arch `name`, or on every arch; with `save` written into that folder too.

    What is saved answers for an arch that ptxas does not know; but `cuda` and `save` ask for what this ptxas makes, so
    with them every arch is every one that it knows. UsageError where there is no answer for `name`.
    """
    tools, machine_code = toolchain.find(cuda), cuda or save
    every = tools.archs if machine_code else arch.ARCHS
    for device in every if name in (None, "all") else (arch.arch(name or ""),):
        if device in tools.archs:
            answers = _assemble(tools, device, instructions)
            if save:
                _save(Results(save), answers)
            yield from answers
        elif machine_code:
            raise _unknown_arch(tools, device)
        else:
            yield from _find_saved(tools, device, instructions, name not in (None, "all"))


def _assemble(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction]) -> list[Lowered]:
    lowerings = lowering.lower(tools, arch, instructions)
    layers = default()
    return [
        Lowered(instruction, arch.name, lowerings[instruction.id], tools.name, cost=_cost(instruction, arch, layers))
        for instruction in instructions
    ]


def _cost(instruction: Instruction, arch: Arch, layers: Layers) -> str | None:
    measured = cost.find_cost(instruction.id, arch.name, layers)
    return cost.short(measured) if measured else None


def _save(results: Results, answers: Sequence[Lowered]) -> None:
    """Save what was assembled; what was there and cannot be trusted is complained of."""
    assembled = {lowered.instruction.id: lowered.lowering.to_json() for lowered in answers}
    for complaint in results.write_lowering(answers[0].arch, answers[0].compiler, assembled):
        print(escaped(f"written again, because it cannot be trusted: {complaint}"), file=sys.stderr)


def _find_saved(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction], needed: bool) -> list[Lowered]:
    """The nearest that is saved of each multiply; UsageError where one that is `needed` is not."""
    layers = default()
    lowerings = list(layers.lowerings(arch.name))
    answers = []
    for instruction in instructions:
        saved = next(((body, source) for body, source in lowerings if instruction.id in body["instructions"]), None)
        if saved is None and (needed or len(instructions) == 1):
            raise _unknown_arch(tools, arch)
        if saved is None:
            continue
        body, source = saved
        low = lowering.from_body(body["instructions"][instruction.id], instruction, arch)
        answers.append(Lowered(instruction, arch.name, low, body["compiler"], source))
    return answers


def _unknown_arch(tools: Toolchain, arch: Arch) -> UsageError:
    names = ", ".join(row.name for row in tools.archs)
    return UsageError(f"{tools.ptxas} ({tools.ptxas_version}) does not know {arch.name}; it knows {names}.")
