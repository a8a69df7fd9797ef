"""`compilers`: what several versions of ptxas agree in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.question import wrapping
from tcprobe.question.naming import split_names
from tcprobe.question.options import JSON, Given, Named

if TYPE_CHECKING:
    pass


@click.command(short_help="Where several compilers agree, and the exceptions.")
@click.argument("patterns", nargs=-1, metavar="[FRAGMENT]...")
@click.option(
    "--cuda",
    "folders",
    multiple=True,
    type=Named(path_type=Path, exists=True, file_okay=False),
    help="Folder of a CUDA toolkit; give it several times. Default: the installed one.",
)
@click.option(
    "--arch", "name", type=Given(), metavar="sm_XX|all", help="Only this arch. Default: all that the compilers know."
)
@JSON
def compilers(patterns: tuple[str, ...], folders: tuple[Path, ...], name: str | None, as_json: bool) -> None:
    """Compare what the toolkits of several folders make of the probes: tables and matrix instructions, arch by arch.

    The answer lists the archs of each version, how much all agree on, what differs, what only some versions show, and
    what they refuse. FRAGMENT limits the tables to these. Exit code 1 if something differs.
    """
    from tcprobe.question import terminal
    from tcprobe.run.survey import survey as survey_of

    with terminal.progress("reading machine code") as tick:
        survey = survey_of(folders, name, split_names(patterns), tick)
    if as_json:
        click.echo(json.dumps(survey.to_json()))
    else:
        wrapping.lines(survey.in_words)
    sys.exit(1 if survey.differing else 0)


COMMANDS = (compilers,)
