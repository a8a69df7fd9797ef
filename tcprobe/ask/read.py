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
from tcprobe.isa.opcodes import multiplies
from tcprobe.mangled import labels
from tcprobe.question import terminal
from tcprobe.question.arguments import ArchName, arch_name
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.options import Named
from tcprobe.question.shared import (
    ArchOption,
    CudaOption,
    FullOption,
    FunctionsOption,
    JsonOption,
    OnlyOption,
    ResultsOption,
)
from tcprobe.store.choose import layers
from tcprobe.text import columns, escaped, message, one_line

if TYPE_CHECKING:
    from tcprobe.ask.read_file import FunctionReading, Use
    from tcprobe.check.code_check import KernelCheck

MANY = 3  # from so many on, the forms and source lines of an opcode are counted


def readings(
    paths: Annotated[Sequence[Path], PlainArgument("FILE...", Named(path_type=Path, exists=True), multiple=True)],
    *,
    kernel: FunctionsOption = None,
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
    read. --json prints one object per function.
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


@command(
    readings,
    short="The matrix instructions in a cubin, library, executable or PTX.",
    name="read",
    json="tcprobe.ask.read_file:ReadAnswer",
)
def print_read(
    found: "Iterator[FunctionReading | DataError]",
    *,
    paths: Sequence[Path] = (),
    kernel: str | None = None,
    arch: ArchName | None = None,
    cuda: Path | None = None,
    full: FullOption = False,
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
        size = sum(len(function.function.code) for function in functions)
        checked = question.of_what_was_read(paths, size, kernel=kernel, arch=arch, cuda=cuda)
        kernels = list(checked.kernels) if checked else []
        _print_table([one for one in functions if one.uses or one.holds], kernels, full)
        if idle := sum(not (function.uses or function.holds) for function in functions):
            click.echo(f"{idle} {'function has' if idle == 1 else 'functions have'} no matrix instruction.")
        if checked is not None:
            verb = " finds" if kernels else ":"
            terminal.line(f"tcprobe check{verb} {question.found_in_words(checked, kernels)}.")
        elif size:
            click.echo(f"tcprobe check looks for what is wrong in it ({size >> 20} MB of code).")
    for complaint in complaints:
        click.echo(message(str(complaint)), err=True)
    differing = any(getattr(function.holds, "differ", 0) for function in functions)
    sys.exit(DataError.exit_code if complaints else 1 if differing else 0)


def _print_table(functions: "Sequence[FunctionReading]", checked: "Sequence[KernelCheck]", full: bool) -> None:
    """A line a function, what is wrong with it, then each opcode once with its forms and layouts."""
    counts = {(one.kernel, one.arch): question.counts_of([one]) for one in checked}
    named = labels(one.name for one in functions)
    rows = [_row(one, named[one.name], counts.get((one.function.name, one.arch), "not checked")) for one in functions]
    if rows:
        heads = ("kernel", "arch", "multiplies", "loads", "registers", "spills", "findings")
        terminal.lines(columns([heads, *rows], 2))
    for one in functions:
        for text in _beside(one, full):
            terminal.line(f"{escaped(named[one.name])}: {text}")
    used: dict[tuple[str, str], list[Use]] = {}
    for one in functions:
        for use in one.uses:
            used.setdefault((one.arch, use.opcode), []).append(use)
    for (name, opcode), uses in used.items():
        terminal.lines(_forms(name, opcode, uses))
        for line in _where(uses) if full else ():
            terminal.line(line)


def _row(one: "FunctionReading", name: str, findings: str) -> tuple[str, ...]:
    products = sum(use.count for use in one.uses if multiplies(use.opcode))
    moves = sum(use.count for use in one.uses) - products
    registers = str(one.function.registers) if one.function.registers else "unknown"
    return (escaped(name), one.arch, str(products), str(moves), registers, str(sum(one.local.values())), findings)


def _beside(one: "FunctionReading", full: bool) -> Iterator[str]:
    """What the table has no column for."""
    f = one.function
    if full:
        yield f"in {one_line(one.file)}, named {one_line(one.name)}"
    about = [f"{f.stack} bytes of stack"] if f.stack else []
    about += [f"{n} {opcode}" for opcode, n in sorted(one.local.items())]
    about += [f"by {', '.join(f.routines)}"] if f.routines else []
    about += [f"{one.unread} words that are not code"] if one.unread else []
    if about:
        yield ", ".join(about)
    if isinstance(one.holds, str):
        yield f"no table: {one_line(one.holds)}"
    elif one.holds:
        held = one.holds
        words = f"{held.differ} of {held.table.points} slots DIFFER" if held.differ else "the published table"
        yield f"holds {_some(held.fragments)}, leading dimension {held.leading}: {words}"
        yield from held.first


def _forms(name: str, opcode: str, uses: "Sequence[Use]") -> Iterator[str]:
    """What becomes an opcode on an arch, and the layouts of its operands."""
    origins = list(dict.fromkeys(origin for use in uses for origin in use.origins))
    yield f"{name} {opcode} x {sum(use.count for use in uses)}"
    if not origins:
        yield "  no PTX form is known to become it on this arch"
    own = [origin for origin in origins if origin.native]
    for words, of in (("native", own), ("emulated", [origin for origin in origins if not origin.native])):
        if of:
            forms = [f"{o.instruction} ({o.each} each)" if o.each > 1 else o.instruction for o in of]
            yield f"  {words}: {_some(forms)}"
    by_known: dict[str, list[str]] = {}
    for layout in own[0].layouts if own else ():
        by_known.setdefault(layout.known, []).append(f"{layout.operand} layout {layout.layout_id}")
    yield from (f"  {', '.join(layouts)}, {known}" for known, layouts in by_known.items())


def _where(uses: "Sequence[Use]") -> Iterator[str]:
    """The lines of the source."""
    places = dict.fromkeys(f"{line.file}:{line.line}" for use in uses for line in use.lines)
    if places:
        yield f"  at {', '.join(places)}"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - MANY
    return ", ".join(texts[:MANY]) + (f" and {more} more" if more > 0 else "")
