"""Numbers as people write them, and as C++ of the element's type: whole, 1e30, 0.5f, inf, -INFINITY, nan.

>>> from tcprobe.ask.reduce.number import literal, number
>>> literal(number("-7"), "f32"), literal(number("1e30"), "f32"), literal(number("-INFINITY"), "f32")
('-7', '1e+30f', '-__int_as_float(0x7f800000)')
"""

from __future__ import annotations

import math
import re

from tcprobe.arithmetic.formats import FORMATS
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
    """The number that a whole text is, an int where it is written as one; None where it is something else.

    UsageError for one that is beyond all finite numbers.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, token = -1 if match[1] == "-" else 1, match[2]
    size = value(token)
    if math.isinf(size) and token[0] in ".0123456789":
        raise UsageError(f"{quoted(text[:40])} is a number too large to hold; infinity is inf or -inf.")
    whole = token.isdigit() and -INT - 1 <= sign * size <= INT
    return sign * (int(size) if whole else size)


def literal(constant: float, kind: str) -> str:
    """The number in C++, for elements of a type; UsageError where the type does not hold it."""
    if isinstance(constant, int):
        _check_range(constant, kind)
        return str(constant)
    if not (dtype(kind).is_float or _is_bits(kind)):
        most = _whole(kind)[1]
        raise UsageError(
            f"{quoted(str(constant))} is not of type {kind}: these elements are whole numbers up to {most}."
        )
    wide = "f64" if kind == "f64" else "f32"
    if not math.isfinite(constant):
        return _special(constant, kind, wide)
    _check_range(constant, kind)
    return f"{constant!r}{'' if wide == 'f64' else 'f'}"


def _special(constant: float, kind: str, wide: str) -> str:
    name = "nan" if math.isnan(constant) else "inf"
    if kind in FORMATS and FORMATS[kind].special not in ("ieee", name):
        raise UsageError(f"{kind} has no {'NaN' if name == 'nan' else 'infinity'}.")
    return ("-" if constant < 0 else "") + _BITS[wide][name]


def _check_range(constant: float, kind: str) -> None:
    """UsageError for a number that is too large, or too close to zero, for a type; what is only bits may be an f32."""
    row = dtype(kind)
    if row.is_float or _is_bits(kind):
        most = FORMATS[kind if kind in FORMATS else "f32"].largest
        wide = FORMATS["f64" if kind == "f64" else "f32"].largest
        if abs(constant) > most or (constant and abs(constant) < 1 / wide) or (constant < 0 and not row.is_signed):
            raise UsageError(
                f"{quoted(str(constant))} is out of the range of {kind}, up to {most:g}; infinity is inf or -inf."
            )
        return
    low, high = _whole(kind)
    if not low <= constant <= high:
        raise UsageError(f"{constant} is out of the range of {kind}, {low} to {high}.")


def _whole(kind: str) -> tuple[int, int]:
    """The least and the largest whole number of a type such as s8."""
    bits = dtype(kind).bits
    return (-1 << bits - 1, (1 << bits - 1) - 1) if kind.startswith("s") else (0, (1 << bits) - 1)


def _is_bits(kind: str) -> bool:
    return not dtype(kind).is_float and kind.startswith("b")
