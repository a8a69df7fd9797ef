"""docs/commands.md, made from the commands themselves: python tools/reference.py writes it, --check compares.

A command's summary, its arguments and options are its own `--help`, so that the page says what the program does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
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
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            yield from _rows(*record)
    yield ""


def _rows(names: str, words: str) -> Iterator[str]:
    """A row of an option; what is longer than a cell goes on in the next one."""
    import textwrap

    first, *rest = textwrap.wrap(" ".join(words.split()).replace("|", "\\|"), 108, break_long_words=False) or [""]
    yield f"| `{names.replace('|', chr(92) + '|')}` | {first} |"
    yield from (f"| | {line} |" for line in rest)


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text("utf-8") == text else "docs/commands.md is stale: python tools/reference.py")
    PAGE.write_text(text, "utf-8")
