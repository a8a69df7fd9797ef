"""What machine code must show before a time counts: the loop has the opcodes that were written, as often as written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tcprobe.errors import ProbeError
from tcprobe.probes.experiment import TimedCode

# what a loop may have besides a form's own opcodes: its counter, moves between registers, logic on addresses
FREE = re.compile(
    r"NOP|U?BRA|BRX|U?ISETP|VIADD|U?IADD3|U?MOV|IMAD|U?LOP3|U?PRMT|U?SEL|BSSY|BSYNC|BREAK|WARPSYNC|VOTEU?|R2UR|U?LDC|"
    r"S2U?R|CS2R|U?PLOP3|U?SHF|U?LEA|P2R|R2P|RET|YIELD|FSEL|LEPC|ERRBAR|CCTL"
)
SPILLED = ("LDL", "STL")  # of spills; or arguments of a call, if `loop_opcodes` has them
MOVES = re.compile(r"(MOV|IMAD\.MOV|PRMT|SEL|LOP3)\b")
Counts = dict[str, int]


class Seen(NamedTuple):
    """Counts of opcodes in a timed loop, and beside it, between the readings of the clock."""

    loop: Counts
    beside: Counts

    @classmethod
    def from_code(cls, timed_code: TimedCode) -> Seen:
        """The opcodes of timed code, counted."""
        return cls(dict(Counter(timed_code.loop)), dict(Counter(timed_code.beside)))


def lines(timed_codes: Mapping[str, TimedCode]) -> list[str]:
    """Timed code by variant, as lines of text: "variant where opcode count"."""
    return [
        f"{variant} {where} {opcode} {count}"
        for variant, code in timed_codes.items()
        for where, counts in Seen.from_code(code)._asdict().items()
        for opcode, count in counts.items()
    ]


def parse_lines(opcode_lines: Sequence[str]) -> dict[str, Seen]:
    """The inverse of `lines`; a variant whose code has no opcodes is missing."""
    by_variant: dict[str, Seen] = {}
    for variant, where, opcode, count in (line.split(" ") for line in opcode_lines):
        counts = by_variant.setdefault(variant, Seen({}, {}))
        getattr(counts, where)[opcode] = int(count)
    return by_variant


def working_opcodes(counts: Mapping[str, int]) -> Counts:
    """The opcodes that do the work."""
    return {opcode: n for opcode, n in counts.items() if not FREE.fullmatch(stem(opcode))}


def stem(opcode: str) -> str:
    """An opcode without its modifiers."""
    return opcode.split(".", maxsplit=1)[0]


def prove(
    variant: str, counted: Seen, loop_opcodes: Mapping[str, int], around: Mapping[str, int] | None = None
) -> None:
    """Raises ProbeError unless the loop has exactly `loop_opcodes` and `around`, and none of the first is beside it.

    `around`: what the loop needs besides, such as waits; it may also occur beside the loop.
    """
    if not loop_opcodes:
        raise ProbeError(f"{variant}: one copy alone becomes nothing that works: it was taken out of the loop.")
    if any(stem(opcode) in SPILLED and opcode not in loop_opcodes for opcode in counted.loop):
        raise ProbeError(f"{variant}: the loop spills registers to memory.")
    expected_loop, counts = {**loop_opcodes, **(around or {})}, working_opcodes(counted.loop)
    if counts != expected_loop:
        raise ProbeError(
            f"{variant}: the loop should hold {_words(expected_loop)}, and its machine code has {_words(counts)}."
        )
    outside = {opcode for opcode in counted.beside if opcode in loop_opcodes}
    if outside:
        raise ProbeError(f"{variant}: {', '.join(sorted(outside))} also stands beside the loop.")


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{opcode} x {n}" for opcode, n in sorted(counts.items())) or "nothing that works"
