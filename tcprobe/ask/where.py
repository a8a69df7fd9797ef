"""The question `where`: who holds an element, or what a slot, a byte or a cell holds, in whatever place it is."""

import json
from collections.abc import Iterator
from typing import Annotated

import click

from tcprobe.ask.operand import (
    RANGE,
    THREAD,
    BaseOffsetOption,
    DescriptorSwizzleOption,
    LboOption,
    LoadOption,
    LocatedAnswer,
    MajorOption,
    MOption,
    MulticastOption,
    NOption,
    OperandAnswer,
    OperandOptions,
    Range,
    SboOption,
    SelectorOption,
    Sought,
    StartOption,
    VectorOption,
    in_place,
)
from tcprobe.question import terminal, words
from tcprobe.question.answers import Meta
from tcprobe.question.arguments import arch_name, word
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import Number
from tcprobe.question.shared import (
    ArchOption,
    JsonOption,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    TileOption,
    WarpsOption,
    tiled_name,
)
from tcprobe.store.choose import layers


def where(
    name: Annotated[str, NameWords("FRAGMENT")],
    *,
    rows: Annotated[
        Range, Option("--row", "Row of the element, or a range: 3, 0-7. Default: all.", reads=RANGE, word=words.ELEMENT)
    ] = None,
    cols: Annotated[Range, Option("--col", "Column of the element, or a range.", reads=RANGE)] = None,
    products: Annotated[Range, Option("--product", "Which product, where a warp holds several.", reads=RANGE)] = None,
    lanes: Annotated[
        Range, Option("--lane", "Say what this lane, or range of lanes, holds instead.", reads=RANGE, called=THREAD)
    ] = None,
    elements: Annotated[Range, Option("--i", "With --lane: which of its elements. Default: all.", reads=RANGE)] = None,
    byte: Annotated[
        Range, Option("--byte", "Say what is at this byte of an operand in shared memory.", reads=RANGE)
    ] = None,
    m: MOption = None,
    n: NOption = None,
    vector: VectorOption = None,
    multicast: MulticastOption = None,
    cta: Annotated[
        int | None, Option("--cta", "In tensor memory: which CTA of the pair. Default: 0.", reads=Number())
    ] = None,
    columns: Annotated[
        Range, Option("--column", "In tensor memory, with --lane: say what this cell holds.", reads=RANGE)
    ] = None,
    bit: Annotated[
        int | None, Option("--bit", "With --column: which of the cell's 32 bits. Default: 0.", reads=Number())
    ] = None,
    ld: LoadOption = None,
    warp: Annotated[
        int | None,
        Option(
            "--warp",
            "With tcgen05.ld and .st: the warp, on which depends which lanes it reaches; in a CTA's tile the warp of"
            " --lane.",
            reads=Number(),
        ),
    ] = None,
    tile: TileOption = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    swizzle: DescriptorSwizzleOption = None,
    major: MajorOption = None,
    lbo: LboOption = None,
    sbo: SboOption = None,
    base_offset: BaseOffsetOption = None,
    start: StartOption = None,
    selector: SelectorOption = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Iterator[OperandAnswer]:
    """Say who holds an element of FRAGMENT (--row, --col), or what a lane holds (--lane, --i).

    For an operand of wgmma in shared memory (a_smem, b_smem): at which bytes an element is, or what is at --byte. The
    descriptor is given by --swizzle, --major, --lbo, --sbo, --base-offset, --start.

    For an operand in tensor memory (d, a, e, scale_a, scale_b of tcgen05.mma, memory of tcgen05.cp): the cells of an
    element, or what the cell --lane, --column of --cta holds. For d also the register into which --ld reads it.

    FRAGMENT may be a layout in the notation of CuTe, Triton or Gluon, over --tile; with --warps a fragment is spread
    over a CTA's tile: --lane is then a thread of the CTA, or with --warp a lane of that warp.

    --arch sm_70,sm_90 gives one answer after the other; --json prints one object per line.
    """
    folders, at = layers(results, only), arch_name(arch)
    options = OperandOptions(
        folders, at, selector, swizzle, major, lbo, sbo, base_offset, start, m, n, vector, multicast
    )
    sought = Sought(rows, cols, products, lanes, elements, byte, cta, columns, bit, ld, warp)
    named = tiled_name(word("name", name), tile, warps, permute)
    return in_place(word("name", named)).where(options, sought)


def _printed() -> object:
    from tcprobe.ask.shared_operand import LocatedBytesAnswer
    from tcprobe.ask.tensor_memory import LocatedCellAnswer

    kinds = LocatedAnswer | LocatedBytesAnswer | LocatedCellAnswer
    what = "Who holds elements, or what lanes hold. Of an operand in shared memory `elements`, in bytes from the start "
    return Annotated[kinds, Meta(description=f"{what}address.")]


@command(where, short="Who holds an element, or what a lane holds.", json=_printed)
def print_where(answers: Iterator[OperandAnswer], *, as_json: JsonOption = False) -> None:
    """Each answer as it is found."""
    for answer in answers:
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            terminal.lines(answer.in_words, answer.about)
