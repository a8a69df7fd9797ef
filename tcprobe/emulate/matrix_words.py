"""The words by which tcgen05 finds its matrices, read from PTX's text: of shared memory, of the instruction.

Written from PTX ISA 9.1, sections 9.7.16.4.1 (descriptor in shared memory), 9.7.16.4.2 (instruction descriptor) and
9.7.16.5 (canonical layouts), with no code in common with what prints kernels.

>>> import numpy as np
>>> word = SharedWord.read(0x4000404000010000)
>>> word.swizzle, word.stride, word.addresses(True, np.array([1]), np.array([16])).tolist()
(128, 1024, [128])
>>> InstructionWord.read("f16", 0x08400490).m, InstructionWord.read("f16", 0x08400490).a
(128, 'bf16')
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Bools, Ints

SWIZZLES = {0: 0, 1: -128, 2: 128, 4: 64, 6: 32}  # of bits 61 to 63; -128: 128 bytes in atoms of 32
FLOATS_NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": FLOATS_NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": FLOATS_NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
RESULTS = {"f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}
SCALES = {"mxf8f6f4": {1: "ue8m0"}, "mxf4": {1: "ue8m0"}, "mxf4nvf4": {0: "ue4m3", 1: "ue8m0"}}
FIXED = 0b001  # bits 46 to 48


class WrongWordError(ValueError):
    """Bits that PTX gives no meaning."""


def bits(word: int, low: int, count: int) -> int:
    """`count` bits of a word from `low` on."""
    return word >> low & (1 << count) - 1


class SharedWord(NamedTuple):
    """Bytes: `start`, `leading` and `stride` offsets, `swizzle` (0: none); the base offset in rows of 128 bytes."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @classmethod
    def read(cls, word: int) -> SharedWord:
        """The fields of 64 bits; WrongWordError for bits without a meaning."""
        if bits(word, 46, 3) != FIXED:
            raise WrongWordError(f"bits 46 to 48 of descriptor {word:#018x} are {bits(word, 46, 3)}, not {FIXED}")
        if bits(word, 53, 8) or bits(word, 14, 2) or bits(word, 30, 2):
            raise WrongWordError(f"descriptor {word:#018x} has bits set that have no meaning")
        if bits(word, 52, 1):
            raise WrongWordError("absolute leading addresses are not emulated")
        if bits(word, 61, 3) not in SWIZZLES:
            raise WrongWordError(f"swizzle {bits(word, 61, 3)} of descriptor {word:#018x} has no meaning")
        swizzle = SWIZZLES[bits(word, 61, 3)]
        if swizzle < 0:
            raise WrongWordError("a swizzle of 128 bytes in atoms of 32 is not emulated")
        return cls(bits(word, 0, 14) << 4, bits(word, 16, 14) << 4, bits(word, 32, 14) << 4, bits(word, 49, 3), swizzle)

    def addresses(self, k_major: bool, line: Ints, byte: Ints) -> Ints:
        """Shared addresses. k-major: of byte `byte` along k of a line; else of byte `byte` along lines, k `line`.

        The canonical layouts, in units of 16 bytes, 8 of the outer coordinate at a time:
        k-major, none      ((8, m), (1, 2k)) : ((1, SBO), (0, LBO))
        k-major, W bytes   ((8, m), (W/16)) : ((W/16, SBO), 1), and swizzled
        mn-major, none     ((1, m), (8, k)) : ((0, SBO), (1, LBO))
        mn-major, W bytes  ((W/16, m), (8, k)) : ((1, LBO), (W/16, SBO)), and swizzled
        """
        unit, inside = byte // 16, byte % 16
        eights, in_eight = line // 8, line % 8
        if not self.swizzle:
            outer, inner = (self.stride, self.leading) if k_major else (self.leading, self.stride)
            at = in_eight * 16 + eights * outer + unit * inner
        else:
            wide = self.swizzle // 16
            at = in_eight * self.swizzle + eights * self.stride + unit % wide * 16
            at = at + unit // wide * (0 if k_major else self.leading)
        return self.swizzled(self.start + at) + inside

    def swizzled(self, address: Ints) -> Ints:
        """Units of 16 bytes exchanged by the number of the row of 128 bytes that they stand in."""
        if not self.swizzle:
            return address
        mask = self.swizzle // 16 - 1
        return address ^ ((address // 128 - self.base) & mask) << 4


class InstructionWord(NamedTuple):
    """Sizes, types, whether A and B are k-major, signs; of scales their type and the byte where they begin."""

    kind: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    k_major_a: bool
    k_major_b: bool
    negate_a: bool
    negate_b: bool
    saturate: bool
    scale: str
    id_a: int
    id_b: int
    sparse: bool
    selector: int  # of metadata

    @property
    def scaled(self) -> bool:
        """Whether A and B have scales."""
        return self.kind in SCALES

    @property
    def stored(self) -> int:
        """Elements of a row of A in memory."""
        return self.k // 2 if self.sparse else self.k

    @classmethod
    def read(cls, kind: str, word: int) -> InstructionWord:
        """The fields of 32 bits to a kind; WrongWordError for bits without a meaning."""
        scaled, sparse, four = kind in SCALES, bool(bits(word, 2, 1)), kind in ("mxf4", "mxf4nvf4")
        selects = sparse and kind in ("f16", "tf32")
        reserved = [(3, 1), (6, 1), (24, 3)] if scaled else [(6, 1), (23, 1), (29, 1)]
        reserved += [(1, 1) if selects else (0, 2)]
        if any(bits(word, low, count) for low, count in reserved):
            raise WrongWordError(f"instruction descriptor {word:#010x} has bits set that have no meaning to {kind}")
        if scaled and bits(word, 31, 1):
            raise WrongWordError(
                f"instruction descriptor {word:#010x} says that K is 96, which is not emulated"
                if four
                else f"instruction descriptor {word:#010x} has bits set that have no meaning to {kind}"
            )

        def meaning(table: dict[int, str], low: int, count: int, what: str) -> str:
            code = bits(word, low, count)
            if code not in table:
                raise WrongWordError(f"{what} {code} of instruction descriptor {word:#010x} has no meaning to {kind}")
            return table[code]

        for name, low, of in (("A", 15, bits(word, 7, 3)), ("B", 16, bits(word, 10, 2 if four else 3))):
            if bits(word, low, 1) and TYPES[kind].get(of, "") in ("e2m1", "e2m3", "e3m2"):
                raise WrongWordError(
                    f"instruction descriptor {word:#010x}: {name} of {TYPES[kind][of]} is k-major only"
                )
        return cls(
            kind,
            bits(word, 27, 2) << 7 if scaled else bits(word, 24, 5) << 4,
            bits(word, 17, 6) << 3,
            {"f16": 16, "tf32": 8}.get(kind, 64 if four else 32) << sparse,
            meaning(TYPES[kind], 7, 3, "the type of A"),
            meaning(TYPES[kind], 10, 2 if four else 3, "the type of B"),
            "f32" if scaled else meaning(RESULTS[kind], 4, 2, "the type of D"),
            not bits(word, 15, 1),
            not bits(word, 16, 1),
            bool(bits(word, 13, 1)),
            bool(bits(word, 14, 1)),
            not scaled and bool(bits(word, 3, 1)),
            meaning(SCALES[kind], 23, 1, "the type of scales") if scaled else "",
            bits(word, 29, 2) if scaled else 0,
            bits(word, 4, 2) if scaled else 0,
            sparse,
            bits(word, 0, 1) if selects else 0,
        )


def zero_columns(word: int, m: int, n: int) -> Bools:
    """(n) which columns of B count as zeros; WrongWordError for bits without a meaning.

    PTX ISA 9.1, section 9.7.16.4.3: a run of columns that are used, a run of zeros, and so on, for each part of N. The
    section's table has the two spans exchanged; its three examples agree with the spans' names, as this does.

    >>> zero_columns(3 << 48 | 2 << 40 | 1 << 39, 128, 16).astype(int).tolist()
    [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0]
    """
    if bits(word, 36, 3) or bits(word, 62, 2):
        raise WrongWordError(f"zero-column mask {word:#018x} has bits set that have no meaning")
    if bits(word, 56, 6):
        raise WrongWordError("a zero-column mask that shifts columns is not emulated")
    if not bits(word, 39, 1):
        return np.zeros(n, np.bool_)
    zeros, used, parts = bits(word, 40, 8) + 1, bits(word, 48, 8) + 1, 128 // m
    column, made = np.arange(n // parts), []
    for part in range(parts):
        skipped, first = bits(word, 8 * part, 8), used if bits(word, 32 + part, 1) else 0
        if skipped >= (zeros if first else used):
            raise WrongWordError("a zero-column mask that skips more than its first span is not emulated")
        made.append((column + first + skipped) % (used + zeros) >= used)
    return np.concatenate(made)
