"""The kernel of sm_90: tensor maps, a producer warpgroup, mbarriers, wgmma, and D through stmatrix and TMA.

A block's tiles of A and B lie in shared memory as `tcprobe descriptor` says of them; every consumer warpgroup has 64 of
the rows. D goes through shared memory where its elements have 16 bits, else straight from the registers.

>>> from tcprobe.kernel.wgmma import WarpgroupGemm
>>> gemm = WarpgroupGemm("sm_90", "bf16", (128, 128, 64))
>>> gemm.consumers, gemm.threads, hex(gemm.tiles["a"].descriptor.encode())
(2, 384, '0x4000004000010000')
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tcprobe import __version__
from tcprobe.ask import descriptor
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store_code
from tcprobe.ask.descriptor import SharedTile
from tcprobe.code import templates
from tcprobe.code.cuda import multiply_described, register_and_letter
from tcprobe.errors import UsageError
from tcprobe.isa.arch import WARPGROUP
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.isa.occupancy import REGISTERS as ALL_REGISTERS
from tcprobe.isa.operand import FACTORS
from tcprobe.isa.rows import wgmma
from tcprobe.kernel import staged
from tcprobe.kernel.staged import OTHERS, StagedGemm, check_memory
from tcprobe.store.cell import Cell
from tcprobe.values import Json

# of each type the k of a multiply, its accumulator, A and B
FORMS = {
    "f16": "k16.f32.f16.f16",
    "bf16": "k16.f32.bf16.bf16",
    "tf32": "k8.f32.tf32.tf32",
    "e4m3": "k32.f32.e4m3.e4m3",
    "e5m2": "k32.f32.e5m2.e5m2",
    "s8": "k32.s32.s8.s8",
}
ATOM = 8  # lines of a swizzle's pattern
STORED = 16  # columns of 16 bits that D's way through shared memory takes at a time
LINES = 64  # of A and D that a warpgroup multiplies at a time
# by consumers the registers of a producer's and of a consumer's thread: whole multiples of 8 that 64K registers hold
REGISTERS = {1: (40, 232), 2: (24, 240), 3: (32, 160)}


@dataclass(frozen=True)
class WarpgroupGemm(StagedGemm):
    """A consumer warpgroup for every 64 rows of a block's tile, and a producer's.

    `cluster` blocks, 1 or 2, whose tiles lie below each other share the tile of B: each brings a part of it to all.
    """

    cluster: int = 1

    @property
    def numbering(self) -> tuple[str, str]:
        """Which consumer warpgroup has which rows, as --warps of `tcprobe where` takes it; nothing is permuted."""
        return f"{self.consumers}x1", ""

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.tile[0] // LINES

    @property
    def threads(self) -> int:
        """Of a block: the producer's warpgroup too."""
        return WARPGROUP * (1 + self.consumers)

    @property
    def compiled_for(self) -> str:
        """As nvcc's -arch has it."""
        return "sm_90a"

    @cached_property
    def instruction(self) -> Instruction:
        return resolve(f"wgmma.mma_async.m64n{self.tile[1]}{FORMS[self.type]}").instruction

    @cached_property
    def tiles(self) -> dict[str, SharedTile]:
        """A and B in shared memory, and a warpgroup's D where it goes through it."""
        m, n, k = self.tile
        majors = {"a": "k" if self.a == "row" else "mn", "b": "k" if self.b == "col" else "mn"}
        tiles = {
            name: descriptor.tile(
                (lines, k),
                self.type,
                majors[name],
                widest_swizzle(self.type, k if majors[name] == "k" else lines),
                (block, 32),
            )
            for name, lines, block in (("a", m, LINES), ("b", n, n))
        }
        if dtype(self.out).bits == 16:
            tiles["d"] = descriptor.tile((LINES, n), self.out, "k", widest_swizzle(self.out, n))
        return tiles

    @property
    def boxes(self) -> dict[str, Json]:
        """The tensor maps of A, B and D: type, box, swizzle, what is contiguous; boxes of a shared B are in parts."""
        boxes = {name: {**descriptor.tma(tile), "major": tile.major} for name, tile in self.tiles.items()}
        if self.cluster > 1 and self.tiles["b"].major == "k":
            inner, lines = boxes["b"]["box"]
            boxes["b"] |= {
                "box": [inner, lines // self.cluster],
                "boxes": boxes["b"]["boxes"] * self.cluster,
                "box_bytes": boxes["b"]["box_bytes"] // self.cluster,
            }
        return boxes

    @property
    def stage_bytes(self) -> int:
        """Of A and B of one step of the loop."""
        return self.tiles["a"].bytes + self.tiles["b"].bytes

    @property
    def alignment(self) -> int:
        """Of the first byte."""
        return max(tile.alignment for tile in self.tiles.values())

    @property
    def shared_bytes(self) -> int:
        """Of dynamic shared memory, with what it takes to begin where the swizzles do; D lies where stages were."""
        d = self.tiles["d"].bytes * self.consumers if "d" in self.tiles else 0
        return max(super().shared_bytes, d + self.alignment)

    @property
    def static_bytes(self) -> int:
        """Of two mbarriers a stage."""
        return 16 * self.stages

    @property
    def wavefronts(self) -> dict[str, Json]:
        """None: wgmma reads shared memory itself."""
        return {}

    @property
    def registers(self) -> dict[str, int]:
        """Of a consumer's thread."""
        return {"accumulators": self.instruction.fragment("d").registers}


def widest_swizzle(kind: str, inner: int) -> int:
    """The widest swizzle whose rows so many elements fill."""
    return next((width for width in (128, 64, 32) if inner * dtype(kind).bits // 8 % width == 0), 0)


def check(gemm: WarpgroupGemm) -> WarpgroupGemm:
    """The GEMM itself; UsageError with the nearest possible one where there can be no such kernel."""
    if gemm.type not in FORMS:
        raise UsageError(f"{gemm.arch.name} has no multiply of {gemm.type}: it has those of {', '.join(FORMS)}.")
    _check_columns(gemm)
    m, count = gemm.tile[0], gemm.registers["accumulators"]
    heights = [LINES * consumers for consumers in REGISTERS]
    if m not in heights:
        warpgroups = f"1 to {len(heights)} warpgroups of {LINES} rows"
        raise UsageError(f"`tile`: m {m} must be one of {', '.join(map(str, heights))}: {warpgroups}.")
    there = min(REGISTERS[gemm.consumers][1], ALL_REGISTERS // gemm.threads // 8 * 8)  # ptxas counts those at the start
    if count + OTHERS > there:
        needed, has = f"{count} accumulators and {OTHERS} other registers", f"a thread of {gemm.threads} has"
        raise UsageError(f"`tile`: {needed} are more than the {there} that {has}; nearest: m 128.")
    _check_cluster(gemm)
    check_memory(gemm)
    return gemm


def _check_columns(gemm: WarpgroupGemm) -> None:
    """UsageError with the nearest for a tile as wide as no multiply, or whose rows TMA cannot store."""
    n, step = gemm.tile[1], STORED if dtype(gemm.out).bits == 16 else 1
    widths = [width for width in wgmma.widths(gemm.type) if width % step == 0]
    if n not in widths:
        near = ", ".join(map(str, sorted(sorted(widths, key=lambda width: abs(width - n))[:2])))
        raise UsageError(f"`tile`: no kernel that stores {gemm.out} has n {n}; nearest: n {near}.")


def _check_cluster(gemm: WarpgroupGemm) -> None:
    """UsageError for a cluster that is none, or whose blocks cannot share out the boxes of B."""
    if gemm.cluster not in (1, 2):
        raise UsageError(f"`cluster` {gemm.cluster}: use 1 or 2 blocks; with 2, each loads half of B for both.")
    tile = gemm.tiles["b"]
    least = ATOM if tile.major == "k" else tile.box[0]
    if gemm.cluster > 1 and tile.lines % (gemm.cluster * least):
        raise UsageError(
            f"`cluster` {gemm.cluster}: n {tile.lines} does not split into halves of whole boxes: use a multiple of "
            f"{gemm.cluster * least}."
        )


def source(gemm: WarpgroupGemm, called: str) -> str:
    """The whole file."""
    row, d, tiles = gemm.instruction, gemm.cell("d"), gemm.tiles
    word, letter = register_and_letter(d.fragment)
    return templates.fill(
        Path(__file__).with_suffix(".cu"),
        version=__version__,
        dtype=dtype,
        gemm=gemm,
        called=called,
        d=d,
        word=word,
        letter=letter,
        registers=REGISTERS[gemm.consumers],
        bits={name: f"{tile.descriptor._replace(start=0).encode():#018x}" for name, tile in tiles.items()},
        tma=descriptor.tma,
        multiply=multiply_described(row, (gemm.a == "col", gemm.b == "row")),
        store=staged.store(d, gemm.out, gemm.arch),
        store_boxed=_store_function(d, tiles["d"]) if "d" in tiles else "",
        loads=box_loads(gemm.boxes, {"a": "m0", "b": "n0"}, gemm.cluster),
        starts={name: k_starts(tiles[name], gemm.tile[2] // row.shape.k) for name in FACTORS},
    )


def _store_function(d: Cell, shared_tile: SharedTile) -> str:
    """`store` of a warpgroup's D into its boxes in shared memory."""
    placed = f"boxes:{shared_tile.width}" if shared_tile.descriptor.swizzle else "plain"
    code = plan_store_code(d, StoreOptions("stmatrix", shared_tile.type, "row", placed), "store_boxed").conversion.code
    assert code
    return code


def box_loads(boxes: dict[str, Json], firsts: dict[str, str], cluster: int = 1) -> str:
    """Boxes of A and B one after the other, as the descriptor's answer has them; a tile begins at line `firsts`.

    The `cluster` blocks that share B bring a part of it each.
    """
    lines = []
    for name, start in (("a", "at"), ("b", "at + BYTES_A")):
        box, first, count = boxes[name], firsts[name], cluster if name == "b" else 1
        inner, outer = box["box"]
        for number in range(box["boxes"]):
            to = f"{start} + {number * box['box_bytes']}, map_{name}, barrier"
            if box["major"] == "k":  # parts of a shared tile's boxes lie below each other
                beside, part = divmod(number, count)
                x, y = f"k0 + {beside * inner}", f"{first} + {part * outer}" if part else first
            else:
                x, y, part = f"{first} + {number * inner}", "k0", number * count // box["boxes"]
            mine = f"if (blockIdx.y % CLUSTER == {part}) load_all" if count > 1 else "load"
            lines.append(f"        {mine}({to}, {x}, {y});")
    return "\n".join(lines)


def k_starts(shared_tile: SharedTile, count: int) -> list[int]:
    """How far on each k step of a tile is, as the descriptor's answer says."""
    each = shared_tile.per_k if len(shared_tile.per_k) != 1 else shared_tile.per_k * (count - 1)
    return [sum(each[:step]) for step in range(count)]
