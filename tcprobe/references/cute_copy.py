"""CuTe (CUTLASS): the copy atoms of ldmatrix, stmatrix and movmatrix, as shape:stride.

For each side of the copy an atom maps (thread, bit) to a bit of the matrices, whose rows have 128 bits. On the side of
memory a thread's bits are those at its address; on the other side, those of its registers. Threads with stride 0 repeat
the address of an earlier thread. After ldmatrix the copy may permute bytes: `order` has, for each byte of the result,
the byte that was loaded.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.cute import L, apply, modes, read_layout

FAMILIES = ("ldmatrix", "stmatrix", "movmatrix")
ROW_BITS = 128
IDENTITY = (
    "source and destination have one layout, which would make the copy an identity; read as each in "
    "its own matrix's coordinates, the one the transpose of the other"
)


class CopyAtom(NamedTuple):
    """A line of cute_copies.csv: `name` and `header` as in the source; the layouts of the registers' side and of the
    memory's. `form` is PTX's name without .sync.aligned.
    """

    form: str
    name: str
    header: str
    registers: L
    memory: L
    order: tuple[int, ...]


@cache
def atoms() -> dict[str, CopyAtom]:
    """The lines of cute_copies.csv by form."""
    path = Path(__file__).with_name("cute_copies.csv")
    rows = facts.read(path, CopyAtom, registers=read_layout, memory=read_layout, order=facts.numbers)
    return {row.form: row for row in rows}


def claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of these families (the same for every arch), or why nothing."""
    atom, where = atoms().get(fragment.experiment), ""
    if atom is None:
        # PTX ISA 9.1, section 9.7.14.5.15, figure 105 draws the registers of all three formats of m16n16 as one
        atom = atoms().get(fragment.experiment.partition(".b8x16")[0] + ".b8")
        where = " of .b8, whose registers PTX ISA draws as one with these (figure 105)"
    if atom is None:
        return f"CuTe has no atom for {fragment.instruction}"
    if fragment.family == "movmatrix":
        return _exchange(fragment, atom)
    table = _addresses(atom.memory) if fragment.role is Role.ADDRESS else _registers(atom, fragment.slot_bits)
    return Claim(table, f"{atom.header}, {atom.name}{where}", None, table)


def _exchange(fragment: Fragment, atom: CopyAtom) -> Claim:
    """movmatrix: both sides are registers of 8 rows of 8 elements."""
    where = f"{atom.header}, {atom.name}"
    as_stated = _registers(atom, fragment.slot_bits, {ROW_BITS * row: row for row in range(8)})
    if fragment.operand == "a":
        return Claim(as_stated, where, None, as_stated)
    transposed = as_stated.with_values({"row": as_stated.values["col"], "col": as_stated.values["row"]})
    return Claim(as_stated, where, IDENTITY, transposed)


@cache
def _addresses(memory: L) -> Table:
    """The row that each lane points to; None for a lane that repeats an address."""
    (threads, _), rows = modes(memory), _rows(memory)
    starts = [apply(threads, lane) for lane in range(WARP)]
    values = (rows[start] if starts.index(start) == lane else None for lane, start in enumerate(starts))
    return slot_table(WARP, 1, {"row": tuple(values)})


def _rows(memory: L) -> dict[int, int]:
    """The number of each row by its first bit, in the order of the lanes that point to them."""
    threads, _ = modes(memory)
    starts = dict.fromkeys(apply(threads, lane) for lane in range(WARP))
    return {start: row for row, start in enumerate(starts)}


def _registers(atom: CopyAtom, slot_bits: int, row_of_offset: dict[int, int] | None = None) -> Table:
    """The element of every slot, as ldmatrix leaves it or stmatrix takes it."""
    (threads, bits), row_of_offset = modes(atom.registers), row_of_offset or _rows(atom.memory)
    count = len(row_of_offset) * ROW_BITS // slot_bits // WARP
    places = _places(atom.order, count)
    offsets = [apply(threads, lane) + apply(bits, places[i] * slot_bits) for lane in range(WARP) for i in range(count)]
    values = {
        "row": tuple(row_of_offset[offset - offset % ROW_BITS] for offset in offsets),
        "col": tuple(offset % ROW_BITS // slot_bits for offset in offsets),
    }
    return slot_table(WARP, count, values)


def _places(order: Sequence[int], count: int) -> list[int]:
    """Where each loaded byte ends."""
    return [order.index(i) for i in range(count)] if order else list(range(count))
