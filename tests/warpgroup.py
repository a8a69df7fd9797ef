"""What tests of warpgroup multiplies share: the forms, tables at random, an experiment on the emulator."""

import random

from emulation import shuffled

from tcprobe.isa import inventory
from tcprobe.layout.table import selected, slot_table
from tcprobe.probes import experiments
from tcprobe.run.emulator import Emulator
from tcprobe.store.choose import alone
from tcprobe.store.results import published

FORMS = inventory.instructions().parts[-1]


DENSE = [row for row in FORMS.values() if not row.metadata]


SPARSE = [row for row in FORMS.values() if row.metadata]


SMALL = [row.id for row in DENSE if row.shape.n <= 40 and row.type("a") != "b1"]


LAYERS = alone(published())


def governing(e, rng):
    """A random table of metadata: four bits of any thread govern a chunk of any row, for each selector."""
    size = 4 // e.slot_bits
    units = [(row, col) for row in range(e.rows) for col in range(0, e.cols, size)]
    tables = []
    for _ in e.selectors:
        cells = [None] * e.slots
        rng.shuffle(units)
        for place, (row, col) in zip(rng.sample(range(e.slots // size), len(units)), units, strict=True):
            cells[place * size : place * size + size] = [(row, col + j) for j in range(size)]
        values = {name: tuple(c and c[j] for c in cells) for j, name in enumerate(("row", "col"))}
        tables.append(slot_table(e.threads, e.elements, values))
    return selected(tables)


def emulated(row, seed, emulator=Emulator):
    """(tables by operand, what an experiment concludes on a tensor core that has them)."""
    rng = random.Random(seed)
    tables = {f.operand: governing(f, rng) if f.selectors else shuffled(f, rng) for f in row.fragments}
    backend, experiment = emulator({f.id: tables[f.operand] for f in row.fragments}), experiments()[row.id]
    launches = experiment.launches()
    outputs = backend.run(launches)
    assert [len(out) for out in outputs] == [one.output_bytes for one in launches]
    return tables, experiment.conclude(experiment.decode(launches, outputs), None)
