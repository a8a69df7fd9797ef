"""The question `find`: which command answers a question, by its words.

>>> [one.name for one in find(["causal"])], find("LBO and SBO")[0].command
(['reduce'], 'tcprobe descriptor --tile 128x64 --type bf16')
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import log
from typing import Annotated, NamedTuple

import click

from tcprobe import facts, question
from tcprobe.errors import UsageError
from tcprobe.question import answers as typed
from tcprobe.question import terminal
from tcprobe.question.answers import Meta
from tcprobe.question.arguments import checked
from tcprobe.question.declare import PlainArgument, command
from tcprobe.question.options import NonEmptyText
from tcprobe.question.shared import JsonOption
from tcprobe.question.terminal import Styled
from tcprobe.text import Whole, quoted

MOST = 4  # answers
NEAR = 0.6  # of the best answer's weight: what is shown beside it
# words of any question
SILENT = re.compile(
    "an?|and|are|at|be|by|can|do|does|for|from|has|have|how|i|in|is|its?|me|my|of|on|or|s|t|that|the|there|this|to|was|"
    "what|when|which|why|will|with|you|your"
)


class FoundCommand(typed.Answer):
    """A command that answers the question, the best first, one object per line."""

    name: Annotated[str, Meta(description="The command.")]
    command: Annotated[str, Meta(description="A line to paste.")]
    says: Annotated[str, Meta(description="What it answers.")]


class Answer(NamedTuple):
    """A line of find.csv: what people type or ask, a command to paste, what it answers."""

    phrase: str
    command: str
    says: str

    @property
    def name(self) -> str:
        """The command's."""
        return self.command.split()[1]


@cache
def answers() -> tuple[Answer, ...]:
    """All lines; of a question without one its line in the list of commands."""
    written = facts.read(__file__, "find.csv", Answer)
    named = {each.name for each in written}
    others = (Answer(short, f"tcprobe {name} --help", short) for name, short in question.names().items())
    return (*written, *(each for each in others if each.name not in named))


@checked
def find(
    text: Annotated[str | Sequence[str], PlainArgument("WORDS...", NonEmptyText(), multiple=True)],
) -> Sequence[Answer]:
    """Find the commands that answer a question: causal, LBO, "hide latency", occupancy, fp8 accumulate.

    The best match comes first, with a command to paste.
    """
    asked = set(_words(text if isinstance(text, str) else " ".join(text)))
    known = {each: set(_words(f"{each.phrase} {each.says} {each.name}")) for each in answers()}
    counts = Counter(word for words in known.values() for word in words)
    weights = {each: sum(log(1 + len(known) / counts[word]) for word in asked & words) for each, words in known.items()}
    best = max(weights.values())
    if not best:
        raise UsageError(
            f"no command is known for {quoted(' '.join(sorted(asked)))}. `tcprobe --help` lists all commands."
        )
    near = [each for each in known if weights[each] >= NEAR * best]
    return sorted(near, key=lambda each: -weights[each])[:MOST]


def _words(text: str) -> list[str]:
    """Words in lower case, singular, without those that any question has; numbers and names with what joins them."""
    every = re.findall(r"[a-z0-9_]+", text.lower())
    return [word.removesuffix("s") if len(word) > 3 else word for word in every if not SILENT.fullmatch(word)]


@command(find, short="Which command answers a question, by its words.", json=FoundCommand)
def print_answers(found: Sequence[Answer], *, as_json: JsonOption = False) -> None:
    """What each answers, and the command."""
    for each in found:
        if as_json:
            click.echo(json.dumps(typed.plain(FoundCommand.of(each))))
        else:
            terminal.lines([Styled(f"{each.name}: {each.says}", each.name, bold=True), Whole(f"  {each.command}")])
