"""Loops of tcgen05: multiplies, copies and shifts, and moves between registers and tensor memory.

All are assembled and their machine code is read; nobody has run them on a GPU yet. Loops of multiplies, copies and
shifts, which one thread issues and an mbarrier completes:

- iN: N in a round, in two groups; while one group is in flight, the loop waits for the other
- tN: round trips of groups of N; the loop waits for each group

One thread of a warp issues; the whole warp waits at an mbarrier. With `group` 2, two CTAs of a cluster share the
instruction: the first issues it and is timed, the second waits at the end. Shared memory is zeroed, tensor memory is
not.

Multiplies: all kinds, dense, sparse and block-scaled, and .ws, for one CTA and for two, by N, with the largest M; A is
in shared memory (s) or in tensor memory (t). All add to one accumulator. Copies: every shape and multicast, plain and
with decompression of 4 and 6 bits, for one CTA and for two.

Loops of ld, ld.red and st, of every shape with every number of repetitions:

- many: independent moves in every warp, then one wait for all; by warps, each in the lanes that it may access
- trip: each move is waited for

Each copy has an address register of its own, to which a zero from memory is added. Of a load only the first and the
last register are consumed: one opcode loads them all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tcprobe.code.templates import Macros
from tcprobe.isa import bit_fields, inventory
from tcprobe.isa.arch import WARP, Target
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.layout.descriptor import encode_tcgen05
from tcprobe.probes import cost_warpgroups, tensor_memory, timing
from tcprobe.probes.cost_multiplies import interval
from tcprobe.probes.cost_warpgroups import USUAL_SWIZZLE, canonical, halves
from tcprobe.probes.experiment import Context, FormDialogue, Readout
from tcprobe.probes.timing import (
    DECIMALS,
    IMAGE_WORDS,
    Costs,
    Counts,
    ProvedNumbers,
    Run,
    TimedBlock,
    TimedLoop,
    threads_for,
)
from tcprobe.store.kinds.cost import Body, Flight, Held, Point, Trip

KIND = timing.KIND
COPIES = 16
FLIGHTS = (1, 2, 4, 8)  # instructions in a round trip
COLUMNS = 512  # of tensor memory: all are allocated
PLACES = {"%ta": 256, "%meta": 320, "%sa": 384, "%sb": 448}  # first columns of A, metadata and scales; D is at 0
ZEROED, SLOT, BARRIERS = 48 << 10, 56 << 10, (56 << 10) + 16  # bytes zeroed, then offsets in shared memory
PTX = Macros(globals(), timing=timing.PTX, warpgroups=cost_warpgroups.PTX, WARP=WARP, IMAGE_WORDS=IMAGE_WORDS)


@dataclass(frozen=True)
class IssuedLoop:
    """A loop of `line`, which may use %taddr, %ta, %meta, %sa, %sb, the descriptors %da and %db, %word4 and %p.

    `trip`: wait for each group of `count`. The variant's name starts with `begins`.
    """

    subject: str
    target: Target
    line: str
    group: int = 1
    count: int = COPIES
    trip: bool = False
    begins: str = ""

    @property
    def variant(self) -> str:
        """The loop's name: `begins`, i or t, `count`."""
        return f"{self.begins}{'t' if self.trip else 'i'}{self.count}"

    def loop(self) -> TimedLoop:
        places = ", ".join(PLACES)
        return TimedLoop(
            self.subject,
            self.variant,
            self.target,
            COPIES,
            PTX.issue(self),
            [],
            ["%parity"],
            [".reg .b64 %da, %db, %wide;", ".reg .pred %p, %one, %done;", f".reg .b32 %taddr, %other, %to, {places};"],
            PTX.before_issue(self.group),
            PTX.wait(1, "%other", "END"),
            threads=WARP,
            shared=True,
            ended=PTX.after_issue(self.group),
            ctas=self.group,
        )


def issues(subject: str, needed: Target, line: str, group: int = 1, begins: str = "") -> Sequence[IssuedLoop]:
    """The loop that gives the interval, then those of round trips."""
    trips = (IssuedLoop(subject, needed, line, group, count, True, begins) for count in FLIGHTS)
    return [IssuedLoop(subject, needed, line, group, begins=begins), *trips]


