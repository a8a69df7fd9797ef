"""Experiments: what is launched to measure a fragment or an instruction, and what its outputs say.

One file per family, a module with `experiments()`; adding a family is adding a file. A module with KIND too has
dialogues, whose findings are no tables but of that kind (`store.kinds`). What comes back from a decoded experiment is a
small dict of arrays, of tables:

- a wmma fragment: "elements", the number row * cols + col that each slot holds, -1 where it holds none
- a multiply: "a", "b", "d", the triples of the structure tensor, and "c", the D slot of each C slot
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType

from tcprobe.probes.experiment import Dialogue, Experiment
from tcprobe.store.measurement import TABLE


@cache
def experiments() -> MappingProxyType[str, Experiment]:
    """The experiments that conclude tables, by id: those that others lean on first."""
    every = [experiment for module in _modules() if not hasattr(module, "KIND") for experiment in module.experiments()]
    return MappingProxyType({e.id: e for e in sorted(every, key=lambda e: not e.early)})


@cache
def dialogues(kind: str) -> MappingProxyType[str, Dialogue]:
    """The experiments that conclude findings of another kind, by subject; empty for a kind without any."""
    every = [one for module in _modules() if getattr(module, "KIND", "") == kind for one in module.experiments()]
    return MappingProxyType({one.id: one for one in every})


def of_kind(kind: str) -> Mapping[str, Experiment | Dialogue]:
    """All experiments of a kind by id, tables among the kinds."""
    return experiments() if kind == TABLE else dialogues(kind)


@cache
def _modules() -> tuple[ModuleType, ...]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return tuple(module for module in modules if hasattr(module, "experiments"))
