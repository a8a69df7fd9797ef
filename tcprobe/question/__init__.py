"""Questions: each is a Python function that users call, and the command that is made from it.

    declare      `Option`, `NameWords` and `command`: how a function becomes a command
    options, shared    types of options, and those that several questions have; how an answer is printed
    words        which words of a request stand for options
    naming, arguments  names among the words of a command line; what Python passes
    terminal     lines as wide as a terminal, progress, a pager

A question is a file or folder of `tcprobe.ask`, or stands in `question.py` of the package whose library answers it,
where that lies above `ask`; nothing else names it.
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
_COMMAND = re.compile(
    r'^(?:GROUP = group\(\s*|@command\(\s*(?P<function>\w+),\s*)short="(?P<short>[^"]*)"'
    r'(?:,\s*name="(?P<name>[^"]*)")?',
    re.MULTILINE,
)


def names() -> Mapping[str, str]:
    """The commands that questions have, sorted, each with its line in the list; nothing is imported for it."""
    return {name: short for name, (_, short) in _commands().items()}


def _commands() -> Mapping[str, tuple[str, str]]:
    return _commands_of(tuple(importlib.import_module("tcprobe.ask").__path__))


@functools.cache
def _commands_of(folders: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """The module that has a command, and the command's line in the list, by its name."""
    files = {path: f"tcprobe.ask.{path.stem}" for folder in folders for path in Path(folder).glob("*.py")}
    files |= {path: f"tcprobe.ask.{path.parent.name}" for at in folders for path in Path(at).glob("*/__init__.py")}
    files |= {
        path: f"tcprobe.{path.parent.name}.question" for path in Path(__file__).parent.parent.glob("*/question.py")
    }
    return dict(
        sorted(
            ((found["name"] or found["function"].rstrip("_")).replace("_", "-"), (module, found["short"]))
            for path, module in files.items()
            for found in _COMMAND.finditer(path.read_text("utf-8"))
        )
    )


def load(name: str) -> click.Command:
    """The command of a question."""
    from tcprobe.question.declare import COMMANDS

    importlib.import_module(_commands()[name][0])
    return COMMANDS[name]


def function(name: str) -> Callable[..., Any]:
    """The Python function of a question."""
    found: Callable[..., Any] = getattr(importlib.import_module(_commands()[name][0]), name)
    return found
