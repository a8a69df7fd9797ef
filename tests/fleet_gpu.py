"""A GPU of an arch, emulated, as `tcprobe run` finds it.

python fleet_gpu.py worker ARCH                  the worker that has the GPU
python fleet_gpu.py program ARCH ARGUMENT...     tcprobe where there is this GPU
"""

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emulation

from tcprobe.probes import experiments
from tcprobe.run import backend, contribute
from tcprobe.run.emulator import Emulator


class Card(Emulator):
    """One whose findings say that they are of a live GPU."""

    def __init__(self, name):
        super().__init__(*emulation.tables(seed=7), name=name)

    def devices(self):
        (device,) = super().devices()
        return [dataclasses.replace(device, name=f"emulated {device.arch}", method="live")]


def use(name):
    """Have this process's workers on GPUs be this one."""
    backend.COMMAND = (sys.executable, str(Path(__file__)), "worker", name)


FORMS = ("wmma.m16n16k16.a.row.f16", "wmma.m16n16k16.b.col.f16", "wmma.m16n16k16.a.col.f16")


def shows(monkeypatch, name, forms=FORMS):
    """Have `contribute` find this GPU, and ask it for a few tables."""
    monkeypatch.setattr(backend, "COMMAND", (sys.executable, str(Path(__file__)), "worker", name))
    monkeypatch.setattr(contribute, "VERIFY", (sys.executable, "-S", "-c", ""))
    monkeypatch.setattr(contribute, "batches", lambda device: [[experiments()[id_] for id_ in forms]])


if __name__ == "__main__":
    what, name, *words = sys.argv[1:]
    if what == "worker":
        from tcprobe.run.worker import main

        main(lambda: Card(name), method="live")
    use(name)
    from tcprobe.__main__ import main as program

    sys.argv = ["tcprobe", *words]
    program()
