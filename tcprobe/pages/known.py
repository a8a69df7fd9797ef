"""Facts first: of each fragment on each arch which measurement counts, or that it is documented only. Pages print it.

A fragment that an arch does not have, or of which nobody says anything there, has no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table
from tcprobe.store.choose import Layers, alone
from tcprobe.store.results import Results
from tcprobe.store.stated import stated

DOCUMENTED = "documented"


class Evidence(NamedTuple):
    """How a table is known: the method of its measurement or DOCUMENTED, and the table."""

    how: str
    table: Table


ByFragment = Mapping[str, Mapping[str, Evidence]]  # by fragment id and arch, both in their order


def facts(results: Results) -> ByFragment:
    """All that is known of a folder's archs."""
    layers, archs = alone(results), results.archs()
    by_fragment: dict[str, dict[str, Evidence]] = {}
    for fragment in inventory.fragments().values():
        for name in archs:
            one = _measured(fragment, name, layers) or _stated(fragment, name)
            if one:
                by_fragment.setdefault(fragment.id, {})[name] = one
    return by_fragment


def _measured(fragment: Fragment, name: str, layers: Layers) -> Evidence | None:
    chosen = layers.choose(fragment, [name])
    return Evidence(chosen.measured.method, chosen.table(fragment)) if chosen else None


def _stated(fragment: Fragment, name: str) -> Evidence | None:
    row = arch(name)
    documented = stated(fragment, row) if fragment.target.on(row) else None
    return Evidence(DOCUMENTED, documented[1].meant) if documented else None
