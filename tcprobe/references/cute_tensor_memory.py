"""CuTe (CUTLASS): the copy atoms of tcgen05.ld and tcgen05.st, as shape:stride.

An atom maps (thread, bit) to a bit of a piece of tensor memory, whose lanes (CuTe's data paths) lie `columns` x 32 bits
apart. Rows are lanes of tensor memory and columns its columns of 32 bits, both from the address on. Those of .x1 are
given; register r of a lane in .xNUM is column r * columns of it further on. Of 16x32bx2 the second half is the second
access, `columns` / 2 from the first as CuTe issues it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.shape_stride import L, apply, modes

FAMILIES = ("tcgen05",)
HEADER = "copy_traits_sm100.hpp"
CELL_BITS = 32


class MemoryAtom(NamedTuple):
    """What follows SM100_TMEM_LOAD_ and SM100_TMEM_STORE_ in its name, its columns, and the side in registers."""

    name: str
    columns: int
    registers: L


ATOMS = {
    "32x32b": MemoryAtom("32dp32b1x", 1, L((32, 32), (32, 1))),
    "16x64b": MemoryAtom("16dp64b1x", 2, L(((2, 2, 8), 32), ((512, 32, 64), 1))),
    "16x32bx2": MemoryAtom("16dp32b1x", 2, L(((16, 2), 32), ((64, 32), 1))),
    "16x128b": MemoryAtom("16dp128b1x", 4, L(((4, 8), (32, 2)), ((32, 128), (1, 1024)))),
    "16x256b": MemoryAtom("16dp256b1x", 8, L(((4, 8), (64, 2)), ((64, 256), (1, 2048)))),
}
NAMES = {"tcgen05.ld": "LOAD", "tcgen05.st": "STORE"}


def claim(fragment: Fragment) -> Claim | str:
    """What the traits say of the registers of a load or store (the same for every arch), or why nothing."""
    op, _, shape = fragment.experiment.rpartition(".")
    if op not in NAMES:
        return f"CuTe's traits are taken for tcgen05.ld and tcgen05.st only, not for {op}"
    atom = ATOMS[shape]
    table = _table(atom, fragment.elements)
    return Claim(table, f"{HEADER}, SM100_TMEM_{NAMES[op]}_{atom.name}", None, table)


@cache
def _table(atom: MemoryAtom, elements: int) -> Table:
    threads, bits = modes(atom.registers)
    offsets = [
        apply(threads, lane) + apply(bits, i * CELL_BITS) for lane in range(WARP) for i in range(elements)
    ]  # fmt: skip
    cells = [divmod(offset // CELL_BITS, atom.columns) for offset in offsets]
    return slot_table(WARP, elements, {"row": tuple(row for row, _ in cells), "col": tuple(col for _, col in cells)})
