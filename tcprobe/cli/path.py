"""`tcprobe path`: how a fragment's elements get from global memory through shared memory into registers, and back."""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import click

from tcprobe.cli.path_steps import MAJOR, OUTPUT, cell_of, only_one, write
from tcprobe.errors import UsageError, answer_or_none
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import (
    ARCHS,
    JSON,
    NAME,
    NAMESPACE,
    PLACE,
    SWIZZLE,
    ElementType,
    Given,
    Number,
    fragment_names,
    place_text,
    read_results,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.path.request import PathRequest
    from tcprobe.cli.requests import PathPlanRequest
    from tcprobe.store.choose import Layers

CODE = click.option("--code", "code", type=click.Choice(["cuda", "cute"]), help="Print code instead.")


@click.command(short_help="From global memory into a fragment and back: every step.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option(
    "--tile", "size", type=Given(), required=True, metavar="ROWSxCOLS", help="The tile, in FRAGMENT's rows and columns."
)
@MAJOR
@click.option(
    "--ld", type=Number(1), metavar="ELEMENTS", help="Stride from line to line in global memory. Default: no gaps."
)
@click.option(
    "--type",
    "kind",
    type=ElementType(),
    metavar="T",
    help="The tile's element type: FRAGMENT's, or s4 where that is s8.",
)
@PLACE
@SWIZZLE
@click.option(
    "--fill",
    type=Given(),
    metavar="cp.async|tma|plain",
    help="Copies between global and shared memory; cp.async.8: 8 bytes per lane. Default: cp.async in, plain back.",
)
@click.option(
    "--with",
    "access",
    type=Given(),
    metavar="OP",
    help="ldmatrix.x4.trans, ld.shared.b32, stmatrix.x2, "
    "...; sets the path's direction too. Used exactly as given; default: the largest ldmatrix, then "
    "the widest loads.",
)
@CODE
@OUTPUT
@NAME
@NAMESPACE
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def path(fragment: str, name: str | None, layers: Layers, **options: Unpack[PathPlanRequest]) -> None:
    """Plan the path of a tile from global through shared memory into FRAGMENT's registers, or back.

    Each step has its addresses, wavefronts and evidence, and the path is proven element by element. --code prints a
    CUDA header, or CuTe's text. If there is no such path, the answer is the reason and the nearest one that exists.
    """
    from tcprobe.ask.path import PathOptions, request
    from tcprobe.ask.path import path as planned
    from tcprobe.ask.path.answer import plan_json
    from tcprobe.cli import operand
    from tcprobe.isa.names import resolve

    only_one(options)
    plan_options = PathOptions(
        options["size"],
        options["contiguous"],
        place_text(options),
        options["access"],
        options["ld"],
        options["fill"],
        options["kind"],
    )
    if resolve(fragment).shared:
        from tcprobe.ask.path.operand import operand_path

        operand.answer(operand_path(resolve(fragment).shared_operand, layers, plan_options, name), options)
        return
    asked = request(cell_of(fragment, name, layers), plan_options)
    try:
        plan = planned(asked)
    except UsageError as error:
        if advice := _converted(asked):
            raise UsageError(f"{error} {advice}") from None
        raise
    if options["code"] or options["output"]:
        write(_source(plan, options["code"] == "cute"), options)
    elif options["as_json"]:
        click.echo(json.dumps(plan_json(plan)))
    else:
        wrapping.lines(plan.in_words)


def _converted(asked: PathRequest) -> str:
    """Which `convert` stores what no stmatrix takes as it is: of another type, narrower; empty where none does."""
    from tcprobe.ask.convert.code import CASTS
    from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store
    from tcprobe.isa.dtypes import dtype

    if asked.move != "stmatrix":
        return ""
    fragment = asked.cell.fragment
    narrower = [to for of, to in CASTS if of == fragment.type and dtype(to).bits < fragment.slot_bits]
    kinds = sorted(narrower, key=lambda kind: kind != "bf16")
    for kind, access in product(kinds, (asked.access.name, "stmatrix")):  # the latter: by as many matrices as fit
        how = StoreOptions(access, kind, asked.tile.contiguous, asked.shared.spelling)
        if store := answer_or_none(partial(plan_store, asked.cell, how)):
            line = f"tcprobe convert {fragment.id} {access} --type {kind} --arch {asked.cell.arch}"
            line += f" --global {how.contiguous}" * (how.contiguous != "row")
            line += f" --shared {how.placed}" * (how.placed != "plain")
            return f"As {kind} it is stored by `{line}`: {store.wavefronts} wavefronts, ideal {store.ideal}."
    return ""


def _source(plan: PathPlan, as_cute: bool) -> str:
    from tcprobe.ask.path import cuda, cute

    return cute.source(plan) if as_cute else cuda.source(plan)


COMMANDS = (path,)
