"""Numbers as people write them, and as C++ of the element's type: whole, 1e30, 0.5f, inf, -INFINITY, nan.

>>> from tcprobe.ask.reduce.number import literal, number
>>> literal(number("-7"), "f32"), literal(number("1e30"), "f32"), literal(number("-INFINITY"), "f32")
('-7', '1e+30f', '-__int_as_float(0x7f800000)')
"""

from __future__ import annotations

import math
import re

from tcprobe.errors import UsageError
from tcprobe.isa.dtypes import dtype
from tcprobe.text import quoted

TOKEN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?(?![A-Za-z0-9_.])"
NAMED = ("inf", "infinity", "nan")
INT = (1 << 31) - 1
_NUMBER = re.compile(rf"\s*([+-]?)\s*({TOKEN}|{'|'.join(NAMED)})\s*", re.IGNORECASE)
# CUDA's headers write them so: NVRTC has no INFINITY, which is <math.h>'s
_BITS = {
    "f32": {"inf": "__int_as_float(0x7f800000)", "nan": "__int_as_float(0x7fffffff)"},
    "f64": {"inf": "__longlong_as_double(0x7ff0000000000000ll)", "nan": "__longlong_as_double(0x7fffffffffffffffll)"},
}


def value(token: str) -> float:
    """The value of a token without a sign."""
    return float(token.rstrip("fF") if token[0] in ".0123456789" else token)


def number(text: str) -> int | float | None:
    """The number that a whole text is, an int where it is written as one; None where it is something else."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign = -1 if match[1] == "-" else 1
    whole = match[2].isdigit() and int(match[2]) <= INT
    return sign * (int(match[2]) if whole else value(match[2]))


def literal(given: float, kind: str) -> str:
    """The number in C++, for elements of a type; UsageError where the type does not hold it."""
    if isinstance(given, int):
        return str(given)
    if not (dtype(kind).is_float or kind.startswith("b")):
        raise UsageError(f"{quoted(str(given))} is not of type {kind}: these elements are whole numbers up to {INT}.")
    wide = "f64" if kind == "f64" else "f32"
    if not math.isfinite(given):
        sign = "-" if given < 0 else ""
        return sign + _BITS[wide]["nan" if math.isnan(given) else "inf"]
    most = _largest(kind if dtype(kind).is_float and dtype(kind).bits >= 16 else "f32")
    if abs(given) > most or (given and abs(given) < 1 / _largest(wide)):
        raise UsageError(
            f"{quoted(str(given))} is out of the range of {kind}, up to {most:g}; infinity is inf or -inf."
        )
    return f"{given!r}{'' if wide == 'f64' else 'f'}"


def _largest(kind: str) -> float:
    """The largest finite number of a floating-point type as IEEE has them, from the pattern of 1."""
    one = dtype(kind).one
    mantissa = (one & -one).bit_length() - 1
    return (2 - 2.0**-mantissa) * 2.0 ** (one >> mantissa)
