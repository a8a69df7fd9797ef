"""The commands that answer questions from saved tables: where, trace, emit, and verify on a live GPU."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcprobe.cli import shared_operand, tensor_memory, trace_tensor_memory
from tcprobe.cli.naming import named
from tcprobe.cli.options import (
    ARCH,
    ARCHS,
    JSON,
    NAME,
    NAMESPACE,
    SELECTOR,
    Given,
    Number,
    Numbers,
    Output,
    fragment_names,
    read_results,
    told,
)
from tcprobe.errors import UsageError
from tcprobe.text import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from tcprobe.ask.trace import Holder
    from tcprobe.cli.requests import EmitAsked, TraceAsked, WhereAsked
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers


@click.command(short_help="Who holds an element, or what a lane holds.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option("--row", "rows", type=Numbers(), help="Row of the element, or a range: 3, 0-7. Default: all.")
@click.option("--col", "cols", type=Numbers(), help="Column of the element, or a range.")
@click.option("--product", "products", type=Numbers(), default=[], help="Which product, where a warp holds several.")
@click.option("--lane", "lanes", type=Numbers(), help="What this lane holds instead, or a range.")
@click.option("--i", "elements", type=Numbers(), help="With --lane: which of its elements. Default: all.")
@click.option("--byte", type=Numbers(), help="Of an operand in shared memory: what lies there, from its start.")
@tensor_memory.options
@shared_operand.fields
@SELECTOR
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def where(fragment: str, name: str | None, layers: Layers, as_json: bool, **sought: Unpack[WhereAsked]) -> None:
    """Say who holds an element of FRAGMENT (--row, --col), or what a lane holds (--lane, --i).

    Of an operand of wgmma in shared memory (a_smem, b_smem) at which bytes an element lies, or what lies at --byte,
    behind the descriptor that --swizzle, --major, --lbo, --sbo, --base-offset, --start say.

    Of an operand in tensor memory (d, a, e, scale_a, scale_b of tcgen05.mma, memory of tcgen05.cp) the cells of an
    element, or what the cell --lane, --column of --cta holds; of D also the register that --ld leaves it in.

    --arch sm_70,sm_90: one answer after the other; --json: one object a line.
    """
    from tcprobe.cli import answers
    from tcprobe.store import names
    from tcprobe.store.cell import selections

    if placed := tensor_memory.meant(fragment):
        tensor_memory.check_arch(placed.form, name)
        tensor_memory.located(placed, sought, as_json)
        return
    tensor_memory.require_none(sought)
    if meaning := shared_operand.in_shared_memory(fragment):
        shared_operand.check_asked(meaning.shared_operand, name, sought["selector"])
        shared_operand.located(shared_operand.meant(meaning, layers, sought), sought, as_json)
        return
    if beyond := shared_operand.beyond(sought, "byte"):
        raise UsageError(f"{beyond[0]} goes with an operand in shared memory: a_smem, b_smem.")
    from tcprobe.ask.confidence import confidence

    whole, note = names.meant(fragment, name, layers)
    told(note)
    for cell in selections(whole, sought["selector"]):
        by_lane, holders = _holders(cell, sought)
        cells = tensor_memory.reaches(cell.fragment, holders, sought["warp"])
        if as_json:
            head = {
                "id": cell.fragment.id,
                "arch": cell.arch,
                "source": cell.source,
                "evidence": cell.evidence,
                "confidence": confidence(cell).to_json(),
                "status": "measured" if cell.measured else "documented",
            }
            of = {} if cell.selector is None else {"selector": cell.selector}
            shown = [holder.to_json() | at for holder, at in zip(holders, cells, strict=True)]
            click.echo(json.dumps({**head, **of, **(cells[0] if len(cells) == 1 else {}), "holders": shown}))
        else:
            answers.holders(cell, holders, by_lane)
            tensor_memory.reached(holders, cells, sought["warp"])


def _holders(cell: Cell, sought: WhereAsked) -> tuple[bool, list[Holder]]:
    """Whether lanes are asked for, and what answers."""
    from tcprobe.ask import trace

    rows, cols, lanes, elements = sought["rows"], sought["cols"], sought["lanes"], sought["elements"]
    by_lane = lanes is not None or elements is not None
    if by_lane == (rows is not None or cols is not None):
        raise UsageError("give --row and --col, or --lane and --i.")
    if by_lane and sought["products"]:
        raise UsageError("--product goes with --row and --col; a slot holds an element of one product.")
    if by_lane:
        return True, trace.held(cell, range(cell.table.threads) if lanes is None else lanes, elements or [])
    all_rows, all_cols = range(cell.fragment.rows), range(cell.fragment.cols)
    found = trace.where(
        cell, all_rows if rows is None else rows, all_cols if cols is None else cols, sought["products"]
    )
    return False, found


@click.command(short_help="Which slots feed an element of D, or what a slot feeds.")
@click.argument("instruction", nargs=-1, required=True, metavar="INSTRUCTION", shell_complete=fragment_names)
@click.option("--row", type=Numbers(), help="Row of the D element, or a range: 3, 0-7.")
@click.option("--col", type=Numbers(), help="Column of the D element, or a range.")
@click.option("--product", type=Number(), help="Which product, where a warp holds several (m8n8k4 of f16).")
@click.option(
    "--operand",
    type=click.Choice(["a", "b", "c", "e", "a_smem", "b_smem"]),
    help="What a slot of this operand feeds instead, or a byte of it.",
)
@click.option("--lane", type=Numbers(), help="With --operand: the slot's lane, or a range.")
@click.option("--i", "element", type=Numbers(), help="With --operand: the slot's i, or a range.")
@click.option("--byte", type=Numbers(), help="With --operand a_smem or b_smem: bytes from the start address.")
@click.option(
    "--a-in",
    type=click.Choice(["registers", "shared", "tensor"]),
    help="Where A is, of a wgmma registers by default, of tcgen05.mma shared.",
)
@trace_tensor_memory.options
@shared_operand.fields
@SELECTOR
@ARCHS
@read_results
@JSON
@named("instruction", count="one")
def trace(instruction: str, name: str | None, layers: Layers, as_json: bool, **sought: Unpack[TraceAsked]) -> None:
    """Show all slots of A, B and C that feed one element of D, in k order; or what a slot of A, B or C feeds.

    Of a sparse multiply also the field of the metadata (E) that picks one of the rows of B that an A slot can meet. Of
    a wgmma the bytes of B, behind the descriptor that --swizzle, --major, --lbo, --sbo, --base-offset, --start say, and
    of A with --a-in shared, behind one that says the same; or what a byte of them feeds.
    Of tcgen05.mma the cells of D, of A with --a-in tensor, of metadata and scales, and the bytes of A and B.
    Other scales are left out: `where` says of operands scale_a and scale_b which byte scales what.
    With ranges one answer after the other; --json: one object a line.
    """
    from tcprobe.ask import trace
    from tcprobe.cli import answers
    from tcprobe.isa.operand import Role
    from tcprobe.store import names

    if (form := tensor_memory.form(instruction)) and form.multiplies:
        trace_tensor_memory.answer(form, name, sought, as_json)
        return
    tensor_memory.require_none(sought)
    multiply, tables, note = names.multiply(instruction, name, layers)
    tables = {o: cell for o, cell in tables.items() if cell.fragment.role is not Role.SCALE}
    told(note)
    if multiply.described:
        for shared in shared_operand.traced(multiply, tables, sought):
            if as_json:
                click.echo(json.dumps(shared.to_json()))
            else:
                shared_operand.meetings(shared)
        return
    shared_operand.check_registers(multiply, sought)
    operand, pairs = _traced_pairs(sought)
    if operand and sought["product"] is not None:
        raise UsageError("--product goes with --row and --col; a slot holds an element of one product.")
    for of, (first, second) in product(_selections(tables, sought["selector"]), pairs):
        if operand:
            answer = trace.feeds(multiply, of, operand, first, second)
        else:
            answer = trace.trace(multiply, of, first, second, sought["product"])
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            answers.trace(answer)


def _traced_pairs(sought: TraceAsked) -> tuple[str | None, list[tuple[int, int]]]:
    """An operand and slots of it, or None and elements of D; UsageError unless it is just one of the two."""
    match sought["row"], sought["col"], sought["operand"], sought["lane"], sought["element"]:
        case None, None, str(operand), list(lanes), list(elements):
            return operand, list(product(lanes, elements))
        case list(rows), list(cols), None, None, None:
            return None, list(product(rows, cols))
        case _:
            raise UsageError("give --row and --col, or --operand, --lane and --i.")


def _selections(tables: dict[str, Cell], selector: int | None) -> list[dict[str, Cell]]:
    """The operands' tables under the selector of the metadata that is asked for, or under each."""
    from tcprobe.store.cell import selected

    metadata = tables.get("e")
    numbers = metadata.fragment.selectors if metadata and selector is None else (selector,)
    return [dict(zip(tables, selected(tables.values(), number), strict=True)) for number in numbers]


