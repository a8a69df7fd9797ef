"""One row per element type: its width, and the bit pattern of the number one.

>>> from tcprobe.isa.dtypes import dtype
>>> dtype("e4m3").one_in(8), dtype("e2m1").one_in(8), dtype("e2m1").one_in(4)
(56, 8, 2)
>>> hex(dtype("f16").pattern(-3, 16)), dtype("s4").pattern(-3, 4)
('0xc200', 13)
>>> ptx_name("cutlass::half_t"), ptx_name("FLOAT16"), ptx_name("fp8")
('f16', 'f16', 'e4m3|e5m2')

Zero is all bits clear in every type. Source: PTX ISA 9.1, sections 5.2.3 (alternate floating-point
formats) and 9.7.14.2; for narrow types in an 8-bit container 9.7.14.5.10: e2m1 occupies bits 2 to 5,
e3m2 and e2m3 bits 0 to 5.
"""

from typing import NamedTuple, SupportsInt

from tcprobe import facts
from tcprobe.errors import RowError


class TypeNames(NamedTuple):
    """A line of type_names.csv: what C++, CUTLASS, Python's packages and the driver call what PTX calls `name`."""

    name: str
    others: str


OTHER_NAMES = dict(facts.read(__file__, "type_names.csv", TypeNames))
_PTX = {other: name for name, others in OTHER_NAMES.items() for other in others.split("|")}


def ptx_name(text: str) -> str:
    """PTX's name of the type that a text names, in any case and with any namespace: f16 of cutlass::half_t.

    Two with | between where it may be either; the text in lower case where it names none.
    """
    bare = text.strip().lower().rpartition("::")[2]
    return _PTX.get(bare, bare)


class DType(NamedTuple):
    """An element type: PTX's `name`, width in `bits`, pattern of 1, and its shift in an 8-bit container.

    `is_signed` is False for floats without a sign.
    """

    name: str
    bits: int
    one: int
    is_float: bool = True
    container_shift: int = 0
    is_signed: bool = True

    def one_in(self, slot_bits: int) -> int:
        """The pattern of one in a slot of `slot_bits` bits."""
        if slot_bits < self.bits:
            raise RowError(f"type {self.name} of {self.bits} bits does not fit a slot of {slot_bits} bits.")
        return self.one << (self.container_shift if slot_bits > self.bits else 0)

    def pattern(self, value: int, slot_bits: int) -> int:
        """The bits of a whole number in a slot; RowError where the type cannot hold it exactly.

        A float's exponent and mantissa follow from the pattern of one, whose exponent is the bias 0b01...1.
        """
        if not self.is_float:
            if not -(1 << self.bits - 1) <= value < 1 << self.bits:
                raise RowError(f"{value} does not fit type {self.name}.")
            return value & (1 << self.bits) - 1
        mantissa = (self.one & -self.one).bit_length() - 1
        exponent = abs(value).bit_length() - 1
        bias = self.one >> mantissa
        if not value:
            return 0
        fraction = (abs(value) << mantissa) >> exponent
        if exponent > bias or (value < 0 and not self.is_signed) or fraction << exponent != abs(value) << mantissa:
            raise RowError(f"type {self.name} does not hold {value} exactly.")
        bits = (exponent + bias << mantissa) + (fraction - (1 << mantissa))
        sign = 1 << self.bits - 1 if value < 0 else 0
        return (sign | bits) << (self.container_shift if slot_bits > self.bits else 0)

    def hexadecimal(self, bits: SupportsInt) -> str:
        """A bit pattern, with as many digits as the type has."""
        return f"0x{int(bits):0{-(-self.bits // 4)}x}"

    @property
    def has_nan(self) -> bool:
        """Whether all bits set is a NaN: floats of 8 bits and more (PTX ISA 9.1, section 5.2.3)."""
        return self.is_float and self.bits >= 8


# dtypes.csv: PTX's types; ue8m0 and ue4m3 are scales, without a sign; u32 is an address in shared memory; b32 to b4 are
# what moves carry, bits of no type; b2, and b4 for tf32, index fields of metadata
DTYPES = facts.read(
    __file__,
    "dtypes.csv",
    DType,
    bits=facts.number,
    one=facts.number,
    is_float=facts.flag,
    container_shift=facts.number,
    is_signed=facts.flag,
)
_BY_NAME = {d.name: d for d in DTYPES}


def dtype(name: str) -> DType:
    """The row of PTX type `name`; RowError if there is none."""
    if name not in _BY_NAME:
        raise RowError(f"unknown element type {name!r}; known: {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]