SIZES = (64, 128, 256)  # N
TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3"}  # of A and B by kind
NARROWEST = "e2m1"  # of the other kinds
B_BYTES = 16 << 10  # offset of B in shared memory
A_PLACES: tuple[Held, ...] = ("shared", "tensor")
SIXTEENTHS = ("4X", "6X")  # scale_vec sizes whose scales are for 16 elements
MMA, COPY = re.compile("UTC.*MMA"), re.compile("UTC.*(CP|SHIFT)")  # stems of opcodes


@dataclass(frozen=True)
class TensorMemoryCosts(FormDialogue, Costs):
    """Interval and round trips of a tcgen05.mma by where A is; `scale` is as "ue4m3 4X", or empty."""

    n: int = 0
    scale: str = ""

    @property
    def id(self) -> str:
        """The form's id with its shape, types and scales."""
        m, _, k = self.row.shape
        scaled = f".{self.scale.replace(' ', '.')}" if self.scale else ""
        return f"{self.row.id}.m{m}n{self.n}k{k}.{result_type(self.row)}.{self._type}.{self._type}{scaled}"

    @property
    def target(self) -> Target:
        """The instruction's target, with the PTX version that names block sizes for all targets."""
        return self.row.target.at_least(tensor_memory.SINCE) if self.scale else self.row.target

    @property
    def group(self) -> int:
        """CTAs that multiply together."""
        return 2 if ".cta_group::2" in self.row.id else 1

    @property
    def _type(self) -> str:
        return TYPES.get(self.row.kind or "", NARROWEST)

    def _line(self, a_place: Held) -> str:
        """PTX of the instruction; a scale is for 32 elements, or for 16."""
        name = tensor_memory.instruction_name(self.row)
        if self.scale.endswith(SIXTEENTHS):
            name = name.replace(tensor_memory.BLOCK, ".block16")
        operands = tensor_memory.operands(self.row).replace("%bdesc", "%db").replace("%idesc", "%word4")
        return f"{name} {operands.replace('%adesc', '%da' if a_place == 'shared' else '[%ta]')};"

    @property
    def loops(self) -> Sequence[tuple[Held, IssuedLoop]]:
        """All loops, each with where A is."""
        return [
            (a_place, issued)
            for a_place in A_PLACES
            for issued in issues(self.id, self.target, self._line(a_place), self.group, begins=a_place[0])
        ]

    def block(self) -> TimedBlock:
        """One warp, with the descriptors of A, of B, and of the instruction."""
        words = halves(*(encode_tcgen05(canonical("k", USUAL_SWIZZLE, start)) for start in (0, B_BYTES)))
        fields: dict[str, int | str] = {"m": self.row.shape.m, "n": self.n, "a_type": self._type, "b_type": self._type}
        if any(operand.role is Role.METADATA for operand in self.row.operands):
            fields["sparse"] = 1
        if self.row.id.endswith(".k96"):
            fields["k"] = 96
        fields |= {"scale_type": self.scale.split()[0]} if self.scale else {"d_type": result_type(self.row)}
        return TimedBlock(WARP, 0, (*words, bit_fields.encode_instruction(self.row.kind or "", fields)))

    def runs(self) -> dict[str, Run]:
        return {issued.variant: issued.loop().run([self.block()]) for _, issued in self.loops}

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError if no loop of an interval has the expected machine code."""
        proved = ProvedNumbers(reading)
        intervals: list[Flight] = []
        trips: list[Trip] = []
        each: Counts = {}
        for a_place, issued in self.loops:
            each, around = proved.split(issued.variant, MMA.fullmatch)
            cycles = proved.cycles_of_copy(issued.variant, COPIES, each, around)
            if cycles is not None and issued.trip:
                trips.append(Trip(float(cycles[0]) * issued.count, None, a_place, 1, issued.count))
            elif cycles is not None:
                intervals.append(Flight(float(cycles[0]), a_place, 1, issued.count))
        if not intervals:
            raise proved.refusal()
        macs = self.row.shape.m * self.n * self.row.shape.k // self.group
        best = round(macs / min(flight.cycles for flight in intervals), 1)
        return proved.body(each, interval=intervals, round_trip=trips, macs_per_cycle=best)


def result_type(instruction: Instruction) -> str:
    """The widest type that D may have."""
    return max(map(str, instruction.stated["d_types"]), key=lambda type_: int(type_[1:]))


def multiplies() -> list[TensorMemoryCosts]:
    """One experiment for each multiply, type of scales, and N of SIZES."""
    rows = [row for row in inventory.of_family("tcgen05") if row.multiplies]
    return [
        TensorMemoryCosts(row, n, str(scale))
        for row in rows
        for scale in row.stated.get("scales", ("",))
        for n in SIZES
        if n in row.stated["n_values"]
    ]


UNPACKED = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64")
GROUPS = (1, 2)
WORD = 4  # bytes of a cell of tensor memory


@dataclass(frozen=True)
class TensorCopyCosts(FormDialogue, Costs):
    """Interval and round trips of a copy into tensor memory, or of a shift in it."""

    group: int
    multicast: str = ""
    unpacked: str = ""

    @property
    def id(self) -> str:
        family, op, *rest = self.row.id.split(".")
        multicast = f".{self.multicast}" if self.multicast else ""
        return f"{family}.{op}.cta_group::{self.group}.{'.'.join(rest)}{multicast}{self.unpacked}"

    @property
    def loops(self) -> Sequence[IssuedLoop]:
        """The loop of the interval, then those of round trips."""
        operands = "[%taddr]" if self.row.id.startswith("tcgen05.shift") else "[%taddr], %da"
        return issues(self.id, self.target, f"{self.id} {operands};", self.group)

    def runs(self) -> dict[str, Run]:
        """Every loop by its name. The source is a matrix without a swizzle."""
        block = TimedBlock(WARP, 0, halves(encode_tcgen05(canonical("k", 0, 0))))
        return {issued.variant: issued.loop().run([block]) for issued in self.loops}

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError unless the loop of the interval has the expected machine code."""
        proved, trips, (first, *others) = ProvedNumbers(reading), [], self.loops
        each, around = proved.split(first.variant, COPY.fullmatch)
        cycles = proved.cycles_of_copy(first.variant, COPIES, each, around)
        if cycles is None:
            raise proved.refusal()
        point, (rows, columns, *_) = Point(float(cycles[0]), 1), self.row.shape
        for issued in others:
            cycles = proved.cycles_of_copy(issued.variant, COPIES, *proved.split(issued.variant, COPY.fullmatch))
            if cycles is not None:
                trips.append(Trip(float(cycles[0]) * issued.count, issued.count * rows * columns * WORD))
        return proved.body(each, interval=point, one_warp=point.cycles, round_trip=trips)


