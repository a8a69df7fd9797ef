"""CuTe (CUTLASS): the copy atoms of ldmatrix, stmatrix and movmatrix, as shape:stride.

For each side of the copy an atom maps (thread, bit) to a bit of the matrices, whose rows have 128 bits. On the side of
memory a thread's bits are those at its address; on the other side, those of its registers. Threads with stride 0 repeat
the address of an earlier thread. After ldmatrix the copy may permute bytes: `order` has, for each byte of the result,
the byte that was loaded.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.operand import Role
from tcprobe.layout.table import Table, slot_table
from tcprobe.references.claim import Claim
from tcprobe.references.shape_stride import L, apply, modes

FAMILIES = ("ldmatrix", "stmatrix", "movmatrix")
ROW_BITS = 128
IDENTITY = (
    "source and destination have one layout, which would make the copy an identity; read as each in "
    "its own matrix's coordinates, the one the transpose of the other"
)


class CopyAtom(NamedTuple):
    """`name` and `header` as in the source; the layouts of the registers' side and of the memory's."""

    name: str
    header: str
    registers: L
    memory: L
    order: tuple[int, ...] = ()


_SM75, _SM90, _SM100 = (f"copy_traits_sm{number}.hpp" for number in (75, 90, 100))
_ROWS = {1: L(((8, 4), 128), ((128, 0), 1)), 2: L(((16, 2), 128), ((128, 0), 1)), 4: L((32, 128), (128, 1))}
_PLAIN = {1: L((32, 32), (32, 1)), 2: L((32, (32, 2)), (32, (1, 1024))), 4: L((32, (32, 4)), (32, (1, 1024)))}
_TURNED = {
    1: L(((4, 8), (16, 2)), ((256, 16), (1, 128))),
    2: L(((4, 8), (16, 2, 2)), ((256, 16), (1, 128, 1024))),
    4: L(((4, 8), (16, 2, 4)), ((256, 16), (1, 128, 1024))),
}
_BYTES = {
    1: L(((4, 8), (8, 2, 2)), ((256, 8), (1, 128, 64))),
    2: L(((4, 8), (8, 2, 2, 2)), ((256, 8), (1, 128, 64, 1024))),
    4: L(((4, 8), (8, 2, 2, 4)), ((256, 8), (1, 128, 64, 1024))),
}
_M16N16 = {
    1: CopyAtom(
        "SM100_U8x8_LDSM_T",
        _SM100,
        _BYTES[2],
        L(((2, 2, 4, 2), 128), ((128, 1024, 256, 0), 1)),
        (0, 1, 4, 5, 2, 3, 6, 7),
    ),
    2: CopyAtom(
        "SM100_U8x16_LDSM_T",
        _SM100,
        _BYTES[4],
        L(((2, 2, 4, 2), 128), ((128, 1024, 256, 2048), 1)),
        (0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15),
    ),
}
# by name in PTX without .sync.aligned
ATOMS = {
    **{
        f"ldmatrix.m8n8.x{n}.shared.b16": CopyAtom(f"SM75_U32x{n}_LDSM_N", _SM75, _PLAIN[n], _ROWS[n])
        for n in (1, 2, 4)
    },
    **{
        f"ldmatrix.m8n8.x{n}.trans.shared.b16": CopyAtom(f"SM75_U16x{2 * n}_LDSM_T", _SM75, _TURNED[n], _ROWS[n])
        for n in (1, 2, 4)
    },
    **{
        f"ldmatrix.m8n16.x{n}.shared.b8x16.b{bits}x16_p{pad}": CopyAtom(
            f"SM100_SU{bits}_DU8x16_x{n}_LDSM_N", _SM100, _PLAIN[n], _ROWS[n]
        )
        for n in (1, 2, 4)
        for bits, pad in ((4, 64), (6, 32))
    },
    **{f"ldmatrix.m16n16.x{n}.trans.shared.b8": _M16N16[n] for n in (1, 2)},
    **{
        f"stmatrix.m8n8.x{n}.shared.b16": CopyAtom(f"SM90_U32x{n}_STSM_N", _SM90, _PLAIN[n], _ROWS[n])
        for n in (1, 2, 4)
    },
    **{
        f"stmatrix.m8n8.x{n}.trans.shared.b16": CopyAtom(f"SM90_U16x{2 * n}_STSM_T", _SM90, _TURNED[n], _ROWS[n])
        for n in (1, 2, 4)
    },
    **{
        f"stmatrix.m16n8.x{n}.trans.shared.b8": CopyAtom(f"SM100_U8x{4 * n}_STSM_T", _SM100, _BYTES[n], _ROWS[n])
        for n in (1, 2, 4)
    },
}
MOVMATRIX = CopyAtom("SM75_U32x1_MOVM_T", _SM75, _PLAIN[1], _PLAIN[1])


def claim(fragment: Fragment) -> Claim | str:
    """What the traits state of a fragment of these families (the same for every arch), or why nothing."""
    if fragment.family == "movmatrix":
        return _exchange(fragment)
    atom, where = ATOMS.get(fragment.experiment), ""
    if atom is None:
        # PTX ISA 9.1, section 9.7.14.5.15, figure 105 draws the registers of all three formats of m16n16 as one
        atom = ATOMS.get(fragment.experiment.partition(".b8x16")[0] + ".b8")
        where = " of .b8, whose registers PTX ISA draws as one with these (figure 105)"
    if atom is None:
        return f"CuTe has no atom for {fragment.instruction}"
    table = _addresses(atom.memory) if fragment.role is Role.ADDRESS else _registers(atom, fragment.slot_bits)
    return Claim(table, f"{atom.header}, {atom.name}{where}", None, table)


def _exchange(fragment: Fragment) -> Claim:
    """movmatrix: both sides are registers of 8 rows of 8 elements."""
    where = f"{MOVMATRIX.header}, {MOVMATRIX.name}"
    as_stated = _registers(MOVMATRIX, fragment.slot_bits, _rows(_ROWS[1]))
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
