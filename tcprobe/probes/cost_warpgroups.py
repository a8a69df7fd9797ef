"""Loops of warpgroup multiplies: the interval between two, and round trips from issue to result.

- iN: each multiply is a group; after each, the loop waits until at most N - 1 groups are pending
- tN: round trips of groups of N multiplies
- swizzles and majors: the loop i4 with other descriptors, also with m and n contiguous

A is in shared memory (s) or in registers (r). Factors in shared memory are zeros or random bits. All multiplies of a
loop add to one accumulator, as along k in a GEMM. One opcode writes all of D, so it suffices to consume one register of
it.

Full load shows how far the clock falls: one loop on every SM for a third of a second, by form and by data. There are
many more blocks than SMs, and an SM runs one block at a time. A block records cycles and nanoseconds of its passes.
Only blocks of the third quarter count: by then the clock has settled, and no SM is idle yet. All multiplies have the
same factors: zeros, or random numbers that keep sums finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, WARPGROUP
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Floats, Ints, Words
from tcprobe.layout.descriptor import Descriptor
from tcprobe.probes import cost_multiplies, ptx, timing
from tcprobe.probes.cost_multiplies import METADATA, ChainLoop
from tcprobe.probes.cost_multiplies import round_of as warp_round
from tcprobe.probes.experiment import Bench, Context, FormDialogue, Readout, array_of_text
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.timing import (
    DECIMALS,
    IMAGE_WORDS,
    RANDOM,
    ZEROS,
    Costs,
    Counts,
    ProvedNumbers,
    Run,
    TimedBlock,
    TimedLoop,
    lines,
    prove,
    stem,
)
from tcprobe.store.kinds.cost import FULL_LOAD, Body, ByLayout, Clock, CostPlace, Data, Flight, Trip

KIND = timing.KIND
COPIES = 8
FEWER = ((192, 2), (96, 4))  # (least N, copies): others stay in flight, so the end of a round costs nothing
TRIP_COPIES = 4  # at least, of round trips: the end of a round adds some 2 cycles to one of them
FLIGHTS = (1, 2, 4, 8)
USUAL = (4,)  # in flight, of forms whose N is not one of WHOLE
WHOLE = (8, 64, 128, 256)  # each N with which all loops are timed
WARPGROUPS = (1, 2)
SWIZZLES, USUAL_SWIZZLE = (0, 32, 64, 128), 128
A_BYTES = 16 << 10  # offset of B in shared memory
SHARED_BYTES = 56 << 10
Major = Literal["k", "mn"]
PTX = Macros(globals(), WARP=WARP, WARPGROUP=WARPGROUP, IMAGE_WORDS=IMAGE_WORDS, METADATA=METADATA)
FENCE, WAIT = "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR.LE"


@dataclass(frozen=True)
class WarpgroupLoop:
    """One loop; with `trip` it waits for groups of `in_flight`. `registers`: A is in registers."""

    row: Instruction
    in_flight: int
    registers: bool = False
    trip: bool = False
    major: Major = "k"
    copies: int = COPIES

    @property
    def variant(self) -> str:
        place, end = "r" if self.registers else "s", "" if self.major == "k" else ".mn"
        return f"{place}{'t' if self.trip else 'i'}{self.in_flight}{end}"

    def loop(self) -> TimedLoop:
        row, names = self.row, [f"%d{j}" for j in range(self.row.fragment("d").registers)]
        return TimedLoop(
            row.id,
            self.variant,
            row.target,
            self.copies,
            PTX.body(self, self._multiply_text()),
            self._a,
            names[:1],
            [
                f".reg .b32 {', '.join(names[1:])};",
                ".reg .u64 %da, %db, %wide;",
                ".reg .pred %p;",
                ".reg .u32 %base, %meta, %fill, %to;",
            ],
            PTX.before(names),
            ["wgmma.wait_group.sync.aligned 0;"],
            threads=2 * WARPGROUP,
            shared=True,
        )

    @property
    def place(self) -> CostPlace:
        """Where A is."""
        return "registers" if self.registers else "shared"

    @property
    def _a(self) -> list[str]:
        return [f"%a{j}" for j in range(self.row.fragment("a").registers)] if self.registers else []

    def _multiply_text(self) -> str:
        row = self.row
        scales = [] if row.type("d") == "s32" else ["1", "1"]
        many = len(row.described[0].held.majors) > 1
        transposed = ["1" if self.major == "mn" else "0"] * (1 if self.registers else 2) if many else []
        sparse = ["%meta", "0"] if row.metadata else []
        a = f"{{{', '.join(self._a)}}}" if self.registers else "%da"
        operands = [a, "%db", *sparse, "%p", *scales, *transposed]
        return f"{row.name} {ptx.braces('d', row.fragment('d'))}, {', '.join(operands)};"

    @property
    def waits(self) -> Counts:
        """Fences and waits of a round, as often as they are written."""
        groups = self.copies // self.in_flight if self.trip else 1
        return {FENCE: groups, WAIT: groups if self.trip else self.copies}

    def blocks(self) -> list[TimedBlock]:
        """One and two warpgroups with USUAL_SWIZZLE.

        The loop i4 also has a block for each swizzle, and last one with random inputs.
        """
        if self.trip or self.in_flight != max(USUAL):
            return [self._block(groups, USUAL_SWIZZLE) for groups in WARPGROUPS]
        usual = [self._block(groups, USUAL_SWIZZLE) for groups in WARPGROUPS] if self.major == "k" else []
        others = [self._block(1, swizzle) for swizzle in SWIZZLES]
        return [*usual, *others, self._block(1, USUAL_SWIZZLE, RANDOM)]

    def _block(self, warpgroups: int, swizzle: int, image: int = 0) -> TimedBlock:
        a, b = (canonical(self.major, swizzle, start) for start in (0, A_BYTES))
        return TimedBlock(warpgroups * WARPGROUP, image, halves(a.encode(), b.encode()))


def halves(*descriptors: int) -> tuple[int, ...]:
    """The words of descriptors, low ones first, for a block's row of the plan."""
    return tuple(descriptor >> shift & 0xFFFFFFFF for descriptor in descriptors for shift in (0, 32))


