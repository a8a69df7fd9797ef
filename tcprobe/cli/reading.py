"""`read`: the matrix instructions in other people's code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import DataError, UsageError
from tcprobe.question.options import ARCHS, CUDA, JSON, Given, Named, read_results, several
from tcprobe.text import message, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from tcprobe.ask.read_file import CodeTable, FunctionReading, Origin, Reader, Use
    from tcprobe.cli.requests import ReadRequest
    from tcprobe.store.choose import Layers

MANY = 3  # from so many on, the forms and source lines of an opcode are counted


@click.command(short_help="The matrix instructions in a cubin, library, executable or PTX.")
@click.argument("paths", nargs=-1, required=True, type=Named(path_type=Path, exists=True), metavar="FILE...")
@click.option("--kernel", type=Given(), metavar="NAME", help="Only functions of this name, a pattern with * and ?.")
@click.option(
    "--tables",
    is_flag=True,
    help="Also run functions that only load and store fragments, and print which lane holds what.",
)
@ARCHS
@CUDA
@read_results
@JSON
def read(
    paths: tuple[Path, ...], kernel: str | None, layers: Layers, as_json: bool, **request: Unpack[ReadRequest]
) -> None:
    """Show what the code in FILE does with matrices: each function's matrix instructions, registers and spills.

    FILE is a cubin, PTX, a file with fatbins (object, library, executable), or a folder of such files, for example a
    compiler's cache. For every opcode: how often it occurs, at which source lines, which PTX forms become it, native or
    emulated, and the layouts of its operands with evidence. Where a file has no code for an arch, its PTX is assembled.
    --tables runs kernels that only load a fragment and store its registers lane by lane, or the reverse, and
    prints what each lane holds beside the published table. Exit code 1 if that differs, 4 if part of a file cannot be
    read. --json prints one object a function.
    """
    from tcprobe.ask.read_file import Origins, Reader
    from tcprobe.isa import arch
    from tcprobe.sass import toolchain

    tools = toolchain.find(request["cuda"])
    archs = [arch.arch(arch_name).name for arch_name in several(request["name"]) if arch_name]
    reader = Reader(tools, Origins(tools, layers), archs, layers if request["tables"] else None, not request["cuda"])
    functions = [function for function in _all(reader, paths) if not kernel or fnmatchcase(function.name, kernel)]
    if as_json:
        for function in functions:
            click.echo(json.dumps(function.to_json()))
    else:
        _print(functions)
    for note in dict.fromkeys(reader.notes):
        click.echo(message(note), err=True)
    for complaint in reader.complaints:
        click.echo(message(complaint), err=True)
    if kernel and not functions and not reader.complaints:
        raise UsageError(f"no function is named {kernel}.")
    differing = any(getattr(function.holds, "differ", 0) for function in functions)
    sys.exit(DataError.exit_code if reader.complaints else 1 if differing else 0)


def _all(reader: Reader, paths: tuple[Path, ...]) -> Iterator[FunctionReading]:
    """The functions of all files; a file that cannot be read is complained of, and the others are read."""
    from tcprobe.ask.read_file import code_files

    for path in (file for place in paths for file in (code_files(place) if place.is_dir() else [place])):
        try:
            yield from reader.read(path)
        except DataError as error:
            reader.complaints.append(str(error))


def _print(functions: list[FunctionReading]) -> None:
    for function in functions:
        if function.uses or function.holds:
            _print_function(function)
    idle = sum(not (function.uses or function.holds) for function in functions)
    if idle:
        click.echo(f"{idle} {'function has' if idle == 1 else 'functions have'} no matrix instruction.")


def _print_function(read_function: FunctionReading) -> None:
    f = read_function.function
    about = [f"{f.registers} registers" if f.registers else "registers unknown"]
    about += [f"{f.stack} bytes of stack"] if f.stack else []
    about += [f"{n} {opcode}" for opcode, n in sorted(read_function.local.items())]
    about += [f"by {', '.join(f.routines)}"] if f.routines else []
    about += [f"{read_function.unread} words that are not code"] if read_function.unread else []
    click.echo(
        f"{one_line(read_function.name)} ({read_function.arch}, {one_line(read_function.file)}): {', '.join(about)}"
    )
    for use in read_function.uses:
        _print_use(use)
    if isinstance(read_function.holds, str):
        click.echo(f"  no table: {one_line(read_function.holds)}")
    elif read_function.holds:
        _print_held(read_function.holds)


def _print_held(held_table: CodeTable) -> None:
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
    places = [f"{line.file}:{line.line}" for line in use.lines]
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


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - MANY
    return ", ".join(texts[:MANY]) + (f" and {more} more" if more > 0 else "")


COMMANDS = (read,)
