"""The question `show`: the map of an operand in registers, shared memory or tensor memory, and what it rests on.

One fragment is shown brief, with one picture; several with a few lines each; everything on demand.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol

import click

from tcprobe.ask.compare import CONFIRMED, DIFFERS, NOT_COVERED, STYLE, Verdict, verdict_lines, verdicts
from tcprobe.ask.describe import TableAnswer, cell_answer, cell_entry, notes, selected_words
from tcprobe.ask.operand import (
    OF_DESCRIPTORS,
    BaseOffsetOption,
    DescriptorSwizzleOption,
    InRegisters,
    LboOption,
    MajorOption,
    MOption,
    MulticastOption,
    NOption,
    OperandOptions,
    SboOption,
    SelectorOption,
    StartOption,
    VectorOption,
    given,
    in_place,
    require_no_tensor_memory,
)
from tcprobe.errors import UsageError
from tcprobe.fit import fitted
from tcprobe.fit.formula import manual_names
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout import grid
from tcprobe.layout.grid import glance
from tcprobe.layout.table import Table
from tcprobe.question import terminal
from tcprobe.question.answers import Meta, plain
from tcprobe.question.arguments import arch_name, word, words
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.shared import (
    ArchOption,
    JsonOption,
    OnlyOption,
    PermuteOption,
    ResultsOption,
    SvgOption,
    TileOption,
    WarpsOption,
    tiled_name,
)
from tcprobe.question.terminal import NAME, Styled, pager, width
from tcprobe.store import names as meanings
from tcprobe.store.cell import Cell, on_archs, tables_of
from tcprobe.store.choose import layers
from tcprobe.text import Whole
from tcprobe.values import Json

MOST = 8  # tables that are outlined
MOST_SELECTORS = 4  # that are outlined below the first one's picture


class Shown(Protocol):
    """What is shown of an operand, or of several: lines for people, of which `about` stands out, and `entries`."""

    @property
    def about(self) -> str:
        """Whom it is about, as it stands in its words."""

    @property
    def in_words(self) -> Iterator[str]:
        """Lines for people."""

    @property
    def entries(self) -> Iterable[Json]:
        """Plain data, an object a line of `--json`."""


def show(
    names: Annotated[str | Sequence[str], NameWords("FRAGMENT...", number="many", archs="list")],
    *,
    selector: SelectorOption = None,
    full: Annotated[bool, Option("--full", "Everything: both maps whole, every note, every verdict.")] = False,
    elements: Annotated[bool, Option("--elements", "Draw the whole matrix: who holds each element.")] = False,
    lanes: Annotated[bool, Option("--lanes", "Draw all lanes: what each register holds.")] = False,
    why: Annotated[
        bool, Option("--why", "What the table rests on, link by link, and what would prove it wrong.")
    ] = False,
    tile: TileOption = None,
    warps: WarpsOption = None,
    permute: PermuteOption = None,
    m: MOption = None,
    n: NOption = None,
    vector: VectorOption = None,
    multicast: MulticastOption = None,
    swizzle: DescriptorSwizzleOption = None,
    major: MajorOption = None,
    lbo: LboOption = None,
    sbo: SboOption = None,
    base_offset: BaseOffsetOption = None,
    start: StartOption = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Iterator[Shown]:
    """Show a fragment: formulas, one picture, who shares the layout, the evidence. Several fragments get a few lines
    each. --svg draws the picture of one.

    Without --arch it takes the arch with the strongest method, the newest if several have it: among those measured in
    ./results, or else among all. --arch all shows every one; --arch sm_70,sm_90 puts their formulas side by side. A
    layout that is not measured on an arch is shown as documented. Metadata (operand e of mma.sp) has a table for each
    selector. An operand in shared memory (a_smem and b_smem of wgmma) is shown behind the descriptor given by
    --swizzle, --major, --lbo, --sbo, --base-offset, --start. An operand in tensor memory, or all that an instruction
    has there, is shown for --m, --n, --scale-vec, --multicast. --why lists the probe, the code, the anchor, the
    assumption, and how sure it is. FRAGMENT may be a layout in the notation of CuTe, Triton or Gluon (`tcprobe
    layouts`), over --tile; with --warps a fragment is spread over a CTA's tile. --json prints one object per line.
    """
    folders, at = layers(results, only), arch_name(arch)
    options = OperandOptions(
        folders, at, selector, swizzle, major, lbo, sbo, base_offset, start, m, n, vector, multicast
    )
    view = ShowView(full, elements, lanes, why)
    if why and view.draws:
        raise UsageError("`why` draws nothing: remove `full`, `lanes` and `elements`.")
    listed = [names] if isinstance(names, str) else words("names", names)
    named = [word("names", tiled_name(name, tile, warps, permute)) for name in listed]
    places = [in_place(name, forms=True) for name in named]
    kinds = {type(place).__name__ for place in places}
    if "InSharedMemory" not in kinds and (stated := given(OF_DESCRIPTORS, options)):
        raise UsageError(f"{', '.join(stated)} is for operands in shared memory: wgmma.m64n8k16.f32.f16.f16.b_smem.")
    if "InTensorMemory" not in kinds:
        require_no_tensor_memory(options)
    for kind in ("InSharedMemory", "InTensorMemory"):
        alone = options if kind == "InTensorMemory" or len(places) == 1 else options._replace(selector=None)
        for place in places:
            if type(place).__name__ == kind and not isinstance(place, InRegisters):
                yield from place.shown(alone)
    if in_registers := [place.name for place in places if isinstance(place, InRegisters)]:
        yield from _in_registers(in_registers, options, view)


class ShowView(NamedTuple):
    """What is asked for beyond the brief answer; `why` instead of it."""

    full: bool
    elements: bool
    lanes: bool
    why: bool

    @property
    def draws(self) -> bool:
        """Whether pictures are asked for."""
        return self.full or self.elements or self.lanes


def _in_registers(patterns: Sequence[str], options: OperandOptions, view: ShowView) -> Iterator[Shown]:
    """The tables of all that patterns mean, on an arch or on all; of each its tables on several, side by side."""
    archs = options.arch.split(",") if options.arch else [None]
    if view.why and len(archs) > 1:
        raise UsageError("`why` takes one arch, or all, but not a list.")
    chosen, remarks = meanings.choose_fragments(patterns, archs[-1], options.layers)
    note(*remarks)
    if len(archs) == 1:
        cells, without = tables_of(chosen, options.arch, options.selector, options.layers)
        yield ShownTables(cells, view)
        if without:
            note(f"{len(without)} more fragments have no table here; `tcprobe why-not` says why.")
        return
    for fragment in chosen:
        found, missing = on_archs(fragment, archs, options.layers)
        yield SideBySide(found)
        note(*missing)


def _printed() -> object:
    from tcprobe.ask.shared_operand import SharedMapAnswer
    from tcprobe.ask.tensor_memory import NotPlaced, PlacedAnswer

    kinds = TableAnswer | SharedMapAnswer | PlacedAnswer | NotPlaced
    return Annotated[kinds, Meta(description="A fragment's table on an arch, one object per line.")]


@command(show, short="Formula, map both ways, evidence and verdicts.", json=_printed)
def print_show(
    shown: Iterator[Shown],
    *,
    full: bool,
    elements: bool,
    lanes: bool,
    svg: SvgOption = None,
    as_json: JsonOption = False,
) -> None:
    """Each as it is found; what is drawn whole goes through the pager."""
    draws = full or elements or lanes
    if as_json and draws:
        raise UsageError("`as_json` has everything: remove `full`, `lanes` and `elements`.")
    if svg:
        answers = list(shown)
        _draw(answers, svg)
        shown = iter(answers)
    with pager(draws):
        for each in shown:
            if as_json:
                for entry in each.entries:
                    click.echo(json.dumps(entry))
            else:
                terminal.lines(each.in_words, each.about)


def _draw(answers: Sequence[Shown], svg: Path) -> None:
    """Write the picture of what is shown; UsageError where it has none."""
    from tcprobe.system import files

    if len(answers) != 1 or not isinstance(answers[0], ShownTables):
        raise UsageError("`svg` draws one fragment in registers, on one arch.")
    files.write(svg, answers[0].picture.encode())


class SideBySide(NamedTuple):
    """Tables of a fragment on several archs."""

    cells: Sequence[Cell]

    @property
    def about(self) -> str:
        """The fragment."""
        return self.cells[0].fragment.id

    @property
    def in_words(self) -> Iterator[str]:
        """A line an arch, and which have one table."""
        cells = self.cells
        yield Whole(self.about)
        rows = [("arch", *cells[0].table.outputs, "layout", "known")]
        for cell in cells:
            texts = (str(formula) if formula else "no closed form" for formula in fitted(cell.table).formulas.values())
            rows.append((cell.arch, *texts, cell.table.id, cell.known))
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from (
            Whole("  ".join(text.ljust(size) for text, size in zip(row, wide, strict=True)).rstrip()) for row in rows
        )
        count = len({cell.table.id for cell in cells})
        yield Whole("the same table on all" if count == 1 else f"{count} different tables")

    @property
    def entries(self) -> Iterator[Json]:
        """An object each."""
        return map(cell_entry, self.cells)


class ShownTables(NamedTuple):
    """Tables of one or several fragments: one of them brief, several outlined, or what `view` says of each."""

    cells: Sequence[Cell]
    view: ShowView
    about: str = ""

    @property
    def in_words(self) -> Iterator[str]:
        """Formulas, pictures, evidence and verdicts, as far as they are asked for."""
        cells, view = self.cells, self.view
        if view.why:
            from tcprobe.ask.confidence import why

            for cell in cells:
                name = cell.fragment.id
                yield Styled(f"{name} on {cell.arch}, {cell.known}", name, folds=False, bold=True)
                yield from (f"  {link}" for link in why(cell).lines)
        elif view.draws:
            for cell in cells:
                yield from _whole(cell) if view.full else _drawn(cell, view)
        elif all(cell.fragment is cells[0].fragment and cell.arch == cells[0].arch for cell in cells):
            yield from _brief(cells[0])
            yield from _others(cells[1:], MOST_SELECTORS)
        else:
            yield from _others(cells, MOST)
            yield Whole("`tcprobe show` of one of them draws it; --full shows all, whole")

    @property
    def picture(self) -> str:
        """As SVG the picture of the table that is shown brief; UsageError for several fragments or archs."""
        first = self.cells[0]
        if any(cell.arch != first.arch or cell.fragment is not first.fragment for cell in self.cells):
            raise UsageError("`svg` draws one fragment on one arch; `tcprobe emit --to svg` draws a whole multiply.")
        if first.in_cta(0) and first.table.threads > WARP:
            from tcprobe.ask.tile_picture import tile_picture

            return tile_picture(first) + "\n"
        from tcprobe.ask.matrix_picture import titled_picture

        return titled_picture(first) + "\n"

    @property
    def entries(self) -> Iterator[Json]:
        """An object each, `why` among it where that is asked for."""
        if not self.view.why:
            return map(cell_entry, self.cells)
        from tcprobe.ask.confidence import why

        return (plain(cell_answer(cell, why(cell).answer)) for cell in self.cells)


def _verdicts_on(cell: Cell) -> list[Verdict]:
    return verdicts(cell.judged, cell.measured) if cell.measured else []


def _whole(cell: Cell) -> Iterator[str]:
    """Formula, notes on its layout, both drawings, provenance, verdicts."""
    yield from _head(cell, folds=False)
    yield from map(Whole, notes(cell))
    yield from _pictures(_drawings(cell))
    yield from ("", Whole(cell.evidence), Whole(f"numbers from: {cell.numbering}"))
    for verdict in _verdicts_on(cell):
        yield from verdict_lines(verdict)


def _drawn(cell: Cell, view: ShowView) -> Iterator[str]:
    """Head, formulas and one or both drawings, whole."""
    yield from _head(cell)
    both = list(_drawings(cell))
    wanted = (view.elements, view.lanes)
    yield from _pictures(both if len(both) == 1 else [both[n] for n, is_wanted in enumerate(wanted) if is_wanted])
    yield from ("", cell.evidence)


def _brief(cell: Cell) -> Iterator[str]:
    """Head, formulas, where else, one picture of at most 20 lines, evidence, verdicts."""
    yield from _head(cell)
    yield from notes(cell, brief=True)
    if cell.fragment.role is Role.ADDRESS:
        yield from _pictures(_drawings(cell))
    elif cell.in_memory:
        yield from _pictures([("element (row, col) -> element offset", grid.matrix(cell.table, width()))])
    elif cell.in_cta(0) and cell.table.threads > WARP:
        from tcprobe.ask.written import warp_picture

        yield from _pictures([("block (rows, cols) -> the warps that hold it", warp_picture(cell.table, width()))])
    else:
        picture = glance(cell.table, width(), cell.fragment.span)
        yield from _pictures([(f"element (row, col) -> {_holder(cell.table)}:i", picture)])
    yield from ("", cell.evidence, f"numbers from: {cell.numbering}")
    for verdict in _verdicts_on(cell):
        if verdict.erratum and verdict.verdict == DIFFERS:
            yield f"{verdict.reference}: known erratum ({verdict.detail}): {verdict.erratum}"
        elif verdict.verdict != NOT_COVERED:
            yield from verdict_lines(verdict)
    yield Whole("--elements and --lanes draw it whole, --full prints everything")


def _others(cells: Sequence[Cell], most: int) -> Iterator[str]:
    """Heads and formulas of the first of many."""
    for cell in cells[:most]:
        chosen = "" if cell.selector is None else f", selector {cell.selector}"
        name = cell.fragment.id
        yield Styled(f"{name} on {cell.arch}{chosen}, {cell.known}", name, bold=True)
        yield f"  {_registers(cell.fragment)}"
        yield from _formulas(cell)
        if cell.selector is not None:
            yield f"  {selected_words(cell)}"
        if who := [verdict.reference for verdict in _verdicts_on(cell) if verdict.verdict == CONFIRMED]:
            yield Styled(f"  {CONFIRMED} by {', '.join(who)}", CONFIRMED, **STYLE[CONFIRMED])
    if len(cells) > most:
        yield Whole(f"and {len(cells) - most} more, which --full shows")


def _head(cell: Cell, folds: bool = True) -> Iterator[str]:
    """Whose table it is, what the operand is, the formulas; `folds` long lines, or leaves them whole."""
    fragment = cell.fragment
    layout = f" .{fragment.layout}" if fragment.layout else ""
    yield Styled(f"{fragment.id} on {cell.arch}, {cell.known}", fragment.id, folds, bold=True)
    size = f"{fragment.rows} rows" if fragment.role is Role.ADDRESS else f"{fragment.rows} x {fragment.cols}"
    if cell.in_memory:
        most = cell.table.points - 1
        yield f"memory of {fragment.rows} x {fragment.cols} elements; i is the element offset, 0 to {most}"
        yield from _formulas(cell, folds)
        return
    whose = f"operand {fragment.label}{layout}, " if fragment.label else ""
    yield Styled(f"{whose}{size} of {fragment.type}; {_registers(fragment)}", folds=folds)
    yield from _formulas(cell, folds)


def _registers(fragment: Fragment) -> str:
    noun = "register" if fragment.registers == 1 else "registers"
    return f"{fragment.elements} elements per lane in {fragment.registers} {noun} of {fragment.register_bits} bits"


def _formulas(cell: Cell, folds: bool = True) -> Iterator[str]:
    fit = fitted(cell.table)
    for name in cell.table.outputs:
        formula, head = fit.formulas[name], f"  {name} = "
        yield Styled(head + (str(formula) if formula else "no closed form"), head, folds, **NAME)
    if names := manual_names(fit.formulas.values()):
        yield f"  {names}"
    if fit.contradiction:
        yield Styled(f"  not linear: {fit.contradiction}", folds=folds)


def _holder(table: Table) -> str:
    return "lane" if table.threads <= WARP else "thread"


def _pictures(pictures: Iterable[tuple[str, Iterator[str]]]) -> Iterator[str]:
    """Titles, and lines as they are."""
    for title, lines in pictures:
        yield Styled(f"\n{title}", f"\n{title}", folds=False, bold=True)
        yield Whole("\n".join(lines))


def _drawings(cell: Cell) -> Iterator[tuple[str, Iterator[str]]]:
    """Title and lines of the drawing of elements and of that of lanes; of an address of the only one."""
    table, fragment = cell.table, cell.fragment
    if fragment.role is Role.ADDRESS:
        yield "lane -> row that its address points to; -: the address is ignored", grid.addresses(table, width())
        return
    holder = _holder(table)
    yield f"element (row, col) -> {holder}:i", grid.matrix(table, width(), fragment.span)
    if fragment.role is Role.METADATA:
        yield "lane that is read -> row,col whose index is in bits of its register", grid.bits(table, fragment, width())
        return
    yield f"{holder} -> row,col of each register's elements, low bits first", grid.lanes(table, fragment, width())
