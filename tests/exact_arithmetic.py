"""PTX's arithmetic and conversions of floats in rational numbers, one operand at a time: an oracle for the emulator.

A number is (sign, magnitude): a Fraction or INFINITE; None is a NaN, also as a result. What PTX ISA 9.1 says, sections
9.7.3 to 9.7.5 and 9.7.9.21: results are exact and rounded once; .ftz makes subnormal operands and results zeros of
their sign, .sat clamps to [+0, 1], a NaN to +0, .relu to +0 below. Types without a NaN take their largest number.
"""

from fractions import Fraction
from math import isqrt
from typing import NamedTuple

INFINITE = "infinite"
SHIFT = 1200  # bits behind the point of a root that are computed


class Format(NamedTuple):
    bits: int
    fraction: int
    bias: int
    top: str  # what the largest exponent holds: infinities and NaNs, a NaN, numbers


FORMATS = {
    "f64": Format(64, 52, 1023, "ieee"),
    "f32": Format(32, 23, 127, "ieee"),
    "tf32": Format(19, 10, 127, "ieee"),
    "f16": Format(16, 10, 15, "ieee"),
    "bf16": Format(16, 7, 127, "ieee"),
    "e5m2": Format(8, 2, 15, "ieee"),
    "e4m3": Format(8, 3, 7, "nan"),
    "e3m2": Format(6, 2, 3, "none"),
    "e2m3": Format(6, 3, 1, "none"),
    "e2m1": Format(4, 1, 1, "none"),
}
WHOLE = {f"{kind}{bits}": (kind == "s", bits) for kind in "us" for bits in (8, 16, 32, 64)}


def value(bits, kind, flush=False):
    """The number of some bits."""
    form = FORMATS[kind]
    sign, field = bits >> form.bits - 1 & 1, bits >> form.fraction & (1 << form.bits - 1 - form.fraction) - 1
    part, top = bits & (1 << form.fraction) - 1, (1 << form.bits - 1 - form.fraction) - 1
    if form.top == "ieee" and field == top:
        return None if part else (sign, INFINITE)
    if form.top == "nan" and field == top and part == (1 << form.fraction) - 1:
        return None
    if not field:
        return sign, Fraction(0 if flush else part, 1 << form.fraction) * Fraction(2) ** (1 - form.bias)
    return sign, (1 + Fraction(part, 1 << form.fraction)) * Fraction(2) ** (field - form.bias)


def largest(kind):
    """The bits of the largest finite number."""
    form = FORMATS[kind]
    infinity = (1 << form.bits - 1) - (1 << form.fraction)
    return {"ieee": infinity - 1, "nan": (1 << form.bits - 1) - 2, "none": (1 << form.bits - 1) - 1}[form.top]


def rounded(number, kind, way="rn", finite=False):
    """The bits of a number; `finite`: the largest ones for what is larger."""
    form = FORMATS[kind]
    if number is None:
        return largest(kind) if form.top == "none" else None
    sign, size = number
    negative = sign << form.bits - 1
    most = value(largest(kind), kind)[1]
    if size == INFINITE:
        return negative | (largest(kind) + (not finite))
    if not size:
        return negative
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, 1 - form.bias) - form.fraction)
    whole, rest = divmod(size, unit)
    half = unit / 2
    up = {
        "rn": rest > half or (rest == half and whole % 2),
        "rna": rest >= half,
        "rz": False,
        "rm": rest and sign,
        "rp": rest and not sign,
    }[way]
    whole += bool(up)
    if whole * unit > most:
        stays = finite or way == "rz" or (way == "rm" and not sign) or (way == "rp" and sign)
        return negative | (largest(kind) + (not stays))
    if whole * unit < Fraction(2) ** (1 - form.bias):
        return negative | int(whole)
    exponent += whole == 2 << form.fraction
    size = whole * unit / Fraction(2) ** exponent
    return negative | int((exponent + form.bias - 1 << form.fraction) + size * (1 << form.fraction))


def product(x, y):
    if x is None or y is None or (INFINITE in (x[1], y[1]) and 0 in (x[1], y[1])):
        return None
    return x[0] ^ y[0], INFINITE if INFINITE in (x[1], y[1]) else x[1] * y[1]


def total(x, y, way="rn"):
    if x is None or y is None or (x[1] == y[1] == INFINITE and x[0] != y[0]):
        return None
    if INFINITE in (x[1], y[1]):
        return x if x[1] == INFINITE else y
    exact = (-1) ** x[0] * x[1] + (-1) ** y[0] * y[1]
    if exact:
        return int(exact < 0), abs(exact)
    return (x[0] if x[0] == y[0] else int(way == "rm")), Fraction(0)


def quotient(x, y):
    if x is None or y is None or (x[1] == y[1] and x[1] in (0, INFINITE)):
        return None
    if INFINITE in (x[1], y[1]) or not y[1]:
        return x[0] ^ y[0], INFINITE if x[1] == INFINITE or not y[1] else Fraction(0)
    return x[0] ^ y[0], x[1] / y[1]


