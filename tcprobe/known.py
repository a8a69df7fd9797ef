"""A fragment's table on an arch and what it rests on: measured there, or only documented.

>>> from tcprobe.known import load
>>> known = load("wmma.m16n16k16.d.f32", "sm_70")
>>> known.arch, known.table.at(lane=0, i=2), known.measured.method
('sm_70', {'row': 2, 'col': 0}, 'sass')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tcprobe import arch, inventory, lookup
from tcprobe.errors import UsageError
from tcprobe.instruction import Fragment, Instruction
from tcprobe.measurement import Measurement, how
from tcprobe.results import Results
from tcprobe.table import Table

if TYPE_CHECKING:
    from tcprobe.references import Claim


@dataclass(frozen=True)
class Known:
    """`measured` is the measurement that `table` comes from; where it is None, `stated` names the reference and place.

    A documented table is what the source means: without its known errata.
    """

    fragment: Fragment
    arch: str
    table: Table
    measured: Measurement | None
    results: Results
    stated: tuple[str, Claim] | None = None

    @property
    def evidence(self) -> str:
        """What the table rests on, in words."""
        if self.measured:
            return f"measured: {how(self.measured)}, tcprobe {self.measured.provenance['tcprobe']}"
        assert self.stated is not None
        name, claim = self.stated
        return f"documented only, by {name}, {claim.where}; not measured on {self.arch}"

    @property
    def numbering(self) -> str:
        """What anchors row, column and k numbers."""
        if self.measured:
            return self.measured.numbering or ""
        return self.stated[0] if self.stated else ""


def known(fragment: Fragment, name: str | None, results: Results) -> Known:
    """The table of a fragment on arch `name`; without a name on the arch with the strongest, newest measurement.

    UsageError where the arch does not have the fragment, or nobody says anything of it.
    """
    if name == "all":
        raise UsageError("one arch is needed here, not all.")
    found = lookup.measured(fragment, name, results)
    if found:
        return Known(fragment, found[-1].arch, found[-1].tables[fragment.operand], found[-1], results)
    from tcprobe.references import documented

    rows = [arch.arch(name)] if name else list(arch.ARCHS)
    for row in reversed([row for row in rows if fragment.target.on(row)]):
        stated = documented(fragment, row)
        if stated:
            return Known(fragment, row.name, stated[1].meant, None, results, stated)
    raise lookup.no_table(fragment, name, results)


def load(name: str, arch: str | None = None, results: Path | None = None) -> Known:
    """The table of the fragment that `name` means (it may be shortened), from the published results or a folder.

    Without `arch` from the arch with the strongest, newest measurement. UsageError as `known`, and where the name
    means no fragment or several.
    """
    return known(inventory.resolve(name), arch, lookup.folder_of(results))


def operands(instruction: Instruction, name: str | None, results: Results) -> dict[str, Known]:
    """The tables of a, b, c and d on one arch: `name`, or the one where D has the strongest, newest measurement."""
    fragments = [inventory.fragment(f.id) for f in instruction.fragments]
    at = known(fragments[-1], name, results).arch
    return {f.operand: known(f, at, results) for f in fragments}


def for_emit(fragments: Sequence[Fragment], name: str | None, results: Results) -> list[Known]:
    """The tables of fragments on arch `name`, or on the arch of the last one's strongest measurement.

    With "all" on every arch that has the fragment, ascending, documented ones included.
    """
    if name == "all":
        return [
            known(fragment, row.name, results)
            for fragment in fragments
            for row in arch.ARCHS
            if fragment.target.on(row)
        ]
    at = name or known(fragments[-1], None, results).arch
    return [known(fragment, at, results) for fragment in fragments]


def everywhere(fragment: Fragment, name: str | None, results: Results) -> list[Known]:
    """As `known`, but for "all" on every arch that has a measurement."""
    if name != "all":
        return [known(fragment, name, results)]
    return [
        Known(fragment, m.arch, m.tables[fragment.operand], m, results)
        for m in lookup.measured(fragment, "all", results)
    ]
