"""`diff`, `compilers`, `contribute`: two sets of tables, what versions of ptxas agree in, what GPUs here show."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from tcprobe.ask.diff import ChangedNumerics, Difference, compare_named, differences
from tcprobe.question import terminal, wrapping
from tcprobe.question.arguments import ArchName, arch_name
from tcprobe.question.declare import Option, PlainArgument, command, note
from tcprobe.question.naming import split_names
from tcprobe.question.options import Given, Named, Number, Output, Seconds
from tcprobe.question.shared import JsonOption, OnlyOption, ResultsOption
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.run.contribute import Contribution
    from tcprobe.run.survey import Survey

FOLDER = Named(path_type=Path, exists=True, file_okay=False)


def diff(
    names: Annotated[Sequence[str], PlainArgument("[ARCH ARCH | FOLDER FOLDER] [FRAGMENT]...", multiple=True)] = (),
    *,
    cuda: Annotated[
        Sequence[Path],
        Option(
            "--cuda",
            "Folder of a CUDA toolkit. Give it twice to compare what two make of the probes.",
            reads=FOLDER,
            multiple=True,
        ),
    ] = (),
    numerics: Annotated[
        bool, Option("--numerics", "Compare the arithmetic of two archs instead, measured or published by others.")
    ] = False,
    arch: Annotated[
        ArchName | None,
        Option("--arch", "With --cuda: which arch. Default: all that ptxas knows.", "sm_XX|all", Given()),
    ] = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Iterator[Difference | ChangedNumerics]:
    """Compare the tables of two archs, of two results folders, or of two compilers (--cuda A --cuda B).

    Folders are compared alone, arch by arch. FRAGMENT limits the answer to those, by name or pattern. Where one side
    has no table, the answer gives the reason: the arch does not have it, refused it, failed at it, or nobody measured
    it. Absent is not different: the exit code is 1 only if a table differs. --json prints one object a comparison, with
    every absent cell.
    """
    from tcprobe.run.survey import compilers

    folders, sides = layers(results, only), tuple(names[: 0 if cuda else 2])
    patterns = split_names(names[len(sides) :])
    if numerics:
        yield from differences(tuple(names), folders)
    elif cuda:
        yield from compilers(cuda, arch_name(arch), patterns)
    else:
        yield from compare_named((*sides, *patterns), arch_name(arch), folders)


@command(diff, short="Two archs, two results folders or two compilers.")
def print_diff(
    found: Iterator[Difference | ChangedNumerics],
    *,
    changed: Annotated[bool, Option("--changed", "Print only what changed, not what is absent.")] = False,
    everything: Annotated[bool, Option("--all", "List also the fragments that neither side has.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Each as it is found; the exit code says whether anything differs."""
    same = True
    for each in found:
        same = same and each.none
        if isinstance(each, Difference) and not as_json:
            wrapping.lines(each.in_words(everything, changed), each.title)
        elif isinstance(each, Difference):
            click.echo(json.dumps(each.to_json(changed)))
        elif not (changed and each.none):
            click.echo(json.dumps(each.to_json())) if as_json else wrapping.line(str(each))
    sys.exit(0 if same else 1)


def compilers(
    names: Annotated[Sequence[str], PlainArgument("[FRAGMENT]...", multiple=True)] = (),
    *,
    cuda: Annotated[
        Sequence[Path],
        Option(
            "--cuda",
            "Folder of a CUDA toolkit; give it several times. Default: the installed one.",
            reads=FOLDER,
            multiple=True,
        ),
    ] = (),
    arch: Annotated[
        ArchName | None,
        Option("--arch", "Only this arch. Default: all that the compilers know.", "sm_XX|all", Given()),
    ] = None,
) -> "Survey":
    """Compare what the toolkits of several folders make of the probes: tables and matrix instructions, arch by arch.

    The answer lists the archs of each version, how much all agree on, what differs, what only some versions show, and
    what they refuse. FRAGMENT limits the tables to these. Exit code 1 if something differs.
    """
    from tcprobe.run.survey import survey

    with terminal.progress("reading machine code") as tick:
        return survey(cuda, arch_name(arch), split_names(names), tick)


@command(compilers, short="Where several compilers agree, and the exceptions.")
def print_compilers(found: "Survey", *, as_json: JsonOption = False) -> None:
    """Words or JSON; the exit code says whether something differs."""
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        wrapping.lines(found.in_words)
    sys.exit(1 if found.differing else 0)


def contribute(
    output: Annotated[
        Path,
        Option("--output", "File to write.", "FILE", Output(path_type=Path, dir_okay=False), shown=True, letter="-o"),
    ] = Path("contribution.json.gz"),
    *,
    minutes: Annotated[
        int, Option("--minutes", "Minutes that measuring may take.", "N", Number(1, 1440), shown=True)
    ] = 5,
    results: Annotated[
        Path,
        Option(
            "--results",
            "Folder that keeps what is measured, so that the same command continues what was stopped.",
            reads=Named(path_type=Path, file_okay=False),
            shown=True,
        ),
    ] = Path("contribution"),
    limit: Annotated[
        float,
        Option(
            "--limit",
            "Seconds without an answer after which a launch counts as hung.",
            "SECONDS",
            Seconds(),
            shown=True,
        ),
    ] = 60.0,
) -> "Contribution":
    """Measure the GPUs of this machine for tcprobe's tables: one file, for you to send.

    It has everything that they show in the time given: tables, arithmetic, descriptors, bank conflicts, costs. What is
    only documented of your GPU's arch comes first. Each finding names the GPU, driver, CUDA version and compiler, and
    nothing else of the machine. Nothing is sent. `tcprobe merge FILE --check` shows what the file adds.
    """
    from tcprobe.run.contribute import Request
    from tcprobe.run.contribute import contribute as measure

    with terminal.progress("measuring") as tick:
        return measure(Request(output, results, minutes, limit, note, tick))


@command(contribute, short="Measure your GPU for everybody: one file to send.")
def print_contribution(made: "Contribution", *, as_json: JsonOption = False) -> None:
    """Words or JSON."""
    if as_json:
        click.echo(json.dumps(made.to_json()))
    else:
        wrapping.lines(made.in_words)
