"""Loops of tcgen05.cp and tcgen05.shift: interval and round trips. One thread issues, an mbarrier completes.

Every shape and multicast, plain and with decompression of 4 and 6 bits, for one CTA and for two. The loops are
assembled and their machine code is read; nobody has run them on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tcprobe.errors import ProbeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP
from tcprobe.layout import descriptor
from tcprobe.probes.cost import KIND, Costs, OfRow, ProvedNumbers, Run
from tcprobe.probes.cost_issued import COPIES, Issued, issues, split_opcodes
from tcprobe.probes.cost_warpgroups import canonical
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.timing import TimedBlock
from tcprobe.store.kinds.cost import Body, Point, Trip

__all__ = ("KIND", "experiments")
UNPACKED = ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64")
GROUPS = (1, 2)
WORD = 4  # bytes of a cell of tensor memory
STEMS = ("CP", "SHIFT")


@dataclass(frozen=True)
class TensorCopyCosts(OfRow, Costs):
    """Interval and round trips of a copy into tensor memory, or of a shift in it."""

    group: int
    multicast: str = ""
    unpacked: str = ""

    @property
    def id(self) -> str:
        """The instruction's name in PTX."""
        family, op, *rest = self.row.id.split(".")
        multicast = f".{self.multicast}" if self.multicast else ""
        return f"{family}.{op}.cta_group::{self.group}.{'.'.join(rest)}{multicast}{self.unpacked}"

    @property
    def loops(self) -> Sequence[Issued]:
        """The loop of the interval, then those of round trips."""
        operands = "[%taddr]" if self.row.id.startswith("tcgen05.shift") else "[%taddr], %da"
        return issues(self.id, self.target, f"{self.id} {operands};", self.group)

    def runs(self) -> dict[str, Run]:
        """Every loop by its name. The source is a matrix without a swizzle."""
        source = descriptor.encode_tcgen05(canonical("k", 0, 0))
        block = TimedBlock(WARP, 0, (source & 0xFFFFFFFF, source >> 32))
        return {issued.variant: Run(issued.loop().kernel(), [block]) for issued in self.loops}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError unless the loop of the interval has the expected machine code."""
        proved, trips = ProvedNumbers(reading), []
        each, around = split_opcodes(proved.each(self.loops[0].variant), STEMS)
        interval = proved.cycles_of_copy(self.loops[0].variant, COPIES, each, around)
        if interval is None:
            raise ProbeError(proved.refused[self.loops[0].variant])
        for issued in self.loops[1:]:
            cycles = proved.cycles_of_copy(issued.variant, COPIES, *split_opcodes(proved.each(issued.variant), STEMS))
            if cycles is not None:
                trips.append(Trip(float(cycles[0]) * issued.count, issued.count * self._bytes))
        point = Point(float(interval[0]), 1)
        return Body(
            opcodes=dict.fromkeys(each, 1.0),
            spread=proved.spread,
            interval=point,
            one_warp=point.cycles,
            round_trip=trips,
            mhz=proved.mhz,
            refused=proved.refused,
        )

    @property
    def _bytes(self) -> int:
        """Bytes that one copy writes."""
        rows, columns, *_ = self.row.shape
        return rows * columns * WORD


def experiments() -> list[TensorCopyCosts]:
    """One experiment for each combination of shape, CTAs, multicast and decompression."""
    rows = [row for row in inventory.of_family("tcgen05") if row.id.startswith(("tcgen05.cp", "tcgen05.shift"))]
    return [
        TensorCopyCosts(row, group, str(multicast), unpacked)
        for row in rows
        for group, multicast, unpacked in product(GROUPS, row.stated.get("multicast", ("",)), UNPACKED)
        if not unpacked or row.id.startswith("tcgen05.cp")
    ]
