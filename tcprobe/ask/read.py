"""The question `read`: the matrix instructions in other people's code."""

import json
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from tcprobe.check import question
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import arch as archs
from tcprobe.question.arguments import ArchName, arch_name
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.question.shared import ArchOption, CudaOption, JsonOption, OnlyOption, ResultsOption
from tcprobe.store.choose import layers
from tcprobe.text import message, one_line

if TYPE_CHECKING:
    from tcprobe.ask.read_file import FunctionReading, Use

MANY = 3  # from so many on, the forms and source lines of an opcode are counted


def readings(
    paths: Annotated[Sequence[Path], PlainArgument("FILE...", Named(path_type=Path, exists=True), multiple=True)],
    *,
    kernel: Annotated[
        str | None, Option("--kernel", "Only functions of this name, a pattern with * and ?.", "NAME", NonEmptyText())
    ] = None,
    with_tables: Annotated[
        bool,
        Option("--tables", "Also run functions that only load and store fragments, and print which lane holds what."),
    ] = False,
    arch: ArchOption = None,
    cuda: CudaOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Iterator[FunctionReading | DataError]":
    """Show what the code in FILE does with matrices: each function's matrix instructions, registers and spills.

    FILE is a cubin, PTX, a file with fatbins (object, library, executable), or a folder of such files, for example a
    compiler's cache. For every opcode: how often it occurs, at which source lines, which PTX forms become it, native or
    emulated, and the layouts of its operands with evidence. Where a file has no code for an arch, its PTX is assembled.
    --tables runs kernels that only load a fragment and store its registers lane by lane, or the reverse, and
    prints what each lane holds beside the published table. Exit code 1 if that differs, 4 if part of a file cannot be
    read. --json prints one object a function.
    \f
    What cannot be read of the files comes last.
    """
    from tcprobe.ask.read_file import Origins, Reader
    from tcprobe.sass import toolchain
    from tcprobe.sass.code_files import code_files

    folders, tools = layers(results, only), toolchain.find(cuda)
    wanted = [archs.arch(name).name for name in (arch_name(arch) or "").split(",") if name]
    reader = Reader(tools, Origins(tools, folders), wanted, folders if with_tables else None, not cuda)
    found = False
    for path in (file for place in paths for file in (code_files(place) if place.is_dir() else [place])):
        try:
            for function in reader.read(path):
                if not kernel or fnmatchcase(function.name, kernel):
                    found = True
                    yield function
        except DataError as error:
            reader.complaints.append(str(error))
    note(*dict.fromkeys(reader.notes))
    yield from map(DataError, reader.complaints)
    if kernel and not found and not reader.complaints:
        raise UsageError(f"no function is named {kernel}.")


@command(readings, short="The matrix instructions in a cubin, library, executable or PTX.", name="read")
def print_read(
    found: "Iterator[FunctionReading | DataError]",
    *,
    paths: Sequence[Path] = (),
    kernel: str | None = None,
    arch: ArchName | None = None,
    cuda: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """All functions, once the last is read; the exit code says whether a table differs, or something was not read."""
    answers = list(found)
    functions = [answer for answer in answers if not isinstance(answer, DataError)]
    complaints = [answer for answer in answers if isinstance(answer, DataError)]
    if as_json:
        for function in functions:
            click.echo(json.dumps(function.to_json()))
    else:
        for function in functions:
            if function.uses or function.holds:
                _print_function(function)
        if idle := sum(not (function.uses or function.holds) for function in functions):
            click.echo(f"{idle} {'function has' if idle == 1 else 'functions have'} no matrix instruction.")
        size = sum(len(function.function.code) for function in functions)
        click.echo(question.of_what_was_read(paths, size, kernel=kernel, arch=arch, cuda=cuda))
    for complaint in complaints:
        click.echo(message(str(complaint)), err=True)
    differing = any(getattr(function.holds, "differ", 0) for function in functions)
    sys.exit(DataError.exit_code if complaints else 1 if differing else 0)


def _print_function(read_function: "FunctionReading") -> None:
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
        held = read_function.holds
        words = f"{held.differ} of {held.table.points} slots DIFFER" if held.differ else "the published table"
        click.echo(f"  holds {_some(held.fragments)}, leading dimension {held.leading}: {words}")
        for line in held.first:
            click.echo(f"    {line}")


def _print_use(use: "Use") -> None:
    places = [f"{line.file}:{line.line}" for line in use.lines]
    where = f"  at {_some(places)}" if places else ""
    click.echo(f"  {use.opcode} x {use.count}{where}")
    own, others = [o for o in use.origins if o.native], [o for o in use.origins if not o.native]
    if not use.origins:
        click.echo("    no PTX form is known to become it on this arch")
    for words, origins in (("native", own), ("emulated", others)):
        if origins:
            forms = [f"{o.instruction} ({o.each} each)" if o.each > 1 else o.instruction for o in origins]
            click.echo(f"    {words}: {_some(forms)}")
    for layout in own[0].layouts if own else ():
        click.echo(f"    {layout.operand}: layout {layout.layout_id}, {layout.known}")


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - MANY
    return ", ".join(texts[:MANY]) + (f" and {more} more" if more > 0 else "")
