"""A worker on the emulator that can go wrong on demand: python emulated_worker.py MODE [EXPERIMENT PART].

MODE: fine; die (SIGKILL itself), hang or fault when an experiment whose id contains PART runs; load-die while
compiling it; slow (a pause before every experiment, for killing the tool in between).
"""

import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emulation

from tcprobe.probes.ptx import identifier
from tcprobe.run.backend import BackendFaultError
from tcprobe.run.emulator import Emulator
from tcprobe.run.worker import main


class Faulty(Emulator):
    def __init__(self, mode, part, *args):
        super().__init__(*args)
        self.mode, self.part = mode, identifier(part)

    def load(self, kernels):
        if self.mode == "load-die" and any(self.part in k.name for k in kernels):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().load(kernels)

    def run(self, launches):
        if self.mode == "slow":
            time.sleep(0.02)
        if self.part and self.part in launches[0].kernel.name:
            if self.mode == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.mode == "hang":
                time.sleep(3600)
            if self.mode == "fault":
                raise BackendFaultError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
        return super().run(launches)


if __name__ == "__main__":
    mode, part = (*sys.argv[1:], "", "")[:2]
    main(lambda: Faulty(mode, part, *emulation.tables(seed=7)))
