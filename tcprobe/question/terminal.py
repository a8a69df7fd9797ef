"""What a terminal gets: lines as wide as it is, or as COLUMNS says, colours, progress on stderr, a pager for long text.

Where there is neither, as in a pipe or a file that a program reads, lines stay whole, and there is none of the rest.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, TextIO, TypedDict

import click

from tcprobe.text import Whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack


USUAL = 80


class Style(TypedDict, total=False):
    """How a word looks on a terminal."""

    fg: int
    bold: bool


# of the 256 colours, which no theme changes: each has a contrast of at least 4.4 to white and to black
GOOD: Style = {"fg": 28}
BAD: Style = {"fg": 131, "bold": True}
DOUBT: Style = {"fg": 130}
NAME: Style = {"fg": 63}
LESS: Style = {"fg": 243}


def bold(text: str) -> str:
    """Text that stands out on a terminal."""
    return click.style(text, bold=True)


def stated_width() -> int | None:
    """Columns of COLUMNS, or of the terminal; None where there is neither."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or None
    except (OSError, ValueError):
        return None


def width() -> int:
    """Columns to draw in: those stated, or 80."""
    return stated_width() or USUAL


def line(text: str, word: str = "", folds: bool = True, err: bool = False, **style: Unpack[Style]) -> None:
    """Print a line, to standard error if `err`. If it `folds`, it breaks between words, the rest indented by four.

    A name or path is never broken. The first `word` in it is styled.
    """
    broken = "\n".join(fold(text, stated_width())) if folds else text
    click.echo(broken.replace(word, click.style(word, **style), 1) if word else broken, err=err)


class Styled(str):
    """A line with a `word` in a style; it `folds`, or is never broken."""

    __slots__ = ("folds", "style", "word")
    word: str
    folds: bool
    style: Style

    def __new__(cls, text: str, word: str = "", folds: bool = True, **style: Unpack[Style]) -> Styled:
        """The line."""
        made = super().__new__(cls, text)
        made.word, made.folds, made.style = word, folds, style
        return made


def lines(in_words: Iterable[str], word: str = "", err: bool = False) -> None:
    """Print lines, those that are `Whole` unbroken; the first `word` in them stands out, or that of a `Styled` one."""
    for text in in_words:
        if isinstance(text, Styled):
            line(text, text.word, text.folds, err, **text.style)
            continue
        line(text, word if word in text else "", not isinstance(text, Whole), err, bold=True)
        word = "" if word in text else word


def fold(text: str, columns: int | None) -> list[str]:
    """The lines of at most `columns` that a text is broken into."""
    if columns is None or len(text) <= columns:
        return [text]
    from textwrap import TextWrapper

    margin = " " * (len(text) - len(text.lstrip()))
    wrapper = TextWrapper(
        columns,
        initial_indent=margin,
        subsequent_indent=f"{margin}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapper.wrap(text.lstrip())


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
