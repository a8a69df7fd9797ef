"""Asks an installed package for its layouts, in a process of its own; the answer is not trusted."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import msgspec

import tcprobe
from tcprobe.audit.adapters import adapters
from tcprobe.audit.statement import MOST_BYTES, MOST_STATEMENTS, Statement
from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.system import files, worker
from tcprobe.system.children import HungError, Scratch, exit_code, one_line
from tcprobe.text import escaped

MOST_NAME, MOST_CODE = 200, 4_000
ABSENT = "No module named"
# runs `audit.child` of the tcprobe whose `__init__` is the first argument, beside which nothing of its folder is seen
ELSEWHERE = """
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location("tcprobe", sys.argv.pop(1))
sys.modules["tcprobe"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["tcprobe"])
runpy.run_module("tcprobe.audit.child", run_name="__main__", alter_sys=True)
"""


def index_name(package: str) -> str:
    """The package's name as the index has it; UsageError if there is no adapter for it."""
    name = package.lower().replace("_", "-")
    for other in (name, f"apache-{name}", f"nvidia-{name}"):
        if other in adapters():
            return other
    raise UsageError(f"there is no adapter for {package}; there are: {', '.join(adapters())}.")


def version(package: str) -> str | None:
    """The installed version, None if it is not installed."""
    try:
        return escaped(metadata.version(package))[:MOST_NAME]
    except metadata.PackageNotFoundError:
        return None


def ask(package: str, limit: float, python: Path | None = None) -> tuple[str, list[Statement]]:
    """(version, all statements) of a package, as this Python or another one, `python`, imports it.

    EnvironmentUnfitError if it does not run within `limit` seconds and the bounds of `audit.child`; DataError if the
    answer is not a list of statements.
    """
    module, _ = adapters()[package]
    with Scratch() as scratch:
        answer_file, version_file = scratch.folder / "answer.json", scratch.folder / "version"
        words = (module, str(int(limit) + 1), str(answer_file), str(version_file))
        try:
            completed = scratch.call(_command(python, *words), limit)
        except HungError as error:
            raise EnvironmentUnfitError(f"{package} {error}; raise `limit`.") from None
        if exit_code(completed.returncode):
            last = one_line(completed.stderr.strip().rpartition("\n")[2]) or f"exit {completed.returncode}"
            lacks = f" It needs: {python} -m pip install {package} msgspec." if python and ABSENT in last else ""
            raise EnvironmentUnfitError(f"{package} cannot be read: {last}.{lacks}")
        raw, version_text = files.read(answer_file, MOST_BYTES), files.read(version_file, MOST_NAME)
    if raw is None or version_text is None:
        raise DataError(f"{package} gave no answer.")
    return escaped(version_text.decode(errors="replace")), _decode(package, raw)


def _command(python: Path | None, *arguments: str) -> tuple[str, ...]:
    """The command that asks; another Python uses this tcprobe, and all else from its own environment."""
    if python is None:
        return worker.command("tcprobe.audit.child", *arguments)
    return (str(python.absolute()), "-c", ELSEWHERE, str(Path(tcprobe.__file__)), *arguments)


def _decode(package: str, raw: bytes) -> list[Statement]:
    try:
        statements = msgspec.json.decode(raw, type=list[Statement])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{package} gives something other than layouts: {one_line(str(error))}.") from None
    if len(statements) > MOST_STATEMENTS:
        raise DataError(f"{package} states more than {MOST_STATEMENTS} layouts.")
    for statement in statements:
        texts = (statement.name, statement.fragment, statement.atom, statement.reason)
        if not statement.name or not all(text.isprintable() and len(text) <= MOST_NAME for text in texts):
            raise DataError(f"{package} gives a layout an invalid name: {one_line(statement.name[:MOST_NAME])!r}.")
        if len(statement.code) > MOST_CODE or not all(line.isprintable() for line in statement.code.split("\n")):
            raise DataError(f"{package}: the code that reproduces {one_line(statement.name)} cannot be printed.")
    return statements
