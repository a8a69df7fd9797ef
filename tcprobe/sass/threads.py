"""The threads of a block that are looked at.

They are those that the file states (.reqntid, or as many in a row as .maxntid allows); a block of unknown size has
eight warps in one row. Where a kernel reads tid.y or tid.z, and its file does not say how wide a block is, blocks of
32, 16 and 8 threads in a row are looked at side by side.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tcprobe.isa.arch import WARP
from tcprobe.isa.opcodes import of_kind
from tcprobe.layout.arrays import Bools, Words
from tcprobe.sass import lanes
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.lanes import UNKNOWN, Lanes, constant

MOST_WARPS = 32
ASSUMED_WARPS = 8  # of a block whose size nobody states
WIDTHS = (32, 16, 8)  # threads in a row, of a block whose shape nobody states


class Threads(NamedTuple):
    """Warps to look at: indices of their threads, sizes of their blocks, and which lanes there are."""

    tid: tuple[Lanes, Lanes, Lanes]
    size: tuple[Lanes, Lanes, Lanes]
    there: Bools
    shapes: tuple[int, ...]


def threads(kernel: Kernel) -> Threads:
    """The warps of a kernel that are looked at, the same object for kernels of which the same is known."""
    stated, most = kernel.code.threads, kernel.code.most_threads
    if stated:
        return _of_shapes((stated,))
    total = min(most or WARP * ASSUMED_WARPS, WARP * MOST_WARPS)
    if _reads_rows(kernel):
        return _of_shapes(tuple((width, max(1, min(total, 4 * WARP) // width), 1) for width in WIDTHS))
    return _of_row(total)


@lru_cache(maxsize=64)
def _of_row(total: int) -> Threads:
    """At most so many threads in a row."""
    return _of_shapes(((total, 1, 1),))._replace(size=(UNKNOWN, constant(1), constant(1)))


def _reads_rows(kernel: Kernel) -> bool:
    special = {
        o.text for i in kernel.instructions if i.mnemonic in of_kind("special register") for o in i.operands[1:2]
    }
    return bool(special & {"SR_TID.Y", "SR_TID.Z"})


@lru_cache(maxsize=64)
def _of_shapes(shapes: tuple[tuple[int, int, int], ...]) -> Threads:
    rows: list[list[Words]] = [[] for _ in range(6)]
    there, numbers = [], []
    for number, shape in enumerate(shapes):
        count = min(int(np.prod(shape)), WARP * MOST_WARPS)
        warps = -(-count // WARP)
        thread = np.arange(warps * WARP, dtype=np.uint32).reshape(warps, WARP)
        x, y, z = (np.uint32(max(1, n)) for n in shape)
        for j, index in enumerate((thread % x, thread // x % y, thread // (x * y))):
            rows[j].append(index)
        for j, size in enumerate((x, y, z)):
            rows[3 + j].append(np.full((warps, 1), size, np.uint32))
        there.append(thread < count)
        numbers += [number] * warps
    made = [lanes.made(np.concatenate(row)) for row in rows]
    return Threads((made[0], made[1], made[2]), (made[3], made[4], made[5]), np.concatenate(there), tuple(numbers))
