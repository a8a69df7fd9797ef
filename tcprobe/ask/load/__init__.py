"""`load`: a fragment straight from global memory, or quantised weights that are repacked for it.

straight       the widest loads that the table and the leading dimension allow, and their code
repack         an order of storage in which one load brings several k steps
repack_code    the code that loads and converts such weights, and the Python that packs them
"""

from typing import TYPE_CHECKING, Annotated, Literal

from tcprobe.errors import UsageError
from tcprobe.question.arguments import given_names
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import ElementType, Number
from tcprobe.question.shared import (
    ArchOption,
    GlobalOption,
    JsonOption,
    NameOption,
    NamespaceOption,
    OnlyOption,
    OutputOption,
    PermuteOption,
    ResultsOption,
    TileOption,
    WarpsOption,
    find_cell,
    print_answer,
    print_code,
    tiled_name,
)
from tcprobe.store.cell import Cell
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.ask.load.repack import Repacking
    from tcprobe.ask.load.straight import StraightLoad


def load(
    name: Annotated[str | Cell, NameWords("FRAGMENT")],
    *,
    source: Annotated[Literal["global"], Option("--from", "Where the matrix is.", shown=True)] = "global",
    tile: TileOption = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    ld: Annotated[
        int | None,
        Option("--ld", "Stride from line to line. Default: the fragment's own lines.", "ELEMENTS", Number(1)),
    ] = None,
    contiguous: GlobalOption = None,
    repack: Annotated[
        bool,
        Option(
            "--repack",
            "Store quantised weights in an order in which one 16-byte load brings several k steps; convert in "
            "registers.",
        ),
    ] = False,
    stored: Annotated[
        str | None,
        Option("--type", "With --repack: type of the stored weights: s4, u4, s8, e4m3 or e2m1.", "T", ElementType()),
    ] = None,
    wanted: Annotated[
        str | None,
        Option(
            "--as",
            "With --repack: type that they are converted to. Only FRAGMENT's own type, the default, works.",
            "T",
            ElementType(),
        ),
    ] = None,
    group: Annotated[
        int | None,
        Option(
            "--group",
            "With --repack: one scale for each K elements along k, in each column of B or row of A.",
            "K",
            Number(1),
        ),
    ] = None,
    zeros: Annotated[
        bool,
        Option(
            "--zeros",
            "With --group: a zero point for each scale; weights are (code - zero point) * scale, as in AWQ and GPTQ.",
        ),
    ] = False,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "StraightLoad | Repacking":
    """Load FRAGMENT straight from global memory with the widest vectors that its table allows.

    With --repack: store quantised weights in an order in which one load brings a lane's elements of several k steps.
    --packer prints the code that brings a matrix into that order, --code the code that loads and converts it.
    """
    folders, name = layers(results, only), tiled_name(name, tile, warps, permute)
    if not repack:
        if unfit := given_names(stored=stored, wanted=wanted, group=group, zeros=zeros or None):
            raise UsageError(f"{', '.join(unfit)}: only for repacked weights; give `repack` too.")
        from tcprobe.ask.load.straight import straight_load

        return straight_load(find_cell(name, arch, folders), contiguous or "row", ld)
    if (ld, contiguous) != (None, None):
        raise UsageError("repacked weights have their own order: remove `ld` and `contiguous`.")
    if stored is None:
        raise UsageError("`repack` needs the type of the stored weights: `stored` s4, u4, s8, e4m3 or e2m1.")
    from tcprobe.ask.load import repack as weights

    plan = weights.repack(find_cell(name, arch, folders), stored, wanted, group, folders)
    return weights.with_zeros(plan) if zeros else plan


@command(
    load,
    short="A fragment straight from global memory: widest loads.",
    json={"": "tcprobe.ask.load.straight:LoadAnswer", "--repack": "tcprobe.ask.load.repack:RepackAnswer"},
)
def print_load(
    plan: "StraightLoad | Repacking",
    *,
    packer: Annotated[
        Literal["numpy", "torch"] | None, Option("--packer", "With --repack: print the Python that repacks.")
    ] = None,
    code: Annotated[bool, Option("--code", "Print a CUDA header instead.")] = False,
    output: OutputOption = None,
    function: NameOption = None,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Words, JSON, or the code that loads or, with `packer`, stores."""
    from tcprobe.ask.load.repack import Repacking

    if packer:
        if not isinstance(plan, Repacking):
            raise UsageError("`packer`: only for repacked weights; give `repack` too.")
        others = {"code": code, "as_json": as_json, "function": function, "namespace": namespace}
        if unfit := next((parameter for parameter, value in others.items() if value), None):
            raise UsageError(f"`{unfit}` cannot be combined with `packer`, which prints Python.")
        from tcprobe.ask.load import repack_code

        print_code(repack_code.packer_source(plan, packer), output)
    else:
        print_answer(plan, as_json, code, output, function, namespace)
