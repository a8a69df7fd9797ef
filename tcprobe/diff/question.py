"""The question `diff`: two archs, two results folders, two compilers, two orders of sums."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import click

from tcprobe.arithmetic import order_text
from tcprobe.ask.diff import ChangedNumerics, Difference, compare_named, differences
from tcprobe.order.difference import OrderDifference
from tcprobe.order.difference import difference as order_difference
from tcprobe.question import terminal
from tcprobe.question.arguments import ArchName, arch_name
from tcprobe.question.declare import Option, PlainArgument, command
from tcprobe.question.naming import split_names
from tcprobe.question.options import Named, NonEmptyText
from tcprobe.question.shared import JsonOption, OnlyOption, ResultsOption
from tcprobe.store.choose import layers

FOLDER = Named(path_type=Path, exists=True, file_okay=False)


def diff(
    names: Annotated[
        Sequence[str], PlainArgument("[ARCH ARCH | FOLDER FOLDER | ORDER ORDER] [FRAGMENT]...", multiple=True)
    ] = (),
    *,
    cuda: Annotated[
        Sequence[Path],
        Option(
            "--cuda",
            "Folder of a CUDA toolkit. Give it twice to compare what two compilers make of the probes.",
            reads=FOLDER,
            multiple=True,
        ),
    ] = (),
    numerics: Annotated[
        bool, Option("--numerics", "Compare the arithmetic of two archs instead, measured or published by others.")
    ] = False,
    arch: Annotated[
        ArchName | None,
        Option("--arch", "With --cuda: which arch. Default: all that ptxas knows.", "sm_XX|all", NonEmptyText()),
    ] = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Iterator[Difference | ChangedNumerics | OrderDifference]:
    """Compare the tables of two archs, of two results folders, or of two compilers (--cuda A --cuda B); or two orders.

    Folders are compared alone, arch by arch. FRAGMENT limits the answer to those, by name or pattern. Where one side
    has no table, the answer gives the reason: the arch does not have it, refused it, failed at it, or nobody measured
    it. Absent is not different: the exit code is 1 only if a table differs. --json prints one object per comparison,
    with every absent cell. Of two files of `tcprobe order` the answer is the first sum in which they differ, and
    operands for which D differs.
    """
    from tcprobe.run.survey import compilers

    if len(names) == 2 and not cuda and all(name.endswith(".json") or os.path.isfile(name) for name in names):
        first, second = map(order_text.load, names)
        yield order_difference(first, second)
        return
    folders, sides = layers(results, only), tuple(names[: 0 if cuda else 2])
    patterns = split_names(names[len(sides) :])
    if numerics:
        yield from differences(tuple(names), folders)
    elif cuda:
        yield from compilers(cuda, arch_name(arch), patterns)
    else:
        yield from compare_named((*sides, *patterns), arch_name(arch), folders)


@command(
    diff,
    short="Two archs, results folders, compilers or orders.",
    json={
        "": "tcprobe.ask.diff:DifferenceAnswer",
        "--numerics": "tcprobe.ask.diff:ChangedNumericsAnswer",
        "ORDER": "tcprobe.order.difference:OrderDifferenceAnswer",
    },
)
def print_diff(
    found: Iterator[Difference | ChangedNumerics | OrderDifference],
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
            terminal.lines(each.in_words(everything, changed), each.title)
        elif isinstance(each, Difference):
            click.echo(json.dumps(each.to_json(changed)))
        elif isinstance(each, OrderDifference) and not as_json:
            terminal.lines(each.in_words)
        elif not (changed and each.none):
            click.echo(json.dumps(each.to_json())) if as_json else terminal.line(str(each))
    sys.exit(0 if same else 1)
