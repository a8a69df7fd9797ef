"""A fragment's table on an arch and what it rests on: measured there, or only documented.

>>> from tcprobe.store.cell import load
>>> cell = load("wmma.m16n16k16.d.f32", "sm_70")
>>> cell.arch, cell.table.at(lane=0, i=2), cell.measured.method
('sm_70', {'row': 2, 'col': 0}, 'sass')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, Arch
from tcprobe.isa.arch import arch as find_arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.operand import WHOLE, Role
from tcprobe.layout.table import Table
from tcprobe.references import Claim, claims
from tcprobe.store import choose
from tcprobe.store.choose import Found, Layers, alone, layers_of
from tcprobe.store.finding import PUBLISHED, Measurement, how, source_words
from tcprobe.store.results import Results, published

if TYPE_CHECKING:
    from pathlib import Path


DOCUMENTED = "documented"


@dataclass(frozen=True, repr=False)
class Cell:
    """`measured` is the measurement that `table` comes from; where it is None, `stated` names the reference and place.

    `selector` is the one whose table this is, where there is one for each (`selections`). `source` is "published" or
    the folder that holds it. A documented table is what the reference means: without its known errata.
    """

    fragment: Fragment
    arch: str
    table: Table
    measured: Measurement | None
    layers: Layers
    source: str = PUBLISHED
    stated: tuple[str, Claim] | None = None
    selector: int | None = None

    def __repr__(self) -> str:
        f = self.fragment
        return f"<{f.id} on {self.arch}, {f.rows} x {f.cols} of {f.type}, {self.known}>"

    def _repr_html_(self) -> str:
        """For a notebook: whose table, on what evidence, and the matrix with its holders."""
        from html import escape

        from tcprobe.layout.grid import addresses, matrix

        title = f"<b>{escape(self.fragment.id)}</b> on {self.arch}, {escape(self.evidence)}"
        drawn = addresses(self.table, 120) if self.fragment.role is Role.ADDRESS else matrix(self.table, 120)
        return f"{title}<pre>{escape(chr(10).join(drawn))}</pre>"

    def in_cta(self, thread: int) -> dict[str, int]:
        """What a table of a whole CTA says of a thread beside its number in a warp or warpgroup: nothing here."""
        del thread
        return {}

    @property
    def in_memory(self) -> bool:
        """Whether it is a layout of memory, whose slots are element offsets."""
        return False

    @property
    def judged(self) -> Fragment:
        """The fragment that references speak of: the cell's own."""
        return self.fragment

    @property
    def alike(self) -> list[str]:
        """Ids of the other fragments of the arch that have the very same table, in the inventory's order."""
        if self.measured is None:
            return []
        layout = self.measured.tables[self.fragment.operand].id
        return [id_ for id_ in self.layers.sharing(layout, self.arch, self.fragment) if id_ != self.fragment.id]

    @property
    def how(self) -> str:
        """The method of its measurement, or DOCUMENTED."""
        return self.measured.method if self.measured else DOCUMENTED

    @property
    def known(self) -> str:
        """How the table is known, in few words."""
        words = {"live": "measured live", "sass": "from machine code", "derived": "derived from machine code"}
        return {**words, DOCUMENTED: "documented only"}.get(self.how, self.how)

    @property
    def evidence(self) -> str:
        """What the table rests on and where it comes from, in words."""
        if self.measured:
            by = f"tcprobe {self.measured.provenance['tcprobe']}"
            words = f"measured: {how(self.measured)}, {by}, {source_words(self.source)}"
            other = self.contradicted
            return f"{words}; ANOTHER TABLE than the published one ({how(other.measured)})" if other else words
        assert self.stated is not None
        name, claim = self.stated
        return f"documented only, by {name}, {claim.where}; not measured on {self.arch} in {self.layers.words}"

    @property
    def contradicted(self) -> Found | None:
        """The published measurement of the fragment on the arch that says otherwise, None where none does."""
        if self.measured is None or self.source == PUBLISHED:
            return None
        counting = alone(published()).choose(self.fragment, [self.arch])
        if counting is None:
            return None
        table = counting.table(self.fragment)
        own = self.measured.tables[self.fragment.operand]
        return counting if table != own else None

    @property
    def numbering(self) -> str:
        """What anchors row, column and k numbers."""
        if self.measured:
            return self.measured.numbering or ""
        return self.stated[0] if self.stated else ""


