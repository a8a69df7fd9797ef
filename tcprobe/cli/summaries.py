"""Counts before lists: what there is by family and shape, what instructions become by arch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.question.wrapping import bold

if TYPE_CHECKING:
    from tcprobe.ask.lowered import Lowered
    from tcprobe.isa.instruction import Instruction


def lowerings(answers: Sequence[Lowered], instructions: Sequence[Instruction], by_family: bool) -> None:
    """`lower` without one: how many of `instructions` become their own instructions, by family or by arch."""
    heads = ("native", "emulated", "refused", "not known")
    totals = Counter(instruction.family for instruction in instructions)
    counts: dict[str, Counter[str]] = {name: Counter() for name in totals} if by_family else {}
    for answer in answers:
        native = "native" if answer.lowering.native(answer.instruction) else "emulated"
        name = answer.instruction.family if by_family else answer.arch
        counts.setdefault(name, Counter())["refused" if answer.lowering.refused else native] += 1
    first = max(8, *map(len, counts))
    click.echo(bold("  ".join(("family".ljust(first) if by_family else "arch".ljust(first), *heads))))
    for name, family_counts in counts.items():
        family_counts["not known"] = (totals[name] if by_family else len(instructions)) - family_counts.total()
        click.echo("  ".join((name.ljust(first), *(str(family_counts[head]).rjust(len(head)) for head in heads))))
