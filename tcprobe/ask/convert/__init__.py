"""`convert`: from one fragment to another that holds the same matrix, or through stmatrix into shared memory.

moves         what has to move between registers and lanes, and the operations that move it
code          casts between types, the CUDA of a plan, headers
conversion    the answer for two fragments
stmatrix      the answer for a tile in shared memory
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.question import terminal
from tcprobe.question.arguments import TypeName, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import ElementType, NonEmptyText, is_redirected
from tcprobe.question.shared import (
    FullOption,
    JsonOption,
    OneArch,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    SharedOption,
    SwizzleOption,
    TileOption,
    WarpsOption,
    find_cell,
    output_option,
    place_of,
    tiled_name,
)
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.ask.convert.conversion import Conversion
    from tcprobe.ask.convert.stmatrix import StorePlan


@checked
def convert(
    from_: Annotated[str | Cell, NameWords("FROM TO [FROM TO]...", "pairs", "one")],
    into: str | Cell,
    *,
    transpose: Annotated[bool, Option("--transpose", "TO holds the transpose of the matrix.")] = False,
    permute_k: Annotated[
        bool,
        Option(
            "--permute-k",
            "Reorder k of TO so that lanes exchange nothing; the answer has the order, and how to load the other "
            "factor.",
        ),
    ] = False,
    tile: TileOption = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    function: Annotated[
        str | None,
        Option("--name", "Name of the function; give it once for each FROM TO.", "NAME", NonEmptyText(), multiple=True),
    ] = None,
    kind: Annotated[
        TypeName | None,
        Option("--type", "With stmatrix: type of the elements in memory: bf16, s8.", "TYPE", ElementType()),
    ] = None,
    register_type: Annotated[
        TypeName | None,
        Option("--as", "With tcgen05.ld as FROM: type of its words, f32 or s32.", "TYPE", ElementType()),
    ] = None,
    contiguous: Annotated[
        Literal["row", "col"] | None, Option("--global", "With stmatrix: what is contiguous in memory.")
    ] = None,
    placed: SharedOption = None,
    swizzle: SwizzleOption = None,
    arch: OneArch = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Conversion | StorePlan":
    """Turn fragments FROM into fragments TO that hold the same matrix: what has to move, what it costs, the code.

    For example an accumulator into the A operand of the next multiply, or the result of tcgen05.ld (--as f32). Both
    sides are repeated as tiles until they cover the same matrix. TO may be stmatrix, stmatrix.x4 or stmatrix.x2.trans,
    which store into shared memory, with the address of every lane (--type, --global, --shared). With -o, or where the
    output is not a terminal, the code is a complete header and the explanation goes to stderr.
    \f
    `register_type` is the type of what tcgen05.ld gave, such as f32. `into` may be stmatrix: elements of type `kind`,
    `contiguous` row or col, lines `placed` as for `banks`. `function` names the code's.
    """
    from tcprobe.ask.convert.conversion import plan_conversion, with_register_type
    from tcprobe.ask.convert.stmatrix import StoreOptions, is_store, plan_store_code
    from tcprobe.code.names import FUNCTION, require_legal

    folders = layers(results, only)
    source = find_cell(tiled_name(from_, tile, warps, permute, needs_tile=False), arch, folders)
    if isinstance(into, str) and not is_store(into):
        target = find_cell(tiled_name(into, tile, warps, permute, needs_tile=False), source.arch, folders)
        source, target = _of_one_type(source, target), _of_one_type(target, source)
    name = require_legal(function or "convert", FUNCTION)
    source = with_register_type(source, None if register_type is None else str(register_type))
    if isinstance(into, str) and is_store(into):
        if transpose or permute_k:
            raise UsageError(
                "`transpose` and `permute_k` do not apply to stmatrix; choose the contiguous side with `contiguous`."
            )
        in_memory, shared = None if kind is None else str(kind), place_of(placed, swizzle)
        return plan_store_code(source, StoreOptions(into, in_memory, contiguous or "row", shared), name)
    if (kind, contiguous, placed, swizzle) != (None, None, None, None):
        raise UsageError(
            "`kind`, `contiguous`, `placed` and `swizzle` need stmatrix as TO, which stores into shared memory."
        )
    return plan_conversion(source, into if isinstance(into, Cell) else target, transpose, permute_k, name)


def _of_one_type(cell: Cell, other: Cell) -> Cell:
    """A layout whose text says no type, of the other's."""
    from tcprobe.store.written import WrittenCell

    return cell.retyped(other.fragment) if isinstance(cell, WrittenCell) and cell.untyped else cell


