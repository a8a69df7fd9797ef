"""`tcprobe kernel gemm`: a whole kernel in one file, and what a launch needs to know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.grouping import Suggesting
from tcprobe.question.options import JSON, ElementType, Given, Number, Output, Sides, print_notes, read_results
from tcprobe.text import escaped

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.cli.requests import GemmRequest
    from tcprobe.kernel.gemm import GemmKernel, GemmOptions
    from tcprobe.run.products import ProductRun
    from tcprobe.store.choose import Layers
    from tcprobe.values import Json

MAJOR = click.Choice(["row", "col"])


@click.group(cls=Suggesting, short_help="Whole kernels: every address from a table.")
def kernel() -> None:
    """A whole kernel in one file that nvcc or NVRTC compiles alone; every address and register comes from a table."""


@kernel.command(short_help="D = A B for an arch and a type.")
@click.option("--arch", type=Given(), required=True, metavar="sm_XX", help="Compute capability from sm_70 on, or h100.")
@click.option(
    "--type",
    "type",
    type=ElementType(),
    required=True,
    metavar="TYPE",
    help="Type of A and B: f16, bf16, tf32, e4m3, e5m2 or s8.",
)
@click.option("--tile", type=Sides(3, "MxNxK"), help="Tile of a block. Default: 128x128 and 128 bytes of k, or 64.")
@click.option("--warps", type=Sides(2, "MxN"), help="Warps of a block along m and n. Default: 2x2; sm_90: by the tile.")
@click.option("--stages", type=Number(1), metavar="N", help="Tiles in shared memory. Default: 2 to 4, by the arch.")
@click.option("--a", type=MAJOR, default="row", show_default=True, help="What is contiguous in A.")
@click.option("--b", type=MAJOR, default="col", show_default=True, help="What is contiguous in B (k x n).")
@click.option("--out", type=ElementType(), metavar="TYPE", help="Type of D in memory. Default: f16, bf16, f32 or s32.")
@click.option(
    "--cluster",
    type=Number(1),
    default=1,
    show_default=True,
    metavar="N",
    help="On sm_90: blocks of a cluster, which share the loads of B: 1 or 2.",
)
@click.option("--name", type=Given(), metavar="NAME", help="Name of the kernel and its namespace.")
@click.option(
    "--size",
    type=Sides(3, "MxNxK"),
    help="Size of the product, for the grid in --json and for --run. Default for --run: 4096x4096x4096.",
)
@click.option(
    "--explain",
    type=Number(most=2**31 - 2),
    nargs=3,
    metavar="ROW COL K",
    help="Follow A(ROW, K), B(K, COL) and D(ROW, COL) through the kernel.",
)
@click.option(
    "--run", is_flag=True, help="Run it on a GPU: compare its products with NumPy's, and time it beside cuBLAS."
)
@click.option("-o", "--output", type=Output(path_type=Path, dir_okay=False), help="File for the code.")
@read_results
@JSON
def gemm(layers: Layers, **request: Unpack[GemmRequest]) -> None:
    """D (m x n) = A (m x k) B (k x n), rows of D contiguous: one file of CUDA that needs no header.

    sm_90 uses tensor maps, a producer warpgroup, wgmma and stmatrix; other archs cp.async or plain copies, swizzled
    shared memory, ldmatrix and mma. m, n and k are any size, but lines must be multiples of 16 bytes apart. --json
    prints the launch. --run multiplies small whole numbers and counts wrong results (exit code 1 if there are any).
    """
    from tcprobe.kernel.explain import explain
    from tcprobe.kernel.gemm import gemm as gemm_kernel
    from tcprobe.system import files

    _check_size(request)
    kernel = gemm_kernel(_options(request), layers)
    print_notes(f"warning: {kernel.warning}" if kernel.warning else None)
    ways = explain(kernel, request["explain"]) if request["explain"] else []
    if request["output"]:
        files.write(request["output"], kernel.source.encode())
    outcome = _outcome(kernel, request["size"]) if request["run"] else None
    if request["as_json"]:
        ran = outcome.to_json() if outcome else None
        click.echo(json.dumps({**kernel.to_json(request["size"]), "explain": ways, "run": ran}))
    elif ways or outcome:
        _say_ways(ways)
        if outcome:
            _say_outcome(kernel, outcome)
    elif not request["output"]:
        click.echo(kernel.source, nl=False)
    else:
        wrapping.lines(kernel.launch_words)
    if outcome and not outcome.right:
        raise SystemExit(1)


def _options(gemm_request: GemmRequest) -> GemmOptions:
    from tcprobe.kernel.gemm import GemmOptions

    return GemmOptions(
        gemm_request["arch"],
        gemm_request["type"],
        gemm_request["tile"],
        gemm_request["warps"],
        gemm_request["stages"],
        gemm_request["a"],
        gemm_request["b"],
        gemm_request["out"],
        gemm_request["name"],
        cluster=gemm_request["cluster"],
    )


def _outcome(kernel: GemmKernel, mnk: tuple[int, int, int] | None) -> ProductRun:
    from tcprobe.run.products import product

    return product(kernel, mnk)


def _say_ways(ways: list[Json]) -> None:
    for way in ways:
        click.echo(escaped(f"{way['element']}:"))
        for step in way["steps"]:
            click.echo(escaped(f"  {step}"))


def _say_outcome(kernel: GemmKernel, outcome: ProductRun) -> None:
    """What the GPU said."""
    compared, timed = ("x".join(map(str, size)) for size in (outcome.compared, outcome.timed))
    bad = f"{outcome.wrong} elements differ from NumPy's" if outcome.wrong else "equal to NumPy's"
    if outcome.outside:
        bad += f", {outcome.outside} bytes written outside D"
    click.echo(f"{kernel.name} on {escaped(outcome.device)}: {compared} {bad}")
    words = f"{timed}: {outcome.tflops} TFLOP/s"
    if outcome.cublas is None:
        click.echo(f"{words}; cublasGemmEx does not multiply {kernel.gemm.type} into {kernel.gemm.out}")
    else:
        differ = f"; {outcome.apart} elements differ from cuBLAS's" if outcome.apart else ""
        click.echo(f"{words}, cuBLAS {outcome.cublas}: ratio {outcome.ratio}{differ}")


def _check_size(gemm_request: GemmRequest) -> None:
    """UsageError for a size of too few sides."""
    sides = gemm_request["size"]
    if sides and (len(sides) != 3 or not min(sides)):
        shown = "x".join(map(str, sides))
        raise UsageError(f"--size {shown}: 3 sides of 1 or more are needed, such as 4096x4096x4096.")


COMMANDS = (kernel,)
