"""The question `layouts`: in which notations a layout may be written wherever a fragment is named, an example each.

>>> found = layouts()
>>> found[0].notation, found[0].example, found[0].options
('CuTe', '((4,8),(2,2,2)):((32,1),(16,8,128))', '--tile 16x16')
"""

import json
import shlex
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal, NamedTuple

import click

from tcprobe import facts
from tcprobe.question import terminal
from tcprobe.question.answers import Meta
from tcprobe.question.arguments import checked
from tcprobe.question.declare import Option, command
from tcprobe.question.shared import JsonOption
from tcprobe.question.terminal import Styled
from tcprobe.text import Whole


class Notation(NamedTuple):
    """A line of layouts.csv: what is understood, with an example, and the options that it needs."""

    notation: str
    example: str
    options: str
    words: str

    @property
    def command(self) -> str:
        """How `show` is asked for the example."""
        options = f" {self.options}" if self.options else ""
        return f"tcprobe show {shlex.quote(self.example)}{options}"


@cache
def _notations() -> tuple[Notation, ...]:
    return facts.read(__file__, "layouts.csv", Notation)


@checked
def layouts(
    notation: Annotated[
        Literal["cute", "triton", "gluon", "tcprobe"] | None, Option("--of", "Only this notation.")
    ] = None,
) -> Sequence[Notation]:
    """List the notations in which a layout may be written wherever FRAGMENT is asked for, with an example each."""
    return [each for each in _notations() if notation in (None, each.notation.lower())]


@command(
    layouts,
    short="Notations of layouts that are understood, with examples.",
    json=Annotated[Notation, Meta(description="A notation of layouts, one object per line.")],
)
def print_layouts(found: Sequence[Notation], *, as_json: JsonOption = False) -> None:
    """A paragraph a notation, or JSON, an object a line."""
    if as_json:
        for each in found:
            click.echo(json.dumps(each._asdict()))
        return
    for each in found:
        terminal.lines([Styled(f"{each.notation}: {each.words}", each.notation, bold=True), Whole(f"  {each.command}")])