def copies() -> list[TensorCopyCosts]:
    """One experiment for each combination of shape, CTAs, multicast and decompression."""
    rows = [row for row in inventory.of_family("tcgen05") if row.id.startswith(("tcgen05.cp", "tcgen05.shift"))]
    return [
        TensorCopyCosts(row, group, str(multicast), unpacked)
        for row in rows
        for group, multicast, unpacked in product(GROUPS, row.stated.get("multicast", ("",)), UNPACKED)
        if not unpacked or row.id.startswith("tcgen05.cp")
    ]


MOST_COPIES, MOST_REGISTERS = 8, 128  # of a round
WARPS = (1, 2, 4, 8, 16)
LANE_BIT, QUARTER = 16, 3  # lowest lane bit of an address; warp w accesses the lanes of quarter w % 4
OPS = {"ld": "LDTM", "st": "STTM"}


@dataclass(frozen=True)
class TensorMoveCosts(FormDialogue, Costs):
    """Interval by warps, and round trips, of a load or store with its number of repetitions."""

    @property
    def _op(self) -> str:
        return self.row.id.split(".")[1]

    @property
    def _wait(self) -> str:
        return f"tcgen05.wait::{self._op}.sync.aligned;"

    @property
    def registers(self) -> int:
        """Registers of one copy, with the reduced value."""
        return sum(fragment.registers for fragment in self.row.fragments)

    @property
    def copies(self) -> int:
        """Copies in a round, each with registers of its own."""
        return max(1, min(MOST_COPIES, MOST_REGISTERS // self.registers))

    def _names(self, copy: int) -> list[str]:
        return [f"%v{copy * self.registers + j}" for j in range(self.registers)]

    def _line(self, copy: int) -> str:
        """PTX of one copy, with its registers and its address."""
        registers = [f"%{f.operand}{j}" for f in self.row.fragments for j in range(f.registers)]
        names = {**dict(zip(registers, self._names(copy), strict=True)), "%taddr": f"%at{copy}"}
        text = f"{tensor_memory.instruction_name(self.row)} {tensor_memory.operands(self.row)};"
        return re.sub(r"%\w+", lambda found: names[found[0]], text)

    def _loop(self, variant: str, ptx_lines: Sequence[str]) -> TimedLoop:
        registers = [name for copy in range(self.copies) for name in self._names(copy)]
        changed = [f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(self.copies)]
        return TimedLoop(
            self.id,
            variant,
            self.target,
            self.copies,
            [*ptx_lines, *changed],
            ["%joined"] if self._loads else registers,
            ["%joined"] if self._loads else [],
            [
                f".reg .b32 %base, %lanes, %at<{self.copies}>;",
                ".reg .pred %one;",
                *([f".reg .b32 {', '.join(registers)};"] if self._loads else []),
            ],
            PTX.before_move(self.copies, [] if self._loads else registers),
            [self._wait],
            threads=threads_for(len(registers)),
            shared=True,
            ended=PTX.after_move(),
        )

    def many(self) -> TimedLoop:
        copies = range(self.copies)
        return self._loop(
            "many", [*map(self._line, copies), self._wait, *(j for c in copies for j in self._consume(c))]
        )

    def trip(self) -> TimedLoop:
        copies = range(self.copies)
        return self._loop("trip", [line for c in copies for line in (self._line(c), self._wait, *self._consume(c))])

    @property
    def _loads(self) -> bool:
        return self._op != "st"

    def _consume(self, copy: int) -> list[str]:
        """Consume the first and the last register that a copy loads."""
        names = self._names(copy)
        parts = dict.fromkeys((names[0], names[-1]))
        return [f"xor.b32 %joined, %joined, {name};" for name in parts] if self._loads else []

    @property
    def warps(self) -> Sequence[int]:
        """Numbers of warps for which the registers suffice."""
        most = threads_for(self.copies * self.registers) // WARP
        return [warps for warps in WARPS if warps <= most]

    def runs(self) -> dict[str, Run]:
        """Independent moves by warps, round trips in one warp."""
        blocks = [TimedBlock(warps * WARP) for warps in self.warps]
        return {"many": self.many().run(blocks), "trip": self.trip().run([TimedBlock(WARP)])}

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError unless the loop of the interval has the expected machine code."""
        proved = ProvedNumbers(reading)
        each, around = proved.split("many", OPS[self._op].__eq__)
        cycles = proved.cycles_of_copy("many", self.copies, each, around)
        if cycles is None:
            raise proved.refusal()
        trip = proved.cycles_of_copy("trip", self.copies, *proved.split("trip", OPS[self._op].__eq__))
        points = [
            Point(round(value / warps, DECIMALS), warps)
            for warps, value in zip(self.warps, cycles.tolist(), strict=True)
        ]
        trips = [] if trip is None else [Trip(float(trip[0]), 4 * WARP * self.row.fragments[0].registers)]
        return proved.body(each, interval=interval(points), one_warp=points[0].cycles, curve=points, round_trip=trips)


def moves() -> list[TensorMoveCosts]:
    """One experiment for each load and store with each number of repetitions."""
    rows = [row for row in inventory.of_family("tcgen05") if row.fragments]
    forms = inventory.instructions()
    return [TensorMoveCosts(forms[f"{row.id}.x{number}"]) for row in rows for number in row.stated["num"]]


def experiments() -> list[Costs]:
    """Multiplies, then copies and shifts, then loads and stores."""
    return [*multiplies(), *copies(), *moves()]
