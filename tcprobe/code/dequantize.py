"""From stored codes to a fragment's elements in few instructions: where the bits of codes are in a word, and the code.

>>> from tcprobe.code.dequantize import conversion
>>> from tcprobe.isa.arch import arch
>>> way = conversion("s4", "f16", arch("sm_80"))
>>> way.registers, way.instructions, way.places[1], way.flip
(4, 9, (16, 17, 18, 19), 8)
>>> way.lines[1]
'to[0] = subtract_f16(lop3(word, 0x000f000fu, 0x64006400u), 0x64086408u);'

A word of 32 bits holds the codes of whole registers. Codes are counted as the elements of these registers are, from the
low bits of the first on. Sources: PTX ISA 9.1, sections 9.7.1 (lop3, shf, prmt), 9.7.4 (f16x2, bf16x2; subnormals are
kept) and 9.7.9.21 (cvt). The exponent trick: bits below a fixed exponent are a number plus a power of two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tcprobe.errors import UsageError
from tcprobe.isa.arch import Arch, Target
from tcprobe.isa.dtypes import dtype

CodeBits = tuple[int, ...]  # where the bits of a code lie in its word, from its lowest on
WORD = 32
STORED = ("s4", "u4", "s8", "e4m3", "e2m1")  # what weights are stored as
# functions of one instruction: parameters, asm, operands after the output
FUNCTIONS = {
    "lop3": ("unsigned x, unsigned mask, unsigned more", "lop3.b32 %0, %1, %2, %3, 0xea;", "(x & mask) | more"),
    "choose": ("unsigned x, unsigned y, unsigned mask", "lop3.b32 %0, %1, %2, %3, 0xd8;", "y where mask is 1, else x"),
    "bytes": ("unsigned x, unsigned y, unsigned order", "prmt.b32 %0, %1, %2, %3;", "bytes of x and y; signs of them"),
    "rotate": ("unsigned x, unsigned by", "shf.l.wrap.b32 %0, %1, %1, %2;", "to the left"),
    "subtract_f16": ("unsigned x, unsigned y", "sub.rn.f16x2 %0, %1, %2;", ""),
    "times_f16": ("unsigned x, unsigned y", "mul.rn.f16x2 %0, %1, %2;", ""),
    "fma_f16": ("unsigned x, unsigned y, unsigned z", "fma.rn.f16x2 %0, %1, %2, %3;", "x y + z"),
    "fma_bf16": ("unsigned x, unsigned y, unsigned z", "fma.rn.bf16x2 %0, %1, %2, %3;", "x y + z"),
    "e4m3_f16": ("unsigned short x", "cvt.rn.f16x2.e4m3x2 %0, %1;", ""),
    "e2m1_f16": (
        "unsigned short x",
        "{.reg .b8 low, high; mov.b16 {low, high}, %1; cvt.rn.f16x2.e2m1x2 %0, low;}",
        "of its low byte",
    ),
}
MINUS_ZERO = 0x80008000  # of f16 and bf16 alike: x y + -0 is x y, signed zeros and all
E4M3 = Target("sm_89", "8.1")
E2M1 = Target("sm_100a", "8.6", (("sm_120a", "8.7"), ("sm_100f", "8.8"), ("sm_110f", "9.0"), ("sm_120f", "8.8")))


class Decoding(NamedTuple):
    """`lines` make `registers` registers, the array `to`, from a `word` whose codes are at `places`.

    A code is stored with the bits of `flip` inverted. `words` say how it is done; `needs` is the target of an
    instruction that not every arch has. `zeroed` are the lines where a zero point is taken off too, in place of the
    offset: {j:c} stands for register j's constant number c, and `zeros` make the constants from `zero`, which has the
    zero points, counted from the least code, in its halves. Both are empty where codes are no whole numbers.
    """

    source: str
    target: str
    registers: int
    places: tuple[CodeBits, ...]
    lines: tuple[str, ...]
    words: str
    flip: int = 0
    needs: Target | None = None
    zeroed: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()

    @property
    def codes(self) -> int:
        """Of a word."""
        return len(self.places)

    @property
    def instructions(self) -> int:
        """That a word takes, in PTX."""
        text = "\n".join(self.lines)
        return len(self.calls(text)) + len(re.findall(r"<<|>>|\+ 0x| [&^] ", text))

    @property
    def functions(self) -> tuple[str, ...]:
        """Which of FUNCTIONS the lines call."""
        return tuple(dict.fromkeys(self.calls("\n".join(self.lines))))

    @staticmethod
    def calls(text: str) -> list[str]:
        """Of FUNCTIONS, in order."""
        return re.findall(rf"\b({'|'.join(FUNCTIONS)})\(", text)


def conversion(source: str, target: str, device: Arch) -> Decoding:
    """The way from a stored type to an element's on an arch; UsageError where there is none, with those that are."""
    if source == target:
        return _same(source)
    convert = _WAYS.get((source, target))
    if convert is None:
        bits, most = dtype(source).bits, dtype(target).bits
        why = f"{source} has {bits} bits, {target} only {most}" if bits > most else "no conversion is known"
        raise UsageError(f"{source} cannot be stored for {target}: {why}; {target} takes {', '.join(sources(target))}.")
    return convert(source, target, device)


