"""What the options of commands say, as click hands it over: by command, and the groups that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    pass


class RunRequest(TypedDict):
    """Of `run`, beside where it reads and writes."""

    patterns: tuple[str, ...]
    name: str | None
    index: int | None
    method: str
    family: str | None
    force: bool
    limit: float
    as_json: bool
