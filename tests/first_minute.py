"""The first minute of an arch that no GPU was seen of: an emulated GPU, as documented, some of whose kernels go wrong.

`tried` contributes from such a GPU: some experiments that no GPU has run, a fault each, and others beside them.

python first_minute.py worker ARCH FAULTS         the worker that has the GPU; FAULTS is {experiment: fault} as JSON
python first_minute.py program ARCH ARGUMENT...   tcprobe where there is this GPU, without faults; what an emulator
                                                  cannot show, arithmetic and cost, is not asked
"""

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from tcprobe.isa.arch import arch
from tcprobe.layout.table import Table
from tcprobe.probes import of_kind
from tcprobe.probes.experiment import kernels
from tcprobe.probes.ptx import POISON, TOO_NEW
from tcprobe.run import backend, contribute
from tcprobe.run.backend import BackendFaultError, BackendHangError, Device
from tcprobe.run.emulator import Emulator
from tcprobe.run.merge import measured_findings
from tcprobe.run.runner import Probe, key_of, kind_of
from tcprobe.run.worker import main
from tcprobe.store import kinds
from tcprobe.store.cell import cell, stated
from tcprobe.store.choose import default
from tcprobe.store.findings import read_any
from tcprobe.store.results import Results, published

LIMIT = 20.0  # seconds of silence after which the worker is given up
# what goes wrong, and the words by which its cell names it; a layout is no failure, it is measured as it is
FAULTS = {
    "hangs on the device": "did not end within",
    "hangs the driver": "no answer for",
    "traps": "CUDA_ERROR_LAUNCH_FAILED",
    "ends the process": "ended by signal 11",
    "returns nothing": "",
    "is refused by the driver": "Feature not supported",
    "has another layout": "",
}


class Faulty(Emulator):
    """An emulated GPU of an arch, with everything as it is documented but for the faults of some experiments.

    `names` has the archs of several GPUs, between commas.
    """

    def __init__(self, names, faults):
        super().__init__({}, name=names.partition(",")[0])
        self.archs = names.split(",")
        probes = [probe_of(id_) for id_ in faults]
        pairs = list(zip(probes, faults.values(), strict=True))
        self.fault_of = {kernel.name: fault for probe, fault in pairs for kernel in kernels(probe)}
        self.otherwise = {id_ for id_, fault in faults.items() if fault == "has another layout"}

    def devices(self):
        (device,) = super().devices()
        named = [dataclasses.replace(device, name=f"emulated {name}", arch=name, method="live") for name in self.archs]
        return [dataclasses.replace(one, index=number) for number, one in enumerate(named)]

    def open(self, index):
        self._arch = self.archs[index]

    def load(self, kernels):
        refused = [k.name for k in kernels if self.fault_of.get(k.name) == "is refused by the driver"]
        new = [k.name for k in kernels if self.fault_of.get(k.name) == "is too new"]
        refused_for = dict.fromkeys(refused, "Feature not supported on .target")
        return super().load(kernels) | refused_for | dict.fromkeys(new, f"{TOO_NEW}9.4: Unsupported .version 9.4")

    def run(self, launches):
        fault = next((self.fault_of[x.kernel.name] for x in launches if x.kernel.name in self.fault_of), "")
        match fault:
            case "hangs on the device":
                raise BackendHangError("it did not end within 5 s on the device; it was stopped")
            case "hangs the driver":
                time.sleep(3600)
            case "traps":
                raise BackendFaultError("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")
            case "ends the process":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "returns nothing":
                return [np.full(launch.output_bytes, POISON, np.uint8) for launch in launches]
        return super().run(launches)

    def table(self, fragment):
        row = arch(self._arch)
        claimed = stated(fragment, row)
        table = claimed[1].meant if claimed else cell(fragment, row.name, default()).table
        if fragment.experiment not in self.otherwise or fragment.operand not in ("a", "d"):
            return table
        values = {name: (column[1], column[0], *column[2:]) for name, column in table.values.items()}
        return Table(table.space, values)

    def read(self, fragment):
        return self.table(fragment)

    def in_tensor_memory(self, instruction, operand, described):
        places = super().in_tensor_memory(instruction, operand, described)
        asked = any(id_.startswith(f"{instruction.id}.{operand}") for id_ in self.otherwise)
        return places[[1, 0, *range(2, len(places))]] if asked else places


