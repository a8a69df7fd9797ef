"""What multiplies become on each arch: assembled here, or, for an arch that ptxas does not know, what is saved."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from tcprobe.ask import cost, cost_words
from tcprobe.errors import UsageError
from tcprobe.isa import arch as archs
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Arch
from tcprobe.isa.instruction import Instruction
from tcprobe.question import terminal, words
from tcprobe.question.answers import Answer, plain
from tcprobe.question.arguments import ArchName, arch_name, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import NonEmptyText
from tcprobe.question.shared import CudaOption, JsonOption, SaveOption
from tcprobe.sass import lowering, toolchain
from tcprobe.sass.lowering import Lowering
from tcprobe.sass.toolchain import Toolchain
from tcprobe.store.choose import Layers, default
from tcprobe.store.names import resolve
from tcprobe.store.results import Results
from tcprobe.text import Whole, escaped
from tcprobe.values import Json


class LoweredAnswer(Answer):
    """What an instruction becomes on an arch, one object per line."""

    instruction: str
    arch: str
    native: bool
    target: str | None
    compiler: str
    source: str | None
    cost: str | None
    opcodes: dict[str, int]
    others: int
    refused: str | None
    routines: Sequence[str]


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
        answer = LoweredAnswer.of(
            self.lowering,
            instruction=self.instruction.name,
            arch=self.arch,
            native=self.lowering.native(self.instruction),
            compiler=self.compiler,
            source=self.source,
            cost=self.cost,
        )
        return plain(answer)

    def __str__(self) -> str:
        tried = archs.arch(self.arch).targets if self.instruction.named_apart else (self.arch,)
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
    every = tools.archs if machine_code else archs.ARCHS
    for device in every if name in (None, "all") else (archs.arch(name or ""),):
        if device in tools.archs:
            answers = _assemble(tools, device, instructions)
            if save:
                assembled = {lowered.instruction.id: lowered.lowering.to_json() for lowered in answers}
                for complaint in Results(save).write_lowering(answers[0].arch, answers[0].compiler, assembled):
                    print(escaped(f"written again, because it cannot be trusted: {complaint}"), file=sys.stderr)
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
    return cost_words.in_brief(measured) if measured else None


def _find_saved(tools: Toolchain, arch: Arch, instructions: Sequence[Instruction], needed: bool) -> list[Lowered]:
    """The nearest that is saved of each multiply; UsageError where one that is `needed` is not.

    Of an arch of which nothing at all is saved there is no answer where every arch is asked.
    """
    layers = default()
    lowerings = list(layers.lowerings(arch.name))
    answers = []
    for instruction in instructions:
        saved = next(((body, source) for body, source in lowerings if instruction.id in body["instructions"]), None)
        if saved is None and (needed or (lowerings and len(instructions) == 1)):
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


@checked
def lower(
    name: Annotated[str | Sequence[str] | None, NameWords("[INSTRUCTION]...", "many", required=False)] = None,
    arch: Annotated[
        ArchName | None,
        Option(
            "--arch",
            "Default: all; with --cuda or --save all that ptxas knows.",
            "sm_XX[,...]|all",
            NonEmptyText(),
            word=words.ARCH,
        ),
    ] = None,
    cuda: CudaOption = None,
    *,
    save: SaveOption = None,
) -> list[Lowered]:
    """Show which machine instructions a multiply or a matrix move becomes on each arch, native or emulated.

    INSTRUCTION is a name, a shortened name, or a pattern. Without one it lists all that a warp runs: counts by arch,
    or with --arch counts by family, then each. For an arch that ptxas does not know, the answer comes from ./results or
    the published tables, with the compiler that was used; with --cuda or --save that is an error.
    """
    patterns = [name] if isinstance(name, str) else list(name or ())
    return list(lower_multiplies(_rows(patterns), arch_name(arch), cuda, save))


def _rows(patterns: Sequence[str]) -> list[Instruction]:
    """The instructions that patterns mean, all that a warp runs without one."""
    rows = dict.fromkeys(row for pattern in patterns for row in resolve(pattern, default()).some_instructions)
    return list(rows or dict.fromkeys(inventory.executed_by(WARP)))


@command(lower, short="Which machine instructions a PTX instruction becomes.", json=LoweredAnswer)
def print_lower(found: list[Lowered], *, name: Sequence[str], arch: str | None, as_json: JsonOption = False) -> None:
    """Each; without a name counts, and each on an arch."""
    if as_json:
        for lowered in found:
            click.echo(json.dumps(lowered.to_json()))
        return
    with terminal.pager():
        if not name:
            terminal.lines(map(Whole, _counts(found, by_family=arch not in (None, "all"))))
        if name or arch:
            terminal.lines(map(str, found))
        else:
            terminal.line(
                "`tcprobe lower INSTRUCTION`, or a pattern, lists what each becomes; --arch sm_XX lists an arch"
            )


def _counts(lowerings: Sequence[Lowered], by_family: bool) -> Iterator[str]:
    """How many instructions that a warp runs become their own ones, by family or by arch."""
    rows = _rows(())
    heads = ("native", "emulated", "refused", "not known")
    totals = Counter(instruction.family for instruction in rows)
    counts: dict[str, Counter[str]] = {name: Counter() for name in totals} if by_family else {}
    for lowered in lowerings:
        native = "native" if lowered.lowering.native(lowered.instruction) else "emulated"
        name = lowered.instruction.family if by_family else lowered.arch
        counts.setdefault(name, Counter())["refused" if lowered.lowering.refused else native] += 1
    first = max(8, *map(len, counts))
    yield terminal.bold("  ".join(("family".ljust(first) if by_family else "arch".ljust(first), *heads)))
    for name, counted in counts.items():
        counted["not known"] = (totals[name] if by_family else len(rows)) - counted.total()
        yield "  ".join((name.ljust(first), *(str(counted[head]).rjust(len(head)) for head in heads)))
