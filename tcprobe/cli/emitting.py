"""`emit`: fragments as code or data for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.cli.naming import named
from tcprobe.cli.options import ARCH, NAME, NAMESPACE, SELECTOR, Given, Output, fragment_names, read_results, told
from tcprobe.errors import UsageError
from tcprobe.text import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from tcprobe.cli.requests import EmitAsked
    from tcprobe.store.cell import Cell

ARITHMETIC = "numerics"  # what `emit` writes of whole multiplies, beside the formats of fragments


@click.command(short_help="Write fragments as code or data for other programs.")
@click.argument("patterns", nargs=-1, metavar="FRAGMENT...", shell_complete=fragment_names)
@click.option(
    "--to",
    "format_name",
    type=Given(),
    required=True,
    metavar="FORMAT",
    help="cuda, ptx, python, ...; `--to help` lists.",
)
@click.option("-o", "--output", type=Output(path_type=Path, dir_okay=False), help="File. Default: standard output.")
@NAME
@NAMESPACE
@SELECTOR
@ARCH
@read_results
@named("patterns", "one")
def emit(patterns: tuple[str, ...], format_name: str, output: Path | None, **asked: Unpack[EmitAsked]) -> None:
    """Write fragments as code or data for other programs.

    A pattern may mean several fragments; an instruction means its operands. Without --arch it takes the arch that
    `show` takes; formats for several archs (cuda) get all of them.
    """
    from tcprobe import emit as formats
    from tcprobe.code.scope import scoped
    from tcprobe.store import names
    from tcprobe.store.cell import emittable, selected, sources
    from tcprobe.store.lookup import some
    from tcprobe.system import files

    if format_name == "help":
        for known_name, module in formats.formats().items():
            click.echo(f"{known_name:<16}{module.WHAT}")
        click.echo(f"{ARITHMETIC:<16}C++17 header of what multiplies compute, bit by bit, as `numerics --header`")
        return
    if format_name not in (*formats.names(), ARITHMETIC):
        raise UsageError(f"unknown format {format_name!r}; known: {', '.join(formats.names())}, {ARITHMETIC}.")
    if not patterns:
        raise UsageError("Missing argument 'FRAGMENT...'.")
    if format_name == ARITHMETIC:
        _arithmetic(patterns, output, asked)
        return
    name = asked["name"] or ("all" if formats.for_all_archs(format_name) else None)
    chosen, notes = names.chosen(patterns, name, asked["layers"])
    told(*notes)
    tables, without = emittable(chosen, name, asked["layers"])
    if without:
        told(f"left out, because {name or tables[0].arch} has no table for them: {some([f.id for f in without])}")
    tables = selected(tables, asked["selector"], every=formats.for_all_selectors(format_name))
    text = _named(formats.emit(format_name, tables), tables, asked["called"])
    if asked["namespace"] and format_name not in ("cuda", "cute"):
        raise UsageError(f"{format_name} has no namespaces; use cuda or cute.")
    text = scoped(text, asked["namespace"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
    name = "" if output is None else f"{output}: "
    click.echo(escaped(f"{name}{len(tables)} tables as {format_name}: {sources(tables)}"), err=True)


def _arithmetic(patterns: tuple[str, ...], output: Path | None, emit_asked: EmitAsked) -> None:
    """`emit --to numerics`: the header of the multiplies that the patterns mean."""
    from tcprobe.ask.numeric_header import texts
    from tcprobe.isa import names
    from tcprobe.system import files

    unfit = {
        "--name": emit_asked["called"],
        "--namespace": emit_asked["namespace"],
        "--selector": emit_asked["selector"],
    }
    if wrong := [option for option, value in unfit.items() if value is not None]:
        raise UsageError(f"{', '.join(wrong)}: for fragments only; numerics describes whole multiplies.")
    multiplies = [one for pattern in patterns for one in names.resolve(pattern).instructions if one.multiplies]
    if not multiplies:
        raise UsageError(f"numerics describes multiplies; {patterns[0]} is not one. `tcprobe list` lists them.")
    text = texts(list(dict.fromkeys(multiplies)), emit_asked["name"], emit_asked["layers"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())


def _named(text: str, cells: Sequence[Cell], name: str | None) -> str:
    """The code under a name for the one fragment, or instruction, that it is of; UsageError where it is of several."""
    from tcprobe.code.names import made
    from tcprobe.code.scope import renamed
    from tcprobe.isa.inventory import user_ids

    if not name:
        return text
    ids = list(dict.fromkeys(cell.fragment.id for cell in cells))
    rows = set.intersection(*(set(user_ids(id_)) for id_ in ids))
    if len(ids) > 1 and len(rows) != 1:
        raise UsageError(f"--name is for one fragment, or one instruction, not {len(ids)} fragments.")
    return renamed(text, made(ids[0] if len(ids) == 1 else rows.pop()), name)


COMMANDS = (emit,)
