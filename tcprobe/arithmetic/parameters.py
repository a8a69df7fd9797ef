"""The parameters of a multiply's arithmetic, as they are measured and saved.

`groups` says which products one sum takes in, sum after sum; what does not fit one goes through as C of the next.
A parameter that no case of the form can show is None and does not matter for its results.

Which forms are measured together: those that differ in m, n and layout alone, under the name of the first.

>>> from tcprobe.arithmetic.parameters import forms_alike, subject
>>> from tcprobe.isa.names import resolve
>>> subject(resolve("wgmma.mma_async.m64n128k16.f32.f16.f16").instruction)
'wgmma.mma_async.m64n8k16.f32.f16.f16'
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import FACTORS

BitCount = Annotated[int, msgspec.Meta(ge=0, le=64)]
ProductNumber = Annotated[int, msgspec.Meta(ge=0, lt=4096)]
LeastExponent = Annotated[int, msgspec.Meta(ge=-4096, le=4096)]
Rounding = Literal["toward zero", "nearest even"]
PlaceOfC = Literal["in the group", "after", "before"]
IN_GROUP: PlaceOfC = "in the group"
AFTER: PlaceOfC = "after"
BEFORE: PlaceOfC = "before"
TOWARD_ZERO: Rounding = "toward zero"
NEAREST: Rounding = "nearest even"


class Subnormals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether subnormal numbers of an operand count; None where its type has none that a case could show."""

    a: bool | None = True
    b: bool | None = True
    c: bool | None = True
    d: bool | None = True


class Arithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a form of floats. `fraction_bits` None: every product is added by itself, rounded once.

    A term is cut toward zero to a multiple of 2^(top - fraction_bits), top being the largest exponent of the group's
    products (sums of their factors' exponents) and of C, at least `exponent_floor`. `result_bits` is what is kept of a
    sum below its leading one. `unread_bits`: low bits of A and B that are not looked at. `overflow`: what a sum beyond
    the largest number becomes. `negative_zero`: whether a sum of negative zeros is one; all other zeros are positive.
    `normalized`: operands whose subnormals have the exponent of their leading bit, since they are converted to a wider
    type before the multiply; those of the others have the least exponent of normal numbers. `c`: C is a term of the
    first group; or is added after the last, or before: then each group is summed from zero and its sum added to C,
    group after group. `through_f32`: how a sum is rounded to f32 before that is rounded to D, a narrower type.
    `summed_first`: so many products next to each other are summed exactly; their sum, scaled, is one term, aligned by
    the exponents of its scales alone.
    """

    groups: tuple[tuple[ProductNumber, ...], ...]
    fraction_bits: BitCount | None
    result_bits: BitCount
    rounding: Rounding
    c: PlaceOfC = "in the group"
    exponent_floor: LeastExponent | None = None
    alignment: Literal["truncate"] = "truncate"
    subnormals: Subnormals = Subnormals()
    nan: str | None = None
    overflow: Literal["infinity", "largest"] | None = None
    negative_zero: bool | None = None
    unread_bits: BitCount = 0
    normalized: tuple[Literal["a", "b", "c"], ...] = ()
    through_f32: Rounding | None = None
    summed_first: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 1

    @property
    def products(self) -> int:
        """How many products there are in all."""
        return sum(map(len, self.groups))


class Integers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a form of integers or bits: what a sum beyond 32 bits becomes, without and with .satfinite."""

    overflow: Literal["wraps", "clamps"] = "wraps"
    satfinite: Literal["wraps", "clamps"] | None = None


class ElementTypes(msgspec.Struct, frozen=True):
    """Element types by operand, and PTX's bit operation of b1."""

    a: str
    b: str
    c: str
    d: str
    bit_op: str | None = None

    @property
    def is_float(self) -> bool:
        """Whether sums are floats."""
        return self.d.startswith("f")


def chained(products: int, group: int) -> tuple[tuple[int, ...], ...]:
    """Products in groups of so many, in order."""
    return tuple(tuple(range(at, min(at + group, products))) for at in range(0, products, group))


def types_of(instruction: Instruction) -> ElementTypes:
    """The element types of a multiply; a warpgroup's C has D's type."""
    operands = {operand.name: operand.type for operand in instruction.operands}
    a, b = (operands.get(name) or operands[f"{name}_smem"] for name in FACTORS)
    return ElementTypes(a, b, operands.get("c", operands["d"]), operands["d"], instruction.bit_op)


@cache
def forms_alike(family: str | None = None) -> MappingProxyType[str, tuple[Instruction, ...]]:
    """All forms of one arithmetic, by the first form's id; without forms in tensor memory, which have no probe.

    Those of a family are never alike to others.
    """
    by_kind: dict[object, list[Instruction]] = {}
    for row in inventory.instructions().values() if family is None else inventory.of_family(family):
        if row.multiplies and not row.unprobed:
            scales = tuple((scale.type, scale.rows * scale.cols) for scale in row.scales)
            kind = (row.family, types_of(row), row.shape.k, row.kind, scales)
            by_kind.setdefault(kind, []).append(row)
    return MappingProxyType({rows[0].id: tuple(rows) for rows in by_kind.values()})


def subject(instruction: Instruction) -> str:
    """The id under which a form's arithmetic is measured; UsageError if it has no probe."""
    found = _subjects(instruction.family).get(instruction.id)
    if found is None:
        why = instruction.unprobed or "it multiplies nothing"
        raise UsageError(f"{instruction.id} has no model of its arithmetic: {why}.")
    return found


@cache
def _subjects(family: str) -> dict[str, str]:
    return {row.id: first for first, rows in forms_alike(family).items() for row in rows}
