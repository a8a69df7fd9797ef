"""The question `why-not`: why an arch does not have an operand, wherever that would be, or why there is no table."""

import json
from collections.abc import Sequence
from typing import Annotated

import click

from tcprobe.ask.absent import WhyNot
from tcprobe.ask.operand import in_place
from tcprobe.errors import UsageError
from tcprobe.isa import arch as archs
from tcprobe.question import terminal
from tcprobe.question.answers import Meta
from tcprobe.question.arguments import arch_name, word
from tcprobe.question.declare import NameWords, command
from tcprobe.question.shared import ArchOption, JsonOption, OnlyOption, ResultsOption
from tcprobe.store.choose import layers, some

MANY = 9  # from so many fragments on, only one of a kind is named


def why_not(
    name: Annotated[str, NameWords("FRAGMENT...")],
    *,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> list[WhyNot]:
    """Explain why an arch does not have FRAGMENT, or why there is no table of it. --json prints one object per line."""
    folders = layers(results, only)
    if arch is None:
        raise UsageError("which arch? Give it with `arch`, for example sm_75, or a GPU's name.")
    device = archs.arch(arch_name(arch) or "")
    return in_place(word("name", name)).why_not(device, folders)


@command(
    why_not,
    short="Why an arch does not have a fragment.",
    json=Annotated[WhyNot, Meta(description="Why an arch does not have a fragment, or no table of it.")],
)
def print_why_not(answers: Sequence[WhyNot], *, as_json: JsonOption = False) -> None:
    """Why an arch lacks each, the same words once."""
    if as_json:
        click.echo("\n".join(json.dumps(answer.to_json()) for answer in answers))
        return
    groups: dict[object, list[WhyNot]] = {}
    for answer in answers:
        same = answer.words if len(answers) < MANY else (answer.allowed, answer.measured)
        groups.setdefault(same, []).append(answer)
    for alike in groups.values():
        terminal.line(f"{some([answer.id for answer in alike], 1 if len(answers) >= MANY else MANY)}: {alike[0].words}")
