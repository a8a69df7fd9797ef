"""CuTe (CUTLASS): which lane's bytes scale which rows of A and columns of B in block-scaled multiplies.

CuTe issues the instruction with thread-id 0 and byte-id 0, and its traits are for these. They count elements along k
instead of blocks; lanes with stride 0 hold copies that need not be read. PTX ISA 9.1, section 9.7.14.3, states what the
other immediates select: scales of A come from lanes with lane % 4 / 2 = thread-id, those of B from lanes with lane % 4
= thread-id; their bytes start at byte-id, one for each block, with rising k.
"""

from __future__ import annotations

from functools import cache

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.address import Pair
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.shape_stride import L, apply, modes

QUAD = 4
TEXT = "lanes of thread-id and bytes of byte-id as in PTX ISA section 9.7.14.3"


def claim(fragment: Fragment, layout: L, header: str) -> Claim:
    """The map of scales under every pair of thread-id and byte-id."""
    share = QUAD // len(dict(fragment.held.picks)["thread_id"])  # of four lanes, how many are read together
    picked = tuple(
        (selector["thread_id"], selector["byte_id"]) for selector in map(fragment.held.picked, fragment.selectors)
    )
    table = _tables(layout, (fragment.rows, fragment.cols), fragment.elements, share, picked)
    return Claim(table, f"{header}, {TEXT}", None, table)


@cache
def _tables(layout: L, matrix_size: Pair, elements: int, share: int, picked: tuple[Pair, ...]) -> Table:
    """By (thread-id, byte-id), the block of each lane and byte; lines are rows of A, or columns of B."""
    (rows, cols), blocks, lines = matrix_size, min(matrix_size), [apply(modes(layout)[0], lane) for lane in range(WARP)]
    tables = []
    for thread_id, byte_id in picked:
        slots = [
            (lane % QUAD // share == thread_id and 0 <= i - byte_id < blocks, lines[lane], i - byte_id)
            for lane in range(WARP)
            for i in range(elements)
        ]
        line, block = (tuple(slot[part] if slot[0] else None for slot in slots) for part in (1, 2))
        tables.append(
            slot_table(WARP, elements, {"row": line, "col": block} if rows > cols else {"row": block, "col": line})
        )
    return selected(tables)
