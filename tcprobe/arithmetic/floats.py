"""The floating-point types of a multiply's operands and results: how their bits are divided.

A number is significand x 2^(exponent - fraction bits); a subnormal has the least exponent. e4m3 has no infinity, and
types below 8 bits have neither infinity nor NaN (PTX ISA 9.1, section 5.2.3; OCP MX 1.0). NumPy is imported where an
array is made: what only asks for widths starts without it.

>>> from tcprobe.arithmetic.floats import FORMATS
>>> FORMATS["e4m3"].largest, FORMATS["bf16"].word.__name__
(448.0, 'uint16')
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple


class FloatFormat(NamedTuple):
    """`fraction`: bits below the leading one; `special`: what the top exponent means; `unread`: ignored low bits.

    `held`: the type in Python that holds its numbers.
    """

    name: str
    bits: int
    fraction: int
    bias: int
    special: Literal["ieee", "nan", "none"]
    held: str
    unread: int = 0

    @property
    def numpy(self) -> Any:
        """The type of NumPy or ml_dtypes."""
        package, _, name = self.held.partition(".")
        return getattr(import_module(package), name)

    @property
    def word(self) -> Any:
        """The NumPy type of the bits."""
        return getattr(import_module("numpy"), f"uint{max(8, self.bits)}")

    @property
    def least(self) -> int:
        """The exponent of the smallest normal number, and of subnormals."""
        return 1 - self.bias

    @property
    def infinity(self) -> int:
        """The bits of infinity; without one, of the first pattern beyond the largest exponent."""
        return (1 << self.bits - 1 - self.fraction) - 1 << self.fraction

    @property
    def largest(self) -> float:
        """The largest finite number."""
        taken = 2 if self.special == "nan" else 1  # the very last pattern is NaN
        return (2 - taken * 2.0**-self.fraction) * 2.0 ** (self.bias + (self.special != "ieee"))

    def one(self) -> int:
        """The bits of the number one."""
        return self.bias << self.fraction + self.unread

    def without(self, unread: int) -> FloatFormat:
        """The same format with the low `unread` bits ignored."""
        return self._replace(fraction=self.fraction - unread, unread=unread)


FORMATS = MappingProxyType(
    {
        row.name: row
        for row in (
            FloatFormat("f64", 64, 52, 1023, "ieee", "numpy.float64"),
            FloatFormat("f32", 32, 23, 127, "ieee", "numpy.float32"),
            FloatFormat("tf32", 32, 23, 127, "ieee", "numpy.float32"),
            FloatFormat("f16", 16, 10, 15, "ieee", "numpy.float16"),
            FloatFormat("bf16", 16, 7, 127, "ieee", "ml_dtypes.bfloat16"),
            FloatFormat("e5m2", 8, 2, 15, "ieee", "ml_dtypes.float8_e5m2"),
            FloatFormat("e4m3", 8, 3, 7, "nan", "ml_dtypes.float8_e4m3fn"),
            FloatFormat("e3m2", 6, 2, 3, "none", "ml_dtypes.float6_e3m2fn"),
            FloatFormat("e2m3", 6, 3, 1, "none", "ml_dtypes.float6_e2m3fn"),
            FloatFormat("e2m1", 4, 1, 1, "none", "ml_dtypes.float4_e2m1fn"),
        )
    }
)
