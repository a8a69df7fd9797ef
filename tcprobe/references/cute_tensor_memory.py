"""CuTe (CUTLASS): the copy atoms of tcgen05.ld and tcgen05.st, as shape:stride.

An atom maps (thread, bit) to a bit of a piece of tensor memory, in which lanes (CuTe's data paths) are `columns` x 32
bits apart. Rows are lanes of tensor memory, columns its columns of 32 bits; both count from the address. .xNUM repeats
the registers of .x1 NUM times, each time `columns` columns further on. In 16x32bx2, half of the lanes makes a second
access; CuTe puts it right behind the first, NUM columns further on.
"""

import re
from functools import cache
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Table, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.cute import L, apply, modes, size

FAMILIES = ("tcgen05",)
HEADER = "copy_traits_sm100.hpp"
CELL_BITS = 32


class MemoryAtom(NamedTuple):
    """The name after SM100_TMEM_LOAD_ and SM100_TMEM_STORE_, the columns, and the layout of the registers."""

    name: str
    columns: int
    registers: L
    accesses: int = 1


ATOMS = {
    "32x32b": MemoryAtom("32dp32b1x", 1, L((32, 32), (32, 1))),
    "16x64b": MemoryAtom("16dp64b1x", 2, L(((2, 2, 8), 32), ((512, 32, 64), 1))),
    "16x32bx2": MemoryAtom("16dp32b1x", 2, L(((16, 2), 32), ((64, 32), 1)), 2),
    "16x128b": MemoryAtom("16dp128b1x", 4, L(((4, 8), (32, 2)), ((32, 128), (1, 1024)))),
    "16x256b": MemoryAtom("16dp256b1x", 8, L(((4, 8), (64, 2)), ((64, 256), (1, 2048)))),
}
NAMES = {"tcgen05.ld": "LOAD", "tcgen05.st": "STORE"}
REDUCING = {
    shape: f"CuTe DSL, nvgpu.tcgen05.{name}"
    for shape, name in (("32x32b", "LdRed32x32bOp"), ("16x32bx2", "LdRed16x32bx2Op"))
}
LEAST = {"tcgen05.ld.red": 2}  # repetitions; 1 for all others
_FORM = r"(tcgen05\.(?:ld\.red|ld|st))\.(\w+?)(?:\.x([0-9]+))?"


def claim(fragment: Fragment) -> Claim | str:
    """What the traits, or CuTe DSL's atoms, state of a load's or store's registers (the same for every arch), or why
    nothing.
    """
    form = re.fullmatch(_FORM, fragment.experiment)
    if form is None:
        return f"CuTe's traits are taken for tcgen05.ld and tcgen05.st only, not for {fragment.experiment}"
    op, shape, number = form[1], form[2], int(form[3] or LEAST.get(form[1], 1))
    if fragment.operand == "redval":
        return "CuTe says nothing of what a reduction leaves beside the registers"
    registers = table(shape, number)
    atom = ATOMS[shape].name.removesuffix("1x")
    where = REDUCING[shape] if op not in NAMES else (f"{HEADER}, SM100_TMEM_{NAMES[op]}_{atom}{number}x")
    return Claim(registers, where, None, registers)


@cache
def table(shape: str, number: int) -> Table:
    """The cell (row, col) of tensor memory in register i of each lane, for .x`number` of a shape."""
    atom = ATOMS[shape]
    threads, bits = modes(atom.registers)
    once = size(bits.shape) // CELL_BITS
    cells = []
    for lane in range(WARP):
        for repetition, i in ((n, i) for n in range(number) for i in range(once)):
            row, col = divmod((apply(threads, lane) + apply(bits, i * CELL_BITS)) // CELL_BITS, atom.columns)
            width = atom.columns // atom.accesses
            access, col = divmod(col, width)
            cells.append((row, (access * number + repetition) * width + col))
    values = {"row": tuple(row for row, _ in cells), "col": tuple(col for _, col in cells)}
    return slot_table(WARP, once * number, values)
