"""compilers.json of a results folder: what versions of ptxas agree in, as `tcprobe compilers --json` prints it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tcprobe.errors import DataError
from tcprobe.system import files

NAME = "compilers.json"


class DifferingFact(msgspec.Struct, frozen=True):
    """A table or a lowering of which versions say different things: what each says."""

    what: str
    id: str
    arch: str
    said: dict[str, str]


class ExceptionalFact(msgspec.Struct, frozen=True):
    """A table or a lowering that only some of the versions show that know the arch."""

    what: str
    id: str
    arch: str
    versions: list[str]


class RefusedFact(msgspec.Struct, frozen=True):
    """A form that versions refuse on an arch, each in its words."""

    what: str
    id: str
    arch: str
    words: dict[str, str]


class SavedSurvey(msgspec.Struct, frozen=True):
    """Versions, the archs that each knows, and how many tables and lowerings all that show one agree in."""

    versions: list[str]
    archs: dict[str, list[str]]
    tables: int
    lowerings: int
    differing: list[DifferingFact]
    exceptions: list[ExceptionalFact]
    refused: list[RefusedFact]


def load(folder: Path) -> SavedSurvey | None:
    """What a folder has, None where it has none; DataError where its file is damaged."""
    raw = files.read(folder / NAME)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=SavedSurvey)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(f"{folder / NAME}: no comparison of compilers: {error}.") from None