def cell(fragment: Fragment, arch: str | None, results: Results | Layers) -> Cell:
    """As `find`; UsageError where there is no table."""
    if found := find(fragment, arch, results):
        return found
    raise no_table(fragment, arch, layers_of(results))


def find(fragment: Fragment, arch: str | None, results: Results | Layers) -> Cell | None:
    """The table of a fragment on an arch; without one on that whose measurement counts most (`Layers.usual_archs`), or
    the first that has it. None where the arch does not have the fragment, or no table of it is known.

    What is only documented is part of what is published, not of a folder alone.
    """
    if arch == "all":
        raise UsageError("one arch is needed here, not all.")
    layers = layers_of(results)
    if make := getattr(fragment, "make", None):  # what a text describes
        made: Cell = make(arch, layers)
        return made
    chosen = layers.choose(fragment, choose.archs_of(arch, layers) if arch else layers.usual_archs(fragment))
    if chosen:
        return measured_cell(fragment, chosen, layers)
    rows = [find_arch(arch)] if arch else ARCHS
    cells = (_documented(fragment, row, layers) for row in rows if layers.with_published)
    return next((one for one in cells if one), None)


def no_table(fragment: Fragment, arch: str | None, layers: Layers) -> UsageError:
    """Why there is nothing to show of a fragment."""
    archs = choose.archs_of(arch, layers)
    saved = next(layers.saved(fragment.experiment, archs), None)
    words = f" {saved.measured.arch} {saved.measured.status} it: {saved.measured.words}." if saved else ""
    where = f" on {archs[0]}" if len(archs) == 1 else ""
    at = archs[0] if archs else "sm_90"
    words = f"no table of {fragment.id}{where} in {layers.words}.{words}"
    return UsageError(words, "no table", id=fragment.id, arch=at)


def by_arch(fragment: Fragment, archs: Iterable[str], layers: Layers, documented: bool = True) -> dict[str, Cell]:
    """The cells of a fragment on those archs that have one: measured there, else, where that is wanted, documented."""
    cells: dict[str, Cell] = {}
    for arch in archs:
        chosen = layers.choose(fragment, [arch])
        one = measured_cell(fragment, chosen, layers) if chosen else None
        if one := one or (_documented(fragment, find_arch(arch), layers) if documented else None):
            cells[arch] = one
    return cells


def _documented(fragment: Fragment, of_arch: Arch, layers: Layers) -> Cell | None:
    """What is documented of a fragment on an arch that has it."""

    claim = stated(fragment, of_arch) if fragment.target.on(of_arch) else None
    return Cell(fragment, of_arch.name, claim[1].meant, None, layers, stated=claim) if claim else None


def measured_cell(fragment: Fragment, chosen: Found, layers: Layers) -> Cell:
    """The table of a fragment in a measurement that has one."""
    return Cell(fragment, chosen.measured.arch, chosen.table(fragment), chosen.measured, layers, chosen.source)


def selections(cell: Cell, selector: int | None = None) -> list[Cell]:
    """The table of each documented selector, or of the one asked for; just the cell if no selector changes it.

    UsageError where the fragment does not have that selector.
    """
    known = cell.fragment.selectors
    if selector is not None and selector not in known:
        given = f"it has {', '.join(map(str, known))}" if known else "it has none"
        raise UsageError(f"{cell.fragment.id} has no selector {selector}: {given}.")
    if cell.selector is not None or not known:
        return [cell]
    chosen = known if selector is None else (selector,)
    return [replace(cell, table=cell.table.selection(number), selector=number) for number in chosen]


def selection(cell: Cell, selector: int | None = None) -> Cell:
    """The one table that is meant; UsageError as `selections`, and where there are several and none is asked for."""
    tables = selections(cell, selector)
    if len(tables) > 1:
        raise UsageError(f"{cell.fragment.id} has {len(tables)} selectors: choose one with `selector`.")
    return tables[0]


def selected(cells: Iterable[Cell], selector: int | None, every: bool = False) -> list[Cell]:
    """`selection` of those cells that a selector changes, the others as they are; UsageError if it changes none.

    With `every` the tables of all selectors, unless one is asked for.
    """
    listed = list(cells)
    if selector is not None and not any(cell.fragment.selectors for cell in listed):
        raise UsageError(f"{listed[0].fragment.id} has no selector: remove `selector`.")
    take, choosy = selections if every else _one, max((len(cell.fragment.selectors) for cell in listed), default=0)
    return [one for cell in listed for one in take(cell, selector if _is_selector_of(cell, choosy) else None)]


