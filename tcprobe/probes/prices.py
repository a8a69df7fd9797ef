"""Loops of the opcodes that stand in kernels' main loops: latency by operand, interval, and the pipe of each.

prices.csv has a line for each opcode: PTX that becomes it, with the registers `{d}`, `{a}`, `{b}`, `{c}`, and what they
are. Registers of a kind form a ring: copy k writes number k and reads what earlier copies wrote, so nothing in the loop
is constant, and no two copies are alike. What no PTX becomes is written into the machine code, over dp4a.

- a1, b1, c1: a chain through one operand: its latency
- a8: eight chains side by side in 1 to 32 warps: the interval; a8_1, a8_2: copies that read one and two registers;
  a8_0: copies that read one, and others that are the same in all, which the hardware keeps
- with_OPCODE: eight chains of both, as many of each as take the same time: where they need one pipe, both times add up;
  only_OPCODE: the other alone

Each loop has two lengths. Their difference is what so many copies take; the end of a round, where the compiler waits
for all results, cancels.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import lcm
from typing import Literal, NamedTuple

import numpy as np

from tcprobe import facts
from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP, Target
from tcprobe.layout.arrays import Floats
from tcprobe.probes import timing
from tcprobe.probes.cost_multiplies import CLOSE, interval
from tcprobe.probes.experiment import Bench, Context, Readout, array_of_text, text_lines
from tcprobe.probes.ptx import Recoding
from tcprobe.probes.timing import DECIMALS, FREE, Costs, ProvedNumbers, Run, Seen, TimedBlock, TimedLoop, threads_for
from tcprobe.store.kinds.cost import MOST_SPREAD, Overlap, Point
from tcprobe.store.kinds.prices import REGISTERS, Body, Reads, Register, Sample

KIND = "prices"
PTX = Macros(globals(), timing=timing.PTX, IMAGE_WORDS=timing.IMAGE_WORDS)
COPIES = 64  # in a short round; in a long one three times as many
SLOW = 32  # pace from which loops are shorter
RING = 16  # registers of each kind, which copies write in turn
FIXED = 4  # registers of each kind that nothing writes
CHAINS = 8
APART = 4  # how much older the operands are that a chain does not go through
WARPS = (1, 4, 8, 16, 32)
PAIR_WARPS = 8
PAIR_COPIES = 160  # of both opcodes of a pair, about
STEP = 16  # bytes between the addresses of stores in a round
BASE = 4096  # first address of shared memory: behind what the system reserves
AREA = 16 << 10
BLOCK_BYTES = 24 << 10  # of global memory that a block has for itself: 16 of each thread, and STEP of each copy
DATA_BYTES = 4 * timing.IMAGE_WORDS + len(WARPS) * BLOCK_BYTES  # of global memory
OTHERS = 12  # most opcodes of a round that are no copy: its counter and branch, and moves at its end
ANY = -1  # of another opcode may be as many as the compiler likes
ROUND = re.compile(r"ISETP|BRA|U?IADD3|VIADD")  # opcodes of which a round has one of its own
BARRIER, BARRIER_WARPS = "BAR.SYNC", 8  # which all warps of a block share
SCHEDULERS = 4  # of an SM
ISSUED = 0.3  # interval below which an opcode is issued nearly every cycle
HOPPER = Target("sm_90", "8.3")
# the opcode that stands for a pipe, one that reads few registers; of several the first counts
STANDING = {
    "fp64": "DFMA",
    "xu": "MUFU.EX2",
    "lsu": "STS",
    "adu": "LDC",
    "uniform": "UIADD3",
    "alu": "FMNMX",
    "fmaheavy": "IMAD",
    "fp16": "HADD2.F32",
    "fma": "FADD",
    "tensor": "HMMA.16816.F32",
}
# arithmetic of which the compiler joins no two, so that operands may be the same in all copies
WITH_NUMBER = ("add.f32", "mul.f32")  # of which one operand may be a number
NUMBER = "0f3F800001"  # a little more than 1, by which the compiler cannot leave out a multiply
FOLLOWING = re.compile(r"fma\.|add\.f|mul\.f|mad\.|dp4a")
NEAR = 0.12  # relative, of the least: points of a plateau
SAME, HIDDEN = 0.75, 0.1  # shares: of what could be hidden and is not, in one pipe; of cycles that must be hidable


class Opcode(NamedTuple):
    """A line of prices.csv: `types` of D, A, B, C; `pace`, the cycles of a sub-partition for one, roughly.

    Types: r, l, p are rings of 32 and 64 bits and predicates, w is half of an l, the high one of B, u, v are rings of
    uniform registers, of 32 and 64 bits; R, L, P are registers that nothing writes; S, G addresses; - none. `others`
    are opcodes that a copy needs besides, with their counts. `code` are words in place of dp4a, whose registers they
    keep; or, of the opcodes that PTX becomes, (value, mask) of bits that some have, and (value, mask) of their new
    ones. `stall`: the cycles that compilers state before what needs the result of a word.
    """

    id: str
    covers: tuple[str, ...]
    others: tuple[tuple[str, int], ...]
    ptx: str
    code: tuple[int, ...]
    stall: int
    types: str
    pace: int
    memory: tuple[str, int]

    @property
    def operands(self) -> dict[Register, str]:
        """Types by operand: A, B, C."""
        return operands_of(self.types)

    @property
    def chained(self) -> list[Register]:
        """The operands that may take the result of the copy before."""
        kind = self.types[0]
        if self.words and not self.stall:
            return []
        return [o for o, own in self.operands.items() if own == kind or (own, kind) == ("w", "l")]

    @property
    def words(self) -> tuple[int, ...]:
        """Words of machine code that one copy is; empty where PTX becomes it."""
        return () if self.ptx else self.code


@cache
def operands_of(types: str) -> dict[Register, str]:
    """Types by operand, of the types of D, A, B, C."""
    return dict(zip(REGISTERS, types[1:], strict=False))


@cache
def opcodes() -> dict[str, Opcode]:
    """All lines of prices.csv, by id."""
    rows = facts.read(
        __file__,
        "prices.csv",
        Opcode,
        covers=lambda cell: tuple(cell.split("|")),
        others=_counts,
        code=lambda cell: tuple(int(one, 16) for one in re.split("[ /]", cell) if one),
        stall=lambda cell: int(cell or 0),
        pace=int,
        memory=lambda cell: (cell.partition(" ")[0], int(cell.partition(" ")[2] or 4)),
    )
    return {row.id: row for row in rows}


def _counts(cell: str) -> tuple[tuple[str, int], ...]:
    """`IADD3 1;MOV|IMAD.MOV* *`: patterns with their counts, ANY for *."""
    parts = [one.rpartition(" ") for one in cell.split(";") if one]
    return tuple((patterns, ANY if count == "*" else int(count)) for patterns, _, count in parts)


REGISTER = re.compile(r"\{([dabc])(?:\.([0-9]))?\}")
RINGS = {"r": "v", "l": "w", "p": "p"}  # names of rings by type
STILL = {"R": "x", "L": "y", "P": "q", "S": "s", "G": "g"}  # names of registers that nothing writes
MARK, MARKED = (0x226, 0xFFF), "dp4a.u32.u32 {d}, {a}, {b}, {c};"  # IDP.4A, whose operands are four registers
FIELDS = {"d": 16, "a": 24, "b": 32, "c": 64}  # first of the eight bits of a register in a word
FIRST_UNIFORM = 16  # uniform registers that compiled code does not reach
STALL_BIT, MOST_STALL = 105, 15
STALL_AND_YIELD = 0x1F << STALL_BIT
# A round's counter and its comparison with zero, as (value, mask): the compiler counts on the cycles of dp4a between
# them, which other words may not take. A warp that reads a count late once, and in time a round later, misses zero.
COUNTER = ((0xFFFFFFFF << 32 | 0x810, 0xFFFFFFFF << 32 | 0xFFF), (0xFFFFFFFF << 32 | 0x836, 0xFFFFFFFF << 32 | 0xFFF))
COMPARISON = (0xFF << 32 | 0x20C, 0xFF << 32 | 0xFFF)
COUNTER_STALL, COMPARISON_STALL = 6, 13  # cycles until a register, and a predicate, can be read
WAITS = 0x3F << 116  # of a word: the barriers that it waits for, which the instructions behind it need too


@dataclass(frozen=True)
class Chains:
    """`count` chains of an opcode side by side through operand `through`; copies read `distinct` registers each.

    With 0 the operands beside `through` are of registers that nothing writes, the same in all copies.
    """

    opcode: Opcode
    through: Register | Literal[""] = ""
    count: int = CHAINS
    distinct: int | None = None
    prefix: str = ""  # of its registers: another opcode's are in the loop too

    @property
    def name(self) -> str:
        return f"{self.through}{self.count}" + ("" if self.distinct is None else f"_{self.distinct}")

    @property
    def types(self) -> str:
        """Types of the PTX of a copy."""
        return "rrrr" if self.opcode.words else self.opcode.types

    @property
    def parts(self) -> int:
        """Registers of a result."""
        return 1 + max((int(part or 0) for name, part in REGISTER.findall(self.opcode.ptx) if name == "d"), default=0)

    def copy(self, number: int) -> list[str]:
        """PTX of one copy; each word of code stands over one line."""
        if words := self.opcode.words:
            places = range(number * len(words), (number + 1) * len(words))
            return [self._written(MARKED, place) for place in places]
        halves = [o for o, own in self.opcode.operands.items() if own == "w"]
        split = [
            f".reg .b32 %{o}lo, %{o}hi; mov.b64 {{%{o}lo, %{o}hi}}, {self._ring('l', self._source(o, number))};"
            for o in halves
        ]
        written = self._written(self.opcode.ptx.replace("{k}", str(STEP * number)), number)
        return ["{", *split, written, "}"] if halves else [written]

    def _written(self, text: str, number: int) -> str:
        """PTX with the names of a copy's registers."""
        return REGISTER.sub(lambda found: self._register(number, found[1], found[2]), text)

    def recoded(self, number: int) -> list[tuple[int, int]]:
        """(mask, value) of each word of one copy: dp4a's own registers stay, uniform ones are of its ring."""
        made = []
        for place in range(number * len(self.opcode.words), (number + 1) * len(self.opcode.words)):
            word = self.opcode.words[place % len(self.opcode.words)]
            if self.count == 1:
                word = word & ~(MOST_STALL << STALL_BIT) | self.opcode.stall << STALL_BIT
            mask, word = (1 << 128) - 1 & ~WAITS, word & ~WAITS
            for operand, own in zip("dabc", self.opcode.types, strict=False):
                bits = 0xFF << FIELDS[operand]
                if own in "rR":
                    mask, word = mask & ~bits, word & ~bits
                if own in "uv":
                    source = place if operand == "d" else self._source(operand, place)
                    register = source % RING if own == "u" else 2 * (source % (RING // 2))
                    word = word & ~bits | (FIRST_UNIFORM + register) << FIELDS[operand]
            made.append((mask, word))
        return made

    def _register(self, number: int, operand: str, part: str) -> str:
        """The name of a register, or a number, that stands for an operand of a copy."""
        own = self.types["dabc".index(operand)]
        if operand == "d":
            return self._ring(own, number % RING, int(part or 0))
        if self.distinct == 0 and operand != self.through and own in "rl":
            number_allowed = self.opcode.ptx.startswith(WITH_NUMBER)
            return NUMBER if number_allowed else f"%{STILL[own.upper()]}{'abc'.index(operand)}"
        if own == "w":
            return f"%{operand}{'hi' if operand == 'b' else 'lo'}"
        if own in RINGS:
            return self._ring(own, self._source(operand, number), int(part or 0))
        return self._still(own, operand, number, part)

    def _still(self, own: str, operand: str, number: int, part: str) -> str:
        """The name of a register that nothing writes: an address, or one that copies take in turn."""
        if own in "SG":
            return f"%{self.prefix}{STILL[own]}0"
        vector = re.search(rf"\{{{operand}\.[0-9]\}}", self.opcode.ptx)
        place = int(part or 0) if vector else number + "abc".index(operand)
        return f"%{STILL[own]}{place % FIXED}"

    def _source(self, operand: str, number: int) -> int:
        """The number in its ring that an operand reads: its chain's last result, or an older one."""
        order = [o for o in self.opcode.operands if o != self.through and self.opcode.operands[o] not in STILL]
        place = 0 if operand == self.through or operand not in order else order.index(operand) + bool(self.through)
        place = min(place, 2 if self.distinct is None else self.distinct - 1)
        return (number - self.count - (APART + place - 1 if place else 0)) % RING

    def _ring(self, kind: str, number: int, part: int = 0) -> str:
        return f"%{self.prefix}{RINGS[kind]}{number}" + (f"_{part}" if part else "")

    def rings(self) -> dict[str, str]:
        """Type by name of each register of its rings."""
        kinds = dict.fromkeys("l" if own == "w" else own for own in self.types if own in "rlpw")
        return {
            self._ring(kind, number, part): kind
            for kind in kinds
            for part in range(self.parts if kind == self.types[0] else 1)
            for number in range(RING)
        }


def role(opcode: str, rows: Sequence[Opcode]) -> str:
    """The id of the row that covers an opcode best; that of a row with "+" if it is among its `others`; else ""."""
    patterns = [(one, row.id) for row in rows for one in row.covers]
    patterns += [(one, f"{row.id}+") for row in rows for several, _ in row.others for one in several.split("|")]
    fitting = [(len(pattern), id_) for pattern, id_ in patterns if fnmatch.fnmatchcase(opcode, pattern)]
    return max(fitting)[1] if fitting else ""


def prove(variant: str, counted: Seen, copies: Mapping[Opcode, int]) -> None:
    """Raises ProbeError unless a loop has so many copies of the rows, and besides only what a loop needs."""
    made: Counter[str] = Counter()
    for opcode, n in counted.loop.items():
        made[role(opcode, list(copies))] += n
    strange = [o for o in counted.loop if not role(o, list(copies)) and not FREE.fullmatch(timing.stem(o))]
    for row, n in copies.items():
        if not 0 <= made[row.id] - n <= bool(ROUND.fullmatch(row.id)):
            raise ProbeError(f"{variant}: the loop should hold {row.id} x {n}, and has {_words(counted.loop)}.")
        besides = [count for _, count in row.others]
        if ANY not in besides and not 0 <= made[f"{row.id}+"] - sum(besides) * n <= OTHERS:
            raise ProbeError(f"{variant}: beside {row.id} x {n} the loop has {_words(counted.loop)}.")
    if made[""] > OTHERS or strange:
        raise ProbeError(f"{variant}: beside its copies the loop has {_words(counted.loop)}.")


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{opcode} x {n}" for opcode, n in sorted(counts.items())) or "nothing"


def timed_run(subject: str, variant: str, copies: Sequence[Chains], warps: Sequence[int]) -> Run:
    """A loop of such copies, in blocks of so many warps."""
    sides = list({chains.prefix: chains for chains in copies}.values())
    made: Counter[str] = Counter()
    body, words = [], []
    for chains in copies:
        body += chains.copy(made[chains.prefix])
        words += chains.recoded(made[chains.prefix])
        made[chains.prefix] += 1
    rings = {name: kind for chains in sides for name, kind in chains.rings().items()}
    plain, wide = [n for n, kind in rings.items() if kind != "p"], [n for n, kind in rings.items() if kind == "l"]
    predicates = [name for name, kind in rings.items() if kind == "p"]
    loop = TimedLoop(
        subject,
        variant,
        HOPPER,
        len(copies),
        body,
        [*plain, "%kept"],
        [*plain, "%kept"],
        PTX.declared(predicates, any(chains.opcode.memory[0] == "local" for chains in sides)),
        PTX.before(sides, predicates),
        after=PTX.after(predicates),
        wide=frozenset(wide),
        threads=threads_for(len(plain) + (2 * len(wide) if wide else 0)),
        shared=True,
        early=True,
    )
    kernel = loop.kernel()
    if any(chains.opcode.memory[0] == "const" for chains in sides):
        kernel = replace(kernel, text=f".const .align 4 .b32 {kernel.name}_table[64];\n{kernel.text}")
    recodings = [*patient(), Recoding(*MARK, tuple(words))] if words else []
    for value, mask, new, changed in (c.opcode.code for c in sides if c.opcode.ptx and c.opcode.code):
        recodings.append(Recoding(value, mask, ((changed, new),)))
    for recoding in recodings:
        told = " ".join(f"{value:x}/{mask:x}" for mask, value in recoding.words)
        text = f"{kernel.text}// its machine code has in place of {recoding.mark:x}/{recoding.of:x}: {told}\n"
        kernel = replace(kernel, text=text, recodings=(*kernel.recodings, recoding))
    blocks = [TimedBlock(n * WARP) for n in warps if n * WARP <= loop.threads]
    return Run(kernel, blocks, (), np.zeros((1, DATA_BYTES), np.uint8))


def patient() -> list[Recoding]:
    """What makes a round's counter independent of the instructions beside it."""
    stalls = [(mark, COUNTER_STALL) for mark in COUNTER] + [(COMPARISON, COMPARISON_STALL)]
    return [Recoding(*mark, ((STALL_AND_YIELD, stall << STALL_BIT),)) for mark, stall in stalls]


class PricedNumbers(ProvedNumbers):
    """The numbers of loops whose machine code holds the copies that were written, and no more than a loop needs."""

    def of(self, name: str, row: Opcode, lengths: tuple[int, int]) -> Floats | None:
        """Cycles of one copy, by block: what the long loop takes more than the short one; NaN where that is nothing."""
        short, long = (self.round(f"{name}_{length}", length, {row: length}) for length in lengths)
        if short is None or long is None:
            return None
        found = (long - short) / (lengths[1] - lengths[0])
        return np.where(found > 0, found, np.nan)

    def round(self, variant: str, length: int, copies: Mapping[Opcode, int]) -> Floats | None:
        """Cycles of a round, by block; None, and `refused` says why, if its machine code is not as expected."""
        try:
            prove(variant, self.code(variant), copies)
        except ProbeError as error:
            self.refused[variant] = str(error)
            return None
        cycles = self.least(variant, length, MOST_SPREAD)
        if np.isnan(cycles).any():
            self.refused[variant] = f"{variant}: its runs differ by more than {MOST_SPREAD:.0%} in some blocks."
        return cycles * length


def sound(points: Sequence[Point]) -> list[Point]:
    """The points of a curve that are no less than its plateau, and than what four schedulers issue.

    The plateau is the median of all that are NEAR the least. A point below it has a clock that began late. Each of four
    schedulers does no more with a warp than one with one.
    """
    alone = min((point.cycles for point in points if point.warps == 1), default=0.0)
    issued = [point for point in points if point.cycles >= (1 - CLOSE) / min(point.warps, SCHEDULERS)]
    issued = [p for p in issued if p.warps > SCHEDULERS or p.cycles >= (1 - CLOSE) * alone / p.warps]
    least = min((point.cycles for point in issued), default=0)
    plateau = sorted(point.cycles for point in issued if point.cycles <= least * (1 + NEAR))
    return [point for point in issued if point.cycles >= plateau[(len(plateau) - 1) // 2] * (1 - CLOSE)]


def sound_pairs(beside: Mapping[str, Overlap], best: Point, refused: dict[str, str]) -> dict[str, Overlap]:
    """The pairs that take no less than the longer of both alone; of its own cycles no less than its interval's."""
    kept = {}
    for other, pair in beside.items():
        own = max(pair.alone[0], round(best.cycles * PAIR_WARPS, DECIMALS))
        if pair.together >= max(own, pair.alone[1]) * (1 - NEAR / 2):
            kept[other] = Overlap([own, pair.alone[1]], pair.together, pair.warps)
        else:
            refused[f"with_{other}"] = f"with_{other}: {pair.together:g} cycles for both are less than one takes alone."
    return kept


@dataclass(frozen=True)
class OpcodePrice(Costs):
    """All loops of an opcode."""

    opcode: Opcode
    kind = KIND

    @property
    def id(self) -> str:
        return self.opcode.id

    @property
    def target(self) -> Target:
        return HOPPER

    @property
    def chains(self) -> list[Chains]:
        """Every loop of copies of it alone: chains through each operand, then side by side."""
        op, through = self.opcode, self.opcode.chained
        if not through:
            return [Chains(op, count=CHAINS if op.words else 1)]
        fewer = [1, 2] if len(op.operands) == 3 and set(op.types) == {"r"} else []
        fewer += [0] if FOLLOWING.match(op.ptx) else []
        return [*(Chains(op, o, 1) for o in through), *(Chains(op, through[0], CHAINS, n) for n in (None, *fewer))]

    @property
    def lengths(self) -> tuple[int, int]:
        """Copies in a round of the short and of the long loop."""
        short = RING if self.opcode.pace >= SLOW else COPIES
        return short, 3 * short

    def runs(self) -> dict[str, Run]:
        """Each loop in two lengths, in blocks of every number of warps; then pairs."""
        runs = {
            f"{chains.name}_{length}": timed_run(self.id, f"{chains.name}_{length}", [chains] * length, WARPS)
            for chains in self.chains
            for length in self.lengths
        }
        for other in self.partners:
            mixed = self.mixed(other)
            runs[f"with_{other}"] = timed_run(self.id, f"with_{other}", mixed, (PAIR_WARPS,))
            only = [chains for chains in mixed if chains.prefix]
            runs[f"only_{other}"] = timed_run(self.id, f"only_{other}", only, (PAIR_WARPS,))
        return runs

    def together(self) -> list[tuple[str, ...]]:
        """The two lengths of each loop."""
        return [tuple(f"{chains.name}_{length}" for length in self.lengths) for chains in self.chains]

    @property
    def partners(self) -> list[str]:
        """The opcodes that it is timed with: one of each pipe; barriers only with what the compiler writes.

        Barriers with UIADD3 between them, written into the code, hung in two of three runs on an H200.
        """
        left_out = {self.id} | ({"DFMA"} if self.opcode.types[0] != "l" else set())  # f64's units are for wide types
        if self.id.startswith(BARRIER):
            left_out |= {other for other in STANDING.values() if opcodes()[other].words}
        return [other for other in STANDING.values() if other not in left_out]

    def mixed(self, other: str) -> list[Chains]:
        """Copies of it and of another opcode in turn, such that both take about as long."""
        row, own = opcodes()[other], self.chains[-1]
        partner = replace(OpcodePrice(row).chains[-1], prefix="o")
        period = lcm(self.opcode.pace, row.pace)
        each = period // self.opcode.pace, period // row.pace
        places = range(sum(each))
        group = [own if (n + 1) * each[0] // sum(each) > n * each[0] // sum(each) else partner for n in places]
        return group * RING * max(1, PAIR_COPIES // (RING * len(group)))  # whole rings: no result is left unread

    def measure(self, bench: Bench) -> Readout:
        """As of all costs; "reads": how many registers of even and of odd numbers each loop reads."""
        read = {name: bench.timed_code(run.kernel).reads for name, run in self._runs.items()}
        told = [f"{name} {even} {odd}" for name, (even, odd) in read.items()]
        return {**super().measure(bench), "reads": array_of_text(told)}

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError if the machine code of no loop is as expected."""
        proved = PricedNumbers(reading)
        cycles = {chains: proved.of(chains.name, self.opcode, self.lengths) for chains in self.chains}
        latency: dict[Register, float] = {}
        for chains, values in cycles.items():
            if chains.through and chains.count == 1 and values is not None and np.isfinite(values[0]):
                latency[chains.through] = round(float(values[0]), DECIMALS)
        every = [p for chains, values in cycles.items() if values is not None for p in self._points(chains, values)]
        if not every:
            raise proved.refusal()
        shapes = sorted({(point.chains, point.warps) for point in every})
        points = [min((p for p in every if (p.chains, p.warps) == shape), key=lambda p: p.cycles) for shape in shapes]
        own = cycles[self.chains[-1]]
        at_pair = None if own is None else own[[WARPS.index(PAIR_WARPS)]]
        points = self._sound(points, proved.refused)
        best = self._best(points)
        beside = self._beside(proved, at_pair)
        if not self.id.startswith(BARRIER):
            beside = sound_pairs(beside, best, proved.refused)
        loop = proved.code(f"{self.chains[-1].name}_{self.lengths[0]}").loop
        return Body(
            opcodes={opcode: 1.0 for opcode in loop if role(opcode, [self.opcode]) == self.id},
            covers=list(self.opcode.covers),
            pipe=self._pipe(beside, best),
            spread=proved.spread,
            latency={operand: latency.get(operand) for operand in self.opcode.operands},
            at_most=sorted(latency) if self.opcode.others or self.opcode.code else [],
            interval=best,
            one_warp=min((point.cycles for point in points if point.warps == 1), default=None),
            curve=points,
            reads=self._reads(reading, cycles),
            beside=beside,
            mhz=proved.mhz,
            refused=proved.refused,
        )

    def _points(self, chains: Chains, values: Floats) -> list[Point]:
        """Cycles that an SM needs for one, by warps; of a barrier, which all warps share, of one."""
        warps = WARPS[: len(values)]
        shared = [1] * len(warps) if self.id.startswith(BARRIER) else warps
        return [
            Point(round(float(value) / n, DECIMALS), of, chains.count)
            for value, n, of in zip(values, shared, warps, strict=True)
            if np.isfinite(value)
        ]

    def _sound(self, points: Sequence[Point], refused: dict[str, str]) -> list[Point]:
        """The points that can be true; of a barrier, which warps wait for, all."""
        kept = list(points) if self.id.startswith(BARRIER) else sound(points)
        for point in points:
            if point not in kept:
                shape = f"{point.warps}x{point.chains}"
                refused[shape] = (
                    f"{shape}: {point.cycles:g} cycles are less than most points reach, or than issue takes."
                )
        return kept

    def _reads(self, reading: Readout, cycles: Mapping[Chains, Floats | None]) -> list[Reads]:
        """What reading more registers costs an SM: of each loop side by side, if there are several."""
        several = [chains for chains in cycles if chains.count == CHAINS]
        counted = {line.split(" ")[0]: np.array(line.split(" ")[1:], int) for line in text_lines(reading["reads"])}
        found = []
        for chains in several if len(several) > 1 else []:
            short, long = (counted[f"{chains.name}_{length}"] for length in self.lengths)
            banks = np.maximum((long - short) / (self.lengths[1] - self.lengths[0]), 0).round(2).tolist()
            values = cycles[chains]
            points = [] if values is None else self._points(chains, values)
            if points:
                found.append(Reads(banks, min(point.cycles for point in points)))
        return found

    def _best(self, points: Sequence[Point]) -> Point:
        """The interval: the best point; of a barrier that of BARRIER_WARPS."""
        return next(p for p in points if p.warps == BARRIER_WARPS) if self.id.startswith(BARRIER) else interval(points)

    def _beside(self, proved: PricedNumbers, own: Floats | None) -> dict[str, Overlap]:
        """By opcode that stands for a pipe: cycles of a copy, of as many of the other as go with it, and of both."""
        found: dict[str, Overlap] = {}
        for other in self.partners:
            mixed, row = self.mixed(other), opcodes()[other]
            theirs = sum(bool(chains.prefix) for chains in mixed)
            copies = len(mixed) - theirs
            both = proved.round(f"with_{other}", len(mixed), {self.opcode: copies, row: theirs})
            alone = proved.round(f"only_{other}", theirs, {row: theirs})
            if own is not None and both is not None and alone is not None and np.isfinite(own + both + alone).all():
                each = [round(float(cycles), DECIMALS) for cycles in (own[0], alone[0] / copies, both[0] / copies)]
                found[other] = Overlap(each[:2], each[2], PAIR_WARPS)
        return found

    def _pipe(self, beside: Mapping[str, Overlap], best: Point) -> str:
        """The pipe whose opcode's cycles add to its own; fma, which nothing slows beyond issue, by its rate.

        What a pair's warps cannot do at its interval, as a taken branch, holds the warps themselves; a barrier holds
        all of them. No pipe is told of these.
        """
        for pipe, opcode in STANDING.items():
            if opcode == self.id:
                return pipe
        if self.opcode.words and best.cycles < ISSUED:  # beside others it has stalls that were made for dp4a
            return "issue"
        held = any(pair.alone[0] > best.cycles * PAIR_WARPS * (1 + NEAR) for pair in beside.values())
        if held or self.id.startswith(BARRIER):
            return "other"
        added = {pipe: self._added(opcode, beside[opcode]) for pipe, opcode in STANDING.items() if opcode in beside}
        if not any("MMA" in pattern for pattern in self.opcode.covers):
            added.pop("tensor", None)  # multiplies hold the ports of registers, which everything needs
        most = max(added, key=lambda one: round(min(added[one], 1.0), 1), default="other")
        if added.get(most, 0) >= SAME:
            return most
        return "fma" if best.cycles < ISSUED else "other"

    def _added(self, other: str, pair: Overlap) -> float:
        """Which share of the cycles that could be hidden is not; 0 where issue alone takes as long as both."""
        mixed = self.mixed(other)
        theirs = sum(bool(chains.prefix) for chains in mixed)
        issue = PAIR_WARPS / SCHEDULERS * len(mixed) / (len(mixed) - theirs)
        least, most = max(*pair.alone, issue), sum(pair.alone)
        return (pair.together - least) / (most - least) if most - least > HIDDEN * most else 0.0


CACHED = (512, 1024, 1536, 1792, 2048, 2560, 3072, 4096)  # instructions of a loop, about
MULTIPLIES = 24  # beside which instructions that read registers stand
BESIDE = (0, 24, 48, 96)
CACHE, PORTS = "instruction-cache", "register-ports"


@dataclass(frozen=True)
class Constant(Costs):
    """A constant of an SM: cycles of loops that differ in one number alone, `at` it; `name` is its axis."""

    subject: str
    name: str
    kind = KIND
    target = HOPPER

    @property
    def id(self) -> str:
        return self.subject

    @property
    def loops(self) -> dict[int, list[Chains]]:
        """The copies of a round by place on the axis."""
        plain, multiply = Chains(opcodes()["FFMA"], "a", CHAINS, 1), Chains(opcodes()["HMMA.16816.F32"], "a")
        if self.id == CACHE:
            return {length: [plain] * length for length in CACHED}
        other = replace(plain, prefix="o", distinct=None)
        return {n: [multiply, *[other] * (n // MULTIPLIES)] * 2 * MULTIPLIES for n in BESIDE}

    def runs(self) -> dict[str, Run]:
        """A loop for each place, in one warp."""
        return {f"at_{at}": timed_run(self.id, f"at_{at}", copies, (1,)) for at, copies in self.loops.items()}

    def found(self, reading: Readout, context: Context) -> Body:
        """Cycles of one instruction by the length of its loop; of MULTIPLIES multiplies and what is beside them."""
        proved, points = PricedNumbers(reading), []
        for at, copies in self.loops.items():
            counts = Counter(chains.opcode for chains in copies)
            cycles = proved.round(f"at_{at}", len(copies), counts)
            if cycles is not None and np.isfinite(cycles[0]):
                per = len(copies) if self.id == CACHE else 2
                points.append(Sample(at, round(float(cycles[0]) / per, DECIMALS)))
        if not points:
            raise proved.refusal()
        opcodes_seen = {"FFMA": 1.0} if self.id == CACHE else {"FFMA": 1.0, "HMMA.16816.F32": 1.0}
        return Body(
            opcodes=opcodes_seen,
            covers=[],
            pipe="issue",
            spread=proved.spread,
            by={self.name: points},
            mhz=proved.mhz,
            refused=proved.refused,
        )


CONSTANTS = (Constant(CACHE, "instructions"), Constant(PORTS, f"FFMA beside {MULTIPLIES} HMMA"))


def experiments() -> list[OpcodePrice | Constant]:
    """One experiment for each opcode and each constant."""
    return [*(OpcodePrice(row) for row in opcodes().values()), *CONSTANTS]
