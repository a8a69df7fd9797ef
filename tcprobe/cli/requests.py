"""What the options of commands say, as click hands it over: by command, and the groups that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pathlib import Path


class GemmRequest(TypedDict):
    """Of `kernel gemm`."""

    arch: str
    type: str
    tile: tuple[int, int, int] | None
    warps: tuple[int, int] | None
    stages: int | None
    a: str
    b: str
    out: str | None
    cluster: int
    name: str | None
    size: tuple[int, int, int] | None
    explain: tuple[int, int, int] | None
    run: bool
    output: Path | None
    as_json: bool


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


class AuditRequest(TypedDict):
    """How packages are asked: in how many seconds, by which Python."""

    limit: float
    python: Path | None