def canonical(major: str, swizzle: int, start: int) -> Descriptor:
    """The descriptor of a canonical layout of CUTLASS that has 32 bytes of k, or with major "mn" 16 elements of k."""
    if not swizzle:
        return Descriptor(128, 256, 0, 0, start)
    return Descriptor(16 if major == "k" else 16 * swizzle, 8 * swizzle, swizzle, 0, start)


def warpgroup_loops(instruction: Instruction) -> list[WarpgroupLoop]:
    """All loops of a form if its N is one of WHOLE; else the best interval and one round trip."""
    all_loops = instruction.shape.n in WHOLE
    loops = [
        WarpgroupLoop(instruction, count, registers, trip, copies=round_of(instruction, count if trip else 0))
        for registers in (False, True)
        for trip in (False, True)
        for count in (FLIGHTS if all_loops else (1,) if trip else USUAL)
        if trip or count > 1
    ]
    if len(instruction.described[0].held.majors) > 1 and all_loops:
        copies = round_of(instruction)
        loops += [WarpgroupLoop(instruction, max(USUAL), in_, major="mn", copies=copies) for in_ in (False, True)]
    return loops


def round_of(instruction: Instruction, trip: int = 0) -> int:
    """Copies in a round, or in a round of trips of `trip`.

    Few if N is large: compilers take long for an accumulator of that size.
    """
    copies = next((copies for least, copies in FEWER if instruction.shape.n >= least), COPIES)
    return max(copies, TRIP_COPIES, trip) if trip else copies


