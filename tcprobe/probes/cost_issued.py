"""Loops of what one thread issues and an mbarrier ends: multiplies, copies and shifts of tensor memory.

- iN: N in a round, half of them in a group that is committed; the other group is waited for meanwhile
- tN: a round trip: N of them in one group, which is waited for

One thread of a warp issues, all wait at an mbarrier. With `group` 2 two CTAs of a cluster have tensor memory together:
the first issues for both and is timed, the second waits at the end. Shared memory is zero, tensor memory as it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcprobe.isa.arch import WARP
from tcprobe.isa.target import Target
from tcprobe.probes.proof import Counts, stem
from tcprobe.probes.timing import Loop

COPIES = 16
FLIGHTS = (1, 2, 4, 8)  # in a round trip
COLUMNS = 512  # of tensor memory: all are allocated
PLACES = {"%ta": 256, "%meta": 320, "%sa": 384, "%sb": 448}  # columns of A, metadata and scales, behind those of D
ZEROED, SLOT, BARRIERS = 48 << 10, 56 << 10, (56 << 10) + 16  # in shared memory
CLUSTER = ("barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;")
Lines = list[str]


@dataclass(frozen=True)
class Issued:
    """One loop of `line`, which may use %taddr, %ta, %meta, %sa, %sb, the descriptors %da and %db, %word4 and %p.

    `trip` waits for each group of `count`. `begins` is what the variant's name begins with.
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
        """What the kernel is called."""
        return f"{self.begins}{'t' if self.trip else 'i'}{self.count}"

    def loop(self) -> Loop:
        """The loop."""
        places = ", ".join(PLACES)
        return Loop(
            self.subject,
            self.variant,
            self.target,
            COPIES,
            self._body(),
            [],
            ["%parity"],
            [
                ".reg .b64 %da, %db, %wide;",
                ".reg .pred %p, %one, %done;",
                f".reg .b32 %taddr, %other, %to, {places};",
            ],
            self._before(),
            _waited(1, "%other", "END"),
            threads=WARP,
            shared=True,
            ended=self._ended(),
            ctas=self.group,
        )

    def _before(self) -> Lines:
        """Zeros in shared memory, all of tensor memory, two barriers, descriptors behind the start of shared memory."""
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
            *self._parted(),
        ]

    def _parted(self) -> Lines:
        """The second CTA is ready, and goes to the end."""
        if self.group == 1:
            return []
        return [*CLUSTER, "mov.u32 %to, %cluster_ctarank;", "setp.ne.u32 %more, %to, 0;", "@%more bra ENDED;"]

    def _ended(self) -> Lines:
        """Tensor memory is given back, by both CTAs when both are done."""
        end = f"tcgen05.dealloc.cta_group::{self.group}.sync.aligned.b32 %taddr, {COLUMNS};"
        return ["bar.sync 0, %warps;", end] if self.group == 1 else ["ENDED:", *CLUSTER, end]

    def _body(self) -> Lines:
        one = f"@%one {self.line}"
        turned = ["xor.b32 %parity, %parity, 1;", "xor.b32 %other, %other, 1;"]
        if self.trip:
            group = [*[one] * self.count, self._committed(1), *_waited(1, "%parity", "{group}"), *turned]
            return [line.replace("{group}", str(n)) for n in range(COPIES // self.count) for line in group]
        half = [one] * (COPIES // 2)
        first = [*half, self._committed(0), *_waited(1, "%other", "0")]
        return [*first, *half, self._committed(1), *_waited(0, "%parity", "1"), *turned]

    def _committed(self, barrier: int) -> str:
        at = f"[%memory+{BARRIERS + 8 * barrier}]"
        return f"@%one tcgen05.commit.cta_group::{self.group}.mbarrier::arrive::one.shared::cluster.b64 {at};"


def _waited(barrier: int, parity: str, label: str) -> Lines:
    return [
        f"WAIT{label}:",
        f"mbarrier.try_wait.parity.shared::cta.b64 %done, [%memory+{BARRIERS + 8 * barrier}], {parity};",
        f"@!%done bra WAIT{label};",
    ]


def issues(subject: str, needed: Target, line: str, group: int = 1, begins: str = "") -> Sequence[Issued]:
    """The loop of the interval, then those of round trips."""
    trips = (Issued(subject, needed, line, group, count, True, begins) for count in FLIGHTS)
    return [Issued(subject, needed, line, group, begins=begins), *trips]


def parted(loop_opcodes: Counts, endings: tuple[str, ...]) -> tuple[Counts, Counts]:
    """Of a loop's opcodes those of the form, once each, as their names end, and all that stands around them."""
    each = {o: 1 for o in loop_opcodes if stem(o).startswith("UTC") and stem(o).endswith(endings)}
    return each, {o: n for o, n in loop_opcodes.items() if o not in each}
