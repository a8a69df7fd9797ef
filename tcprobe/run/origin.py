"""The provenance of measurements, and which of them conclusions may combine.

A table is up to date, and others may be concluded from it, if it was measured with the same probe, by the same
method, with the same compiler; on a GPU also on the same model with the same driver and CUDA version, since each of
them has a compiler of its own. The version of tcprobe does not count: its probes do.
"""

from __future__ import annotations

from tcprobe import __version__
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table
from tcprobe.probes.experiment import Dialogue, Experiment, KnownTable, kernels, ptx_hash
from tcprobe.run.backend import Device
from tcprobe.store.finding import AnyFinding, Key
from tcprobe.store.measurement import TABLE
from tcprobe.store.results import Results

Probe = Experiment | Dialogue


def provenance(device: Device, ptx: str) -> dict[str, str]:
    """The provenance of a measurement on `device` with the probe of hash `ptx`."""
    return _maker(device) | {"ptx": ptx, "tcprobe": __version__}


def kind_of(experiment: Probe) -> str:
    """The kind of finding that an experiment concludes."""
    return experiment.kind if isinstance(experiment, Dialogue) else TABLE


def key_of(experiment: Probe, device: Device) -> Key:
    """The key of an experiment's finding on a device."""
    return Key(kind_of(experiment), device.arch, device.method, experiment.id)


def same(measurement: AnyFinding, device: Device) -> bool:
    """Whether method, compiler and, on a GPU, model, driver and CUDA version are those of `device`."""
    maker = _maker(device)
    return measurement.method == device.method and {key: measurement.provenance[key] for key in maker} == maker


def up_to_date(experiment: Probe, saved: AnyFinding | None, device: Device) -> bool:
    """Whether `device` need not measure `experiment` again; refusals and failures are always tried again."""
    if saved is None or saved.status != "measured" or not same(saved, device):
        return False
    return saved.provenance["ptx"] == ptx_hash(kernels(experiment))


def saved_tables(results: Results, device: Device) -> KnownTable:
    """The saved tables that conclusions about `device` may rest on."""

    def table(fragment: Fragment) -> Table | None:
        saved = results.measurement(device.arch, device.method, fragment.experiment)
        return saved.tables.get(fragment.operand) if saved and same(saved, device) else None

    return table


def _maker(device: Device) -> dict[str, str]:
    return {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler}
