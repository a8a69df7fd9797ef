"""tcprobe with a family, a kind of finding and a question more.

    python run.py measure RESULTS | worker | schema | COMMAND...

`schema` prints what tools/reference.py writes as docs/schema.json.
"""

import random
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

import emulation  # noqa: E402

from tcprobe import ask, probes  # noqa: E402
from tcprobe.isa import arch, inventory, rows  # noqa: E402
from tcprobe.layout.table import selected  # noqa: E402
from tcprobe.store import kinds  # noqa: E402

rows.__path__.append(str(HERE / "rows"))
probes.__path__.append(str(HERE / "probes"))
kinds.__path__.append(str(HERE / "kinds"))
ask.__path__.append(str(HERE / "ask"))


def measure(folder):
    """Every form on the emulator with layouts at random, saved as live."""
    from tcprobe.probes.experiment import Context
    from tcprobe.run.emulator import Emulator
    from tcprobe.run.runner import conclude
    from tcprobe.store.finding import PROVENANCE
    from tcprobe.store.results import Results

    rng, results = random.Random(1), Results(Path(folder))
    for row in inventory.of_family("drymma"):
        layouts = {f.id: emulation.shuffled(f, rng) for f in row.fragments if not f.selectors}
        e = row.metadata
        layouts[e.id] = selected([governing(e, rng) for _ in e.selectors])
        experiment, emulator = probes.experiments()[row.id], Emulator(layouts)
        launches = experiment.launches()
        assert emulator.load([launch.kernel for launch in launches]) == {}
        reading = experiment.decode(launches, emulator.run(launches))
        context = Context(arch.arch("sm_90"), lambda fragment: None)
        origin = dict.fromkeys(PROVENANCE, "emulated")
        results.write(conclude(experiment, reading, context, "live", origin))


def governing(e, rng):
    """Half of the fields at random govern a unit of A each."""
    units = [row * e.cols + col for row in range(e.rows) for col in range(e.cols)]
    cells = [*units, *[None] * (e.slots - len(units))]
    rng.shuffle(cells)
    return emulation.table_of(e, cells)


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(sys.argv[2])
    elif sys.argv[1] == "worker":
        from bench import TensorCore

        from tcprobe.run import worker

        worker.main(TensorCore)
    elif sys.argv[1] == "schema":
        print(runpy.run_path(str(HERE.parents[2] / "tools" / "reference.py"))["answers"](), end="")
    else:
        from tcprobe.cli import main
        from tcprobe.run import backend

        backend.COMMAND = (sys.executable, __file__, "worker")
        main()