def probe_of(id_: str) -> Probe:
    """The experiment of a subject, a table's before others."""
    return next(of_kind(kind)[id_] for kind in ("table", *kinds.names()) if id_ in of_kind(kind))


def unrun(name: str) -> dict[str, list[Probe]]:
    """The experiments on places of an arch that no GPU has run, by family."""
    seen = {(f.key.kind, f.key.subject) for f in measured_findings(published()) if f.method == "live"}
    families: dict[str, list[Probe]] = {}
    for batch in emulated(name):
        for probe in batch:
            if (kind_of(probe), probe.id) not in seen:
                families.setdefault(contribute._family(probe.id), []).append(probe)
    return families


def emulated(name: str) -> list[list[Probe]]:
    """What a contribution asks a GPU of an arch, as far as an emulator can show it."""
    asked = ASKED(Device(0, "a GPU", name, "1", "1", "1"))
    return [batch for batch in asked if kind_of(batch[0]) in ("table", "tensor_memory")]


ASKED = contribute.batches


def rounds(name: str) -> Iterable[tuple[dict[str, str], list[str]]]:
    """(faults by experiment, the same number of others) of each round: in all of them each family has each fault."""
    families = list(unrun(name).values())
    for first in range(len(FAULTS)):
        faults = {family[0].id: list(FAULTS)[(first + n) % len(FAULTS)] for n, family in enumerate(families)}
        yield faults, [_beside(family).id for family in families]


def _beside(family: list[Probe]) -> Probe:
    """One whose kernels are not those of the first."""
    first = {kernel.name for kernel in kernels(family[0])}
    return next(one for one in family[1:] if not first & {kernel.name for kernel in kernels(one)})


def worker_command(name: str, faults: dict[str, str]) -> tuple[str, ...]:
    """What starts the worker that has the GPU."""
    return (sys.executable, str(Path(__file__)), "worker", name, json.dumps(faults))


def tried(
    name: str, faults: dict[str, str], others: Iterable[str], folder: Path, done: Callable[[str], None] = lambda _: None
) -> tuple[dict[str, tuple], float]:
    """(status and words by experiment, seconds) of a contribution of experiments with faults and of others.

    `done` gets the experiments in the order in which they end.
    """
    probes = sorted(map(probe_of, (*faults, *others)), key=lambda probe: probe.id)
    by_kind = [[p for p in probes if kind_of(p) == kind] for kind in ("table", *kinds.names())]
    kept = contribute.batches, backend.COMMAND, contribute.VERIFY
    contribute.batches = lambda device: [batch for batch in by_kind if batch]
    backend.COMMAND = worker_command(name, faults)
    contribute.VERIFY = (sys.executable, "-S", "-c", "")
    begun = time.monotonic()
    try:
        tick = lambda _, finished: done(finished.partition(" ")[2]) if finished else None  # noqa: E731
        request = contribute.Request(folder / "c.json.gz", folder / "c", 30, LIMIT, lambda _: None, tick)
        contribute.contribute(request)
    finally:
        contribute.batches, backend.COMMAND, contribute.VERIFY = kept
    seconds = time.monotonic() - begun
    (root,) = (folder / "c").iterdir()
    device = Device(0, f"emulated {name}", name, "none", "none", "none")
    found = {p.id: read_any(Results(root), key_of(p, device)) for p in probes}
    return {id_: (f and f.status, f and f.words) for id_, f in found.items()}, seconds


if __name__ == "__main__":
    what, name, *words = sys.argv[1:]
    if what == "worker":
        main(lambda: Faulty(name, json.loads(words[0])))
    from tcprobe.__main__ import main as program

    backend.COMMAND = worker_command(name, {})
    contribute.batches = lambda device: emulated(device.arch)
    sys.argv = ["tcprobe", *words]
    program()