class WarpgroupCosts(FormDialogue, Costs):
    """Intervals and round trips of a warpgroup multiply, by place of A, warpgroups and multiplies in flight."""

    def runs(self) -> dict[str, Run]:
        first = WarpgroupLoop(self.row, max(USUAL))
        pairs = cost_multiplies.runs(self.row, first.loop(), first.blocks()[0])
        return {one.variant: one.loop().run(one.blocks()) for one in warpgroup_loops(self.row)} | pairs

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError if no loop of an interval has the expected machine code."""
        proved, form_numbers = ProvedNumbers(reading), FormNumbers([], [], [], [])
        for one in warpgroup_loops(self.row):
            cycles = proved.cycles_of_copy(one.variant, one.copies, opcode_counts(proved, one), one.waits)
            for block, value in zip(one.blocks(), [] if cycles is None else cycles.tolist(), strict=False):
                form_numbers.add(one, block, value)
        if not form_numbers.intervals:
            raise proved.refusal()
        best = min(flight.cycles for flight in form_numbers.intervals)
        usual = WarpgroupLoop(self.row, max(USUAL))
        opcode = opcode_counts(proved, usual)
        return proved.body(
            opcode,
            interval=form_numbers.intervals,
            round_trip=form_numbers.trips,
            forms=form_numbers.forms,
            macs_per_cycle=round(self.row.triples / best, 1),
            random=next(iter(form_numbers.randoms), None),
            overlap=cost_multiplies.overlaps(self.row, proved, opcode, usual.waits),
        )


class FormNumbers(NamedTuple):
    """The numbers of one form; `randoms`: cycles with random inputs relative to zeros."""

    intervals: list[Flight]
    trips: list[Trip]
    forms: list[ByLayout]
    randoms: list[float]

    def add(self, one: WarpgroupLoop, timed_block: TimedBlock, copy_cycles: float) -> None:
        """Add `copy_cycles`, the cycles of one copy, that a block measured."""
        groups, place = timed_block.threads // WARPGROUP, one.place
        swizzle = {0: 0, 1: 128, 2: 64, 3: 32}[timed_block.words[1] >> 30]  # of the block's descriptors, in bytes
        usual = one.major == "k" and swizzle == USUAL_SWIZZLE
        known = [(flight.a, flight.warpgroups, flight.in_flight) for flight in self.intervals]
        if timed_block.image == RANDOM:
            base = [f.cycles for f in self.forms if (f.a, f.swizzle, f.major) == (place, swizzle, one.major)]
            self.randoms.append(round(copy_cycles / base[0], 3))
        elif one.trip:
            cycles = round(copy_cycles * one.in_flight, DECIMALS)
            self.trips.append(Trip(cycles, None, place, groups, one.in_flight))
        elif usual and (place, groups, one.in_flight) not in known:
            self.intervals.append(Flight(round(copy_cycles / groups, DECIMALS), place, groups, one.in_flight))
        else:
            self.forms.append(ByLayout(copy_cycles, place, swizzle, one.major))


def opcode_counts(proved: ProvedNumbers, one: WarpgroupLoop) -> Counts:
    """The tensor opcode, counted once, that has the form's shape; empty if the loop has none."""
    m, n, k = one.row.shape
    shape = f".{m}x{n}x{k}."
    opcodes = [o for o in proved.each(one.variant) if stem(o).endswith("GMMA") and shape in f"{o}." and "->" not in o]
    return dict.fromkeys(opcodes, 1)


