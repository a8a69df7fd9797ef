"""Reads machine code with further toolkits: the first toolkit's findings are the folder's, each other's are a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tcprobe.run.campaign import Campaign, Report, Request
from tcprobe.run.merge import Conflict, merge
from tcprobe.store.results import Results
from tcprobe.system.children import Scratch


def read_beside(
    cuda: Sequence[Path], request: Request, folder: Path, say: Callable[[str], None]
) -> tuple[list[Report], list[Conflict]]:
    """Carry out a request with other toolkits and merge into runs of a folder; returns reports and contradictions."""
    reports: list[Report] = []
    conflicts: list[Conflict] = []
    for toolkit in cuda:
        with Scratch() as scratch:
            reports += Campaign(replace(request, cuda=toolkit), scratch.folder, say).run(None)
            conflicts += merge([scratch.folder], Results(folder)).conflicts
    return reports, conflicts
