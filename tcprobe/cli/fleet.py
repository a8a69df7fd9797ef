"""`run --scheduler`: a run over the workers of a Dask scheduler."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.cli import printing
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.run.campaign import Request
    from tcprobe.run.fleet import JobOutcome


def run(scheduler: str, request: Request, toolkits: Sequence[Path], folder: Path, as_json: bool) -> None:
    """Carry out a request by a scheduler's workers; exit code 1 where a job was given up, or findings conflict."""
    from tcprobe.run.fleet import Fleet
    from tcprobe.run.fleet_dask import DaskCrew
    from tcprobe.store.results import Results

    crew = DaskCrew(scheduler, request.limit)
    try:
        folders = [str(path.resolve()) for path in toolkits] or [""]
        fleet = Fleet(crew, request, folders, printing.say, request.limit)
        outcomes, conflicts = fleet.run(Results(folder))
    finally:
        crew.close()
    for job_outcome in outcomes:
        _print(job_outcome, folder, as_json)
    for conflict in conflicts:
        click.echo(escaped(f"conflict: {conflict}"), err=True)
    if conflicts or any(job_outcome.words is not None for job_outcome in outcomes):
        sys.exit(1)


def _print(job_outcome: JobOutcome, folder: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(job_outcome.to_json() | {"results": str(folder)}))
        return
    for complaint in job_outcome.complaints:
        printing.say(f"{job_outcome.key}: {complaint}")
    if job_outcome.words is not None:
        click.echo(escaped(f"{job_outcome.key}: given up: {job_outcome.words}"))
        return
    earlier = f", {job_outcome.kept} known before" if job_outcome.kept else ""
    click.echo(escaped(f"{job_outcome.key}: {len(job_outcome.findings)} findings{earlier}, from {job_outcome.machine}"))