ARITHMETIC = "numerics"  # what `emit` writes of whole multiplies, beside the formats of fragments


@click.command(short_help="Write fragments as code or data for other programs.")
@click.argument("patterns", nargs=-1, metavar="FRAGMENT...", shell_complete=fragment_names)
@click.option(
    "--to",
    "format_name",
    type=Given(),
    required=True,
    metavar="FORMAT",
    help="cuda, ptx, python, ...; `--to help` lists.",
)
@click.option("-o", "--output", type=Output(path_type=Path, dir_okay=False), help="File. Default: standard output.")
@NAME
@NAMESPACE
@SELECTOR
@ARCH
@read_results
@named("patterns", "one")
def emit(patterns: tuple[str, ...], format_name: str, output: Path | None, **asked: Unpack[EmitAsked]) -> None:
    """Write fragments as code or data for other programs.

    Patterns may mean several fragments; an instruction means its operands. Without --arch: the arch whose
    measurement counts most, as `show` has it; formats that tell archs apart (cuda) get every arch.
    """
    from tcprobe import emit as formats
    from tcprobe.code.scope import scoped
    from tcprobe.store import names
    from tcprobe.store.cell import emittable, selected, sources
    from tcprobe.store.lookup import some
    from tcprobe.system import files

    if format_name == "help":
        for known_name, module in formats.formats().items():
            click.echo(f"{known_name:<16}{module.WHAT}")
        click.echo(f"{ARITHMETIC:<16}C++17 header of what multiplies compute, bit by bit, as `numerics --header`")
        return
    if format_name not in (*formats.names(), ARITHMETIC):
        raise UsageError(f"unknown format {format_name!r}; known: {', '.join(formats.names())}, {ARITHMETIC}.")
    if not patterns:
        raise UsageError("Missing argument 'FRAGMENT...'.")
    if format_name == ARITHMETIC:
        _arithmetic(patterns, output, asked)
        return
    name = asked["name"] or ("all" if formats.for_all_archs(format_name) else None)
    chosen, notes = names.chosen(patterns, name, asked["layers"])
    told(*notes)
    tables, without = emittable(chosen, name, asked["layers"])
    if without:
        told(f"left out, {name or tables[0].arch} has no table of them: {some([f.id for f in without])}")
    tables = selected(tables, asked["selector"], every=formats.for_all_selectors(format_name))
    text = _named(formats.emit(format_name, tables), tables, asked["called"])
    if asked["namespace"] and format_name not in ("cuda", "cute"):
        raise UsageError(f"{format_name} has no namespaces; cuda and cute have.")
    text = scoped(text, asked["namespace"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())
    name = "" if output is None else f"{output}: "
    click.echo(escaped(f"{name}{len(tables)} tables as {format_name}: {sources(tables)}"), err=True)


def _arithmetic(patterns: tuple[str, ...], output: Path | None, emit_asked: EmitAsked) -> None:
    """`emit --to numerics`: the header of the multiplies that the patterns mean."""
    from tcprobe.ask.numeric_header import texts
    from tcprobe.isa import names
    from tcprobe.system import files

    unfit = {
        "--name": emit_asked["called"],
        "--namespace": emit_asked["namespace"],
        "--selector": emit_asked["selector"],
    }
    if wrong := [option for option, value in unfit.items() if value is not None]:
        raise UsageError(f"{', '.join(wrong)}: of fragments; numerics is of whole multiplies.")
    multiplies = [one for pattern in patterns for one in names.resolve(pattern).instructions if one.multiplies]
    if not multiplies:
        raise UsageError(f"numerics is of multiplies; {patterns[0]} is none. `tcprobe list` has their names.")
    text = texts(list(dict.fromkeys(multiplies)), emit_asked["name"], emit_asked["layers"])
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write(output, text.encode())


def _named(text: str, cells: Sequence[Cell], name: str | None) -> str:
    """The code under a name for the one fragment, or instruction, that it is of; UsageError where it is of several."""
    from tcprobe.code.names import made
    from tcprobe.code.scope import renamed
    from tcprobe.isa.inventory import user_ids

    if not name:
        return text
    ids = list(dict.fromkeys(cell.fragment.id for cell in cells))
    rows = set.intersection(*(set(user_ids(id_)) for id_ in ids))
    if len(ids) > 1 and len(rows) != 1:
        raise UsageError(f"--name is of one fragment, or of one instruction: this is of {len(ids)} fragments.")
    return renamed(text, made(ids[0] if len(ids) == 1 else rows.pop()), name)


@click.command(short_help="Check the tables on a live GPU against NumPy.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--device", "index", type=Number(), default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--seed", type=Number(), default=0, show_default=True, help="Of the random matrices.")
@read_results
@JSON
@named("patterns")
def verify(patterns: tuple[str, ...], index: int, seed: int, layers: Layers, as_json: bool) -> None:
    """Check the tables on a live GPU: operands go in and out by emitted code, D is compared with NumPy.

    D of whole numbers is compared with NumPy, D of random floats with the model of the form's arithmetic, bit by bit,
    where it was measured (`tcprobe numerics`).

    Fragments go by the CUDA header; factors in shared memory by the formula and the line of `tcprobe descriptor`, with
    every swizzle and major, A in registers and in shared memory. INSTRUCTION is shortened or a pattern; without one
    every form that the GPU has (of a warpgroup's N 8, 24, 64, 128 and 256), sparse ones under each selector with
    metadata at random. Shows as well which slots are never read, and that a wrong layout fails. Exit code 1 when
    something is wrong.
    """
    from tcprobe.cli import answers
    from tcprobe.isa import arch
    from tcprobe.run.gpu import Gpu
    from tcprobe.run.verify import verify as verified
    from tcprobe.run.verify_case import verifiable
    from tcprobe.store.cell import operands

    rows = verifiable(*patterns)
    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    row = arch.arch(device.arch)
    allowed = [i for i in rows if i.target.on(row)]
    if not allowed:
        raise UsageError(f"{device.name} ({device.arch}) has none of these: `tcprobe why-not` says why.")
    todo, untold = [], []
    for instruction in allowed:
        try:
            todo.append((instruction, operands(instruction, row.name, layers)))
        except UsageError:  # neither measured nor documented there
            untold.append(instruction.id)
    if not todo:
        raise UsageError(f"nothing is known of {untold[0]} on {row.name}: `tcprobe run` measures it.")
    verdicts = []
    for verdict in verified(gpu, todo, seed, layers):
        verdicts.append(verdict)
        if as_json:
            click.echo(json.dumps(verdict.to_json()))
        else:
            answers.verified(verdict)
    if not as_json:
        answers.verified_all(device, verdicts, len(rows) - len(allowed), len(untold))
    if not all(verdict.good for verdict in verdicts):
        raise SystemExit(1)


COMMANDS = (where, trace, emit, verify)
