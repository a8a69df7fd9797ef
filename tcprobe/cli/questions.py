"""The commands that answer questions from saved tables: where, trace, and verify on a live GPU."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING

import click

from tcprobe.cli import shared_operand, tensor_memory, trace_tensor_memory
from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCHS, JSON, SELECTOR, Number, Numbers, fragment_names, print_notes, read_results

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from tcprobe.ask.trace import Holder
    from tcprobe.cli.requests import TraceRequest, WhereRequest
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers


@click.command(short_help="Who holds an element, or what a lane holds.")
@click.argument("fragment", nargs=-1, required=True, metavar="FRAGMENT", shell_complete=fragment_names)
@click.option("--row", "rows", type=Numbers(), help="Row of the element, or a range: 3, 0-7. Default: all.")
@click.option("--col", "cols", type=Numbers(), help="Column of the element, or a range.")
@click.option("--product", "products", type=Numbers(), default=[], help="Which product, where a warp holds several.")
@click.option("--lane", "lanes", type=Numbers(), help="Say what this lane, or range of lanes, holds instead.")
@click.option("--i", "elements", type=Numbers(), help="With --lane: which of its elements. Default: all.")
@click.option("--byte", type=Numbers(), help="Say what is at this byte of an operand in shared memory.")
@tensor_memory.options
@shared_operand.fields
@SELECTOR
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def where(fragment: str, name: str | None, layers: Layers, as_json: bool, **request: Unpack[WhereRequest]) -> None:
    """Say who holds an element of FRAGMENT (--row, --col), or what a lane holds (--lane, --i).

    For an operand of wgmma in shared memory (a_smem, b_smem): at which bytes an element is, or what is at --byte. The
    descriptor is given by --swizzle, --major, --lbo, --sbo, --base-offset, --start.

    For an operand in tensor memory (d, a, e, scale_a, scale_b of tcgen05.mma, memory of tcgen05.cp): the cells of an
    element, or what the cell --lane, --column of --cta holds. For d also the register that --ld reads it into.

    --arch sm_70,sm_90 gives one answer after the other; --json prints one object per line.
    """
    from tcprobe.cli import answers
    from tcprobe.store import names
    from tcprobe.store.cell import selections

    if placed := tensor_memory.find_operand(fragment):
        tensor_memory.check_arch(placed.form, name)
        tensor_memory.locate(placed, request, (layers, name), as_json)
        return
    tensor_memory.require_none(request)
    if meaning := shared_operand.in_shared_memory(fragment):
        tensor_memory.check_warp(meaning.shared_operand.family, request["warp"])
        shared_operand.check_asked(meaning.shared_operand, name, request["selector"])
        shared_operand.print_places(shared_operand.behind_operand(meaning, layers, request), request, as_json)
        return
    if beyond := shared_operand.beyond(request, "byte"):
        raise UsageError(f"{beyond[0]} needs an operand in shared memory: a_smem, b_smem.")
    from tcprobe.ask.table_confidence import confidence

    whole, note = names.find_cell(fragment, name, layers)
    print_notes(note)
    for cell in selections(whole, request["selector"]):
        by_lane, holders = _holders(cell, request)
        cells = tensor_memory.reaches(cell.fragment, holders, request["warp"])
        if as_json:
            head = {
                "id": cell.fragment.id,
                "arch": cell.arch,
                "source": cell.source,
                "evidence": cell.evidence,
                "confidence": confidence(cell).to_json(),
                "status": "measured" if cell.measured else "documented",
            }
            selected = {} if cell.selector is None else {"selector": cell.selector}
            located = [holder.to_json() | place for holder, place in zip(holders, cells, strict=True)]
            click.echo(json.dumps({**head, **selected, **(cells[0] if len(cells) == 1 else {}), "holders": located}))
        else:
            answers.holders(cell, holders, by_lane)
            tensor_memory.print_reached(holders, cells, request["warp"])


def _holders(cell: Cell, sought: WhereRequest) -> tuple[bool, list[Holder]]:
    """Whether lanes are asked for, and what answers."""
    from tcprobe.ask import trace

    rows, cols, lanes, elements = sought["rows"], sought["cols"], sought["lanes"], sought["elements"]
    by_lane = lanes is not None or elements is not None
    if by_lane == (rows is not None or cols is not None):
        raise UsageError("give --row and --col, or --lane and --i.")
    if by_lane and sought["products"]:
        raise UsageError("--product needs --row and --col; a slot belongs to one product only.")
    if by_lane:
        return True, trace.elements_held(cell, range(cell.table.threads) if lanes is None else lanes, elements or [])
    at_rows = range(cell.fragment.rows) if rows is None else rows
    at_cols = range(cell.fragment.cols) if cols is None else cols
    return False, trace.where(cell, at_rows, at_cols, sought["products"])


@click.command(short_help="Which slots feed an element of D, or what a slot feeds.")
@click.argument("instruction", nargs=-1, required=True, metavar="INSTRUCTION", shell_complete=fragment_names)
@click.option("--row", type=Numbers(), help="Row of the D element, or a range: 3, 0-7.")
@click.option("--col", type=Numbers(), help="Column of the D element, or a range.")
@click.option("--product", type=Number(), help="Which product, where a warp holds several (m8n8k4 of f16).")
@click.option(
    "--operand",
    type=click.Choice(["a", "b", "c", "e", "a_smem", "b_smem"]),
    help="Say what a slot, or a byte, of this operand feeds instead.",
)
@click.option("--lane", type=Numbers(), help="With --operand: the slot's lane, or a range.")
@click.option("--i", "element", type=Numbers(), help="With --operand: the slot's i, or a range.")
@click.option("--byte", type=Numbers(), help="With --operand a_smem or b_smem: bytes from the start address.")
@click.option(
    "--a-in",
    type=click.Choice(["registers", "shared", "tensor"]),
    help="Where A is. Default: registers for wgmma, shared for tcgen05.mma.",
)
@trace_tensor_memory.options
@shared_operand.fields
@SELECTOR
@ARCHS
@read_results
@JSON
@named("instruction", count="one")
def trace(instruction: str, name: str | None, layers: Layers, as_json: bool, **request: Unpack[TraceRequest]) -> None:
    """Show all slots of A, B and C that feed one element of D, in k order; or what a slot of A, B or C feeds.

    For a sparse multiply also the metadata field (E) that picks one of the rows of B that an A slot can meet. For wgmma
    the bytes of B behind a descriptor (--swizzle, --major, --lbo, --sbo, --base-offset, --start), and with --a-in
    shared those of A behind the same one; or what a byte of them feeds. For tcgen05.mma the cells of D, of A with
    --a-in tensor, of metadata and scales, and the bytes of A and B. Other scales are left out: `where` of scale_a and
    scale_b says which byte scales what. Ranges give one answer after the other; --json prints one object per line.
    """
    from tcprobe.ask import trace
    from tcprobe.isa.operand import Role
    from tcprobe.store import names

    if (form := tensor_memory.form(instruction)) and form.multiplies:
        trace_tensor_memory.answer(form, (layers, name), request, as_json)
        return
    tensor_memory.require_none(request)
    multiply, tables, note = names.multiply(instruction, name, layers)
    tables = {o: cell for o, cell in tables.items() if cell.fragment.role is not Role.SCALE}
    print_notes(note)
    if multiply.described:
        for shared in shared_operand.traces(multiply, tables, request):
            if as_json:
                click.echo(json.dumps(shared.to_json()))
            else:
                shared_operand.meetings(shared)
        return
    shared_operand.check_registers(multiply, request)
    operand, pairs = _traced_pairs(request)
    if operand and request["product"] is not None:
        raise UsageError("--product needs --row and --col; a slot belongs to one product only.")
    for selected_tables, (first, second) in product(_selections(tables, request["selector"]), pairs):
        if operand:
            answer = trace.feeds(multiply, selected_tables, operand, first, second)
        else:
            answer = trace.trace(multiply, selected_tables, first, second, request["product"])
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            wrapping.lines(answer.in_words, answer.about)


def _traced_pairs(sought: TraceRequest) -> tuple[str | None, list[tuple[int, int]]]:
    """An operand and slots of it, or None and elements of D; UsageError unless it is just one of the two."""
    match sought["row"], sought["col"], sought["operand"], sought["lane"], sought["element"]:
        case None, None, str(operand), list(lanes), list(elements):
            return operand, list(product(lanes, elements))
        case list(rows), list(cols), None, None, None:
            return None, list(product(rows, cols))
        case _:
            raise UsageError("give --row and --col, or --operand, --lane and --i.")


def _selections(operands: Mapping[str, Cell], selector: int | None) -> list[dict[str, Cell]]:
    """The operands' tables under the selector of the metadata that is asked for, or under each."""
    from tcprobe.store.cell import selected

    metadata = operands.get("e")
    numbers = metadata.fragment.selectors if metadata and selector is None else (selector,)
    return [dict(zip(operands, selected(operands.values(), number), strict=True)) for number in numbers]