def root(x):
    if x is None or not x[1]:
        return x
    if x[0]:
        return None
    if x[1] == INFINITE:
        return x
    scaled = x[1] * 4**SHIFT
    whole = isqrt(scaled.numerator // scaled.denominator)
    return 0, (whole + Fraction(whole * whole != scaled, 2)) / 2**SHIFT


def extreme(name, x, y, nan, first, second, magnitude):
    """Which of two, and with which sign."""
    sign = first[0] ^ second[0]
    if (nan and (x is None or y is None)) or (x is None and y is None):
        return None
    if magnitude:
        x, y = (None if n is None else (0, n[1]) for n in (x, y))
    if x is None or y is None:
        found = y if x is None else x
    else:
        size = [(-1) ** s * (Fraction(2) ** 2000 if n == INFINITE else n) for s, n in (x, y)]
        order = sorted(((size[0], -x[0], 0), (size[1], -y[0], 1)))
        found = (x, y)[order[0 if name == "min" else 1][2]]
    return (sign, found[1]) if magnitude else found


def whole_number(number, way, kind, of):
    """A float as a whole number: clamped; a NaN as PTX ISA 9.1, 9.7.9.21 has it."""
    signed, bits = WHOLE[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if number is None:
        made = 1 << bits - 1 if of == "f64" or bits == 64 else 0
    elif number[1] == INFINITE:
        made = low if number[0] else high
    else:
        made = min(max(to_whole(number, way), low), high)
    return made & (1 << bits) - 1


def to_whole(number, way):
    sign, size = number
    size = (-1) ** sign * size
    return {"rni": round, "rzi": int, "rmi": lambda n: n.__floor__(), "rpi": lambda n: n.__ceil__()}[way](size)


def arithmetic(name, words, kinds, bits):
    """The bits of add, sub, mul, fma, mad, div, rcp, sqrt, min, max, abs, neg; `kinds` has the result's type first."""
    way = next((w for w in words if w in ("rn", "rz", "rm", "rp")), "rn")
    flush = "ftz" in words
    kind = kinds[0]
    numbers = [value(b, k, flush) for b, k in zip(bits, kinds[1:], strict=True)]
    if name in ("add", "sub"):
        x, y = numbers
        made = total(x, y if name == "add" or y is None else (1 - y[0], y[1]), way)
    elif name == "mul":
        made = product(*numbers)
    elif name in ("fma", "mad"):
        made = total(product(*numbers[:2]), numbers[2], way)
    elif name in ("div", "rcp"):
        made = quotient(*((0, Fraction(1)), *numbers)[-2:])
    elif name == "sqrt":
        made = root(*numbers)
    elif name in ("abs", "neg"):
        made = numbers[0] and (int(name == "neg" and not numbers[0][0]), numbers[0][1])
    else:
        signs = [(b >> FORMATS[kind].bits - 1,) for b in bits]
        made, held = numbers[0], signs[0]
        for number, sign in zip(numbers[1:], signs[1:], strict=True):
            made = extreme(name, made, number, "NaN" in words, held, sign, "abs" in words)
    return finished(made, words, kind, way)


def finished(made, words, kind, way, flush=None):
    """With the modifiers of the result."""
    if "sat" in words:
        made = (0, Fraction(0)) if made is None or made[0] else made
        made = (0, Fraction(1)) if made[1] == INFINITE or made[1] > 1 else made
    if "relu" in words and made is not None and made[0]:
        made = 0, Fraction(0)
    if made and made[1] != INFINITE:  # tiny as if there were smaller exponents, as an H200 has it
        doubled = rounded((made[0], 2 * made[1]), kind, way) & (1 << FORMATS[kind].bits - 1) - 1
        tiny = doubled < 2 << FORMATS[kind].fraction
    else:
        tiny = False
    if tiny and ("ftz" in words if flush is None else flush):
        made = made[0], Fraction(0)
    return rounded(made, kind, way, "satfinite" in words)


def conversion(words, to, of, bits):
    """The bits of cvt between numbers; of pairs, of one half."""
    way = next((w for w in words if w in ("rn", "rz", "rm", "rp", "rna")), "rn")
    whole = next((w for w in words if w in ("rni", "rzi", "rmi", "rpi")), None)
    if of in WHOLE:
        signed, width = WHOLE[of]
        number = bits - (1 << width) if signed and bits >> width - 1 else bits
        number = int(number < 0), Fraction(abs(number))
    else:
        number = value(bits, of, "ftz" in words and of == "f32" and to != "f16")  # not as PTX ISA 9.1 has it
    if to in WHOLE:
        return whole_number(number, whole, to, of)
    if whole and number is not None and number[1] != INFINITE:
        number = number[0], Fraction(abs(to_whole(number, whole)))
    return finished(number, words, to, way, "ftz" in words and to == "f32")
