"""What experiments on cost have in common: loops that are launched together, and numbers whose code is proved.

A run is a kernel with its blocks; a reading has cycles by run, and the opcodes of all loops as lines of text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Bytes, Floats
from tcprobe.probes import timing
from tcprobe.probes.experiment import Bench, Dialogue, Reading, lines_of, of_lines
from tcprobe.probes.proof import Counts, Seen, lines, own, prove, seen
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.timing import RUNS, TimedBlock
from tcprobe.references.shared_memory.tensor_map import TensorMap

KIND = "cost"
TICK = 2.0  # cycles by which a pass may differ, whatever else it does
DECIMALS = 3


class Run(NamedTuple):
    """A kernel and the blocks that run it; `maps` are of tensors in the input."""

    kernel: Kernel
    blocks: Sequence[TimedBlock]
    maps: tuple[TensorMap, ...] = ()
    inputs: Bytes | None = None


class Costs(Dialogue):
    """An experiment that times loops; `conclude` makes a body of what `read` gives."""

    kind: ClassVar[str] = KIND

    @abstractmethod
    def runs(self) -> Mapping[str, Run]:
        """What is launched, by variant."""

    @cached_property
    def _made(self) -> Mapping[str, Run]:
        """The runs, made once: their texts are long."""
        return self.runs()

    def kernels(self) -> list[Kernel]:
        """The kernels of all runs."""
        return [run.kernel for run in self._made.values()]

    def measure(self, bench: Bench) -> Reading:
        """Cycles by variant, (blocks, RUNS + 2) each, and the opcodes of all loops as "code"."""
        alone, runs = bench.shared_bytes() // 2 + 1024, self._made
        launches = {
            variant: timing.launch(run.kernel, run.blocks, alone, run.inputs, run.maps) for variant, run in runs.items()
        }
        outputs = bench.run(list(launches.values()))
        reading = {
            variant: timing.decode(launch, output)
            for (variant, launch), output in zip(launches.items(), outputs, strict=True)
        }
        codes = {variant: bench.timed_code(run.kernel) for variant, run in runs.items()}
        return {**reading, "code": of_lines(lines(codes))}


@dataclass(frozen=True)
class OfRow(Dialogue):
    """What experiments on one instruction of the inventory have in common."""

    row: Instruction
    kind: ClassVar[str] = KIND

    @property
    def id(self) -> str:
        """The instruction's."""
        return self.row.id

    @property
    def target(self) -> Target:
        """The instruction's."""
        return self.row.target


@dataclass
class ProvedNumbers:
    """The numbers of a reading that machine code proves; `refused` says of the others why they are none."""

    reading: Reading

    def __post_init__(self) -> None:
        self._code = seen(lines_of(self.reading["code"]))
        self.refused: dict[str, str] = {}
        self._spreads: list[float] = []

    def code(self, variant: str) -> Seen:
        """What stands in a loop."""
        return self._code.get(variant, Seen({}, {}))

    def each(self, variant: str) -> Counts:
        """The opcodes that do the work of a loop's single copy."""
        return own(self.code(variant).loop)

    def proved(
        self, variant: str, copies: int, each: Mapping[str, int], around: Mapping[str, int] | None = None
    ) -> Floats | None:
        """Cycles of a variant by block, None where its code does not show `copies` of `each`, and `around`."""
        return self.whole(variant, {opcode: copies * n for opcode, n in each.items()}, around or {}, copies)

    def whole(
        self, variant: str, wanted: Mapping[str, int], around: Mapping[str, int], copies: int = 1
    ) -> Floats | None:
        """As `proved`, `wanted` being all that one round holds."""
        try:
            self.hold(variant, wanted, around)
        except ProbeError as error:
            self.refused[variant] = str(error)
            return None
        cycles = self.reading[variant]
        least = cycles[:, RUNS]
        noise = TICK / ((timing.LONG - timing.SHORT) * copies)
        apart = np.abs(cycles[:, :RUNS] - np.median(cycles[:, :RUNS], axis=1)[:, None])
        self._spreads += (np.maximum(np.sort(apart, axis=1)[:, 1] - noise, 0) / least).tolist()
        return np.asarray(least.round(DECIMALS), np.float64)

    def hold(self, variant: str, wanted: Mapping[str, int], around: Mapping[str, int]) -> None:
        """ProbeError where a loop does not hold what was written."""
        prove(variant, self.code(variant), wanted, around)

    @property
    def spread(self) -> float:
        """The largest difference between two runs of a number; ProbeError where there are no numbers."""
        if not self._spreads:
            raise ProbeError(next(iter(self.refused.values()), "no loop gave a number."))
        return round(max(self._spreads), 4)

    @property
    def mhz(self) -> float:
        """The clock by which cycles went by, the median."""
        rates = np.concatenate([cycles[:, RUNS + 1] for name, cycles in self.reading.items() if name != "code"])
        return round(float(np.median(rates)) * 1000, 0)
