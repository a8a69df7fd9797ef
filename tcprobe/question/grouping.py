"""Groups of commands, which refuse an unknown name or an option given twice before anything is done."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tcprobe.errors import UnknownNameError, UsageError
from tcprobe.text import quoted

MANY = 9  # commands that a message does not list


class Suggesting(click.Group):
    """A group of commands that refuses an unknown name with the names that it is like."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a line; it and its words stay known, for what is said of errors.

        UnknownNameError, with lines to paste, for a name that no command has.
        """
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise self._unknown_command(ctx, args)
        name, command, words = super().resolve_command(ctx, args)
        ctx.meta["args"], ctx.meta["command"] = list(words), command
        if command is not None and not ctx.resilient_parsing:
            _check_once(click.Context(command, parent=ctx, info_name=name), words)
        return name, command, words

    def _unknown_command(self, ctx: click.Context, args: list[str]) -> UnknownNameError:
        """The error for an unknown command, with names like it, commands with an option of that name, or the help."""
        import difflib
        import shlex

        path, names = ctx.command_path.split(), self.list_commands(ctx)
        if near := difflib.get_close_matches(args[0].lower(), names, n=3):
            advice, choices = f"Did you mean {' or '.join(near)}?", [[*path, name, *args[1:]] for name in near]
        elif having := _with_option(args[0].lower(), ctx.find_root()):
            advice, choices = f"--{args[0].lower()} is an option.", [[path[0], name, "--help"] for name in having]
        else:
            some = f"{', '.join(names)}." if len(names) < MANY else f"{len(names)}; its help lists them."
            advice, choices = f"{' '.join(path)} has {some}", [[*path, "--help"]]
        error = UnknownNameError(f"there is no command {quoted(' '.join([*path[1:], args[0]]))}. {advice}")
        error.commands = [shlex.join(words) for words in choices]
        return error


def _check_once(ctx: click.Context, command_line: Sequence[str]) -> None:
    """UsageError for an option with a value that stands twice and may not: click would take the last, silently."""
    try:
        given = ctx.command.make_parser(ctx).parse_args(list(command_line))[2]
    except click.UsageError:
        return  # the command itself says it, with its own help
    once = [p for p in given if isinstance(p, click.Option) and not (p.multiple or p.is_flag or p.count)]
    if twice := next((param for param in once if given.count(param) > 1), None):
        raise UsageError(f"{max(twice.opts, key=len)} is given {given.count(twice)} times, but takes one value.")


def _with_option(name: str, ctx: click.Context) -> list[str]:
    """Names of the commands that have an option --NAME."""
    group = ctx.command
    commands = (
        [group.get_command(ctx, name) for name in group.list_commands(ctx)] if isinstance(group, click.Group) else []
    )
    return [str(command.name) for command in commands if command and any(f"--{name}" in p.opts for p in command.params)]
