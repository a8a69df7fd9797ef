"""`tcprobe path`: how a fragment's elements get from global memory through shared memory into registers, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli import answers, wrapping
from tcprobe.cli.naming import named
from tcprobe.cli.options import ARCHS, JSON, NAME, NAMESPACE, Given, Number, fragment_names, read_results
from tcprobe.cli.path_steps import MAJOR, OUTPUT, cell_of, only_one, steps_table, steps_words, write
from tcprobe.cli.places import PLACE, SWIZZLE, ElementType, placed
from tcprobe.text import escaped

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.path import PathPlan
    from tcprobe.ask.path.steps import RegisterCopy
    from tcprobe.cli.requests import PathAsked
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
def path(fragment: str, name: str | None, layers: Layers, **asked: Unpack[PathAsked]) -> None:
    """Plan the path of a tile from global through shared memory into FRAGMENT's registers, or back.

    Each step has its addresses, wavefronts and evidence, and the path is proven element by element. --code prints a
    CUDA header, or CuTe's text. If there is no such path, the answer is the reason and the nearest one that exists.
    """
    from tcprobe.ask.path import PathOptions, request
    from tcprobe.ask.path import path as planned
    from tcprobe.ask.path.answer import plan_json
    from tcprobe.cli import operand
    from tcprobe.isa.names import resolve

    only_one(asked)
    options = PathOptions(
        asked["size"], asked["contiguous"], placed(asked), asked["access"], asked["ld"], asked["fill"], asked["kind"]
    )
    if resolve(fragment).shared:
        from tcprobe.ask.path.operand import operand_path

        operand.answer(operand_path(resolve(fragment).shared_operand, layers, options, name), asked)
        return
    plan = planned(request(cell_of(fragment, name, layers), options))
    if asked["code"] or asked["output"]:
        write(_source(plan, asked["code"] == "cute"), asked)
    elif asked["as_json"]:
        click.echo(json.dumps(plan_json(plan)))
    else:
        _plan_text(plan)


def _source(plan: PathPlan, as_cute: bool) -> str:
    from tcprobe.ask.path import cuda, cute

    return cute.source(plan) if as_cute else cuda.source(plan)


def _plan_text(plan: PathPlan) -> None:
    asked, tile, shared = plan.request, plan.request.tile, plan.request.shared
    wrapping.line(
        f"{tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous, {asked.ld_bytes} bytes apart "
        f"in global memory"
    )
    wrapping.line(
        f"in shared memory {shared}: {shared.words(tile)}, {shared.bytes(tile)} bytes, "
        f"start aligned to {plan.alignment}"
    )
    if asked.widens:
        click.echo(f"{asked.cell.fragment.type} in registers; needs {plan.needs}")
    steps_table(plan.request, plan.steps)
    for step in plan.steps:
        steps_words(plan.request, step)
        if step is plan.registers:
            _order(plan, plan.registers)
    _k_loop(plan)
    wrapping.line(f"proven: {_count(plan)} arrive at their places")
    for words in plan.evidence:
        wrapping.line(escaped(words))
    answers.sure([plan.request.cell])


def _order(plan: PathPlan, step: RegisterCopy) -> None:
    """The first issue's pieces, and which fragment follows which."""
    what = "matrix" if step.tables else "piece"
    for number, (row, col, i) in enumerate(step.issues()[0]["slots"]):
        register, bit = plan.request.cell.fragment.place(i)
        of = f", bit {bit} on" if bit else ""
        where = f"the fragment at ({row}, {col}), i = {i} on: its register {register}{of}"
        wrapping.line(f"  {what} {number} of issue 0 {'->' if plan.request.loads else '<-'} {where}")
    if plan.fragments > 1:
        (row, col), inner = (
            step.origins[step.warps].tolist(),
            "rows" if plan.request.slots.outer == "col" else "columns",
        )
        wrapping.line(f"  {plan.fragments} fragments follow each other along {inner}: the next at ({row}, {col})")
    if step.warps > 1:
        each = len(step.shared) // len(step.origins)
        wrapping.line(f"  {step.warps} warps: each has its own {each} issues of a fragment, warp 0 the first {each}")


def _k_loop(plan: PathPlan) -> None:
    from tcprobe.ask.path.progress import advance

    loop = advance(plan)
    if not loop:
        return
    ahead = f"the next tile {loop.global_} bytes further in global memory"
    if not loop.issues:
        wrapping.line(f"k: {loop.steps} steps along {loop.axis}s; an issue serves several; {ahead}")
        return
    sign = {"+": "+ ", "^": "^ "}.get(loop.op, "")
    by = f"shared address {sign}{', '.join(map(str, loop.shared))}" if sign else "addresses as the formula says"
    wrapping.line(f"k: {loop.steps} steps along {loop.axis}s of {loop.issues} issues each, {by}; {ahead}")


def _count(plan: PathPlan) -> str:
    cell, tile = plan.request.cell, plan.request.tile
    if plan.request.loads:
        return f"all {plan.fragments * cell.table.points} slots' elements"
    return f"all {tile.rows * tile.cols} elements"


COMMANDS = (path,)
