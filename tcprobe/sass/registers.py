"""Sets of registers: integers, bit by bit.

R0 to R254 are from bit 0, UR0 to UR254 from UNIFORM, P0 to P6 from PREDICATE, UP0 to UP6 from UNIFORM_PREDICATE. RZ, PT
and their like are in none.

>>> from tcprobe.sass.registers import names, run
>>> names(run("R", 28, 4) | run("UP", 0, 1))
['R28', 'R29', 'R30', 'R31', 'UP0']
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

UNIFORM, PREDICATE, UNIFORM_PREDICATE = 256, 512, 520
ALL_PREDICATES = 0x7F << PREDICATE
ALL_UNIFORM_PREDICATES = 0x7F << UNIFORM_PREDICATE
BASE = {"R": 0, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}  # the bit of the first register


def names(mask: int) -> list[str]:
    """The registers of a set by name."""
    found = []
    for prefix, base in BASE.items():
        found += [f"{prefix}{bit}" for bit in bits_of(mask >> base & ((1 << 255) - 1 if base < PREDICATE else 0x7F))]
    return found


def bits_of(mask: int) -> Iterator[int]:
    """The numbers of the bits of a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=1 << 12)
def bit_set(mask: int) -> frozenset[int]:
    """A set of registers as the numbers of its bits, which are looked up faster."""
    return frozenset(bits_of(mask))


def guard_mask(guard: str) -> int:
    """The predicate of a guard."""
    return 0 if guard in ("", "never") else 1 << guard_bit(guard)


@cache
def guard_bit(guard: str) -> int:
    """The predicate of a guard that names one."""
    kind = "UP" if "UP" in guard else "P"
    return BASE[kind] + int(guard.lstrip("!UP"))


def run(kind: str, index: int, count: int) -> int:
    """`count` registers in a row; none from RZ, PT."""
    return 0 if index < 0 else ((1 << count) - 1) << BASE[kind] + index
