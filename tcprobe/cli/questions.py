"""The commands that answer questions from saved tables: where, trace, convert, emit, and verify on a live GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcprobe.cli import descriptor
from tcprobe.cli.options import ARCH, JSON, SELECTOR, Numbers, Output, read_results
from tcprobe.errors import UsageError
from tcprobe.text import escaped

if TYPE_CHECKING:
    from tcprobe.store.choose import Layers


@click.command(short_help="Who holds an element, or what a lane holds.")
@click.argument("fragment", metavar="FRAGMENT")
@click.option("--row", "rows", type=Numbers(), help="Row of the element, or a range: 3, 0-7. Default: all.")
@click.option("--col", "cols", type=Numbers(), help="Column of the element, or a range.")
@click.option("--product", "products", type=Numbers(), default=[], help="Which product, where a warp holds several.")
@click.option("--lane", "lanes", type=Numbers(), help="What this lane holds instead, or a range.")
@click.option("--i", "elements", type=Numbers(), help="With --lane: which of its elements. Default: all.")
@SELECTOR
@ARCH
@read_results
@JSON
def where(fragment: str, name: str | None, layers: Layers, as_json: bool, **asked: Any) -> None:
    """Say who holds an element of FRAGMENT (--row, --col), or what a lane holds (--lane, --i)."""
    from tcprobe.ask import trace
    from tcprobe.cli import answers
    from tcprobe.isa.inventory import resolve
    from tcprobe.store.cell import cell, selection

    rows, cols, lanes, elements = (asked[key] for key in ("rows", "cols", "lanes", "elements"))
    by_lane = lanes is not None or elements is not None
    if by_lane == (rows is not None or cols is not None):
        raise UsageError("give --row and --col, or --lane and --i.")
    found = selection(cell(resolve(fragment), name, layers), asked["selector"])
    if by_lane:
        holders = trace.held(found, range(found.table.threads) if lanes is None else lanes, elements or [])
    else:
        rows = range(found.fragment.rows) if rows is None else rows
        cols = range(found.fragment.cols) if cols is None else cols
        holders = trace.where(found, rows, cols, asked["products"])
    if as_json:
        head = {"id": found.fragment.id, "arch": found.arch, "source": found.source, "evidence": found.evidence}
        click.echo(json.dumps({**head, "holders": [holder.to_json() for holder in holders]}))
    else:
        answers.holders(found, holders, by_lane)


@click.command(short_help="Which slots feed an element of D, or what a slot feeds.")
@click.argument("instruction", metavar="INSTRUCTION")
@click.option("--row", type=int, help="Row of the D element.")
@click.option("--col", type=int, help="Column of the D element.")
@click.option("--product", type=int, help="Which product, where a warp holds several (m8n8k4 of f16).")
@click.option("--operand", type=click.Choice(["a", "b", "c", "e"]), help="What a slot of this operand feeds instead.")
@click.option("--lane", type=int, help="With --operand: the slot's lane.")
@click.option("--i", "element", type=int, help="With --operand: the slot's i.")
@descriptor.fields
@SELECTOR
@ARCH
@read_results
@JSON
def trace(instruction: str, name: str | None, layers: Layers, as_json: bool, **asked: Any) -> None:
    """Show all slots of A, B and C that feed one element of D, in k order; or what a slot of A, B or C feeds.

    Of a sparse multiply also the field of the metadata (E) that picks one of the rows of B that an A slot can meet. Of
    a wgmma the bytes of B, behind the descriptor that --swizzle, --major, --lbo, --sbo, --base-offset, --start say.
    """
    from tcprobe.ask import trace
    from tcprobe.cli import answers
    from tcprobe.isa import inventory
    from tcprobe.store.cell import operands, selected

    row, col, operand, lane, element = (asked[key] for key in ("row", "col", "operand", "lane", "element"))
    forward = None not in (operand, lane, element) and row is col is None
    if not forward and (None in (row, col) or (operand, lane, element) != (None, None, None)):
        raise UsageError("give --row and --col, or --operand, --lane and --i.")
    multiply = inventory.multiply(instruction)
    if multiply.described:
        descriptor.traced(multiply, operands(multiply, name, layers), layers, asked, as_json)
        return
    tables = operands(multiply, name, layers)
    tables = dict(zip(tables, selected(tables.values(), asked["selector"]), strict=True))
    if forward:
        answer = trace.feeds(multiply, tables, operand, lane, element)
    else:
        answer = trace.trace(multiply, tables, row, col, asked["product"])
    if as_json:
        click.echo(json.dumps(answer.to_json()))
    else:
        answers.trace(answer)


@click.command(short_help="Write fragments as code or data for other programs.")
@click.argument("patterns", nargs=-1, required=True, metavar="FRAGMENT...")
@click.option("--to", "format_name", required=True, metavar="FORMAT", help="cuda, ptx, python, ...; `--to help` lists.")
@click.option("-o", "--output", type=Output(path_type=Path, dir_okay=False), help="File. Default: standard output.")
@SELECTOR
@ARCH
@read_results
def emit(patterns: tuple[str, ...], format_name: str, output: Path | None, **asked: Any) -> None:
    """Write fragments as code or data for other programs.

    Patterns may mean several fragments; an instruction means its operands. Without --arch: the arch whose
    measurement counts most, as `show` has it; formats that tell archs apart (cuda) get every arch.
    """
    from tcprobe import emit as formats
    from tcprobe.store import lookup
    from tcprobe.store.cell import for_emit, selected, sources
    from tcprobe.system import files

    if format_name == "help":
        for known_name, module in formats.formats().items():
            click.echo(f"{known_name:<16}{module.WHAT}")
        return
    if format_name not in formats.names():
        raise UsageError(f"unknown format {format_name!r}; known: {', '.join(formats.names())}.")
    name = asked["name"] or ("all" if formats.for_all_archs(format_name) else None)
    tables = for_emit(lookup.chosen(patterns), name, asked["layers"])
    tables = selected(tables, asked["selector"])
    text = formats.emit(format_name, tables)
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
    name = "" if output is None else f"{output}: "
    click.echo(escaped(f"{name}{len(tables)} tables as {format_name}: {sources(tables)}"), err=True)


@click.command(short_help="From one fragment to another: moves, cost, code.")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--transpose", is_flag=True, help="TO holds the transpose of the matrix.")
@ARCH
@read_results
@JSON
def convert(source: str, target: str, transpose: bool, **asked: Any) -> None:
    """Turn fragments FROM into fragments TO that hold the same matrix: what has to move, what it costs, the code.

    For example an accumulator into the A operand of the next multiply. Fragments are repeated as tiles until both
    cover the same matrix.
    """
    from tcprobe.ask.convert import convert as converted
    from tcprobe.cli import answers
    from tcprobe.isa.inventory import resolve
    from tcprobe.store.cell import for_emit

    if asked["name"] == "all":  # for_emit would give a table an arch
        raise UsageError("one arch is needed here, not all.")
    to, from_ = for_emit([resolve(target), resolve(source)], asked["name"], asked["layers"])
    found = converted(from_, to, transpose)
    if asked["as_json"]:
        click.echo(json.dumps(found.to_json()))
    else:
        answers.conversion(found)


@click.command(short_help="Check the tables on a live GPU against NumPy.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--device", "index", type=int, default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random matrices.")
@read_results
@JSON
def verify(patterns: tuple[str, ...], index: int, seed: int, layers: Layers, as_json: bool) -> None:
    """Check the tables on a live GPU: operands go in and out by the emitted CUDA header, D is compared with NumPy.

    INSTRUCTION is shortened or a pattern; without one every wmma and dense mma form that the GPU has. Sparse forms and
    those of a warpgroup are left out. Shows as well which slots are never read, and that a wrong layout fails. Exit
    code 1 when something is wrong.
    """
    from tcprobe.cli import answers
    from tcprobe.isa import arch, inventory
    from tcprobe.run.gpu import Gpu
    from tcprobe.run.verify import verify as verified
    from tcprobe.store.cell import operands

    rows = inventory.multiplies(*patterns)
    other = rows[0]
    rows = [row for row in rows if not row.metadata and not row.described]
    if not rows:
        why = "has factors in shared memory" if other.described else "is sparse"
        raise UsageError(f"{other.id} {why}: `verify` multiplies dense forms of a warp; `tcprobe run` measures it.")
    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    row = arch.arch(device.arch)
    allowed = [i for i in rows if i.target.on(row)]
    if not allowed:
        raise UsageError(f"{device.name} ({device.arch}) has none of these: `tcprobe why-not` says why.")
    todo = [(i, operands(i, row.name, layers)) for i in allowed]
    found = []
    for verdict in verified(gpu, todo, seed):
        found.append(verdict)
        if as_json:
            click.echo(json.dumps(verdict.to_json()))
        else:
            answers.verified(verdict)
    if not as_json:
        answers.verified_all(device, found, len(rows) - len(allowed))
    if not all(verdict.good for verdict in found):
        raise SystemExit(1)


COMMANDS = (where, trace, convert, emit, verify)
