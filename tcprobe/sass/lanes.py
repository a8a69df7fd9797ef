"""What the lanes of a warp hold in a register, as far as it follows from code.

A value of lane l is `(known[l] ^ u) + s`: u and s are not known, but the same in all lanes of a warp. u has bits of
`xor_unknown` alone, s bits of `add_unknown` alone. Bits of `unknown` are whatever they are, in every lane. So a base
address that a kernel is given, the stage of a ring, an index of a loop leave the differences between lanes known, and
every operation here keeps what it can prove of them and loses the rest: nothing is guessed.

`known` has a row for each warp that is looked at and 32 columns, or one column where all lanes of a warp hold the same.

>>> import numpy as np
>>> lane = Lanes(np.arange(32, dtype=np.uint32)[None])
>>> row = add(shift_left(lane, 7), UNKNOWN)                      # pitch of 128 bytes from a base that is not known
>>> bitwise(0x3C, row, constant(16), constant(0)).why              # exclusive or of such a sum with 16
'bits of a sum with what is not known'
>>> aligned = add(shift_left(lane, 7), shift_left(UNKNOWN, 7))
>>> bitwise(0x3C, aligned, constant(16), constant(0)).known[0, :3].tolist()
[16, 144, 272]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from tcprobe.layout.arrays import Bools, Words

ALL = 0xFFFFFFFF
XOR_AB, AND_AB, OR_AB = 0x3C, 0xC0, 0xFC  # tables of LOP3


class Lanes:
    """What a register holds; `why` says why bits are unknown. Equal to itself alone: see `shared`."""

    __slots__ = ("add_unknown", "known", "unknown", "why", "xor_unknown")

    def __init__(
        self, known: Words, xor_unknown: int = 0, add_unknown: int = 0, unknown: int = 0, why: str = ""
    ) -> None:
        self.known, self.xor_unknown, self.add_unknown, self.unknown, self.why = (
            known,
            xor_unknown,
            add_unknown,
            unknown,
            why,
        )

    @property
    def uniform(self) -> bool:
        """Whether all lanes of a warp hold the same."""
        return self.known.shape[1] == 1 and not self.unknown

    @property
    def exact(self) -> bool:
        """Whether every lane's value is known."""
        return not (self.xor_unknown or self.add_unknown or self.unknown)


def shared(value: Lanes) -> Lanes:
    """The one object for all equal values, while it is remembered, by which results can be looked up."""
    known = value.known
    return _shared(known.tobytes(), known.shape[1], value.xor_unknown, value.add_unknown, value.unknown, value.why)


@lru_cache(maxsize=1 << 14)
def _shared(known: bytes, columns: int, *masks_and_why: Any) -> Lanes:
    return Lanes(np.frombuffer(known, np.uint32).reshape(-1, columns), *masks_and_why)


@lru_cache(maxsize=1 << 12)
def constant(value: int) -> Lanes:
    """The same number in all lanes."""
    return Lanes(np.full((1, 1), value & ALL, np.uint32))


UNKNOWN = Lanes(np.zeros((1, 1), np.uint32), add_unknown=ALL)
CHOICE = Lanes(np.zeros((1, 1), np.uint32), add_unknown=1)  # a predicate that all lanes of a warp share
_ZERO = np.zeros((1, 1), np.uint32)


def unknown(why: str, bits: int = ALL) -> Lanes:
    """A value of which nothing is known, for a reason."""
    return Lanes(_ZERO, unknown=bits, why=why)


