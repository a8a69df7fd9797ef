"""What only a terminal gets: progress on stderr, and a pager for long text. A pipe or a file gets none of it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

import click


def is_terminal(*streams: TextIO | None) -> bool:
    """Whether all of these streams are terminals; a closed one is not."""
    return all(stream is not None and stream.isatty() for stream in streams)


Tick = Callable[[int, str | None], None]  # (more to do, None), or (0, what is done)


@contextmanager
def progress(doing: str) -> Iterator[Tick]:
    """A bar with what is done, the total and the time left; yields the function that advances it."""
    if not is_terminal(sys.stderr):
        yield lambda _more, _finished: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task(doing, total=0)

        def tick(more: int, finished: str | None) -> None:
            if finished is None:
                bar.update(task, total=(bar.tasks[0].total or 0) + more)
            else:
                bar.update(task, advance=1, description=finished)

        yield tick


@contextmanager
def working(words: str) -> Iterator[None]:
    """A spinner beside `words` while one long step runs."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True, highlight=False).status(Text(words)):
        yield


@contextmanager
def pager(enabled: bool = True) -> Iterator[None]:
    """What is printed inside goes through the user's pager if it is longer than the terminal; Ctrl-C leaves as usual.

    PAGER= (empty) or PAGER=cat turns it off.
    """
    if not enabled or not is_terminal(sys.stdin, sys.stdout) or os.environ.get("PAGER") == "":
        yield
        return
    context, printed = click.get_current_context(silent=True), io.StringIO()
    colour = context.color if context else None
    if context and colour is None:
        context.color = True  # else click would take the colours out of what is held
    try:
        with redirect_stdout(printed):
            yield
    finally:
        if context:
            context.color = colour
        text = printed.getvalue()
        if len(text.splitlines()) < os.get_terminal_size(sys.stdout.fileno()).lines:
            click.echo(text, nl=False, color=colour)
        else:
            click.echo_via_pager(text.removesuffix("\n"), color=colour)
