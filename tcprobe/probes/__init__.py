"""Experiments: the kernels that measure an instruction or a fragment, and how their outputs are decoded.

    ptx, slots, experiment, timing                 common
    multiply, wmma, moves, sparse*, block_scale    of a warp
    wgmma, descriptors                             of warpgroups, and behind descriptors
    banks, tensor_*                                memory
    numerics*, cost_*                              arithmetic and cost

Each family is a module with `experiments()`; to add a family, add a file. FAMILY.ptx has its PTX, as macros. A module
that also has KIND contains dialogues; their findings are of that kind (`store.kinds`), not tables. An experiment on
tables decodes its outputs into a small dict of arrays:

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
from tcprobe.store.finding import TABLE


@cache
def experiments() -> MappingProxyType[str, Experiment]:
    """Experiments that conclude tables, by id. Those that others depend on come first."""
    every = [experiment for module in _modules() if not hasattr(module, "KIND") for experiment in module.experiments()]
    return MappingProxyType({e.id: e for e in sorted(every, key=lambda e: not e.early)})


@cache
def dialogues(kind: str) -> MappingProxyType[str, Dialogue]:
    """Experiments that conclude findings of another kind, by subject; empty if the kind has none."""
    every = [
        dialogue for module in _modules() if getattr(module, "KIND", "") == kind for dialogue in module.experiments()
    ]
    return MappingProxyType({dialogue.id: dialogue for dialogue in every})


def of_kind(kind: str) -> Mapping[str, Experiment | Dialogue]:
    """All experiments of a kind (tables are one), by id."""
    return experiments() if kind == TABLE else dialogues(kind)


@cache
def _modules() -> tuple[ModuleType, ...]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return tuple(module for module in modules if hasattr(module, "experiments"))
