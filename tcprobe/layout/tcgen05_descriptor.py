"""The 64 bits by which tcgen05 finds a matrix in shared memory: wgmma's, with a version and three bits of swizzle.

>>> from tcprobe.layout.descriptor import Descriptor
>>> from tcprobe.layout.tcgen05_descriptor import encode, read
>>> hex(encode(Descriptor(16, 1024, 128)))
'0x4000404000010000'
>>> read(0x4000404000010000).fields["swizzle"]
128

Nothing here is measured. The bytes are those of wgmma's formula; CUTLASS has the same canonical layouts for both.
Source: PTX ISA 9.1, section 9.7.16.4.1; CUTLASS include/cute/arch/mma_sm100_desc.hpp, SmemDescriptor.
"""

from __future__ import annotations

from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields
from tcprobe.isa.bit_fields import DecodedWord, Field
from tcprobe.layout.descriptor import REACH, UNIT, Descriptor

SOURCE = "PTX ISA 9.1, section 9.7.16.4.1"
WIDTH = 64
VERSION = Field("version", 46, 3, (None, 1))
BYTES = range(0, REACH, UNIT)
WORD = (
    Field("start", 0, 14, BYTES),
    Field("lbo", 16, 14, BYTES),
    Field("sbo", 32, 14, BYTES),
    VERSION,
    Field("base_offset", 49, 3, range(8)),
    Field("lbo_mode", 52, 1, ("relative", "absolute")),
    Field("swizzle", 61, 3, ("none", "128 in atoms of 32 bytes", 128, None, 64, None, 32)),
)


def fields(descriptor: Descriptor) -> dict[str, int | str]:
    """Every field, in bytes; the LBO is relative."""
    return descriptor.check()._asdict() | {
        "version": 1,
        "lbo_mode": "relative",
        "swizzle": descriptor.swizzle or "none",
    }


def encode(descriptor: Descriptor) -> int:
    """The 64 bits; UsageError if a field cannot be encoded."""
    return bit_fields.encode(WORD, fields(descriptor))


def is_tcgen05(bits: int) -> bool:
    """Whether the version is tcgen05's; wgmma's descriptors have zeros there."""
    return bool(VERSION.decode(bits))


def read(bits: int) -> DecodedWord:
    """The fields of 64 bits, and what is undocumented in them; UsageError for more bits."""
    if not 0 <= bits < 1 << WIDTH:
        raise UsageError(f"{bits:#x} has more than {WIDTH} bits.")
    return bit_fields.decode(WORD, bits, WIDTH)
