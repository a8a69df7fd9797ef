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
from tcprobe.references import documented
from tcprobe.store.choose import Layers, alone
from tcprobe.store.results import Results

DOCUMENTED = "documented"


class Known(NamedTuple):
    """How a table is known: the method of its measurement or DOCUMENTED, and the table."""

    how: str
    table: Table


Facts = Mapping[str, Mapping[str, Known]]  # by fragment id and arch, both in their order


def facts(results: Results) -> Facts:
    """All that is known of a folder's archs."""
    layers, archs = alone(results), results.archs()
    saved = {name: _experiments(layers, name) for name in archs}
    by_fragment: dict[str, dict[str, Known]] = {}
    for fragment in inventory.fragments().values():
        for name in archs:
            one = _measured(fragment, name, layers) if fragment.experiment in saved[name] else None
            one = one or _stated(fragment, name)
            if one:
                by_fragment.setdefault(fragment.id, {})[name] = one
    return by_fragment


def _experiments(layers: Layers, name: str) -> set[str]:
    """What is saved of an arch; asking for each experiment by itself would look for tens of thousands of files."""
    folders = ((layer.results, method) for layer in layers.layers for method in layer.results.methods(name))
    return {experiment for results, method in folders for experiment in results.experiments(name, method)}


def _measured(fragment: Fragment, name: str, layers: Layers) -> Known | None:
    chosen = layers.choose(fragment, [name])
    return Known(chosen.measured.method, chosen.table(fragment)) if chosen else None


def _stated(fragment: Fragment, name: str) -> Known | None:
    row = arch(name)
    stated = documented(fragment, row) if fragment.target.on(row) else None
    return Known(DOCUMENTED, stated[1].meant) if stated else None
