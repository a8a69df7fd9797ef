"""What experiments on cost share: loops that are launched together, and numbers that machine code confirms.

A run is a kernel with its blocks. A reading has the cycles of each run, and the opcodes of all loops as lines of text.
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
from tcprobe.probes.experiment import Bench, Dialogue, Readout, array_of_text, text_lines
from tcprobe.probes.proof import Counts, Seen, lines, parse_lines, prove, working_opcodes
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.timing import RUNS, TimedBlock
from tcprobe.references.shared_memory.tensor_map import TensorMap

KIND = "cost"
TICK = 2.0  # cycles by which two equal passes may differ
DECIMALS = 3


class Run(NamedTuple):
    """A kernel and the blocks that run it; `maps` describe tensors in `inputs`."""

    kernel: Kernel
    blocks: Sequence[TimedBlock]
    maps: tuple[TensorMap, ...] = ()
    inputs: Bytes | None = None


class Costs(Dialogue):
    """An experiment that times loops."""

    kind: ClassVar[str] = KIND

    @abstractmethod
    def runs(self) -> Mapping[str, Run]:
        """The runs, by variant."""

    @cached_property
    def _runs(self) -> Mapping[str, Run]:
        """`runs()`, computed once: their texts are long."""
        return self.runs()

    def kernels(self) -> list[Kernel]:
        """The kernels of all runs."""
        return [run.kernel for run in self._runs.values()]

    def measure(self, bench: Bench) -> Readout:
        """By variant what `timing.decode` returns, (blocks, RUNS + 2); "code": the opcodes of all loops."""
        alone, runs = bench.shared_bytes() // 2 + 1024, self._runs
        launches = {
            variant: timing.launch(run.kernel, run.blocks, alone, run.inputs, run.maps) for variant, run in runs.items()
        }
        outputs = bench.run(list(launches.values()))
        reading = {
            variant: timing.decode(launch, output)
            for (variant, launch), output in zip(launches.items(), outputs, strict=True)
        }
        codes = {variant: bench.timed_code(run.kernel) for variant, run in runs.items()}
        return {**reading, "code": array_of_text(lines(codes))}


@dataclass(frozen=True)
class OfRow(Dialogue):
    """What experiments on one instruction share."""

    row: Instruction
    kind: ClassVar[str] = KIND

    @property
    def id(self) -> str:
        """The instruction's id."""
        return self.row.id

    @property
    def target(self) -> Target:
        """The target that the instruction needs."""
        return self.row.target


@dataclass
class ProvedNumbers:
    """The numbers of a reading whose machine code is as expected; `refused` has, by variant, why others are not."""

    reading: Readout

    def __post_init__(self) -> None:
        self._code = parse_lines(text_lines(self.reading["code"]))
        self.refused: dict[str, str] = {}
        self._spreads: list[float] = []

    def code(self, variant: str) -> Seen:
        """The opcodes of a variant's loop, and beside it; empty if there is none."""
        return self._code.get(variant, Seen({}, {}))

    def each(self, variant: str) -> Counts:
        """Counts of the opcodes that do a loop's work."""
        return working_opcodes(self.code(variant).loop)

    def cycles_of_copy(
        self, variant: str, copies: int, each: Mapping[str, int], around: Mapping[str, int] | None = None
    ) -> Floats | None:
        """Cycles of one copy, by block; None unless the loop has `copies` times `each`, and `around`."""
        return self.cycles_of_round(variant, {opcode: copies * n for opcode, n in each.items()}, around or {}, copies)

    def cycles_of_round(
        self, variant: str, loop_opcodes: Mapping[str, int], around: Mapping[str, int], copies: int = 1
    ) -> Floats | None:
        """As `cycles_of_copy`; `loop_opcodes` counts the opcodes of a whole round."""
        try:
            self.check_opcodes(variant, loop_opcodes, around)
        except ProbeError as error:
            self.refused[variant] = str(error)
            return None
        cycles = self.reading[variant]
        least = cycles[:, RUNS]
        noise = TICK / ((timing.LONG - timing.SHORT) * copies)
        apart = np.abs(cycles[:, :RUNS] - np.median(cycles[:, :RUNS], axis=1)[:, None])
        self._spreads += (np.maximum(np.sort(apart, axis=1)[:, 1] - noise, 0) / least).tolist()
        return np.asarray(least.round(DECIMALS), np.float64)

    def check_opcodes(self, variant: str, loop_opcodes: Mapping[str, int], around: Mapping[str, int]) -> None:
        """Raises ProbeError unless a loop has the opcodes `loop_opcodes` and `around`."""
        prove(variant, self.code(variant), loop_opcodes, around)

    @property
    def spread(self) -> float:
        """The largest distance of a number's median run to the next run, relative to the number, beyond TICK.

        ProbeError if there is no number.
        """
        if not self._spreads:
            raise ProbeError(next(iter(self.refused.values()), "no loop gave a number."))
        return round(max(self._spreads), 4)

    @property
    def mhz(self) -> float:
        """The median SM clock of all loops, in MHz."""
        rates = np.concatenate([cycles[:, RUNS + 1] for name, cycles in self.reading.items() if name != "code"])
        return round(float(np.median(rates)) * 1000, 0)
