"""The commands around the tables: comparing archs and compilers, lowering, what a machine can do, pages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tcprobe.errors import UsageError
from tcprobe.options import CUDA, JSON, RESULTS, WRITTEN, Named


@click.command(short_help="Two archs, two results folders or two compilers.")
@click.argument("sides", nargs=-1, metavar="[ARCH ARCH | FOLDER FOLDER]")
@click.option(
    "--cuda",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Given twice: compare what two CUDA toolkits make of the probes.",
)
@click.option("--arch", "name", metavar="sm_XX|all", help="With --cuda: which arch. Default: all that ptxas knows.")
@RESULTS
def diff(sides: tuple[str, ...], folders: tuple[Path, ...], name: str | None, folder: Path | None) -> None:
    """Compare the tables of two archs, of two results folders, or of two compilers (--cuda A --cuda B).

    Exit code 1 when something differs.
    """
    from tcprobe import lookup, render
    from tcprobe.diff import compilers, pair

    if len(folders) == 2 and not sides:
        found = compilers(folders[0], folders[1], [name])
    elif len(sides) == 2 and not folders:
        found = pair(sides[0], sides[1], lookup.folder_of(folder))
    else:
        raise UsageError("give two archs, two folders of results, or --cuda twice.")
    for title, difference in found.items():
        render.difference(title, difference)
    sys.exit(0 if all(difference.none for difference in found.values()) else 1)


@click.command(short_help="Which machine instructions a multiply becomes.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--arch", "name", metavar="sm_XX|all", help="Default: all that ptxas knows.")
@CUDA
@click.option("--save", type=Named(path_type=Path, file_okay=False), help="Also save into this results folder.")
@JSON
def lower(patterns: tuple[str, ...], name: str | None, cuda: Path | None, save: Path | None, as_json: bool) -> None:
    """Show which machine instructions a multiply becomes on each arch, native or emulated.

    INSTRUCTION is an instruction, shortened, or a pattern; all without one.
    """
    from tcprobe import arch, inventory
    from tcprobe.results import Results
    from tcprobe.sass import toolchain
    from tcprobe.sass.lowering import lower as lower_all
    from tcprobe.sass.lowering import words

    rows = inventory.select_instructions(*patterns)
    tools = toolchain.find(cuda)
    archs = tools.archs if name in (None, "all") else (arch.arch(name or ""),)
    for row in archs:
        found = lower_all(tools, row, rows)
        if save:
            Results(save).write_lowering(row.name, tools.name, {id_: low.to_json() for id_, low in found.items()})
        for instruction in rows:
            low = found[instruction.id]
            data = {
                "instruction": instruction.name,
                "arch": row.name,
                "native": low.native(instruction),
                **low.to_json(),
            }
            reason = f" ({low.refused})" if low.refused else ""
            text = f"{row.name:<8}{instruction.id}: {words(low, instruction)}{reason}"
            click.echo(json.dumps(data) if as_json else text)


@click.command(short_help="What of this machine can be used.")
@CUDA
def doctor(cuda: Path | None) -> None:
    """Show what of this machine can be used, and what to install for the rest."""
    from tcprobe.doctor import examine

    for finding in examine(cuda):
        click.echo(f"{'ok' if finding.there else '--'}  {finding.what}: {finding.words}")


@click.command(short_help="Write the pages of a results folder anew.")
@WRITTEN
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is not what would be written.")
def pages(folder: Path, check: bool) -> None:
    """Write the pages of a results folder anew from its tables."""
    from tcprobe.pages import stale, write
    from tcprobe.results import Results

    results = Results(folder)
    if not results.archs():
        raise UsageError(f"no measurements in {folder}. `tcprobe run` makes them.")
    changed = stale(results)
    if not check:
        write(results)
    for path in changed:
        click.echo(f"{'stale' if check else 'written'}: {path}")
    sys.exit(1 if check and changed else 0)


COMMANDS = (diff, lower, doctor, pages)