def made(known: Words, xor_unknown: int = 0, add_unknown: int = 0, gone: int = 0, why: str = "") -> Lanes:
    """A value in its one form: equal columns are one; what xor_unknown in all lanes alike is a step."""
    if known.shape[1] > 1 and bool((known == known[:, :1]).all()):
        known = known[:, :1]
    if gone:
        gone |= _upward(gone) if add_unknown else 0
        known, xor_unknown, add_unknown = known & np.uint32(~gone & ALL), xor_unknown & ~gone, add_unknown & ~gone
    if xor_unknown:
        alike = xor_unknown & (_upward(add_unknown) if add_unknown else ALL) & ~_varying(known)
        if known.shape[1] == 1 or alike:
            alike = xor_unknown if known.shape[1] == 1 else alike
            known, xor_unknown, add_unknown = (
                known & np.uint32(~alike & ALL),
                xor_unknown & ~alike,
                _sum(add_unknown, alike),
            )
    if add_unknown:
        if add_unknown == _upward(add_unknown):
            known = known - (known.min(axis=1, keepdims=True) & np.uint32(add_unknown))
        if known.shape[1] == 1:
            add_unknown = _carried(known, add_unknown)
            known = known & np.uint32(~add_unknown & ALL)
    if gone:
        known, add_unknown = known & np.uint32(~gone & ALL), add_unknown & ~gone
    return Lanes(known, xor_unknown, add_unknown, gone, why if gone else "")


def _carried(fixed: Words, mask: int) -> int:
    """The bits that are not certain in fixed + (any bits of mask)."""
    total = fixed + np.uint32(mask)
    return _union(total ^ fixed) | mask


def _sum(first: int, second: int) -> int:
    """The bits that a sum of any bits of both masks may have."""
    return ((first + second) | first | second) & ALL if first and second else first | second


def _union(words: Words) -> int:
    return int(np.bitwise_or.reduce(words, axis=None))


def _varying(known: Words) -> int:
    """The bits that differ between lanes of a warp."""
    return _union(known ^ known[:, :1])


def _low(mask: int) -> int:
    """The lowest bit of a mask, as a number; 2^32 of none."""
    return mask & -mask if mask else 1 << 32


def _upward(mask: int) -> int:
    """All bits from the lowest of a mask on."""
    return -_low(mask) & ALL


def as_bits(value: Lanes) -> Lanes | None:
    """The same without add_unknown, where no step can carry into a bit that lanes have; None where one may."""
    if not value.add_unknown:
        return value
    if value.add_unknown & (_union(value.known) | value.xor_unknown):
        return None
    return Lanes(value.known, value.xor_unknown | value.add_unknown & ~value.unknown, 0, value.unknown, value.why)


def _reason(*values: Lanes) -> str:
    return next((value.why for value in values if value.why), "")


def unless_alike(why: str, *inputs: Lanes) -> Lanes:
    """The result of a function of the inputs that is not followed: unknown, but alike where they are."""
    if all(value.uniform for value in inputs):
        return UNKNOWN
    return unknown(_reason(*inputs) or why)


def add(a: Lanes, b: Lanes) -> Lanes:
    """a + b."""
    if a.exact and b.exact:
        return made(a.known + b.known)
    gone = _upward(a.unknown) | _upward(b.unknown)
    why = _reason(a, b)
    if a.known.shape[1] == 1 and not a.xor_unknown:
        a, b = b, a
    if not a.xor_unknown and not b.xor_unknown:
        return made(a.known + b.known, 0, _sum(a.add_unknown, b.add_unknown), gone, why)
    if b.known.shape[1] == 1 and not b.xor_unknown:
        return _shifted(a, b, gone, why)
    ours, theirs = as_bits(a), as_bits(b)
    if ours and theirs and not (_union(ours.known) | ours.xor_unknown) & (_union(theirs.known) | theirs.xor_unknown):
        return made(ours.known | theirs.known, ours.xor_unknown | theirs.xor_unknown, 0, gone, why)
    gone |= _upward(a.xor_unknown | b.xor_unknown)
    why = why or "a sum of two lane-dependent values, one of them exclusive-ored with what is not known"
    return made(a.known + b.known, 0, _sum(a.add_unknown, b.add_unknown), gone, why)


def carry(*values: Lanes) -> Lanes:
    """How often the sum of all exceeds 32 bits."""
    if all(value.exact for value in values):
        total = sum((value.known.astype(np.uint64) for value in values), np.zeros((1, 1), np.uint64))
        return made((total >> np.uint64(32)).astype(np.uint32))
    if sum(map(_most, values)) <= ALL:
        return constant(0)
    bits = (1 << (len(values) - 1).bit_length()) - 1
    if all(value.uniform for value in values):
        return made(_ZERO, 0, bits)
    return unknown(_reason(*values) or "a carry of a value that is not known", bits)


