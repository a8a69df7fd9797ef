"""Timing a loop of one instruction: the kernel's frame, its launches, and cycles from the clock readings.

A block is one experiment. Its row of the plan has its number of threads, the image of its inputs, and how many rounds
each pass has. Every pass runs the same loop between two barriers and reads the clock after each (or `early`, before the
first). The first pass warms up; then short and long passes alternate. Their difference is the loop alone, without what
is around it.

    cycles of one copy = (least long - least short) / (LONG - SHORT) / copies

Inputs come from memory, and results go into a sum that decides whether something is stored; so the compiler knows
neither. %zero is a zero that comes from memory.

A time counts only if machine code shows it: the loop has the opcodes that were written, as often as written. A reading
has the cycles of each run (a kernel with its blocks), and the opcodes of all loops as lines of text.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Target
from tcprobe.isa.occupancy import MOST_THREADS, REGISTERS
from tcprobe.isa.opcodes import of_space
from tcprobe.layout.arrays import Bytes, Floats, Ints
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout, TimedCode, array_of_text, text_lines
from tcprobe.probes.ptx import Kernel, Launch, NotEmulated, entry, identifier
from tcprobe.references.shared_memory.tensor_map import TensorMap
from tcprobe.store import kinds
from tcprobe.store.kinds.cost import WITHIN, Body, apart

SHORT, LONG = 32, 96
RUNS = 5
ROUNDS = (4, *(SHORT, LONG) * RUNS)  # of each pass; the first one warms up
MOST_WORDS = 6  # of a block's own words, such as descriptors
ROW_WORDS = 20  # of a row of the plan: threads, image, own words, rounds of each pass, zero
IMAGE_WORDS = 64 * WARP  # of an image: word j of a lane is at 32 j + lane
NEVER = 0x9E3779B9  # a sum that does not occur
FRAME = 24  # most registers that the frame takes
POINTERS = ("data", "plan", "out")
PTX = Macros(globals(), WARP=WARP)


@dataclass(frozen=True)
class LoopTiming(NotEmulated):
    """The op of a timing kernel. `ctas` of a cluster are one experiment."""

    subject: str = ""
    variant: str = ""
    copies: int = 1
    ctas: int = 1


class TimedBlock(NamedTuple):
    """A block's threads, the image of its inputs, its own words, and rounds of every pass, if not ROUNDS."""

    threads: int
    image: int = 0
    words: tuple[int, ...] = ()
    rounds: int | None = None


class Run(NamedTuple):
    """A kernel and the blocks that run it; `maps` describe tensors in `inputs`."""

    kernel: Kernel
    blocks: Sequence[TimedBlock]
    maps: tuple[TensorMap, ...] = ()
    inputs: Bytes | None = None


