"""What an instruction computes in one lane, in whole numbers, from its text alone: an oracle for `sass.meaning`.

It follows PTX, by ptxas' translations: add, sub and their carries are IADD, mad IMAD, lop3 LOP3, shf SHF, prmt PRMT,
selp SEL, setp ISETP, bfe SGXT, min and max IMNMX, abs IABS, cvt I2F and F2I (PTX ISA 9.1, sections 9.7.1 to 9.7.9).
"""

import re
from fractions import Fraction

import numpy as np

ONES = (1 << 32) - 1


def signed(value, bits=32):
    """A number of two's complement."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


class Lane:
    """An instruction's operands, outputs apart; registers by name, parameters by their place."""

    def __init__(self, text, values):
        plain = re.sub(r"\bU(?=[A-Z])", "", text)
        opcode, _, rest = plain.partition(" ")
        self.stem, *modifiers = opcode.split(".")
        self.modifiers, self.sources, self.values, self.outputs = {*modifiers}, rest.split(", "), values, []
        while self.sources[0] in ("R10", "P3", "P4") or self._nowhere(self.sources[0]):
            self.outputs.append(self.sources.pop(0))

    def _nowhere(self, name):
        if name == "PT":
            return (self.stem == "SHFL" and not self.outputs) or (self.stem == "ISETP" and len(self.outputs) == 1)
        return name == "RZ" and self.outputs == ["P3"] and self.stem == "LOP3"

    def has(self, *modifiers):
        return self.modifiers.issuperset(modifiers)

    def words(self, source, count=1):
        """A number of so many words, with its sign."""
        name = source.lstrip("-~!")
        if re.fullmatch("-?0x[0-9a-f]+", source):
            value = int(source, 16)
        elif name in ("RZ", "PT"):
            value = int(name == "PT")
        elif name[0] == "c":
            place = int(name[-6:-1], 16)
            value = sum(self.values[place + 4 * j] << 32 * j for j in range(count))
        elif name[0] == "P":
            value = self.values[name]
        else:
            value = sum(self.values[f"R{int(name[1:]) + j}"] << 32 * j for j in range(count))
        if "0x" not in source or name[0] == "c":
            value = {"-": -value, "~": ~value, "!": 1 - value}.get(source[0], value)
        return value & (1 << 32 * count) - 1

    def all(self, count=1):
        return [self.words(source, count) for source in self.sources]


def computed(text, values):
    """By register what an instruction leaves in it; what is not documented is left out."""
    lane = Lane(text, values)
    found = {}
    for output, value in zip(lane.outputs, STEMS[lane.stem](lane), strict=False):
        if value is not None and output not in ("RZ", "PT"):
            wide = output[0] == "R" and (lane.has("64") or lane.has("WIDE") or lane.stem == "CS2R")
            found[output] = value & (ONES if output[0] == "R" else 1)
            found |= {f"R{int(output[1:]) + 1}": value >> 32 & ONES} if wide else {}
    return found


def _move(lane):
    return [lane.words(lane.sources[0], 2 if lane.has("64") else 1)]


