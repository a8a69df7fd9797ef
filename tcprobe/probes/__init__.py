"""Experiments: what is launched to measure a fragment or an instruction, and what its outputs say.

One file per family, a module with `experiments()`; adding a family is adding a file. What comes back from a decoded
experiment is a small dict of arrays:

- a wmma fragment: "elements", the number row * cols + col that each slot holds, -1 where it holds none
- a multiply: "a", "b", "d", the triples of the structure tensor, and "c", the D slot of each C slot
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

from tcprobe.probes.experiment import Experiment


@cache
def experiments() -> MappingProxyType[str, Experiment]:
    """All experiments by id: those that others lean on first."""
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    every = [experiment for module in modules if hasattr(module, "experiments") for experiment in module.experiments()]
    return MappingProxyType({e.id: e for e in sorted(every, key=lambda e: not e.early)})