def sources(target: str) -> list[str]:
    """What may be stored for an element type; the type itself is the last."""
    own = [target] if target in STORED else []
    return [*(source for source, to in _WAYS if to == target), *own] or ["none of " + ", ".join(STORED)]


def targets(source: str) -> list[str]:
    """Which element types a stored type is converted to; itself the first."""
    return [source, *(to for stored, to in _WAYS if stored == source)]


def _offset(lines: Iterable[str], *constants: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines with {c} for constant c: with the constants, and as `zeroed` has them."""
    templates = tuple(lines)
    apart = tuple(re.sub(r"\{([0-9])\}", rf"{{{j}:\1}}", line) for j, line in enumerate(templates))
    return tuple(line.format(*constants) for line in templates), apart


def scaling(target: str) -> str:
    """A register times a register of scales, `x` and `y`: one instruction, rounded to nearest even."""
    return "times_f16(x, y)" if target == "f16" else f"fma_bf16(x, y, {MINUS_ZERO:#010x}u)"


def _linear(bits: int, count: int) -> tuple[CodeBits, ...]:
    return tuple(tuple(range(bits * j, bits * (j + 1))) for j in range(count))


def _same(source: str) -> Decoding:
    bits = dtype(source).bits
    return Decoding(source, source, 1, _linear(bits, WORD // bits), ("to[0] = word;",), "stored as it is multiplied")


def _halves() -> tuple[CodeBits, ...]:
    """Nibble j of the low half and nibble j of the high half are register j."""
    return tuple(tuple(range(4 * j + 16 * half, 4 * j + 16 * half + 4)) for j in range(4) for half in range(2))


def _twice(number: int) -> str:
    """The same 16 bits in both halves of a word."""
    return f"{number << 16 | number:#010x}u"


def _shift(left: int) -> str:
    return "word" if not left else f"word << {left}" if left > 0 else f"word >> {-left}"


def _nibbles_f16(source: str, target: str, device: Arch) -> Decoding:
    offset = 8 if source == "s4" else 0
    ends = (
        "subtract_f16({}, {{0}});",  # 1024 + code
        f"fma_f16({{}}, {_twice(0x2C00)}, {{{{1}}}});",  # (1024 + 16 code) / 16 - 64
    )
    masks = (0x000F, 0x00F0)
    words_of_pairs = [f"lop3({'top' if j > 1 else 'word'}, {_twice(masks[j % 2])}, {_twice(0x6400)})" for j in range(4)]
    assignments = (f"to[{j}] = " + ends[j % 2].format(pair) for j, pair in enumerate(words_of_pairs))
    lines, zeroed = _offset(assignments, _twice(0x6400 + offset), _twice(0xD400 + 16 * offset))
    top = "const unsigned top = word >> 8;"
    words = "nibbles interleaved for the exponent trick: lop3 makes 1024 + code, or 1024 + 16 code, of two at once"
    zeros = (f"zero | {_twice(0x6400)}", f"subtract_f16({_twice(0x6380)}, zero | {_twice(0x6400)})")  # 960 - (1024 + z)
    return Decoding(source, target, 4, _halves(), (top, *lines), words, offset, zeroed=(top, *zeroed), zeros=zeros)


def _nibbles_bf16(source: str, target: str, device: Arch) -> Decoding:
    offset = 8 if source == "s4" else 0
    assignments = (
        f"to[{j}] = fma_bf16(lop3({_shift(-4 * j)}, {_twice(0x000F)}, {_twice(0x4300)}), {_twice(0x3F80)}, {{0}});"
        for j in range(4)
    )
    lines, zeroed = _offset(assignments, _twice(0xC300 + offset))
    words = "nibbles interleaved for the exponent trick: lop3 makes 128 + code of two at once"
    zeros = (f"zero | {_twice(0xC300)}",)
    return Decoding(source, target, 4, _halves(), lines, words, offset, zeroed=zeroed, zeros=zeros)


def _bytes_f16(source: str, target: str, device: Arch) -> Decoding:
    assignments = (
        f"to[{j}] = subtract_f16(bytes(word, {_twice(0x6464)}, {order}), {{0}});"
        for j, order in enumerate(("0x4140u", "0x4342u"))
    )
    lines, zeroed = _offset(assignments, _twice(0x6480))
    words = "prmt puts the exponent of 1024 above a code: 1024 + code of two at once"
    zeros = (f"zero | {_twice(0x6400)}",)
    return Decoding(source, target, 2, _linear(8, 4), lines, words, 0x80, zeroed=zeroed, zeros=zeros)


def _bytes_bf16(source: str, target: str, device: Arch) -> Decoding:
    """The low 8 bits of bf16, one of the exponent among them, count in 2^-133; times 2^127 they count in 2^-6."""
    assignments = (
        f"to[{j}] = fma_bf16(fma_bf16(bytes(word, 0u, {order}), {_twice(0x7F00)}, {{0}}), {_twice(0x4280)}, "
        f"{MINUS_ZERO:#010x}u);"
        for j, order in enumerate(("0x4140u", "0x4342u"))
    )
    lines, zeroed = _offset(assignments, _twice(0xC000))
    words = "prmt leaves a code in the low byte, code / 2^133; fma makes code / 64 - 2 of it, and 64 times that"
    zeros = (f"fma_bf16(zero, {_twice(0xFF00)}, {MINUS_ZERO:#010x}u)",)  # -z / 64
    return Decoding(source, target, 2, _linear(8, 4), lines, words, 0x80, zeroed=zeroed, zeros=zeros)


class _Float(NamedTuple):
    """Of each register the lowest bit of the magnitude and that of the sign in a half; `low`: where it is to be.

    `factor` makes up for the exponent's bias.
    """

    fields: tuple[tuple[int, int], ...]
    low: int
    factor: int


_FLOATS = {
    ("e2m1", "f16"): _Float(((9, 15), (6, 12), (3, 14), (0, 13)), 9, 0x7400),  # 2^14
    ("e2m1", "bf16"): _Float(((6, 15), (3, 12), (9, 14), (0, 13)), 6, 0x7E80),  # 2^126
    ("e4m3", "f16"): _Float(((7, 15), (0, 14)), 7, 0x5C00),  # 2^8
    ("e4m3", "bf16"): _Float(((8, 15), (0, 7)), 4, 0x7B80),  # 2^120
}


def _by_bits(source: str, target: str, device: Arch) -> Decoding:
    way, size = _FLOATS[source, target], dtype(source).bits - 1
    places = tuple(
        (*range(low + 16 * half, low + 16 * half + size), sign + 16 * half)
        for low, sign in way.fields
        for half in range(2)
    )
    lines = tuple(
        f"to[{j}] = {_times(target, _move(way, field, size), way.factor)};" for j, field in enumerate(way.fields)
    )
    words = "sign and magnitude are moved to where the type has them; a multiplication makes up for the bias"
    return Decoding(source, target, len(way.fields), places, lines, words)


def _move(way: _Float, field: tuple[int, int], size: int) -> str:
    """Both halves' codes with their bits where the type has them."""
    (low, sign), mask = field, (1 << size) - 1 << way.low
    by, sign_by = way.low - low, 15 - sign
    if by == sign_by:
        return _mask(by, mask | 0x8000)
    return f"lop3({_shift(sign_by)}, {_twice(0x8000)}, {_mask(by, mask)})"


def _mask(left: int, mask: int) -> str:
    text = _shift(left)
    return f"{f'({text})' if left else text} & {_twice(mask)}"


def _times(target: str, text: str, factor: int) -> str:
    if target == "f16":
        return f"times_f16({text}, {_twice(factor)})"
    return f"fma_bf16({text}, {_twice(factor)}, {MINUS_ZERO:#010x}u)"


def _e4m3_f16(source: str, target: str, device: Arch) -> Decoding:
    if not E4M3.on(device):
        return _by_bits(source, target, device)
    lines = (
        "to[0] = e4m3_f16(static_cast<unsigned short>(word));",
        "to[1] = e4m3_f16(static_cast<unsigned short>(word >> 16));",
    )
    return Decoding(source, target, 2, _linear(8, 4), lines, "cvt of two codes at once", needs=E4M3)


def _e2m1_f16(source: str, target: str, device: Arch) -> Decoding:
    if not E2M1.on(device):
        return _by_bits(source, target, device)
    lines = tuple(f"to[{j}] = e2m1_f16(static_cast<unsigned short>({_shift(-8 * j)}));" for j in range(4))
    return Decoding(source, target, 4, _linear(4, 8), lines, "cvt of two codes at once", needs=E2M1)


def _u4_bytes(source: str, target: str, device: Arch) -> Decoding:
    places = tuple(tuple(range(8 * byte + 4 * j, 8 * byte + 4 * j + 4)) for j in range(2) for byte in range(4))
    lines = ("to[0] = word & 0x0f0f0f0fu;", "to[1] = (word >> 4) & 0x0f0f0f0fu;")
    return Decoding(source, target, 2, places, lines, "low and high nibbles of bytes are two registers")


def _s4_bytes(source: str, target: str, device: Arch) -> Decoding:
    """The second register's magnitudes lie in the byte before, so that one rotation brings its signs and them."""
    first = tuple((8 * byte, 8 * byte + 1, 8 * byte + 2, 8 * byte + 7) for byte in range(4))
    second = tuple((*((8 * byte - 4 + bit) % WORD for bit in range(3)), 8 * byte + 3) for byte in range(4))
    lines = (
        "const unsigned turned = rotate(word, 4u);",
        "to[0] = choose(word, bytes(word, 0u, 0xba98u), 0xf8f8f8f8u);",
        "to[1] = choose(turned, bytes(turned, 0u, 0xba98u), 0xf8f8f8f8u);",
    )
    words = "prmt spreads each code's sign over a byte, lop3 puts its low bits in"
    return Decoding(source, target, 2, first + second, lines, words)


_WAYS: dict[tuple[str, str], Callable[[str, str, Arch], Decoding]] = {
    ("s4", "f16"): _nibbles_f16,
    ("u4", "f16"): _nibbles_f16,
    ("s8", "f16"): _bytes_f16,
    ("e4m3", "f16"): _e4m3_f16,
    ("e2m1", "f16"): _e2m1_f16,
    ("s4", "bf16"): _nibbles_bf16,
    ("u4", "bf16"): _nibbles_bf16,
    ("s8", "bf16"): _bytes_bf16,
    ("e4m3", "bf16"): _by_bits,
    ("e2m1", "bf16"): _by_bits,
    ("s4", "s8"): _s4_bytes,
    ("u4", "s8"): _u4_bytes,
    ("u4", "u8"): _u4_bytes,
}
