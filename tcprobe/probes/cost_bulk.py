"""Round trips of bulk copies by bytes: cp.async.bulk and TMA boxes, loads and stores.

One thread of a block issues one copy at a time and waits for it, at an mbarrier or for its bulk group. From the second
pass on loads hit the L2 cache; stores stay in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tcprobe.errors import ProbeError
from tcprobe.isa.arch import WARP
from tcprobe.isa.target import Target
from tcprobe.probes.cost import KIND, Costs, ProvedNumbers, Run
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.timing import Loop, TimedBlock, mbarrier_wait
from tcprobe.references.shared_memory.tensor_map import TensorMap, packed_map
from tcprobe.store.kinds.cost import Body, Trip

__all__ = ("KIND", "experiments")
COPIES = 4
SIZES = tuple(16 << n for n in range(0, 13))  # 16 bytes to 64 KB
TILES = (16, 32, 64, 128, 256)  # rows of a TMA box, of 128 bytes each
HOPPER = Target("sm_90", "8.3")
AREA = 64 << 10


@dataclass(frozen=True)
class Bulk:
    """A bulk copy; `way` is "load" or "store", `tiled` says whether it takes a tensor map.

    `opcode` must be in its machine code.
    """

    name: str
    way: str
    tiled: bool
    opcode: str

    def loop(self) -> Loop:
        """COPIES copies, one after the other, by one thread."""
        body = [line for n in range(COPIES) for line in self._copy(n)]
        return Loop(
            self.name,
            "trip",
            HOPPER,
            COPIES,
            body,
            [],
            ["%parity"],
            [".reg .u32 %barrier, %to;", ".reg .pred %done;", ".reg .u64 %map;"],
            self._before(),
            threads=WARP,
            shared=True,
            mapped=self.tiled,
        )

    def _before(self) -> list[str]:
        """An mbarrier at the start of shared memory; the copies' area is 1 KB behind it. A block has one thread."""
        return [
            "mov.u32 %barrier, %memory;",
            "add.u32 %to, %memory, 1024;",
            "mov.u32 %parity, %zero;",
            "mbarrier.init.shared::cta.b64 [%barrier], 1;",
            "fence.mbarrier_init.release.cluster;",
            "fence.proxy.async;",
            *(
                ["mad.wide.u32 %map, %x, 128, %maps;", "fence.proxy.tensormap::generic.acquire.gpu [%map], 128;"]
                if self.tiled
                else []
            ),
        ]

    def _copy(self, number: int) -> list[str]:
        if self.way == "load":
            source = "[%map, {%zero, %zero}]" if self.tiled else "[%data], %word0"
            form = "cp.async.bulk.tensor.2d" if self.tiled else "cp.async.bulk"
            copy = f"{form}.shared::cluster.global.mbarrier::complete_tx::bytes [%to], {source}, [%barrier];"
            issue = ["mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], %word0;", copy]
            return [*issue, *mbarrier_wait("%barrier", "%parity", str(number)), "xor.b32 %parity, %parity, 1;"]
        copy = (
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%zero, %zero}], [%to];"
            if self.tiled
            else "cp.async.bulk.global.shared::cta.bulk_group [%data], [%to], %word0;"
        )
        return [copy, "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"]

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes of a copy, for each block."""
        return tuple(128 * rows for rows in TILES) if self.tiled else SIZES

    def run(self) -> Run:
        """One block of one thread for each size."""
        maps = tuple(_box(size) for size in self.sizes) if self.tiled else ()
        blocks = [TimedBlock(1, 0, (size,)) for size in self.sizes]
        return Run(self.loop().kernel(), blocks, maps, np.zeros((1, AREA), np.uint8))


def _box(size: int) -> TensorMap:
    """The map of a box of `size` bytes, in rows of 128 bytes, without a swizzle."""
    return packed_map("UINT8", (128, 256), (128, size // 128))


BULKS = (
    Bulk("cp.async.bulk.shared.global", "load", False, "UBLKCP"),
    Bulk("cp.async.bulk.global.shared", "store", False, "UBLKCP"),
    Bulk("cp.async.bulk.tensor.2d.shared.global", "load", True, "UTMALDG"),
    Bulk("cp.async.bulk.tensor.2d.global.shared", "store", True, "UTMASTG"),
)


@dataclass(frozen=True)
class BulkCosts(Costs):
    """Round trips of a bulk copy by bytes."""

    bulk: Bulk

    @property
    def id(self) -> str:
        """The copy's name."""
        return self.bulk.name

    @property
    def target(self) -> Target:
        """sm_90 and later."""
        return HOPPER

    def runs(self) -> dict[str, Run]:
        """One kernel; a block for each size."""
        return {"trip": self.bulk.run()}

    def conclude(self, reading: Readout, context: Context) -> Body:
        """The round trips; ProbeError unless the loop's machine code is as expected."""
        proved = ProvedNumbers(reading)
        counts = proved.each("trip")
        each = {o: 1 for o in counts if o.split(".")[0] == self.bulk.opcode}
        around = {o: n for o, n in counts.items() if o not in each}
        cycles = proved.cycles_of_copy("trip", COPIES, each, around)
        if cycles is None:
            raise ProbeError(proved.refused["trip"])
        trips = [Trip(value, size) for size, value in zip(self.bulk.sizes, cycles.tolist(), strict=True)]
        return Body(opcodes=dict.fromkeys(each, 1.0), spread=proved.spread, round_trip=trips, mhz=proved.mhz)


def experiments() -> list[BulkCosts]:
    """One experiment for each bulk copy."""
    return [BulkCosts(bulk) for bulk in BULKS]
