"""Timing a loop of one instruction: the kernel's frame, its launches, and cycles from the clocks that come back.

A block is one experiment: it takes the number of its threads, which of them go on, and how many rounds each pass has,
from its row of the plan. Every pass runs the same loop between two barriers and reads the clock after each; the first
warms up, then short and long ones alternate. Long minus short is the loop alone, without what stands around it.

    cycles of one copy = (least long - least short) / (LONG - SHORT) / copies

Inputs come from memory, results go into a sum that decides whether something is stored, so that the compiler knows
neither. %zero holds a zero that only memory knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.target import Target
from tcprobe.layout.arrays import Bytes, Floats, Ints
from tcprobe.probes.ptx import Kernel, Launch, Tables, entry, identifier
from tcprobe.references.shared_memory.tensor_map import TensorMap

SHORT, LONG = 32, 96
RUNS = 5
ROUNDS = (4, *(SHORT, LONG) * RUNS)  # of each pass: the first one warms up
MOST_WORDS = 6  # of a block's own, such as descriptors
ROW_WORDS = 20  # of the plan: threads, image, words of its own, rounds of each pass, zero
IMAGE_WORDS = 64 * WARP  # of input: word j of a lane at 32 j + lane
NEVER = 0x9E3779B9  # a sum that does not come up
REGISTERS = 1 << 16  # of an SM
FRAME = 24  # registers that the frame takes, at most
MOST_THREADS = 1024
POINTERS = ("data", "plan", "out")


@dataclass(frozen=True)
class LoopTiming:
    """What a timing kernel times; only a GPU has its clock. `ctas` of a cluster are one experiment."""

    subject: str
    variant: str
    copies: int
    from_code: bool = False
    ctas: int = 1

    def emulate(self, launch: Launch, tables: Tables) -> Bytes:
        """ProbeError: layouts do not say how long anything takes."""
        raise ProbeError(f"{launch.kernel.name}: how long {self.subject} takes cannot be emulated.")


@dataclass(frozen=True)
class Loop:
    """`body` is one round, with `copies` of what is timed; `after` ends what is in flight, `ended` the kernel.

    `loaded` registers get words of the block's image, `results` are consumed; of both those in `wide` have 64 bits.
    `before` may use %zero, %word0 to %word5 of the plan and %memory, the start of shared memory. `ctas` form a cluster
    that is one block of the plan; one of them stores its times.
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

    @property
    def name(self) -> str:
        """The kernel's."""
        return identifier(f"cost.{self.variant}.{self.subject}")

    def kernel(self) -> Kernel:
        """The kernel that times it."""
        memory = f".extern .shared .align 1024 .b8 {self.name}_memory[];\n" if self.shared else ""
        pointers = (*POINTERS[:2], "maps", POINTERS[2]) if self.mapped else POINTERS
        cluster = f".explicitcluster .reqnctapercluster {self.ctas}, 1, 1 " if self.ctas > 1 else ""
        directives = f'.maxntid {self.threads}, 1, 1 {cluster}.pragma "nounroll";'
        text = entry(self.name, pointers, self._declared(), self._lines(), directives)
        op = LoopTiming(self.subject, self.variant, self.copies, ctas=self.ctas)
        return Kernel(self.name, op, memory + text, self.target, optimised=True, read=True)

    def _declared(self) -> list[str]:
        named = dict.fromkeys((*self.loaded, *self.results))
        kinds = (("b64", [r for r in named if r in self.wide]), ("b32", [r for r in named if r not in self.wide]))
        return [
            *(f".reg .{kind} {', '.join(names)};" for kind, names in kinds if names),
            ".reg .u32 %threads, %warps, %from, %zero, %memory, %rounds, %pass, %sum, %low, %high;",
            f".reg .u32 {', '.join(f'%word{n}' for n in range(MOST_WORDS))};",
            ".reg .u64 %start, %end, %since, %until, %at, %row;",
            ".reg .pred %idle, %more, %first;",
            *self.registers,
        ]

    def _lines(self) -> list[str]:
        return [
            *(["mov.u32 %x, %clusterid.x;"] if self.ctas > 1 else []),
            f"mad.wide.u32 %plan, %x, {4 * ROW_WORDS}, %plan;",
            f"mad.wide.u32 %out, %x, {8 * (len(ROUNDS) + 1)}, %out;",
            "ld.global.u32 %threads, [%plan];",
            "setp.ge.u32 %idle, %lane, %threads;",
            "@%idle ret;",
            f"add.u32 %warps, %threads, {WARP - 1};",
            f"and.b32 %warps, %warps, {-WARP};",
            "ld.global.u32 %from, [%plan+4];",
            f"mad.wide.u32 %data, %from, {4 * IMAGE_WORDS}, %data;",
            f"and.b32 %from, %lane, {WARP - 1};",
            "mad.wide.u32 %data, %from, 4, %data;",
            f"ld.global.u32 %zero, [%plan+{4 * ROW_WORDS - 4}];",
            *(f"ld.global.u32 %word{n}, [%plan+{8 + 4 * n}];" for n in range(MOST_WORDS)),
            *([f"mov.u32 %memory, {self.name}_memory;"] if self.shared else []),
            *(line for j, name in enumerate(self.loaded) for line in self._load(j, name)),
            *self.before,
            "mov.u32 %pass, 0;",
            "mov.u64 %row, %plan;",
            "PASS:",
            f"ld.global.u32 %rounds, [%row+{8 + 4 * MOST_WORDS}];",
            "mov.u64 %since, %globaltimer;",
            "bar.sync 0, %warps;",
            "mov.u64 %start, %clock64;",
            "ROUND:",
            *self.body,
            "sub.u32 %rounds, %rounds, 1;",
            "setp.ne.u32 %more, %rounds, 0;",
            "@%more bra ROUND;",
            *self.after,
            "bar.sync 0, %warps;",
            "mov.u64 %end, %clock64;",
            "mov.u64 %until, %globaltimer;",
            *self._told(),
            "mov.u32 %sum, 0;",
            *(line for name in self.results for line in self._consumed(name)),
            f"setp.eq.u32 %first, %sum, {NEVER};",
            "@%first st.global.u32 [%out], %sum;",
            *self.ended,
        ]

    def _load(self, number: int, name: str) -> list[str]:
        """An input register from the block's image; all words of an image are there for every number of registers."""
        place = 4 * WARP * (number % (IMAGE_WORDS // WARP))
        if name not in self.wide:
            return [f"ld.global.u32 {name}, [%data+{place}];"]
        return [f"ld.global.u32 %low, [%data+{place}];", f"mov.b64 {name}, {{%low, %low}};"]

    def _told(self) -> list[str]:
        """Thread 0 stores the cycles and the nanoseconds of a pass."""
        return [
            "sub.u64 %end, %end, %start;",
            "sub.u64 %until, %until, %since;",
            "cvt.u32.u64 %low, %end;",
            "cvt.u32.u64 %high, %until;",
            "mad.wide.u32 %at, %pass, 8, %out;",
            "setp.eq.u32 %first, %lane, 0;",
            "@%first st.global.v2.u32 [%at], {%low, %high};",
            "add.u64 %row, %row, 4;",
            "add.u32 %pass, %pass, 1;",
            f"setp.lt.u32 %more, %pass, {len(ROUNDS)};",
            "@%more bra PASS;",
        ]

    def _consumed(self, name: str) -> list[str]:
        if name not in self.wide:
            return [f"xor.b32 %sum, %sum, {name};"]
        return [f"mov.b64 {{%low, %high}}, {name};", "xor.b32 %sum, %sum, %low;", "xor.b32 %sum, %sum, %high;"]


class TimedBlock(NamedTuple):
    """A block's threads, the image that it takes its inputs from, words of its own, and rounds, if not ROUNDS."""

    threads: int
    image: int = 0
    words: tuple[int, ...] = ()
    rounds: int | None = None


def threads_for(registers: int) -> int:
    """The most threads of a block, a power of two, that may have so many 32-bit registers beside the frame's."""
    most = REGISTERS // (registers + FRAME)
    return min(MOST_THREADS, 1 << most.bit_length() - 1)


ZEROS, RANDOM = 0, 1  # images


@cache
def images() -> Bytes:
    """Of zeros, and of random bits; in both whatever is read is a number or nothing that takes longer."""
    random = np.random.default_rng(0).integers(0, 1 << 32, IMAGE_WORDS, np.uint32)
    return np.stack([np.zeros(IMAGE_WORDS, np.uint32), random]).view(np.uint8).reshape(1, -1)


def launch(
    kernel: Kernel,
    blocks: Sequence[TimedBlock],
    shared_bytes: int,
    inputs: Bytes | None = None,
    maps: tuple[TensorMap, ...] = (),
) -> Launch:
    """All blocks in one launch; `shared_bytes` keep a second block off an SM, `maps` are of tensors in the input."""
    plan = np.zeros((len(blocks), ROW_WORDS), np.uint32)
    for row, block in zip(plan, blocks, strict=True):
        row[:2] = block.threads, block.image
        row[2 : 2 + len(block.words)] = block.words
        row[2 + MOST_WORDS : 2 + MOST_WORDS + len(ROUNDS)] = block.rounds or ROUNDS
    given = (images() if inputs is None else inputs, plan.view(np.uint8).reshape(1, -1))
    threads, size = max(block.threads for block in blocks), len(blocks) * 8 * (len(ROUNDS) + 1)
    return Launch(kernel, (len(blocks) * _op(kernel).ctas, 1, 1), given, 0, size, threads, shared_bytes, maps)


def _op(kernel: Kernel) -> LoopTiming:
    """What a kernel times."""
    assert isinstance(kernel.op, LoopTiming)
    return kernel.op


def told(launch: Launch, output: Bytes) -> Ints:
    """Cycles and nanoseconds by block and pass: (blocks, passes, 2)."""
    blocks = launch.grid[0] // _op(launch.kernel).ctas
    return output.view(np.uint32).reshape(blocks, -1, 2)[:, : len(ROUNDS)].astype(np.int64)


def decode(launch: Launch, output: Bytes) -> Floats:
    """Cycles of one copy by block and run, and, last, cycles a nanosecond of the long passes; (blocks, RUNS + 2).

    Column RUNS is the number: the least long pass minus the least short one. ProbeError where no time passed.
    """
    cycles, ns = np.moveaxis(told(launch, output), 2, 0)
    short, long = cycles[:, 1::2], cycles[:, 2::2]
    if (cycles <= 0).any() or (long.min(axis=1) <= short.min(axis=1)).any():
        raise ProbeError(f"{launch.kernel.name}: a pass of {LONG} rounds took no longer than one of {SHORT}.")
    made = (LONG - SHORT) * _op(launch.kernel).copies
    rate = long.sum(axis=1) / np.maximum(ns[:, 2::2].sum(axis=1), 1)
    number = long.min(axis=1) - short.min(axis=1)
    return np.column_stack([(long - short) / made, number / made, rate])
