"""Questions: each is a Python function that users call, and the command that is made from it.

    declare      `Option`, `NameWords` and `command`: how a function becomes a command
    options, shared    types of options, and those that several questions have; how an answer is printed
    grouping     groups of commands
    naming, arguments  names among the words of a command line; what Python passes
    wrapping, terminal lines as wide as a terminal, progress, a pager

The question of the command NAME is `tcprobe.ask.NAME`, a file or a folder, and nothing else names it.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click


# how a module says that it has a command, with its line in the list of commands
_COMMAND = re.compile(r'^(?:GROUP = group|@command)\([^)"]*short="([^"]*)"', re.MULTILINE)


def names() -> Mapping[str, str]:
    """The commands that questions have, sorted, each with its line in the list; nothing is imported for it."""
    return _names(tuple(importlib.import_module("tcprobe.ask").__path__))


@functools.cache
def _names(folders: Sequence[str]) -> Mapping[str, str]:
    files = [path for folder in folders for path in [*Path(folder).glob("*.py"), *Path(folder).glob("*/__init__.py")]]
    shorts = {
        (path.parent.name if path.stem == "__init__" else path.stem).replace("_", "-"): short[1]
        for path in files
        if (short := _COMMAND.search(path.read_text("utf-8")))
    }
    return dict(sorted(shorts.items()))


def load(name: str) -> click.Command:
    """The command of a question."""
    from tcprobe.question.declare import COMMANDS

    importlib.import_module(f"tcprobe.ask.{name.replace('-', '_')}")
    return COMMANDS[name]


def function(name: str) -> Callable[..., Any]:
    """The Python function of a question."""
    found: Callable[..., Any] = getattr(importlib.import_module(f"tcprobe.ask.{name.replace('-', '_')}"), name)
    return found
