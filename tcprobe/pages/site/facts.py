"""Facts: what every page is made from. Of each fragment its cells by arch, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from tcprobe.ask.absent import reason
from tcprobe.ask.compare import Verdict, verdicts
from tcprobe.errors import UsageError
from tcprobe.fit import Fit, fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, WARPGROUP, Target
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.fragment import Fragment, Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.pages.site import addresses
from tcprobe.sass import lowering
from tcprobe.sass.lowering import Lowering
from tcprobe.store.cell import Cell, by_arch, find
from tcprobe.store.choose import Found, Layers
from tcprobe.store.finding import made_by
from tcprobe.values import Json

BADGES = {
    "live": ("L", "measured live on a GPU"),
    "sass": ("M", "read from machine code"),
    "derived": ("D", "derived from machine code"),
    "same-opcode": ("O", "another arch's layout of an opcode with the same encoding"),
    "emulated": ("E", "emulated, not measured"),
    "documented": ("d", "documented only"),
    "absent": ("-", "the arch does not have it"),
    "unknown": ("?", "neither measured nor documented"),
}


@cache
def is_allowed(needed: Target, arch: str) -> bool:
    """Whether an arch has what needs a target; cached, since few targets are checked for every fragment and arch."""
    return needed.on(arch_row(arch)) is not None


@dataclass(frozen=True)
class Fact:
    """A fragment, and its cells by arch, those that have one; `main` is the one with the strongest evidence.

    Fragments that differ in N alone, and of which the same is known, are one fact: `sizes` are their cells by rising N,
    of which the last is `main`.
    """

    fragment: Fragment
    cells: Mapping[str, Cell]
    main: Cell
    layers: Layers
    sizes: tuple[Cell, ...] = ()

    @property
    def id(self) -> str:
        """The fragment's; of one for every N with that letter instead of a number."""
        return for_every_n(self.fragment.id, self.fragment.shape) if self.sizes else self.fragment.id

    @property
    def shape(self) -> str:
        """The shape, in the same way."""
        return for_every_n(str(self.fragment.shape), self.fragment.shape) if self.sizes else str(self.fragment.shape)

    @property
    def each(self) -> tuple[Cell, ...]:
        """The cells of every N, or the one cell."""
        return self.sizes or (self.main,)

    @property
    def grows(self) -> bool:
        """Whether the table depends on N."""
        return len({cell.table.id for cell in self.sizes}) > 1

    def of_n(self, id_: str) -> int:
        """The N of one of its fragments."""
        return next(cell.fragment.shape.n for cell in self.each if cell.fragment.id == id_)

    def kind(self, arch: str) -> str:
        """A key of BADGES: how the cell of an arch was obtained."""
        if cell := self.cells.get(arch):
            return cell.how
        return "unknown" if is_allowed(self.fragment.target, arch) else "absent"

    def why(self, arch: str) -> str:
        """Why an arch has no table."""
        return reason(self.fragment, arch, self.layers, self.main.table)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The different tables by layout id, that of `main` first."""
        return {self.main.table.id: self.main.table} | {c.table.id: c.table for c in self.cells.values()}

    @cached_property
    def fit(self) -> Fit:
        """Formulas of the main table."""
        return fitted(self.main.table)

    def verdicts(self, arch: str) -> list[Verdict]:
        """What references say of an arch's table, where it is measured."""
        measured = self.cells[arch].measured
        return verdicts(self.fragment, measured) if measured else []

    def evidence(self, arch: str) -> list[Found]:
        """All measurements on an arch that found the table of its cell."""
        table = self.cells[arch].table
        return [saved for saved in self.layers.tables(self.fragment, [arch]) if saved.table(self.fragment) == table]