def _most(value: Lanes) -> int:
    """The largest number that a value may be."""
    return int(value.known.max()) + value.xor_unknown + value.add_unknown + value.unknown


def _shifted(a: Lanes, b: Lanes, gone: int, why: str) -> Lanes:
    """a + b of a value with xor_unknown and one that is alike in all lanes."""
    number = _union(b.known)
    if _low(number) > a.xor_unknown:
        return made(a.known + b.known, a.xor_unknown, _sum(a.add_unknown, b.add_unknown), gone, why)
    if not number & (_union(a.known) | a.xor_unknown) and not a.add_unknown:
        return made(a.known | b.known, a.xor_unknown, b.add_unknown, gone, why)
    return made(a.known, a.xor_unknown, _sum(_sum(a.add_unknown, b.add_unknown), number), gone, why)


def complement(a: Lanes) -> Lanes:
    """~a."""
    if a.add_unknown and as_bits(a) is None and not a.xor_unknown:
        return made(~a.known, 0, _upward(a.add_unknown), a.unknown, a.why)
    return bitwise(0x0F, a, constant(0), constant(0))


@lru_cache(maxsize=1 << 11)
def inverse(a: Lanes) -> Lanes:
    """A predicate that is true where another one is false."""
    return bitwise(XOR_AB, a, constant(1), constant(0))


def negative(a: Lanes) -> Lanes:
    """-a."""
    if a.xor_unknown:
        return add(complement(a), constant(1))
    return made(np.uint32(0) - a.known, 0, _upward(a.add_unknown) if a.add_unknown else 0, _upward(a.unknown), a.why)


def multiply(a: Lanes, b: Lanes) -> Lanes:
    """The low 32 bits of a * b."""
    if a.exact and b.exact:
        return made(a.known * b.known)
    if b.exact and b.known.shape == (1, 1):
        return _times(a, int(b.known[0, 0]))
    if a.exact and a.known.shape == (1, 1):
        return _times(b, int(a.known[0, 0]))
    zeros = _low(_union(a.known) | a.xor_unknown | a.add_unknown | a.unknown) * _low(
        _union(b.known) | b.xor_unknown | b.add_unknown | b.unknown
    )
    bits = -zeros & ALL if zeros <= ALL else 0
    if a.uniform and b.uniform:
        return made(_ZERO, 0, bits)
    return unknown(_reason(a, b) or "a lane-dependent value times one that is not known", bits)


def _times(a: Lanes, factor: int) -> Lanes:
    if factor & (factor - 1) == 0:
        return shift_left(a, factor.bit_length() - 1) if factor else constant(0)
    zeros = _low(factor)
    add_unknown = (
        -_low(a.add_unknown) * zeros & (1 << (a.add_unknown * factor).bit_length()) - 1 & ALL if a.add_unknown else 0
    )
    gone = -_low(a.unknown) * zeros & ALL if a.unknown else 0
    why = a.why
    if a.xor_unknown:
        gone |= -_low(a.xor_unknown) * zeros & ALL
        why = why or "a multiple of a value exclusive-ored with what is not known"
    return made(a.known * np.uint32(factor), 0, add_unknown, gone, why)


def shift_left(a: Lanes, count: int) -> Lanes:
    """a << count."""
    if count > 31:
        return constant(0)
    xor_unknown, add_unknown, gone = (mask << count & ALL for mask in (a.xor_unknown, a.add_unknown, a.unknown))
    return made(a.known << np.uint32(count), xor_unknown, add_unknown, gone, a.why)


def shift_right(a: Lanes, count: int, signed: bool = False) -> Lanes:
    """a >> count."""
    if count > 31:
        if not signed:
            return constant(0)
        count = 31
    if signed and a.exact:
        return made((a.known.view(np.int32) >> np.int32(count)).view(np.uint32))
    bits = as_bits(a)
    if bits and (not signed or not (_union(bits.known) | bits.xor_unknown | bits.unknown) >> 31):
        return made(bits.known >> np.uint32(count), bits.xor_unknown >> count, 0, bits.unknown >> count, a.why)
    fits = int(a.known.max()) + a.xor_unknown + a.add_unknown < 1 << (31 if signed else 32)
    if fits and not a.unknown and 1 << count <= _low(a.add_unknown):
        return made(a.known >> np.uint32(count), a.xor_unknown >> count, a.add_unknown >> count)
    if a.uniform:
        return UNKNOWN if signed else made(_ZERO, 0, ALL >> count)
    why = _reason(a) or "a shift of a sum with what is not known"
    return unknown(why, ALL if signed else ALL >> count)


