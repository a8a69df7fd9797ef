"""`list`, `show`, `why-not`: what there is, and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tcprobe.cli import shared_operand, tensor_memory
from tcprobe.errors import UsageError
from tcprobe.question import wrapping
from tcprobe.question.naming import named
from tcprobe.question.options import ARCHS, JSON, SELECTOR, Given, fragment_names, print_notes, read_results, several

if TYPE_CHECKING:
    from typing import Unpack

    from tcprobe.ask.absent import WhyNot
    from tcprobe.cli.requests import ShowRequest
    from tcprobe.cli.showing import ShowView
    from tcprobe.store.cell import Cell
    from tcprobe.store.choose import Layers

MANY = 9  # from so many fragments on, only one of a kind is named
FAMILY = click.option(
    "--family", type=Given(), metavar="NAME", help="Only this family of instructions: wmma, mma, ldmatrix, ..."
)


@click.command("list", short_help="List fragments, with patterns.")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", shell_complete=fragment_names)
@ARCHS
@FAMILY
@JSON
@named("patterns", "list")
def list_(patterns: tuple[str, ...], name: str | None, family: str | None, as_json: bool) -> None:
    """List fragments by PATTERN, arch or family; without any of these, the families with their shapes.

    Operands in shared memory behind descriptors, and instructions that hold nothing in registers, come last.
    """
    from tcprobe.ask.behind import entry
    from tcprobe.ask.describe import form_entry, fragment_entry
    from tcprobe.isa import arch
    from tcprobe.isa.names import filter_allowed, resolve

    devices = [arch.arch(at) for at in several(name) if at]
    meanings = [resolve(pattern) for pattern in patterns or ("*",)]
    held = [meaning.fragments if meaning.shared or meaning.bare else meaning.some_fragments for meaning in meanings]
    fragments = filter_allowed((row for rows in held for row in rows), family, devices)
    shared = filter_allowed((row for meaning in meanings for row in meaning.shared), family, devices)
    forms = filter_allowed((row for meaning in meanings for row in meaning.bare), family, devices)
    if as_json:
        entries = [*map(fragment_entry, fragments), *map(entry, shared), *map(form_entry, forms)]
        click.echo(json.dumps(entries, indent=1))
        return
    from tcprobe.cli import printing, summaries
    from tcprobe.question import terminal

    with terminal.pager():
        if patterns or name or family:
            printing.fragments(fragments, shared, forms)
        else:
            summaries.families(fragments, shared, forms)


@click.command(short_help="Formula, map both ways, evidence and verdicts.")
@click.argument("patterns", nargs=-1, required=True, metavar="FRAGMENT...", shell_complete=fragment_names)
@SELECTOR
@click.option("--full", is_flag=True, help="Everything: both maps whole, every note, every verdict.")
@click.option("--elements", is_flag=True, help="Draw the whole matrix: who holds each element.")
@click.option("--lanes", is_flag=True, help="Draw all lanes: what each register holds.")
@click.option("--why", is_flag=True, help="What the table rests on, link by link, and what would prove it wrong.")
@tensor_memory.sizes
@shared_operand.fields
@ARCHS
@read_results
@JSON
@named("patterns", "list")
def show(patterns: tuple[str, ...], layers: Layers, as_json: bool, **show: Unpack[ShowRequest]) -> None:
    """Show a fragment: formulas, one picture, who shares the layout, the evidence. Several fragments get a few lines
    each.

    Without --arch it takes the arch with the strongest method, the newest of several: of those measured in
    ./results, or else of all. --arch all shows every one; --arch sm_70,sm_90 puts their formulas side by side.
    A layout that is not measured on an arch is shown as documented. Metadata (operand e of mma.sp) has a table
    for each selector. An operand in shared memory (a_smem and b_smem of wgmma) is shown behind the descriptor given
    by --swizzle, --major, --lbo, --sbo, --base-offset, --start. An operand in tensor memory, or all that an
    instruction has there, is shown for --m, --n, --scale-vec, --multicast. --why lists the probe, the code, the
    anchor, the assumption, and how sure it is. --json prints one object per line.
    """
    name, selector, explained = show["name"], show["selector"], show["why"]
    view = _drawings(show, "--json has everything" if as_json else "--why draws nothing" if explained else None)
    patterns = _in_tensor_memory(_behind(patterns, layers, as_json, show), layers, as_json, show)
    if not patterns:
        return
    from tcprobe.store import names
    from tcprobe.store.cell import on_archs, tables_of

    archs = several(name)
    if explained and len(archs) > 1:
        raise UsageError("--why takes one arch, or all, but not a list.")
    chosen, remarks = names.choose_fragments(patterns, archs[-1], layers)
    print_notes(*remarks)
    if len(archs) > 1:
        for fragment in chosen:
            found, missing = on_archs(fragment, archs, layers)
            _print_beside(found, as_json)
            print_notes(*missing)
        return
    cells, without = tables_of(chosen, name, selector, layers)
    _print(cells, view, as_json, explained)
    if without:
        click.echo(f"{len(without)} more fragments have no table here; `tcprobe why-not` says why.", err=True)


def _print(cells: Sequence[Cell], view: ShowView, as_json: bool, explained: bool) -> None:
    """Tables as JSON, as what they rest on, or in words and pictures."""
    if explained:
        _print_why(cells, as_json)
    elif as_json:
        from tcprobe.ask.describe import cell_entry

        for cell in cells:
            click.echo(json.dumps(cell_entry(cell)))
    else:
        from tcprobe.cli import showing

        showing.show(cells, view)


def _print_why(cells: Sequence[Cell], as_json: bool) -> None:
    """What tables rest on: beside each as JSON, or in words alone."""
    from tcprobe.ask.describe import cell_entry
    from tcprobe.ask.why import why
    from tcprobe.cli import printing

    for cell in cells:
        reasons = why(cell)
        if as_json:
            click.echo(json.dumps({**cell_entry(cell), "why": reasons.to_json()}))
        else:
            printing.reasons(cell, reasons.lines)


def _drawings(show: ShowRequest, without: str | None) -> ShowView:
    """What `show` draws; UsageError for anything where nothing is drawn."""
    from tcprobe.cli.showing import ShowView

    view = ShowView(show["full"], show["lanes"], show["elements"])
    if without and any(view):
        raise UsageError(f"{without}: remove --full, --lanes and --elements.")
    return view


def _print_beside(cells: Sequence[Cell], as_json: bool) -> None:
    """Formulas, layout and evidence of a fragment's tables on several archs."""
    from tcprobe.ask.describe import cell_entry
    from tcprobe.cli.answers import side_by_side

    if as_json:
        for cell in cells:
            click.echo(json.dumps(cell_entry(cell)))
    else:
        side_by_side(cells)


