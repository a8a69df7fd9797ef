"""What a round of a loop takes, from machine code alone: cycles, pipes, opcodes, and a time line.

The answer holds for one block on an SM, with its data in L2.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Annotated, NamedTuple

from tcprobe.errors import DataError
from tcprobe.isa.arch import WARP
from tcprobe.isa.opcodes import opcode
from tcprobe.loops.costs import PIPES, Prices, prices
from tcprobe.loops.loop import Loop, LoopError, is_multiply
from tcprobe.loops.measure import CycleCount, Measured, MeasuredAnswer
from tcprobe.loops.roles import LANDED, Copies, joined, partners, warps_of
from tcprobe.loops.simulate import ORDERS, Issue, busy, cycles, trace
from tcprobe.loops.work import Work, work
from tcprobe.mangled import labels
from tcprobe.question.answers import Answer, Meta, plain
from tcprobe.sass.addresses import walked
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.threads import ASSUMED_WARPS
from tcprobe.store.choose import Layers, default
from tcprobe.text import Described, escaped
from tcprobe.values import Json

WIDEST = 0.1  # of a range, by its middle
MOST_WARPS = 32
SHOWN_OPCODES = 12
COLUMNS = 64  # of a time line in a terminal


class Range(NamedTuple):
    """Cycles over orders of issue and initial skews."""

    least: CycleCount
    most: CycleCount


class Part(NamedTuple):
    """An opcode of a round: how many a warp executes, and for how long they need their pipe of a scheduler."""

    opcode: str
    executed: Annotated[int, Meta(ge=1)]
    pipe: str
    cycles: CycleCount


class PredictionAnswer(Answer):
    """What a round of a loop takes, by a model of one SM; one object a loop."""

    kernel: str
    arch: str
    first: Annotated[
        int, Meta(ge=0, description="The loop's first instruction: its offset in the kernel, as nvdisasm prints it.")
    ]
    last: Annotated[int, Meta(ge=0, description="The branch that leads back to it.")]
    instructions: Annotated[int, Meta(ge=0, description="Of a round of one warp; 0 where its way is not followed.")]
    warps: Annotated[int, Meta(ge=1, le=MOST_WARPS, description="Of a block.")]
    cycles: Annotated[Range | None, Meta(description="Of a round, over orders of issue.")]
    tensor: Annotated[float, Meta(ge=0, description="Cycles that a scheduler's tensor core works in a round.")]
    busy: Annotated[
        dict[str, CycleCount],
        Meta(description="Cycles that each pipe of the busiest scheduler works; shared and l2 are those of the SM."),
    ]
    refused: str | None
    assumed: Annotated[tuple[str, ...], Meta(description="What code leaves open.")]
    opcodes: tuple[Part, ...]
    measured: Annotated[
        MeasuredAnswer | None, Meta(description="Cycles of a round on this machine's GPU, with --measure.")
    ]


class Roles(NamedTuple):
    """The work of the warps that run a loop, of those that run others `beside` it, and the copies they wait for."""

    works: tuple[tuple[Work, ...], ...] = ()
    beside: tuple[tuple[Work, ...], ...] = ()
    copies: Copies = LANDED
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Prediction(Described):
    """A round of a loop: `cycles` over orders of issue, None where `refused` says why.

    `busy` has the cycles that each pipe of the busiest scheduler works in a round, "shared" and "l2" those of the SM;
    `tensor` is that of its tensor core. `assumed`: what code leaves open. `warps`: of a block. `measured`: the clock
    beside it, where that was asked.
    """

    kernel: str
    arch: str
    first: int
    last: int
    instructions: int
    warps: int
    cycles: Range | None
    tensor: float
    busy: dict[str, float]
    refused: str | None = None
    assumed: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    run: Roles = field(default=Roles(), compare=False)
    measured: Measured | None = None

    @property
    def summary(self) -> Iterator[str]:
        """What it takes and took, and what each pipe is busy."""
        place = f"{labels([self.kernel])[self.kernel]} on {self.arch}, {self.first:#06x} to {self.last:#06x}"
        if self.cycles is None:
            yield f"{place}: refused: {self.refused}"
            yield from self._measured_words
            return
        least, most = self.cycles
        taken = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        yield f"{place}: {taken} cycles a round of one block of {_many(self.warps, 'warp')}, data in L2"
        yield from self._measured_words
        if self.tensor:
            share = 2 * self.tensor / (least + most)
            yield f"  its tensor cores work {self.tensor:g} of them: {share:.0%}"
        pipes = sorted(self.busy.items(), key=lambda pair: -pair[1])
        yield f"  busy, of a scheduler: {', '.join(f'{pipe} {used:g}' for pipe, used in pipes)}"

    @property
    def in_words(self) -> Iterator[str]:
        """The summary, opcodes by what they take, a time line."""
        yield from self.summary
        if self.cycles is None:
            return
        yield f"  {_many(self.instructions, 'instruction')} a warp, by what they take of a scheduler's pipe:"
        for part in self.parts[:SHOWN_OPCODES]:
            yield f"    {part.executed:5} {part.opcode}: {part.pipe} {part.cycles:g}"
        if len(self.parts) > SHOWN_OPCODES:
            yield f"    and {len(self.parts) - SHOWN_OPCODES} opcodes that take less"
        for first, *others in _alike(self.assumed):
            yield f"  assumed: {first}" + (f"; so at {_many(len(others), 'other place')}" if others else "")
        yield from (f"  {line}" for line in self.time_line.lines())

    @property
    def _measured_words(self) -> Iterator[str]:
        """What was measured, and how far the middle of the range is from it."""
        if self.measured:
            yield from (f"  {line}" for line in self.measured.in_words)
        if self.measured and self.cycles:
            yield f"  predicted of one block: {sum(self.cycles) / 2 / self.measured.block - 1:+.1%}"

    @property
    def time_line(self) -> TimeLine:
        """One round of the simulated block."""
        works, beside, copies, _ = self.run
        return TimeLine((*works, *beside), tuple(trace(works, beside, copies)))

    @property
    def answer(self) -> PredictionAnswer:
        """What `--json` prints of it."""
        return PredictionAnswer.of(self, opcodes=self.parts, measured=self.measured and self.measured.answer)

    def to_json(self) -> Json:
        return plain(self.answer)


class TimeLine(NamedTuple):
    """The issues of one round of a block."""

    works: tuple[tuple[Work, ...], ...]
    issues: tuple[Issue, ...]

    def lines(self) -> Iterator[str]:
        """At most 20 lines of a terminal: how much of each stretch of cycles each pipe of the first scheduler works."""
        begin = min(issue.cycle for issue in self.issues)
        length = max(issue.cycle for issue in self.issues) + 1 - begin
        used: dict[int, list[float]] = {}
        for warp, step, cycle in self.issues:
            if warp % 4 == 0:
                done = self.works[warp][step]
                for pipe, taken in ((done.pipe, max(done.cycles, done.issue_cycles)), (0, 1.0)):
                    _spread(used.setdefault(pipe, [0.0] * COLUMNS), (cycle - begin) / length, taken / length)
        yield f"{length:g} cycles, {length / COLUMNS:.1f} a column; darker is busier:"
        for pipe, shares in sorted(used.items()):
            yield f"{PIPES[pipe]:>8} |{''.join(_shade(share) for share in shares)}|"

    def svg(self) -> str:
        """A picture: a row a warp, a bar an instruction as long as it needs its pipe, its opcode as a title."""
        begin = min(issue.cycle for issue in self.issues)
        length = max(issue.cycle for issue in self.issues) + 1 - begin
        scale, warps = 1200 / length, len(self.works)
        rows = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="1300" height="{24 * warps + 60}" font-family="monospace" '
            'font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
        ]
        for warp in range(warps):
            rows.append(f'<text x="4" y="{24 * warp + 40}">warp {warp}</text>')
        for warp, step, cycle in self.issues:
            done = self.works[warp][step]
            left, width = 80 + (cycle - begin) * scale, max(max(done.cycles, done.issue_cycles) * scale - 0.2, 0.4)
            rows.append(
                f'<rect x="{left:.1f}" y="{24 * warp + 28}" width="{width:.1f}" height="16" '
                f'fill="{COLORS[PIPES[done.pipe]]}"><title>{done.opcode}, cycle {cycle - begin:g}</title></rect>'
            )
        for number, (pipe, color) in enumerate(COLORS.items()):
            rows.append(f'<rect x="{80 + 100 * number}" y="6" width="10" height="10" fill="{color}"/>')
            rows.append(f'<text x="{94 + 100 * number}" y="15">{pipe}</text>')
        return "\n".join([*rows, "</svg>\n"])


COLORS = {
    "issue": "#999999",
    "fma": "#4477aa",
    "fmaheavy": "#66ccee",
    "alu": "#228833",
    "xu": "#ccbb44",
    "fp64": "#882255",
    "uniform": "#bbbbbb",
    "adu": "#aa3377",
    "cbu": "#000000",
    "lsu": "#ee8866",
    "tensor": "#cc3311",
}


def _spread(shares: list[float], at: float, width: float) -> None:
    """Add what lies between two places of a line to its columns, in parts of a column."""
    begin, end = at * COLUMNS, min((at + width) * COLUMNS, COLUMNS)
    column = int(begin)
    while column < end and column < COLUMNS:
        shares[column] += min(end, column + 1) - max(begin, column)
        column += 1


def _shade(share: float) -> str:
    shades = " .:-=+*#%@"
    return shades[min(len(shades) - 1, round(share * (len(shades) - 1)))]


def predict(loop: Loop, warps: int | None = None, layers: Layers | None = None) -> Prediction:
    """What a round of a loop takes in a block of so many warps, by default as many as its file states."""
    assumed: list[str] = []
    if warps is None:
        warps = block_warps(loop.kernel)
        if warps is None:
            warps = ASSUMED_WARPS
            assumed.append(f"blocks of {warps} warps: the file does not say how many")
    last = max(instruction.address for instruction in loop.instructions)
    name = escaped(loop.kernel.name)
    found = Prediction(name, loop.kernel.arch, loop.first, last, 0, warps, None, 0, {}, assumed=tuple(assumed))
    try:
        found = replace(found, last=loop.last, instructions=len(loop.path()))
        _whole(loop)
        known = _prices(loop.kernel.arch, layers or default())
        run = _roles(loop, warps, known)
        done = cycles(run.works, ORDERS, run.beside, run.copies)
    except DataError as error:
        return replace(found, refused=str(error))
    used = busy((*run.works, *run.beside))
    return replace(
        found,
        cycles=_range(done),
        tensor=used.get("tensor", 0),
        busy=used,
        assumed=(*assumed, *run.assumed),
        parts=_parts(run.works[0]),
        run=run,
    )


def _roles(loop: Loop, warps: int, known: Prices) -> Roles:
    """What is simulated for a loop of a block of so many warps."""
    own = [warp for warp in warps_of(loop) if warp < warps] or [*range(warps)]
    numbers = own if len(own) < _looked_at(loop) else [*range(warps)]
    iterations = [work(loop, known, warp) for warp in (numbers if loop.differs or partners(loop) else numbers[:1])]
    works = tuple(iterations[min(j, len(iterations) - 1)].works for j in range(len(numbers)))
    beside = [work(other, known, warp) for other in partners(loop) for warp in warps_of(other)]
    words = (said for each in (*iterations, *beside) for said in each.assumed)
    return Roles(
        works,
        tuple(each.works for each in beside),
        known.copies(joined(loop.kernel).rings),
        tuple(dict.fromkeys(words)),
    )


def _looked_at(loop: Loop) -> int:
    return len(walked(loop.kernel).interpreter.threads.there)


def block_warps(kernel: Kernel) -> int | None:
    """The warps of a block as a file states them."""
    threads = prod(kernel.code.threads) if kernel.code.threads else kernel.code.most_threads
    return min(-(-threads // WARP), MOST_WARPS) if threads else None


@lru_cache(maxsize=4)
def _prices(arch: str, layers: Layers) -> Prices:
    return prices(arch, layers)


def _whole(loop: Loop) -> None:
    """LoopError where another loop decides what a round takes."""
    copies = any(row.ablated == "copies" and row.proxy for row in (opcode(s.instruction.mnemonic) for s in loop.path()))
    if copies and not any(map(is_multiply, loop.instructions)):
        raise LoopError("it copies for a loop of other warps")


def _range(found: Sequence[float]) -> Range:
    """From the least to the most, at most WIDEST wide around the median."""
    middle = statistics.median(found)
    least, most = max(min(found), middle * (1 - WIDEST / 2)), min(max(found), middle * (1 + WIDEST / 2))
    return Range(round(least, 1), round(most, 1))


def _parts(works: Sequence[Work]) -> tuple[Part, ...]:
    """Opcodes by the cycles of their pipe, those that take most first."""
    counts: Counter[tuple[str, int]] = Counter()
    used: dict[tuple[str, int], float] = {}
    for done in works:
        key = done.opcode, done.pipe
        counts[key] += 1
        used[key] = used.get(key, 0) + max(done.cycles, done.issue_cycles)
    found = [Part(key[0], counts[key], PIPES[key[1]], used[key]) for key in counts]
    return tuple(sorted(found, key=lambda part: (-part.cycles, part.opcode)))


def _alike(words: Sequence[str]) -> list[list[str]]:
    """Those that differ by an address alone together."""
    together: dict[str, list[str]] = {}
    for each in words:
        together.setdefault(re.sub("0x[0-9a-f]+", "", each), []).append(each)
    return list(together.values())


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