def _is_selector_of(cell: Cell, choosy: int) -> bool:
    """Whether a number selects this cell; beside one with several selectors, not one with a single selector."""
    return len(cell.fragment.selectors) >= min(choosy, 2) > 0


def _one(cell: Cell, selector: int | None) -> list[Cell]:
    return [selection(cell, selector)]


def require_warps(cell: Cell) -> None:
    """UsageError for a layout whose threads are no whole warps: instructions and exchanges are those of a warp."""
    threads = cell.table.threads
    if threads % WARP:
        raise UsageError(f"{cell.fragment.id} has {threads} threads, no whole warps: a multiple of {WARP} is needed.")


def require_selection(cell: Cell) -> None:
    """UsageError for the tables of all selectors together, if one is needed."""
    if cell.fragment.selectors and cell.selector is None:
        raise UsageError(f"{cell.fragment.id} has a table for each selector: choose one with `selection`.")


def sources(cells: Iterable[Cell]) -> str:
    """Where tables come from, each place once."""
    return ", ".join(dict.fromkeys(cell.source for cell in cells))


def load(name: str, arch: str | None = None, results: Path | None = None, only: bool = False) -> Cell:
    """The table of the fragment that `name` means (it may be shortened).

    From `results` over what is published, or with `only` from that folder alone; without a folder from `./results`
    over what is published. Without `arch` from the arch whose measurement counts most: of those in the folder, if it
    has any, else of all, the one with the strongest method, then the newest. UsageError as `known`, and where the name
    means no fragment or several.
    """
    from tcprobe.store import choose

    return cell(resolve(name).fragment, arch, choose.layers(results, only))


def operands(instruction: Instruction, arch: str | None, results: Results | Layers) -> dict[str, Cell]:
    """The tables of all operands on one arch: `arch`, or the one whose measurement of the last matrix counts most."""
    fragments = [inventory.fragment(f.id) for f in instruction.fragments]
    at = cell(_last(fragments), arch, results).arch
    return {f.operand: cell(f, at, results) for f in fragments}


def find_operands(instruction: Instruction, arch: str | None, results: Results | Layers) -> dict[str, Cell] | None:
    """As `operands`, None where one has no table."""
    fragments = [inventory.fragment(f.id) for f in instruction.fragments]
    last = find(_last(fragments), arch, results)
    cells = {f.operand: find(f, last.arch, results) for f in fragments} if last else {}
    found = {operand: cell for operand, cell in cells.items() if cell}
    return found if len(found) == len(fragments) else None


def _last(fragments: Sequence[Fragment]) -> Fragment:
    return [fragment for fragment in fragments if fragment.role in WHOLE][-1]


def for_emit(fragments: Sequence[Fragment], arch: str | None, results: Results | Layers) -> list[Cell]:
    """The tables of fragments on an arch, or without one on that whose measurement of the last one counts most.

    With "all" on every arch that has a table of the fragment, ascending, documented ones included.
    """
    layers = layers_of(results)
    if arch == "all":
        return [table for fragment in fragments for table in _on_every_arch(fragment, layers)]
    at = arch or cell(fragments[-1], None, layers).arch
    return [cell(fragment, at, layers) for fragment in fragments]


def emittable(
    fragments: Sequence[Fragment], arch: str | None, results: Results | Layers
) -> tuple[list[Cell], list[Fragment]]:
    """As `for_emit`, and the fragments of which there is no table there; UsageError where there is none at all."""
    if len(fragments) == 1 or arch == "all":
        return for_emit(fragments, arch, results), []
    layers = layers_of(results)
    at, cells, without = arch, [], []
    for fragment in reversed(fragments):  # the last one chooses the arch
        if one := find(fragment, at, layers):
            at = at or one.arch
            cells.append(one)
        else:
            without.append(fragment)
    if not cells:
        raise no_table(without[0], at, layers)
    return cells[::-1], without[::-1]


