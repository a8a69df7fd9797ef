"""What findings rest on: the methods, what made them, and where they come from, in values and in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tcprobe.errors import DataError

if TYPE_CHECKING:
    from tcprobe.store.finding import AnyFinding

FROM_CODE = ("sass", "derived", "same-opcode")  # methods that read machine code, the strongest first
WEAKER = "same-opcode"  # rests on what another arch shows
METHODS = ("live", *FROM_CODE, "emulated")
STATUSES = ("measured", "refused", "failed")
MAKER = ("device", "driver", "cuda", "compiler")  # what makes one run of measuring another
PROVENANCE = ("device", "driver", "cuda", "compiler", "ptx", "tcprobe")
PUBLISHED = "published"


def provenance_in(content: object) -> dict[str, str]:
    """The provenance that a file states; DataError unless it is an object of exactly PROVENANCE's keys and texts."""
    if (
        not isinstance(content, dict)
        or set(content) != set(PROVENANCE)
        or not all(isinstance(text, str) for text in content.values())
    ):
        raise DataError(f"provenance needs the keys {', '.join(PROVENANCE)}, each with a text.")
    return content


def made_by(finding: AnyFinding) -> tuple[str, ...]:
    """The device, driver, CUDA version and compiler that a finding rests on."""
    return tuple(finding.provenance[key] for key in MAKER)


def witness(finding: AnyFinding) -> str:
    """What counts once, however often it reports: a kind of GPU, or a compiler where code was read."""
    return finding.provenance["device" if finding.method not in FROM_CODE else "compiler"]


def makers(findings: Iterable[AnyFinding]) -> str:
    """How findings were made, in words, each way once."""
    return " and ".join(dict.fromkeys(how(finding) for finding in findings))


def how(finding: AnyFinding) -> str:
    """The method and what it was done with, in words."""
    made = finding.provenance
    if finding.method in FROM_CODE:
        weaker = " (weaker: the layout that another arch has for the opcode)" if finding.method == WEAKER else ""
        return f"{finding.method}{weaker}, from machine code by {made['compiler']}"
    return f"{finding.method} on {made['device']}, driver {made['driver']}, CUDA {made['cuda']}"


def whence(source: str) -> str:
    """Where a table comes from, in words: "published", or "from FOLDER"."""
    return source if source == PUBLISHED else f"from {source}"