def _behind(patterns: tuple[str, ...], layers: Layers, as_json: bool, show: ShowRequest) -> tuple[str, ...]:
    """Show those that are operands in shared memory; the others."""
    behind = {pattern: meaning for pattern in patterns if (meaning := shared_operand.in_shared_memory(pattern))}
    given = shared_operand.beyond(show)
    if given and not behind:
        raise UsageError(f"{', '.join(given)} is for operands in shared memory: wgmma.m64n8k16.f32.f16.f16.b_smem.")
    for meaning in behind.values():
        selector = show["selector"] if len(patterns) == 1 else None
        shared_operand.check_asked(meaning.shared_operand, show["name"], selector)
        shared_operand.print_behind(shared_operand.behind_operand(meaning, layers, show), as_json)
    return tuple(pattern for pattern in patterns if pattern not in behind)


def _in_tensor_memory(patterns: tuple[str, ...], layers: Layers, as_json: bool, show: ShowRequest) -> tuple[str, ...]:
    """Show those that are in tensor memory; the others."""
    meant = {pattern: tensor_memory.find_operand(pattern) or tensor_memory.form(pattern) for pattern in patterns}
    if not any(meant.values()):
        tensor_memory.require_none(show)
        return patterns
    from tcprobe.cli import tensor_memory_shown
    from tcprobe.isa.instruction import Instruction

    for one in meant.values():
        if one is not None:
            tensor_memory.check_arch(one if isinstance(one, Instruction) else one.form, show["name"])
            tensor_memory_shown.print_memory(one, show, layers, as_json)
    return tuple(pattern for pattern, one in meant.items() if one is None)


@click.command("why-not", short_help="Why an arch does not have a fragment.")
@click.argument("fragment", nargs=-1, required=True, shell_complete=fragment_names)
@ARCHS
@read_results
@JSON
@named("fragment", count="one")
def why_not(fragment: str, name: str | None, layers: Layers, as_json: bool) -> None:
    """Explain why an arch does not have FRAGMENT, or why there is no table of it. --json prints one object per line."""
    from tcprobe.ask.absent import why_not as explained
    from tcprobe.ask.absent import why_not_behind, why_not_form, why_not_placed
    from tcprobe.isa import arch
    from tcprobe.store.names import resolve

    if name is None:
        raise UsageError("which arch? Give it with --arch, for example sm_75, or a GPU's name.")
    row, placed = arch.arch(name), tensor_memory.find_operand(fragment)
    if placed:
        _say_absence([why_not_placed(placed, row, layers)], as_json)
        return
    meaning = resolve(fragment, layers)
    held = [meaning.shared_operand] if shared_operand.in_shared_memory(fragment) else []
    fragments = meaning.fragments if held or meaning.bare else meaning.some_fragments
    answers = [
        *(explained(one, row, layers) for one in fragments),
        *(why_not_form(form, row, layers) for form in meaning.bare),
        *(why_not_behind(one, row, layers) for one in held),
    ]
    _say_absence(answers, as_json)


def _say_absence(answers: Sequence[WhyNot], as_json: bool) -> None:
    """Why an arch lacks each, the same words once."""
    from tcprobe.store.lookup import some

    if as_json:
        click.echo("\n".join(json.dumps(answer.to_json()) for answer in answers))
        return
    groups: dict[object, list[WhyNot]] = {}
    for answer in answers:
        same = answer.words if len(answers) < MANY else (answer.allowed, answer.measured)
        groups.setdefault(same, []).append(answer)
    for alike in groups.values():
        wrapping.line(f"{some([answer.id for answer in alike], 1 if len(answers) >= MANY else MANY)}: {alike[0].words}")


COMMANDS = (
    list_,
    show,
    why_not,
)
