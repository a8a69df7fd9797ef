"""CuTe (CUTLASS): which lane's bytes scale which rows of A and columns of B in block-scaled multiplies.

The traits give thread-id 0 and byte-id 0, as CuTe issues the instruction, and count elements along k instead of blocks:
lanes with stride 0 hold the same and need not be read. Which lanes and bytes the other immediates choose is the text of
PTX ISA 9.1, section 9.7.14.3: scales of A from lanes with lane % 4 / 2 = thread-id, of B from those with lane % 4 =
thread-id; their bytes from byte-id on, one for each block in rising k.
"""

from __future__ import annotations

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table, selected, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.shape_stride import L, apply, modes

QUAD = 4
TEXT = "lanes of thread-id and bytes of byte-id as in PTX ISA section 9.7.14.3"


def claim(fragment: Fragment, layout: L, header: str) -> Claim:
    """The map of scales under every pair of thread-id and byte-id."""
    table = selected([_table(fragment, layout, **fragment.held.picked(s)) for s in fragment.selectors])
    return Claim(table, f"{header}, {TEXT}", None, table)


def _table(fragment: Fragment, layout: L, thread_id: int, byte_id: int) -> Table:
    """Blocks by lane and byte; the lines are rows of A, or columns of B."""
    (threads, _), of_a = modes(layout), fragment.rows > fragment.cols
    blocks = min(fragment.rows, fragment.cols)
    share = QUAD // len(dict(fragment.held.picks)["thread_id"])  # lanes of four that are read together
    cells = [
        (apply(threads, lane), i - byte_id) if lane % QUAD // share == thread_id and 0 <= i - byte_id < blocks else None
        for lane in range(WARP)
        for i in range(fragment.elements)
    ]
    line, block = (tuple(None if cell is None else cell[part] for cell in cells) for part in (0, 1))
    values = {"row": line, "col": block} if of_a else {"row": block, "col": line}
    return slot_table(WARP, fragment.elements, values)
