"""The question `kernel gemm`: a whole kernel in one file, and what a launch needs to know."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from tcprobe.errors import UsageError
from tcprobe.isa.names import likely
from tcprobe.question import terminal, words
from tcprobe.question.answers import plain
from tcprobe.question.arguments import ArchName, Sizes, TypeName, arch_name, checked, sizes
from tcprobe.question.declare import Option, command, group, note
from tcprobe.question.options import ElementType, NonEmptyText, Number, Output, Sides, Warps
from tcprobe.question.shared import JsonOption, OnlyOption, OutputOption, ResultsOption, print_answer
from tcprobe.store.choose import layers
from tcprobe.system import files
from tcprobe.text import Whole, escaped
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel
    from tcprobe.kernel.main_loop import PredictedLoop
    from tcprobe.kernel.plan import Budget
    from tcprobe.kernel.products import ProductRun

GROUP = group(
    short="Whole kernels: every address from a table.",
    name="kernel",
    text="A whole kernel in one file that nvcc or NVRTC compiles alone; every address and register comes from a table.",
)
KernelArch = Annotated[
    ArchName, Option("--arch", "Compute capability from sm_70 on, or h100.", "sm_XX", NonEmptyText(), word=words.ARCH)
]
MultiplyOption = Annotated[
    Literal["mma"] | None, Option("--multiply", "mma: use mma.sync although the arch has wgmma or tcgen05.")
]


@checked
def kernel(
    arch: KernelArch,
    kind: Annotated[
        TypeName,
        Option(
            "--type",
            "Type of A and B: f16, bf16, tf32, e4m3, e5m2, s8; with scales mxf8, mxf4, nvf4.",
            "TYPE",
            ElementType(),
            word=words.KERNEL_TYPE,
        ),
    ],
    *,
    tile: Annotated[
        Sizes | None,
        Option("--tile", "Tile of a block. Default: 128x128 and 128 bytes of k, or 64.", reads=Sides(3, "MxNxK")),
    ] = None,
    warps: Annotated[
        Sizes | None,
        Option("--warps", "Warps of a block along m and n. Default: 2x2; sm_90: by the tile.", reads=Warps()),
    ] = None,
    stages: Annotated[
        int | None, Option("--stages", "Tiles in shared memory. Default: 2 to 4, by the arch.", "N", Number(1))
    ] = None,
    a: Annotated[Literal["row", "col"], Option("--a", "What is contiguous in A.", shown=True)] = "row",
    b: Annotated[Literal["row", "col"], Option("--b", "What is contiguous in B (k x n).", shown=True)] = "col",
    out: Annotated[
        TypeName | None,
        Option("--out", "Type of D in memory. Default: f16, bf16, f32 or s32.", "TYPE", ElementType()),
    ] = None,
    cluster: Annotated[
        int,
        Option(
            "--cluster",
            "On sm_90: blocks of a cluster, which share the loads of B: 1 or 2.",
            "N",
            Number(1),
            shown=True,
        ),
    ] = 1,
    cta_group: Annotated[
        int | None,
        Option("--cta-group", "Of tcgen05.mma: blocks that multiply together, 1 or 2. Default: 1.", "N", Number(1)),
    ] = None,
    multiply: MultiplyOption = None,
    name: Annotated[str | None, Option("--name", "Name of the kernel and its namespace.", "NAME")] = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
    **others: object,
) -> "GemmKernel":
    """D (m x n) = A (m x k) B (k x n), rows of D contiguous: one file of CUDA that needs no header.

    sm_90 uses tensor maps, a producer warpgroup, wgmma and stmatrix; sm_100 to sm_110 tensor maps and tcgen05.mma;
    other archs cp.async or plain copies, swizzled shared memory, ldmatrix and mma. m, n and k are any size, but lines
    must be multiples of 16 bytes apart. --json prints the launch. --run multiplies small whole numbers and counts wrong
    results (exit code 1 if there are any).
    \f
    What no option says fits the arch and the type. `tile` is a block's m, n and k, `warps` its warps along m and n,
    `stages` the tiles in shared memory. `a` and `b` say what is contiguous, `out` is D's type, `name` the kernel's.
    `multiply` "mma" takes mma.sync where the arch has wgmma or tcgen05; `cluster`, 1 or 2 blocks, is for wgmma,
    `cta_group` for tcgen05. Scales of mxf8, mxf4 and nvf4 lie as `scales` says.

    >>> import tcprobe
    >>> made = tcprobe.kernel("sm_80", "f16", tile=(128, 128, 64))
    >>> made.block, "__global__" in made.source
    ((128, 1, 1), True)
    """
    from tcprobe.kernel.gemm import GemmOptions, gemm

    if others:
        known = ", ".join(GemmOptions._field_defaults)
        raise UsageError(f"`{min(others)}` is not an option of a kernel; there are {known}.")
    device, stored = str(arch_name(arch)), None if out is None else str(out)
    block: Any = None if tile is None else _with_k(sizes("tile", tile, 3), str(kind))
    grid: Any = None if warps is None else _spread(sizes("warps", warps, 2), block or (128, 128), device, multiply)
    options = GemmOptions(device, str(kind), block, grid, stages, a, b, stored, name, multiply, cluster, cta_group)
    return gemm(options, layers(results, only))


def _with_k(tile: tuple[int, ...], kind: str) -> tuple[int, ...]:
    """A tile of m and n with the k that fills rows of the widest swizzle, which is said; others as they are."""
    from tcprobe.isa.dtypes import DTYPES, dtype
    from tcprobe.kernel.gemm import DEPTH
    from tcprobe.kernel.staged import element

    if len(tile) != 2 or element(kind) not in {row.name for row in DTYPES}:
        return tile
    whole = (*tile, DEPTH * 8 // dtype(element(kind)).bits)
    return whole if likely.say(f"--tile {'x'.join(map(str, whole))}") else tile


def _spread(warps: tuple[int, ...], tile: Sequence[int], arch: str, multiply: str | None) -> tuple[int, ...]:
    """A number of warps along m and n: of warpgroups all along m, of others as square a part for each as can be,
    which is said; a pair as it is.
    """
    from tcprobe.isa.arch import arch as row_of
    from tcprobe.isa.occupancy import limits

    if len(warps) != 1:
        return warps
    [count], (m, n) = warps, tile[:2]
    ways = [(down, count // down) for down in range(1, count + 1) if count % down == 0]
    device = row_of(arch)
    if multiply != "mma" and (device.name == "sm_90" or limits(device.number).tmem_columns):
        ways = [(count, 1)]
    ways.sort(key=lambda way: (m % way[0] + n % way[1] > 0, abs(m * way[1] - n * way[0])))
    first, *others = (f"{down}x{across}" for down, across in ways)
    return ways[0] if likely.say(f"--warps {first}", others) else warps


def _budget(made: "GemmKernel") -> "Budget":
    """What the kernel's tile takes."""
    from tcprobe.kernel.mma_sync import Gemm
    from tcprobe.kernel.plan import Request
    from tcprobe.kernel.plan import budget as of
    from tcprobe.kernel.staged import SCALED
    from tcprobe.kernel.tcgen05 import TensorGemm

    gemm = made.gemm
    by_warps = isinstance(gemm, Gemm)
    asked = Request(gemm.arch.name, gemm.type, gemm.tile, gemm.stages, multiply="mma" if by_warps else None)
    if isinstance(gemm, TensorGemm):
        block = SCALED[gemm.type].block if gemm.type in SCALED else None
        return of(asked._replace(type=gemm.element, warps=(4, 1), scale_block=block))
    return of(asked._replace(warps=gemm.warps if isinstance(gemm, Gemm) else (4 * gemm.consumers, 1)), gemm.layers)


