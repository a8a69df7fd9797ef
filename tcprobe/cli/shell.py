"""What a shell can rely on: whole lines or an error, one line an error, an exit code (see `errors`), no traceback.

`prepare` sets up the process for that, before anything heavy is imported; `Group` turns errors of commands into
messages. TCPROBE_DEBUG=1 prints tracebacks of internal errors.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import click

from tcprobe import question
from tcprobe.errors import InternalError, NoMajorityError, UsageError, debugging, understood
from tcprobe.question.naming import Suggesting
from tcprobe.system.interrupts import Stopped
from tcprobe.text import message

# commands by what one wants to do
HEADINGS = {
    "Ask commands:": (
        "find",
        "show",
        "where",
        "trace",
        "list",
        "why-not",
        "compare",
        "diff",
        "cost",
        "numerics",
        "order",
        "banks",
        "agree",
        "plan",
        "layouts",
    ),
    "Make code commands:": (
        "emit",
        "convert",
        "reduce",
        "load",
        "path",
        "descriptor",
        "scales",
        "tensormap",
        "swizzle",
        "kernel",
    ),
    "Measure commands:": ("run", "fit", "ablate", "doctor"),
    "Check commands:": ("verify", "lower", "read", "check", "emulate", "predict", "compilers", "audit"),
    "Publish commands:": ("contribute", "merge", "pages", "site"),
}


class Group(Suggesting):
    """Commands whose errors are a message and an exit code, imported when they are asked for.

    `question` knows where the command of a question is; `later` says where others are.
    """

    later: ClassVar[dict[str, str]] = {}  # name of a command -> module that has it among its COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*self.commands, *self.later, *question.names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, None if there is none."""
        if cmd_name not in self.commands:
            found: Sequence[click.Command] = ()
            if cmd_name in self.later:
                found = importlib.import_module(self.later[cmd_name]).COMMANDS
            elif cmd_name in question.names():
                found = (question.load(cmd_name),)
            for command in found:
                from tcprobe.cli import examples

                command.epilog = examples.epilog(str(command.name))
                self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a word: examples by task."""
        if not args and not ctx.resilient_parsing:
            from tcprobe.cli import examples

            click.echo(examples.tasks())
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands by task."""
        known = {name for names in HEADINGS.values() for name in names}
        others = [name for name in self.list_commands(ctx) if name not in known]
        for heading, names in [*HEADINGS.items(), *([("More commands:", others)] if others else [])]:
            with formatter.section(heading.removesuffix(":")):
                formatter.write_dl([(name, short) for name in names if (short := self._short(ctx, name))])

    def _short(self, ctx: click.Context, name: str) -> str:
        """A command's line in the list; a question's is read without importing it."""
        command = None if name in question.names() else self.get_command(ctx, name)
        return command.get_short_help_str(70) if command else question.names().get(name, "")

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, or complete what a shell has of a command; errors of commands are printed before they come here."""
        try:
            return super().main(*args, **extra)
        except (LookupError, ValueError) as error:
            words = "completion takes COMP_WORDS, and COMP_CWORD as a number, from the shell's own script"
            _say(f"Error: {words}: {type(error).__name__}: {error}")
            sys.exit(UsageError.exit_code)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse; `--help` prints here."""
        with reporting_errors():
            if os.environ.get("NO_COLOR"):  # no-color.org; click does not ask for it
                extra.setdefault("color", False)
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        with reporting_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def reporting_errors(ctx: click.Context | None = None) -> Iterator[None]:
    """Errors inside become a line on stderr and click's Exit with their code; click's own pass."""
    try:
        yield
    except click.ClickException as error:
        error.message = message(_with_advice(error))  # type: ignore[misc]  # click has it final
        raise
    except (click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as stopped:
        running = ctx is not None and ctx.invoked_subcommand == "run"
        _say("Stopped. What was measured is saved; run again to continue." if running else "Stopped.")
        code = stopped.code if isinstance(stopped, Stopped) else 128 + signal.SIGINT
        raise click.exceptions.Exit(code) from None
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(141) from None  # as if SIGPIPE had ended the process
    except Exception as error:
        failure = understood(error)
        if debugging() and isinstance(failure, InternalError):
            import traceback

            traceback.print_exc()
        if isinstance(error, OSError):
            _discard_output()
        from tcprobe.cli.hints import hint, in_options

        if isinstance(failure, NoMajorityError) and ctx is not None and "--json" in ctx.meta.get("args", ()):
            click.echo(json.dumps(failure.to_json()))
        _say(f"Error: {in_options(str(failure), ctx)} {hint(failure, ctx)}".rstrip())
        for line in getattr(failure, "commands", ()):
            _say(f"  {line}")
        raise click.exceptions.Exit(failure.exit_code) from None


def _with_advice(refused: click.ClickException) -> str:
    """The words of click's error, and what may be meant; click itself guesses by letters, dashes included."""
    from tcprobe.cli import hints

    advice = ""
    if isinstance(refused, click.NoSuchOption):
        advice, refused.possibilities = hints.instead_of(refused.option_name, refused.ctx), None  # type: ignore[misc]
    elif isinstance(refused, click.BadParameter) and (wrong := re.match("'(.*)' is not one of", refused.message)):
        advice = hints.choice_of(wrong[1], refused.ctx)
    return f"{refused.message} {advice}".rstrip()


def _discard_output() -> None:
    """Drop what is still in the buffer: nobody reads it, and Python would complain when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    click.echo(message(text), err=True)
