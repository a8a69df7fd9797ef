"""`reduce`: an accumulator's elements combined by row or column, the results given back; elements masked and filled.

reduction    which slots combine, which exchanges follow, who has the result; the code
mask         conditions and values in row and col; elements changed by them
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.isa.names import likely, resolve
from tcprobe.isa.names.words import read
from tcprobe.notation import is_written
from tcprobe.question import terminal, words
from tcprobe.question.answers import declare
from tcprobe.question.arguments import Sizes, checked, given_names
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.options import NonEmptyText, is_redirected
from tcprobe.question.shared import (
    ArchOption,
    JsonOption,
    NameOption,
    NamespaceOption,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    WarpsOption,
    output_option,
    tile_text,
    tiled_cell,
)
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.ask.reduce.mask import Masked
    from tcprobe.ask.reduce.reduction import Reduction


CAUSAL = "row >= col"  # what attention keeps


@checked
def reduce(
    name: Annotated[str | Cell, NameWords("FRAGMENT")],
    over: Annotated[
        Literal["row", "col"] | None, Option("--over", "Combine the elements of each row, or of each column.")
    ] = None,
    op: Annotated[
        Literal["max", "sum", "softmax"] | None,
        Option("--op", "The operation; softmax is a step of online softmax and the total of its sums.", default="sum"),
    ] = None,
    *,
    tile: Annotated[
        Sizes | None,
        Option(
            "--tile", "With --over: reduce a tile of several fragments.", "ROWSxCOLS", NonEmptyText(), word=words.TILE
        ),
    ] = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    mask: Annotated[
        str | None,
        Option(
            "--mask",
            "Keep only where this holds, for example 'row >= col', which is causal.",
            "CONDITION",
            word=words.CONDITION,
        ),
    ] = None,
    fill: Annotated[
        str | float | None,
        Option(
            "--fill",
            "Value for the elements that --mask leaves out, or without --mask for all: a number, 'row * 16 + col'.",
            "VALUE",
            NonEmptyText(),
        ),
    ] = None,
    function: NameOption = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Reduction | Masked":
    """Combine what the lanes hold of each row or column of FRAGMENT, and give every lane its results: the plan and the
    code.

    With --mask and --fill, the code changes elements by their row and col instead. Other names in a condition, as in
    'row + row0 >= col + col0', become arguments. With -o, or where the output is not a terminal, the code is a
    complete header, which may be included twice, and the explanation goes to stderr.
    \f
    `tile` (rows, columns) is reduced as several fragments; `fill` is a number or an expression in row and col;
    `function` names the code's function or struct.

    >>> import tcprobe
    >>> tcprobe.reduce("mma m16n8k16 f32 f16 d", over="row", op="max").plan.groups
    ((0, 1), (2, 3))
    """
    folders = layers(results, only)
    if over is None and op is not None and mask is None and fill is None and likely.say("row by row", ["col"]):
        over = "row"
    if mask == "causal":
        mask = CAUSAL
        note(f"read as --mask '{CAUSAL}'; of a tile that begins elsewhere: 'row + row0 >= col + col0'")
    if (over is None) == (mask is None and fill is None):
        both = "" if over is None else "`over` cannot be combined with `mask` or `fill`: "
        raise UsageError(f"{both}give `over` row or `over` col, or `mask` and `fill`.")
    if over is None and warps is None and (needing := given_names(op=op, tile=tile)):
        raise UsageError(f"{', '.join(needing)} needs `over`.")
    if isinstance(name, str) and not is_written(name) and not read(name).operand and resolve(name).instructions:
        name = f"{name} d" if likely.say("D", "abc") else name
    cell, size = tiled_cell(name, tile, warps, permute, arch, folders)
    if over is None:
        from tcprobe.ask.reduce.mask import mask_fragment

        value = None if fill is None else str(fill)
        return mask_fragment(cell, mask, value, function or ("fill" if mask is None else "mask"))
    from tcprobe.ask.reduce.reduction import reduce_fragment

    default = "softmax" if op == "softmax" else "reduce"
    return reduce_fragment(cell, over, op or "sum", function or default, None if size is None else tile_text(size))


declare("mask", "tcprobe.ask.reduce.mask:MaskedAnswer")


@command(
    reduce,
    short="Combine by row or column, mask, fill: exchanges and code.",
    json="tcprobe.ask.reduce.reduction:ReductionAnswer",
)
def print_reduction(
    found: "Reduction | Masked",
    *,
    output: Annotated[Path | None, output_option("Write a complete header to this file.")] = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Words and code, the words on stderr where the code is a header; or JSON."""
    import json

    from tcprobe.code.cuda import once
    from tcprobe.code.names import in_namespace
    from tcprobe.system import files

    code = in_namespace(found.code, namespace)
    if as_json:
        click.echo(json.dumps({**found.to_json(), "code": code}))
        return
    aside = output is not None or is_redirected()
    terminal.lines(found.in_words, found.cell.fragment.id, aside)
    header = "\n".join([*once(code.splitlines()), ""])
    if output is not None:
        files.write(output, header.encode())
    else:
        click.echo(header if aside else code, nl=not aside)
