"""Between global and shared memory by the tensor memory accelerator: boxes of a tensor map.

A box's rows follow each other in shared memory, as far apart as it is wide, or as the span of its swizzle mode; a tile
whose lines lie otherwise takes a box for each line. What a mode does is `references.shared_memory.tma`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.ask.path.memory import Memory
from tcprobe.ask.path.steps import GLOBAL_TO_SHARED, SHARED_TO_GLOBAL
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.layout.arrays import Ints
from tcprobe.references.shared_memory import tma
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.path.request import TileRequest

STEP = 16  # bytes between lines of a tensor map are multiples of it (CUDA driver API, cuTensorMapEncodeTiled)
MOST_STEP = 1 << 40
INSTRUCTION = "cp.async.bulk.tensor.2d"
PTX = {
    GLOBAL_TO_SHARED: f"{INSTRUCTION}.shared::cluster.global.mbarrier::complete_tx::bytes",
    SHARED_TO_GLOBAL: f"{INSTRUCTION}.global.shared::cta.bulk_group",
}


@dataclass(frozen=True)
class BoxCopy:
    """Boxes of `box` = (inner, rows) elements at `corners` (x, y) of the tile, each `shared` bytes from its start."""

    kind: str
    mode: tma.Mode
    box: tuple[int, int]
    corners: tuple[tuple[int, int], ...]
    shared: tuple[int, ...]
    bits: int
    ld: int
    evidence: tuple[str, ...]
    instruction: str = INSTRUCTION
    wavefronts: None = None
    ideal: None = None

    @property
    def ptx(self) -> tuple[str, ...]:
        """The instruction."""
        return (PTX[self.kind],)

    @property
    def swizzle(self) -> str:
        """The mode as the driver names it, without its prefix."""
        return self.mode.name

    def issues(self) -> list[Json]:
        """`box`, `at` in elements, `shared` in bytes."""
        return [
            {"box": list(self.box), "at": list(corner), "shared": shared}
            for corner, shared in zip(self.corners, self.shared, strict=True)
        ]

    def move(self, memory: Memory) -> None:
        """Every element of every box."""
        for (x, y), base in zip(self.corners, self.shared, strict=True):
            inner, row = np.meshgrid(np.arange(self.box[0]), np.arange(self.box[1]))
            shared = self.mode(inner, row, tma.Box(self.box, self.bits, base))
            global_ = (y + row) * self.ld + (x + inner) * (self.bits // 8)
            if self.kind == GLOBAL_TO_SHARED:
                memory.write_shared(shared, memory.read_global(global_, self.bits // 8))
            else:
                memory.write_global(global_, memory.read_shared(shared, self.bits // 8))


def box_copy(request: TileRequest) -> BoxCopy:
    """The step with the fewest boxes; UsageError says why no tensor map does it."""
    tile, here = request.tile, arch(request.rules.for_arch)
    if here.number < tma.LEAST_ARCH:
        raise UsageError(f"tensor maps need sm_{tma.LEAST_ARCH} or later; {here} does not have them.")
    if request.ld_bytes % STEP or request.ld_bytes >= MOST_STEP:
        raise UsageError(
            f"tma: lines in global memory are {request.ld_bytes} bytes apart (`ld` {request.ld}), not a multiple "
            f"of {STEP} below 2**40."
        )
    reasons = []
    for mode, box in _candidates(request):
        refused = mode.why_not(tma.Box(box, tile.bits, 0))
        if refused:
            reasons.append(f"{mode.name}: {refused}")
        elif copy := _boxes(request, mode, box):
            return copy
    span = f"tma: no boxes place lines {request.shared.pitch(tile)} bytes apart as {request.shared}"
    raise UsageError(
        f"{span}: rows of a box are a box's width apart, or as the span of its mode "
        f"(32, 64, 128 bytes), and a box begins at a multiple of {tma.ALIGNMENT}."
        + (f" {reasons[0]}" if reasons else "")
    )


def _candidates(request: TileRequest) -> Iterator[tuple[tma.Mode, tuple[int, int]]]:
    """Modes with boxes of many lines, then of one line; the widest that a mode takes."""
    tile = request.tile
    modes = [mode for name in tma.names() if (mode := tma.resolve(name))]
    for whole, mode in product((True, False), modes):
        span = min(mode.span or tile.line_bytes, request.shared.block or tile.line_bytes)
        widest = min(tma.MOST_EXTENT, tile.length, span * 8 // tile.bits)
        inner = _divisor(tile.length, widest)
        yield mode, (inner, _divisor(tile.lines, tma.MOST_EXTENT) if whole else 1)


def _divisor(count: int, most: int) -> int:
    """The largest divisor of `count` that is at most `most`."""
    return next(n for n in range(min(count, most), 0, -1) if count % n == 0)


def _boxes(request: TileRequest, mode: tma.Mode, box_size: tuple[int, int]) -> BoxCopy | None:
    """The boxes of a size, None where they put an element elsewhere than the tile's place in memory has it."""
    tile, size = request.tile, request.tile.bits // 8
    corners = tuple((x, y) for y in range(0, tile.lines, box_size[1]) for x in range(0, tile.length, box_size[0]))
    shared = tuple(request.shared.linear(tile, y, x * size) for x, y in corners)
    if any(base % tma.ALIGNMENT for base in shared):
        return None
    inner, row = np.meshgrid(np.arange(box_size[0]), np.arange(box_size[1]))
    for (x, y), base in zip(corners, shared, strict=True):
        offsets: Ints = request.shared.offset(tile, y + row, (x + inner) * size)
        if not np.array_equal(offsets, mode(inner, row, tma.Box(box_size, tile.bits, base))):
            return None
    kind = GLOBAL_TO_SHARED if request.loads else SHARED_TO_GLOBAL
    return BoxCopy(kind, mode, box_size, corners, shared, tile.bits, request.ld_bytes, (request.boxes,))
