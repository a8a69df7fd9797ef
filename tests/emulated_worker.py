"""A worker that can go wrong on demand: python emulated_worker.py MODE [EXPERIMENT PART [COMPILER [MACHINE]]].

MODE: fine; die (by SIGSEGV), killed (by SIGKILL, as when memory runs out), starved (out of memory), hang, fault or
bug (an error that nobody expects) when an experiment whose id contains PART runs; load-die, load-bug or refuse while
compiling it; data or usage (such an error) when it starts; slow (a pause before every experiment, for killing the tool
in between). COMPILER is what provenance says, "none" by default. MACHINE is one of `bench`, "Clock"; by default the
emulator with layouts at random.
"""

import dataclasses
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tcprobe.errors import DataError, UsageError
from tcprobe.probes.ptx import identifier
from tcprobe.run.backend import BackendFaultError
from tcprobe.run.emulator import Emulator
from tcprobe.run.worker import main

UNFIT = {"data": DataError, "usage": UsageError}


class Random(Emulator):
    def __init__(self):
        import emulation

        super().__init__(*emulation.tables(seed=7))


class Faulty:
    def __init__(self, mode, part, compiler):
        super().__init__()
        self.mode, self.part, self.compiler = mode, identifier(part), compiler

    def devices(self):
        return [dataclasses.replace(d, compiler=self.compiler or d.compiler) for d in super().devices()]

    def open(self, index):
        if self.mode in UNFIT:
            raise UNFIT[self.mode]("this is so")

    def load(self, kernels):
        meant = [k.name for k in kernels if self.part and self.part in k.name]
        if self.mode == "load-die" and meant:
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.mode == "load-bug" and meant:
            raise ZeroDivisionError("nobody expects this")
        refused = dict.fromkeys(meant, "no such form") if self.mode == "refuse" else {}
        return refused | super().load(kernels)

    def run(self, launches):
        if self.mode == "slow":
            time.sleep(0.02)
        if self.part and self.part in launches[0].kernel.name:
            if self.mode == "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.mode == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.mode == "starved":
                raise MemoryError
            if self.mode == "hang":
                time.sleep(3600)
            if self.mode == "bug":
                raise ZeroDivisionError("nobody expects this")
            if self.mode == "fault":
                raise BackendFaultError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
        return super().run(launches)


if __name__ == "__main__":
    mode, part, compiler, machine = (*sys.argv[1:], "", "", "", "")[:4]
    made = getattr(import_module("bench"), machine) if machine else Random  # each of them is slow to import
    kind = type("FaultyMachine", (Faulty, made), {})
    main(lambda: kind(mode, part, compiler))
