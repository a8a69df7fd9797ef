"""`path`: the way of a tile from global through shared memory into a fragment's registers, or back, or to a descriptor.

formula    an address in lane and issue
steps      the steps, gone on emulated memory
plan       the path to registers: what is asked, what is near it, the answer
operand    the path to an operand behind a descriptor
code       CUDA and CuTe of both
"""

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal

from tcprobe.errors import UsageError, answer_or_none
from tcprobe.notation import is_written
from tcprobe.question import terminal, words
from tcprobe.question.arguments import Sizes, TypeName, arch_name, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import ElementType, NonEmptyText, Number
from tcprobe.question.shared import (
    ArchOption,
    FullOption,
    GlobalOption,
    JsonOption,
    NameOption,
    NamespaceOption,
    OnlyOption,
    OutputOption,
    PermuteOption,
    ResultsOption,
    SharedOption,
    SwizzleOption,
    WarpsOption,
    place_of,
    print_answer,
    tile_text,
    tiled_cell,
)
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.ask.path.operand import OperandPlan
    from tcprobe.ask.path.plan import PathPlan, PathRequest


@checked
def path(
    name: Annotated[str | Cell, NameWords("FRAGMENT")],
    tile: Annotated[
        Sizes,
        Option("--tile", "The tile, in FRAGMENT's rows and columns.", "ROWSxCOLS", NonEmptyText(), word=words.TILE),
    ],
    *,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    contiguous: GlobalOption = None,
    ld: Annotated[
        int | None,
        Option("--ld", "Stride from line to line in global memory. Default: no gaps.", "ELEMENTS", Number(1)),
    ] = None,
    kind: Annotated[
        TypeName | None,
        Option("--type", "The tile's element type: FRAGMENT's, or s4 where that is s8.", "T", ElementType()),
    ] = None,
    placed: SharedOption = None,
    swizzle: SwizzleOption = None,
    fill: Annotated[
        str | None,
        Option(
            "--fill",
            "Copies between global and shared memory; cp.async.8: 8 bytes per lane. Default: cp.async in, plain back.",
            "cp.async|tma|plain",
            word=words.COPY,
        ),
    ] = None,
    access: Annotated[
        str | None,
        Option(
            "--with",
            "ldmatrix.x4.trans, ld.shared.b32, stmatrix.x2, ...; sets the path's direction too. Used exactly as given; "
            "default: the largest ldmatrix, then the widest loads.",
            "OP",
            word=words.ACCESS,
        ),
    ] = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "PathPlan | OperandPlan":
    """Plan the path of a tile from global through shared memory into FRAGMENT's registers, or back.

    Each step has its addresses, wavefronts and evidence, and the path is proven element by element. --code prints a
    CUDA header, or CuTe's text. If there is no such path, the answer is the reason and the nearest one that exists.
    \f
    Of an operand behind a descriptor, a_smem or b_smem of a wgmma, into shared memory. `tile` is (rows, columns);
    `kind` is the elements' type in memory, where it is not the fragment's.
    """
    from tcprobe.ask.path.plan import PathOptions, plan_path, request
    from tcprobe.isa.names import resolve

    folders = layers(results, only)
    in_memory = None if kind is None else str(kind)
    options = PathOptions("", contiguous or "row", place_of(placed, swizzle), access, ld, fill, in_memory)
    if isinstance(name, str) and warps is None and not is_written(name) and (meaning := resolve(name)).shared:
        from tcprobe.ask.path.operand import operand_path

        return operand_path(meaning.shared_operand, folders, options._replace(tile=tile_text(tile)), arch_name(arch))
    cell, size = tiled_cell(name, tile, warps, permute, arch, folders, in_memory)
    asked = request(cell, options._replace(tile=tile_text(size or "")))
    try:
        return plan_path(asked)
    except UsageError as error:
        if advice := _converting(asked):
            raise UsageError(f"{error} {advice}") from None
        raise


def _converting(asked: "PathRequest") -> str:
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


@command(
    path, short="From global memory into a fragment and back: every step.", json="tcprobe.ask.path.plan:PathAnswer"
)
def print_path(
    plan: "PathPlan | OperandPlan",
    *,
    code: Annotated[Literal["cuda", "cute"] | None, Option("--code", "Print code instead.")] = None,
    output: OutputOption = None,
    function: NameOption = None,
    namespace: NamespaceOption = None,
    full: FullOption = False,
    why: Annotated[bool, Option("--why", "What every link of the path rests on.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Words, JSON, or code."""
    print_answer(plan, as_json, code, output, function, namespace, "cute" if code == "cute" else "code", full)
    if why and not (full or as_json or code or output):
        terminal.lines(plan.rests_on)