ROUNDS = 8192  # of a pass: some milliseconds
BLOCKS = 528  # four for each SM of the largest GPUs
SETTLED = slice(BLOCKS // 2, 3 * BLOCKS // 4)
WARPS, CHAINS = 8, 4
IMAGES: dict[Data, int] = {"zeros": ZEROS, "random": RANDOM}
FORMS = (
    "mma.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.m16n8k32.row.col.s32.s8.s8.s32",
    "mma.m16n8k4.row.col.f64.f64.f64.f64",
    "wgmma.mma_async.m64n256k16.f32.f16.f16",
    "wgmma.mma_async.m64n256k8.f32.tf32.tf32",
    "wgmma.mma_async.m64n256k32.f32.e4m3.e4m3",
    "wgmma.mma_async.m64n256k32.s32.s8.s8",
)


class FullLoad(FormDialogue):
    """The clock while all SMs run one form, with zeros and with random factors."""

    kind = KIND

    @property
    def id(self) -> str:
        return f"{FULL_LOAD}.{self.row.id}"

    @property
    def loop(self) -> TimedLoop:
        """The loop in which the form reaches its interval."""
        wide = self.row.threads == WARPGROUP
        loop_of_form = (
            WarpgroupLoop(self.row, CHAINS) if wide else ChainLoop(self.row, chains=CHAINS, copies=warp_round(self.row))
        )
        return replace(loop_of_form.loop(), subject=self.id)

    def kernels(self) -> list[Kernel]:
        return [self.loop.kernel()]

    def measure(self, bench: Bench) -> Readout:
        """By data the cycles and nanoseconds of every pass, (BLOCKS, passes, 2); "code": the loop's opcodes."""
        kernel, alone = self.loop.kernel(), bench.shared_bytes() // 2 + 1024
        inputs = np.stack([np.zeros(IMAGE_WORDS, np.uint32), numbers(self.row.type("a"))]).view(np.uint8)
        launches = [
            timing.launch(kernel, [self.block(image)] * BLOCKS, alone, inputs.reshape(1, -1))
            for image in IMAGES.values()
        ]
        times = [timing.pass_times(*pair) for pair in zip(launches, bench.run(launches), strict=True)]
        code = array_of_text(lines({FULL_LOAD: bench.timed_code(kernel)}))
        return {**dict(zip(IMAGES, times, strict=True)), "code": code}

    def block(self, image: int) -> TimedBlock:
        """A block whose factors come from `image`."""
        if self.row.threads == WARP:
            return TimedBlock(WARPS * WARP, image, rounds=ROUNDS)
        usual = next(b for b in WarpgroupLoop(self.row, CHAINS).blocks() if b.image == RANDOM)
        return TimedBlock(2 * WARPGROUP, image, usual.words, ROUNDS)

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The clocks; ProbeError unless the loop's machine code is as expected."""
        loop, proof = self.loop, ProvedNumbers(reading)
        each = {o: 1 for o in proof.each(FULL_LOAD) if stem(o).endswith("MMA") and "->" not in o}
        waits = WarpgroupLoop(self.row, CHAINS).waits if self.row.threads == WARPGROUP else {}
        prove(FULL_LOAD, proof.code(FULL_LOAD), dict.fromkeys(each, loop.copies), waits)
        warps = self.block(ZEROS).threads // self.row.threads
        by_data = {data: _rates_and_cycles(reading[data]) for data in IMAGES}
        clocks = [
            Clock(
                data,
                round(float(np.median(rates)) * 1000, 0),
                round(float(np.median(cycles)) / (ROUNDS * loop.copies * warps), DECIMALS),
            )
            for data, (rates, cycles) in by_data.items()
        ]
        spread = max(float(np.ptp(cycles) / np.median(cycles)) for _, cycles in by_data.values())
        return Body(opcodes=dict.fromkeys(each, 1.0), spread=round(spread, 4), clocks=clocks)


def _rates_and_cycles(times: Ints) -> tuple[Floats, Floats]:
    """(cycles per nanosecond, cycles of a pass) of each block that counts, without the pass that warms up."""
    cycles, ns = (times[SETTLED, 1:, j].astype(float) for j in (0, 1))
    if (cycles <= 0).any() or (ns <= 0).any():
        raise ProbeError("a pass took no time.")
    return cycles.sum(axis=1) / ns.sum(axis=1), cycles.mean(axis=1)


def numbers(type_: str) -> Words:
    """Random numbers of a type: normal for f16, tf32 and f64, any bits for integers, small exponents for e4m3."""
    random = np.random.default_rng(0)
    normal = random.normal(size=2 * IMAGE_WORDS)
    if type_ == "f16":
        return normal.astype(np.float16).view(np.uint32)
    if type_ == "tf32":
        return normal[:IMAGE_WORDS].astype(np.float32).view(np.uint32)
    if type_ == "f64":  # a 64-bit register gets the word in both halves
        return (normal[:IMAGE_WORDS].view(np.uint64) >> np.uint64(32)).astype(np.uint32)
    whole = random.integers(0, 256, 4 * IMAGE_WORDS, np.uint8)
    if type_ == "e4m3":  # biased exponents below 8
        whole &= np.uint8(0xBF)
    return whole.view(np.uint32)


def rows() -> Sequence[Instruction]:
    """The forms that reach a GPU's peak rates, by type."""
    return [inventory.instructions()[id_] for id_ in FORMS]


def experiments() -> list[FullLoad | WarpgroupCosts]:
    """The clock under each of FORMS; then one experiment for each warpgroup multiply."""
    multiplies = [WarpgroupCosts(row) for row in inventory.executed_by(WARPGROUP) if row.described]
    return [*map(FullLoad, rows()), *multiplies]
