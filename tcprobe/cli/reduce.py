"""tcprobe reduce: combine an accumulator's elements by row or column, give the results back, mask and fill it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import (
    ARCHS,
    JSON,
    NAME,
    NAMESPACE,
    Given,
    Output,
    fragment_names,
    given,
    is_redirected,
    print_notes,
    read_results,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.reduce import Reduction
    from tcprobe.ask.reduce.mask import Masked
    from tcprobe.cli.requests import ReduceRequest


WORDS = {"softmax": "softmax"}  # functions that are not called reduce


@click.command(short_help="Combine by row or column, mask, fill: exchanges and code.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option("--over", type=click.Choice(["row", "col"]), help="Combine the elements of each row, or of each column.")
@click.option(
    "--op",
    type=click.Choice(["max", "sum", "softmax"]),
    default="sum",
    show_default=True,
    help="The operation; softmax is a step of online softmax and the total of its sums.",
)
@click.option(
    "--tile", "size", type=Given(), metavar="ROWSxCOLS", help="With --over: reduce a tile of several fragments."
)
@click.option("--mask", type=Given(), metavar="CONDITION", help="Keep only where this holds, for example 'row >= col'.")
@click.option(
    "--fill",
    type=Given(),
    metavar="VALUE",
    help="Value for the elements that --mask leaves out, or without --mask for all: a number, 'row * 16 + col'.",
)
@click.option(
    "-o", "--output", type=Output(path_type=Path, dir_okay=False), help="Write a complete header to this file."
)
@NAME
@NAMESPACE
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def reduce(
    fragment: str,
    over: str | None,
    mask: str | None,
    fill: str | None,
    output: Path | None,
    **request: Unpack[ReduceRequest],
) -> None:
    """Combine what the lanes hold of each row or column of FRAGMENT, and give every lane its results: the plan and the
    code.

    With --mask and --fill, the code changes elements by their row and col instead. Other names in a condition, as in
    'row + row0 >= col + col0', become arguments. With -o, or where the output is not a terminal, the code is a
    complete header, which may be included twice, and the explanation goes to stderr.
    """
    from tcprobe.code.cuda import once
    from tcprobe.code.names import in_namespace
    from tcprobe.store.names import find_cell
    from tcprobe.system import files

    if (over is None) == (mask is None and fill is None):
        raise UsageError("give --over row or --over col, or --mask and --fill.")
    if over is None and (beside := given("mask", "fill", "output", "called", "namespace", "name", "folder", "only")):
        raise UsageError(f"{', '.join(beside.values())} needs --over.")
    cell, note = find_cell(fragment, request["name"], request["layers"])
    print_notes(note)
    answer: Reduction | Masked
    if over is None:
        from tcprobe.ask.reduce.mask import mask_fragment

        answer = mask_fragment(cell, mask, fill, request["called"] or ("fill" if mask is None else "mask"))
    else:
        from tcprobe.ask.reduce import reduce as reduced

        answer = reduced(
            cell, over, request["op"], request["called"] or WORDS.get(request["op"], "reduce"), request["size"]
        )
    code = in_namespace(answer.code, request["namespace"])
    if request["as_json"]:
        click.echo(json.dumps({**answer.to_json(), "code": code}))
        return
    aside = output is not None or is_redirected()
    wrapping.lines(answer.in_words, answer.cell.fragment.id, aside)
    header = "\n".join([*once(code.splitlines()), ""])
    if output is not None:
        files.write(output, header.encode())
    else:
        click.echo(header if aside else code, nl=not aside)


COMMANDS = (reduce,)