@dataclass(frozen=True)
class TimedLoop:
    """What every kind of cost times. `body` is one round, with `copies` of what is timed; `after` waits for what is in
    flight, `ended` ends the kernel.

    `loaded` registers get words of the block's image; `results` are consumed. Registers in `wide` have 64 bits.
    `before` may use %zero, %word0 to %word5 of the plan, and %memory, the start of shared memory. With `ctas`, a
    cluster is one block of the plan, and one of its CTAs stores the times. `early`: a pass lasts from the first clock
    that a warp reads, before the barrier, to the last, since one warp may be done while others are kept from issuing;
    this needs `shared`, whose first 16 bytes for each pass, and 8, are the frame's.
    """

    subject: str
    variant: str
    target: Target
    copies: int
    body: Sequence[str]
    loaded: Sequence[str]
    results: Sequence[str]
    registers: Sequence[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    wide: frozenset[str] = field(default_factory=frozenset)
    threads: int = MOST_THREADS
    shared: bool = False
    mapped: bool = False
    ended: Sequence[str] = ()
    ctas: int = 1
    early: bool = False

    @property
    def name(self) -> str:
        return identifier(f"cost.{self.variant}.{self.subject}")

    def kernel(self) -> Kernel:
        memory = f".extern .shared .align 1024 .b8 {self.name}_memory[];\n" if self.shared else ""
        pointers = (*POINTERS[:2], "maps", POINTERS[2]) if self.mapped else POINTERS
        cluster = f".explicitcluster .reqnctapercluster {self.ctas}, 1, 1 " if self.ctas > 1 else ""
        directives = f'.maxntid {self.threads}, 1, 1 {cluster}.pragma "nounroll";'
        named = dict.fromkeys((*self.loaded, *self.results))
        declared = PTX.registers(self, [r for r in named if r not in self.wide], [r for r in named if r in self.wide])
        text = entry(self.name, pointers, declared, PTX.body(self), directives)
        why = f"how long {self.subject} takes cannot be emulated"
        op = LoopTiming(why, False, self.subject, self.variant, self.copies, self.ctas)
        return Kernel(self.name, op, memory + text, self.target, optimised=True, read=True)

    def run(self, blocks: Sequence[TimedBlock], maps: tuple[TensorMap, ...] = (), inputs: Bytes | None = None) -> Run:
        return Run(self.kernel(), blocks, maps, inputs)


def threads_for(registers: int) -> int:
    """The most threads of a block, a power of two, if each has so many 32-bit registers besides the frame's."""
    most = REGISTERS // (registers + FRAME)
    return min(MOST_THREADS, 1 << most.bit_length() - 1)


ZEROS, RANDOM = 0, 1  # images


@cache
def images() -> Bytes:
    """Two images: zeros, and random bits."""
    random = np.random.default_rng(0).integers(0, 1 << 32, IMAGE_WORDS, np.uint32)
    return np.stack([np.zeros(IMAGE_WORDS, np.uint32), random]).view(np.uint8).reshape(1, -1)


def launch(
    kernel: Kernel,
    blocks: Sequence[TimedBlock],
    shared_bytes: int,
    inputs: Bytes | None = None,
    maps: tuple[TensorMap, ...] = (),
) -> Launch:
    """One launch of all blocks. `shared_bytes` keeps a second block off an SM. `maps` describe tensors in the input."""
    plan = np.zeros((len(blocks), ROW_WORDS), np.uint32)
    for row, block in zip(plan, blocks, strict=True):
        row[:2] = block.threads, block.image
        row[2 : 2 + len(block.words)] = block.words
        row[2 + MOST_WORDS : 2 + MOST_WORDS + len(ROUNDS)] = block.rounds or ROUNDS
    launch_inputs = (images() if inputs is None else inputs, plan.view(np.uint8).reshape(1, -1))
    threads, size = max(block.threads for block in blocks), len(blocks) * 8 * (len(ROUNDS) + 1)
    return Launch(kernel, (len(blocks) * _op(kernel).ctas, 1, 1), launch_inputs, 0, size, threads, shared_bytes, maps)


def _op(kernel: Kernel) -> LoopTiming:
    """The op of a timing kernel."""
    assert isinstance(kernel.op, LoopTiming)
    return kernel.op


def pass_times(launch: Launch, output: Bytes) -> Ints:
    """Cycles and nanoseconds, by block and pass: (blocks, passes, 2)."""
    blocks = launch.grid[0] // _op(launch.kernel).ctas
    return output.view(np.uint32).reshape(blocks, -1, 2)[:, : len(ROUNDS)].astype(np.int64)


def decode(launch: Launch, output: Bytes) -> Floats:
    """By block, (blocks, RUNS + 2): cycles of one copy in each run, the cycles that count, cycles per nanosecond.

    The cycles that count are the least long pass minus the least short one, per copy. ProbeError if long passes took no
    longer than short ones.
    """
    cycles, ns = np.moveaxis(pass_times(launch, output), 2, 0)
    short, long = cycles[:, 1::2], cycles[:, 2::2]
    strange = (cycles <= 0).any(axis=1) | (long.min(axis=1) <= short.min(axis=1))
    if strange.any():
        block = int(strange.argmax())
        took = f"{long[block].tolist()} cycles in block {block}, passes of {SHORT} {short[block].tolist()}"
        raise ProbeError(f"{launch.kernel.name}: a pass of {LONG} rounds took no longer than one of {SHORT}: {took}.")
    copies = (LONG - SHORT) * _op(launch.kernel).copies
    rate = long.sum(axis=1) / np.maximum(ns[:, 2::2].sum(axis=1), 1)
    number = long.min(axis=1) - short.min(axis=1)
    return np.column_stack([(long - short) / copies, number / copies, rate])


def slower_modes(reading: Readout, together: Sequence[tuple[str, ...]] = ()) -> Readout | None:
    """A reading whose numbers are those of the slower mode wherever the runs of a loop fall into two; None if none do.

    Two runs or more are in each mode, closer to each other than a quarter of what is between the modes, and what counts
    of the loop is of the faster one. Loops that make one number `together` are all of the slower mode, or none is.
    """
    slow = {name: _slow_mode(cycles) for name, cycles in reading.items() if cycles.ndim == 2}
    for names in together:
        both = np.logical_and.reduce([np.isfinite(slow[name]) for name in names if name in slow])
        slow |= {name: np.where(both, slow[name], np.nan) for name in names if name in slow}
    if not any(np.isfinite(cycles).any() for cycles in slow.values()):
        return None
    made = dict(reading)
    for name, cycles in slow.items():
        made[name] = reading[name].copy()
        made[name][:, RUNS] = np.where(np.isfinite(cycles), cycles, reading[name][:, RUNS])
    return made


def _slow_mode(cycles: Floats) -> Floats:
    """The least cycles of the slower mode, by block; NaN where runs are of one."""
    runs, found = np.sort(cycles[:, :RUNS], axis=1), np.full(len(cycles), np.nan)
    for count in range(2, RUNS - 1):
        fast, slow = runs[:, :count], runs[:, count:]
        gap = slow[:, 0] - fast[:, -1]
        narrow = np.maximum(np.ptp(fast, axis=1), np.ptp(slow, axis=1)) < gap / 4
        counted = np.abs(cycles[:, RUNS] - fast[:, 0]) < gap / 4
        found = np.where((gap > WITHIN * slow[:, 0]) & narrow & counted, slow[:, 0], found)
    return found


# what a loop may have besides a form's own opcodes: its counter, moves between registers, logic on addresses
FREE = re.compile(
    r"NOP|U?BRA|BRX|U?ISETP|VIADD|U?IADD3|U?MOV|IMAD|U?LOP3|U?PRMT|U?SEL|BSSY|BSYNC|BREAK|WARPSYNC|VOTEU?|R2UR|U?LDC|"
    r"S2U?R|CS2R|U?PLOP3|U?SHF|U?LEA|P2R|R2P|RET|YIELD|FSEL|LEPC|ERRBAR|CCTL"
)
SPILLED = of_space("local")  # of spills; or arguments of a call, if `loop_opcodes` has them
MOVES = re.compile(r"(MOV|IMAD\.MOV|PRMT|SEL|LOP3)\b")
Counts = dict[str, int]


class Seen(NamedTuple):
    """Counts of opcodes in a timed loop, and beside it, between the readings of the clock."""

    loop: Counts
    beside: Counts

    @classmethod
    def from_code(cls, timed_code: TimedCode) -> Seen:
        """The opcodes of timed code, counted."""
        return cls(dict(Counter(timed_code.loop)), dict(Counter(timed_code.beside)))


def lines(timed_codes: Mapping[str, TimedCode]) -> list[str]:
    """Timed code by variant, as lines of text: "variant where opcode count"."""
    return [
        f"{variant} {where} {opcode} {count}"
        for variant, code in timed_codes.items()
        for where, counts in Seen.from_code(code)._asdict().items()
        for opcode, count in counts.items()
    ]


def parse_lines(opcode_lines: Sequence[str]) -> dict[str, Seen]:
    """The inverse of `lines`; a variant whose code has no opcodes is missing."""
    by_variant: dict[str, Seen] = {}
    for variant, where, opcode, count in (line.split(" ") for line in opcode_lines):
        counts = by_variant.setdefault(variant, Seen({}, {}))
        getattr(counts, where)[opcode] = int(count)
    return by_variant


def working_opcodes(counts: Mapping[str, int]) -> Counts:
    """The opcodes that do the work."""
    return {opcode: n for opcode, n in counts.items() if not FREE.fullmatch(stem(opcode))}


def stem(opcode: str) -> str:
    """An opcode without its modifiers."""
    return opcode.split(".", maxsplit=1)[0]


def prove(
    variant: str, counted: Seen, loop_opcodes: Mapping[str, int], around: Mapping[str, int] | None = None
) -> None:
    """Raises ProbeError unless the loop has exactly `loop_opcodes` and `around`, and none of the first is beside it.

    `around`: what the loop needs besides, such as waits; it may also occur beside the loop.
    """
    if not loop_opcodes:
        raise ProbeError(f"{variant}: one copy alone becomes nothing that works: it was taken out of the loop.")
    if any(stem(opcode) in SPILLED and opcode not in loop_opcodes for opcode in counted.loop):
        raise ProbeError(f"{variant}: the loop spills registers to memory.")
    expected, counts = {**loop_opcodes, **(around or {})}, working_opcodes(counted.loop)
    if counts != expected:
        raise ProbeError(
            f"{variant}: the loop should hold {_words(expected)}, and its machine code has {_words(counts)}."
        )
    outside = {opcode for opcode in counted.beside if opcode in loop_opcodes}
    if outside:
        raise ProbeError(f"{variant}: {', '.join(sorted(outside))} also stands beside the loop.")


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{opcode} x {n}" for opcode, n in sorted(counts.items())) or "nothing that works"


KIND = "cost"
TICK = 2.0  # cycles by which two equal passes may differ
DECIMALS = 3


class Costs(Dialogue):
    """An experiment that times loops."""

    kind: ClassVar[str] = KIND

    @abstractmethod
    def runs(self) -> Mapping[str, Run]:
        """The runs, by variant."""

    @abstractmethod
    def found(self, reading: Readout, context: Context) -> Any:
        """The Body of a reading; ProbeError if no loop has the expected machine code."""

    def together(self) -> Sequence[tuple[str, ...]]:
        """The variants whose difference is one number, where it takes several."""
        return ()

    def conclude(self, reading: Readout, context: Context) -> Any:
        """What is found, with both values of each number whose runs fall into two modes."""
        body = self.found(reading, context)
        if (slower := slower_modes(reading, self.together())) is None:
            return body
        try:
            other = self.found(slower, context)
        except ProbeError:
            return body
        numbers = kinds.kind(self.kind).numbers
        measured, besides = numbers(body), numbers(other)
        pairs = {name: [cycles, besides[name]] for name, cycles in measured.items() if name in besides}
        return msgspec.structs.replace(body, modes={name: pair for name, pair in pairs.items() if apart(pair)})

    @cached_property
    def _runs(self) -> Mapping[str, Run]:
        """`runs()`, computed once: their texts are long."""
        return self.runs()

    def kernels(self) -> list[Kernel]:
        return [run.kernel for run in self._runs.values()]

    def measure(self, bench: Bench) -> Readout:
        """By variant what `timing.decode` returns, (blocks, RUNS + 2); "code": the opcodes of all loops."""
        alone, runs = bench.shared_bytes() // 2 + 1024, self._runs
        launches = {
            variant: launch(run.kernel, run.blocks, alone, run.inputs, run.maps) for variant, run in runs.items()
        }
        outputs = bench.run(list(launches.values()))
        reading = {
            variant: decode(launch, output) for (variant, launch), output in zip(launches.items(), outputs, strict=True)
        }
        codes = {variant: bench.timed_code(run.kernel) for variant, run in runs.items()}
        return {**reading, "code": array_of_text(lines(codes))}


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

    def split(self, variant: str, is_own: Callable[[str], object]) -> tuple[Counts, Counts]:
        """(the opcodes of a loop whose stems pass `is_own`, once each; all others, with their counts)."""
        counts = self.each(variant)
        each = {opcode: 1 for opcode in counts if is_own(stem(opcode))}
        return each, {opcode: n for opcode, n in counts.items() if opcode not in each}

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
            prove(variant, self.code(variant), loop_opcodes, around)
        except ProbeError as error:
            self.refused[variant] = str(error)
            return None
        return self.least(variant, copies)

    def least(self, variant: str, copies: int, most: float = math.inf) -> Floats:
        """Cycles of one copy, by block, whatever its machine code is; counts towards the spread.

        NaN where runs differ by more than `most`.
        """
        cycles = self.reading[variant]
        least = cycles[:, RUNS]
        noise = TICK / ((LONG - SHORT) * copies)
        apart = np.abs(cycles[:, :RUNS] - np.median(cycles[:, :RUNS], axis=1)[:, None])
        spreads = np.maximum(np.sort(apart, axis=1)[:, 1] - noise, 0) / least
        self._spreads += spreads[spreads <= most].tolist()
        return np.where(spreads <= most, least.round(DECIMALS), np.nan).astype(np.float64)

    @property
    def spread(self) -> float:
        """The largest distance of a number's median run to the next run, relative to the number, beyond TICK."""
        if not self._spreads:
            raise self.refusal()
        return round(max(self._spreads), 4)

    @property
    def mhz(self) -> float:
        """The median SM clock of all loops."""
        rates = np.concatenate([cycles[:, RUNS + 1] for name, cycles in self.reading.items() if cycles.ndim == 2])
        return round(float(np.median(rates)) * 1000, 0)

    def body(self, each: Mapping[str, int], **numbers: Any) -> Body:
        """The body of a finding whose copies become the opcodes `each`; ProbeError if there is no number.

        `mhz`: the median SM clock of all loops.
        """
        opcodes = {opcode: float(n) for opcode, n in each.items()}
        spread = self.spread
        return Body(**{"opcodes": opcodes, "spread": spread, "mhz": self.mhz, "refused": self.refused, **numbers})

    def refusal(self) -> ProbeError:
        """Why the first loop gave no number."""
        return ProbeError(next(iter(self.refused.values()), "no loop gave a number."))
