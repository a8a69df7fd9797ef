"""Loops of tcgen05.mma: how often one can follow another, and how long one takes from issue to the end of waiting.

- iN: N in a round, half of them in a group that is committed; the other group is waited for meanwhile
- tN: a round trip: N of them in one group, which is waited for

One thread of a warp issues, all wait at an mbarrier. A is in shared memory (s), of zeros, or in tensor memory (t), as
it comes. All add to one accumulator. These loops are assembled and read; nobody has run them on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcprobe.errors import ProbeError
from tcprobe.isa import instruction_descriptor, inventory
from tcprobe.isa.arch import WARP
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.target import Target
from tcprobe.layout import tcgen05_descriptor
from tcprobe.probes.cost import KIND, Costs, ProvedNumbers, Run
from tcprobe.probes.cost_warpgroups import USUAL_SWIZZLE, canonical
from tcprobe.probes.experiment import Context, Reading
from tcprobe.probes.proof import Counts, stem
from tcprobe.probes.timing import Loop, TimedBlock
from tcprobe.store.kinds.cost import Body, Flight, Held, Trip

__all__ = ("KIND", "experiments")
COPIES = 16
FLIGHTS = (1, 2, 4, 8)  # in a round trip
SIZES = (64, 128, 256)  # N
M = 128
TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8"}  # of A and B, by kind
COLUMNS, A_COLUMN = 512, 256  # of tensor memory: all, and where A begins
B_BYTES, ZEROED, SLOT, BARRIERS = 16 << 10, 48 << 10, 56 << 10, (56 << 10) + 16  # in shared memory
PLACES: tuple[Held, ...] = ("shared", "tensor")


@dataclass(frozen=True)
class Issued:
    """One loop of a form with N columns; `trip` waits for each group of `count`."""

    row: Instruction
    n: int
    a: Held
    count: int = COPIES
    trip: bool = False

    @property
    def variant(self) -> str:
        """What the kernel is called."""
        return f"{self.a[0]}{'t' if self.trip else 'i'}{self.count}"

    def loop(self, subject: str) -> Loop:
        """The loop."""
        target = self.row.target
        return Loop(
            subject,
            self.variant,
            target,
            COPIES,
            self._body(),
            [],
            ["%parity"],
            [".reg .b64 %da, %db, %wide;", ".reg .pred %p, %one, %done;", ".reg .b32 %taddr, %ta, %other, %to;"],
            self._before(),
            _waited(1, "%other", "END"),
            threads=WARP,
            shared=True,
            ended=["bar.sync 0, %warps;", f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %taddr, {COLUMNS};"],
        )

    def _before(self) -> list[str]:
        """Zeros in shared memory, all of tensor memory, two barriers; word 4 is the instruction descriptor."""
        return [
            "elect.sync _|%one, 0xffffffff;",
            "shl.b32 %to, %lane, 2;",
            "FILL:",
            "add.u32 %sum, %memory, %to;",
            "st.shared.u32 [%sum], %zero;",
            f"add.u32 %to, %to, {4 * WARP};",
            f"setp.lt.u32 %more, %to, {ZEROED};",
            "@%more bra FILL;",
            f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%memory+{SLOT}], {COLUMNS};",
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
            *(f"@%one mbarrier.init.shared::cta.b64 [%memory+{BARRIERS + 8 * n}], 1;" for n in (0, 1)),
            "fence.mbarrier_init.release.cluster;",
            "fence.proxy.async;",
            "bar.sync 0, %warps;",
            f"ld.shared.u32 %taddr, [%memory+{SLOT}];",
            f"add.u32 %ta, %taddr, {A_COLUMN};",
            "mov.u32 %parity, %zero;",
            "xor.b32 %other, %parity, 1;",
            "shr.u32 %to, %memory, 4;",
            "cvt.u64.u32 %wide, %to;",
            "mov.b64 %da, {%word0, %word1};",
            "mov.b64 %db, {%word2, %word3};",
            "add.u64 %da, %da, %wide;",
            "add.u64 %db, %db, %wide;",
            "setp.eq.u32 %p, %zero, 0;",
        ]

    def _body(self) -> list[str]:
        a = "%da" if self.a == "shared" else "[%ta]"
        one = f"@%one {self.row.name} [%taddr], {a}, %db, %word4, %p;"
        turned = ["xor.b32 %parity, %parity, 1;", "xor.b32 %other, %other, 1;"]
        if self.trip:
            group = [*[one] * self.count, _committed(1), *_waited(1, "%parity", "{group}"), *turned]
            return [line.replace("{group}", str(n)) for n in range(COPIES // self.count) for line in group]
        half = [one] * (COPIES // 2)
        first = [*half, _committed(0), *_waited(1, "%other", "0")]
        return [*first, *half, _committed(1), *_waited(0, "%parity", "1"), *turned]

    def block(self) -> TimedBlock:
        """A warp, with the descriptors of A and B in shared memory and of the instruction."""
        kind, type_ = self.row.kind or "", TYPES[self.row.kind or ""]
        said = {"m": M, "n": self.n, "a_type": type_, "b_type": type_, "d_type": result_type(self.row)}
        matrices = (tcgen05_descriptor.encode(canonical("k", USUAL_SWIZZLE, start)) for start in (0, B_BYTES))
        words = [value >> shift & 0xFFFFFFFF for value in matrices for shift in (0, 32)]
        return TimedBlock(WARP, 0, (*words, instruction_descriptor.encode(kind, said)))


def _committed(barrier: int) -> str:
    at = f"[%memory+{BARRIERS + 8 * barrier}]"
    return f"@%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 {at};"


def _waited(barrier: int, parity: str, label: str) -> list[str]:
    return [
        f"WAIT{label}:",
        f"mbarrier.try_wait.parity.shared::cta.b64 %done, [%memory+{BARRIERS + 8 * barrier}], {parity};",
        f"@!%done bra WAIT{label};",
    ]


def result_type(instruction: Instruction) -> str:
    """The widest that D may be."""
    return str(instruction.stated["d_types"][-1])


@dataclass(frozen=True)
class TensorMemoryCosts(Costs):
    """Interval and round trips of a tcgen05.mma by where A is."""

    row: Instruction
    n: int

    @property
    def id(self) -> str:
        """The form's with its shape and types."""
        types = f"{result_type(self.row)}.{TYPES[self.row.kind or '']}.{TYPES[self.row.kind or '']}"
        return f"{self.row.id}.m{M}n{self.n}k{self.row.shape.k}.{types}"

    @property
    def target(self) -> Target:
        """The instruction's."""
        return self.row.target

    @property
    def loops(self) -> Sequence[Issued]:
        """All of them."""
        trips = [Issued(self.row, self.n, a, count, trip=True) for a in PLACES for count in FLIGHTS]
        return [*(Issued(self.row, self.n, a) for a in PLACES), *trips]

    def runs(self) -> dict[str, Run]:
        """Every loop by its name."""
        return {one.variant: Run(one.loop(self.id).kernel(), [one.block()]) for one in self.loops}

    def conclude(self, reading: Reading, context: Context) -> Body:
        """The body; ProbeError where no loop shows what was written."""
        numbers = ProvedNumbers(reading)
        intervals: list[Flight] = []
        trips: list[Trip] = []
        each: Counts = {}
        for one in self.loops:
            found = numbers.each(one.variant)
            each = {o: 1 for o in found if is_multiply(o)}
            cycles = numbers.proved(one.variant, COPIES, each, {o: n for o, n in found.items() if o not in each})
            if cycles is not None and one.trip:
                trips.append(Trip(float(cycles[0]) * one.count, None, one.a, 1, one.count))
            elif cycles is not None:
                intervals.append(Flight(float(cycles[0]), one.a, 1, one.count))
        if not intervals:
            raise ProbeError(next(iter(numbers.refused.values())))
        macs = M * self.n * self.row.shape.k
        return Body(
            opcodes=dict.fromkeys(each, 1.0),
            spread=numbers.spread,
            interval=intervals,
            round_trip=trips,
            macs_per_cycle=round(macs / min(flight.cycles for flight in intervals), 1),
            mhz=numbers.mhz,
            refused=numbers.refused,
        )


def is_multiply(opcode: str) -> bool:
    """Whether it is a tcgen05.mma's: UTCHMMA, UTCQMMA, UTCIMMA."""
    return stem(opcode).startswith("UTC") and stem(opcode).endswith("MMA")


def experiments() -> list[TensorMemoryCosts]:
    """Dense ones of one CTA, by kind and N."""
    rows = inventory.instructions()
    return [TensorMemoryCosts(rows[f"tcgen05.mma.cta_group::1.kind::{kind}"], n) for kind in TYPES for n in SIZES]
