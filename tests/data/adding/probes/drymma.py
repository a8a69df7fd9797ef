"""The probes of that family: every slot of every operand says which element it holds."""

from dataclasses import dataclass

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.arch import WARPGROUP
from tcprobe.layout.structure import predict_hash
from tcprobe.layout.table import selected, slot_table
from tcprobe.probes import ptx
from tcprobe.probes.experiment import Conclusion, FormExperiment
from tcprobe.probes.ptx import Kernel, Launch


@dataclass(frozen=True)
class Say:
    """Row and column of every slot of a fragment, for each selector; -1 where it holds nothing."""

    fragment: object
    from_code: bool = False

    def emulate(self, launch, tables):
        table = tables.table(self.fragment)
        found = [[-1 if v is None else v for v in table.values[name]] for name in ("row", "col")]
        return np.array(found, np.int32).reshape(-1).view(np.uint8)


@dataclass(frozen=True)
class DryExperiment(FormExperiment):
    def launches(self):
        return [self._launch(fragment) for fragment in self.fragments]

    def _launch(self, fragment):
        name = ptx.identifier(fragment.id)
        kernel = Kernel(name, Say(fragment), f".visible .entry {name}() {{ ret; }}\n", fragment.target)
        size = 8 * fragment.slots * max(1, len(fragment.selectors))
        return Launch(kernel, (1, 1, 1), (), 0, size, WARPGROUP)

    def decode(self, launches, outputs):
        return {f.operand: raw.view(np.int32).reshape(2, -1) for f, raw in zip(self.fragments, outputs, strict=True)}

    def conclude(self, reading, context):
        tables = {f.operand: self._table(f, reading[f.operand]) for f in self.fragments}
        return Conclusion(tables, "own rule: as each slot says", predict_hash(self.instruction, tables))

    def _table(self, fragment, found):
        parts = np.split(found, max(1, len(fragment.selectors)), axis=1)
        tables = [
            slot_table(
                fragment.threads, fragment.elements, {n: _values(v) for n, v in zip(("row", "col"), part, strict=True)}
            )
            for part in parts
        ]
        return selected(tables) if fragment.selectors else tables[0]


def _values(numbers):
    return tuple(None if n < 0 else n for n in numbers.tolist())


def experiments():
    """One for each form."""
    return [DryExperiment(row) for row in inventory.of_family("drymma")]