def _on_every_arch(fragment: Fragment, layers: Layers) -> list[Cell]:
    if make := getattr(fragment, "make", None):  # what a text describes: on the archs of the multiply that it repeats
        atom = getattr(fragment, "atom", None)
        names = [one.arch for one in _on_every_arch(atom, layers)] if atom else [row.name for row in ARCHS]
        return [make(name, layers) for name in names]
    if layers.with_published:
        return list(by_arch(fragment, [row.name for row in ARCHS], layers).values())
    cells = _everywhere(fragment, "all", layers)
    if not cells:
        raise no_table(fragment, "all", layers)
    return cells


def tables_of(
    fragments: Sequence[Fragment], arch: str | None, selector: int | None, layers: Layers
) -> tuple[list[Cell], list[Fragment]]:
    """The tables of fragments `everywhere`, those of each selector or of one, and the fragments that have none.

    UsageError where none of them has a table. Of several fragments `selector` counts for those that one changes.
    """
    tables = {fragment: _everywhere(fragment, arch, layers) for fragment in fragments}
    without = [fragment for fragment, cells in tables.items() if not cells]
    if len(without) == len(tables):
        raise no_table(fragments[0], arch, layers)
    return [
        one
        for fragment, cells in tables.items()
        for cell in cells
        for one in selections(cell, selector if fragment.selectors or len(tables) == 1 else None)
    ], without


def on_archs(fragment: Fragment, archs: Sequence[str | None], layers: Layers) -> tuple[list[Cell], list[str]]:
    """The tables of a fragment on several archs, and why some have none; UsageError where none has one."""
    cells, missing = [], []
    for arch in archs:
        if found := find(fragment, arch, layers):
            cells.append(found)
        elif fragment.target.on(device := find_arch(arch or "")):
            missing.append(str(no_table(fragment, arch, layers)))
        else:
            missing.append(f"{device.name} does not have it")
    if not cells:
        raise no_table(fragment, archs[0], layers)
    return cells, missing


def _everywhere(fragment: Fragment, arch: str | None, layers: Layers) -> list[Cell]:
    """As `find`, but for "all" on every arch that has a measurement."""
    if arch != "all" or hasattr(fragment, "make"):
        return [one] if (one := find(fragment, None if arch == "all" else arch, layers)) else []
    return list(by_arch(fragment, layers.archs(), layers, documented=False).values())


FIGURE = " as a figure only"


def stated(fragment: Fragment, arch: Arch) -> tuple[str, Claim] | None:
    """What is documented of a fragment on an arch, and by which reference; None where nothing is.

    A figure says the same of every arch, but in no form that could be compared: where an arch of which tcprobe
    publishes a live measurement has the fragment, its table is the one that is drawn.
    """
    silent = []
    for name, claim in claims(fragment, arch):
        if isinstance(claim, Claim):
            return name, claim
        silent.append((name, claim))
    name, why = silent[0]
    drawn = _claim_of_figure(fragment, arch, why) if why.endswith(FIGURE) else None
    return (name, drawn) if drawn else None


@cache
def _claim_of_figure(fragment: Fragment, arch: Arch, figure: str) -> Claim | None:
    """What the first reference draws in a figure, where no reference states more."""
    others = [other.name for other in ARCHS if other != arch]
    saved = (found for id_ in _alike(fragment) for found in _below().saved(id_, others, ["live"]))
    live = next((found for found in saved if fragment.operand in found.measured.tables), None)
    if live is None:
        return None
    table = live.measured.tables[fragment.operand]
    section = figure.partition(" shows ")[0]
    where = f"{section} as a figure, which is the table measured live on {live.measured.arch}"
    return Claim(table, where, None, table)


def _alike(fragment: Fragment) -> list[str]:
    """The form itself, then those that share its figures: of one opcode and shape, with the same types of A and B."""
    row = inventory.instructions()[fragment.experiment]
    return sorted(_by_figure(row.family)[_figure(row)], key=lambda id_: id_ != row.id)


@cache
def _by_figure(family: str) -> dict[tuple[object, ...], list[str]]:
    same: dict[tuple[object, ...], list[str]] = {}
    for row in inventory.of_family(family):
        same.setdefault(_figure(row), []).append(row.id)
    return same


def _figure(row: Instruction) -> tuple[object, ...]:
    return row.name.partition(".sync")[0], row.shape, tuple((f.operand, f.type) for f in row.factors)


@cache
def _below() -> Layers:
    """What tcprobe publishes."""
    return alone(published())
