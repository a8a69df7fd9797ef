"""`convert`: from one fragment to another, or through stmatrix into shared memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question.naming import named
from tcprobe.question.options import (
    ARCH,
    JSON,
    PLACE,
    SWIZZLE,
    ElementType,
    Given,
    Output,
    fragment_names,
    is_redirected,
    place_text,
    print_notes,
    read_results,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.convert import Conversion
    from tcprobe.ask.convert.stmatrix import StoreOptions, StorePlan
    from tcprobe.cli.requests import ConvertRequest


@click.command(short_help="From one fragment to another: moves, cost, code.")
@click.argument("names", nargs=-1, required=True, metavar="FROM TO [FROM TO]...", shell_complete=fragment_names)
@click.option("--transpose", is_flag=True, help="TO holds the transpose of the matrix.")
@click.option(
    "--permute-k",
    is_flag=True,
    help="Reorder k of TO so that lanes exchange nothing; the answer has the order, and how to load the other factor.",
)
@click.option(
    "-o", "--output", type=Output(path_type=Path, dir_okay=False), help="Write a complete header to this file."
)
@click.option(
    "--name",
    "called",
    type=Given(),
    multiple=True,
    metavar="NAME",
    help="Name of the function; give it once for each FROM TO.",
)
@click.option("--namespace", type=Given(), metavar="NS", help="Namespace of the functions in a header.")
@click.option(
    "--type",
    "kind",
    type=ElementType(),
    metavar="TYPE",
    help="With stmatrix: type of the elements in memory: bf16, s8.",
)
@click.option(
    "--as", "typed", type=ElementType(), metavar="TYPE", help="With tcgen05.ld as FROM: type of its words, f32 or s32."
)
@click.option(
    "--global", "contiguous", type=click.Choice(["row", "col"]), help="With stmatrix: what is contiguous in memory."
)
@PLACE
@SWIZZLE
@ARCH
@read_results
@JSON
@named("names", "one", "pairs")
def convert(
    names: tuple[str, ...],
    called: tuple[str, ...],
    output: Path | None,
    namespace: str | None,
    **request: Unpack[ConvertRequest],
) -> None:
    """Turn fragments FROM into fragments TO that hold the same matrix: what has to move, what it costs, the code.

    For example an accumulator into the A operand of the next multiply, or the result of tcgen05.ld (--as f32). Both
    sides are repeated as tiles until they cover the same matrix. TO may be stmatrix, stmatrix.x4 or stmatrix.x2.trans,
    which store into shared memory, with the address of every lane (--type, --global, --shared). With -o, or where the
    output is not a terminal, the code is a complete header and the explanation goes to stderr.
    """
    from tcprobe.ask.convert.header import header
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.cli import answers
    from tcprobe.system import files

    aside = not request["as_json"] and (output is not None or is_redirected())
    conversions = _conversions(names, called or _function_names(names, output is not None, request), request)
    for made in conversions:
        conversion = _in_namespace(made, namespace)
        if request["as_json"]:
            click.echo(json.dumps(conversion.to_json()))
        elif isinstance(conversion, StorePlan):
            answers.print_store(conversion, aside)
        else:
            answers.conversion(conversion, aside)
    moved = [conversion.conversion if isinstance(conversion, StorePlan) else conversion for conversion in conversions]
    if output is not None:
        files.write(output, header(moved, namespace or "").encode())
    elif aside:
        click.echo(header(moved, namespace or ""), nl=False)


def _in_namespace(made: Conversion | StorePlan, namespace: str | None) -> Conversion | StorePlan:
    """The answer with its code in a namespace; UsageError if it is not one."""
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.code.names import in_namespace

    conversion = made.conversion if isinstance(made, StorePlan) else made
    code = in_namespace(conversion.code or "", namespace)
    placed = replace(conversion, code=code if conversion.code else None)
    return replace(made, conversion=placed) if isinstance(made, StorePlan) else placed


def _function_names(names: tuple[str, ...], in_file: bool, convert_request: ConvertRequest) -> list[str]:
    """Names of functions where the user gives none: `convert`, or in a file A_to_B with the options that change it."""
    from tcprobe.code.names import identifier

    pairs = zip(names[::2], names[1::2], strict=False)
    if not in_file and len(names) <= 2:
        return ["convert" for _ in pairs]
    options = (convert_request["kind"], convert_request["contiguous"], place_text(convert_request))
    ways = ["transposed"] * convert_request["transpose"] + ["permuted_k"] * convert_request["permute_k"]
    how = [*ways, *(value for value in options if value not in (None, "row", "plain"))]
    return [identifier("_".join([f"{a}_to_{b}", *how])) for a, b in pairs]


def _conversions(
    names: tuple[str, ...], called: Sequence[str], convert_request: ConvertRequest
) -> list[Conversion | StorePlan]:
    pairs = list(zip(names[::2], names[1::2], strict=False))
    if len(names) % 2 or len(called) != len(pairs):
        counts = f"{len(names)} fragment{'s' * (len(names) > 1)}" + (f" and {len(called)} --name" if called else "")
        raise UsageError(f"{counts}: each FROM needs a TO, and either every pair has a --name or none has.")
    return [_convert(pair, name, convert_request) for pair, name in zip(pairs, called, strict=True)]


def _convert(pair: tuple[str, str], name: str, convert_request: ConvertRequest) -> Conversion | StorePlan:
    from tcprobe.ask.convert import convert as converted
    from tcprobe.ask.convert import with_register_type
    from tcprobe.ask.convert.stmatrix import is_store
    from tcprobe.ask.convert.store_code import plan_store_code
    from tcprobe.code.names import FUNCTION, require_legal
    from tcprobe.store.names import find_cell

    source, target = pair
    from_ = find_cell(source, convert_request["name"], convert_request["layers"])
    function = require_legal(name, FUNCTION)
    registers = with_register_type(from_.cell, convert_request["typed"])
    if is_store(target):
        print_notes(from_.note)
        return plan_store_code(registers, _store_options(target, convert_request), function)
    if any(
        option is not None
        for option in (
            convert_request["kind"],
            convert_request["contiguous"],
            convert_request["placed"],
            convert_request["swizzle"],
        )
    ):
        raise UsageError(
            "--type, --global, --shared and --swizzle need stmatrix as TO, which stores into shared memory."
        )
    to = find_cell(target, from_.cell.arch, convert_request["layers"])
    print_notes(from_.note, to.note)
    return converted(registers, to.cell, convert_request["transpose"], convert_request["permute_k"], function)


def _store_options(target: str, convert_request: ConvertRequest) -> StoreOptions:
    from tcprobe.ask.convert.stmatrix import StoreOptions

    if convert_request["transpose"] or convert_request["permute_k"]:
        raise UsageError(
            "--transpose and --permute-k do not apply to stmatrix; choose the contiguous side with --global."
        )
    return StoreOptions(
        target, convert_request["kind"], convert_request["contiguous"] or "row", place_text(convert_request)
    )


COMMANDS = (convert,)
