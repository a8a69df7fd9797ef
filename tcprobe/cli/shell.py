"""What a shell can rely on: whole lines or an error, one line an error, an exit code (see `errors`), no traceback.

`prepare` sets up the process for that, before anything heavy is imported; `Group` turns errors of commands into
messages. TCPROBE_DEBUG=1 prints tracebacks of internal errors.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from tcprobe.errors import TcprobeError, debugging, understood
from tcprobe.system.interrupts import Stopped
from tcprobe.text import message


class Group(click.Group):
    """Commands whose errors are a message and an exit code."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse; `--help` prints here."""
        with told():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with told(ctx):
            return super().invoke(ctx)


@contextmanager
def told(ctx: click.Context | None = None) -> Iterator[None]:
    """Errors inside become a line on stderr and click's Exit with their code; click's own pass."""
    try:
        yield
    except click.ClickException as error:
        error.message = message(error.message)  # type: ignore[misc]  # click has it final
        raise
    except (click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as stopped:
        running = ctx is not None and ctx.invoked_subcommand == "run"
        _say("Stopped. What was measured is saved; run again to go on." if running else "Stopped.")
        code = stopped.code if isinstance(stopped, Stopped) else 128 + signal.SIGINT
        raise click.exceptions.Exit(code) from None
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(141) from None  # as if SIGPIPE had ended the process
    except Exception as error:
        if debugging() and not isinstance(error, TcprobeError):
            traceback.print_exc()
        if isinstance(error, OSError):
            _discard_output()
        meant = understood(error)
        _say(f"Error: {meant}")
        raise click.exceptions.Exit(meant.exit_code) from None


def _discard_output() -> None:
    """What is still in the buffer goes nowhere: nobody reads it, and Python would complain at its end."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    click.echo(message(text), err=True)