def _add(lane):
    count = 2 if lane.has("64") else 1
    terms = lane.all(count)
    total = sum(terms)
    negated = any(source[0] in "-~" and source[1] == "R" for source in lane.sources)
    carries = total >> 32 * count
    outputs = len(lane.outputs) - 1
    if negated or outputs == 0:
        return [total]
    nonzero = sum(source != "RZ" for source in lane.sources[:3])
    if outputs == 1:
        return [total, carries if nonzero < 3 and carries < 2 else None]
    return [total, *[None if carries == 1 else carries // 2] * 2]


def _multiply_add(lane):
    if "-" in "".join(lane.sources[:2]).replace("-0x", "") and lane.has("WIDE"):
        return []
    number = (lambda value: value) if lane.has("U32") else signed
    a, b = (number(lane.words(source)) for source in lane.sources[:2])
    both = lane.has("WIDE") or lane.has("HI")
    total = a * b + lane.words(lane.sources[2], 2 if both else 1) + sum(map(lane.words, lane.sources[3:]))
    return [total >> 32 if lane.has("HI") else total]


def _scaled_add(lane):
    a, b, *rest = lane.all()
    shift = rest[-1] if not lane.has("X") else rest[-2]
    if lane.has("X"):
        return [((rest[0] << 32 | a) << shift >> 32) + b + rest[-1]]
    if lane.has("HI"):
        return [((signed(a) if lane.has("SX32") else a) << shift >> 32) + b]
    total = (a << shift & ONES) + b
    return [total, None if lane.sources[0][0] == "-" else total >> 32]


def _logic(lane):
    a, b, c, table = lane.all()[:4]
    found = sum((table >> (a >> j & 1) * 4 + (b >> j & 1) * 2 + (c >> j & 1) & 1) << j for j in range(32))
    return [found] if len(lane.outputs) == 1 else [int(found != 0), found]


def _predicate_logic(lane):
    a, b, c, *tables = lane.all()
    return [table >> 4 * a + 2 * b + c & 1 for table in tables]


def _shift(lane):
    low, count, high = lane.all()
    count = min(count, 64)  # clamped, as shl and shr have it
    bits = 64 if lane.has("U64") or lane.has("S64") else 32
    if lane.has("L"):
        value = (high << 32 | low) << count
        return [value >> 32 if lane.has("HI") else value]
    value = high << 32 | low if bits == 64 else high
    value = signed(value, bits) if lane.has("S64") or lane.has("S32") else value
    return [value >> (32 if lane.has("HI") and bits == 64 else 0) >> count]


def _permute(lane):
    a, selector, c = lane.all()
    both = c << 32 | a
    return [sum((both >> 8 * (selector >> 4 * j & 15) & 255) << 8 * j for j in range(4))]


def _select(lane):
    a, b = (lane.words(source, 2 if lane.has("64") else 1) for source in lane.sources[:2])
    return [a if lane.words(lane.sources[2]) else b]


def _extend(lane):
    value, width = lane.all()
    return [value & (1 << width) - 1 if lane.has("U32") else signed(value, width)]


def _compare(lane):
    a, b, c = lane.all()
    a, b = (a, b) if lane.has("U32") else (signed(a), signed(b))
    truths = {"LT": a < b, "EQ": a == b, "LE": a <= b, "GT": a > b, "NE": a != b, "GE": a >= b}
    truth = next(truths[m] for m in lane.modifiers if m in truths)
    joined = {"AND": lambda p: p & c, "OR": lambda p: p | c, "XOR": lambda p: p ^ c}
    join = next(joined[m] for m in lane.modifiers if m in joined)
    return [join(int(truth)), join(int(not truth))]


def _least(lane):
    a, b, least = lane.all()
    return [(min if least else max)(a, b, key=(lambda v: v) if lane.has("U32") else signed)]


def _constant(lane):
    high, low = (int(np.float16(text).view(np.uint16)) for text in lane.sources[2:])
    return [high << 16 | low]


def _to_float(lane):
    kind = next((m for m in ("U32", "S16", "U16", "S8", "U8") if lane.has(m)), "S32")
    bits, word = int(kind[1:]), lane.words(lane.sources[0])
    number = signed(word, bits) if kind[0] == "S" else word & (1 << bits) - 1
    size = max(abs(number).bit_length() - 24, 0)
    below = number >> size << size
    ends = below, below + (1 << size)
    up = {"RP": True, "RM": False, "RZ": number < 0}
    rounded = next((up[m] for m in lane.modifiers if m in up), None)
    if rounded is None:
        twice = 2 * (number - below) - (1 << size)
        rounded = twice > 0 or (twice == 0 and below >> size & 1)
    return [int(np.float32(ends[bool(rounded) and number != below]).view(np.uint32))]


def _to_integer(lane):
    number = np.uint32(lane.words(lane.sources[0])).view(np.float32)
    if np.isnan(number):
        return [0]
    return [max(0, min(ONES, int(Fraction(float(number))))) if np.isfinite(number) else ONES * bool(number > 0)]


STEMS = {
    **dict.fromkeys(["MOV", "LDC", "LDCU"], _move),
    **dict.fromkeys(["IADD3", "IADD", "VIADD"], _add),
    "IMAD": _multiply_add, "LEA": _scaled_add, "LOP3": _logic, "PLOP3": _predicate_logic, "SHF": _shift,
    "PRMT": _permute, "SEL": _select, "SGXT": _extend, "ISETP": _compare, "HFMA2": _constant, "F2I": _to_integer,
    **dict.fromkeys(["I2F", "I2FP"], _to_float),
    **dict.fromkeys(["IMNMX", "VIMNMX"], _least),
    "IABS": lambda lane: [abs(signed(lane.all()[0]))],
    "CS2R": lambda lane: [0],
}  # fmt: skip
