"""Sparsity: which columns of a sparse A are stored, and which of B's rows an index of the metadata picks.

>>> from tcprobe.isa import inventory
>>> from tcprobe.isa.sparsity import sparsity
>>> rule = sparsity(inventory.fragment("mma.sp.m16n8k16.row.col.f32.f16.f16.f32.e"))
>>> rule.k(stored=5, index=3)
11

A row of A is cut into chunks. Of each chunk some units are stored, in the order of k, and an index field for each
says where in the chunk the unit was. A unit is one element, or two next to each other for 4-bit types.
Source: PTX ISA 9.1, section 9.7.14.6.1 (sparse matrix storage): 1:2 for tf32, 4:8 in pairs for u4 and s4, else 2:4.
"""

from typing import NamedTuple

from tcprobe.isa.arch import Arch
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction

# four bits that hold legal indices, in every order that tells their fields apart; of tf32 the two that are legal
ORDERED = (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)
SINGLE = (0x4, 0xE)


class Sparsity(NamedTuple):
    """A chunk stores `fields` units out of `positions`, each unit being `span` elements; a field has `bits` bits."""

    fields: int
    positions: int
    span: int
    bits: int

    @property
    def legal(self) -> tuple[int, ...]:
        """The values of four bits of metadata that PTX allows for ordered metadata, and so everywhere."""
        return ORDERED if self.fields == 2 else SINGLE

    def read(self, nibble: int, half: int) -> int:
        """The index in a field: `half` 0 is the low one of four bits. A single field of 4 bits is 0x4 or 0xE."""
        return SINGLE.index(nibble) if self.fields == 1 else nibble >> 2 * half & 3

    def chunk(self, stored: int) -> int:
        """The chunk of a stored column."""
        return stored // (self.fields * self.span)

    def k(self, stored: int, index: int) -> int:
        """The column of A that a stored column is under an index: the row of B that it meets."""
        return (self.chunk(stored) * self.positions + index) * self.span + stored % self.span


def sparsity(metadata: Fragment) -> Sparsity:
    """How the metadata of a multiply is to be read."""
    single = metadata.slot_bits == 4
    return Sparsity(1 if single else 2, 2 if single else 4, metadata.span, metadata.slot_bits)


def emulated(instruction: Instruction, device: Arch) -> bool:
    """Whether the compiler emulates a sparse multiply on `device`: what is measured there is the compiler's work too.

    Source: machine code of ptxas 12.9 and 13: for mma.sp, sm_90 and later have no sparse IMMA of 4-bit types, and sm_90
    to sm_110 no sparse QMMA of 8-bit floats. wgmma's sparse QGMMA is an instruction of sm_90.
    """
    if instruction.family != "mma.sp" or device.number < 90:
        return False
    kind = instruction.type("a")
    return kind in ("s4", "u4") or (kind in ("e4m3", "e5m2") and device.number < 120)
