"""How tensor-core opcodes are encoded: their 128 bits without registers, guard and scheduling.

nvdisasm's names vary by arch (DMMA.884 and DMMA.8x8x4 are one instruction), but bits do not: on all archs from sm_70 to
sm_121 an opcode has one encoding (sm_88 and sm_110 with ptxas 13.0, all others with 12.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tcprobe.sass.cubin import Code
from tcprobe.sass.decode import UnreadError
from tcprobe.sass.tensor_product import is_tensor, opcode_of

WIDTH, LINE_BYTES = 128, 16
REGISTERS = sum(0xFF << first for first in (16, 24, 32, 64))  # D, A, B and C
GUARD = 0xF << 12
SCHEDULING = (1 << WIDTH) - (1 << 105)  # stalls, barriers, reuse of operands
OPCODE = (1 << WIDTH) - 1 - (REGISTERS | GUARD | SCHEDULING)


class Encoded(NamedTuple):
    """The bits of an opcode in hexadecimal, one text for each step, and the mma forms that are this opcode alone."""

    bits: tuple[str, ...]
    forms: tuple[str, ...]


def encodings(codes: Iterable[Code], alone: Mapping[str, str]) -> dict[str, Encoded]:
    """The encoding of every tensor-core opcode by full name; `alone` has the opcode of forms that are just one."""
    encoded: dict[str, set[str]] = {}
    for code in {id(code): code for code in codes}.values():
        for opcode, bits in _lines(code):
            encoded.setdefault(opcode, set()).add(bits)
    forms = {opcode: tuple(sorted(i for i, o in alone.items() if o == opcode)) for opcode in encoded}
    return {opcode: Encoded(tuple(sorted(bits)), forms[opcode]) for opcode, bits in sorted(encoded.items())}


def _lines(code: Code) -> Iterable[tuple[str, str]]:
    """(full name, bits) of each tensor-core instruction whose operands are known."""
    for address, code_line in code.instructions.items():
        if is_tensor(code_line):
            start = address - code.start
            word = int.from_bytes(code.raw[start : start + LINE_BYTES], "little")
            try:
                yield opcode_of(code_line), f"{word & OPCODE:x}"
            except UnreadError:
                continue
