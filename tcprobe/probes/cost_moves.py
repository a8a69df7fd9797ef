"""Loops of moves: ldmatrix, stmatrix, movmatrix, loads and stores of shared memory, shfl, cp.async.

- chain: each move takes its address, or its source, from the one before; every loaded value is zero. Gives the latency
- many: independent moves, by warps; matrix moves also with addresses that take 2, 4 and 8 passes of the banks
- trip: each move is issued and waited for

Bulk copies (cp.async.bulk and TMA boxes, loads and stores) have round trips by bytes. One thread of a block issues one
copy at a time and waits for it, at an mbarrier or for its bulk group. From the second pass on loads hit the L2 cache;
stores stay in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tcprobe.code.templates import Macros
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, Target
from tcprobe.isa.shared_memory import accesses
from tcprobe.probes import timing
from tcprobe.probes.cost_multiplies import WARPS, interval
from tcprobe.probes.experiment import Context, Readout
from tcprobe.probes.timing import DECIMALS, Costs, ProvedNumbers, Run, TimedBlock, TimedLoop
from tcprobe.references.shared_memory.tensor_map import packed_map
from tcprobe.store.kinds.cost import Body, Passes, Point, Trip

KIND = timing.KIND
PTX = Macros(globals(), timing=timing.PTX)
COPIES = 8
BASE = 4096  # first address of patterns: behind the shared memory that the system reserves
PASSES = (1, 2, 4, 8)
ROW = 16  # bytes of a row of a matrix
AREA = 8 << 10  # bytes from BASE on, all zero
WAITS = ("LDGDEPBAR", "DEPBAR.LE")  # what cp.async.wait_all becomes


@dataclass(frozen=True)
class TimedMove(Costs):
    """A move: latency from address to data, interval by warps, and what bank conflicts add.

    `ptx_text` makes its PTX from (destination registers, address register); a copy has `registers`.

    `opcode` must be in its machine code. `loads`: its results are consumed. `chained`: there is a chain of it.
    `matrices`: bank conflicts are timed too. Addresses of lanes are `stride` bytes apart. `ends` waits for it, if that
    takes code.
    """

    name: str
    needed: Target
    opcode: str
    registers: int
    ptx_text: Callable[[Sequence[str], str], str]
    loads: bool = True
    chained: bool = True
    matrices: bool = False
    stride: int = 0
    ends: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.name

    @property
    def target(self) -> Target:
        return self.needed

    def runs(self) -> dict[str, Run]:
        """Independent moves by warps; a chain, round trips, in one warp."""
        one_warp = [TimedBlock(WARP, 0, (self.stride,))]
        chain = {"chain": self.chain().run(one_warp)} if self.chained else {}
        trip = {"trip": self.trip().run(one_warp)} if self.ends else {}
        return {"many": self.many().run(self.blocks()), **chain, **trip}

    def chain(self) -> TimedLoop:
        """Each copy takes its address or source from the one before."""
        names = self._names(0)
        return self._loop("chain", [self.ptx_text(names, names[-1])] * COPIES, names, names)

    def many(self) -> TimedLoop:
        """Independent copies; what they load goes into one register."""
        names = [name for copy in range(COPIES) for name in self._names(copy)]
        body = [self.ptx_text(self._names(copy), f"%at{copy}") for copy in range(COPIES)]
        joined = [f"xor.b32 %joined, %joined, {name};" for name in names] if self.loads else []
        grown = [f"add.u32 %at{copy}, %at{copy}, %zero;" for copy in range(COPIES)]
        return self._loop("many", [*body, *joined, *grown, *self.ends], [*names, "%joined"], ["%joined"])

    def trip(self) -> TimedLoop:
        """Each copy is waited for."""
        body = [line for _ in range(COPIES) for line in (self.ptx_text([], "%at0"), *self.ends)]
        return self._loop("trip", body, ["%joined"], ["%joined"])

    def _loop(
        self, variant: str, ptx_lines: Sequence[str], loaded: Sequence[str], result_registers: Sequence[str]
    ) -> TimedLoop:
        return TimedLoop(
            self.name,
            variant,
            self.target,
            COPIES,
            ptx_lines,
            loaded,
            result_registers,
            [f".reg .u32 %address, %at<{COPIES}>;", ".reg .u64 %source;"],
            PTX.before(),
            shared=True,
        )

    def _names(self, copy: int) -> list[str]:
        return [f"%v{copy * self.registers + j}" for j in range(self.registers)]

    def found(self, reading: Readout, context: Context) -> Body:
        """The body; ProbeError unless the machine code of `many` is as expected."""
        proved = ProvedNumbers(reading)
        each, _ = proved.split("many", self.opcode.__eq__)
        cycles = proved.cycles_of_copy("many", COPIES, each, dict.fromkeys(WAITS, 1) if self.ends else {})
        if cycles is None:
            raise proved.refusal()
        points, passes = [], []
        for block, value in zip(self.blocks(), cycles.tolist(), strict=True):
            warps = block.threads // WARP
            if block.words[0] == self.stride:
                points.append(Point(round(value / warps, DECIMALS), warps))
            else:
                passes.append(Passes(block.words[0] // ROW, round(value / warps, DECIMALS)))
        chain = proved.cycles_of_copy("chain", COPIES, each) if self.chained else None
        trip = proved.cycles_of_copy("trip", COPIES, each, dict.fromkeys(WAITS, COPIES)) if self.ends else None
        return proved.body(
            each,
            latency=None if chain is None else float(chain[0]),
            interval=interval(points),
            one_warp=points[0].cycles,
            curve=points,
            passes=[Passes(1, points[-1].cycles), *passes] if passes else [],
            round_trip=[] if trip is None else [Trip(float(trip[0]), self.stride * WARP)],
        )

    def blocks(self) -> list[TimedBlock]:
        """A block for each number of warps; for matrices, then blocks of the most warps with bank conflicts."""
        plain = [TimedBlock(n * WARP, 0, (self.stride,)) for n in WARPS]
        return [*plain, *([TimedBlock(WARPS[-1] * WARP, 0, (p * ROW,)) for p in PASSES[1:]] if self.matrices else [])]


def _load(form: str, names: Sequence[str], address: str, braces: bool = False) -> str:
    return f"{form} {_vector(names, braces)}, [{address}{'' if address.startswith('%at') else f'+{BASE}'}];"


def _store(form: str, names: Sequence[str], address: str, braces: bool = False) -> str:
    return f"{form} [{address}], {_vector(names, braces)};"


def _vector(names: Sequence[str], braces: bool) -> str:
    return f"{{{', '.join(names)}}}" if braces or len(names) > 1 else names[0]


def _substitute(form: str, names: Sequence[str], source: str) -> str:
    return form.replace("{to}", names[0] if names else "").replace("{source}", source)


def _moves() -> Iterator[TimedMove]:
    """Matrix moves, loads and stores of shared memory by width, shuffles, cp.async by bytes and cache operator."""
    for row in inventory.of_family("ldmatrix", "stmatrix"):
        loads = row.family == "ldmatrix"
        target, opcode = row.target, "LDSM" if loads else "STSM"
        count = row.fragment("d" if loads else "a").registers
        ptx_text = partial(_load if loads else _store, row.name, braces=True)
        yield TimedMove(row.id, target, opcode, count, ptx_text, loads, loads, matrices=True, stride=ROW)
    for row in inventory.of_family("movmatrix"):
        yield TimedMove(row.id, row.target, "MOVM", 1, partial(_substitute, f"{row.name} {{to}}, {{source}};"))
    for name, access in accesses().items():
        kind, loads, count = name.split(".")[0], name.startswith("ld."), max(1, access.bytes // 4)
        if kind in ("ld", "st"):
            form = f"{kind}.volatile.shared" + (f".u{8 * access.bytes}" if access.bytes < 8 else f".v{count}.u32")
            ptx_text, opcode = partial(_load if loads else _store, form), "LDS" if loads else "STS"
            yield TimedMove(name, access.target, opcode, count, ptx_text, loads, loads, stride=access.bytes)
    for mode in ("idx", "up", "down", "bfly"):
        form = f"shfl.sync.{mode}.b32"
        ptx_text = partial(_substitute, f"{form} {{to}}, {{source}}, %address, 31, -1;")
        yield TimedMove(form, Target("sm_70", "6.0"), "SHFL", 1, ptx_text, stride=1)
    for size, way in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        name, target = f"cp.async.{way}.{size}", Target("sm_80", "7.0")
        ptx_text = partial(_substitute, f"cp.async.{way}.shared.global [%at0], [%source], {size};")
        ends = ("cp.async.wait_all;",)
        yield TimedMove(name, target, "LDGSTS", 0, ptx_text, False, False, stride=size, ends=ends)


BULK_COPIES = 4
SIZES = tuple(16 << n for n in range(0, 13))  # 16 bytes to 64 KB
TILES = (16, 32, 64, 128, 256)  # rows of a TMA box, of 128 bytes each
HOPPER = Target("sm_90", "8.3")
BULK_AREA = 64 << 10


@dataclass(frozen=True)
class Bulk(Costs):
    """Round trips of a bulk copy by bytes; `way` is "load" or "store", `tiled` says whether it takes a tensor map.

    `opcode` must be in its machine code.
    """

    name: str
    way: str
    tiled: bool
    opcode: str
    target = HOPPER

    @property
    def id(self) -> str:
        return self.name

    def loop(self) -> TimedLoop:
        """COPIES copies, one after the other, by one thread."""
        return TimedLoop(
            self.name,
            "trip",
            HOPPER,
            BULK_COPIES,
            PTX.bulk(self.way, self.tiled),
            [],
            ["%parity"],
            [".reg .u32 %barrier, %to;", ".reg .pred %done;", ".reg .u64 %map;"],
            PTX.before_bulk(self.tiled),
            threads=WARP,
            shared=True,
            mapped=self.tiled,
        )

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes of a copy, for each block."""
        return tuple(128 * rows for rows in TILES) if self.tiled else SIZES

    def runs(self) -> dict[str, Run]:
        """One kernel; one block of one thread for each size; boxes have rows of 128 bytes and no swizzle."""
        boxes = [packed_map("UINT8", (128, 256), (128, size // 128)) for size in self.sizes if self.tiled]
        blocks = [TimedBlock(1, 0, (size,)) for size in self.sizes]
        return {"trip": self.loop().run(blocks, tuple(boxes), np.zeros((1, BULK_AREA), np.uint8))}

    def found(self, reading: Readout, context: Context) -> Body:
        """The round trips; ProbeError unless the loop's machine code is as expected."""
        proved = ProvedNumbers(reading)
        each, around = proved.split("trip", self.opcode.__eq__)
        cycles = proved.cycles_of_copy("trip", BULK_COPIES, each, around)
        if cycles is None:
            raise proved.refusal()
        return proved.body(each, round_trip=list(map(Trip, cycles.tolist(), self.sizes)))


BULKS = (
    Bulk("cp.async.bulk.shared.global", "load", False, "UBLKCP"),
    Bulk("cp.async.bulk.global.shared", "store", False, "UBLKCP"),
    Bulk("cp.async.bulk.tensor.2d.shared.global", "load", True, "UTMALDG"),
    Bulk("cp.async.bulk.tensor.2d.global.shared", "store", True, "UTMASTG"),
)


def experiments() -> list[Costs]:
    """One experiment for each bulk copy and each move."""
    return [*BULKS, *_moves()]
