"""`emit`: fragments as code or data for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question.naming import named
from tcprobe.question.options import (
    ARCH,
    NAME,
    NAMESPACE,
    SELECTOR,
    Given,
    Output,
    fragment_names,
    print_notes,
    read_results,
)
from tcprobe.text import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from tcprobe.cli.requests import EmitRequest
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
def emit(patterns: tuple[str, ...], format_name: str, output: Path | None, **request: Unpack[EmitRequest]) -> None:
    """Write fragments as code or data for other programs.

    A pattern may mean several fragments; an instruction means its operands. Without --arch it takes the arch that
    `show` takes; formats for several archs (cuda) get all of them.
    """
    from tcprobe import emit as formats
    from tcprobe.code.names import in_namespace
    from tcprobe.store import names
    from tcprobe.store.cell import emittable, selected, sources
    from tcprobe.store.choose import some
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
        _arithmetic(patterns, output, request)
        return
    name = request["name"] or ("all" if formats.for_all_archs(format_name) else None)
    fragments, notes = names.choose_fragments(patterns, name, request["layers"])
    print_notes(*notes)
    tables, without = emittable(fragments, name, request["layers"])
    if without:
        print_notes(
            f"left out, because {name or tables[0].arch} has no table for them: {some([f.id for f in without])}"
        )
    tables = selected(tables, request["selector"], every=formats.for_all_selectors(format_name))
    text = _rename(formats.emit(format_name, tables), tables, request["called"])
    if request["namespace"] and format_name not in ("cuda", "cute"):
        raise UsageError(f"{format_name} has no namespaces; use cuda or cute.")
    text = in_namespace(text, request["namespace"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
    name = "" if output is None else f"{output}: "
    click.echo(escaped(f"{name}{len(tables)} tables as {format_name}: {sources(tables)}"), err=True)


def _arithmetic(patterns: tuple[str, ...], output: Path | None, emit_request: EmitRequest) -> None:
    """`emit --to numerics`: the header of the multiplies that the patterns mean."""
    from tcprobe.ask.numerics import headers
    from tcprobe.isa import names
    from tcprobe.system import files

    unfit = {
        "--name": emit_request["called"],
        "--namespace": emit_request["namespace"],
        "--selector": emit_request["selector"],
    }
    if wrong := [option for option, value in unfit.items() if value is not None]:
        raise UsageError(f"{', '.join(wrong)}: for fragments only; numerics describes whole multiplies.")
    multiplies = [
        multiply for pattern in patterns for multiply in names.resolve(pattern).instructions if multiply.multiplies
    ]
    if not multiplies:
        raise UsageError(f"numerics describes multiplies; {patterns[0]} is not one. `tcprobe list` lists them.")
    text = headers(list(dict.fromkeys(multiplies)), emit_request["name"], emit_request["layers"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())


def _rename(text: str, cells: Sequence[Cell], name: str | None) -> str:
    """The code under a name for the one fragment, or instruction, that it is of; UsageError where it is of several."""
    from tcprobe.code.names import identifier, rename
    from tcprobe.isa.inventory import user_ids

    if not name:
        return text
    ids = list(dict.fromkeys(cell.fragment.id for cell in cells))
    rows = set.intersection(*(set(user_ids(id_)) for id_ in ids))
    if len(ids) > 1 and len(rows) != 1:
        raise UsageError(f"--name is for one fragment, or one instruction, not {len(ids)} fragments.")
    return rename(text, identifier(ids[0] if len(ids) == 1 else rows.pop()), name)


COMMANDS = (emit,)