def _loop(made: "GemmKernel") -> "PredictedLoop":
    """What a round of its main loop takes."""
    from tcprobe.kernel.main_loop import predicted_loop

    return predicted_loop(made)


class Explaining(click.Command):
    """A command whose --explain without numbers means --budget."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An --explain that no number follows is --budget."""
        numbered = [
            not (arg == "--explain" and not "".join(args[place + 1 : place + 2]).isdigit())
            for place, arg in enumerate(args)
        ]
        return super().parse_args(ctx, [arg if kept else "--budget" for arg, kept in zip(args, numbered, strict=True)])


@command(
    kernel,
    of=GROUP,
    name="gemm",
    short="D = A B for an arch and a type.",
    cls=Explaining,
    json={"": "tcprobe.kernel.launch_answer:GemmAnswer", "--emulate": "tcprobe.kernel.emulated:ProductAnswer"},
)
def print_kernel(
    made: "GemmKernel",
    *,
    size: Annotated[
        tuple[int, ...] | None,
        Option(
            "--size",
            "Size of the product, for the grid in --json and for --run. Default for --run: 4096x4096x4096.",
            reads=Sides(3, "MxNxK"),
        ),
    ] = None,
    explain: Annotated[
        tuple[int, int, int] | None,
        Option(
            "--explain",
            "Follow A(ROW, K), B(K, COL) and D(ROW, COL) through the kernel.",
            "ROW COL K",
            Number(most=2**31 - 2),
            values=3,
        ),
    ] = None,
    budget: Annotated[
        bool,
        Option(
            "--budget",
            "Print what a tile takes of an SM, which warp has which part of it, and what a round of its main loop "
            "takes (with nvcc, on archs with measured prices). So does --explain without numbers.",
        ),
    ] = False,
    launch: Annotated[
        Path | None,
        Option(
            "--launch",
            "Also write a Python file that tells `tcprobe ablate` how to launch it, for a product of --size.",
            "FILE.py",
            Output(path_type=Path, dir_okay=False),
        ),
    ] = None,
    run: Annotated[
        bool, Option("--run", "Run it on a GPU: compare its products with NumPy's, and time it beside cuBLAS.")
    ] = False,
    emulate: Annotated[
        tuple[int, ...] | None,
        Option(
            "--emulate",
            "Run it on the CPU for a product of this size, compare D with NumPy's, and find races and missing waits.",
            reads=Sides(3, "MxNxK"),
        ),
    ] = None,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """The file, or what a launch needs; what a GPU made of it, which the exit code says."""
    mnk = _three(size)
    note(made.warning and f"warning: {made.warning}")
    ways = made.explain(*explain) if explain else []
    taken, loop = (_budget(made), _loop(made)) if budget else (None, None)
    for path, text in [(p, t) for p, t in ((output, made.source), (launch, made.launch_file(mnk))) if p]:
        files.write(path, text.encode())
    outcome = None
    if run:
        from tcprobe.kernel.products import product

        outcome = product(made, mnk)
    if emulate:
        _print_emulated(made, emulate, as_json)
        return
    if as_json:
        from tcprobe.kernel.launch_answer import GemmAnswer

        answer = GemmAnswer.of(
            made.answer(mnk),
            explain=ways,
            budget=taken and taken.answer,
            loop=loop and loop.answer,
            run=outcome,
        )
        click.echo(json.dumps(plain(answer)))
    elif ways or outcome or taken:
        _say_where(made, ways, taken)
        terminal.lines(loop.in_words if loop else ())
        if outcome:
            _say_outcome(made, outcome)
    elif not output:
        click.echo(made.source, nl=False)
    else:
        terminal.lines(made.launch_words)
    if outcome and not outcome.right:
        raise SystemExit(1)


def _say_where(made: "GemmKernel", ways: list[Json], taken: "Budget | None") -> None:
    """What a tile takes, who has what of it, and the ways of elements through the kernel."""
    if taken:
        terminal.lines([*taken.in_words, Whole(f"who has what of D: {made.where_words} --row 0 --col 0")])
    for line in (line for way in ways for line in (f"{way['element']}:", *(f"  {step}" for step in way["steps"]))):
        click.echo(escaped(line))


def _print_emulated(made: "GemmKernel", sides: tuple[int, ...], as_json: bool) -> None:
    """What the kernel does on the CPU; exit code 1 where anything is wrong."""
    from tcprobe.kernel.emulated import emulate_product

    mnk = _three(sides)
    assert mnk is not None
    found = emulate_product(made, mnk)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        for finding in found.report.findings:
            terminal.line(escaped(finding.in_words))
        note(*found.report.notes)
        bad = f"{found.wrong} of {found.elements} elements differ from NumPy's"
        bad += f", {found.outside} bytes written outside D" if found.outside else ""
        count = found.report.instructions
        terminal.line(f"{made.name} emulated: {'x'.join(map(str, mnk))}: {bad}; {count} instructions of warps")
    if not found.right:
        raise SystemExit(1)


def _three(sides: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    """A product's m, n and k; UsageError for a size of too few sides."""
    if sides is None:
        return None
    if len(sides) != 3 or not min(sides):
        shown = "x".join(map(str, sides))
        raise UsageError(f"`size` {shown}: 3 sides of 1 or more are needed, such as 4096x4096x4096.")
    m, n, k = sides
    return m, n, k


def _say_outcome(made: "GemmKernel", outcome: "ProductRun") -> None:
    """What the GPU said."""
    compared, timed = ("x".join(map(str, size)) for size in (outcome.compared, outcome.timed))
    bad = f"{outcome.wrong} elements differ from NumPy's" if outcome.wrong else "equal to NumPy's"
    if outcome.outside:
        bad += f", {outcome.outside} bytes written outside D"
    click.echo(f"{made.name} on {escaped(outcome.device)}: {compared} {bad}")
    words = f"{timed}: {outcome.tflops} TFLOP/s"
    if outcome.cublas is None:
        click.echo(f"{words}; cublasGemmEx does not multiply {made.gemm.type} into {made.gemm.out}")
    else:
        differ = f"; {outcome.apart} elements differ from cuBLAS's" if outcome.apart else ""
        click.echo(f"{words}, cuBLAS {outcome.cublas}: ratio {outcome.ratio}{differ}")


@checked
def plan(
    arch: KernelArch,
    tile: Annotated[Sizes, Option("--tile", "Tile of a block.", reads=Sides(3, "MxNxK"))],
    kind: Annotated[
        TypeName | None,
        Option(
            "--type",
            "Type of A and B: bf16, f16, tf32, e4m3, s8, nvf4.",
            "TYPE",
            ElementType(),
            word=words.KERNEL_TYPE,
        ),
    ] = None,
    stages: Annotated[int, Option("--stages", "Tiles in shared memory.", "N", Number(1, 64), shown=True)] = 2,
    *,
    warps: Annotated[
        Sizes | None,
        Option("--warps", "Warps along m and n. Default: 2x2; of wgmma by the tile.", reads=Warps()),
    ] = None,
    multiply: MultiplyOption = None,
    accumulators: Annotated[
        int, Option("--accumulators", "Tiles of D in tensor memory.", "N", Number(1, 64), shown=True)
    ] = 1,
    columns: Annotated[
        int, Option("--columns", "Other columns of tensor memory that are in use.", "N", Number(0, 4096), shown=True)
    ] = 0,
    scale_block: Annotated[
        int | None,
        Option(
            "--scale-block", "With scales in tensor memory: one for each 16 or 32 elements along k.", "K", Number(1)
        ),
    ] = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> "Budget":
    """Show what a block's tile takes of an SM: registers, shared memory, tensor memory, how many blocks fit, and the
    wavefronts and cycles of its parts as far as they are measured. A tile that would not launch is refused, with the
    number that is too large.
    \f
    `tile` is a block's m, n and k, `kind` the type of A and B, `stages` the tiles in shared memory.

    >>> import tcprobe
    >>> tcprobe.plan("sm_80", (128, 128, 64), "f16", 3).blocks
    1
    """
    from tcprobe.kernel.plan import Request, budget

    if kind is None and not likely.say("bf16", ("f16", "e4m3", "s8")):
        raise UsageError("`kind` is missing: give the type of A and B, such as bf16.")
    of, on = str(kind or "bf16"), str(arch_name(arch))
    block: Any = _with_k(sizes("tile", tile, 3), of)
    grid: Any = None if warps is None else _spread(sizes("warps", warps, 2), block, on, multiply)
    asked = Request(on, of, block, stages, grid, accumulators, columns, scale_block, multiply)
    return budget(asked, layers(results, only))


@command(plan, short="What a tile takes: registers, shared and tensor memory.", json="tcprobe.kernel.plan:BudgetAnswer")
def print_plan(found: "Budget", *, as_json: JsonOption = False) -> None:
    """Words or JSON."""
    print_answer(found, as_json)
