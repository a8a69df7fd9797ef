"""Tensor-core opcodes: what a native multiply of each type becomes.

>>> from tcprobe.isa import inventory
>>> row = inventory.instructions()["mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"]
>>> is_native(row, ["QMMA.16832.F32.E4M3.E4M3"]), is_native(row, ["HMMA.16816.F32", "F2FP.F16.E4M3.UNPACK_B"])
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tcprobe.isa.instruction import Instruction

TENSOR = (
    "HMMA",
    "IMMA",
    "BMMA",
    "DMMA",
    "QMMA",
    "OMMA",
    "HGMMA",
    "IGMMA",
    "BGMMA",
    "QGMMA",
    "UTCHMMA",
    "UTCIMMA",
    "UTCQMMA",
    "UTCOMMA",
)
MOVES = ("LDSM", "STSM", "MOVM", "LDTM", "STTM", "UTCCP", "UTCSHIFT")
# what a tensor-core opcode of the type of A looks like
NATIVE = {
    "f16": r"HG?MMA\.(?!.*(BF16|TF32))",
    "bf16": r"HG?MMA\..*BF16",
    "tf32": r"HG?MMA\..*TF32",
    "f64": r"DMMA",
    **dict.fromkeys(("s8", "u8"), r"IG?MMA\..*[SU]8"),
    **dict.fromkeys(("s4", "u4"), r"IMMA\..*[SU]4"),
    "b1": r"BG?MMA",
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), r"QG?MMA"),
}
# the same where the kind decides
KIND = {
    **dict.fromkeys(("f16", "tf32"), r"UTCHMMA"),
    "i8": r"UTCIMMA",
    **dict.fromkeys(("f8f6f4", "mxf8f6f4"), r"(UTC)?QMMA"),
    **dict.fromkeys(("mxf4", "mxf4nvf4"), r"(UTC)?OMMA"),
}


def is_native(instruction: Instruction, opcodes: Collection[str]) -> bool:
    """Whether the tensor cores do a multiply in its own type, by the opcodes that it becomes."""
    own = KIND.get(instruction.kind or "") or NATIVE[instruction.type("a")]
    pattern = own + (rf"\..*{instruction.bit_op.upper()}" if instruction.bit_op else "")
    return bool(opcodes) and all(re.match(pattern, opcode) for opcode in opcodes)


def tensor(opcodes: Collection[str]) -> list[str]:
    """Those of some opcodes that the tensor cores do."""
    return [opcode for opcode in opcodes if opcode.split(".")[0] in TENSOR]
