"""`tcprobe cost`: what instructions cost, in cycles."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.errors import NoMajorityError, UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCH, JSON, Given, read_results

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.cost import Line
    from tcprobe.cli.requests import CostRequest
    from tcprobe.store.choose import Layers

WIDE = 132  # columns of the table; on a narrower terminal a name has a line of its own


@click.command(short_help="What an instruction costs: latency, interval, overlap.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION|OPCODE]...")
@click.option(
    "--with",
    "partner",
    type=Given(),
    metavar="MOVE",
    help="Show how far the multiply and MOVE overlap: ldmatrix.x4, fma.rn.f32.",
)
@click.option(
    "--table", "as_table", is_flag=True, help="List multiplies by rate, with their share of the best of their type."
)
@ARCH
@read_results
@JSON
@named("patterns")
def cost(
    patterns: tuple[str, ...], name: str | None, layers: Layers, as_json: bool, **request: Unpack[CostRequest]
) -> None:
    """Show what instructions cost: cycles from each operand to the result, between two of them, and round trips.

    Every number was measured, and the machine code of its loop was read; what papers and projects state stands beside
    it, and alone if nobody measured the arch. INSTRUCTION may be a shortened name, words, a pattern, or an opcode such
    as HMMA.16816.F32. Without one, --table shows all multiplies. --json prints one object per line.
    """
    from tcprobe.ask.cost import costs, table, words

    partner, as_table = request["partner"], request["as_table"]
    if not patterns and not as_table:
        raise UsageError("give an INSTRUCTION or an opcode, or --table.")
    if partner and as_table:
        raise UsageError("--with needs an INSTRUCTION and cannot be combined with --table.")
    measured = costs(patterns, name, layers)
    if as_table:
        _print_table(table(measured), as_json)
        measured = [one for one in measured if one.status != "measured"]
    for instruction_cost in measured:
        if as_json:
            click.echo(json.dumps(instruction_cost.to_json(partner)))
            continue
        for text in words(instruction_cost, partner):
            wrapping.line(text)
    if any(one.status == "contradicted" for one in measured):
        sys.exit(NoMajorityError.exit_code)


def _print_table(lines: Sequence[Line], as_json: bool) -> None:
    """Multiplies that were measured, by rate."""
    columns = wrapping.stated_width()
    if lines and not as_json:
        wrapping.line("multiply-adds per cycle per SM, and the share of the best form of that type:")
    for line in lines:
        if as_json:
            click.echo(json.dumps(line.cost.to_json() | {"share": round(line.share, 3)}))
        else:
            name, _, rest = str(line).partition(" ")
            click.echo(f"{name}\n  {rest.lstrip()}" if columns and columns < WIDE else str(line))


COMMANDS = (cost,)
