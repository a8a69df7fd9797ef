"""Facts: what every page is made from. Of each fragment its cells by arch, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tcprobe.ask.absent import reason
from tcprobe.ask.compare import Verdict, verdicts
from tcprobe.errors import UsageError
from tcprobe.fit import Fit, fitted
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARP, WARPGROUP
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.grid import Block, blocks
from tcprobe.layout.table import Table
from tcprobe.store.cell import Cell, cell
from tcprobe.store.choose import Found, Layers

SHOWN_N = (8, 24)  # of warpgroup multiplies
BADGES = {
    "live": ("L", "measured live on a GPU"),
    "sass": ("M", "read from machine code"),
    "derived": ("D", "derived from machine code"),
    "same-opcode": ("O", "another arch's layout of an opcode with the very same encoding"),
    "emulated": ("E", "emulated, not measured"),
    "documented": ("d", "documented only"),
    "absent": ("-", "the arch does not have it"),
    "unknown": ("?", "neither measured nor documented"),
}


@dataclass(frozen=True)
class Fact:
    """A fragment, and its cells by arch, those that have one; `main` is the one with the strongest evidence."""

    fragment: Fragment
    cells: Mapping[str, Cell]
    main: Cell
    layers: Layers

    @property
    def id(self) -> str:
        """The fragment's."""
        return self.fragment.id

    def kind(self, arch: str) -> str:
        """A key of BADGES: how the cell of an arch was obtained."""
        found = self.cells.get(arch)
        if found:
            return found.measured.method if found.measured else "documented"
        return "unknown" if self.fragment.target.on(arch_row(arch)) else "absent"

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

    @cached_property
    def blocks(self) -> list[Block]:
        """The main table as matrices."""
        return blocks(self.main.table, self.fragment)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """What references say of the main table."""
        return verdicts(self.fragment, self.main.measured) if self.main.measured else []

    def evidence(self, arch: str) -> list[Found]:
        """All measurements on an arch that found the table of its cell."""
        table = self.cells[arch].table
        return [found for found in self.layers.tables(self.fragment, [arch]) if found.table(self.fragment) == table]


@dataclass(frozen=True)
class Facts:
    """All facts by fragment id, and where they come from."""

    layers: Layers
    facts: Mapping[str, Fact]

    @cached_property
    def instructions(self) -> dict[str, Instruction]:
        """Instructions of whose operands in registers all have a fact."""
        rows = [*inventory.executed_by(WARP), *inventory.executed_by(WARPGROUP)]
        return {row.id: row for row in rows if row.fragments and all(f.id in self.facts for f in row.fragments)}

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every layout by id."""
        return {id_: table for fact in self.facts.values() for id_, table in fact.tables.items()}

    @cached_property
    def sharing(self) -> dict[str, list[tuple[Fact, list[str]]]]:
        """By layout id the facts that have it, each with its archs."""
        found: dict[str, list[tuple[Fact, list[str]]]] = {}
        for fact in self.facts.values():
            by_table: dict[str, list[str]] = {}
            for arch, at in fact.cells.items():
                by_table.setdefault(at.table.id, []).append(arch)
            for id_, archs in by_table.items():
                found.setdefault(id_, []).append((fact, archs))
        return found

    @cached_property
    def lowerings(self) -> dict[str, list[dict[str, Any]]]:
        """What the multiplies of each arch become, nearest folder first."""
        return {row.name: [body for body, _ in self.layers.lowerings(row.name)] for row in ARCHS}

    @cached_property
    def archs(self) -> list[str]:
        """Archs on which anything is known, ascending."""
        known = {arch for fact in self.facts.values() for arch in fact.cells}
        return [row.name for row in ARCHS if row.name in known]


def gather(layers: Layers) -> Facts:
    """All facts of some folders; UsageError where there is none, DataError where a file cannot be trusted."""
    found = {fact.id: fact for fact in _facts(layers)}
    if not found:
        raise UsageError(f"no measurements in {layers.words}. `tcprobe run` makes them.")
    return Facts(layers, found)


def _facts(layers: Layers) -> Iterator[Fact]:
    for fragment in _shown():
        cells = {row.name: at for row in ARCHS if (at := _cell(fragment, row.name, layers))}
        main = _cell(fragment, None, layers)
        if main:
            yield Fact(fragment, cells, cells[main.arch], layers)


def _shown() -> Iterator[Fragment]:
    """The fragments that have pages: of a warpgroup's those of few N, whose formulas are those of every N."""
    yield from inventory.of_a_warp().values()
    for row in inventory.executed_by(WARPGROUP):
        if row.shape.n in SHOWN_N:
            yield from row.fragments


def _cell(fragment: Fragment, arch: str | None, layers: Layers) -> Cell | None:
    try:
        return cell(fragment, arch, layers)
    except UsageError:
        return None
