"""`read`: the matrix instructions in other people's code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.cli.options import ARCHS, CUDA, JSON, Given, Named, read_results, several
from tcprobe.errors import DataError, UsageError
from tcprobe.text import message, one_line

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.code_tables import HeldTable
    from tcprobe.ask.opcode_origins import Origin
    from tcprobe.ask.read_file import Read, Reader, Use
    from tcprobe.cli.requests import ReadAsked
    from tcprobe.store.choose import Layers

MANY = 3  # forms and source lines of an opcode, from which on they are counted


@click.command(short_help="The matrix instructions in a cubin, library, executable or PTX.")
@click.argument("paths", nargs=-1, required=True, type=Named(path_type=Path, exists=True), metavar="FILE...")
@click.option("--kernel", type=Given(), metavar="NAME", help="Only functions of this name, a pattern with * and ?.")
@click.option("--tables", is_flag=True, help="Also run functions that only load and store fragments: who holds what.")
@ARCHS
@CUDA
@read_results
@JSON
def read(
    paths: tuple[Path, ...], kernel: str | None, layers: Layers, as_json: bool, **asked: Unpack[ReadAsked]
) -> None:
    """Show what the code in FILE does with matrices: per function its matrix instructions, registers and spills.

    FILE is a cubin, PTX, or what holds fatbins: an object, a library, an executable; or a folder with such files, as
    compilers keep as caches. Of every opcode: how often it stands there, at which source lines, which PTX forms become
    it, native or emulated, and the layouts of their operands with evidence. PTX is assembled where a file has no code
    for an arch. With --tables a kernel that loads a fragment and stores its registers lane by lane, or fills one and
    stores it, is run as it stands there: what each lane holds, beside the published table. Exit code 1 where that
    differs, 4 where some of a file cannot be read. --json: one object a function.
    """
    from tcprobe.ask.opcode_origins import Origins
    from tcprobe.ask.read_file import Reader
    from tcprobe.isa import arch
    from tcprobe.sass import toolchain

    tools = toolchain.find(asked["cuda"])
    archs = [arch.arch(at).name for at in several(asked["name"]) if at]
    reader = Reader(tools, Origins(tools, layers), archs, layers if asked["tables"] else None)
    functions = [function for function in _all(reader, paths) if not kernel or fnmatchcase(function.name, kernel)]
    if as_json:
        for function in functions:
            click.echo(json.dumps(function.to_json()))
    else:
        _print(functions)
    for complaint in reader.complaints:
        click.echo(message(complaint), err=True)
    if kernel and not functions and not reader.complaints:
        raise UsageError(f"no function there is named {kernel}.")
    differing = any(getattr(function.holds, "differ", 0) for function in functions)
    sys.exit(DataError.exit_code if reader.complaints else 1 if differing else 0)


def _all(reader: Reader, paths: tuple[Path, ...]) -> Iterator[Read]:
    """The functions of all files; a file that cannot be read is complained of, and the others are read."""
    from tcprobe.ask.read_file import inside

    for path in (file for place in paths for file in (inside(place) if place.is_dir() else [place])):
        try:
            yield from reader.read(path)
        except DataError as error:
            reader.complaints.append(str(error))


def _print(functions: list[Read]) -> None:
    for function in functions:
        if function.uses or function.holds:
            _print_function(function)
    idle = sum(not (function.uses or function.holds) for function in functions)
    if idle:
        click.echo(f"{idle} {'function has' if idle == 1 else 'functions have'} no matrix instruction.")


def _print_function(read: Read) -> None:
    f = read.function
    about = [f"{f.registers} registers" if f.registers else "registers unknown"]
    about += [f"{f.stack} bytes of stack"] if f.stack else []
    about += [f"{n} {opcode}" for opcode, n in sorted(read.local.items())]
    about += [f"by {', '.join(f.routines)}"] if f.routines else []
    about += [f"{read.unread} words that are no code"] if read.unread else []
    click.echo(f"{one_line(read.name)} ({read.arch}, {one_line(read.file)}): {', '.join(about)}")
    for use in read.uses:
        _print_use(use)
    if isinstance(read.holds, str):
        click.echo(f"  who holds what is not seen: {one_line(read.holds)}")
    elif read.holds:
        _print_held(read.holds)


def _print_held(held_table: HeldTable) -> None:
    """The table that a function's code shows."""
    words = (
        "the published table"
        if not held_table.differ
        else f"{held_table.differ} of {held_table.table.points} slots DIFFER"
    )
    click.echo(f"  holds {_some(list(held_table.fragments))}, leading dimension {held_table.leading}: {words}")
    for line in held_table.first:
        click.echo(f"    {line}")


def _print_use(use: Use) -> None:
    places = [f"{at.file}:{at.line}" for at in use.lines]
    where = f"  at {_some(places)}" if places else ""
    click.echo(f"  {use.opcode} x {use.count}{where}")
    own, others = [o for o in use.origins if o.native], [o for o in use.origins if not o.native]
    if not use.origins:
        click.echo("    no PTX form is known to become it on this arch")
    for words, origins in (("native", own), ("emulated", others)):
        if origins:
            click.echo(f"    {words}: {_some([_form(origin) for origin in origins])}")
    for layout in own[0].layouts if own else ():
        click.echo(f"    {layout.operand}: layout {layout.layout_id}, {layout.known}")


def _form(origin: Origin) -> str:
    return f"{origin.instruction} ({origin.each} each)" if origin.each > 1 else origin.instruction


def _some(words: list[str]) -> str:
    more = len(words) - MANY
    return ", ".join(words[:MANY]) + (f" and {more} more" if more > 0 else "")


COMMANDS = (read,)