@click.command(short_help="Check the tables on a live GPU against NumPy.")
@click.argument("patterns", nargs=-1, metavar="[INSTRUCTION]...")
@click.option("--device", "index", type=Number(), default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--seed", type=Number(), default=0, show_default=True, help="Seed of the random matrices.")
@read_results
@JSON
@named("patterns")
def verify(patterns: tuple[str, ...], index: int, seed: int, layers: Layers, as_json: bool) -> None:
    """Check the tables on a live GPU: the emitted code loads and stores operands, and D is compared with a model.

    NumPy gives D of whole numbers. The measured arithmetic (`tcprobe numerics`) gives D of random floats, bit by bit.

    The CUDA header loads and stores fragments. Factors in shared memory are written with what `tcprobe descriptor`
    prints, for every swizzle and major; A is tried in registers and in shared memory. INSTRUCTION is a shortened name
    or a pattern. Without one, every form that the GPU has is tried (warpgroup forms with N 8, 24, 64, 128 and 256),
    sparse forms under each selector with random metadata. It also shows which slots are never read, and that a
    wrong layout fails. Exit code 1 if something is wrong.
    """
    from tcprobe.cli import answers
    from tcprobe.isa import arch
    from tcprobe.run.gpu import Gpu
    from tcprobe.run.verify import verifiable
    from tcprobe.run.verify import verify as verified
    from tcprobe.store.cell import find_operands

    rows = verifiable(*patterns)
    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    row = arch.arch(device.arch)
    allowed = [i for i in rows if i.target.on(row)]
    if not allowed:
        raise UsageError(f"{device.name} ({device.arch}) has none of these: `tcprobe why-not` says why.")
    known_forms, unknown_ids = [], []
    for instruction in allowed:
        if tables := find_operands(instruction, row.name, layers):
            known_forms.append((instruction, tables))
        else:  # neither measured nor documented there
            unknown_ids.append(instruction.id)
    if not known_forms:
        raise UsageError(f"nothing is known about {unknown_ids[0]} on {row.name}: `tcprobe run` measures it.")
    verdicts = []
    for verdict in verified(gpu, known_forms, seed, layers):
        verdicts.append(verdict)
        if as_json:
            click.echo(json.dumps(verdict.to_json()))
        else:
            answers.print_verdict(verdict)
    if not as_json:
        answers.verified_all(device, verdicts, len(rows) - len(allowed), len(unknown_ids))
    if not all(verdict.good for verdict in verdicts):
        raise SystemExit(1)


COMMANDS = (where, trace, verify)
