"""What `show` prints of a fragment: brief, with one picture; whole on demand; a few lines each where there are many."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import click

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, Verdict, verdicts
from tcprobe.ask.describe import notes, selected_words
from tcprobe.cli.verdicts import STYLE, named_parts, verdict_line
from tcprobe.fit import fitted
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout import grid
from tcprobe.layout.grid import glance
from tcprobe.layout.table import Table
from tcprobe.question.wrapping import NAME, bold, line, width
from tcprobe.store.cell import Cell

MOST = 8  # tables that are outlined
MOST_SELECTORS = 4  # that are outlined below the first one's picture
MOST_NAMED = 2  # fragments named as having the same layout


class ShowView(NamedTuple):
    """What is asked for beyond the brief answer."""

    full: bool = False
    lanes: bool = False
    elements: bool = False


def show(cells: Sequence[Cell], view: ShowView) -> None:
    """Tables of one or several fragments: one of them brief, several outlined, or what `view` says of each."""
    if any(view):
        from tcprobe.question.terminal import pager

        with pager():
            for cell in cells:
                (_whole if view.full else _print_drawings)(cell, view)
    elif all(cell.fragment is cells[0].fragment and cell.arch == cells[0].arch for cell in cells):
        _brief(cells[0])
        _others(cells[1:], MOST_SELECTORS)
    else:
        _others(cells, MOST)
        click.echo("`tcprobe show` of one of them draws it; --full shows all, whole")


def _verdicts_on(cell: Cell) -> list[Verdict]:
    return verdicts(cell.fragment, cell.measured) if cell.measured else []


def _whole(cell: Cell, _view: ShowView) -> None:
    """Formula, notes on its layout, both drawings, provenance, verdicts."""
    _head(cell, folds=False)
    for note in notes(cell):
        click.echo(note)
    _draw(drawings(cell.table, cell.fragment))
    click.echo()
    click.echo(cell.evidence)
    click.echo(f"numbers from: {cell.numbering}")
    for verdict in _verdicts_on(cell):
        verdict_line(verdict)


def _print_drawings(cell: Cell, view: ShowView) -> None:
    """Head, formulas and one or both drawings, whole."""
    _head(cell)
    both = list(drawings(cell.table, cell.fragment))
    chosen = (
        both if len(both) == 1 else [both[n] for n, is_wanted in enumerate((view.elements, view.lanes)) if is_wanted]
    )
    _draw(chosen)
    click.echo()
    line(cell.evidence)


def _brief(cell: Cell) -> None:
    """Head, formulas, where else, one picture of at most 20 lines, evidence."""
    _head(cell)
    for note in notes(cell, MOST_NAMED):
        line(note)
    if cell.fragment.role is Role.ADDRESS:
        _draw(drawings(cell.table, cell.fragment))
    else:
        picture = glance(cell.table, width(), cell.fragment.span)
        _draw([(f"element (row, col) -> {_holder(cell.table)}:i", picture)])
    click.echo()
    line(cell.evidence)
    line(f"numbers from: {cell.numbering}")
    _print_verdicts(_verdicts_on(cell))
    click.echo("--elements and --lanes draw it whole, --full prints everything")


def _print_verdicts(judged: Sequence[Verdict]) -> None:
    for verdict in judged:
        if verdict.erratum and verdict.verdict == DIFFERS:
            line(f"{verdict.reference}: known erratum ({verdict.detail}): {verdict.erratum}")
        elif verdict.verdict != NOT_COVERED:
            verdict_line(verdict)
    if silent := [verdict.reference for verdict in judged if verdict.verdict == NOT_COVERED]:
        line(f"{NOT_COVERED} by {', '.join(silent)}", NOT_COVERED, **STYLE[NOT_COVERED])


def _others(cells: Sequence[Cell], most: int) -> None:
    """Heads and formulas of the first of many."""
    for cell in cells[:most]:
        chosen = "" if cell.selector is None else f", selector {cell.selector}"
        line(f"{cell.fragment.id} on {cell.arch}{chosen}, {cell.known}", cell.fragment.id, bold=True)
        _formulas(cell)
        if cell.selector is not None:
            line(f"  {selected_words(cell)}")
        if who := [verdict.reference for verdict in _verdicts_on(cell) if verdict.verdict == CONFIRMED]:
            line(f"  {CONFIRMED} by {', '.join(who)}", CONFIRMED, **STYLE[CONFIRMED])
    if len(cells) > most:
        click.echo(f"and {len(cells) - most} more, which --full shows")


def _head(cell: Cell, folds: bool = True) -> None:
    """Whose table it is, what the operand is, the formulas; `folds` long lines, or leaves them whole."""
    fragment, say = cell.fragment, partial(line, folds=folds)
    layout = f" .{fragment.layout}" if fragment.layout else ""
    say(f"{fragment.id} on {cell.arch}, {cell.known}", fragment.id, bold=True)
    size = f"{fragment.rows} rows" if fragment.role is Role.ADDRESS else f"{fragment.rows} x {fragment.cols}"
    say(
        f"operand {fragment.operand.upper()}{layout}, {size} of {fragment.type}; "
        f"{fragment.elements} elements per lane in {fragment.registers} registers of {fragment.register_bits} bits"
    )
    _formulas(cell, folds)


def _formulas(cell: Cell, folds: bool = True) -> None:
    fit, say = fitted(cell.table), partial(line, folds=folds)
    for name in cell.table.outputs:
        formula, head = fit.formulas[name], f"  {name} = "
        say(head + (str(formula) if formula else "no closed form"), head, **NAME)
    named_parts(fit.formulas.values())
    if fit.contradiction:
        say(f"  not linear: {fit.contradiction}")


def _holder(table: Table) -> str:
    return "lane" if table.threads <= WARP else "thread"


def _draw(pictures: Iterator[tuple[str, Iterator[str]]] | Sequence[tuple[str, Iterator[str]]]) -> None:
    for title, lines in pictures:
        click.echo(bold(f"\n{title}"))
        click.echo("\n".join(lines))


def drawings(table: Table, fragment: Fragment) -> Iterator[tuple[str, Iterator[str]]]:
    """Title and lines of the drawing of elements and of that of lanes; of an address of the only one."""
    if fragment.role is Role.ADDRESS:
        yield "lane -> row that its address points to; -: the address is ignored", grid.addresses(table, width())
        return
    holder = _holder(table)
    yield f"element (row, col) -> {holder}:i", grid.matrix(table, width(), fragment.span)
    if fragment.role is Role.METADATA:
        yield "lane that is read -> row,col whose index is in bits of its register", grid.bits(table, fragment, width())
        return
    yield f"{holder} -> row,col of each register's elements, low bits first", grid.lanes(table, fragment, width())
