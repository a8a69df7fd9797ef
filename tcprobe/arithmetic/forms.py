"""Which forms are measured together: those that differ in m, n and layout alone, under the name of the first.

>>> from tcprobe.arithmetic.forms import subject, together
>>> from tcprobe.isa.names import resolve
>>> subject(resolve("wgmma.mma_async.m64n128k16.f32.f16.f16").instruction)
'wgmma.mma_async.m64n8k16.f32.f16.f16'
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from tcprobe.arithmetic.parameters import ElementTypes
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS

Alike = tuple[str, ElementTypes, int, str | None, tuple[tuple[str, int], ...]]


def types(instruction: Instruction) -> ElementTypes:
    """The element types of a multiply; a warpgroup's C has D's type."""
    operands = {operand.name: operand.type for operand in instruction.operands}
    a, b = (operands.get(name) or operands[f"{name}_smem"] for name in FACTORS)
    return ElementTypes(a, b, operands.get("c", operands["d"]), operands["d"], instruction.bit_op)


@cache
def together() -> MappingProxyType[str, tuple[Instruction, ...]]:
    """All forms of one arithmetic, by the first form's id; without forms in tensor memory, which have no probe."""
    by_kind: dict[Alike, list[Instruction]] = {}
    for row in inventory.instructions().values():
        if row.multiplies and not row.unprobed:
            by_kind.setdefault(_alike(row), []).append(row)
    return MappingProxyType({rows[0].id: tuple(rows) for rows in by_kind.values()})


def subject(instruction: Instruction) -> str:
    """The id under which a form's arithmetic is measured; UsageError if it has no probe."""
    found = _subjects().get(instruction.id)
    if found is None:
        why = instruction.unprobed or "it multiplies nothing"
        raise UsageError(f"{instruction.id} has no model of its arithmetic: {why}.")
    return found


def _alike(instruction: Instruction) -> Alike:
    scales = tuple((scale.type, scale.rows * scale.cols) for scale in instruction.scales)
    return instruction.family, types(instruction), instruction.shape.k, instruction.kind, scales


@cache
def _subjects() -> dict[str, str]:
    return {row.id: first for first, rows in together().items() for row in rows}
