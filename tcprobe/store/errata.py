"""errata.json of a results folder: what audits of packages found, a package and version at a time."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tcprobe.errors import DataError
from tcprobe.system import files
from tcprobe.values import Json

NAME = "errata.json"


class SavedFinding(msgspec.Struct, frozen=True):
    """A layout that is stated otherwise than it was measured: `differ` of `of` slots."""

    name: str
    fragment: str
    differ: int
    of: int
    words: str
    first: list[str]
    evidence: str
    reported: str


class SavedAudit(msgspec.Struct, frozen=True):
    """What came of a package: layouts that agree, that differ of those compared, that are not covered."""

    package: str
    version: str
    agree: int
    differ: int
    of: int
    not_covered: int
    findings: list[SavedFinding]


def load(folder: Path) -> list[SavedAudit]:
    """The audits that a folder has; DataError where its file is damaged."""
    raw = files.read(folder / NAME)
    if raw is None:
        return []
    try:
        return msgspec.json.decode(raw, type=list[SavedAudit])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{folder / NAME}: no list of audits: {error}.") from None


def save(folder: Path, audit: Json) -> None:
    """Put an audit in place of the one of the same package and version."""
    new = msgspec.convert(audit, SavedAudit)
    kept = [old for old in load(folder) if (old.package, old.version) != (new.package, new.version)]
    every = sorted([*kept, new], key=lambda one: (one.package, one.version))
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / NAME, msgspec.json.format(msgspec.json.encode(every), indent=1) + b"\n")
