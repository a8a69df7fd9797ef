"""What docs/ has of the program itself: python tools/reference.py writes it, --check compares.

docs/commands.md: a command's summary and options are its own `--help`, so that the page says what the program does.
docs/fragment.svg: the picture in the README, as a notebook draws it.
docs/requests.json: what each question takes, from the signatures of Python's functions.
docs/schema.json: what each command prints with `--json`, from the types of its answers.
docs/rules.md: what `tcprobe check` looks for, from the rules.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
MANY = re.compile(r"\{(\w+), (?:\w+, ){7,}(\w+)\}")  # a multiply's registers
MADE = "<!-- made by `python tools/reference.py`; edit the commands' help instead -->"


def page() -> str:
    """The whole page."""
    from tcprobe.cli import main
    from tcprobe.cli.shell import HEADINGS

    lines = ["# Commands", "", MADE, "", "What they have in common is in [using the commands](usage.md).", ""]
    for heading, names in HEADINGS.items():
        lines += [f"## {heading.removesuffix(' commands:')} commands", ""]
        for name in names:
            command = main.get_command(click.Context(main), name)
            assert command is not None
            lines += _section(command, f"tcprobe {name}")
    return "\n".join(lines).rstrip() + "\n"


def _section(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield from (f"### `{path}`", "")
    if isinstance(command, click.Group):
        yield from (click.unstyle(command.help or "").split("\f")[0].strip(), "")
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from _section(one, f"{path} {name}")
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{path} {usage}", "```", "")
    for paragraph in (command.help or "").replace("\b\n", "").split("\n\n"):
        yield from (" ".join(paragraph.split()), "")
    yield from ("| option | what it does |", "| --- | --- |")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from _rows(_named(parameter), parameter.help or "")
    yield ""


def _named(option: click.Option) -> str:
    """Its names and what follows them; of what one version of click alone prints nothing."""
    of = option.type
    value = option.metavar or ("|".join(map(str, of.choices)) if isinstance(of, click.Choice) else of.name.upper())
    return ", ".join(option.opts) + ("" if option.is_flag else f" {value}")


def _rows(names: str, words: str) -> Iterator[str]:
    """A row of an option; what is longer than a cell goes on in the next one."""
    import textwrap

    first, *rest = textwrap.wrap(" ".join(words.split()).replace("|", "\\|"), 108, break_long_words=False) or [""]
    yield f"| `{names.replace('|', chr(92) + '|')}` | {first} |"
    yield from (f"| | {line} |" for line in rest)


def picture() -> str:
    """The fragment of the README."""
    import tcprobe

    drawn = tcprobe.fragment("mma m16n8k16 bf16 f32 a", arch="sm_90")._repr_svg_()
    assert drawn
    return drawn + "\n"


def tile() -> str:
    """The tile of docs/layouts.md by warps."""
    import tcprobe

    return tcprobe.layout("mma m16n8k16 f16 f32 d", warps="2x4", tile=(64, 64, 16), arch="sm_90").emit("svg-warps")


def requests() -> str:
    """What each question takes, as JSON Schema, by the names of Python's parameters."""
    from tcprobe import question
    from tcprobe.question import declare

    for name in question.names():
        question.load(name)
    schemas = {name: declare.request_schema(asked) for name, asked in sorted(declare.QUESTIONS.items())}
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "What tcprobe's questions take"}
    return json.dumps({**title, "$defs": schemas}, indent=1) + "\n"


def answers() -> str:
    """What each command prints, as JSON Schema, from the types of answers."""
    from tcprobe.cli import main
    from tcprobe.question.answers import schemas

    context = click.Context(main)
    for name in main.list_commands(context):
        main.get_command(context, name)
    title = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tcprobe --json",
        "description": "What each command prints with --json, by command: `list` an array of these objects, every "
        "other command one a line.",
    }
    return json.dumps({**title, "$defs": schemas()}, indent=1) + "\n"


def rules() -> str:
    """Every rule of `tcprobe check`, with its evidence, and what its two examples differ in."""
    from difflib import unified_diff

    from tcprobe.check.rule import rules as every

    lines = ["# Rules", "", MADE.replace("the commands' help", "the rules in tcprobe/check/rules"), ""]
    lines += [
        "What [`tcprobe check`](check.md) looks for, and what turns the example that fails into the one that passes;",
        "`tcprobe check --rules` prints both whole.",
        "",
    ]
    for rule in every().values():
        lines += [
            f"## `{rule.NAME}`",
            "",
            f"{rule.SEVERITY.capitalize()}: {rule.SAYS}.",
            "",
            f"What to do: {rule.FIX}.",
            "",
        ]
        lines += [*(f"- {evidence}" for evidence in rule.EVIDENCE), ""]
        fails, passes = (text.strip("\n").splitlines() for text in (rule.FAILS, rule.PASSES))
        changed = [line.rstrip() for line in [*unified_diff(fails, passes, n=1)][2:] if line[:2] != "@@"]
        lines += ["```diff", *(MANY.sub(r"{\1, ..., \2}", line) for line in changed), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


MADE_FILES = {
    ROOT / "docs" / "rules.md": rules,
    ROOT / "docs" / "commands.md": page,
    ROOT / "docs" / "fragment.svg": picture,
    ROOT / "docs" / "requests.json": requests,
    ROOT / "docs" / "schema.json": answers,
    ROOT / "docs" / "tile.svg": tile,
}

if __name__ == "__main__":
    for path, made in MADE_FILES.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(made(), "utf-8")
        elif path.read_text("utf-8") != made():
            sys.exit(f"{path.relative_to(ROOT)} is stale: python tools/reference.py")
