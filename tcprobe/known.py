"""A fragment's table on an arch and what it rests on: measured there, or only documented."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe import arch, lookup
from tcprobe.describe import how
from tcprobe.instruction import Fragment
from tcprobe.measurement import Measurement
from tcprobe.references import Claim, documented
from tcprobe.results import Results
from tcprobe.table import Table


@dataclass(frozen=True)
class Known:
    """`measured` is the measurement that `table` comes from; where it is None, `stated` names the reference and place.

    A documented table is what the source means: without its known errata.
    """

    fragment: Fragment
    arch: str
    table: Table
    measured: Measurement | None
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
    found = lookup.measured(fragment, name, results)
    if found:
        return Known(fragment, found[-1].arch, found[-1].tables[fragment.operand], found[-1])
    rows = [arch.arch(name)] if name not in (None, "all") else list(arch.ARCHS)
    for row in reversed([row for row in rows if fragment.target.on(row)]):
        stated = documented(fragment, row)
        if stated:
            return Known(fragment, row.name, stated[1].meant, None, stated)
    raise lookup.no_table(fragment, name, results)


def everywhere(fragment: Fragment, name: str | None, results: Results) -> list[Known]:
    """As `known`, but for "all" on every arch that has a measurement."""
    if name != "all":
        return [known(fragment, name, results)]
    return [Known(fragment, m.arch, m.tables[fragment.operand], m) for m in lookup.measured(fragment, "all", results)]
