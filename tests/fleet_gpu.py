"""A GPU of an arch, emulated, as `tcprobe run` finds it.

python fleet_gpu.py worker ARCH                  the worker that has the GPU
python fleet_gpu.py program ARCH ARGUMENT...     tcprobe where there is this GPU
"""

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emulation

from tcprobe.run import backend
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


if __name__ == "__main__":
    what, name, *words = sys.argv[1:]
    if what == "worker":
        from tcprobe.run.worker import main

        main(lambda: Card(name), method="live")
    use(name)
    from tcprobe.__main__ import main as program

    sys.argv = ["tcprobe", *words]
    program()
