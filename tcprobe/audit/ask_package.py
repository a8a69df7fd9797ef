"""What an installed package states, asked in a process of its own; its answer is checked as a stranger's file."""

from __future__ import annotations

from importlib import metadata

import msgspec

from tcprobe.audit.adapters import adapters
from tcprobe.audit.statement import MOST_BYTES, MOST_STATEMENTS, Statement
from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.system import files, worker
from tcprobe.system.children import HungError, Scratch, lived, one_line
from tcprobe.text import escaped

MOST_NAME, MOST_CODE = 200, 4_000


def known(package: str) -> str:
    """The package's name as the index has it; UsageError where nobody here knows it."""
    name = package.lower().replace("_", "-")
    for other in (name, f"apache-{name}", f"nvidia-{name}"):
        if other in adapters():
            return other
    raise UsageError(f"there is no adapter for {package}; there are: {', '.join(adapters())}.")


def version(package: str) -> str | None:
    """The installed version, None where it is not installed."""
    try:
        return escaped(metadata.version(package))[:MOST_NAME]
    except metadata.PackageNotFoundError:
        return None


def statements(package: str, limit: float) -> list[Statement]:
    """All that an installed package states.

    EnvironmentUnfitError where it does not run within `limit` seconds and the bounds of `audit.child`; DataError where
    what it gives is not a list of statements.
    """
    module, _ = adapters()[package]
    with Scratch() as scratch:
        answer = scratch.folder / "answer.json"
        command = worker.command("tcprobe.audit.child", module, str(int(limit) + 1), str(answer))
        try:
            done = scratch.call(command, limit)
        except HungError as error:
            raise EnvironmentUnfitError(f"{package} {error}; give it longer with `limit`.") from None
        if lived(done.returncode):
            last = done.stderr.strip().rpartition("\n")[2]
            raise EnvironmentUnfitError(f"{package} cannot be asked: {one_line(last) or f'exit {done.returncode}'}.")
        raw = files.read(answer, MOST_BYTES)
    if raw is None:
        raise DataError(f"{package} gave no answer.")
    return _checked(package, raw)


def _checked(package: str, raw: bytes) -> list[Statement]:
    try:
        given = msgspec.json.decode(raw, type=list[Statement])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{package} gives something other than layouts: {one_line(str(error))}.") from None
    if len(given) > MOST_STATEMENTS:
        raise DataError(f"{package} states more than {MOST_STATEMENTS} layouts.")
    for one in given:
        texts = (one.name, one.fragment, one.atom, one.reason)
        if not one.name or not all(text.isprintable() and len(text) <= MOST_NAME for text in texts):
            raise DataError(f"{package} gives a layout a name that is none: {one_line(one.name[:MOST_NAME])!r}.")
        if len(one.code) > MOST_CODE or not all(line.isprintable() for line in one.code.split("\n")):
            raise DataError(f"{package}: what reproduces {one_line(one.name)} does not print.")
    return given
