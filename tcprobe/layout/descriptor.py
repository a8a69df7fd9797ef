"""Descriptor: the 64 bits by which wgmma and tcgen05 find a matrix in shared memory, and the bytes that it leads to.

>>> from tcprobe.layout.descriptor import Descriptor, decode
>>> found = decode(0x4000004000010000)
>>> found
Descriptor(lbo=16, sbo=1024, swizzle=128, base_offset=0, start=0)
>>> hex(found.encode()), found.offset("k", line=1, byte=0), found.offset("mn", line=0, byte=2)
('0x4000004000010000', 144, 288)

A matrix is lines (rows of A, columns of B) x k. With major k the elements of a line are contiguous, in chunks of 16
bytes; with major mn, those of one k are. One formula covers all modes. Bit fields of the line and of k are placed side
by side or multiplied by a stride; then the swizzle permutes chunks of 16 bytes:

    none, k     line % 8 * 16 + line / 8 * SBO + k' / 16 * LBO + k' % 16        (k' = bytes of k, l' = bytes of lines)
    none, mn    k % 8 * 16 + k / 8 * LBO + l' / 16 * SBO + l' % 16
    W, k        line % 8 * W + line / 8 * SBO + k' % W + k' / W * LBO
    W, mn       k % 8 * W + k / 8 * SBO + l' % W + l' / W * LBO
    address ^= ((address / 128 - base offset) % (W / 16)) * 16                  (of the absolute address)

Source: PTX ISA 9.1, section 9.7.15.5.1.2; CUTLASS include/cute/arch/mma_sm90_desc.hpp; the base offset as measured.

tcgen05 finds a matrix by the same bits, with a version and three bits of swizzle:

>>> from tcprobe.layout.descriptor import encode_tcgen05, read_tcgen05
>>> hex(encode_tcgen05(Descriptor(16, 1024, 128)))
'0x4000404000010000'
>>> read_tcgen05(0x4000404000010000).fields["swizzle"]
128

Nothing of tcgen05's is measured. The bytes are those of wgmma's formula; CUTLASS has one set of canonical layouts for
both.
Source: PTX ISA 9.1, section 9.7.16.4.1; CUTLASS include/cute/arch/mma_sm100_desc.hpp, SmemDescriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.isa.bit_fields import DecodedWord, Field

if TYPE_CHECKING:
    from tcprobe.layout.arrays import Offset


SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}  # bytes of a row of the pattern: bits 62 and 63 of a descriptor
UNIT = 16  # bytes per unit of a field
REACH = UNIT << 14  # range of a field of 14 bits, in bytes
PERIOD = 1024  # bytes after which the widest pattern repeats
_KNOWN = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62


class Descriptor(NamedTuple):
    """Leading and stride byte offset, swizzle in bytes (0: none), base offset 0 to 7, start address in bytes."""

    lbo: int
    sbo: int
    swizzle: int = 0
    base_offset: int = 0
    start: int = 0

    def check(self) -> Descriptor:
        """The descriptor itself; UsageError if a field cannot be encoded."""
        for name, value in (("leading byte offset", self.lbo), ("stride byte offset", self.sbo), ("start", self.start)):
            if not 0 <= value < REACH or value % UNIT:
                raise UsageError(f"{name} {value}: expected a multiple of {UNIT} from 0 to {REACH - UNIT}.")
        if self.swizzle not in SWIZZLES:
            raise UsageError(f"swizzle {self.swizzle}: expected none, 32, 64 or 128.")
        if not 0 <= self.base_offset < 8:
            raise UsageError(f"base offset {self.base_offset}: expected 0 to 7.")
        return self

    def encode(self) -> int:
        """The 64 bits; UsageError as `check`."""
        self.check()
        fields = self.start >> 4 | self.lbo >> 4 << 16 | self.sbo >> 4 << 32
        return fields | self.base_offset << 49 | SWIZZLES[self.swizzle] << 62

    def linear(self, major: str, line: Offset, byte: Offset) -> Offset:
        """The offset before the swizzle; arguments as `offset`."""
        width = self.swizzle or UNIT
        outer, inner = (line, byte) if major == "k" else (byte, line)  # inner: the contiguous bytes
        across, along = (self.lbo, self.sbo) if self.swizzle or major == "k" else (self.sbo, self.lbo)
        return outer % 8 * width + outer // 8 * along + inner % width + inner // width * across

    def offset(self, major: str, line: Offset, byte: Offset) -> Offset:
        """Bytes from the start address to an element, for numbers or arrays.

        Major k: `line` counts lines, `byte` bytes of k. Major mn: `line` counts bytes of lines, `byte` counts k.
        """
        address = self.start + self.linear(major, line, byte)
        return self.swizzled(address) - self.start

    def swizzled(self, address: Offset) -> Offset:
        """The address after the swizzle."""
        chunks = max(1, self.swizzle // UNIT)
        return address ^ (((address >> 7) - self.base_offset) & chunks - 1) << 4


def decode(bits: int) -> Descriptor:
    """The fields of 64 bits; UsageError if bits outside all fields are set."""
    if not 0 <= bits < 1 << 64:
        raise UsageError(f"{bits:#x} has more than 64 bits.")
    if bits & ~_KNOWN:
        raise UsageError(f"{bits:#x} has bits {bits & ~_KNOWN:#x} set, which belong to no field of a descriptor.")
    swizzle = {code: width for width, code in SWIZZLES.items()}[bits >> 62]
    start, lbo, sbo = ((bits >> low & 0x3FFF) << 4 for low in (0, 16, 32))
    return Descriptor(lbo, sbo, swizzle, bits >> 49 & 7, start)


def offsets(descriptor: Descriptor, major: str, line: Offset, k: Offset, bits: int) -> Offset:
    """Byte offsets of elements of `bits` bits at (line, k), numbers or arrays; for b1, of the byte that has the bit."""
    if major == "k":
        return descriptor.offset("k", line, k * bits // 8)
    return descriptor.offset("mn", line * bits // 8, k)


def packed_descriptor(k_bytes: int) -> Descriptor:
    """The descriptor without swizzle for lines of `k_bytes` bytes, k contiguous, packed without gaps.

    8 lines come chunk by chunk along k, then the next 8 lines.
    """
    return Descriptor(128, 8 * k_bytes)


def formula(major: str, swizzle: int, bits: int, operand: str) -> str:
    """`Descriptor.offset` in C syntax, in row and col of operand a_smem or b_smem, lbo, sbo, base_offset and start."""
    line, k = ("row", "col") if operand == "a_smem" else ("col", "row")
    linear = linear_formula(major, swizzle, bits, (line, k), ("lbo", "sbo"))
    if not swizzle:
        return linear
    address = f"(start + {linear})"
    return f"({address} ^ ((({address} >> 7) - base_offset & {swizzle // UNIT - 1}) << 4)) - start"


def linear_formula(
    major: str, swizzle: int, bits: int, variables: tuple[str, str], strides: tuple[str | int, str | int]
) -> str:
    """`Descriptor.linear` in C syntax, in the names of the line and of k; `strides` are the LBO and the SBO."""
    (line, k), (lbo, sbo), width = variables, strides, swizzle or UNIT
    outer, inner = (line, _bytes(k, bits)) if major == "k" else (k, _bytes(line, bits))
    across, along = (lbo, sbo) if swizzle or major == "k" else (sbo, lbo)
    shift = width.bit_length() - 1
    rows = f"({outer} & 7) * {width} + ({outer} >> 3) * {along}"
    return f"{rows} + ({inner} & {width - 1}) + ({inner} >> {shift}) * {across}"


def _bytes(name: str, bits: int) -> str:
    return f"({name} >> 3)" if bits == 1 else f"({name} * {bits // 8})" if bits > 8 else name


TCGEN05_SOURCE = "PTX ISA 9.1, section 9.7.16.4.1"
WORD_BITS = 64
TCGEN05_VERSION = Field("version", 46, 3, (None, 1))
FIELD_BYTES = range(0, REACH, UNIT)
TCGEN05_WORD = (
    Field("start", 0, 14, FIELD_BYTES),
    Field("lbo", 16, 14, FIELD_BYTES),
    Field("sbo", 32, 14, FIELD_BYTES),
    TCGEN05_VERSION,
    Field("base_offset", 49, 3, range(8)),
    Field("lbo_mode", 52, 1, ("relative", "absolute")),
    Field("swizzle", 61, 3, ("none", "128 in atoms of 32 bytes", 128, None, 64, None, 32)),
)


def tcgen05_fields(descriptor: Descriptor) -> dict[str, int | str]:
    """Every field, in bytes; the LBO is relative."""
    return descriptor.check()._asdict() | {
        "version": 1,
        "lbo_mode": "relative",
        "swizzle": descriptor.swizzle or "none",
    }


def encode_tcgen05(descriptor: Descriptor) -> int:
    """The 64 bits; UsageError if a field cannot be encoded."""
    return bit_fields.encode(TCGEN05_WORD, tcgen05_fields(descriptor))


def is_tcgen05(bits: int) -> bool:
    """Whether the version is tcgen05's; wgmma's descriptors have zeros there."""
    return bool(TCGEN05_VERSION.decode(bits))


def read_tcgen05(bits: int) -> DecodedWord:
    """The fields of 64 bits, and what is undocumented in them; UsageError for more bits."""
    if not 0 <= bits < 1 << WORD_BITS:
        raise UsageError(f"{bits:#x} has more than {WORD_BITS} bits.")
    return bit_fields.decode(TCGEN05_WORD, bits, WORD_BITS)
