"""The commands around the tables: merged results, pages, a site."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import click

from tcprobe.errors import UsageError
from tcprobe.question.answers import Answer, Meta, declare, plain
from tcprobe.question.options import JSON, WRITTEN, Named, NonEmptyText
from tcprobe.text import escaped


@click.command(short_help="Rewrite the pages of a results folder.")
@WRITTEN
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is out of date.")
def pages(folder: Path, check: bool) -> None:
    """Rewrite the pages of a results folder from its tables."""
    from tcprobe.pages.overview import render, stale, write
    from tcprobe.store.results import Results

    results = Results(folder)
    if not results.archs():
        merged = " apart from merged runs, for which `tcprobe site` makes pages" if results.runs() else ""
        raise UsageError(f"no measurements in {folder}{merged}. `tcprobe run --results {folder}` makes them.")
    changed = stale(results, rendered := render(results))
    if not check:
        write(results, rendered)
    for path in changed:
        click.echo(escaped(f"{'stale' if check else 'written'}: {path}"))
    sys.exit(1 if check and changed else 0)


class MergeAnswer(Answer):
    """What was taken in."""

    added: dict[str, int]
    known: int
    new: Annotated[int, Meta(ge=0, description="of whose subject nothing was known")]
    agrees: Annotated[int, Meta(ge=0, description="new ones that say what is known")]
    devices: Annotated[dict[int, int], Meta(description="of those that agree, by how many kinds of GPU then say so")]
    contradicts: Annotated[int, Meta(ge=0)]
    conflicts: list[str]
    aside: Annotated[list[str], Meta(description="documents of archs and kinds that this version does not know")]
    results: str


declare("merge", MergeAnswer)


@click.command(short_help="Add other people's measurements.")
@click.argument("paths", nargs=-1, required=True, type=Named(path_type=Path), metavar="PATH...")
@click.option("--contributor", type=NonEmptyText(), metavar="NAME", help="Who measured it; kept with the run.")
@WRITTEN
@click.option(
    "--check", is_flag=True, help="Write nothing: say what would be added, and how it compares with what is published."
)
@JSON
def merge(paths: tuple[Path, ...], contributor: str | None, folder: Path, check: bool, as_json: bool) -> None:
    """Add the measurements of PATH..., results folders or reports, to a results folder: one run for each device and
    compiler.

    No file is trusted: each is checked, and structure tensors are compared with their tables. If one file is refused,
    nothing is written. Merging twice does no harm. Findings that contradict existing ones, or the model of their
    kind, are kept beside them, named with their devices, and make the exit code 1. Findings of an arch or a kind that
    this version does not know are kept in `aside`, for a later version.
    """
    from tcprobe.run import merge
    from tcprobe.store.results import Results

    into = Results(folder)
    union = merge.check(paths, into) if check else merge.merge(paths, into, contributor or "")
    conflicts = [*map(str, union.conflicts), *union.doubts]
    would = "would be " if check else ""
    if as_json:
        answer = MergeAnswer.of(
            union,
            new=union.without_precedent,
            agrees=sum(union.agreeing.values()),
            devices=union.agreeing,
            contradicts=len(union.conflicts),
            conflicts=conflicts,
            results=str(folder),
        )
        click.echo(json.dumps(plain(answer)))
    else:
        for run, count in union.added.items():
            click.echo(f"{count} measurements {would}added to {folder / 'runs' / run}")
        click.echo(f"{union.known} were there already, {union.without_precedent} are of what nobody had found")
        for devices, count in union.agreeing.items():
            kinds = f"{devices} kinds of GPU say" if devices != 1 else "1 kind of GPU says"
            click.echo(f"{count} agree with what is known: {kinds} so")
        for place in union.aside:
            click.echo(escaped(f"{would}kept aside, this version does not know its arch or kind: {place}"))
        for conflict in conflicts:
            click.echo(escaped(f"conflict: {conflict}"))
    sys.exit(1 if conflicts else 0)


@click.command(short_help="Write a static site: a page for every fact.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=Named(path_type=Path),
    default=Path("site"),
    show_default=True,
    metavar="DIR",
    help="Folder to write: missing, empty, or with a site written before.",
)
@click.option(
    "--results",
    "sources",
    multiple=True,
    type=Named(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Read only this folder of measurements, or several in order. Default: ./results, then the published ones.",
)
def site(folder: Path, sources: tuple[Path, ...]) -> None:
    """Write a static site from the tables: a page for every fragment, instruction, layout, arch and device.

    It needs no server: links are relative, and nothing is loaded from elsewhere. The folder is written whole or not at
    all. A folder with other files in it is left as it is (exit code 2).
    """
    from tcprobe.pages.site import write
    from tcprobe.pages.site.build import build
    from tcprobe.pages.site.facts import gather
    from tcprobe.question import terminal
    from tcprobe.store.choose import side_by_side

    write.require_place(folder)
    if terminal.is_terminal(sys.stderr):
        click.echo("making a page for every fact: about 15 seconds", err=True)  # not a bar: its thread forbids a fork
    pages = build(gather(side_by_side(sources)))
    write.write(folder, pages)
    size = sum(len(text.encode()) for text in pages.values())
    click.echo(escaped(f"written: {folder / 'index.html'}, {len(pages)} files, {size / 1e6:.1f} MB"))


COMMANDS = (merge, pages, site)
