"""`tcprobe load`: a fragment straight from global memory, from a matrix or from weights that were repacked for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tcprobe.cli import wrapping
from tcprobe.cli.naming import named
from tcprobe.cli.options import ARCHS, JSON, NAME, NAMESPACE, Number, fragment_names, read_results
from tcprobe.cli.path_steps import MAJOR, OUTPUT, cell_of, only_one, write
from tcprobe.cli.places import ElementType
from tcprobe.errors import UsageError

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.cli.requests import CodeRequest, LoadRequest
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers


@click.command(short_help="A fragment straight from global memory: widest loads.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option(
    "--from", "source", type=click.Choice(["global"]), default="global", show_default=True, help="Where the matrix is."
)
@click.option(
    "--ld", type=Number(1), metavar="ELEMENTS", help="Stride from line to line. Default: the fragment's own lines."
)
@MAJOR
@click.option(
    "--repack",
    "repacked",
    is_flag=True,
    help="Store quantised weights in an order in which one 16-byte load brings several k steps; convert in registers.",
)
@click.option(
    "--type",
    "stored",
    type=ElementType(),
    metavar="T",
    help="With --repack: type of the stored weights: s4, u4, s8, e4m3 or e2m1.",
)
@click.option(
    "--as",
    "wanted",
    type=ElementType(),
    metavar="T",
    help="With --repack: type that they are converted to. Only FRAGMENT's own type, the default, works.",
)
@click.option(
    "--group",
    type=Number(1),
    metavar="K",
    help="With --repack: one scale for each K elements along k, in each column of B or row of A.",
)
@click.option(
    "--zeros",
    is_flag=True,
    help="With --group: a zero point for each scale; weights are (code - zero point) scale, as of AWQ and GPTQ.",
)
@click.option("--packer", type=click.Choice(["numpy", "torch"]), help="With --repack: print the Python that repacks.")
@click.option("--code", "code", is_flag=True, help="Print a CUDA header instead.")
@OUTPUT
@NAME
@NAMESPACE
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def load(fragment: str, name: str | None, layers: Layers, **request: Unpack[LoadRequest]) -> None:
    """Load FRAGMENT straight from global memory with the widest vectors that its table allows.

    With --repack: store quantised weights in an order in which one load brings a lane's elements of several k steps.
    --packer prints the code that brings a matrix into that order, --code the code that loads and converts it.
    """
    only_one(request)
    if request["repacked"]:
        _repack(cell_of(fragment, name, layers), layers, request)
        return
    others = {
        "--type": request["stored"],
        "--as": request["wanted"],
        "--group": request["group"],
        "--zeros": request["zeros"] or None,
        "--packer": request["packer"],
    }
    if unfit := [option for option, value in others.items() if value is not None]:
        raise UsageError(f"{', '.join(unfit)}: only for repacked weights; give --repack too.")
    _straight(cell_of(fragment, name, layers), request)


def _straight(cell: Cell, load_request: LoadRequest) -> None:
    from tcprobe.ask.load import load as planned
    from tcprobe.ask.load_code import source

    plan = planned(cell, load_request["contiguous"], load_request["ld"])
    if load_request["code"] or load_request["output"]:
        write(source(plan), load_request)
    elif load_request["as_json"]:
        click.echo(json.dumps(plan.to_json()))
    else:
        wrapping.lines(plan.in_words)


def _repack(cell: Cell, layers: Layers, load_request: LoadRequest) -> None:
    from tcprobe.ask.repack import cuda, python, repack, with_zeros

    major = click.get_current_context().get_parameter_source("contiguous")
    if load_request["ld"] is not None or major is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("repacked weights have their own order: remove --ld and --global.")
    if load_request["stored"] is None:
        raise UsageError("--repack needs the type of the stored weights: --type s4, u4, s8, e4m3 or e2m1.")
    plan = repack(cell, load_request["stored"], load_request["wanted"], load_request["group"], layers)
    if load_request["zeros"]:
        plan = with_zeros(plan)
    if load_request["packer"]:
        _packer_alone(load_request)
        write(python.source(plan, load_request["packer"]), load_request)
    elif load_request["code"] or load_request["output"]:
        write(cuda.source(plan), load_request)
    elif load_request["as_json"]:
        click.echo(json.dumps(plan.to_json()))
    else:
        wrapping.lines(plan.in_words)


def _packer_alone(code_request: CodeRequest) -> None:
    others = (code_request["code"], code_request["as_json"], code_request["called"], code_request["namespace"])
    for option, value in zip(("--code", "--json", "--name", "--namespace"), others, strict=True):
        if value:
            raise UsageError(f"{option} cannot be combined with --packer, which prints Python.")


COMMANDS = (load,)