def _asks(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The arguments of each FROM TO, with names of functions where none are given.

    Such a name is `convert`, or in a file A_to_B with the options that change it.
    """
    from tcprobe.code.names import identifier

    layers(values["results"], values["only"])
    names, functions = values["from_"], values["function"]
    pairs = list(zip(names[::2], names[1::2], strict=False))
    if len(names) % 2 or (functions and len(functions) != len(pairs)):
        counts = f"{len(names)} fragment{'s' * (len(names) > 1)}"
        counts += f" and {len(functions)} --name" if functions else ""
        raise UsageError(f"{counts}: each FROM needs a TO, and --name is given for every pair or for none.")
    if not functions and not values["output"] and len(pairs) == 1:
        functions = ["convert"]
    elif not functions:
        options = (values["kind"], values["contiguous"], place_of(values["placed"], values["swizzle"]))
        ways = ["transposed"] * values["transpose"] + ["permuted_k"] * values["permute_k"]
        how = [*ways, *(value for value in options if value not in (None, "row", "plain"))]
        functions = [identifier("_".join([f"{a}_to_{b}", *how])) for a, b in pairs]
    shared = {key: value for key, value in values.items() if key not in ("output", "namespace", "full", "as_json")}
    return [
        {**shared, "from_": a, "into": b, "function": function}
        for (a, b), function in zip(pairs, functions, strict=True)
    ]


@command(
    convert,
    short="From one fragment to another: moves, cost, code.",
    asks=_asks,
    json="tcprobe.ask.convert.stmatrix:PRINTED",
)
def print_conversions(
    found: "list[Conversion | StorePlan]",
    *,
    output: Annotated[Path | None, output_option("Write a complete header to this file.")] = None,
    namespace: Annotated[str | None, Option("--namespace", "Namespace of the functions in a header.", "NS")] = None,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """What moves, the code, what it rests on; the words on stderr where the code is a header; or JSON."""
    from tcprobe.ask.convert.code import header
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.system import files

    aside = not as_json and (output is not None or is_redirected())
    conversions = []
    for answer in found:
        placed = _in_namespace(answer, namespace)
        conversions.append(answer.conversion if isinstance(answer, StorePlan) else answer)
        if as_json:
            click.echo(json.dumps(placed.to_json()))
            continue
        terminal.lines(placed.about, placed.cell.fragment.id if isinstance(placed, StorePlan) else "", aside)
        if full and isinstance(placed, StorePlan) and placed.formula:
            terminal.lines(placed.every_address, err=aside)
        if placed.code and not aside:
            click.echo(f"\n{placed.code}\n")
        terminal.lines(placed.rests_on, err=aside)
    if output is not None:
        files.write(output, header(conversions, namespace or "").encode())
    elif aside:
        click.echo(header(conversions, namespace or ""), nl=False)


def _in_namespace(answer: "Conversion | StorePlan", namespace: str | None) -> "Conversion | StorePlan":
    """The answer with its code in a namespace; UsageError if it is not one."""
    from tcprobe.ask.convert.stmatrix import StorePlan
    from tcprobe.code.names import in_namespace

    conversion = answer.conversion if isinstance(answer, StorePlan) else answer
    code = in_namespace(conversion.code or "", namespace)
    placed = replace(conversion, code=code if conversion.code else None)
    return replace(answer, conversion=placed) if isinstance(answer, StorePlan) else placed
