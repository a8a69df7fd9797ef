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
    for outcome in outcomes:
        _print(outcome, folder, as_json)
    for conflict in conflicts:
        click.echo(escaped(f"conflict: {conflict}"), err=True)
    if conflicts or any(outcome.words is not None for outcome in outcomes):
        sys.exit(1)


def _print(outcome: JobOutcome, folder: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(outcome.to_json() | {"results": str(folder)}))
        return
    for complaint in outcome.complaints:
        printing.say(f"{outcome.key}: {complaint}")
    if outcome.words is not None:
        click.echo(escaped(f"{outcome.key}: given up: {outcome.words}"))
        return
    known = f", {outcome.known} known before" if outcome.known else ""
    click.echo(escaped(f"{outcome.key}: {len(outcome.found)} findings{known}, from {outcome.machine}"))
