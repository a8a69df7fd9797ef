"""A bench of `tcprobe ablate` without a GPU: python emulated_bench.py FIRST LAST [NAME=WHAT ...].

A launch takes BEFORE cycles and for each round COST of each instruction of the loop from FIRST to LAST that is not
predicated off: so what `ablate` concludes can be compared with what is known. `NAME=WHAT`: what a copy does whose loop
lacks the opcode NAME: faults, hangs, dies.
"""

from __future__ import annotations

import os
import sys
import time

from tcprobe.check.program import BYTES, programs
from tcprobe.loops import bench
from tcprobe.sass import toolchain
from tcprobe.sass.image import cubin

BEFORE, ROUNDS, OTHER = 10_000.0, 64, 1.0
COST = {"HMMA": 16.0, "LDSM": 8.0, "LDGSTS": 4.0, "BAR": 20.0, "MUFU": 8.0}


class Emulated:
    """Counts instructions."""

    device = "an emulated GPU"

    def __init__(self, first: int, last: int, ends: dict[str, str]) -> None:
        self._place, self._ends, self._tools = slice(first // BYTES, last // BYTES + 1), ends, toolchain.find(None)

    def prepare(self, launch: bench.Launch) -> list[bytes]:
        return [a if isinstance(a, bytes) else (1 << 20).to_bytes(8, "little") for a in launch.arguments]

    def load(self, raw: bytes, name: str) -> tuple[float, str]:
        held = cubin(raw)
        (function,) = [each for each in held.functions if each.name == name]
        (kernel,) = programs(self._tools, held.arch, [function])
        loop = kernel.instructions[self._place]
        rounds = 1 if loop[-1].guard == "never" else ROUNDS
        live = [i.stem for i in loop if i.guard != "never"]
        end = next((what for stem, what in self._ends.items() if stem not in live), "")
        return BEFORE + rounds * sum(COST.get(stem, OTHER) for stem in live), end

    def cycles(self, function: tuple[float, str]) -> float:
        cycles, end = function
        if end == "dies":
            os._exit(9)
        if end == "hangs":
            time.sleep(3600)
        if end:
            raise bench.LostError(end)
        return cycles


if __name__ == "__main__":
    FIRST, LAST = (int(text, 16) for text in sys.argv[1:3])
    ENDS = dict(text.split("=") for text in sys.argv[3:])
    bench.main(lambda _: Emulated(FIRST, LAST, ENDS))
