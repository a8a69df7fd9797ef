"""Loops of tcgen05 instructions that one thread issues and an mbarrier completes: multiplies, copies, shifts.

- iN: N in a round, in two groups; while one group is in flight, the loop waits for the other
- tN: round trips of groups of N; the loop waits for each group

One thread of a warp issues; the whole warp waits at an mbarrier. With `group` 2, two CTAs of a cluster share the
instruction: the first issues it and is timed, the second waits at the end. Shared memory is zeroed, tensor memory is
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcprobe.isa.arch import WARP
from tcprobe.isa.target import Target
from tcprobe.probes.proof import Counts, stem
from tcprobe.probes.timing import Loop, mbarrier_wait

COPIES = 16
FLIGHTS = (1, 2, 4, 8)  # instructions in a round trip
COLUMNS = 512  # of tensor memory: all are allocated
PLACES = {"%ta": 256, "%meta": 320, "%sa": 384, "%sb": 448}  # first columns of A, metadata and scales; D is at 0
ZEROED, SLOT, BARRIERS = 48 << 10, 56 << 10, (56 << 10) + 16  # bytes zeroed, then offsets in shared memory
CLUSTER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")


@dataclass(frozen=True)
class Issued:
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

    def loop(self) -> Loop:
        """The loop to be timed."""
        places = ", ".join(PLACES)
        return Loop(
            self.subject,
            self.variant,
            self.target,
            COPIES,
            self._body(),
            [],
            ["%parity"],
            [".reg .b64 %da, %db, %wide;", ".reg .pred %p, %one, %done;", f".reg .b32 %taddr, %other, %to, {places};"],
            self._before(),
            _wait(1, "%other", "END"),
            threads=WARP,
            shared=True,
            ended=self._epilogue(),
            ctas=self.group,
        )

    def _before(self) -> list[str]:
        """Zero shared memory, allocate all of tensor memory, initialize two mbarriers.

        Start addresses in descriptors count from the start of shared memory.
        """
        form = f"cta_group::{self.group}.sync.aligned"
        return [
            "elect.sync _|%one, 0xffffffff;",
            "shl.b32 %to, %lane, 2;",
            "FILL:",
            "add.u32 %sum, %memory, %to;",
            "st.shared.u32 [%sum], %zero;",
            f"add.u32 %to, %to, {4 * WARP};",
            f"setp.lt.u32 %more, %to, {ZEROED};",
            "@%more bra FILL;",
            f"tcgen05.alloc.{form}.shared::cta.b32 [%memory+{SLOT}], {COLUMNS};",
            f"tcgen05.relinquish_alloc_permit.{form};",
            *(f"@%one mbarrier.init.shared::cta.b64 [%memory+{BARRIERS + 8 * n}], 1;" for n in (0, 1)),
            "fence.mbarrier_init.release.cluster;",
            "fence.proxy.async;",
            "bar.sync 0, %warps;",
            f"ld.shared.u32 %taddr, [%memory+{SLOT}];",
            *(f"add.u32 {name}, %taddr, {column};" for name, column in PLACES.items()),
            "mov.u32 %parity, %zero;",
            "xor.b32 %other, %parity, 1;",
            "shr.u32 %to, %memory, 4;",
            "cvt.u64.u32 %wide, %to;",
            "mov.b64 %da, {%word0, %word1};",
            "mov.b64 %db, {%word2, %word3};",
            "add.u64 %da, %da, %wide;",
            "add.u64 %db, %db, %wide;",
            "setp.eq.u32 %p, %zero, 0;",
            *self._second_cta(),
        ]

    def _second_cta(self) -> list[str]:
        """Both CTAs meet; the second goes to the end."""
        if self.group == 1:
            return []
        return [*CLUSTER, "mov.u32 %to, %cluster_ctarank;", "setp.ne.u32 %more, %to, 0;", "@%more bra ENDED;"]

    def _epilogue(self) -> list[str]:
        """Deallocate tensor memory, after both CTAs are done."""
        end = f"tcgen05.dealloc.cta_group::{self.group}.sync.aligned.b32 %taddr, {COLUMNS};"
        return ["bar.sync 0, %warps;", end] if self.group == 1 else ["ENDED:", *CLUSTER, end]

    def _body(self) -> list[str]:
        line_of_one = f"@%one {self.line}"
        toggles = ["xor.b32 %parity, %parity, 1;", "xor.b32 %other, %other, 1;"]
        if self.trip:
            group = [*[line_of_one] * self.count, self._commit(1), *_wait(1, "%parity", "{group}"), *toggles]
            return [line.replace("{group}", str(n)) for n in range(COPIES // self.count) for line in group]
        half = [line_of_one] * (COPIES // 2)
        first = [*half, self._commit(0), *_wait(1, "%other", "0")]
        return [*first, *half, self._commit(1), *_wait(0, "%parity", "1"), *toggles]

    def _commit(self, barrier: int) -> str:
        barrier_address = f"[%memory+{BARRIERS + 8 * barrier}]"
        return (
            f"@%one tcgen05.commit.cta_group::{self.group}.mbarrier::arrive::one.shared::cluster.b64 {barrier_address};"
        )


def _wait(barrier: int, parity: str, label: str) -> list[str]:
    return mbarrier_wait(f"%memory+{BARRIERS + 8 * barrier}", parity, label)


def issues(subject: str, needed: Target, line: str, group: int = 1, begins: str = "") -> Sequence[Issued]:
    """The loop that gives the interval, then those of round trips."""
    trips = (Issued(subject, needed, line, group, count, True, begins) for count in FLIGHTS)
    return [Issued(subject, needed, line, group, begins=begins), *trips]


def split_opcodes(loop_opcodes: Counts, endings: tuple[str, ...]) -> tuple[Counts, Counts]:
    """(the form's own opcodes, once each; all other opcodes of the loop, with their counts).

    The form's own are those whose stems start with UTC and end as one of `endings`.
    """
    each = {o: 1 for o in loop_opcodes if stem(o).startswith("UTC") and stem(o).endswith(endings)}
    return each, {o: n for o, n in loop_opcodes.items() if o not in each}
