"""Products of a multiply, to the bit, by the arithmetic that was measured of its form.

Where an arch's was not measured, sm_90's stands in, which the report says.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.gemm import integers_of, multiplied_integers
from tcprobe.arithmetic.model import factor, multiplied, separate
from tcprobe.arithmetic.parameters import Arithmetic, ElementTypes, Integers, types_of
from tcprobe.emulate.report import Report
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve
from tcprobe.store import arithmetic
from tcprobe.store.choose import default


@lru_cache(maxsize=256)
def rule_of(form: str, arch: str) -> tuple[Instruction, ElementTypes, Arithmetic | Integers, str]:
    """The form, its types, its arithmetic, and the arch that this was measured on; UsageError where on none."""
    instruction = resolve(form).instruction
    found = arithmetic.find_model(instruction, arch, default())
    if found is not None:
        return instruction, types_of(instruction), found, arch
    return instruction, types_of(instruction), arithmetic.model(instruction, arithmetic.MEASURED), arithmetic.MEASURED


def noted_rule(form: str, arch: str, report: Report) -> tuple[ElementTypes, Arithmetic | Integers]:
    """The types and the arithmetic; the report says where it is another arch's."""
    instruction, types, rule, of = rule_of(form, arch)
    if of != arch:
        report.note(f"{instruction.id}: its arithmetic on {arch} was not measured; the bits are {of}'s")
    return types, rule


def multiply(types: ElementTypes, rule: Arithmetic | Integers, a: Any, b: Any, c: Any, satfinite: bool = False) -> Any:
    """D's bits: A (..., m, k), B (..., k, n), C (..., m, n), one multiply's k."""
    by_line = np.ascontiguousarray(np.swapaxes(b, -1, -2))
    if isinstance(rule, Integers):
        numbers = integers_of(types.a, a), integers_of(types.b, by_line), integers_of(types.c, c)
        return (multiplied_integers(types, rule, numbers, satfinite) & 0xFFFFFFFF).astype(np.uint32)
    if rule.fraction_bits is None:
        wide = (
            np.broadcast_to(a[..., :, None, :], (*c.shape, a.shape[-1])),
            np.broadcast_to(by_line[..., None, :, :], (*c.shape, a.shape[-1])),
        )
        return separate(types, rule, (*wide, c))
    first, second = factor("a", types.a, rule, a), factor("b", types.b, rule, by_line)
    factors = first.at((..., slice(None), None, slice(None))), second.at((..., None, slice(None), slice(None)))
    return multiplied(types, rule, factors, np.asarray(c, FORMATS[types.c].word))