@dataclass(frozen=True)
class Facts:
    """All facts by fragment id, and where they come from."""

    layers: Layers
    facts: Mapping[str, Fact]

    @cached_property
    def instructions(self) -> dict[str, Instruction]:
        """Instructions whose operands in registers all have a fact."""
        rows = [*inventory.executed_by(WARP), *inventory.executed_by(WARPGROUP)]
        there = [row for row in rows if row.fragments and all(f.id in self.by_fragment for f in row.fragments)]
        drawn = {cell.fragment.id for fact in self.facts.values() for cell in fact.each[:1]}  # of every N the smallest
        return {self.name(row): row for row in there if all(f.id in drawn for f in row.fragments)}

    @cached_property
    def page_names(self) -> dict[str, str]:
        """What the page of each instruction is called, of those that have one."""
        rows = inventory.instructions()
        there = {
            row.id: self.name(row)
            for row in rows.values()
            if row.fragments and all(f.id in self.by_fragment for f in row.fragments)
        }
        return {id_: name for id_, name in there.items() if name in self.instructions}

    @cached_property
    def without_source(self) -> list[Fragment]:
        """Fragments that no source describes and nobody has measured: of a form that was added, say."""
        return [fragment for id_, fragment in inventory.fragments().items() if id_ not in self.by_fragment]

    @cached_property
    def bare(self) -> dict[str, Instruction]:
        """Instructions without a table of each operand in registers: they have none there, or none is known."""
        return {id_: row for id_, row in inventory.instructions().items() if id_ not in self.page_names}

    @cached_property
    def count_text(self) -> str:
        """How many ids `list` has, of which kind, and how many have a table: the same on every page."""
        rows = inventory.instructions().values()
        shared, bare = sum(len(row.described) for row in rows), sum(not row.fragments for row in rows)
        fragments = inventory.fragments()
        with_table = sum(id_ in self.by_fragment for id_ in fragments)
        registers = f"{len(fragments)} fragments in registers, of which {with_table} have a table"
        others = f"{shared} operands in shared memory; {bare} instructions that hold nothing in registers"
        return f"{len(fragments) + shared + bare} ids: {registers}; {others}"

    @cached_property
    def by_fragment(self) -> dict[str, Fact]:
        """The fact of each fragment by its id."""
        return {cell.fragment.id: fact for fact in self.facts.values() for cell in fact.each}

    def name(self, instruction: Instruction) -> str:
        """What the page of an instruction is called: of every N with that letter."""
        every = all(self.by_fragment[fragment.id].sizes for fragment in instruction.fragments)
        return for_every_n(instruction.id, instruction.shape) if every else instruction.id

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every layout by id."""
        return {id_: table for fact in self.facts.values() for id_, table in fact.tables.items()} | {
            cell.table.id: cell.table for fact in self.facts.values() for cell in fact.sizes
        }

    @cached_property
    def sharing(self) -> dict[str, list[tuple[Fact, Cell, list[str]]]]:
        """By layout id the facts that have it, each with a cell and its archs."""
        by_layout: dict[str, list[tuple[Fact, Cell, list[str]]]] = {}
        for fact in self.facts.values():
            by_table: dict[str, list[Cell]] = {}
            for cell in (*fact.cells.values(), *(fact.sizes[:-1] if fact.grows else ())):
                by_table.setdefault(cell.table.id, []).append(cell)
            for id_, cells in by_table.items():
                by_layout.setdefault(id_, []).append((fact, cells[0], [cell.arch for cell in cells]))
        return by_layout

    @cached_property
    def lowerings(self) -> dict[str, list[Json]]:
        """What the multiplies of each arch become, nearest folder first."""
        return {row.name: [body for body, _ in self.layers.lowerings(row.name)] for row in ARCHS}

    @cached_property
    def emulations(self) -> dict[str, dict[str, str]]:
        """By arch what multiplies become there that its tensor cores do not do in their own type, by id."""
        rows = inventory.instructions()
        emulated: dict[str, dict[str, str]] = {}
        for arch, bodies in self.lowerings.items():
            merged = {id_: plain for body in reversed(bodies) for id_, plain in body["instructions"].items()}
            lowerings = {id_: Lowering(**plain) for id_, plain in merged.items()}
            multiplies = {id_: row for id_ in lowerings if (row := rows.get(id_)) and row.multiplies}
            emulated[arch] = {
                id_: lowering.words(low, row)
                for id_, row in multiplies.items()
                if not ((low := lowerings[id_]).refused or low.native(row))
            }
        return emulated

    def emulation(self, fragment: Fragment, arch: str) -> str:
        """What the multiplies of a fragment become on an arch, where all of them are emulated; else nothing."""
        emulations = [self.emulations[arch].get(id_, "") for id_ in inventory.user_ids(fragment.id)]
        return emulations[0] if emulations and all(emulations) else ""

    @cached_property
    def made_by(self) -> frozenset[str]:
        """Addresses of the pages of devices that measured a table."""
        measurements = (
            saved.measured for fact in self.facts.values() for saved in self.layers.tables(fact.fragment, self.archs)
        )
        live = (measured.provenance for measured in measurements if measured.method == "live")
        return frozenset(addresses.device(f"{p['device']}, driver {p['driver']}") for p in live)

    @cached_property
    def archs(self) -> list[str]:
        """Archs on which anything is known, ascending."""
        on_archs = {arch for fact in self.facts.values() for arch in fact.cells}
        return [row.name for row in ARCHS if row.name in on_archs]


def gather(layers: Layers) -> Facts:
    """All facts of some folders; UsageError where there is none, DataError where a file cannot be trusted."""
    by_id = {fact.id: fact for fact in _facts(layers)}
    if not by_id:
        raise UsageError(f"no measurements in {layers.words}.", "no measurements")
    return Facts(layers, by_id)


def for_every_n(name: str, shape: Shape) -> str:
    """A name in which N stands for the number: m64nNk16."""
    return name.replace(str(shape), f"m{shape.m}nNk{shape.k}")


def _facts(layers: Layers) -> Iterator[Fact]:
    of_a_warp = (_fact(fragment, layers) for fragment in inventory.of_a_warp().values())
    yield from (fact for fact in of_a_warp if fact)
    by_shape: dict[str, list[Fragment]] = {}  # of a warpgroup, by rising N
    for row in sorted(inventory.executed_by(WARPGROUP), key=lambda row: row.shape.n):
        for fragment in row.fragments:
            by_shape.setdefault(for_every_n(fragment.id, fragment.shape), []).append(fragment)
    for several in by_shape.values():
        yield from _join_facts(several, layers)


def _fact(fragment: Fragment, layers: Layers) -> Fact | None:
    cells = by_arch(fragment, [row.name for row in ARCHS], layers, layers.with_published)
    main = find(fragment, None, layers) if cells else None
    if main is None:
        return None
    opened = main.arch if main.measured else next(iter(cells))  # what is documented only: the first arch that has it
    return Fact(fragment, cells, cells[opened], layers)


def _join_facts(several: Sequence[Fragment], layers: Layers) -> Iterator[Fact]:
    """One fact for all that rest on the same evidence and are parts of the largest; each of the others by itself."""
    cells = [cell for fragment in several if (cell := find(fragment, None, layers))]
    alike: dict[object, list[Cell]] = {}
    for cell in cells:
        # what a cell rests on: arch, method, device and compiler, folder; or the reference that states it
        measured, documented = cell.measured, cell.stated
        origin = (measured.method, *made_by(measured), cell.source) if measured else documented and documented[0]
        alike.setdefault((cell.arch, origin), []).append(cell)
    most = max(alike.values(), key=len, default=[])
    sizes = tuple(cell for cell in most if _is_part(cell.table, most[-1].table))
    covered = {cell.fragment.id for cell in sizes} if len(sizes) > 1 else set()
    largest = _fact(most[-1].fragment, layers) if covered else None
    if largest:
        yield replace(largest, sizes=sizes)
    rest = (_fact(cell.fragment, layers) for cell in cells if cell.fragment.id not in covered)
    yield from (fact for fact in rest if fact)


def _is_part(small: Table, large: Table) -> bool:
    """Whether a table equals a larger one on the elements that it has."""
    if small == large:
        return True
    if small.space.names != large.space.names or len(small.space.axes) > 2 or small.elements > large.elements:
        return False
    if small.threads != large.threads or small.outputs != large.outputs:
        return False
    most, each = small.elements, large.elements
    return all(
        small.values[name][lane * most : (lane + 1) * most] == large.values[name][lane * each : lane * each + most]
        for name in small.outputs
        for lane in range(small.threads)
    )
