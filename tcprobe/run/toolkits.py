"""Machine code read by more than one compiler: the first into the folder, each other into a run beside it."""

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
    """What other toolkits show of a request, merged into runs of a folder, and what contradicts what is there."""
    reports: list[Report] = []
    conflicts: list[Conflict] = []
    for toolkit in cuda:
        with Scratch() as scratch:
            reports += Campaign(replace(request, cuda=toolkit), scratch.folder, say).run(None)
            conflicts += merge([scratch.folder], Results(folder)).conflicts
    return reports, conflicts
