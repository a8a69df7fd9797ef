"""The clock beside a prediction: cycles of a round of one block alone, and of the grid, on this machine's GPU.

Cycles are those of the SMs' own counters, so they do not change with the clock, which is told apart: counters over
elapsed time. One block alone has its data in L2; what a round takes longer in the grid is due to what blocks share:
the SM where it holds several, L2 and the memory behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.loops.launch import LaunchError
from tcprobe.loops.loop import Loop
from tcprobe.loops.runs import WHOLE, Run, Taken, launched, taken
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.text import Described, escaped
from tcprobe.values import Json

CycleCount = Annotated[float, Meta(ge=0)]
Counted = Annotated[int | None, Meta(ge=1)]


class ClockAnswer(Answer):
    """The SMs' clock meanwhile: their cycles by elapsed time."""

    block: CycleCount
    grid: Annotated[float | None, Meta(ge=0)]


class MeasuredAnswer(Answer):
    """The clock beside a prediction."""

    device: str
    block: Annotated[float, Meta(ge=0, description="Of one block alone.")]
    grid: Annotated[float | None, Meta(ge=0, description="In the grid, of one wave; null where failed says why.")]
    ratio: Annotated[float | None, Meta(ge=0, description="grid by block.")]
    mhz: ClockAnswer
    threads: Annotated[int, Meta(ge=1, description="Of a block.")]
    rounds: Annotated[int, Meta(ge=1, description="Of a launch of one block.")]
    spread: Annotated[float, Meta(ge=0, description="What the middle launch of one block takes more than the least.")]
    blocks: Annotated[int | None, Meta(ge=1, description="Of the grid.")]
    at_once: Annotated[int | None, Meta(ge=1, description="Blocks that an SM holds.")]
    sms: Counted
    waves: Annotated[int | None, Meta(ge=1, description="How often the SMs are filled.")]
    failed: Annotated[str | None, Meta(description="Why there is no grid.")]
    note: Annotated[str, Meta(description="What else is in the cycles.")]


class Grid(NamedTuple):
    """Cycles of a round in a grid of so many blocks, of which the GPU holds some at once on each of its SMs."""

    cycles: float
    mhz: float
    blocks: int
    at_once: int
    sms: int

    @property
    def waves(self) -> int:
        """How often the SMs are filled."""
        return _waves(self.blocks, self.sms * self.at_once)


@dataclass(frozen=True, repr=False)
class Measured(Described):
    """Cycles of a round of one block alone, and in the grid; `mhz` are those of the SMs' clock meanwhile.

    `grid` is None where `failed` says why. `spread`: what the middle launch of one block takes more than the least.
    `rounds`: of a launch of one block. `note`: what else is in the cycles.
    """

    device: str
    threads: int
    rounds: int
    block: float
    spread: float
    mhz: float
    grid: Grid | None
    failed: str | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the cycles of a block alone a round takes in the grid."""
        return self.grid and self.grid.cycles / self.block

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)

    @property
    def in_words(self) -> Iterator[str]:
        """A line on one block, a line on the grid, and one on what the grid's rounds take longer."""
        yield (
            f"on {escaped(self.device)}, one block alone: {self.block:.1f} cycles a round (+ {self.spread:.1f}) by "
            f"{self.rounds} rounds{self.note and '; ' + self.note}; SM clock {self.mhz:.0f} MHz"
        )
        if self.grid is None:
            yield f"the grid: {self.failed}"
            return
        yield (
            f"in the grid of {self.grid.blocks} blocks, {self.grid.at_once} at once on each of {self.grid.sms} SMs: "
            f"{self.grid.cycles:.1f} cycles a round; SM clock {self.grid.mhz:.0f} MHz"
        )
        longer, slower = self.grid.cycles / self.block, self.mhz / self.grid.mhz
        yield (
            f"there a round takes {longer * slower:.2f} times as long: {longer:.2f} times the cycles, by what blocks "
            f"share (the SM, L2, memory), at a clock {slower:.2f} times as slow"
        )

    @property
    def answer(self) -> MeasuredAnswer:
        """What `--json` prints of it."""
        grid = self.grid
        return MeasuredAnswer.of(
            self,
            block=round(self.block, 2),
            grid=grid and round(grid.cycles, 2),
            ratio=self.ratio and round(self.ratio, 3),
            mhz=ClockAnswer(round(self.mhz, 1), grid and round(grid.mhz, 1)),
            spread=round(self.spread, 2),
            **{name: grid and getattr(grid, name) for name in ("blocks", "at_once", "sms", "waves")},
        )

    def to_json(self) -> Json:
        return plain(self.answer)


def measure(cubin: bytes, loop: Loop, launch: Path) -> Measured:
    """Measure a loop of a cubin's function, as a launch file launches it.

    LaunchError of the file and of a kernel whose block does not run alone, LoopError where the rounds are not known,
    EnvironmentUnfitError without a GPU that runs the code.
    """
    alone = launched(cubin, loop, launch, (), loop.kernel.code.cluster or (1, 1, 1))
    block, grid, failed = taken(loop, alone), None, None
    try:
        grid = _grid(loop, launched(cubin, loop, launch, (), None))
    except LaunchError as error:
        failed = str(error)
    threads = prod(alone.about["launch"]["block"])
    about = alone.about["device"], threads, block.rounds, block.cycles, block.spread, _mhz(alone)
    return Measured(*about, grid, failed, block.note)


def _grid(loop: Loop, run: Run) -> Grid:
    """Of a launch of all blocks: the cycles of one wave."""
    found: Taken = taken(loop, run)
    blocks, sms, at_once = prod(run.about["launch"]["grid"]), run.about["sms"], max(1, run.timed[WHOLE]["at_once"])
    return Grid(found.cycles / _waves(blocks, sms * at_once), _mhz(run), blocks, at_once, sms)


def _waves(blocks: int, at_once: int) -> int:
    return -(-blocks // at_once)


def _mhz(run: Run) -> float:
    """The SMs' clock in launches of the whole kernel: cycles by elapsed time."""
    laps = run.timed[WHOLE]
    return 1000 * sum(laps["whole"]) / max(sum(laps["ns"]), 1)