def bitwise(table: int, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Each bit of the result is that of `table` at the bits of a, b, c, as LOP3 does it."""
    inputs = [value if _depends(table, j) else constant(0) for j, value in enumerate((a, b, c))]
    if all(value.exact for value in inputs):
        return made(looked_up(table, [value.known for value in inputs]))
    bits = [as_bits(value) for value in inputs]
    whole = [value for value in bits if value is not None]
    return _by_bits(table, whole) if len(whole) == 3 else _split(table, inputs, bits)


def _depends(table: int, j: int) -> bool:
    """Whether the result depends on input j."""
    return any((table >> row & 1) != (table >> (row ^ 4 >> j) & 1) for row in range(8))


def looked_up(table: int, inputs: Sequence[Words]) -> Words:
    """Numbers whose bits are those of a table at the bits of three others."""
    a, b, c = inputs
    if table in _SIMPLE:
        return _SIMPLE[table](a, b)
    total: Words = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            total = total | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return total


_SIMPLE: dict[int, Callable[[Words, Words], Words]] = {
    XOR_AB: np.bitwise_xor,
    AND_AB: np.bitwise_and,
    OR_AB: np.bitwise_or,
}


def _by_bits(table: int, inputs: Sequence[Lanes]) -> Lanes:
    """As `bitwise`, of inputs without add_unknown: a bit is certain, xor_unknown in all lanes alike, or is unknown."""
    first = looked_up(table, [value.known for value in inputs])
    xor_unknown = gone = 0
    for flipped in _subsets([value.xor_unknown for value in inputs]):
        words = [value.known ^ np.uint32(mask) for value, mask in zip(inputs, flipped, strict=True)]
        result = looked_up(table, words)
        xor_unknown |= _union(result ^ first)
        gone |= _varying(result ^ first)
        for masks in _subsets([value.unknown for value in inputs]):
            others = [word ^ np.uint32(mask) for word, mask in zip(words, masks, strict=True)]
            gone |= _union(looked_up(table, others) ^ result)
    why = _reason(*inputs) or "bits of lanes under a mask that is not known"
    return made(first, xor_unknown & ~gone, 0, gone, why if gone else "")


def _subsets(masks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return product(*[(0, mask) if mask else (0,) for mask in masks])


def _split(table: int, inputs: Sequence[Lanes], bits: Sequence[Lanes | None]) -> Lanes:
    """As `bitwise`, where a sum is among the inputs: below its lowest step by bits, above if it is left as it is."""
    sums = [j for j, value in enumerate(bits) if value is None]
    low = min(_low(inputs[j].add_unknown) for j in sums) - 1
    high = ~low & ALL
    parts = [_masked(value or inputs[j], low) for j, value in enumerate(bits)]
    found = _by_bits(table, parts)
    below = _masked(as_bits(found) or found, low)  # what is alike in all lanes is a step of it, and a bit here
    j = sums[0]
    if len(sums) == 1:
        others = [value or inputs[j] for value in bits]
        ends = [_by_bits(table, [*others[:j], constant(end), *others[j + 1 :]]) for end in (0, ALL)]
        if all(not (end.xor_unknown | end.add_unknown | end.unknown) & high for end in ends):
            zeros, ones = ends[0].known & np.uint32(high), ends[1].known & np.uint32(high)
            if (zeros == ones).all():
                return made(below.known | zeros, below.xor_unknown, 0, below.unknown, below.why)
            if not zeros.any() and (ones == high).all():
                known = inputs[j].known & np.uint32(high) | below.known
                gone = inputs[j].unknown & high | below.unknown
                why = below.why or inputs[j].why
                return made(known, inputs[j].xor_unknown & high | below.xor_unknown, inputs[j].add_unknown, gone, why)
    why = _reason(*inputs) or "bits of a sum with what is not known"
    return made(below.known, below.xor_unknown, 0, below.unknown | high, why)


def _masked(value: Lanes, mask: int) -> Lanes:
    """Some bits of a value without add_unknown there."""
    return Lanes(value.known & np.uint32(mask), value.xor_unknown & mask, 0, value.unknown & mask, value.why)


def choose(condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """a where bit 0 of the condition is set, else b."""
    if condition.exact:
        return select(condition.known != 0, a, b)
    return join(a, b) if condition.uniform else mixed(a, b, condition.why)


def select(where: Bools, a: Lanes, b: Lanes) -> Lanes:
    """a in some lanes of some warps, b in the others."""
    if where.all():
        return a
    if not where.any():
        return b
    known = np.where(where, a.known, b.known)
    unsure = a.xor_unknown | b.xor_unknown | a.add_unknown | b.add_unknown
    if unsure and where.shape[1] > 1 and bool((where != where[:, :1]).any()):
        why = _reason(a, b) or "a choice by lane between values that are not known"
        return made(known, 0, 0, _upward(unsure) | a.unknown | b.unknown, why)
    return made(
        known, a.xor_unknown | b.xor_unknown, a.add_unknown | b.add_unknown, a.unknown | b.unknown, _reason(a, b)
    )


@lru_cache(maxsize=1 << 12)
def join(a: Lanes, b: Lanes) -> Lanes:
    """One of two values, the same one in all lanes of a warp."""
    if a is b:
        return a
    gone, why = a.unknown | b.unknown, _reason(a, b)
    step = a.known - b.known
    if not (a.xor_unknown or b.xor_unknown) and _alike(step):
        if not step.any():
            return made(a.known, 0, a.add_unknown | b.add_unknown, gone, why)
        less = step.view(np.int32) < 0
        far = _union(np.where(less, np.uint32(0) - step, step))
        lower = np.where(less, a.known, b.known)
        return made(lower, 0, _sum(a.add_unknown, far) | _sum(b.add_unknown, far), gone, why)
    flip = a.known ^ b.known
    uneven = _varying(np.broadcast_to(flip, np.broadcast_shapes(flip.shape, (1, 32))))
    if uneven:
        gone, why = gone | uneven, why or "values that differ by lane meet"
    return made(
        a.known, (a.xor_unknown | b.xor_unknown | _union(flip)) & ~gone, a.add_unknown | b.add_unknown, gone, why
    )


def _alike(words: Words) -> bool:
    return words.shape[1] == 1 or bool((words == words[:, :1]).all())


@lru_cache(maxsize=1 << 12)
def mixed(a: Lanes, b: Lanes, why: str = "") -> Lanes:
    """One of two values, in each lane its own."""
    gone = _union(a.known ^ b.known) | a.xor_unknown | b.xor_unknown | a.unknown | b.unknown
    if a.add_unknown or b.add_unknown:
        gone |= _upward(a.add_unknown | b.add_unknown)
    why = _reason(a, b) or why or "lanes come here by different ways"
    return made(a.known, 0, 0, gone, why) if gone else a


@lru_cache(maxsize=1 << 12)
def uneven(a: Lanes) -> Lanes:
    """A value of which each lane may hold another choice: those of different rounds of a loop."""
    return (
        a
        if a.exact
        else made(
            a.known, 0, 0, _upward(a.xor_unknown | a.add_unknown) | a.unknown, a.why or "lanes leave a loop one by one"
        )
    )


@lru_cache(maxsize=1 << 12)
def widened(a: Lanes) -> Lanes:
    """A value with all add_unknown from its lowest one on: what a loop adds, however often."""
    return made(a.known, a.xor_unknown, _upward(a.add_unknown), a.unknown, a.why) if a.add_unknown else a


def same(a: Lanes, b: Lanes) -> bool:
    """Whether two descriptions are equal."""
    if a is b:
        return True
    if (a.xor_unknown, a.add_unknown, a.unknown) != (b.xor_unknown, b.add_unknown, b.unknown):
        return False
    return a.known.shape == b.known.shape and bool((a.known == b.known).all())
